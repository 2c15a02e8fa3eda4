//! Our JPEG decoder against libjpeg-turbo.

use super::image_decode::{crc32, pick};
use super::refusal;
use forebay::decoder::{Decoder, Info, Lane, Limits, Pixels, Wanted};
use forebay::device::cpu::Cpu;
use std::cell::RefCell;

/// Of every picture, so that a decode is short.
const MOST_PIXELS: u64 = 1 << 14;

thread_local! {
    static DECODERS: RefCell<[(Decoder, Pixels); 2]> = RefCell::new([Cpu::best(), None].map(|cpu| {
        let limits = Limits { pixels: MOST_PIXELS, scans: 20, ..Limits::default() };
        (Decoder::with(limits, cpu), Pixels::new())
    }));
}

/// The same verdict, warnings and pixels, whoever took the file; of a part of it, too.
pub fn run(bytes: &[u8]) -> String {
    let dice = crc32(bytes);
    compare(bytes, |width, height, scales| pick(dice, width, height, scales));
    compare(bytes, |width, height, _| Wanted::whole(width, height))
}

fn compare(bytes: &[u8], wanted: impl Fn(u32, u32, bool) -> Wanted) -> String {
    DECODERS.with_borrow_mut(|[own, turbo]| {
        let got = decode(own, bytes, &wanted);
        let same = got == decode(turbo, bytes, &wanted);
        assert!(same, "libjpeg-turbo gives another picture or word");
        let way = if own.0.lane() == Lane::Own { "own" } else { "libjpeg-turbo" };
        match got {
            Ok((info, _)) => format!("{way} {:?}", info.warnings),
            Err(error) => error,
        }
    })
}

fn decode(
    way: &mut (Decoder, Pixels),
    bytes: &[u8],
    wanted: impl Fn(u32, u32, bool) -> Wanted,
) -> Result<(Info, Vec<u8>), String> {
    let (decoder, pixels) = way;
    let wanted = |width, height, scales| Ok(wanted(width, height, scales));
    let info = decoder.decode_region(bytes, wanted, pixels).map_err(|error| refusal(&error))?;
    let size = [pixels.width(), pixels.height()].map(u32::to_le_bytes).concat();
    Ok((info, [&size[..], pixels.bytes()].concat()))
}
