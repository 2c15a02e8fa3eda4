//! Files of each format outside JPEG, made byte by byte: what encoders seldom write, and what no
//! encoder does.

use crate::encode::picture;
use image::{ExtendedColorType, ImageEncoder};

pub(crate) const SIZE: (u32, u32) = (21, 13);

fn samples(channels: usize) -> Vec<u8> {
    picture(SIZE.0 as usize, SIZE.1 as usize, channels)
}

/// Rows of `bits` a pixel, packed from high to low, each padded to whole bytes.
fn packed(values: &[u8], width: usize, bits: usize) -> Vec<Vec<u8>> {
    let row = |row: &[u8]| {
        let mut bytes = vec![0; (width * bits).div_ceil(8)];
        for (x, value) in row.iter().enumerate() {
            let at = x * bits;
            bytes[at / 8] |= (value & ((1_u16 << bits) - 1) as u8) << (8 - bits - at % 8);
        }
        bytes
    };
    values.chunks(width).map(row).collect()
}

/// A stream of stored blocks.
pub(crate) fn zlib(data: &[u8]) -> Vec<u8> {
    let mut stream = vec![0x78, 0x01];
    let blocks = data.chunks(0xFFFF);
    let last = blocks.len();
    for (i, block) in data.chunks(0xFFFF).enumerate() {
        let length = block.len() as u16;
        stream.push(u8::from(i + 1 == last));
        stream.extend(length.to_le_bytes());
        stream.extend((!length).to_le_bytes());
        stream.extend(block);
    }
    let (mut a, mut b) = (1_u32, 0_u32);
    for &byte in data {
        a = (a + u32::from(byte)) % 65521;
        b = (b + a) % 65521;
    }
    stream.extend((b << 16 | a).to_be_bytes());
    stream
}

pub(crate) fn png_chunk(kind: &[u8; 4], data: &[u8]) -> Vec<u8> {
    let named = [&kind[..], data].concat();
    let sum = crc32fast::hash(&named).to_be_bytes();
    [&(data.len() as u32).to_be_bytes()[..], &named, &sum].concat()
}

/// A PNG of rows that are not filtered yet; `more` goes between header and pixels.
pub(crate) fn png(
    (width, height): (u32, u32),
    [depth, colour, interlaced]: [u8; 3],
    more: &[u8],
    rows: &[Vec<u8>],
) -> Vec<u8> {
    let [w, h] = [width, height].map(u32::to_be_bytes);
    let header = [&w[..], &h, &[depth, colour, 0, 0, interlaced]].concat();
    let raw: Vec<u8> = rows.iter().flat_map(|row| [&[0], &row[..]].concat()).collect();
    let mut file = b"\x89PNG\r\n\x1A\n".to_vec();
    file.extend(png_chunk(b"IHDR", &header));
    file.extend(more);
    for part in zlib(&raw).chunks(700) {
        file.extend(png_chunk(b"IDAT", part));
    }
    file.extend(png_chunk(b"IEND", b""));
    file
}

/// 8-bit RGB.
pub(crate) fn plain_png(more: &[u8]) -> Vec<u8> {
    let rows: Vec<_> = samples(3).chunks(SIZE.0 as usize * 3).map(<[u8]>::to_vec).collect();
    png(SIZE, [8, 2, 0], more, &rows)
}

/// The seven passes of an interlaced gray picture.
fn interlaced_png() -> Vec<u8> {
    let (width, height) = (SIZE.0 as usize, SIZE.1 as usize);
    let gray = samples(1);
    let passes = [
        (0, 0, 8, 8),
        (4, 0, 8, 8),
        (0, 4, 4, 8),
        (2, 0, 4, 4),
        (0, 2, 2, 4),
        (1, 0, 2, 2),
        (0, 1, 1, 2),
    ];
    let mut rows = Vec::new();
    for (x0, y0, dx, dy) in passes {
        for y in (y0..height).step_by(dy) {
            rows.push((x0..width).step_by(dx).map(|x| gray[y * width + x]).collect());
        }
    }
    png(SIZE, [8, 0, 1], &[], &rows)
}

fn palette(colours: usize) -> Vec<u8> {
    (0..colours * 3).map(|i| (i * 37 % 251) as u8).collect()
}

