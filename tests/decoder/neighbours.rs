//! JPEGs beside those that people met: the same oddity at other places, sizes and codings.
//!
//! Where a file leaves no doubt about its picture, its pixels are those of the plain file. Where it
//! does, an error is as good, but never other pixels.

use crate::encode::*;
use crate::{decode, refusal};
use forebay::ErrorKind;
use forebay::decoder::Pixels;
use std::ops::Range;

/// Each coding with and without restarts, in colour and gray.
fn kinds() -> Vec<Kind> {
    let base = Kind::COURSE;
    let gray = Kind { subsampling: SUBSAMPLINGS[3], ..base };
    let colour = [base, Kind { subsampling: SUBSAMPLINGS[0], ..base }, gray];
    let coded = |kind: Kind| {
        let progressive = Kind { progressive: true, ..kind };
        [kind, Kind { restart: 1, ..kind }, progressive, Kind { restart: 3, ..progressive }]
    };
    colour.into_iter().flat_map(coded).collect()
}

fn file(kind: Kind) -> Vec<u8> {
    jpeg(&picture(41, 27, 3), 41, 27, kind)
}

fn same(a: &Pixels, b: &Pixels) -> bool {
    (a.width(), a.height(), a.bytes()) == (b.width(), b.height(), b.bytes())
}

/// `bytes` must give the picture `whole`, and nothing is wrong with it.
fn is_whole(bytes: &[u8], whole: &Pixels, what: &str) {
    let (pixels, info) = decode(bytes).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert!(same(&pixels, whole), "{what}");
    assert!(info.warnings.is_empty(), "{what}: {:?}", info.warning_text());
}

/// `bytes` must give the picture `whole` or an error; whether it was the picture.
fn is_no_other(bytes: &[u8], whole: &Pixels, what: &str) -> bool {
    match decode(bytes) {
        Ok((pixels, _)) => {
            assert!(same(&pixels, whole), "{what}: other pixels");
            true
        }
        Err(error) => {
            assert!(error.message().contains("JPEG"), "{what}: {error}");
            false
        }
    }
}

/// Where markers that lead a segment, and markers in a scan, start; SOI is left out.
fn markers(jpeg: &[u8]) -> Vec<usize> {
    let (mut at, mut found) = (2, Vec::new());
    while at + 1 < jpeg.len() {
        found.push(at);
        match jpeg[at + 1] {
            0xD9 => break,
            0xD0..=0xD7 => at = next_marker(jpeg, at + 2),
            marker => {
                at += 2 + usize::from(u16::from_be_bytes([jpeg[at + 2], jpeg[at + 3]]));
                if marker == 0xDA {
                    at = next_marker(jpeg, at);
                }
            }
        }
    }
    found
}

/// The next marker of a scan's bytes.
fn next_marker(jpeg: &[u8], from: usize) -> usize {
    (from..jpeg.len() - 1).find(|&at| jpeg[at] == 0xFF && jpeg[at + 1] != 0).unwrap()
}

fn is_restart(jpeg: &[u8], at: usize) -> bool {
    matches!(jpeg[at + 1], 0xD0..=0xD7)
}

/// Each scan: its header and its bytes.
fn scans(jpeg: &[u8]) -> Vec<Range<usize>> {
    let markers = markers(jpeg);
    let end = |scan: usize| {
        *markers.iter().find(|&&at| at > scan && !is_restart(jpeg, at)).expect("EOI is the last")
    };
    markers.iter().filter(|&&at| jpeg[at + 1] == 0xDA).map(|&at| at..end(at)).collect()
}

#[test]
fn fill_bytes_before_any_marker_are_nothing() {
    for (i, kind) in kinds().into_iter().enumerate() {
        let bytes = file(kind);
        let whole = decode(&bytes).unwrap().0;
        for at in markers(&bytes) {
            for fill in [&[0xFF][..], &[0xFF; 5]] {
                is_whole(&insert(&bytes, at, fill), &whole, &format!("kind {i} at {at}"));
            }
        }
    }
}

/// Other segments hold what they like, between any two of a header.
#[test]
fn segments_that_nobody_knows_are_passed_over() {
    let bytes = file(Kind::COURSE);
    let whole = decode(&bytes).unwrap().0;
    let scan = segments(&bytes, 0xDA)[0].start;
    let mut payloads: Vec<Vec<u8>> = [0, 1, 5, 11, 13, 65533].map(|n| vec![0xA5; n]).into();
    payloads.extend([
        b"\xFF\xD9\xFF\xD8".to_vec(),
        b"JFXX\0\x13".to_vec(),
        b"Adobe\0\x64\0\0".to_vec(),
        b"ICC_PROFILE\0\x02\x02broken".to_vec(),
        b"Exif\0\0MM\0*\xFF\xFF\xFF\xFF".to_vec(),
        b"http://ns.adobe.com/xap/1.0/\0<x".to_vec(),
    ]);
    for marker in (0xE0..=0xEF).chain([0xFE]) {
        for payload in &payloads {
            for at in [2, scan] {
                let other = insert(&bytes, at, &segment(marker, payload));
                is_whole(&other, &whole, &format!("{marker:x} of {} at {at}", payload.len()));
            }
        }
    }
}

