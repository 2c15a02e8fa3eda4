//! Pictures of each format and kind, as far as there are encoders here.

use super::shared;
use crate::encode::{
    Kind, SUBSAMPLINGS, cmyk_jpeg, exif, insert, jpeg, picture, segment, segments,
    with_orientation, without,
};
use crate::files;
use image::DynamicImage;
use image::ImageFormat::{Bmp, Gif, Png, Pnm, Tiff, WebP};
use std::io::Cursor;

const SIZE: (usize, usize) = (21, 18);

pub(crate) fn jpegs() -> Vec<Vec<u8>> {
    let (width, height) = SIZE;
    let base = Kind::COURSE;
    let mut kinds: Vec<_> =
        SUBSAMPLINGS.iter().map(|subsampling| Kind { subsampling: *subsampling, ..base }).collect();
    kinds.extend([
        Kind { progressive: true, ..base },
        Kind { restart: 1, ..base },
        Kind { arithmetic: true, ..base },
        Kind { arithmetic: true, progressive: true, restart: 2, ..base },
        Kind { lossless: true, ..base },
        Kind { optimize: true, quality: 20, ..base },
    ]);
    let pixels = picture(width, height, 3);
    let mut seeds: Vec<_> = kinds.iter().map(|kind| jpeg(&pixels, width, height, *kind)).collect();
    let plain = seeds[0].clone();
    seeds.push(with_orientation(&plain, 6, true));
    seeds.push(with_orientation(&plain, 3, false));
    let adobe = segment(0xEE, b"Adobe\0\x64\0\0\0\0\x01");
    seeds.push(insert(&without(&plain, 0xE0), 2, &adobe));
    for ycck in [false, true] {
        seeds.push(cmyk_jpeg(&picture(9, 7, 4), 9, 7, ycck));
    }
    // What libjpeg forgives: bytes between segments, an empty segment, one of impossible length.
    for stray in [&b"\xFF\xFF\xFF"[..], b"\0\0", b"\xFF\xFE\0\x02", b"\xFF\xFE\0\0", b"\xFF\xD0"] {
        seeds.push(insert(&plain, 2, stray));
    }
    // Tables of 16 bits, and two of them.
    let tables = segments(&plain, 0xDB)[0].clone();
    let mut doubled = vec![0x12];
    plain[tables.start + 5..tables.start + 5 + 64].iter().for_each(|q| doubled.extend([0, *q]));
    seeds.push(insert(&plain, 2, &segment(0xDB, &doubled)));
    seeds.extend(wide());
    seeds
        .extend(shared("data/odd-images").into_iter().filter(|file| file.starts_with(b"\xFF\xD8")));
    seeds
}

/// Of several blocks each way, so that a part leaves some out.
fn wide() -> [Vec<u8>; 2] {
    let wide = picture(90, 40, 3);
    [false, true].map(|progressive| jpeg(&wide, 90, 40, Kind { progressive, ..Kind::COURSE }))
}

pub(crate) fn images() -> Vec<Vec<u8>> {
    let (width, height) = SIZE;
    let rgb = image::RgbImage::from_raw(width as u32, height as u32, picture(width, height, 3));
    let rgb = DynamicImage::from(rgb.expect("as many bytes"));
    let kinds: [DynamicImage; 8] = [
        rgb.clone(),
        rgb.to_luma8().into(),
        rgb.to_luma_alpha8().into(),
        rgb.to_rgba8().into(),
        rgb.to_luma16().into(),
        rgb.to_luma_alpha16().into(),
        rgb.to_rgb16().into(),
        rgb.to_rgba16().into(),
    ];
    let mut seeds = Vec::new();
    for format in [Png, WebP, Gif, Tiff, Bmp, Pnm] {
        for kind in &kinds {
            let mut bytes = Cursor::new(Vec::new());
            // Not every format has every kind.
            if kind.write_to(&mut bytes, format).is_ok() {
                seeds.push(bytes.into_inner());
            }
        }
    }
    let texts: [&[u8]; 6] = [
        b"P1\n3 2\n1 0 1\n0 1 0\n",
        b"P2\n# gray\n3 2 15\n1 2 3 4 5 15\n",
        b"P3 2 1 255\n255 0 0 0 255 0\n",
        b"P4\n9 2\n\xAA\x80\x55\0",
        b"P5 2 2 65535\n\0\x01\x02\x03\x04\x05\x06\x07",
        b"P7\nWIDTH 2\nHEIGHT 1\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n12345678",
    ];
    seeds.extend(texts.iter().map(|text| text.to_vec()));
    seeds.extend(files::all().into_iter().map(|(_, file)| file));
    // An orientation behind the picture, and an animation.
    let (canvas, frame) = (files::webp_canvas(8, 21, 13), files::webp_frame());
    let turned = exif(6, true);
    seeds.push(files::riff(&[(b"VP8X", &canvas), (b"VP8L", &frame), (b"EXIF", &turned)]));
    let others: [&[u8]; 8] = [
        b"",
        b"\0\0\0\x18ftypheic",
        b"<!doctype html>",
        b"<?xml version='1.0'?><svg>",
        b"plain text",
        &[0; 64],
        b"\x89PNG\n",
        b"\x01\x02\x03",
    ];
    seeds.extend(others.iter().map(|bytes| bytes.to_vec()));
    seeds.extend(jpegs());
    seeds.extend(shared("data/odd-images"));
    seeds
}
