//! What a resolved sample reads of its decoded image, so that a file is decoded no further than that.
//!
//! `resolve` has found every place that the passes over the decoded image read from. This turns the
//! ranges of those places back into a window of the image, and the sample into one over the window
//! alone: the same values, since no index that is left out was ever reached.

use super::program::{Program, Scratch};
use crate::decoder::{Region, Scale, Wanted};
use crate::graph::program::{
    Border, FLAG_IMAGE, FRACTION, GATHER_NONE, GATHER_RESAMPLE, MAX_MAPS, Map, Pass, Resolved, Taps,
};

/// A whole pixel of [`Taps`].
const ONE: i64 = 1 << FRACTION;

impl Program {
    /// What the resolved sample reads of its decoded image. From then on it is resolved over that
    /// alone: [`Program::run`] takes these pixels. With `scales` the image can be had at a smaller
    /// scale, which `decoder.scale = "fast"` makes use of.
    pub fn narrow(&self, scratch: &mut Scratch, scales: bool) -> Wanted {
        let passes = self.plan().passes();
        let image = scratch.images[0];
        let (width, height) = (image.width as u32, image.height as u32);
        if scratch.resolved.iter().any(reads_as_operand) {
            return Wanted::whole(width, height);
        }
        let mut scale = Scale::Full;
        if scales && self.fast {
            let least = readers(&mut scratch.resolved, passes).map(|r| shrinks(r)).min();
            let enough = |scale: &Scale| i64::from(scale.divisor()) <= least.unwrap_or(1);
            scale = Scale::ALL.into_iter().rev().find(enough).unwrap_or_default();
            if scale != Scale::Full {
                readers(&mut scratch.resolved, passes).for_each(|r| shrink(r, scale));
            }
        }
        let (width, height) = (scale.size(width), scale.size(height));

        let (mut columns, mut rows) = (Span::NONE, Span::NONE);
        let mut movable = true;
        for r in readers(&mut scratch.resolved, passes) {
            columns = columns.and(reads(r.gather, &Axis::x(r)));
            rows = rows.and(reads(r.gather, &Axis::y(r)));
            movable &= can_move(r);
        }
        let region = match movable {
            true => Region {
                x: columns.first as u32,
                y: rows.first as u32,
                width: columns.len(),
                height: rows.len(),
            },
            false => Region::whole(width, height),
        };
        if region != Region::whole(width, height) {
            readers(&mut scratch.resolved, passes).for_each(|r| move_to(r, region));
        }
        for r in readers(&mut scratch.resolved, passes) {
            (r.source_width, r.source_height) = (region.width as i32, region.height as i32);
        }
        let image = &mut scratch.images[0];
        (image.width, image.height) = (region.width as i32, region.height as i32);
        Wanted { region, scale }
    }
}

/// The passes over the decoded image.
fn readers<'a>(
    resolved: &'a mut [Resolved],
    passes: &'a [Pass],
) -> impl Iterator<Item = &'a mut Resolved> {
    resolved.iter_mut().zip(passes).filter(|(_, pass)| pass.source == 0).map(|(r, _)| r)
}

/// Whether the decoded image is a second operand, which is read wherever the output is written.
fn reads_as_operand(r: &Resolved) -> bool {
    let points = &r.point[..r.points as usize];
    points.iter().any(|point| point.flags & u16::from(FLAG_IMAGE) != 0 && point.image == 0)
}

/// Indices `first..=last` of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Span {
    first: i64,
    last: i64,
}

impl Span {
    /// The span of no index, to which others are added.
    const NONE: Span = Span { first: i64::MAX, last: i64::MIN };

    fn all(length: i64) -> Span {
        Span { first: 0, last: length - 1 }
    }

    fn and(self, other: Span) -> Span {
        Span { first: self.first.min(other.first), last: self.last.max(other.last) }
    }

    fn clamp(self, length: i64) -> Span {
        let [first, last] = [self.first, self.last].map(|i| i.clamp(0, length - 1));
        Span { first, last }
    }

    fn len(self) -> u32 {
        (self.last - self.first + 1) as u32
    }

    /// Through crops and flips, the last one first, as `through` of the kernels.
    fn through(self, maps: &[Map]) -> Span {
        maps.iter().rev().fold(self, |span, map| {
            let ends =
                [span.first, span.last].map(|i| i * i64::from(map.sign) + i64::from(map.offset));
            let span = Span { first: ends[0].min(ends[1]), last: ends[0].max(ends[1]) };
            let length = i64::from(map.n);
            let beyond = span.first < 0 || span.last >= length;
            match length {
                0 => span,
                // Where it turns round is not looked into.
                _ if map.border == Border::Reflect as u32 && beyond => Span::all(length),
                _ => span.clamp(length),
            }
        })
    }
}

/// One axis of a resolved pass.
struct Axis<'a> {
    out: i64,
    view: i64,
    pre: &'a [Map],
    post: &'a [Map],
    taps: &'a Taps,
}