/// Stray bytes between a header's segments or behind a scan are a warning. In a scan, before a
/// restart marker, they are what a decoder that lost its way leaves over.
#[test]
fn stray_bytes_are_told_from_damage() {
    for (i, kind) in kinds().into_iter().enumerate() {
        let bytes = file(kind);
        let whole = decode(&bytes).unwrap().0;
        for at in markers(&bytes) {
            let other = insert(&bytes, at, &[0x12; 12]);
            if is_restart(&bytes, at) {
                let (kind, text) = refusal(&other);
                assert_eq!(kind, ErrorKind::Decode, "kind {i} at {at}: {text}");
            } else {
                let (pixels, info) = decode(&other).unwrap();
                assert!(same(&pixels, &whole), "kind {i} at {at}");
                let text = info.warning_text().unwrap();
                assert_eq!(text, "stray bytes before a marker");
            }
        }
    }
}

#[test]
fn damaged_restarts_are_never_passed_over() {
    for (i, kind) in kinds().into_iter().enumerate().filter(|(_, kind)| kind.restart > 0) {
        let bytes = file(kind);
        let whole = decode(&bytes).unwrap().0;
        for at in markers(&bytes).into_iter().filter(|&at| is_restart(&bytes, at)) {
            let what = format!("kind {i} at {at}");
            let without = [&bytes[..at], &bytes[at + 2..]].concat();
            is_no_other(&without, &whole, &what);
            is_no_other(&insert(&bytes, at, &bytes[at..at + 2]), &whole, &what);
            for other in 0..8 {
                let mut renumbered = bytes.clone();
                renumbered[at + 1] = 0xD0 + other;
                let same = is_no_other(&renumbered, &whole, &what);
                assert_eq!(same, renumbered == bytes, "{what}: RST{other}");
            }
        }
    }
}

/// A cut file that someone ended with a marker of their own. (Arithmetic coding is left out: its
/// decoders supply zeros behind the end, as its encoders leave them out, so nothing tells.)
#[test]
fn an_end_marker_does_not_make_a_cut_file_whole() {
    let lossless = Kind { lossless: true, subsampling: SUBSAMPLINGS[0], ..Kind::COURSE };
    for (i, kind) in kinds().into_iter().chain([lossless]).enumerate() {
        let bytes = file(kind);
        let whole = decode(&bytes).unwrap().0;
        let scan = segments(&bytes, 0xDA)[0].end;
        for cut in scan..bytes.len() - 2 {
            let ended = [&bytes[..cut], &[0xFF, 0xD9]].concat();
            let same = is_no_other(&ended, &whole, &format!("kind {i} cut at {cut}"));
            // The last bytes may be no more than padding.
            assert!(!same || cut + 4 > bytes.len() - 2, "kind {i} cut at {cut}");
        }
    }
}

/// Without one of its scans a progressive file is a blurred picture, of which libjpeg says nothing.
#[test]
fn a_missing_scan_is_noticed() {
    for kind in kinds().into_iter().filter(|kind| kind.progressive) {
        let bytes = file(kind);
        let scans = scans(&bytes);
        assert!(scans.len() >= 6, "{}", scans.len());
        for scan in &scans {
            let without = [&bytes[..scan.start], &bytes[scan.end..]].concat();
            let (kind, text) = refusal(&without);
            assert_eq!(kind, ErrorKind::Decode, "{text}");
        }
        for last in 1..scans.len() {
            let (kind, text) = refusal(&[&bytes[..scans[last].start], &[0xFF, 0xD9]].concat());
            assert_eq!(kind, ErrorKind::Decode, "{text}");
        }
    }
}

/// What a lone component says of its sampling is nothing to anyone.
#[test]
fn gray_has_no_sampling() {
    for progressive in [false, true] {
        for (width, height) in [(1, 1), (8, 8), (9, 17), (33, 49), (16, 5)] {
            let kind = Kind { subsampling: SUBSAMPLINGS[3], progressive, ..Kind::COURSE };
            let bytes = jpeg(&picture(width, height, 3), width, height, kind);
            let whole = decode(&bytes).unwrap().0;
            let frame = segments(&bytes, if progressive { 0xC2 } else { 0xC0 })[0].start;
            for (h, v) in [(1, 2), (2, 1), (2, 2), (3, 1), (4, 2), (4, 4)] {
                let mut other = bytes.clone();
                other[frame + 11] = h << 4 | v;
                is_whole(&other, &whole, &format!("{width} x {height} of {h} x {v}"));
            }
        }
    }
}

