//! Where the blocks of a picture go: into lanes of groups, and from there into planes of samples.
//!
//! A picture is decoded in bands of whole MCU rows, so that what one step leaves is in the cache for the next.
//! Slots are places for blocks, sixteen a group. A row of blocks has a power of two of them, or a multiple of
//! sixteen: then a group's blocks lie beside each other in a plane, or are short rows below each other. A small
//! picture is one band, and one group holds several of its rows, or the blocks of both chroma components.

use super::entropy::LANES;
use super::header::Frame;
use super::kernels::{Chroma, Places};
use crate::tensor::Buffer;
use std::ops::Range;

/// The slots of one block of each MCU of a band.
pub(super) struct Slots {
    pub(super) component: usize,
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

/// All that follows from a frame but its Huffman codes.
pub(super) struct Layout {
    pub(super) width: usize,
    pub(super) height: usize,
    pub(super) halved: (usize, usize),
    pub(super) chroma: Chroma,
    /// Columns and rows of MCUs.
    pub(super) mcus: (usize, usize),
    /// MCUs between restart markers; all, where there are none.
    pub(super) interval: u32,
    /// Rows of MCUs of a full band.
    pub(super) band: usize,
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
    pub(super) fn of(frame: &Frame) -> Option<Self> {
        Self::new(frame, false)
    }

    /// As one band. `None`: there is no memory for it.
    pub(super) fn whole(frame: &Frame) -> Option<Self> {
        Self::new(frame, true)
    }

    fn new(frame: &Frame, whole: bool) -> Option<Self> {
        let (width, height) = (frame.width as usize, frame.height as usize);
        let (h, v) = frame.halved;
        let mcus = (width.div_ceil(8 * h), height.div_ceil(8 * v));
        let colour = frame.components.len() == 3;
        let luma_row = slots(mcus.0 * h);
        let chroma_row = slots(mcus.0);
        // As many rows as fill groups, if the picture has them.
        let least = if colour { (2 * chroma_row).min(luma_row * v) } else { luma_row };
        let band = if whole { mcus.1 } else { LANES.div_ceil(least).min(mcus.1) };
        // Between bands, the last row of chroma waits for the next, and with it its rows of luma; upsampling
        // looks at the row before, too.
        let kept = if v == 2 && band < mcus.1 { 2 } else { 0 };

        let mut layout = Layout {
            width,
            height,
            halved: frame.halved,
            chroma: chroma(colour, frame.halved, width),
            mcus,
            interval: match frame.interval {
                0 => u32::MAX,
                interval => interval,
            },
            band,
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
                layout.blocks.push(Slots { component: 0, first, across: h, down });
            }
        }
        let luma = band * v * luma_row;
        let at = layout.plane(luma.next_multiple_of(LANES) / luma_row, luma_row, kept, band * v);
        layout.run(luma, v * luma_row, luma_row, |slot| place(at, luma_row, slot));
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
        let shared = 2 * each <= LANES;
        // Slots that have no block of the first, or the second, component, in a plane's rows.
        let rows = |slots: usize| slots / row;
        let whole = each.next_multiple_of(LANES);
        let sizes = if shared { [each, LANES - each] } else { [whole, whole] };
        let [cb, cr] = sizes.map(|size| self.plane(rows(size), row, kept, self.band));
        let first = self.groups * LANES;
        let second = first + sizes[0];
        for (component, first) in [(1, first), (2, second)] {
            self.blocks.push(Slots { component, first, across: 1, down: row });
        }
        let [one, two] = [1, 2].map(|c| &frame.components[c].quantisation);
        if shared {
            self.run(2 * each, 0, row, |slot| match slot.checked_sub(each) {
                None => place(cb, row, slot),
                Some(slot) => place(cr, row, slot),
            });
            self.quantisation.push(lanes(one, each, two)?);
        } else {
            for (at, table) in [(cb, one), (cr, two)] {
                self.run(each, row, row, |slot| place(at, row, slot));
                self.quantisation.push(lanes(table, LANES, table)?);
            }
        }
        Some(())
    }

    /// Adds a plane of `blocks` rows of blocks, of which `band` are of a full band; gives the place and the
    /// stride of its first block.
    fn plane(&mut self, blocks: usize, row: usize, kept: usize, band: usize) -> usize {
        let (at, stride) = (self.memory, row * 8);
        self.memory += (kept + blocks * 8) * stride;
        self.planes.push(Plane { at, stride, kept, rows: band * 8 });
        at + kept * stride
    }

    /// Adds a run of groups for `slots` slots.
    fn run(&mut self, slots: usize, per_row: usize, row: usize, place: impl Fn(usize) -> usize) {
        let all = slots.next_multiple_of(LANES);
        let places = Places::new((0..all).map(place), row * 8, row > 1);
        self.runs.push(Run { first: self.groups, per_row, most: slots, places });
        self.groups += all / LANES;
    }
}

/// The first byte of a slot's block in a plane of `row` slots a row.
fn place(at: usize, row: usize, slot: usize) -> usize {
    at + slot / row * 8 * row * 8 + slot % row * 8
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

fn chroma(colour: bool, halved: (usize, usize), width: usize) -> Chroma {
    // libjpeg repeats the samples of up to two columns that are halved.
    let narrow = width.div_ceil(2) <= 2;
    match halved {
        _ if !colour => Chroma::None,
        (1, 1) => Chroma::Full,
        (1, _) => Chroma::HalfY,
        (_, 1) if narrow => Chroma::RepeatX,
        (_, 1) => Chroma::HalfX,
        _ if narrow => Chroma::RepeatXy,
        _ => Chroma::HalfXy,
    }
}
