//! Entropy-coded bits to coefficients, in groups of blocks as the kernels take them.

use super::args::BITS;
use super::bits::{Bits, Stream};
use super::group::{LANES, PLACES};
use super::layout::{Layout, Slots};
use super::tables::{Huffman, Pairs, pair};

/// From the first coefficient of a lane to its last.
const LANE: usize = 63 * LANES + 1;

/// Look-ups that the bits of one refill are enough for.
const AT_ONCE: u32 = Bits::HELD / BITS;

/// The codes of a component.
#[derive(Clone, Copy)]
pub(super) struct Codes<'a> {
    pub(super) dc: &'a Huffman,
    pub(super) ac: &'a Huffman,
    /// Of `ac`.
    pub(super) pairs: &'a Pairs,
}

/// The place in a scan from which decoding goes on.
pub(super) struct Cursor {
    bits: Bits,
    interval: usize,
    /// MCUs left of the interval.
    left: u32,
    /// First coefficient of each component's last block.
    dc: [i32; 3],
}

impl Cursor {
    /// The start of a scan with `mcus` MCUs an interval.
    pub(super) fn new(stream: &Stream, mcus: u32) -> Option<Self> {
        Some(Cursor { bits: stream.interval(0)?, interval: 0, left: mcus, dc: [0; 3] })
    }

    /// Whether what was read so far was all there: behind an interval's bytes follow others.
    pub(super) fn is_within(&self, stream: &Stream) -> bool {
        stream.left(self.interval, &self.bits).is_some()
    }

    /// Whether the scan ends here.
    pub(super) fn is_at_end(&self, stream: &Stream) -> bool {
        stream.ends_at(self.interval, &self.bits)
    }

    /// Passes over `mcus` MCUs. `None`: as [`Cursor::rows`], which keeps its registers to itself.
    #[inline(never)]
    pub(super) fn skip(
        &mut self,
        stream: &Stream,
        codes: &[Codes<'_>],
        layout: &Layout,
        mcus: usize,
    ) -> Option<()> {
        let bytes = stream.bytes();
        self.mcus(stream, layout.interval, mcus, |bits, dc, _| {
            for slots in &layout.blocks {
                let codes = codes.get(slots.component)?;
                block(bits, bytes, codes, dc.get_mut(slots.component)?, &mut Nothing)?;
            }
            Some(())
        })
    }

    /// Decodes the next `rows` rows of MCUs, of which those columns are kept that the part needs. `coefficients`
    /// are groups of zeros before; `last` gets the last coefficient of each group, in zigzag order. `None`: the
    /// bits are not what they should be, or may not be.
    pub(super) fn rows(
        &mut self,
        stream: &Stream,
        codes: &[Codes<'_>],
        layout: &Layout,
        rows: usize,
        coefficients: &mut [i16],
        last: &mut [u8],
    ) -> Option<()> {
        let bytes = stream.bytes();
        let (across, all) = (&layout.part.across, layout.part.all.0);
        for row in 0..rows {
            self.skip(stream, codes, layout, across.start)?;
            self.mcus(stream, layout.interval, across.len(), |bits, dc, column| {
                for &Slots { component, flat, first, across, down } in &layout.blocks {
                    let slot = first + column * across + row * down;
                    let first = slot / LANES * 64 * LANES + slot % LANES;
                    let lane = coefficients.get_mut(first..)?;
                    let codes = codes.get(component)?;
                    let before = dc.get_mut(component)?;
                    if flat {
                        block(bits, bytes, codes, before, &mut First(lane.first_mut()?))?;
                        continue;
                    }
                    let k = block(bits, bytes, codes, before, &mut All(lane.first_chunk_mut()?))?;
                    let last = last.get_mut(slot / LANES)?;
                    *last = (*last).max(k);
                }
                Some(())
            })?;
            self.skip(stream, codes, layout, all - across.end)?;
        }
        Some(())
    }

    /// Calls `mcu` for each of the next `count` MCUs, and begins intervals on the way.
    #[inline(always)]
    fn mcus(
        &mut self,
        stream: &Stream,
        interval: u32,
        count: usize,
        mut mcu: impl FnMut(&mut Bits, &mut [i32; 3], usize) -> Option<()>,
    ) -> Option<()> {
        let mut bits = self.bits;
        for column in 0..count {
            if self.left == 0 {
                if !stream.ends_at(self.interval, &bits) {
                    return None;
                }
                self.interval += 1;
                bits = stream.interval(self.interval)?;
                (self.left, self.dc) = (interval, [0; 3]);
            }
            self.left -= 1;
            mcu(&mut bits, &mut self.dc, column)?;
        }
        self.bits = bits;
        Some(())
    }
}

/// Where the coefficients of a block go.
trait Lane {
    /// Coefficient k, in zigzag order.
    fn put(&mut self, k: usize, value: i16);
}

/// To a lane of a group.
struct All<'a>(&'a mut [i16; LANE]);

impl Lane for All<'_> {
    #[inline(always)]
    fn put(&mut self, k: usize, value: i16) {
        self.0[usize::from(PLACES[k & 127])] = value;
    }
}

/// The first alone.
struct First<'a>(&'a mut i16);

impl Lane for First<'_> {
    #[inline(always)]
    fn put(&mut self, k: usize, value: i16) {
        if k == 0 {
            *self.0 = value;
        }
    }
}

/// Nowhere: the block lies outside of what is wanted.
struct Nothing;

impl Lane for Nothing {
    #[inline(always)]
    fn put(&mut self, _: usize, _: i16) {}
}

/// Decodes a block; gives its last coefficient.
#[inline(always)]
fn block(
    bits: &mut Bits,
    bytes: &[u8],
    &Codes { dc, ac, pairs }: &Codes<'_>,
    before: &mut i32,
    lane: &mut impl Lane,
) -> Option<u8> {
    bits.refill(bytes)?;
    let mut entry = dc.look(bits.held);
    if entry.is_rare() {
        entry = dc.resolve(entry, bits.held)?;
    }
    bits.drop(entry.bits());
    *before += i32::from(entry.value());
    // Of 8-bit samples; more would also be more than the kernels take.
    if !(-2048..2048).contains(before) {
        return None;
    }
    lane.put(0, *before as i16);

    let mut k = 0;
    'refill: loop {
        bits.refill(bytes)?;
        for _ in 0..AT_ONCE {
            let pair = pair(pairs, bits.held);
            let last = k + pair.to_last();
            // Behind a block's last coefficient begins the next block, which has other codes.
            if last < 63 {
                if pair.is_values() {
                    bits.drop(pair.bits());
                    lane.put(k + pair.to_first(), pair.first());
                    lane.put(last, pair.last());
                    k = last;
                    continue;
                }
                if pair.is_end() {
                    bits.drop(pair.bits());
                    if last > k {
                        lane.put(last, pair.first());
                        k = last;
                    }
                    break 'refill;
                }
            }
            let mut entry = ac.look(bits.held);
            if entry.is_rare() {
                bits.refill(bytes)?;
                entry = ac.resolve(entry, bits.held)?;
            }
            bits.drop(entry.bits());
            if entry.is_end() {
                break 'refill;
            }
            k += entry.advance();
            lane.put(k, entry.value());
            if k >= 63 {
                // Zeros to the end of a block have a code of their own.
                if !entry.has_value() {
                    return None;
                }
                break 'refill;
            }
            continue 'refill;
        }
    }
    // A run that leads out of the block is what libjpeg forgives.
    if k < 64 { Some(k as u8) } else { None }
}
