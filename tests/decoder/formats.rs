//! Formats outside JPEG, found by content.

use crate::encode::picture;
use crate::{decode, decode_within, refusal};
use forebay::ErrorKind;
use forebay::decoder::{Limits, probe};
use image::{DynamicImage, ImageFormat};
use std::io::Cursor;

const SIZE: (u32, u32) = (23, 17);

fn samples(channels: usize) -> Vec<u8> {
    picture(SIZE.0 as usize, SIZE.1 as usize, channels)
}

fn write(image: &DynamicImage, format: ImageFormat) -> Vec<u8> {
    let mut bytes = Cursor::new(Vec::new());
    image.write_to(&mut bytes, format).unwrap();
    bytes.into_inner()
}

macro_rules! image {
    ($kind:ident, $samples:expr) => {
        DynamicImage::from(
            image::ImageBuffer::<image::$kind<_>, _>::from_raw(SIZE.0, SIZE.1, $samples).unwrap(),
        )
    };
}

#[test]
fn lossless_formats_give_the_source() {
    let rgb = samples(3);
    let image = image!(Rgb, rgb.clone());
    for (format, name) in [
        (ImageFormat::Png, "png"),
        (ImageFormat::WebP, "webp"),
        (ImageFormat::Bmp, "bmp"),
        (ImageFormat::Tiff, "tiff"),
        (ImageFormat::Pnm, "pnm"),
    ] {
        let bytes = write(&image, format);
        let (pixels, info) = decode(&bytes).unwrap();
        assert_eq!(info.format, name);
        assert!(pixels.bytes() == rgb, "{name}");
        let header = probe(&bytes).unwrap();
        assert_eq!((header.format, header.width, header.height), (name, SIZE.0, SIZE.1));
        assert_eq!((header.components, header.precision), (3, 8), "{name}");
        // A cut file is refused at every length (PNG may lack its end chunk only).
        for cut in 0..bytes.len() - 16 {
            assert!(decode(&bytes[..cut]).is_err(), "{name} cut at {cut} of {}", bytes.len());
        }
    }
}

#[test]
fn gif_gives_its_first_frame() {
    let two = vec![image::Rgba([250, 10, 20, 255]), image::Rgba([0, 90, 255, 255])];
    let mut bytes = Vec::new();
    let mut encoder = image::codecs::gif::GifEncoder::new(&mut bytes);
    for colour in two {
        encoder
            .encode_frame(image::Frame::new(image::RgbaImage::from_pixel(8, 5, colour)))
            .unwrap();
    }
    drop(encoder);
    let (pixels, info) = decode(&bytes).unwrap();
    assert_eq!((info.format, pixels.width(), pixels.height()), ("gif", 8, 5));
    assert!(pixels.bytes().chunks_exact(3).all(|p| p == [250, 10, 20]));
}

/// Alpha is dropped, gray spread, and 16 bits are rounded: v / 257.
#[test]
fn every_sample_kind_becomes_rgb() {
    let narrow = |v: &u16| (f64::from(*v) / 257.0).round() as u8;
    let spread = |v: &u8| [*v; 3];
    let drop_alpha = |p: &[u8]| [p[0], p[1], p[2]];
    let wide = |channels: usize| -> Vec<u16> {
        let low = samples(channels);
        low.iter().rev().zip(&low).map(|(&a, &b)| u16::from_be_bytes([a, b])).collect()
    };
    let (gray, gray_alpha, rgba) = (samples(1), samples(2), samples(4));
    let (gray16, rgb16, rgba16) = (wide(1), wide(3), wide(4));
    let gray_alpha16 = wide(2);
    let narrowed = |v: &[u16]| v.iter().map(narrow).collect::<Vec<_>>();
    let cases: [(DynamicImage, Vec<u8>); 7] = [
        (image!(Luma, gray.clone()), gray.iter().flat_map(spread).collect()),
        (
            image!(LumaA, gray_alpha.clone()),
            gray_alpha.chunks_exact(2).flat_map(|p| spread(&p[0])).collect(),
        ),
        (image!(Rgba, rgba.clone()), rgba.chunks_exact(4).flat_map(drop_alpha).collect()),
        (image!(Luma, gray16.clone()), narrowed(&gray16).iter().flat_map(spread).collect()),
        (
            image!(LumaA, gray_alpha16.clone()),
            narrowed(&gray_alpha16).chunks_exact(2).flat_map(|p| spread(&p[0])).collect(),
        ),
        (image!(Rgb, rgb16.clone()), narrowed(&rgb16)),
        (
            image!(Rgba, rgba16.clone()),
            narrowed(&rgba16).chunks_exact(4).flat_map(drop_alpha).collect(),
        ),
    ];
    for (i, (image, expected)) in cases.iter().enumerate() {
        let (pixels, _) = decode(&write(image, ImageFormat::Png)).unwrap();
        assert!(pixels.bytes() == *expected, "case {i}");
    }
}