impl Axis<'_> {
    fn x(r: &Resolved) -> Axis<'_> {
        Axis {
            out: r.out_width.into(),
            view: r.view_width.into(),
            pre: &r.pre_x[..r.pre.into()],
            post: &r.post_x[..r.post.into()],
            taps: &r.taps_x,
        }
    }

    fn y(r: &Resolved) -> Axis<'_> {
        Axis {
            out: r.out_height.into(),
            view: r.view_height.into(),
            pre: &r.pre_y[..r.pre.into()],
            post: &r.post_y[..r.post.into()],
            taps: &r.taps_y,
        }
    }
}

/// The source's indices that lie between the first and the last that are read.
fn reads(gather: u8, axis: &Axis<'_>) -> Span {
    let view = match gather {
        GATHER_NONE => Span::all(axis.out),
        GATHER_RESAMPLE => {
            let places = Span::all(axis.out).through(axis.post);
            let Taps { step, from, count, .. } = *axis.taps;
            let first = |place: i64| ((from + place * step) >> FRACTION) + 1;
            let last = first(places.last) + i64::from(count) - 1;
            Span { first: first(places.first), last }.clamp(axis.view)
        }
        _ => Span::all(axis.view),
    };
    view.through(axis.pre)
}

/// Whether the first map has no border, behind which a window's place cannot be subtracted.
fn first_map_is_bare(r: &Resolved) -> bool {
    r.pre > 0 && r.pre_x[0].n == 0 && r.pre_y[0].n == 0
}

/// Whether a window's place can be subtracted from the indices of the source.
fn can_move(r: &Resolved) -> bool {
    usize::from(r.pre) < MAX_MAPS || first_map_is_bare(r)
}

/// Subtracts the window's place from the indices of the source.
fn move_to(r: &mut Resolved, window: Region) {
    if !first_map_is_bare(r) {
        let count = usize::from(r.pre);
        let nothing = Map { sign: 1, offset: 0, n: 0, border: Border::Clamp as u32 };
        for maps in [&mut r.pre_x, &mut r.pre_y] {
            maps.copy_within(..count, 1);
            maps[0] = nothing;
        }
        r.pre += 1;
    }
    r.pre_x[0].offset -= window.x as i32;
    r.pre_y[0].offset -= window.y as i32;
}

/// How many times smaller, in whole numbers, the image may be decoded for this pass: no smaller than
/// what it makes of it, and only where that is an antialiased resample.
fn shrinks(r: &Resolved) -> i64 {
    let bare =
        [&r.pre_x, &r.pre_y].iter().all(|maps| maps[..r.pre.into()].iter().all(|m| m.n == 0));
    // A filter whose peak is as wide as the step is a triangle.
    let triangle = |taps: &Taps| taps.step >= 2 * ONE && taps.peak >= 2.0;
    if r.gather == GATHER_RESAMPLE && bare && triangle(&r.taps_x) && triangle(&r.taps_y) {
        r.taps_x.step.min(r.taps_y.step) >> FRACTION
    } else {
        1
    }
}

/// The same pass over the image at a smaller scale.
fn shrink(r: &mut Resolved, scale: Scale) {
    let (pre, divisor) = (usize::from(r.pre), i64::from(scale.divisor()));
    let axes = [
        (&mut r.pre_x, &mut r.taps_x, &mut r.view_width),
        (&mut r.pre_y, &mut r.taps_y, &mut r.view_height),
    ];
    for (maps, taps, view) in axes {
        // All maps as one: index i of the view is index sign * i + offset of the source.
        let (mut sign, mut offset) = (1, 0);
        for map in maps[..pre].iter().rev() {
            (sign, offset) =
                (map.sign * sign, i64::from(map.sign) * offset + i64::from(map.offset));
        }
        // The view lies from `begin` to `end` of the source, and there from `low` to `high` of the
        // smaller image, whose pixels it need not begin and end with.
        let length = i64::from(*view);
        let begin = if sign > 0 { offset } else { offset + 1 - length };
        let end = begin + length;
        let (low, high) = (begin / divisor, (end + divisor - 1) / divisor);
        let cut = if sign > 0 { begin - low * divisor } else { high * divisor - end };

        let start = taps.from + taps.step / 2 + ONE / 2;
        *taps = triangle(taps.step / divisor, (start + cut * ONE) / divisor);
        *view = (high - low) as i32;
        let offset = if sign > 0 { low } else { high - 1 };
        maps[0] = Map { sign, offset: offset as i32, n: 0, border: Border::Clamp as u32 };
    }
    r.pre = 1;
}

