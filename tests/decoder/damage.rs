//! Cut, mutated and hostile files: an error or the right picture, quickly, and never a panic.

use crate::encode::*;
use crate::{decode, decode_within, refusal};
use forebay::ErrorKind;
use forebay::decoder::{Decoder, Limits, Pixels, probe};
use proptest::prelude::*;

fn kinds() -> Vec<Kind> {
    let base = Kind::COURSE;
    vec![
        base,
        Kind { progressive: true, ..base },
        Kind { restart: 2, ..base },
        Kind { progressive: true, restart: 3, subsampling: SUBSAMPLINGS[0], ..base },
        Kind { subsampling: SUBSAMPLINGS[3], ..base },
        Kind { arithmetic: true, ..base },
        Kind { arithmetic: true, progressive: true, ..base },
        Kind { lossless: true, ..base },
    ]
}

/// A file cut anywhere is refused as truncated, were it by one byte: what is missing may be a
/// marker or pixels, and arithmetic coding cannot tell.
#[test]
fn a_cut_file_is_refused() {
    for (i, kind) in kinds().into_iter().enumerate() {
        let bytes = jpeg(&picture(50, 38, 3), 50, 38, kind);
        for cut in 2..bytes.len() {
            let (kind, text) = refusal(&bytes[..cut]);
            assert_eq!(kind, ErrorKind::Decode, "{text}");
            assert!(text.starts_with("truncated JPEG"), "kind {i} cut at {cut}: {text}");
        }
    }
}

/// Stray bytes before the end marker keep the picture and are reported.
#[test]
fn stray_bytes_are_a_warning() {
    let bytes = jpeg(&picture(33, 20, 3), 33, 20, Kind::COURSE);
    let whole = decode(&bytes).unwrap().0;
    for stray in [&[0][..], &[0x7F, 1, 2], &[0; 500]] {
        let (pixels, info) = decode(&insert(&bytes, bytes.len() - 2, stray)).unwrap();
        assert!(pixels.bytes() == whole.bytes());
        // A byte or two may hide in libjpeg's bit buffer.
        assert!(info.warnings.len() == 1 || stray.len() < 8, "{:?}", info.warnings);
    }
    let (pixels, info) = decode(&[&bytes[..], &bytes].concat()).unwrap();
    assert!(pixels.bytes() == whole.bytes() && info.warnings.is_empty());
}

/// A scan that leaves a component out would give a picture with a gray plane.
#[test]
fn a_component_without_data_is_refused() {
    let kind = Kind { subsampling: SUBSAMPLINGS[0], ..Kind::COURSE };
    let mut bytes = jpeg(&picture(24, 24, 3), 24, 24, kind);
    let scan = segments(&bytes, 0xDA)[0].clone();
    let one = segment(0xDA, &[1, 1, 0x00, 0, 63, 0]);
    bytes.splice(scan, one);
    let (kind, text) = refusal(&bytes);
    assert_eq!(kind, ErrorKind::Decode);
    assert!(text.contains("JPEG"), "{text}");
}

/// `tests/odd` shows that nothing was taken or done before.
#[test]
fn limits_hold() {
    for kind in [Kind::COURSE, Kind { progressive: true, ..Kind::COURSE }] {
        let mut bytes = jpeg(&picture(16, 16, 3), 16, 16, kind);
        let marker = if kind.progressive { 0xC2 } else { 0xC0 };
        let frame = segments(&bytes, marker)[0].start;
        bytes[frame + 5..frame + 9].copy_from_slice(&[0xFF, 0xDC, 0xFF, 0xDC]);
        let mut pixels = Pixels::new();
        let error = Decoder::new(Limits::default()).decode(&bytes, &mut pixels).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit);
        assert!(error.message().contains("65500 x 65500"), "{error}");
        assert_eq!(pixels.width(), 0);
    }
    // Ten scans.
    let bytes = jpeg(&picture(100, 10, 3), 100, 10, Kind { progressive: true, ..Kind::COURSE });
    let limited = |limits: Limits| decode_within(limits, &bytes).map(drop);
    let all = Limits { pixels: 1000, bytes: bytes.len() as u64, scans: 10, work: 10_000 };
    limited(all).unwrap();
    for (limits, flag) in [
        (Limits { pixels: 999, ..all }, "--max-pixels"),
        (Limits { bytes: all.bytes - 1, ..all }, "--max-file-bytes"),
        (Limits { scans: 9, ..all }, "--max-scans"),
        (Limits { work: 9_999, ..all }, "--max-work"),
        (Limits { work: 999, ..all }, "--max-work"),
    ] {
        let error = limited(limits).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Limit, "{error}");
        assert!(error.message().contains(flag), "{error}");
    }
    let baseline = jpeg(&picture(100, 10, 3), 100, 10, Kind::COURSE);
    decode_within(Limits { work: 1000, bytes: u64::MAX, ..all }, &baseline).unwrap();
}

