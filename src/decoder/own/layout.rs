//! Where the blocks of a picture go: into lanes of groups, and from there into planes of samples.
//!
//! A picture, or a window of it, is decoded in bands of whole MCU rows, so that what one step leaves is in the cache for the next.
//! Slots are places for blocks, sixteen a group. A row of blocks has a power of two of them, or a multiple of
//! sixteen: then a group's blocks lie beside each other in a plane, or are short rows below each other. A small
//! picture is one band, and one group holds several of its rows, or the blocks of both chroma components.

use super::group::{LANES, Places};
use super::header::Frame;
use super::part::Part;
use crate::tensor::Buffer;
use std::ops::Range;

/// The slots of one block of each MCU of a band.
pub(super) struct Slots {
    pub(super) component: usize,
    /// Whether nothing is needed but its first coefficient.
    pub(super) flat: bool,
    /// Of the band's first MCU.
    pub(super) first: usize,
    /// From an MCU to the next.
    pub(super) across: usize,
    /// From a row of MCUs to the next.
    pub(super) down: usize,
}

/// Groups that are transformed alike.
pub(super) struct Run {
    /// The first of them.
    pub(super) first: usize,
    /// Slots of a row of MCUs; 0: the one group is shared by both chroma components.
    per_row: usize,
    /// Slots of a full band.
    most: usize,
    /// Of a full band.
    pub(super) places: Places,
}

impl Run {
    /// Slots of a band of `rows` rows of MCUs.
    pub(super) fn slots(&self, rows: usize) -> usize {
        if self.per_row == 0 { self.most } else { rows * self.per_row }
    }

    /// The groups of these slots.
    pub(super) fn groups(&self, rows: usize) -> Range<usize> {
        self.first..self.first + self.slots(rows).div_ceil(LANES)
    }
}

/// The rows of one component that planes hold: those of a band, behind some of the band before.
pub(super) struct Plane {
    /// Where its first row is.
    pub(super) at: usize,
    /// Bytes of a row.
    pub(super) stride: usize,
    /// Rows of the band before.
    pub(super) kept: usize,
    /// Rows of a full band.
    pub(super) rows: usize,
}

/// All that follows from a frame, and what is wanted of it, but the Huffman codes.
pub(super) struct Layout {
    pub(super) part: Part,
    /// MCUs between restart markers; all, where there are none.
    pub(super) interval: u32,
    /// Rows of MCUs of a full band.
    pub(super) band: usize,
    /// Rows of luma of an MCU.
    pub(super) mcu_rows: usize,
    /// The blocks of an MCU in order.
    pub(super) blocks: Vec<Slots>,
    pub(super) runs: Vec<Run>,
    /// Of each run: factors of all lanes.
    pub(super) quantisation: Vec<Buffer>,
    /// Of a full band.
    pub(super) groups: usize,
    /// One or three.
    pub(super) planes: Vec<Plane>,
    /// Bytes of all planes, and bytes before and behind them.
    pub(super) memory: usize,
}

/// Slots of a row of `blocks` blocks.
fn slots(blocks: usize) -> usize {
    if blocks <= LANES { blocks.next_power_of_two() } else { blocks.next_multiple_of(LANES) }
}

impl Layout {
    /// Kernels read so many bytes before and behind planes.
    const TAIL: usize = 64;

    /// In bands that fit the cache. `None`: there is no memory for it.
    pub(super) fn of(frame: &Frame, part: Part) -> Option<Self> {
        Self::new(frame, part, false)
    }

    /// As one band. `None`: there is no memory for it.
    pub(super) fn one_band(frame: &Frame, part: Part) -> Option<Self> {
        Self::new(frame, part, true)
    }

