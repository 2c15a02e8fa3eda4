//! The kernels that make pixels of coefficients: `kernels/idct.cu` and `kernels/colour.cu`.
#![allow(unsafe_code)]

use super::args::{ColourArgs, IdctArgs, Picture, Run};
use super::group::{Group, LANES, Places};
use super::layout::{Layout, Plane};
use super::part::{Part, ranges};
use crate::decoder::Region;
use crate::device::Kernel;
use crate::device::cpu::Cpu;
use std::ops::Range;

/// The rows of luma that planes hold.
pub(super) struct Band {
    /// The first of the band.
    pub(super) first: usize,
    /// Rows before it that are still there.
    pub(super) held: usize,
}

/// The kernels of one level.
#[derive(Clone, Copy)]
pub(super) struct Kernels {
    pub(super) cpu: Cpu,
}

impl Kernels {
    /// `slots` blocks to samples. `last` has each group's last coefficient in zigzag order, `factors` 64 x
    /// [`LANES`] of quantisation. False: a block is beyond what is sure to be as libjpeg has it.
    pub(super) fn idct(
        &self,
        groups: &[Group],
        slots: usize,
        factors: &[u8],
        last: &[u8],
        places: &Places,
        planes: &mut [u8],
    ) -> bool {
        assert!(groups.len() == slots.div_ceil(LANES) && slots > 0);
        assert!(last.len() == groups.len() && groups.len() * LANES <= places.at.len());
        assert!(factors.len() == size_of::<Group>() && places.reach() <= planes.len());
        let mut doubt = 0_u32;
        let run = Run {
            coefficients: groups.as_ptr() as u64,
            quantisation: factors.as_ptr() as u64,
            planes: planes.as_mut_ptr() as u64,
            places: places.at.as_ptr() as u64,
            last: last.as_ptr() as u64,
            first: 0,
            groups: groups.len() as u32,
            stride: places.stride,
            paired: places.paired.into(),
            lanes: (slots - (groups.len() - 1) * LANES) as u32,
            side: places.side,
            image: 0,
            unused: 0,
        };
        let args = IdctArgs {
            runs: &raw const run as u64,
            run_of: 0,
            status: &raw mut doubt as u64,
            n: run.groups,
            unused: 0,
        };
        // SAFETY: the lengths checked above are what the kernel reads for the run, of which a range asks for
        // no groups' numbers; it writes `side` rows of as many bytes at each place, which `reach` covers. All
        // outlive the call, and nothing else uses what it writes.
        unsafe { self.cpu.launch(Kernel::Idct, (&raw const args).cast(), 0..1) };
        doubt == 0
    }