/// libjpeg's order: JFIF means YCbCr, else Adobe's flag counts, else the components' ids.
#[test]
fn who_says_what_the_colours_are() {
    let kind = Kind { subsampling: SUBSAMPLINGS[0], ..Kind::COURSE };
    let jfif = file(kind);
    let frame = segments(&jfif, 0xC0)[0].start;
    let scan = segments(&jfif, 0xDA)[0].start;
    let file = |ids: &[u8; 3], with_jfif: bool, adobe: Option<u8>| {
        let mut bytes = jfif.clone();
        for (i, &id) in ids.iter().enumerate() {
            bytes[frame + 10 + 3 * i] = id;
            bytes[scan + 5 + 2 * i] = id;
        }
        if !with_jfif {
            bytes = without(&bytes, 0xE0);
        }
        match adobe {
            Some(flag) => {
                let payload = [&b"Adobe\0\x64\0\0\0\0"[..], &[flag]].concat();
                let behind = if with_jfif { segments(&bytes, 0xE0)[0].end } else { 2 };
                insert(&bytes, behind, &segment(0xEE, &payload))
            }
            None => bytes,
        }
    };
    let ycc = decode(&jfif).unwrap().0;
    let rgb = decode(&file(b"RGB", false, Some(0))).unwrap().0;
    // As RGB the channels are the luma and the two differences.
    for (ycc, rgb) in ycc.bytes().chunks_exact(3).zip(rgb.bytes().chunks_exact(3)) {
        let red = f64::from(rgb[0]) + 1.402 * (f64::from(rgb[2]) - 128.0);
        assert!((red.clamp(0.0, 255.0) - f64::from(ycc[0])).abs() <= 1.0);
    }
    for ids in [&[1, 2, 3], &[0, 1, 2], &[5, 9, 200], b"RGB"] {
        for adobe in [None, Some(0), Some(1), Some(2), Some(77)] {
            for with_jfif in [false, true] {
                let is_rgb = !with_jfif && adobe.map_or(ids == b"RGB", |flag| flag == 0);
                let bytes = file(ids, with_jfif, adobe);
                let what = format!("ids {ids:?}, JFIF {with_jfif}, Adobe {adobe:?}");
                let (pixels, info) = decode(&bytes).unwrap();
                assert!(same(&pixels, if is_rgb { &rgb } else { &ycc }), "{what}");
                let odd = !with_jfif && adobe.is_some_and(|flag| flag > 1);
                assert_eq!(info.warning_text().is_some(), odd, "{what}");
            }
        }
    }
}

/// The same tables and frame, written in ways that fewer programs write.
#[test]
fn other_headers_of_the_same_picture() {
    let bytes = file(Kind::COURSE);
    let whole = decode(&bytes).unwrap().0;
    let frame = segments(&bytes, 0xC0)[0].start;
    let mut extended = bytes.clone();
    extended[frame + 1] = 0xC1;
    is_whole(&extended, &whole, "extended");

    let mut wide = bytes.clone();
    for table in segments(&bytes, 0xDB).into_iter().rev() {
        let mut payload = Vec::new();
        for table in bytes[table.start + 4..table.end].chunks(65) {
            payload.push(0x10 | table[0]);
            payload.extend(table[1..].iter().flat_map(|&step| [0, step]));
        }
        wide.splice(table, segment(0xDB, &payload));
    }
    is_whole(&wide, &whole, "quantisation steps of 16 bits");

    let tables = segments(&bytes, 0xC4).into_iter().flat_map(|table| {
        let (start, end) = (table.start + 4, table.end);
        bytes[start..end].to_vec()
    });
    let together = insert(&without(&bytes, 0xC4), 2, &segment(0xC4, &tables.collect::<Vec<_>>()));
    is_whole(&together, &whole, "Huffman tables in one segment");
}

#[test]
fn frames_that_are_none_are_refused() {
    let bytes = file(Kind::COURSE);
    let frame = segments(&bytes, 0xC0)[0].clone();
    let scan = segments(&bytes, 0xDA)[0].start;
    let edit = |at: usize, value: &[u8]| {
        let mut bytes = bytes.clone();
        bytes[at..at + value.len()].copy_from_slice(value);
        bytes
    };
    let cases = [
        ("no rows", edit(frame.start + 5, &[0, 0])),
        ("no columns", edit(frame.start + 7, &[0, 0])),
        ("no component", edit(frame.start + 9, &[0])),
        ("a component too many", edit(frame.start + 9, &[4])),
        ("two components", edit(frame.start + 9, &[2])),
        ("sampling of 0", edit(frame.start + 11, &[0x02])),
        ("sampling of 5", edit(frame.start + 11, &[0x51])),
        ("a length of 0", edit(frame.start + 2, &[0, 0])),
        ("a length of 1", edit(frame.start + 2, &[0, 1])),
        ("hierarchical", edit(frame.start + 1, &[0xC5])),
        ("two frames", insert(&bytes, frame.end, &bytes[frame.clone()])),
        ("another start", insert(&bytes, frame.end, &[0xFF, 0xD8])),
        ("an end before the scan", insert(&bytes, scan, &[0xFF, 0xD9])),
        ("no frame", without(&bytes, 0xC0)),
        ("no table of quantisation", without(&bytes, 0xDB)),
        ("16 bits", edit(frame.start + 4, &[16])),
        ("7 bits", edit(frame.start + 4, &[7])),
    ];
    for (name, bytes) in cases {
        let (kind, text) = refusal(&bytes);
        assert!(matches!(kind, ErrorKind::Decode | ErrorKind::Unsupported), "{name}: {text}");
        assert!(text.contains("JPEG"), "{name}: {text}");
    }
}
