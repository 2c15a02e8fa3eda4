//! What a GPU is told of a header.

use super::args::{Form, MOST_BLOCKS, Picture, Slots};
use super::header::Frame;
use super::layout::{self, Layout};
use super::part::Part;
use super::pool::Piece;
use crate::decoder::{Region, Scale};
use bytemuck::bytes_of;

/// Pixels of a picture.
const LARGEST: u64 = 1 << 22;

/// What pictures of one header share.
pub(super) struct Shape {
    pub(super) layout: Layout,
    /// But for the codes, which lie in the pool.
    pub(super) form: Form,
    /// The codes of each component.
    pub(super) dc: Vec<Piece>,
    pub(super) ac: Vec<Piece>,
    /// Factors and places of each run.
    pub(super) runs: Vec<[Piece; 2]>,
    /// The last coefficient of each group where nobody looks for it.
    pub(super) unknown: Piece,
}

impl Shape {
    /// `None`: there is no memory for it, or it is too large.
    pub(super) fn of(frame: &Frame) -> Option<Self> {
        let fits = u64::from(frame.width) * u64::from(frame.height) <= LARGEST;
        let whole = Region::whole(frame.width, frame.height);
        let part = || Part::of(frame, whole, Scale::Full);
        let layout = fits.then(|| Layout::one_band(frame, part()))??;
        let (columns, rows) = layout.part.all;
        let mcus = u32::try_from(columns * rows).ok()?;
        let interval = layout.interval.min(mcus);
        let mut slots = [Slots::default(); MOST_BLOCKS];
        for (slot, block) in slots.iter_mut().zip(&layout.blocks) {
            *slot = slots_of(block);
        }
        let form = Form {
            dc: [0; 3],
            ac: [0; 3],
            columns: columns as u32,
            mcus,
            interval,
            intervals: mcus.div_ceil(interval),
            blocks: layout.blocks.len() as u32,
            unused: 0,
            slots,
            places: Form::PLACES,
        };
        let parts = layout.runs.iter().zip(&layout.quantisation);
        Some(Shape {
            dc: frame.components.iter().map(|c| Piece::new(bytes_of(&c.dc.codes()))).collect(),
            ac: frame.components.iter().map(|c| Piece::new(bytes_of(&c.ac.codes()))).collect(),
            runs: parts
                .map(|(run, factors)| {
                    [Piece::new(factors), Piece::new(bytemuck::cast_slice(&run.places.at))]
                })
                .collect(),
            unknown: Piece::new(&vec![63; layout.groups]),
            layout,
            form,
        })
    }

    /// All of a picture, whose planes begin at `base`.
    pub(super) fn picture(&self, base: u64, pixels: u64) -> Picture {
        let layout = &self.layout;
        let &Part { size: (width, height), halved: (h, v), chroma, .. } = &layout.part;
        let luma = &layout.planes[0];
        let [cb, cr] = if let [_, cb, cr] = &layout.planes[..] { [cb, cr] } else { [luma, luma] };
        let number = |n: usize| n as i32;
        Picture {
            planes: [luma, cb, cr].map(|plane| base + plane.at as u64),
            to: pixels,
            chroma_size: [width.div_ceil(h), height.div_ceil(v)].map(number),
            strides: [luma.stride, cb.stride].map(number),
            firsts: [0; 2],
            lefts: [0; 2],
            columns: [0, number(width)],
            top: 0,
            rows: [0, number(height)],
            chroma: chroma as u32,
        }
    }
}

/// Pixels of a picture, or between two of its restart markers.
pub(super) fn serial(layout: &Layout) -> u64 {
    let ((width, height), (h, v)) = (layout.part.size, layout.part.halved);
    let interval = u64::from(layout.interval) * (64 * h * v) as u64;
    interval.min(width as u64 * height as u64)
}

fn slots_of(slots: &layout::Slots) -> Slots {
    let &layout::Slots { component, first, across, down, .. } = slots;
    let [component, first, across, down] = [component, first, across, down].map(|n| n as u32);
    Slots { component, first, across, down }
}
