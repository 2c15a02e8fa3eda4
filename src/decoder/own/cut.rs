//! How many threads share a picture's entropy-coded bytes.

use super::args::Form;
use super::bits;

/// What one thread decodes, and how long restart intervals are cut.
///
/// A thread takes some 0.12 us a byte, and all wait for the last. Subsequences need the time of some rounds, each
/// as long as one of them takes, and three times the work; so small pictures and short intervals are not cut: what
/// 2,048 bytes take is some eight rounds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cutting {
    /// Bytes that one thread decodes from a picture's or interval's start, at most.
    pub whole: u32,
    /// Bytes of a subsequence, 1 to [`Cutting::MOST_BYTES`]. In longer ones more starts settle by themselves, and
    /// shorter ones take less time a round.
    pub bytes: u32,
    /// Rounds for starts to settle in, at least 1; what has not by then is doubt.
    pub rounds: u32,
}

impl Default for Cutting {
    /// Of 125 photos of up to 1600 x 1200, half settle in 3 rounds, 97% in 9, and all in 32.
    fn default() -> Self {
        Cutting { whole: 2048, bytes: 256, rounds: 48 }
    }
}

/// What a launch of `subsequence` does, by its number in `kernels/subsequence.cu`.
#[derive(Debug, Clone, Copy)]
#[repr(u32)]
pub(super) enum Step {
    Guess,
    Follow,
    AddUp,
    Store,
}

/// Who decodes a picture's intervals.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Way {
    /// One thread all of them.
    Whole,
    /// A thread each.
    Intervals,
    /// A thread each subsequence of each.
    Cut,
}

/// Where an interval begins in its file, and its subsequences if it is cut.
#[derive(Debug, Clone, Copy)]
pub(super) struct Start {
    pub(super) at: u32,
    pub(super) count: u32,
}

impl Cutting {
    /// [`Cutting::bytes`], at most.
    pub const MOST_BYTES: u32 = 4096;

    /// Adds to `starts` those of a picture in the file `jpeg`, whose entropy-coded bytes begin at `scan`: one if a
    /// thread decodes all. `None`: a marker that is due is not there, or the file is too long.
    pub(super) fn starts(
        &self,
        form: &Form,
        jpeg: &[u8],
        scan: usize,
        starts: &mut Vec<Start>,
    ) -> Option<Way> {
        let length = u32::try_from(jpeg.len()).ok()?;
        // Bytes behind the end may be any number. Of those before, a block has at most a code of 16 bits for each
        // coefficient with a value of 11 or 10, and each byte may be stuffed.
        const BLOCK: u64 = 2 * (27 + 63 * 26_u64).div_ceil(8);
        let most = |mcus: u32| u64::from(mcus) * u64::from(form.blocks) * BLOCK;
        let bytes = |from: u32, to: u32, mcus| most(mcus).min(u64::from(to - from)) as u32;
        let (first, scan_at) = (starts.len(), u32::try_from(scan).ok()?);
        starts.push(Start { at: scan_at, count: 0 });
        if bytes(scan_at, length, form.mcus) <= self.whole {
            return Some(Way::Whole);
        }
        bits::restarts(jpeg.get(scan..)?, form.intervals as usize, |at| {
            starts.push(Start { at: scan_at + at as u32, count: 0 });
        })?;
        let starts = &mut starts[first..];
        let mut longest = 0;
        for k in 0..starts.len() {
            let end = starts.get(k + 1).map_or(length, |next| next.at);
            let bytes = bytes(starts[k].at, end, form.interval);
            longest = longest.max(bytes);
            starts[k].count = bytes.div_ceil(self.bytes);
        }
        if form.intervals > 1 && longest <= self.whole {
            starts.iter_mut().for_each(|start| start.count = 0);
            return Some(Way::Intervals);
        }
        Some(Way::Cut)
    }
}