/// A triangle's taps, as `set_taps` of the kernels.
fn triangle(step: i64, start: i64) -> Taps {
    let radius = step.max(ONE);
    let peak = radius as f32 / ONE as f32;
    Taps {
        step,
        from: start + step / 2 - ONE / 2 - radius,
        peak,
        slope: 1.0 / peak,
        count: ((2 * radius + ONE - 1) >> FRACTION) as i32,
        unused: 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::decoder::Pixels;
    use crate::device::cpu::Cpu;
    use crate::graph::file;
    use crate::graph::plan::Plan;

    const SIDE: u32 = 60;

    /// What `steps` make of a part of a picture whose red rises by 4 levels a column, and green a row,
    /// at a scale of which each pixel is the mean of those that it stands for.
    fn values(steps: &str, id: u64, fast: bool) -> (Wanted, Vec<f32>) {
        let plan = Plan::compile(&file::parse(steps).unwrap(), crate::ops::ALL).unwrap();
        let program = Program::with(plan, Cpu::best().unwrap()).fast(fast);
        let mut scratch = Scratch::default();
        program.resolve(&mut scratch, 42, 0, id, SIDE, SIDE).unwrap();
        let wanted = program.narrow(&mut scratch, true);
        let Wanted { region, scale } = wanted;
        let divisor = scale.divisor();
        let level = |i: u32| (4 * i * divisor + 2 * (divisor - 1)) as u8;
        let mut pixels = Pixels::new();
        let bytes = pixels.reset(region.width, region.height).unwrap();
        for (k, pixel) in bytes.chunks_mut(3).enumerate() {
            let (x, y) = (k as u32 % region.width, k as u32 / region.width);
            pixel.copy_from_slice(&[level(region.x + x), level(region.y + y), 0]);
        }
        let (height, width) = program.output_size(&scratch, 0);
        let mut out = vec![0f32; (width * height * 3) as usize];
        program
            .run(&mut scratch, pixels.picture(), &mut [bytemuck::cast_slice_mut(&mut out)])
            .unwrap();
        (wanted, out)
    }

    /// A resample keeps a ramp, whatever the scale, but for a tenth of a pixel of the smaller image by
    /// which so few taps are off their centre; a place off by a quarter of one would show.
    #[test]
    fn a_smaller_scale_shows_the_same_places() {
        let step = |lines: &str| format!("[[step]]\n{lines}\n");
        let flip = step("op = \"flip\"\nhorizontal = true\nvertical = true");
        let crop = step("op = \"crop\"\nsize = [49, 53]\nposition = \"random\"");
        let resize = |side: u32| step(&format!("op = \"resize\"\nsize = {side}"));
        let window =
            step("op = \"random_resized_crop\"\nsize = 9\narea = [0.5, 1]\naspect = [0.8, 1.25]");
        for (steps, scale) in [
            (resize(31), Scale::Full),
            (resize(29), Scale::Half),
            (flip.clone() + &resize(14), Scale::Quarter),
            (crop.clone() + &resize(12), Scale::Quarter),
            (crop.clone() + &flip + &resize(12) + &flip, Scale::Quarter),
            (flip + &resize(7), Scale::Eighth),
            (window, Scale::Quarter),
        ] {
            let steps = format!("{steps}\n[output]\ndtype = \"f32\"");
            for id in 0..8 {
                let (at_full, exact) = values(&steps, id, false);
                let (wanted, fast) = values(&steps, id, true);
                assert_eq!(at_full.scale, Scale::Full);
                assert_eq!(wanted.scale, scale, "{steps}: {wanted:?}");
                let side = (exact.len() / 3).isqrt();
                for (k, (exact, fast)) in exact.iter().zip(&fast).enumerate() {
                    let (x, y) = (k / 3 % side, k / 3 / side);
                    // Each is rounded. The outermost show the edge, where the ramp ends.
                    let inner = |i: usize| (1..side - 1).contains(&i);
                    let near = (exact - fast).abs() < 1.01 + 0.4 * scale.divisor() as f32;
                    assert!(near || !inner(x) || !inner(y), "{steps} ({x}, {y}): {exact} {fast}");
                }
            }
        }
    }

    /// Nothing but an antialiased resample may read a smaller image.
    #[test]
    fn other_steps_read_the_image_as_it_is() {
        for steps in [
            "[[step]]\nop = \"resize\"\nsize = 9\ninterp = \"linear\"",
            "[[step]]\nop = \"resize\"\nsize = 9\ninterp = \"nearest\"",
            "[[step]]\nop = \"rotate\"\nangle = 5\n[[step]]\nop = \"resize\"\nsize = 9",
            "[[step]]\nop = \"crop\"\nsize = 80\npadding = 20\nborder = \"reflect\"\n\
             [[step]]\nop = \"resize\"\nsize = 9",
            "[[step]]\nop = \"resize\"\nsize = 9\n[[output]]\nname = \"a\"\n[[output]]\nname = \"b\"\n\
             from = \"decode\"",
        ] {
            let plan = Plan::compile(&file::parse(steps).unwrap(), crate::ops::ALL).unwrap();
            let program = Program::with(plan, Cpu::best().unwrap()).fast(true);
            let mut scratch = Scratch::default();
            program.resolve(&mut scratch, 42, 0, 0, SIDE, SIDE).unwrap();
            let wanted = program.narrow(&mut scratch, true);
            assert_eq!(wanted.scale, Scale::Full, "{steps}");
        }
    }
}
