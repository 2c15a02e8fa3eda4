//! Images of every format.

use super::refusal;
use forebay::decoder::{Decoder, Limits, Pixels, Region, Scale, Wanted, probe};
use image::{DynamicImage, ImageFormat};
use std::cell::RefCell;
use std::io::Cursor;

/// Pixels of one image: a square of [`SIDE`], so that a decode is short.
const SIDE: u32 = 192;

thread_local! {
    static STATE: RefCell<State> = RefCell::new(State::new());
}

struct State {
    decoder: Decoder,
    pixels: Pixels,
    /// Good pictures, which leave their traces in all of a decoder's scratch: a JPEG that is turned,
    /// and 16-bit samples; with their pixels.
    good: Vec<(Vec<u8>, Vec<u8>)>,
}

impl State {
    fn new() -> State {
        let limits = Limits { pixels: (SIDE * SIDE).into(), scans: 20, ..Limits::default() };
        let mut state =
            State { decoder: Decoder::new(limits), pixels: Pixels::new(), good: Vec::new() };
        let noise = |x: u32, y: u32| [x * 7 + y, x ^ y, y * 5].map(|v| v as u8 | 1);
        let picture = image::RgbImage::from_fn(48, 32, |x, y| image::Rgb(noise(x, y)));
        let picture = DynamicImage::from(picture);
        let write = |picture: &DynamicImage, format| {
            let mut bytes = Cursor::new(Vec::new());
            picture.write_to(&mut bytes, format).expect("an encoder for what it takes");
            bytes.into_inner()
        };
        let turned = turn(&write(&picture, ImageFormat::Jpeg));
        let deep = write(&DynamicImage::from(picture.to_rgb16()), ImageFormat::Png);
        for bytes in [turned, deep] {
            let pixels = state.decode(&bytes, 0).expect("a good picture").1;
            state.good.push((bytes, pixels));
        }
        state
    }

    /// What came of `bytes`, decoded into memory that is full of `stain`.
    fn decode(&mut self, bytes: &[u8], stain: u8) -> Result<(String, Vec<u8>), String> {
        self.pixels.reset(SIDE, SIDE).expect("memory for a small picture").fill(stain);
        let info = self.decoder.decode(bytes, &mut self.pixels).map_err(|e| refusal(&e))?;
        let (width, height) = (self.pixels.width(), self.pixels.height());
        assert!(u64::from(width) * u64::from(height) <= u64::from(SIDE * SIDE), "over the limit");
        let header = probe(bytes).expect("what can be decoded has a header");
        assert_eq!((header.format, header.upright_size()), (info.format, (width, height)));
        let warned = info.warning_text();
        let told = format!("{} {warned:?} {}", info.format, header.components);
        Ok((told, self.pixels.bytes().to_vec()))
    }

    /// A part of `bytes`, both of them chosen by `dice`: of a picture that can be decoded it is the same
    /// as in the whole, of any other it is no more than that part.
    fn part(&mut self, bytes: &[u8], dice: u32) {
        let mut asked = None;
        let pick = |width: u32, height: u32, scales: bool| {
            let wanted = pick(dice, width, height, scales);
            let all = Region::whole(wanted.scale.size(width), wanted.scale.size(height));
            asked = Some((wanted, all));
            Ok(wanted)
        };
        let got = self.decoder.decode_region(bytes, pick, &mut self.pixels);
        let Some((Wanted { region, scale }, all)) = asked else { return };
        let part = std::mem::take(&mut self.pixels);
        let all = |_, _, _| Ok(Wanted { region: all, scale });
        let whole = self.decoder.decode_region(bytes, all, &mut self.pixels);
        if let (Ok(_), Err(error)) = (&whole, &got) {
            panic!("the whole can be decoded, and its {region:?} at {scale:?} not: {error}");
        }
        if got.is_err() {
            return;
        }
        assert_eq!((part.width(), part.height()), (region.width, region.height));
        if whole.is_ok() {
            let stride = self.pixels.width() as usize * 3;
            let rows = self.pixels.bytes().chunks_exact(stride).skip(region.y as usize);
            for (row, kept) in rows.zip(part.bytes().chunks_exact(region.width as usize * 3)) {
                let same = row[region.x as usize * 3..][..kept.len()] == *kept;
                assert!(same, "{region:?} at {scale:?} is another than in the whole");
            }
        }
    }
}

/// A part of a picture of `width` x `height`, and a scale.
pub(super) fn pick(dice: u32, width: u32, height: u32, scales: bool) -> Wanted {
    let dice = |sides: u32, turn: u32| dice.rotate_left(turn * 5) % sides;
    let scale = if scales { Scale::ALL[dice(4, 0) as usize] } else { Scale::Full };
    let (width, height) = (scale.size(width), scale.size(height));
    let (x, y) = (dice(width, 1), dice(height, 2));
    let (columns, rows) = (1 + dice(width - x, 3), 1 + dice(height - y, 4));
    Wanted { region: Region { x, y, width: columns, height: rows }, scale }
}

/// An Exif segment of orientation 6 behind SOI.
fn turn(jpeg: &[u8]) -> Vec<u8> {
    let exif =
        b"\xFF\xE1\0\x22Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0\x06\0\0\0\0\0\0\0";
    [&jpeg[..2], exif, &jpeg[2..]].concat()
}

/// The same pixels whatever the memory and the decoder held before, or an error, after which the
/// decoder is as good as new; and a part of it by itself is what it is in the whole.
pub fn run(bytes: &[u8]) -> String {
    let told = decode(bytes);
    // A checksum keeps chance damage from what lies behind it.
    match with_checksums(bytes) {
        Some(whole) if whole != bytes => decode(&whole),
        _ => told,
    }
}

fn decode(bytes: &[u8]) -> String {
    STATE.with_borrow_mut(|state| {
        let first = state.decode(bytes, 0x00);
        let good = std::mem::take(&mut state.good);
        for (bytes, expected) in &good {
            let pixels = state.decode(bytes, 0xFF).expect("a good picture is one again").1;
            assert!(pixels == *expected, "a good picture is another after this one");
        }
        state.good = good;
        let second = state.decode(bytes, 0xFF);
        assert!(first == second, "other pixels or another word the second time");
        state.part(bytes, crc32(bytes));
        first.map_or_else(|error| error, |(told, _)| told)
    })
}

/// A PNG with the checksums that its chunks ought to have.
fn with_checksums(bytes: &[u8]) -> Option<Vec<u8>> {
    const SIGNATURE: usize = 8;
    if !bytes.starts_with(b"\x89PNG\r\n\x1A\n") {
        return None;
    }
    let mut whole = bytes.to_vec();
    let mut at = SIGNATURE;
    while let Some(head) = whole.get(at..at + 8) {
        let length = u32::from_be_bytes([head[0], head[1], head[2], head[3]]) as usize;
        let Some(body) = whole.get(at + 4..at + 8 + length) else { break };
        let sum = crc32(body).to_be_bytes();
        at += 8 + length;
        let Some(place) = whole.get_mut(at..at + 4) else { break };
        place.copy_from_slice(&sum);
        at += 4;
    }
    Some(whole)
}

/// PNG's and zip's checksum.
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ (0xEDB8_8320 * (sum & 1)))
    })
}
