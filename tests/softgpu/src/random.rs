//! Choices: a generator, and work that is done in random pieces.

use std::ops::Range;

/// SplitMix64.
pub(crate) struct Random(u64);

impl Random {
    pub(crate) fn new(seed: u64) -> Self {
        Self(seed)
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// One of 0..`n`; `n` is not 0. The bias of the remainder does not matter here.
    pub(crate) fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    /// True once in `n` times.
    pub(crate) fn once_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }
}

/// The units of an operation that are still to be done (bytes, words, blocks, rows).
pub(crate) struct Pieces(Vec<Range<u64>>);

impl Pieces {
    pub(crate) fn new(units: u64) -> Self {
        Self(std::iter::once(0..units).filter(|all| !all.is_empty()).collect())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// Takes a run of them out, from anywhere; an operation takes about three runs.
    pub(crate) fn take(&mut self, random: &mut Random) -> Range<u64> {
        let Range { start, end } = self.0.swap_remove(random.below(self.0.len() as u64) as usize);
        if !random.once_in(3) {
            return start..end;
        }
        let from = start + random.below(end - start);
        let to = from + 1 + random.below(end - from);
        self.0.extend([start..from, to..end].into_iter().filter(|rest| !rest.is_empty()));
        from..to
    }
}
