//! The files that our own kernels decode on a GPU, by nvJPEG there and by one thread of the CPU.
#![allow(unsafe_code)]

use crate::clock::{Times, time};
use crate::decode::Decode;
use forebay::decoder::nvjpeg::{Library, Nvjpeg, Outcome};
use forebay::decoder::{Decoder, Limits, Pixels};
use forebay::{Error, ErrorKind, Result};

/// An image that nvJPEG has skipped without a word is black, and so further from the CPU's than this, in levels of
/// 255.
const SKIPPED: u8 = 64;

/// What each takes for the batch, from files in the host's memory to pixels in that of the one who decodes.
pub(crate) struct Beside {
    pub(crate) own: Times,
    /// Also how far its pixels are from the CPU's at most, in levels of 255; or why there are none.
    pub(crate) nvjpeg: Result<(Times, u8)>,
    /// One thread.
    pub(crate) cpu: Times,
}

impl Beside {
    /// One after another.
    pub(crate) fn measure(decode: &Decode) -> Result<Beside> {
        let (mut decoder, mut pixels) = (Decoder::new(Limits::default()), Pixels::new());
        let cpu = time(&decode.stream, || {
            let mut each = 0..decode.len();
            each.try_for_each(|k| decoder.decode(decode.file(k), &mut pixels).map(drop))
        })?;
        let own = time(&decode.stream, || decode.whole())?;
        // The last, since it may leave an error behind on the GPU.
        Ok(Beside { own, nvjpeg: nvjpeg(decode), cpu })
    }
}

/// Each batch is waited for: what nvJPEG keeps for one may be in use until then.
fn nvjpeg(decode: &Decode) -> Result<(Times, u8)> {
    let mut nvjpeg = Nvjpeg::new(Library::open()?);
    nvjpeg.start()?;
    let (items, mut outcomes) = (decode.items(), Vec::new());
    let mut all = || {
        // SAFETY: the files outlive the decode, which is waited for; each place has room for its picture, and
        // nothing else uses it.
        unsafe { nvjpeg.decode(&items, decode.stream.raw(), &mut outcomes) };
        decode.stream.synchronize()?;
        let failed = |outcome: &Outcome| match outcome {
            Outcome::Failed(error) => Some(error.clone()),
            Outcome::Hardware | Outcome::Single => None,
        };
        outcomes.iter().find_map(failed).map_or(Ok(()), Err)
    };
    decode.blank()?;
    all()?;
    let furthest = decode.furthest()?;
    if furthest > SKIPPED {
        let text = format!("nvJPEG's pixels are {furthest} levels from the CPU's");
        return Err(Error::new(ErrorKind::Device, text));
    }
    Ok((time(&decode.stream, all)?, furthest))
}
