//! Files of a few hundred bytes that declare thousands of millions: each is refused before memory is
//! taken for what it declares.

use crate::encode::{self, Kind, picture, segments};
use crate::files::{LONG, SHORT, bmp, gif, gif_frame, png, png_chunk, riff, tiff, webp_canvas};
use crate::{Row, alone};
use image::ImageEncoder;
use rayon::prelude::*;

/// What a decode may take before it refuses, in MiB.
const MEMORY: f64 = 16.0;

/// A row of each file.
pub(crate) fn rows(wanted: &(dyn Fn(&str) -> bool + Sync)) -> Vec<Row> {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let files: Vec<_> = files().into_iter().enumerate().collect();
    let row = |(i, (name, bytes)): (usize, (&str, Vec<u8>))| {
        let path = dir.path().join(i.to_string());
        std::fs::write(&path, &bytes).expect("a temporary file");
        let found = alone::run(&path, None);
        let (said, fault, cost) = match &found {
            Err(how) => (how.clone(), Some(how.clone()), None),
            Ok(found) => {
                let took = format!("{:.0} MiB were taken", found.took);
                let fault = if found.took > MEMORY {
                    Some(took)
                } else if is_declared(name) && !found.is_over_a_limit() {
                    Some("it should be over a limit".into())
                } else {
                    (!found.unharmed).then(|| "the decoder was not itself afterwards".into())
                };
                (found.said(), fault, Some((found.ms, found.peak)))
            }
        };
        let expected = if is_declared(name) { "over a limit" } else { "little memory" };
        Row { name: name.into(), expected: expected.into(), said, fault, cost }
    };
    files.into_par_iter().filter(|(_, (name, _))| wanted(name)).map(row).collect()
}

/// Whether it is the size that is too large.
fn is_declared(name: &str) -> bool {
    name.starts_with("declares")
}

/// A JPEG of 16 x 16 that says it were `side` x `side`.
fn jpeg(kind: Kind, side: u16) -> Vec<u8> {
    let mut bytes = encode::jpeg(&picture(16, 16, 3), 16, 16, kind);
    let frame = (0xC0..=0xCF_u8).filter(|marker| !matches!(marker, 0xC4 | 0xC8 | 0xCC));
    let frame = frame.flat_map(|marker| segments(&bytes, marker)).next().expect("it has a frame");
    let side = side.to_be_bytes();
    bytes[frame.start + 5..frame.start + 9].copy_from_slice(&[side[0], side[1], side[0], side[1]]);
    bytes
}

/// Tags of a TIFF of one short strip; `more` come behind them.
fn tagged(width: u32, height: u32, samples: u32, more: &[(u16, u16, u32, u32)]) -> Vec<u8> {
    let entries = [
        (256, LONG, 1, width),
        (257, LONG, 1, height),
        (258, SHORT, 1, 8),
        (259, SHORT, 1, 1),
        (262, SHORT, 1, 1),
        (277, SHORT, 1, samples),
    ];
    tiff(true, &[&entries[..], more].concat(), &[0; 64])
}

