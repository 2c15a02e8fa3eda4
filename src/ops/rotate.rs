//! `rotate`: turns the image about its exact centre.
//!
//! ```text
//! x' = cos a · dx − sin a · dy + W/2      dx = x + ½ − W_out/2
//! y' = sin a · dx + cos a · dy + H/2      dy = y + ½ − H_out/2
//! ```
//!
//! `angle` in degrees, positive counter-clockwise with row 0 on top. With `keep_size` the canvas
//! stays; otherwise it grows to hold the turned image, by DALI's rule. `interp` is `linear` (four
//! taps, two lerps along x, one along y, each operation rounded to f32) or `nearest`. Turning a
//! square by a multiple of 90 degrees moves pixels exactly.

use crate::error::Result;
use crate::graph::args::Args;
use crate::graph::op::Operator;
use crate::graph::primitive::{Affine, Build, NodeId};

pub(super) struct Rotate;

impl Operator for Rotate {
    fn name(&self) -> &'static str {
        "rotate"
    }

    fn args(&self) -> &'static [&'static str] {
        &["angle", "keep_size", "interp", "border", "fill"]
    }

    fn build(&self, build: &mut Build, input: NodeId, args: &mut Args<'_>) -> Result<NodeId> {
        let angle = args.scalar(build, "angle", None)?;
        let grow = !args.flag("keep_size", false)?;
        let linear = linear(args)?;
        let (border, fill) = args.border(build)?;
        let (zero, one) = (build.constant(0.0), build.constant(1.0));
        Ok(build.affine(Affine {
            input,
            angle,
            translate: [zero; 2],
            scale: one,
            shear: [zero; 2],
            fill,
            linear,
            grow,
            border,
        }))
    }
}

/// `interp = "linear"`, the default, or `"nearest"`.
pub(super) fn linear(args: &Args<'_>) -> Result<bool> {
    args.choice("interp", &[("linear", true), ("nearest", false)])
}
