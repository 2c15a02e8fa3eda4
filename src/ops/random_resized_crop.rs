//! `random_resized_crop`: a drawn window of the image, brought to `size`.
//!
//! The window's share of the image is uniform in `area` (default `[0.08, 1]`), the logarithm of its
//! width to its height uniform in that of `aspect` (default `[3/4, 4/3]`), both rounded to whole pixels,
//! and its place uniform among those that fit. The first of ten attempts that fits is taken; where none
//! does, the largest centred window of an aspect in range. That is torchvision's rule. DALI's tests the
//! aspect once more after rounding, and shrinks and moves the last resort.
//!
//! `interp` as in `resize`, which does the rest. Pixels outside the window do not show: beyond its edge
//! lies its edge pixel, as where an image is cropped first. JPEGs are decoded no further than the
//! window needs.

use super::resize::filter;
use crate::error::{Error, Result};
use crate::graph::args::Args;
use crate::graph::op::Operator;
use crate::graph::primitive::{Build, NodeId};
use crate::graph::program::Fit;
use crate::graph::resample::{DrawnWindow, Resample};

pub(super) struct RandomResizedCrop;

impl Operator for RandomResizedCrop {
    fn name(&self) -> &'static str {
        "random_resized_crop"
    }

    fn args(&self) -> &'static [&'static str] {
        &["size", "area", "aspect", "interp"]
    }

    fn build(&self, build: &mut Build, input: NodeId, args: &mut Args<'_>) -> Result<NodeId> {
        let size = args.size("size")?;
        let area = range(args, "area", [0.08, 1.0], [0.0, 1.0])?;
        let aspect = range(args, "aspect", [3.0 / 4.0, 4.0 / 3.0], [0.001, 1000.0])?;
        let draw = build.draw(&format!("{}.window", args.step()))?;
        let [area, aspect] = [area, aspect].map(|range| range.map(|end| build.constant(end)));
        build.resample(Resample {
            input,
            size,
            fit: Fit::Stretch,
            subpixel: false,
            filter: filter(args)?,
            window: Some(DrawnWindow { draw, area, aspect }),
        })
    }
}

/// `name = [least, largest]`, above 0 and within `bounds`.
fn range(args: &Args<'_>, name: &str, default: [f32; 2], bounds: [f32; 2]) -> Result<[f32; 2]> {
    let [least, largest] = args.pair(name)?.unwrap_or(default);
    let [lowest, highest] = bounds;
    if least > 0.0 && least >= lowest && largest <= highest && least <= largest {
        return Ok([least, largest]);
    }
    Err(Error::spec(format!(
        "{name} = [{least}, {largest}] must be [least, largest], above 0 and from {lowest} to {highest}"
    )))
}