#[test]
fn limits_hold_for_other_formats() {
    let image = image!(Rgb, samples(3));
    let pixels = u64::from(SIZE.0 * SIZE.1);
    for format in [ImageFormat::Png, ImageFormat::WebP, ImageFormat::Bmp, ImageFormat::Tiff] {
        let bytes = write(&image, format);
        let limited = |pixels| {
            let limits = Limits { pixels, ..Limits::default() };
            decode_within(limits, &bytes).err().map(|e| e.kind())
        };
        assert_eq!(limited(pixels), None);
        assert_eq!(limited(pixels - 1), Some(ErrorKind::Limit));
    }
    // 70 bytes that claim 30 GB.
    let mut bytes = write(&image, ImageFormat::Png);
    bytes[16..24].copy_from_slice(&[0, 1, 0x86, 0xA0, 0, 1, 0x86, 0xA0]);
    assert!(decode(&bytes).is_err());
}

#[test]
fn other_content_is_named() {
    let mut tar = vec![b'a'; 600];
    tar[257..262].copy_from_slice(b"ustar");
    let cases: [(&[u8], &str); 12] = [
        (b"\0\0\0\x1CftypheicXXXX", "HEIC"),
        (b"\0\0\0\x1CftypavifXXXX", "AVIF"),
        (b"\x1F\x8B\x08\0\0", "gzip"),
        (b"PK\x03\x04", "ZIP"),
        (b"version https://git-lfs.github.com/spec/v1\noid", "Git LFS"),
        (b"\n<!DOCTYPE html><p>404", "HTML"),
        (b"\x89PNG\n\x1A\n", "text-mode"),
        (&[0; 64], "zeros"),
        (b"cat 3\ndog 4\n", "text"),
        (&tar, "tar"),
        (b"\xFF\x0A\xFA\x7F", "JPEG XL"),
        (b"\x01\x02\x03\xFE", "01 02 03 fe"),
    ];
    for (bytes, name) in cases {
        let (kind, text) = refusal(bytes);
        assert_eq!(kind, ErrorKind::Unsupported, "{text}");
        assert!(text.contains(name), "{text}");
        assert_eq!(probe(bytes).unwrap_err().message(), text);
    }
    assert_eq!(refusal(b""), (ErrorKind::Decode, "the file is empty".to_owned()));
}

/// Where a text ends with a number, that may be cut, unless it has as many digits as any.
#[test]
fn a_plain_pnm_may_end_with_its_last_number() {
    let file = |last: &str| format!("P3 # largest: 9\n2 1\n255\n1 2 3 4 5 {last}").into_bytes();
    for (last, value) in [("255", 255), ("200", 200), ("25\n", 25)] {
        assert_eq!(decode(&file(last)).unwrap().0.bytes(), [1, 2, 3, 4, 5, value], "{last:?}");
    }
    for last in ["2", "25"] {
        assert!(refusal(&file(last)).1.contains("may be cut"), "{last}");
    }
}
