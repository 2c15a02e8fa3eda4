//! Which images go to nvJPEG: only those whose markers leave no doubt.

use crate::encode::*;
use crate::shared::shared;
use forebay::decoder::{
    Decoder, Limits, Orientation, Pixels, Reason, Route, Rule, Subsampling, probe, route,
};
use proptest::prelude::*;
use std::collections::BTreeMap;

/// Everything that may go to nvJPEG does.
const OPEN: Rule = Rule { split: 0, exact: false, own: false, gpu: Ok(()), limits: LIMITS };
const LIMITS: Limits = Limits { pixels: 128_000_000, bytes: 256 << 20, scans: 100, work: u64::MAX };

fn reason(bytes: &[u8], rule: &Rule) -> Option<Reason> {
    match route(bytes, rule) {
        Route::Own(_) => panic!("only a decoder knows whether our own kernels can"),
        Route::Nvjpeg(_) => None,
        Route::Cpu(reason) => Some(reason),
    }
}

fn course(width: usize, height: usize) -> Vec<u8> {
    jpeg(&picture(width, height, 3), width, height, Kind::COURSE)
}

/// What our own kernels get where they may: no more pixels than the split, in all or between restart markers,
/// but any number where nvJPEG gets none.
#[test]
fn our_own_kernels_get_what_is_small() {
    let mut decoder = Decoder::new(LIMITS);
    let mut own = |bytes: &[u8], split, own| {
        matches!(decoder.route(bytes, &Rule { split, own, ..OPEN }), Route::Own(_))
    };
    let small = course(32, 32);
    assert!(own(&small, 1024, true) && !own(&small, 1023, true) && !own(&small, 1024, false));
    assert!(own(&course(64, 65), 4160, true) && !own(&course(64, 65), 4159, true));
    // Between two restart markers; MCUs have 16 x 16 pixels.
    let restarts = |restart| {
        let kind = Kind { restart, ..Kind::COURSE };
        jpeg(&picture(200, 150, 3), 200, 150, kind)
    };
    assert!(own(&restarts(16), 4096, true) && !own(&restarts(17), 4096, true));
    for (exact, gpu) in [(true, Ok(())), (false, Err(Reason::NoNvjpeg))] {
        let rule = Rule { split: 0, exact, own: true, gpu, limits: LIMITS };
        assert!(matches!(Decoder::new(LIMITS).route(&course(300, 200), &rule), Route::Own(_)));
    }
    let progressive = Kind { progressive: true, ..Kind::COURSE };
    assert!(!own(&jpeg(&picture(32, 32, 3), 32, 32, progressive), 4096, true));
    let limits = Limits { pixels: 1023, ..LIMITS };
    let rule = Rule { split: 4096, own: true, limits, ..OPEN };
    assert_eq!(Decoder::new(limits).route(&small, &rule), Route::Cpu(Reason::Small));
}

/// Every kind that libjpeg-turbo writes, at sizes around the edges of blocks and MCUs.
#[test]
fn each_kind_goes_its_way() {
    let kinds = [
        Some(Subsampling::C444),
        Some(Subsampling::C422),
        Some(Subsampling::C420),
        Some(Subsampling::Gray),
        Some(Subsampling::C440),
        None, // 4:1:1
        None, // 4:4:1
    ];
    for (width, height) in [(1, 1), (4, 9), (5, 9), (8, 8), (16, 17), (33, 5), (64, 48), (257, 131)]
    {
        let source = picture(width, height, 3);
        for (subsampling, expected) in SUBSAMPLINGS.into_iter().zip(kinds) {
            let halved = matches!(expected, Some(Subsampling::C422 | Subsampling::C420));
            let expected = expected.filter(|_| !(halved && width <= 4));
            for restart in [0, 1, 3, 1000] {
                for optimize in [false, true] {
                    let kind = Kind { subsampling, restart, optimize, ..Kind::COURSE };
                    let bytes = jpeg(&source, width, height, kind);
                    match (route(&bytes, &OPEN), expected) {
                        (Route::Nvjpeg(frame), Some(expected)) => {
                            assert_eq!((frame.width, frame.height), (width as u32, height as u32));
                            assert_eq!(frame.subsampling, expected);
                            assert_eq!(frame.components == 1, expected == Subsampling::Gray);
                            assert_eq!(frame.orientation, Orientation::UPRIGHT);
                        }
                        (found, expected) => {
                            assert_eq!(expected, None, "{width} x {height}, {subsampling}");
                            assert_eq!(found, Route::Cpu(Reason::Subsampling));
                        }
                    }
                    let with = |kind| jpeg(&source, width, height, kind);
                    let progressive = with(Kind { progressive: true, ..kind });
                    assert_eq!(reason(&progressive, &OPEN), Some(Reason::Progressive));
                    let arithmetic = with(Kind { arithmetic: true, optimize: false, ..kind });
                    assert_eq!(reason(&arithmetic, &OPEN), Some(Reason::Arithmetic));
                }
            }
        }
    }
    let source = picture(40, 30, 4);
    for ycck in [false, true] {
        let bytes = cmyk_jpeg(&source, 40, 30, ycck);
        assert_eq!(reason(&bytes, &OPEN), Some(Reason::Components));
    }
    let lossless = Kind { subsampling: SUBSAMPLINGS[0], lossless: true, ..Kind::COURSE };
    let lossless = jpeg(&picture(40, 30, 3), 40, 30, lossless);
    assert_eq!(reason(&lossless, &OPEN), Some(Reason::Extended));
}