/// A GIF whose frame lies at `left`, `top` on the screen, with colours of its own.
pub(crate) fn gif(screen: (u16, u16), frame: gif::Frame<'_>) -> Vec<u8> {
    let mut file = Vec::new();
    let mut encoder = gif::Encoder::new(&mut file, screen.0, screen.1, &palette(16)).unwrap();
    encoder.write_frame(&frame).unwrap();
    drop(encoder);
    file
}

pub(crate) fn gif_frame(colours: u8) -> gif::Frame<'static> {
    let (width, height) = (SIZE.0 as u16, SIZE.1 as u16);
    let buffer = samples(1).iter().map(|v| v % colours).collect();
    gif::Frame { width, height, buffer: std::borrow::Cow::Owned(buffer), ..Default::default() }
}

/// A BMP with an info header; `data` are rows from the lowest up, or runs.
pub(crate) fn bmp(size: (i32, i32), bits: u16, kind: u32, colours: &[u8], data: &[u8]) -> Vec<u8> {
    let offset = 54 + colours.len() as u32;
    let mut file = b"BM".to_vec();
    file.extend((offset + data.len() as u32).to_le_bytes());
    file.extend([0; 4]);
    file.extend(offset.to_le_bytes());
    file.extend(40_u32.to_le_bytes());
    file.extend(size.0.to_le_bytes());
    file.extend(size.1.to_le_bytes());
    file.extend(1_u16.to_le_bytes());
    file.extend(bits.to_le_bytes());
    file.extend(kind.to_le_bytes());
    file.extend([0; 12]);
    file.extend((if bits <= 8 { 1_u32 << bits } else { 0 }).to_le_bytes());
    file.extend([0; 4]);
    file.extend(colours);
    file.extend(data);
    file
}

fn bmps() -> Vec<(&'static str, Vec<u8>)> {
    let (width, size) = (SIZE.0 as usize, (SIZE.0 as i32, SIZE.1 as i32));
    let padded = |rows: Vec<Vec<u8>>| -> Vec<u8> {
        let pad = |mut row: Vec<u8>| {
            row.resize(row.len().next_multiple_of(4), 0);
            row
        };
        rows.into_iter().flat_map(pad).collect()
    };
    let colours =
        |n: usize| palette(n).chunks(3).flat_map(|c| [c[0], c[1], c[2], 0]).collect::<Vec<_>>();
    let gray = samples(1);
    // Absolute runs and repeated ones in turn, and an end to each row.
    let mut eight = Vec::new();
    let mut four = Vec::new();
    for row in gray.chunks(width) {
        eight.extend([0, 9]);
        eight.extend(&row[..9]);
        eight.extend([0, (width - 9) as u8, row[9], 0, 0]);
        four.extend([0, 8]);
        four.extend(&row[..4]);
        four.extend([(width - 8) as u8, row[9], 0, 0]);
    }
    eight.extend([0, 1]);
    four.extend([0, 1]);
    let masks: Vec<u8> =
        [0xF800_u32, 0x07E0, 0x001F].iter().flat_map(|m| m.to_le_bytes()).collect();
    let words = padded(samples(2).chunks(2 * width).map(<[u8]>::to_vec).collect());
    vec![
        ("bmp 1", bmp(size, 1, 0, &colours(2), &padded(packed(&gray, width, 1)))),
        ("bmp 4", bmp(size, 4, 0, &colours(16), &padded(packed(&gray, width, 4)))),
        ("bmp 8", bmp(size, 8, 0, &colours(256), &padded(packed(&gray, width, 8)))),
        ("bmp 8 in runs", bmp(size, 8, 1, &colours(256), &eight)),
        ("bmp 4 in runs", bmp(size, 4, 2, &colours(16), &four)),
        ("bmp 16", bmp(size, 16, 0, &[], &words)),
        ("bmp 5-6-5", bmp(size, 16, 3, &masks, &words)),
        ("bmp 24 top down", {
            let rows = samples(3).chunks(3 * width).map(<[u8]>::to_vec).collect();
            bmp((size.0, -size.1), 24, 0, &[], &padded(rows))
        }),
        ("bmp 32", bmp(size, 32, 0, &[], &samples(4))),
    ]
}