fn files() -> Vec<(&'static str, Vec<u8>)> {
    let base = Kind::COURSE;
    let strip = [(273, LONG, 1, 200), (278, LONG, 1, u32::MAX), (279, LONG, 1, 64)];
    let tile = |side| {
        [(322, LONG, 1, side), (323, LONG, 1, side), (324, LONG, 1, 200), (325, LONG, 1, 64)]
    };
    let mut wide_frame = gif_frame(16);
    (wide_frame.left, wide_frame.top) = (1, 1);
    let mut large_frame = gif((8, 8), wide_frame);
    // The image descriptor, behind the screen's and 16 colours.
    let at = 13 + 48 + large_frame[13 + 48..].iter().position(|&b| b == 0x2C).expect("a frame");
    large_frame[at + 5..at + 9].fill(0xFF);
    let lossy = |width: u16, height: u16| {
        [&[0x30, 1, 0, 0x9D, 1, 0x2A][..], &width.to_le_bytes(), &height.to_le_bytes(), &[0; 20]]
            .concat()
    };
    let mut exif =
        riff(&[(b"VP8X", &webp_canvas(8, 1, 1)), (b"VP8 ", &lossy(1, 1)), (b"EXIF", b"II*\0")]);
    let length = exif.len() - 8;
    exif[length..length + 4].copy_from_slice(&u32::MAX.to_le_bytes());
    let mut profile = Vec::new();
    let mut encoder = image::codecs::png::PngEncoder::new(&mut profile);
    encoder.set_icc_profile(vec![0; 100 << 20]).expect("PNG takes profiles");
    encoder.write_image(&[0; 3], 1, 1, image::ExtendedColorType::Rgb8).expect("it is written");
    let pnm = |text: &str| text.as_bytes().to_vec();
    vec![
        ("declares 65500x65500: baseline JPEG", jpeg(base, 65500)),
        ("declares 65500x65500: progressive JPEG", jpeg(Kind { progressive: true, ..base }, 65500)),
        ("declares 65500x65500: arithmetic JPEG", jpeg(Kind { arithmetic: true, ..base }, 65500)),
        (
            "declares 65500x65500: gray JPEG",
            jpeg(Kind { subsampling: encode::SUBSAMPLINGS[3], ..base }, 65500),
        ),
        (
            "declares 65500x65500: lossless JPEG",
            jpeg(Kind { lossless: true, subsampling: encode::SUBSAMPLINGS[0], ..base }, 65500),
        ),
        ("declares 100000x100000: PNG", png((100_000, 100_000), [8, 2, 0], &[], &[vec![0; 9]])),
        ("declares 2^31 x 2^31: PNG", png((1 << 31, 1 << 31), [16, 6, 1], &[], &[vec![0; 9]])),
        ("declares 65500x65500: GIF", gif((65500, 65500), gif_frame(16))),
        ("declares 65535x65535: a GIF's frame", large_frame),
        ("declares 65500x65500: BMP", bmp((65500, 65500), 24, 0, &[], &[0; 9])),
        ("declares 65500x65500: BMP in runs", bmp((65500, 65500), 8, 1, &[0; 1024], &[0, 1])),
        ("declares 65500x65500: TIFF", tagged(65500, 65500, 1, &strip)),
        ("declares 2^31 x 2^31: a TIFF's tile", tagged(8, 8, 1, &tile(1 << 31))),
        ("60000 samples a pixel: TIFF", tagged(65000, 1, 60000, &strip)),
        ("declares 16383x16383: WebP", riff(&[(b"VP8 ", &lossy(16383, 16383))])),
        (
            "declares 16384x16384: lossless WebP",
            riff(&[(b"VP8L", &[0x2F, 0xFF, 0xFF, 0xFF, 0x0F, 0])]),
        ),
        (
            "declares 2^24 x 255: extended WebP",
            riff(&[(b"VP8X", &webp_canvas(0, 1 << 24, 255)), (b"VP8 ", &lossy(1, 1))]),
        ),
        (
            "declares 16383x16383: an extended WebP's picture",
            riff(&[(b"VP8X", &webp_canvas(0, 1, 1)), (b"VP8 ", &lossy(16383, 16383))]),
        ),
        ("metadata of 4 GiB: WebP", exif),
        ("a profile that unpacks to 100 MiB: PNG", profile),
        ("a chunk of 2 GiB: PNG", {
            let mut chunk = png_chunk(b"eXIf", b"");
            chunk[..4].copy_from_slice(&(1_u32 << 31).wrapping_sub(1).to_be_bytes());
            png((1, 1), [8, 2, 0], &chunk, &[vec![0; 3]])
        }),
        ("declares 65500x65500: PBM", pnm("P4\n65500 65500\n0000")),
        ("declares 65500x65500: PPM", pnm("P6 65500 65500 255\n0000")),
        ("declares 65500x65500: PGM of text", pnm("P2 65500 65500 255\n0 0 0 0\n")),
        (
            "declares 2^32 - 1 x 2^32 - 1: PAM",
            pnm(
                "P7\nWIDTH 4294967295\nHEIGHT 1000000\nDEPTH 1\nMAXVAL 255\nTUPLTYPE GRAYSCALE\nENDHDR\n0",
            ),
        ),
    ]
}