/// What the rule says comes before what the image says.
#[test]
fn the_rule_decides() {
    let bytes = course(20, 10);
    for split in [0, 199] {
        assert_eq!(reason(&bytes, &Rule { split, ..OPEN }), None);
    }
    for split in [200, 4096, u64::MAX] {
        assert_eq!(reason(&bytes, &Rule { split, ..OPEN }), Some(Reason::Small));
    }
    let exact = Rule { exact: true, ..OPEN };
    assert_eq!(reason(&bytes, &exact), Some(Reason::Exact));
    for why in [Reason::Pipeline, Reason::NoGpu, Reason::NoNvjpeg] {
        let rule = Rule { gpu: Err(why), ..exact };
        assert_eq!(reason(&bytes, &rule), Some(why));
        assert_eq!(reason(b"no image", &rule), Some(why));
    }
    let limit = |limits| reason(&bytes, &Rule { limits, ..OPEN });
    assert_eq!(limit(Limits { pixels: 200, bytes: bytes.len() as u64, ..LIMITS }), None);
    assert_eq!(limit(Limits { pixels: 199, ..LIMITS }), Some(Reason::Limit));
    assert_eq!(limit(Limits { bytes: bytes.len() as u64 - 1, ..LIMITS }), Some(Reason::Limit));
    for other in [&b""[..], b"\x89PNG\r\n\x1A\n", b"<html>"] {
        assert_eq!(reason(other, &OPEN), Some(Reason::Format));
    }
}

#[test]
fn reasons_are_counted_by_index() {
    let mut names = std::collections::BTreeSet::new();
    for (i, reason) in Reason::ALL.into_iter().enumerate() {
        assert_eq!(reason.index(), i);
        assert!(names.insert(reason.name()));
        assert!(!reason.to_string().is_empty());
    }
    assert_eq!(names.len(), Reason::COUNT);
}

#[test]
fn orientation_goes_along() {
    let plain = course(30, 20);
    for value in 0..10 {
        let bytes = with_orientation(&plain, value, value % 2 == 0);
        let Route::Nvjpeg(frame) = route(&bytes, &OPEN) else { panic!("orientation {value}") };
        assert_eq!(frame.orientation, Orientation::from_exif(value.into()));
        assert_eq!((frame.width, frame.height), (30, 20), "as stored");
        assert_eq!(frame.orientation, probe(&bytes).unwrap().orientation);
    }
}