/// A TIFF whose directory comes first. Each entry: tag, type, count, value.
pub(crate) fn tiff(little: bool, entries: &[(u16, u16, u32, u32)], data: &[u8]) -> Vec<u8> {
    let two = |v: u16| if little { v.to_le_bytes() } else { v.to_be_bytes() };
    let four = |v: u32| if little { v.to_le_bytes() } else { v.to_be_bytes() };
    let mut file = if little { b"II".to_vec() } else { b"MM".to_vec() };
    file.extend(two(42));
    file.extend(four(8));
    file.extend(two(entries.len() as u16));
    for &(tag, kind, count, value) in entries {
        file.extend(two(tag));
        file.extend(two(kind));
        file.extend(four(count));
        match (kind, count) {
            (3, 1) => file.extend([two(value as u16), two(0)].concat()),
            _ => file.extend(four(value)),
        }
    }
    file.extend(four(0));
    file.extend(data);
    file
}

pub(crate) const SHORT: u16 = 3;
pub(crate) const LONG: u16 = 4;

/// A gray picture in one strip; `more` are further tags, in order, above 279.
pub(crate) fn gray_tiff(
    little: bool,
    compression: u32,
    strip: &[u8],
    more: &[(u16, u16, u32, u32)],
) -> Vec<u8> {
    let offset = 8 + 2 + 12 * (9 + more.len() as u32) + 4;
    let entries = [
        (256, LONG, 1, SIZE.0),
        (257, LONG, 1, SIZE.1),
        (258, SHORT, 1, 8),
        (259, SHORT, 1, compression),
        (262, SHORT, 1, 1),
        (273, LONG, 1, offset),
        (277, SHORT, 1, 1),
        (278, LONG, 1, SIZE.1),
        (279, LONG, 1, strip.len() as u32),
    ];
    tiff(little, &[&entries[..], more].concat(), strip)
}

fn tiffs() -> Vec<(&'static str, Vec<u8>)> {
    let gray = samples(1);
    let lzw = weezl::encode::Encoder::with_tiff_size_switch(weezl::BitOrder::Msb, 8).encode(&gray);
    let literal = |part: &[u8]| [&[part.len() as u8 - 1][..], part].concat();
    let packbits: Vec<u8> = gray.chunks(100).flat_map(literal).collect();
    vec![
        ("tiff", gray_tiff(true, 1, &gray, &[])),
        ("tiff, big endian", gray_tiff(false, 1, &gray, &[])),
        ("tiff of LZW", gray_tiff(true, 5, &lzw.unwrap(), &[])),
        ("tiff of deflate", gray_tiff(true, 8, &zlib(&gray), &[])),
        ("tiff of packbits", gray_tiff(true, 32773, &packbits, &[])),
    ]
}

pub(crate) fn riff(chunks: &[(&[u8; 4], &[u8])]) -> Vec<u8> {
    let mut body = b"WEBP".to_vec();
    for (kind, data) in chunks {
        body.extend(*kind);
        body.extend((data.len() as u32).to_le_bytes());
        body.extend(*data);
        body.resize(body.len().next_multiple_of(2), 0);
    }
    [b"RIFF", &(body.len() as u32).to_le_bytes()[..], &body].concat()
}

/// The chunk of a lossless WebP.
pub(crate) fn webp_frame() -> Vec<u8> {
    let mut file = Vec::new();
    image::codecs::webp::WebPEncoder::new_lossless(&mut file)
        .write_image(&samples(3), SIZE.0, SIZE.1, ExtendedColorType::Rgb8)
        .unwrap();
    let length = u32::from_le_bytes(file[16..20].try_into().unwrap()) as usize;
    file[20..20 + length].to_vec()
}

/// The flags and the size that come before an extended WebP's other chunks.
pub(crate) fn webp_canvas(flags: u8, width: u32, height: u32) -> Vec<u8> {
    let side = |side: u32| (side - 1).to_le_bytes()[..3].to_vec();
    [vec![flags, 0, 0, 0], side(width), side(height)].concat()
}

/// An animation of one frame.
fn animated_webp() -> Vec<u8> {
    let frame = webp_frame();
    let canvas = webp_canvas(2, SIZE.0, SIZE.1);
    let mut first = vec![0; 6];
    first.extend(&canvas[4..]);
    first.extend([100, 0, 0, 0]);
    first.extend(b"VP8L");
    first.extend((frame.len() as u32).to_le_bytes());
    first.extend(&frame);
    first.resize(first.len().next_multiple_of(2), 0);
    riff(&[(b"VP8X", &canvas), (b"ANIM", &[0; 6]), (b"ANMF", &first)])
}