    fn new(frame: &Frame, part: Part, one_band: bool) -> Option<Self> {
        let (h, v) = frame.halved;
        let [side, _] = part.sides;
        let (across, down) = (part.across.len(), part.down.len());
        let colour = frame.components.len() == 3;
        let luma_row = slots(across * h);
        let chroma_row = slots(across);
        // As many rows as fill groups, if the part has them.
        let least = if colour { (2 * chroma_row).min(luma_row * v) } else { luma_row };
        let band = if one_band { down } else { LANES.div_ceil(least).min(down) };
        // Between bands, the last row of chroma waits for the next, and with it its rows of luma; upsampling
        // looks at the row before, too.
        let kept = if part.chroma.mixes_rows() && band < down { 2 } else { 0 };

        let mut layout = Layout {
            part,
            interval: match frame.interval {
                0 => u32::MAX,
                interval => interval,
            },
            band,
            mcu_rows: v * side,
            blocks: Vec::new(),
            runs: Vec::new(),
            quantisation: Vec::new(),
            groups: 0,
            planes: Vec::new(),
            memory: Self::TAIL,
        };
        for y in 0..v {
            for x in 0..h {
                let (first, down) = (y * luma_row + x, v * luma_row);
                let flat = side == 1;
                layout.blocks.push(Slots { component: 0, flat, first, across: h, down });
            }
        }
        let luma = band * v * luma_row;
        let rows = luma.next_multiple_of(LANES) / luma_row;
        let plane = layout.plane(rows, luma_row, side, kept, band * v);
        layout.run(luma, v * luma_row, luma_row, side, |slot| plane.place(slot));
        let table = &frame.components[0].quantisation;
        layout.quantisation.push(lanes(table, LANES, table)?);
        if colour {
            layout.add_chroma(frame, band * chroma_row, chroma_row, kept)?;
        }
        layout.memory += Self::TAIL;
        Some(layout)
    }

    /// Both chroma components, of `each` slots a band.
    fn add_chroma(&mut self, frame: &Frame, each: usize, row: usize, kept: usize) -> Option<()> {
        let [_, side] = self.part.sides;
        let shared = 2 * each <= LANES;
        // Slots that have no block of the first, or the second, component, in a plane's rows.
        let rows = |slots: usize| slots / row;
        let whole = each.next_multiple_of(LANES);
        let sizes = if shared { [each, LANES - each] } else { [whole, whole] };
        let [cb, cr] = sizes.map(|size| self.plane(rows(size), row, side, kept, self.band));
        let first = self.groups * LANES;
        let second = first + sizes[0];
        for (component, first) in [(1, first), (2, second)] {
            let flat = side == 1;
            self.blocks.push(Slots { component, flat, first, across: 1, down: row });
        }
        let [one, two] = [1, 2].map(|c| &frame.components[c].quantisation);
        if shared {
            self.run(2 * each, 0, row, side, |slot| match slot.checked_sub(each) {
                None => cb.place(slot),
                Some(slot) => cr.place(slot),
            });
            self.quantisation.push(lanes(one, each, two)?);
        } else {
            for (plane, table) in [(cb, one), (cr, two)] {
                self.run(each, row, row, side, |slot| plane.place(slot));
                self.quantisation.push(lanes(table, LANES, table)?);
            }
        }
        Some(())
    }

    /// Adds a plane of `blocks` rows of blocks, of which `band` are of a full band; gives where they lie.
    fn plane(&mut self, blocks: usize, row: usize, side: usize, kept: usize, band: usize) -> Grid {
        let (at, stride) = (self.memory, row * side);
        self.memory += (kept + blocks * side) * stride;
        self.planes.push(Plane { at, stride, kept, rows: band * side });
        Grid { at: at + kept * stride, row, side }
    }

    /// Adds a run of groups for `slots` slots, whose blocks have `side` samples a side.
    fn run(
        &mut self,
        slots: usize,
        per_row: usize,
        row: usize,
        side: usize,
        place: impl Fn(usize) -> usize,
    ) {
        let all = slots.next_multiple_of(LANES);
        let places = Places::new((0..all).map(place), row * side, side, row > 1);
        self.runs.push(Run { first: self.groups, per_row, most: slots, places });
        self.groups += all / LANES;
    }
}

/// Where the blocks of a plane lie.
struct Grid {
    /// The first byte of the first.
    at: usize,
    /// Blocks of a row.
    row: usize,
    side: usize,
}

impl Grid {
    /// The first byte of a slot's block.
    fn place(&self, slot: usize) -> usize {
        let &Grid { at, row, side } = self;
        at + slot / row * side * row * side + slot % row * side
    }
}

/// A group's factors, of one table for the first `split` lanes and of another for the rest.
fn lanes(one: &[u16; 64], split: usize, two: &[u16; 64]) -> Option<Buffer> {
    // More than a block's sum of magnitudes may be, and products with it fit 32 bits.
    const MOST: u16 = 8191;
    let mut buffer = Buffer::new();
    buffer.resize(64 * LANES * 2).ok()?;
    let factors: &mut [i16] = bytemuck::cast_slice_mut(&mut buffer[..]);
    for ((lanes, &one), &two) in factors.as_chunks_mut::<LANES>().0.iter_mut().zip(one).zip(two) {
        let (first, second) = lanes.split_at_mut(split);
        first.fill(one.min(MOST) as i16);
        second.fill(two.min(MOST) as i16);
    }
    Some(buffer)
}