/// Files that libjpeg decodes or forgives, and others may not.
#[test]
fn doubt_goes_to_the_cpu() {
    let plain = course(48, 40);
    let frame = segments(&plain, 0xC0)[0].start;
    let scan = segments(&plain, 0xDA)[0].clone();
    let edit = |at: usize, value: u8| {
        let mut bytes = plain.clone();
        bytes[at] = value;
        bytes
    };
    let adobe = |transform| segment(0xEE, &[&b"Adobe\0\x64\0\0\0\0"[..], &[transform]].concat());
    let with = |part: &[u8]| insert(&plain, 2, part);
    let ids = |ids: &[u8; 3]| {
        let mut bytes = plain.clone();
        for (i, &id) in ids.iter().enumerate() {
            bytes[frame + 10 + 3 * i] = id;
            bytes[scan.start + 5 + 2 * i] = id;
        }
        bytes
    };
    let end = plain.len() - 2;
    let mut one_component = plain.clone();
    one_component.splice(scan.clone(), segment(0xDA, &[1, 1, 0x00, 0, 63, 0]));

    let cases: Vec<(&str, Vec<u8>, Option<Reason>)> = vec![
        ("as written", plain.clone(), None),
        ("Adobe YCbCr", with(&adobe(1)), None),
        ("Adobe RGB", with(&adobe(0)), Some(Reason::ColourSpace)),
        ("Adobe YCCK", with(&adobe(2)), Some(Reason::ColourSpace)),
        ("ids of their own", ids(&[0, 1, 2]), None),
        ("ids RGB", ids(b"RGB"), Some(Reason::ColourSpace)),
        ("ids that differ", edit(scan.start + 5, 9), Some(Reason::Damaged)),
        ("12 bits", edit(frame + 4, 12), Some(Reason::Precision)),
        ("extended", edit(frame + 1, 0xC1), Some(Reason::Extended)),
        ("luma 4x1", edit(frame + 11, 0x41), Some(Reason::Subsampling)),
        ("several scans", one_component, Some(Reason::Scans)),
        ("spectral selection", edit(scan.end - 2, 62), Some(Reason::Damaged)),
        ("a Huffman table that is not there", edit(scan.start + 6, 0x33), Some(Reason::Damaged)),
        ("a quantisation table that is not there", edit(frame + 12, 3), Some(Reason::Damaged)),
        ("no Huffman tables", without(&plain, 0xC4), Some(Reason::Damaged)),
        ("no quantisation tables", without(&plain, 0xDB), Some(Reason::Damaged)),
        ("a comment", with(&segment(0xFE, b"\xFF\xD9")), None),
        ("fill bytes", with(&[0xFF, 0xFF, 0xFF]), Some(Reason::Damaged)),
        ("a stray byte in the header", with(&[0]), Some(Reason::Damaged)),
        ("a reserved marker", with(&segment(0x02, &[])), Some(Reason::Damaged)),
        ("fill bytes in the scan", insert(&plain, end, &[0xFF]), Some(Reason::Damaged)),
        ("a restart marker", insert(&plain, end, &[0xFF, 0xD0]), Some(Reason::Damaged)),
        ("a marker in the scan", insert(&plain, end, &segment(0xFE, b"")), Some(Reason::Damaged)),
        ("a second scan", insert(&plain, end, &plain[scan.clone()]), Some(Reason::Damaged)),
        ("no data", [&plain[..scan.end], &plain[end..]].concat(), Some(Reason::Damaged)),
        ("no end marker", plain[..end].to_vec(), Some(Reason::Damaged)),
        ("bytes behind the end", [&plain[..], &plain].concat(), None),
        ("larger than its data", edit(frame + 5, 0xFF), Some(Reason::Damaged)),
    ];
    for (name, bytes, expected) in cases {
        assert_eq!(reason(&bytes, &OPEN), expected, "{name}");
    }

    // Restart markers: all of them, in order.
    let kind = Kind { restart: 1, ..Kind::COURSE };
    let bytes = jpeg(&picture(48, 40, 3), 48, 40, kind);
    assert_eq!(reason(&bytes, &OPEN), None);
    let markers = || (scan.end..bytes.len() - 1).filter(|&at| bytes[at] == 0xFF);
    let markers: Vec<_> = markers().filter(|&at| matches!(bytes[at + 1], 0xD0..=0xD7)).collect();
    assert_eq!(markers.len(), 8);
    for at in markers {
        let mut wrong = bytes.clone();
        wrong[at + 1] ^= 1;
        assert_eq!(reason(&wrong, &OPEN), Some(Reason::Damaged));
        wrong.drain(at..at + 2);
        assert_eq!(reason(&wrong, &OPEN), Some(Reason::Damaged));
    }
}

/// A code over the standard's room is refused by libjpeg only when it is used.
#[test]
fn tables_that_make_no_code_go_to_the_cpu() {
    let plain = course(32, 32);
    let table = segments(&plain, 0xC4)[0].start;
    for (bits, count) in [(1, 2), (2, 4), (1, 255)] {
        let mut bytes = plain.clone();
        bytes[table + 4 + bits] = count;
        assert_eq!(reason(&bytes, &OPEN), Some(Reason::Damaged), "{count} codes of {bits} bits");
    }
    let mut bytes = plain.clone();
    bytes[table + 4 + 17] = 16; // the first symbol of a DC table
    assert_eq!(reason(&bytes, &OPEN), Some(Reason::Damaged));
}