    /// Samples of `band`, which `planes` hold, to rows `rows` of `window`, which is `out`.
    pub(super) fn colour(
        &self,
        layout: &Layout,
        window: Region,
        planes: &[u8],
        Band { first: band, held }: Band,
        rows: Range<usize>,
        out: &mut [u8],
    ) {
        let Part { size, halved, chroma, sides, across, .. } = &layout.part;
        let (columns, all) = ranges(window);
        let &(h, v) = halved;
        let luma = &layout.planes[0];
        let [cb, cr] = if let [_, cb, cr] = &layout.planes[..] { [cb, cr] } else { [luma, luma] };
        let chroma_size = [size.0.div_ceil(h), size.1.div_ceil(v)];
        assert!(planes.len() == layout.memory && out.len() == columns.len() * all.len() * 3);
        assert!(all.start <= rows.start && rows.start < rows.end && rows.end <= all.end);
        // Each row's own samples, and those of the rows of chroma around it, are there.
        let has = |from: usize, to: usize, first: usize, plane: &Plane| {
            from + plane.kept.min(held) >= first && to <= first + plane.rows
        };
        assert!(has(rows.start, rows.end, band, luma));
        let mixed = usize::from(chroma.mixes_rows());
        let from = rows.start.saturating_sub(mixed) / v;
        let to = (rows.end / v + mixed).max(rows.end.div_ceil(v)).min(chroma_size[1]);
        assert!(has(from, to, band / v, cb) && has(from, to, band / v, cr));
        // So are those of each column.
        let left = across.start * sides[1];
        let mixed = usize::from(chroma.mixes_columns());
        let to = (columns.end.div_ceil(h) + mixed).min(chroma_size[0]);
        assert!(columns.start.saturating_sub(mixed) / h >= left && to <= left + cb.stride);
        assert!(columns.end <= left * h + luma.stride);

        let number = |n: usize| n as i32;
        let picture = Picture {
            // Not slices of each, since strips read a little before and behind a plane.
            planes: [luma, cb, cr].map(|plane| planes.as_ptr().wrapping_add(plane.at) as u64),
            to: out.as_mut_ptr() as u64,
            chroma_size: chroma_size.map(number),
            strides: [luma.stride, cb.stride].map(number),
            firsts: [number(band) - number(luma.kept), number(band / v) - number(cb.kept)],
            lefts: [left * h, left].map(number),
            columns: [columns.start, columns.end].map(number),
            top: number(all.start),
            rows: [rows.start, rows.end].map(number),
            chroma: *chroma as u32,
        };
        let args = ColourArgs { pictures: &raw const picture as u64, n: 1, tiles: 1 };
        // SAFETY: the rows that are read were checked above to be among those of the planes, which have
        // enough bytes before and behind them for what a strip reads past its row; it writes the rows
        // `rows` of a window of `out`'s size. All outlive the call.
        unsafe { self.cpu.launch(Kernel::Colour, (&raw const args).cast(), 0..1) };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const THREADS: u32 = 7;

    /// Runs `kernel` over one run or picture on each level, as a range and thread by thread; `run` gets the way
    /// to launch it and gives what it left, which must always be the same.
    fn always_the_same<L: PartialEq>(
        kernel: Kernel,
        blocks: u32,
        mut run: impl FnMut(&dyn Fn(*const std::ffi::c_void)) -> L,
    ) -> L {
        let mut first = None;
        for cpu in Cpu::levels() {
            // SAFETY: `run` passes the kernel's arguments, of one.
            let range = run(&|args| unsafe { cpu.launch(kernel, args, 0..1) });
            // SAFETY: the same.
            let grid = run(&|args| unsafe { cpu.launch_grid(kernel, args, blocks, THREADS) });
            let expected = first.get_or_insert(range);
            assert!(grid == *expected, "{kernel:?} on {}: the grid's is other", cpu.level());
        }
        first.expect("a level")
    }

    fn draw(state: &mut u32) -> u32 {
        *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        *state >> 16
    }

    /// Groups with coefficients up to `last` in zigzag order, whose magnitudes add up to less than `sum`.
    fn groups(n: usize, last: usize, sum: i32, state: &mut u32) -> Vec<Group> {
        let mut groups = vec![[0; 64 * LANES]; n];
        for group in &mut groups {
            for lane in 0..LANES {
                let most = sum / (last as i32 + 1);
                for &at in &super::super::group::ZIGZAG[..=last] {
                    let value = draw(state) as i32 % (2 * most + 1) - most;
                    group[usize::from(at) * LANES + lane] = value as i16;
                }
            }
        }
        groups
    }

    #[test]
    fn idct_is_the_same_everywhere() {
        let mut state = 1;
        let cases =
            [(0, 1000), (4, 1500), (9, 1900), (20, 1900), (63, 2000), (63, 5000), (63, 60_000)];
        for (side, (last, sum)) in
            [8, 4, 2, 1].into_iter().flat_map(|s| cases.map(|case| (s, case)))
        {
            for paired in [false, true] {
                const N: usize = 3;
                let groups = groups(N, last, sum, &mut state);
                // Blocks beside each other, or below.
                let at = |k: usize| match paired {
                    true => k / 2 * 16 * side + k % 2 * side,
                    false => k * 16 * side + 5,
                };
                let places = Places::new((0..N * LANES).map(at), 16, side, paired);
                let factors = [1_i16; 64 * LANES];
                let (n, lasts, run_of) = (N as u32, [last as u8; N], [0_u32; N]);
                let blocks = (n * LANES as u32).div_ceil(THREADS);
                let (sure, planes) = always_the_same(Kernel::Idct, blocks, |launch| {
                    let (mut planes, mut doubt) = (vec![7_u8; places.reach() + 8], 0_u32);
                    let run = Run {
                        coefficients: groups.as_ptr() as u64,
                        quantisation: factors.as_ptr() as u64,
                        planes: planes.as_mut_ptr() as u64,
                        places: places.at.as_ptr() as u64,
                        last: lasts.as_ptr() as u64,
                        first: 0,
                        groups: n,
                        stride: places.stride,
                        paired: paired.into(),
                        lanes: LANES as u32,
                        side: side as u32,
                        image: 0,
                        unused: 0,
                    };
                    let args = IdctArgs {
                        runs: &raw const run as u64,
                        run_of: run_of.as_ptr() as u64,
                        status: &raw mut doubt as u64,
                        n,
                        unused: 0,
                    };
                    launch((&raw const args).cast());
                    // What is in doubt does not count.
                    (doubt == 0, if doubt == 0 { planes } else { Vec::new() })
                });
                // The first coefficient alone is never so loud.
                assert_eq!(sure, sum < 60_000 || side == 1, "{side} {last} {sum}");
                assert!(!sure || planes[places.reach()..] == [7; 8]);
                // Nothing between the blocks' rows.
                let untouched = planes.iter().filter(|&&v| v == 7).count();
                assert!(!sure || untouched >= planes.len() - N * LANES * side * side);
            }
        }
    }

    #[test]
    fn colour_is_the_same_everywhere() {
        use super::super::part::Chroma::*;
        let mut state = 2;
        let halves = [(None, 1, 1), (Full, 1, 1), (HalfX, 2, 1), (HalfY, 1, 2), (HalfXy, 2, 2)];
        let repeats = [(RepeatX, 2, 1), (RepeatXy, 2, 2), (RepeatY, 1, 2)];
        for (chroma, h, v) in halves.into_iter().chain(repeats) {
            for width in [1_usize, 2, 3, 4, 5, 31, 32, 33, 64, 71] {
                let height = 5_usize;
                let stride = 80;
                let bytes: Vec<u8> =
                    (0..3 * 8 * stride + 128).map(|_| draw(&mut state) as u8).collect();
                let number = |n: usize| n as i32;
                // The whole, then windows of it, whose pixels must be the whole's.
                let mut whole = Vec::new();
                for left in [0, width / 2, width - 1, width / 3] {
                    let right = if left == width / 3 { width - width / 4 } else { width };
                    let (columns, rows) = (left..right, if left == 0 { 0..height } else { 1..3 });
                    let out = always_the_same(Kernel::Colour, 3, |launch| {
                        let len = columns.len() * rows.len() * 3;
                        let mut out = vec![9_u8; 8 + len + 8];
                        let picture = Picture {
                            planes: [0, 1, 2].map(|k| bytes[64 + k * 8 * stride..].as_ptr() as u64),
                            to: out[8..].as_mut_ptr() as u64,
                            chroma_size: [width.div_ceil(h), height.div_ceil(v)].map(number),
                            strides: [stride; 2].map(number),
                            firsts: [0; 2],
                            lefts: [0; 2],
                            columns: [left, right].map(number),
                            top: number(rows.start),
                            rows: [rows.start, rows.end].map(number),
                            chroma: chroma as u32,
                        };
                        let pictures = &raw const picture as u64;
                        let args = ColourArgs { pictures, n: 1, tiles: 3 };
                        launch((&raw const args).cast());
                        assert!(out[..8] == [9; 8] && out[8 + len..] == [9; 8], "bytes around");
                        out
                    });
                    if left == 0 && right == width {
                        whole.clone_from(&out);
                    }
                    for (k, y) in rows.enumerate() {
                        let row =
                            |out: &[u8], at: usize| out[8 + at * 3..][..columns.len() * 3].to_vec();
                        let expected = row(&whole, y * width + left);
                        assert!(row(&out, k * columns.len()) == expected, "{chroma:?} {columns:?}");
                    }
                }
            }
        }
    }
}
