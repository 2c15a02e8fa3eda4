//! What has to be decoded for a window of a picture: MCUs, and samples a block.

use super::header::Frame;
use crate::decoder::{Region, Scale};
use std::ops::Range;

/// How chroma is stored, and whether it is interpolated.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub(super) enum Chroma {
    None,
    Full,
    HalfX,
    HalfY,
    HalfXy,
    RepeatX,
    RepeatXy,
    RepeatY,
}

impl Chroma {
    /// Whether a pixel is made of samples of two columns.
    pub(super) fn mixes_columns(self) -> bool {
        matches!(self, Chroma::HalfX | Chroma::HalfXy)
    }

    /// Whether a pixel is made of samples of two rows.
    pub(super) fn mixes_rows(self) -> bool {
        matches!(self, Chroma::HalfY | Chroma::HalfXy)
    }
}

/// What a window needs of a picture at a scale.
pub(super) struct Part {
    /// Columns and rows of the whole picture at that scale.
    pub(super) size: (usize, usize),
    /// Samples of a block's row and column, of luma and chroma: 8, 4, 2 or 1.
    pub(super) sides: [usize; 2],
    /// Luma samples a chroma sample, across and down: 1 or 2.
    pub(super) halved: (usize, usize),
    pub(super) chroma: Chroma,
    /// Columns and rows of MCUs of the whole picture.
    pub(super) all: (usize, usize),
    /// Columns of MCUs whose samples are needed.
    pub(super) across: Range<usize>,
    /// Rows of MCUs of which some are; those below are not read.
    pub(super) down: Range<usize>,
}

impl Part {
    /// `window` lies in the stored picture at `scale`.
    pub(super) fn of(frame: &Frame, window: Region, scale: Scale) -> Self {
        let size = [frame.width, frame.height].map(|length| scale.size(length) as usize);
        let (h, v) = frame.halved;
        let luma = 8 / scale.divisor() as usize;
        // Where both are halved, libjpeg shrinks chroma by half as much instead of upsampling it.
        let (side, halved) = match (h, v) {
            (2, 2) if luma < 8 => (2 * luma, (1, 1)),
            halved => (luma, halved),
        };
        let colour = frame.components.len() == 3;
        let chroma = chroma(colour, halved, size[0], luma);
        let (columns, rows) = ranges(window);
        let all = (frame.width.div_ceil(8 * h as u32), frame.height.div_ceil(8 * v as u32));
        let all = (all.0 as usize, all.1 as usize);
        let across = samples(&columns, halved.0, chroma.mixes_columns());
        let mut down = samples(&rows, halved.1, chroma.mixes_rows());
        down = down.start / side..down.end.div_ceil(side).min(all.1);
        down.end = down.end.next_multiple_of(frame.together).min(all.1);
        Part {
            size: (size[0], size[1]),
            sides: [luma, side],
            halved,
            chroma,
            all,
            across: across.start / side..across.end.div_ceil(side).min(all.0),
            down,
        }
    }
}

/// Columns and rows of a window.
pub(super) fn ranges(window: Region) -> (Range<usize>, Range<usize>) {
    let Region { x, y, width, height } = window;
    let range = |first: u32, length: u32| first as usize..(first + length) as usize;
    (range(x, width), range(y, height))
}

/// The samples of chroma, of which there is one for `each` pixels, that pixels `wanted` are made of. They lie
/// in the MCUs of the pixels, or beside. Of rows they are those that libjpeg-turbo waits for before it makes
/// pairs of rows, so that damage is seen as far as it sees it.
fn samples(wanted: &Range<usize>, each: usize, mixed: bool) -> Range<usize> {
    let (start, end) = (wanted.start, wanted.end.div_ceil(each));
    if mixed { start.saturating_sub(1) / each..end + 1 } else { start / each..end }
}

/// Of a picture of `width` columns whose blocks of luma are `side` samples wide.
fn chroma(colour: bool, halved: (usize, usize), width: usize, side: usize) -> Chroma {
    // libjpeg repeats the samples of up to two columns that are halved, and those that stand for a block.
    let repeat = width.div_ceil(2) <= 2 || side == 1;
    match halved {
        _ if !colour => Chroma::None,
        (1, 1) => Chroma::Full,
        (1, _) if side == 1 => Chroma::RepeatY,
        (1, _) => Chroma::HalfY,
        (_, 1) if repeat => Chroma::RepeatX,
        (_, 1) => Chroma::HalfX,
        _ if repeat => Chroma::RepeatXy,
        _ => Chroma::HalfXy,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The MCUs, across and down, of some columns and as many rows of a picture of 100 x 100.
    fn mcus(halved: (usize, usize), window: Range<u32>, scale: Scale) -> [Range<usize>; 2] {
        let frame = Frame::plain(100, 100, halved);
        let length = window.end - window.start;
        let region = Region { x: window.start, y: window.start, width: length, height: length };
        let part = Part::of(&frame, region, scale);
        [part.across, part.down]
    }

    #[test]
    fn what_a_window_needs() {
        use Scale::*;
        let both = |range: Range<usize>| [range.clone(), range];
        assert_eq!(mcus((1, 1), 8..16, Full), both(1..2));
        assert_eq!(mcus((1, 1), 7..17, Full), both(0..3));
        assert_eq!(mcus((1, 1), 99..100, Full), both(12..13));
        // Chroma's neighbours: column 16 is made of that of column 15, too, and row 30 waits for row 31.
        assert_eq!(mcus((2, 2), 17..30, Full), both(1..2));
        assert_eq!(mcus((2, 2), 16..30, Full), both(0..2));
        assert_eq!(mcus((2, 2), 17..31, Full), both(1..3));
        assert_eq!(mcus((2, 2), 90..100, Full), both(5..7));
        assert_eq!(mcus((2, 1), 16..31, Full), [0..3, 2..4]);
        // Nothing is mixed where chroma is as large, or repeated.
        assert_eq!(mcus((2, 2), 8..16, Half), both(1..2));
        assert_eq!(mcus((2, 2), 4..8, Quarter), both(1..2));
        assert_eq!(mcus((2, 1), 4..8, Half), [0..2, 1..2]);
        assert_eq!(mcus((1, 2), 2..4, Eighth), [2..4, 1..2]);
    }
}