#[test]
fn no_prefix_goes_to_nvjpeg() {
    for restart in [0, 2] {
        for subsampling in [SUBSAMPLINGS[0], SUBSAMPLINGS[2], SUBSAMPLINGS[3]] {
            let kind = Kind { restart, subsampling, ..Kind::COURSE };
            let bytes = jpeg(&picture(50, 38, 3), 50, 38, kind);
            assert_eq!(reason(&bytes, &OPEN), None);
            for cut in 0..bytes.len() {
                let expected = if cut < 2 { Reason::Format } else { Reason::Damaged };
                assert_eq!(reason(&bytes[..cut], &OPEN), Some(expected), "cut at {cut}");
            }
        }
    }
}

/// Damage that only the entropy-coded bytes show goes unseen here: nvJPEG, or else the reader of
/// its pixels, must see it. Damage to what precedes them never does.
#[test]
fn a_changed_byte_never_panics_nor_hides_in_the_header() {
    let limits = Limits { pixels: 1 << 20, ..LIMITS };
    let rule = Rule { limits, ..OPEN };
    let mut decoder = Decoder::new(limits);
    let mut pixels = Pixels::new();
    let bytes = jpeg(&picture(24, 20, 3), 24, 20, Kind { restart: 1, ..Kind::COURSE });
    let scan = segments(&bytes, 0xDA)[0].end;
    let mut sent = 0;
    for at in 0..bytes.len() {
        for value in 0..=255 {
            let mut changed = bytes.clone();
            changed[at] = value;
            let Route::Nvjpeg(frame) = route(&changed, &rule) else { continue };
            sent += 1;
            let header = probe(&changed).unwrap();
            assert_eq!((frame.width, frame.height), (header.width, header.height));
            // Changed tables and sizes may still lead the entropy decoder astray, as data do.
            match decoder.decode(&changed, &mut pixels) {
                Ok(_) => assert_eq!(header.upright_size(), (pixels.width(), pixels.height())),
                Err(e) => assert!(e.message().starts_with("damaged JPEG: "), "{at} {value}: {e}"),
            }
        }
    }
    assert!(sent > (bytes.len() - scan) * 100, "{sent}");
}

/// Of the odd files that go to nvJPEG the CPU refuses one alone, whose header asks for more than its
/// entropy-coded bytes hold: nobody sees that who does not decode.
#[test]
fn odd_images_that_go_to_nvjpeg_decode() {
    let Some(odd) = shared("data/odd-images") else { return };
    let mut decoder = Decoder::new(LIMITS);
    let mut pixels = Pixels::new();
    let mut counts = BTreeMap::<&str, u32>::new();
    let mut wrong = Vec::new();
    for entry in std::fs::read_dir(odd).unwrap() {
        let path = entry.unwrap().path();
        if !path.is_file() {
            continue;
        }
        let bytes = std::fs::read(&path).unwrap();
        let reason = reason(&bytes, &OPEN);
        *counts.entry(reason.map_or("nvjpeg", Reason::name)).or_default() += 1;
        if reason.is_none()
            && let Err(error) = decoder.decode(&bytes, &mut pixels)
        {
            println!("{}: {error}", path.display());
            wrong.push(path.file_name().unwrap().to_owned());
        }
    }
    for (name, count) in &counts {
        println!("{name}: {count}");
    }
    assert!(counts["nvjpeg"] >= 10);
    assert_eq!(wrong, ["dims_larger_than_data.jpg"]);
}

proptest! {
    #[test]
    fn random_changes_never_panic(
        subsampling in 0..SUBSAMPLINGS.len(),
        restart in 0..4_i32,
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 1..8),
        cut in prop::option::of(any::<prop::sample::Index>()),
    ) {
        let kind = Kind { subsampling: SUBSAMPLINGS[subsampling], restart, ..Kind::COURSE };
        let mut bytes = jpeg(&picture(30, 22, 3), 30, 22, kind);
        for (at, value) in edits {
            let at = at.index(bytes.len());
            bytes[at] = value;
        }
        if let Some(cut) = cut {
            bytes.truncate(cut.index(bytes.len()));
        }
        if let Route::Nvjpeg(frame) = route(&bytes, &OPEN) {
            let header = probe(&bytes).unwrap();
            prop_assert_eq!((frame.width, frame.height), (header.width, header.height));
            prop_assert!(matches!(header.components, 1 | 3) && header.precision == 8);
        }
    }
}
