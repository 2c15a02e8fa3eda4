//! Metadata outside JPEG: the orientation counts wherever it may stand, and nothing that is wrong
//! with them costs a picture.

use crate::decode;
use crate::encode::exif;
use crate::files::{
    SHORT, SIZE, gray_tiff, plain_png, png_chunk, riff, tiff, webp_canvas, webp_frame,
};
use forebay::decoder::{Orientation, Pixels, probe};

const PREFIX: usize = b"Exif\0\0".len();

/// `bytes` must give `stored`, turned as EXIF's `value` says.
fn is_turned(bytes: &[u8], stored: &Pixels, value: u16, what: &str) {
    let mut upright = Pixels::new();
    Orientation::from_exif(value.into()).apply(stored, &mut upright).unwrap();
    let (pixels, _) = decode(bytes).unwrap_or_else(|e| panic!("{what}: {e}"));
    assert_eq!((pixels.width(), pixels.height()), (upright.width(), upright.height()), "{what}");
    assert!(pixels.bytes() == upright.bytes(), "{what}: orientation {value}");
    let size = probe(bytes).unwrap().upright_size();
    assert_eq!(size, (upright.width(), upright.height()), "{what}");
}

/// `png` with a chunk between pixels and end.
fn behind(png: &[u8], chunk: &[u8]) -> Vec<u8> {
    let end = png.len() - 12;
    [&png[..end], chunk, &png[end..]].concat()
}

fn webp(flags: u8, more: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
    let (canvas, frame) = (webp_canvas(flags, SIZE.0, SIZE.1), webp_frame());
    riff(&[&[(b"VP8X", &canvas[..]), (b"VP8L", &frame)], more].concat())
}

#[test]
fn orientation_is_applied_to_every_format() {
    let gray: Vec<u8> = (0..SIZE.0 * SIZE.1).map(|i| i as u8).collect();
    let plain = plain_png(&[]);
    let png = decode(&plain).unwrap().0;
    let lossless = decode(&webp(0, &[])).unwrap().0;
    let single = decode(&gray_tiff(true, 1, &gray, &[])).unwrap().0;
    for little in [false, true] {
        for value in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 999] {
            let exif = exif(value, little);
            for (metadata, name) in [(&exif[PREFIX..], "bare"), (&exif[..], "as in JPEG")] {
                let chunk = png_chunk(b"eXIf", metadata);
                is_turned(&plain_png(&chunk), &png, value, &format!("png, {name}"));
                is_turned(&behind(&plain, &chunk), &png, value, &format!("png, {name}, behind"));
                let file = webp(8, &[(b"EXIF", metadata)]);
                is_turned(&file, &lossless, value, &format!("webp, {name}"));
            }
            let tags = [(274, SHORT, 1, value.into())];
            // Entries are in order, so the strip's come later; decoders do not insist.
            is_turned(&gray_tiff(little, 1, &gray, &tags), &single, value, "tiff");
        }
    }
}

#[test]
fn broken_exif_is_ignored() {
    let plain = plain_png(&[]);
    let stored = decode(&plain).unwrap().0;
    let exif = exif(6, true)[PREFIX..].to_vec();
    for cut in 0..exif.len() {
        for file in
            [plain_png(&png_chunk(b"eXIf", &exif[..cut])), webp(8, &[(b"EXIF", &exif[..cut])])]
        {
            let (pixels, _) = decode(&file).unwrap();
            // Up to the entry of the orientation itself there is none.
            let turned = pixels.width() != SIZE.0;
            assert!(!turned || cut > 24, "cut at {cut}");
        }
    }
    let mut chunk = png_chunk(b"eXIf", &exif);
    *chunk.last_mut().unwrap() ^= 1;
    is_turned(&plain_png(&chunk), &stored, 1, "png, wrong sum");
    is_turned(&behind(&plain, &chunk), &stored, 1, "png, wrong sum, behind");
}

/// Chunks that are no pixels, of any length and in any number.
#[test]
fn chunks_that_are_no_pixels_cost_no_picture() {
    let stored = decode(&plain_png(&[])).unwrap().0;
    let kinds = [
        b"gAMA", b"cHRM", b"sRGB", b"iCCP", b"tEXt", b"zTXt", b"iTXt", b"pHYs", b"tIME", b"bKGD",
        b"sBIT", b"hIST", b"sPLT", b"eXIf", b"oFFs", b"cICP", b"mDCV", b"cLLI", b"abCd", b"tRNS",
    ];
    for kind in kinds {
        for length in [0, 1, 3, 4, 6, 9, 32, 1000] {
            let chunk = png_chunk(kind, &vec![0x41; length]);
            let mut wrong_sum = chunk.clone();
            *wrong_sum.last_mut().unwrap() ^= 1;
            for more in [chunk.clone(), [&chunk[..], &chunk].concat(), wrong_sum] {
                let what = format!("{} of {length}", String::from_utf8_lossy(kind));
                is_turned(&plain_png(&more), &stored, 1, &what);
            }
        }
    }
}

#[test]
fn metadata_that_are_announced_and_missing() {
    let stored = decode(&webp(0, &[])).unwrap().0;
    for flags in [0x04, 0x08, 0x0C, 0x20, 0x2C] {
        is_turned(&webp(flags, &[]), &stored, 1, &format!("flags {flags:#x}"));
    }
    is_turned(&webp(0x0C, &[(b"XMP ", b"<x"), (b"EXIF", b"")]), &stored, 1, "both, broken");
}

/// A directory that has no end, or lies nowhere.
#[test]
fn directories_that_lead_nowhere() {
    for start in [0, 4, 8, 9, 4000, u32::MAX] {
        let mut exif = exif(6, true)[PREFIX..].to_vec();
        exif[4..8].copy_from_slice(&start.to_le_bytes());
        decode(&plain_png(&png_chunk(b"eXIf", &exif))).unwrap();
        decode(&webp(8, &[(b"EXIF", &exif)])).unwrap();
    }
    let many: Vec<_> = (0..5000).map(|_| (0, SHORT, 1, 0)).collect();
    let exif = tiff(false, &many, &[]);
    decode(&webp(8, &[(b"EXIF", &exif)])).unwrap();
}