fn webps() -> Vec<(&'static str, Vec<u8>)> {
    let frame = webp_frame();
    let canvas = webp_canvas(0, SIZE.0, SIZE.1);
    // A lossy picture of one white pixel.
    let lossy =
        b"\x30\x01\x00\x9D\x01\x2A\x01\x00\x01\x00\x0E\xC0\xFE\x25\xA4\x00\x03\x70\x00\x00\x00\x00";
    vec![
        ("webp", riff(&[(b"VP8L", &frame)])),
        ("webp, extended", riff(&[(b"VP8X", &canvas), (b"VP8L", &frame)])),
        ("webp, animated", animated_webp()),
        ("webp, lossy", riff(&[(b"VP8 ", lossy)])),
    ]
}

fn pnms() -> Vec<(&'static str, Vec<u8>)> {
    let (width, height) = SIZE;
    let text = |kind: &str, most: &str, samples: &[u8], top: u8| {
        let mut text = format!("{kind}\n# made\n{width} {height}\n{most}");
        for row in samples.chunks(17) {
            let row: Vec<String> = row.iter().map(|v| (v % top).to_string()).collect();
            text += &(row.join(" ") + "\n");
        }
        text.into_bytes()
    };
    let binary = |header: &str, data: &[u8]| {
        [format!("{header}\n{width} {height}\n").as_bytes(), data].concat()
    };
    let most = |data: &[u8], most: &str| [most.as_bytes(), b"\n", data].concat();
    let any = format!(
        "P7\nWIDTH {width}\nHEIGHT {height}\nDEPTH 4\nMAXVAL 255\nTUPLTYPE RGB_ALPHA\nENDHDR\n"
    );
    vec![
        ("pbm, text", text("P1", "", &samples(1), 2)),
        ("pgm, text", text("P2", "255\n", &samples(1), 255)),
        ("ppm, text", text("P3", "200\n", &samples(3), 200)),
        ("pbm", binary("P4", &packed(&samples(1), width as usize, 1).concat())),
        ("pgm", binary("P5", &most(&samples(1), "255"))),
        ("pgm 16", binary("P5", &most(&samples(2), "65535"))),
        ("ppm", binary("P6", &most(&samples(3), "255"))),
        ("pam", [any.as_bytes(), &samples(4)].concat()),
    ]
}

/// A file of every kind, whole.
pub(crate) fn all() -> Vec<(&'static str, Vec<u8>)> {
    let width = SIZE.0 as usize;
    let rows = |channels: usize| -> Vec<Vec<u8>> {
        samples(channels).chunks(width * channels).map(<[u8]>::to_vec).collect()
    };
    let colours = |n: usize| png_chunk(b"PLTE", &palette(n));
    let gray = samples(1);
    let interlaced = gif::Frame { interlaced: true, ..gif_frame(16) };
    let local = gif::Frame { palette: Some(palette(8)), left: 3, top: 2, ..gif_frame(8) };
    let mut all = vec![
        ("png", plain_png(&[])),
        ("png gray 1", png(SIZE, [1, 0, 0], &[], &packed(&gray, width, 1))),
        ("png gray 2", png(SIZE, [2, 0, 0], &[], &packed(&gray, width, 2))),
        ("png gray 16", png(SIZE, [16, 0, 0], &[], &rows(2))),
        ("png gray alpha", png(SIZE, [8, 4, 0], &[], &rows(2))),
        ("png rgba", png(SIZE, [8, 6, 0], &[], &rows(4))),
        ("png palette 4", png(SIZE, [4, 3, 0], &colours(16), &packed(&gray, width, 4))),
        ("png palette 8", png(SIZE, [8, 3, 0], &colours(256), &rows(1))),
        ("png, interlaced", interlaced_png()),
        ("gif", gif((SIZE.0 as u16, SIZE.1 as u16), gif_frame(16))),
        ("gif, interlaced", gif((SIZE.0 as u16, SIZE.1 as u16), interlaced)),
        ("gif, a part of the screen", gif((40, 30), local)),
    ];
    all.extend(bmps());
    all.extend(tiffs());
    all.extend(webps());
    all.extend(pnms());
    all
}
