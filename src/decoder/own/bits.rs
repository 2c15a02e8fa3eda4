//! Entropy-coded bytes, and the bits in them.

use memchr::memchr;

/// Zeros behind the last byte, since bits are taken eight bytes at a time.
const PADDING: usize = 16;

/// A scan's bytes without what marks and stuffs them.
#[derive(Default)]
pub(super) struct Stream {
    bytes: Vec<u8>,
    /// Where each restart interval ends.
    ends: Vec<usize>,
}

impl Stream {
    /// Takes a scan's bytes: `intervals` runs of them, each ended by the restart marker that is due and the
    /// last by the end marker. `None`: anything else is among them, or there is no memory for them.
    pub(super) fn load(&mut self, mut scan: &[u8], intervals: usize) -> Option<()> {
        self.bytes.clear();
        self.ends.clear();
        // Each ends with a marker.
        if intervals > scan.len() / 2 {
            return None;
        }
        self.bytes.try_reserve(scan.len() + PADDING).ok()?;
        self.ends.try_reserve(intervals).ok()?;
        while self.ends.len() < intervals {
            let at = memchr(0xFF, scan)?;
            self.bytes.extend_from_slice(&scan[..at]);
            let due = match self.ends.len() + 1 == intervals {
                true => 0xD9,
                false => 0xD0 + (self.ends.len() % 8) as u8,
            };
            match *scan.get(at + 1)? {
                0 => self.bytes.push(0xFF),
                marker if marker == due => self.ends.push(self.bytes.len()),
                _ => return None,
            }
            scan = &scan[at + 2..];
        }
        self.bytes.resize(self.bytes.len() + PADDING, 0);
        Some(())
    }

    /// Bits of all intervals.
    pub(super) fn bits(&self) -> u64 {
        self.ends.last().map_or(0, |&end| end as u64 * 8)
    }

    /// All bytes and zeros behind them.
    pub(super) fn bytes(&self) -> &[u8] {
        &self.bytes
    }

    /// A reader at the start of an interval.
    pub(super) fn interval(&self, index: usize) -> Option<Bits> {
        let at = if index == 0 { 0 } else { *self.ends.get(index - 1)? };
        Some(Bits { held: 0, count: 0, at })
    }

    /// Whether nothing of an interval is left behind `bits` but what fills its last byte up.
    pub(super) fn ends_at(&self, index: usize, bits: &Bits) -> bool {
        self.left(index, bits).is_some_and(|left| left < 8)
    }

    /// Bits of an interval behind `bits`. `None`: these lie behind its end.
    pub(super) fn left(&self, index: usize, bits: &Bits) -> Option<usize> {
        let used = bits.at * 8 - bits.count as usize;
        (self.ends.get(index)? * 8).checked_sub(used)
    }
}

/// Calls `start` with where each but the first of `intervals` restart intervals begins. `None`: the marker
/// that is due between two of them is not there.
pub(super) fn restarts(scan: &[u8], intervals: usize, mut start: impl FnMut(usize)) -> Option<()> {
    let mut at = 0;
    for number in 0..intervals.saturating_sub(1) {
        loop {
            at += memchr(0xFF, scan.get(at..)?)? + 2;
            match *scan.get(at - 1)? {
                0 => {}
                marker if marker == 0xD0 + (number % 8) as u8 => break,
                _ => return None,
            }
        }
        start(at);
    }
    Some(())
}

/// A place among the bits, and the next of them at hand.
#[derive(Clone, Copy, Default)]
pub(super) struct Bits {
    /// The next bits, the first of them highest.
    pub(super) held: u64,
    /// How many of those count.
    count: u32,
    /// The byte behind them.
    at: usize,
}

impl Bits {
    /// Bits that are at hand after [`Bits::refill`], at least.
    pub(super) const HELD: u32 = 56;

    /// Takes whole bytes. `None`: far behind the end.
    #[inline(always)]
    pub(super) fn refill(&mut self, bytes: &[u8]) -> Option<()> {
        let next = u64::from_be_bytes(*bytes.get(self.at..)?.first_chunk()?);
        self.held |= next >> self.count;
        self.at += (63 - self.count as usize) / 8;
        self.count |= Self::HELD;
        Some(())
    }

    /// Drops at most as many as are at hand.
    #[inline(always)]
    pub(super) fn drop(&mut self, bits: u32) {
        self.held <<= bits;
        self.count -= bits;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bits_come_in_order() {
        let mut stream = Stream::default();
        let scan: Vec<u8> = (0..100_u8).chain([0xFF, 0x00, 0xAB, 0xFF, 0xD9, 7]).collect();
        stream.load(&scan, 1).unwrap();
        assert_eq!(stream.bits(), 102 * 8);
        let mut bits = stream.interval(0).unwrap();
        // In steps of 1 to 13 bits, against the bytes themselves.
        let (mut used, mut step) = (0, 1);
        while used + 13 <= 102 * 8 {
            bits.refill(stream.bytes()).unwrap();
            let expected = (0..step).fold(0, |value, k| {
                let at = used + k as usize;
                value << 1 | u64::from(stream.bytes()[at / 8] >> (7 - at % 8) & 1)
            });
            assert_eq!(bits.held >> (64 - step), expected);
            assert!(!stream.ends_at(0, &bits));
            assert_eq!(stream.left(0, &bits), Some(102 * 8 - used));
            bits.drop(step);
            (used, step) = (used + step as usize, step % 13 + 1);
        }
        bits.refill(stream.bytes()).unwrap();
        bits.drop(102 * 8 - used as u32);
        assert!(stream.ends_at(0, &bits));
        bits.refill(stream.bytes()).unwrap();
        bits.drop(1);
        assert!(stream.left(0, &bits).is_none() && !stream.ends_at(0, &bits), "a bit too many");
    }

    #[test]
    fn markers_must_be_those_that_are_due() {
        let load = |scan: &[u8], intervals| Stream::default().load(scan, intervals).is_some();
        assert!(load(&[1, 0xFF, 0xD0, 2, 0xFF, 0xD1, 3, 0xFF, 0xD9], 3));
        assert!(!load(&[1, 0xFF, 0xD0, 2, 0xFF, 0xD1, 3, 0xFF, 0xD9], 2));
        assert!(!load(&[1, 0xFF, 0xD1, 2, 0xFF, 0xD9], 2), "the wrong number");
        assert!(!load(&[1, 0xFF, 0xD9], 2), "one too few");
        assert!(!load(&[1, 0xFF, 0xFF, 0xD9], 1), "a fill byte");
        assert!(!load(&[1, 0xFF], 1));
        assert!(!load(&[1, 2], 1));
        assert!(!load(&[], 1));
    }
}
