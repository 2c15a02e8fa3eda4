//! EXIF orientation: the eight turns of a picture.

use super::{Pixels, Region};
use crate::error::Result;

/// How a stored picture is turned to stand upright: axes exchanged, then mirrored.
///
/// Pixel (x, y) of the upright picture is pixel (u, v) of the stored one, where (u, v) is (y, x)
/// if `swap` else (x, y), and u, v count from the far edge where `flip_x`, `flip_y` say so.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub struct Orientation {
    swap: bool,
    flip_x: bool,
    flip_y: bool,
}

impl Orientation {
    /// Stored as it is shown.
    pub const UPRIGHT: Self = Orientation { swap: false, flip_x: false, flip_y: false };

    /// The turn for EXIF's value; upright for anything outside 1 to 8, as EXIF readers do.
    pub const fn from_exif(value: u32) -> Self {
        let (swap, flip_x, flip_y) = match value {
            2 => (false, true, false),
            3 => (false, true, true),
            4 => (false, false, true),
            5 => (true, false, false),
            6 => (true, false, true),
            7 => (true, true, true),
            8 => (true, true, false),
            _ => return Self::UPRIGHT,
        };
        Orientation { swap, flip_x, flip_y }
    }

    /// EXIF's value, 1 to 8.
    pub const fn to_exif(self) -> u32 {
        match (self.swap, self.flip_x, self.flip_y) {
            (false, false, false) => 1,
            (false, true, false) => 2,
            (false, true, true) => 3,
            (false, false, true) => 4,
            (true, false, false) => 5,
            (true, false, true) => 6,
            (true, true, true) => 7,
            (true, true, false) => 8,
        }
    }

    /// Whether width and height change places.
    pub const fn swaps(self) -> bool {
        self.swap
    }

    /// Columns and rows of the upright picture whose stored one has `width` and `height`.
    pub const fn upright_size(self, width: u32, height: u32) -> (u32, u32) {
        if self.swap { (height, width) } else { (width, height) }
    }

    /// Whether a stored picture of that size has its first column and row first when it is shrunk by
    /// whole blocks and turned: libjpeg's last pixels, which stand for a part of a block, are then last.
    pub(super) const fn keeps_blocks(self, width: u32, height: u32) -> bool {
        (!self.flip_x || width.is_multiple_of(8)) && (!self.flip_y || height.is_multiple_of(8))
    }

    /// Where `region` of the upright picture lies in the stored one, which is `width` x `height`.
    pub(super) fn stored(self, region: Region, width: u32, height: u32) -> Region {
        let Region { x, y, width: columns, height: rows } = region;
        let (u, v, columns, rows) =
            if self.swap { (y, x, rows, columns) } else { (x, y, columns, rows) };
        Region {
            x: if self.flip_x { width - u - columns } else { u },
            y: if self.flip_y { height - v - rows } else { v },
            width: columns,
            height: rows,
        }
    }

    /// Writes `stored`, turned upright, to `out`.
    ///
    /// # Errors
    /// Where there is no memory for it.
    pub fn apply(self, stored: &Pixels, out: &mut Pixels) -> Result<()> {
        self.apply_to(stored, Region::whole(stored.width(), stored.height()), out)
    }

    /// Writes `window` of `stored`, turned upright, to `out`.
    pub(super) fn apply_to(self, stored: &Pixels, window: Region, out: &mut Pixels) -> Result<()> {
        let (w, h) = (window.width as usize, window.height as usize);
        let (out_w, out_h) = if self.swap { (h, w) } else { (w, h) };
        let stride = stored.width() as usize;
        let src = &stored.bytes()[(window.y as usize * stride + window.x as usize) * 3..];
        let dst = out.reset(out_w as u32, out_h as u32)?;
        if self == Self::UPRIGHT {
            for y in 0..h {
                dst[y * w * 3..][..w * 3].copy_from_slice(&src[y * stride * 3..][..w * 3]);
            }
            return Ok(());
        }
        // Squares, since one of the two is walked down its columns.
        const SIDE: usize = 32;
        for y0 in (0..out_h).step_by(SIDE) {
            for x0 in (0..out_w).step_by(SIDE) {
                for y in y0..(y0 + SIDE).min(out_h) {
                    for x in x0..(x0 + SIDE).min(out_w) {
                        let (u, v) = if self.swap { (y, x) } else { (x, y) };
                        let u = if self.flip_x { w - 1 - u } else { u };
                        let v = if self.flip_y { h - 1 - v } else { v };
                        let (from, to) = ((v * stride + u) * 3, (y * out_w + x) * 3);
                        dst[to..to + 3].copy_from_slice(&src[from..from + 3]);
                    }
                }
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A 3 x 2 picture `abc / def`, shown by each value as the EXIF standard's figures draw it.
    #[test]
    fn the_eight_turns() {
        let shown = [
            (1, "abc/def"),
            (2, "cba/fed"),
            (3, "fed/cba"),
            (4, "def/abc"),
            (5, "ad/be/cf"),
            (6, "da/eb/fc"),
            (7, "fc/eb/da"),
            (8, "cf/be/ad"),
            (0, "abc/def"),
            (9, "abc/def"),
            (999, "abc/def"),
        ];
        let mut stored = Pixels::new();
        for (pixel, letter) in stored.reset(3, 2).unwrap().chunks_exact_mut(3).zip("abcdef".bytes())
        {
            pixel.fill(letter);
        }
        let mut out = Pixels::new();
        for (value, expected) in shown {
            Orientation::from_exif(value).apply(&stored, &mut out).unwrap();
            let rows = out.bytes().chunks_exact(out.width() as usize * 3);
            let rows: Vec<String> =
                rows.map(|r| r.chunks_exact(3).map(|p| p[0] as char).collect()).collect();
            assert_eq!(rows.join("/"), expected, "orientation {value}");
        }
    }
}