/// Where the damage lies is told to logs; the message has it in words.
#[test]
fn damage_has_a_place() {
    let bytes = jpeg(&picture(60, 60, 3), 60, 60, Kind { restart: 2, ..Kind::COURSE });
    let scan = segments(&bytes, 0xDA)[0].end;
    let at = (scan..).find(|&at| bytes[at] == 0xFF && bytes[at + 1] == 0xD3).unwrap();
    let mut wrong = bytes.clone();
    wrong[at + 1] = 0xD6;
    let error = decode(&wrong).err().unwrap();
    assert!(error.offset().unwrap().abs_diff(at as u64) < 16, "{error}");
    assert!(error.message().contains(&format!("near byte {} of", error.offset().unwrap())));
    let error = decode(&bytes[..at]).err().unwrap();
    assert_eq!(error.offset(), Some(at as u64));
    assert_eq!(decode(b"hello").err().unwrap().offset(), None);
}

/// Whatever a decoder met before, the next good image decodes as ever.
fn survives(bytes: &[u8]) {
    thread_local! {
        static GOOD: (Vec<u8>, Pixels) = {
            let bytes = jpeg(&picture(19, 17, 3), 19, 17, Kind::COURSE);
            let pixels = decode(&bytes).unwrap().0;
            (bytes, pixels)
        };
    }
    let limits = Limits { pixels: 1 << 20, ..Limits::default() };
    let mut decoder = Decoder::new(limits);
    let mut pixels = Pixels::new();
    let first = decoder.decode(bytes, &mut pixels).map(|info| (info, pixels.bytes().to_vec()));
    let header = probe(bytes);
    if let (Ok((info, _)), Ok(header)) = (&first, &header) {
        assert_eq!(info.format, header.format);
        assert_eq!(header.upright_size(), (pixels.width(), pixels.height()));
    }
    GOOD.with(|(good, expected)| {
        decoder.decode(good, &mut pixels).unwrap();
        assert!(pixels.bytes() == expected.bytes());
    });
    let again = decoder.decode(bytes, &mut pixels).map(|info| (info, pixels.bytes().to_vec()));
    match (first, again) {
        (Ok(first), Ok(again)) => assert!(first == again),
        (Err(first), Err(again)) => assert_eq!(first.to_string(), again.to_string()),
        (first, again) => panic!("{first:?} then {again:?}"),
    }
}

#[test]
fn cut_headers_are_refused() {
    let bytes = with_orientation(&jpeg(&picture(9, 9, 3), 9, 9, Kind::COURSE), 6, true);
    let scan = segments(&bytes, 0xDA)[0].end;
    for cut in 0..scan - 10 {
        assert!(probe(&bytes[..cut]).is_err(), "cut at {cut}");
        survives(&bytes[..cut]);
    }
    assert!(probe(&bytes).is_ok());
}

proptest! {
    #[test]
    fn mutated_files_never_panic(
        kind in 0..kinds().len(),
        (width, height) in (1_usize..40, 1_usize..40),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..6),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let mut bytes = jpeg(&picture(width, height, 3), width, height, kinds()[kind]);
        for (at, value) in edits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        survives(&bytes);
    }

    #[test]
    fn random_bytes_never_panic(mut bytes in prop::collection::vec(any::<u8>(), 0..600), start in 0..8) {
        let magics: [&[u8]; 8] = [
            b"", b"\xFF\xD8\xFF", b"\xFF\xD8\xFF\xE1\0\x20Exif\0\0II*\0", b"\x89PNG\r\n\x1A\n",
            b"GIF89a", b"BM", b"II*\0", b"P6\n",
        ];
        bytes.splice(0..0, magics[start as usize].iter().copied());
        survives(&bytes);
    }
}
