//! Pixels equal those of libjpeg-turbo's own API, on every size and kind.

use crate::encode::*;
use crate::{decode, refusal};
use forebay::ErrorKind;
use forebay::decoder::{Decoder, Limits, Pixels, probe};
use xxhash_rust::xxh3::xxh3_64;

/// Every size up to 40 x 40 in every subsampling, one decoder for all of them, so that each
/// image also follows one of another kind. The kinds of coding take turns.
#[test]
fn equals_turbojpeg_on_every_small_size() {
    let mut decoder = Decoder::new(Limits::default());
    let mut pixels = Pixels::new();
    let mut turn = 0_usize;
    for height in 1..=40 {
        for width in 1..=40 {
            let source = picture(width, height, 3);
            for subsampling in SUBSAMPLINGS {
                turn += 1;
                let kind = Kind {
                    subsampling,
                    quality: [75, 95, 30][turn % 3],
                    optimize: turn % 4 == 1,
                    progressive: turn % 5 == 2,
                    arithmetic: turn % 11 == 3,
                    lossless: false,
                    restart: [0, 0, 1, 3][turn % 4],
                };
                let bytes = jpeg(&source, width, height, kind);
                let info = decoder.decode(&bytes, &mut pixels).unwrap();
                assert_eq!((info.format, info.warnings.as_slice()), ("jpeg", &[][..]));
                assert_eq!((pixels.width(), pixels.height()), (width as u32, height as u32));
                let same = pixels.bytes() == reference(&bytes, width, height, false);
                assert!(same, "{width} x {height}, subsampling {subsampling}, turn {turn}");
                let header = probe(&bytes).unwrap();
                assert_eq!((header.width, header.height), (width as u32, height as u32));
                assert_eq!(header.progressive, kind.progressive);
                assert_eq!(header.components == 1, subsampling == SUBSAMPLINGS[3]);
            }
        }
    }
}

/// Larger than one call's row pointers, wider than a strip, progressive and not.
#[test]
fn equals_turbojpeg_on_larger_images() {
    for (width, height) in [(1, 300), (300, 1), (257, 131), (640, 427)] {
        let source = picture(width, height, 3);
        for progressive in [false, true] {
            for subsampling in SUBSAMPLINGS {
                let kind = Kind { subsampling, progressive, ..Kind::COURSE };
                let bytes = jpeg(&source, width, height, kind);
                let (pixels, _) = decode(&bytes).unwrap();
                assert!(pixels.bytes() == reference(&bytes, width, height, false));
            }
        }
    }
}

#[test]
fn lossless_gives_the_source() {
    let source = picture(37, 21, 3);
    let kind = Kind { subsampling: SUBSAMPLINGS[0], lossless: true, ..Kind::COURSE };
    let bytes = jpeg(&source, 37, 21, kind);
    assert!(decode(&bytes).unwrap().0.bytes() == source);
}

/// Digests made with libjpeg-turbo 3.1.0: a library, flag or CPU that changes a pixel is seen
/// without any reference at hand.
#[test]
fn pinned_digests() {
    let pinned = [
        (32, 32, false, 0x782a_6cc7_19a6_571f_u64),
        (61, 47, false, 0xe03d_45fe_5339_1647),
        (61, 47, true, 0xe03d_45fe_5339_1647),
    ];
    let seen = pinned.map(|(width, height, progressive, _)| {
        let source = picture(width, height, 3);
        let bytes = jpeg(&source, width, height, Kind { progressive, ..Kind::COURSE });
        let digest = xxh3_64(decode(&bytes).unwrap().0.bytes());
        (width, height, progressive, digest)
    });
    assert!(seen == pinned, "{seen:#018x?}");
}

/// libjpeg keeps quantisation and Huffman tables between images of one handle; a file that
/// lacks its own must not be decoded with them.
#[test]
fn no_table_of_the_image_before_is_used() {
    let source = picture(48, 40, 3);
    let standard = jpeg(&source, 48, 40, Kind::COURSE);
    let optimized = jpeg(&source, 48, 40, Kind { optimize: true, quality: 20, ..Kind::COURSE });
    // Camera frames come without Huffman tables and mean the standard ones.
    let camera = without(&standard, 0xC4);
    let no_quantisation = without(&standard, 0xDB);
    let mut decoder = Decoder::new(Limits::default());
    let mut pixels = Pixels::new();
    for _ in 0..3 {
        decoder.decode(&optimized, &mut pixels).unwrap();
        decoder.decode(&camera, &mut pixels).unwrap();
        assert!(pixels.bytes() == reference(&standard, 48, 40, false));
        decoder.decode(&standard, &mut pixels).unwrap();
        let error = decoder.decode(&no_quantisation, &mut pixels).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
    }
}

/// Ink is converted by Pillow's rule, within one level of the exact product.
#[test]
fn cmyk_and_ycck() {
    for ycck in [false, true] {
        let source = picture(40, 30, 4);
        let bytes = cmyk_jpeg(&source, 40, 30, ycck);
        let ink = reference(&bytes, 40, 30, true);
        let (pixels, _) = decode(&bytes).unwrap();
        for (rgb, ink) in pixels.bytes().chunks_exact(3).zip(ink.chunks_exact(4)) {
            for i in 0..3 {
                let exact = f64::from(ink[i]) * f64::from(ink[3]) / 255.0;
                assert!((f64::from(rgb[i]) - exact).abs() <= 0.5, "{rgb:?} from {ink:?}");
            }
        }
    }
}

#[test]
fn exif_orientation_is_applied() {
    let (width, height) = (43, 26);
    let source = picture(width, height, 3);
    let plain = jpeg(&source, width, height, Kind::COURSE);
    let stored = reference(&plain, width, height, false);
    for little in [false, true] {
        for value in [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 999] {
            let bytes = with_orientation(&plain, value, little);
            let image = image::RgbImage::from_raw(width as u32, height as u32, stored.clone());
            let mut image = image::DynamicImage::from(image.unwrap());
            let turn = image::metadata::Orientation::from_exif(value.min(255) as u8);
            image.apply_orientation(turn.unwrap_or(image::metadata::Orientation::NoTransforms));
            let (pixels, _) = decode(&bytes).unwrap();
            assert_eq!((pixels.width(), pixels.height()), (image.width(), image.height()));
            assert!(pixels.bytes() == image.as_bytes(), "orientation {value}");
            assert_eq!(probe(&bytes).unwrap().upright_size(), (image.width(), image.height()));
        }
    }
}

/// Metadata cut at any place costs the orientation, never the picture.
#[test]
fn damaged_exif_is_ignored() {
    let plain = jpeg(&picture(20, 10, 3), 20, 10, Kind::COURSE);
    let with = with_orientation(&plain, 6, true);
    let exif = with[6..segments(&with, 0xE1)[0].end].to_vec();
    for cut in 0..exif.len() {
        let bytes = insert(&plain, 2, &segment(0xE1, &exif[..cut]));
        let (pixels, _) = decode(&bytes).unwrap();
        let size = (pixels.width(), pixels.height());
        assert!(size == (20, 10) || size == (10, 20) && cut > 30, "cut at {cut}: {size:?}");
    }
    for at in 0..exif.len() {
        for value in [0, 1, 127, 255] {
            let mut exif = exif.clone();
            exif[at] = value;
            decode(&insert(&plain, 2, &segment(0xE1, &exif))).unwrap();
        }
    }
}

#[test]
fn twelve_bits_are_refused_by_name() {
    let mut bytes = jpeg(&picture(16, 16, 3), 16, 16, Kind::COURSE);
    let frame = segments(&bytes, 0xC0)[0].start;
    bytes[frame + 1] = 0xC1;
    bytes[frame + 4] = 12;
    let (kind, text) = refusal(&bytes);
    assert_eq!(kind, ErrorKind::Unsupported);
    assert!(text.contains("12-bit"), "{text}");
}
