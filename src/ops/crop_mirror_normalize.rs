//! `crop_mirror_normalize`: DALI's operator of that name.
//!
//! ```text
//! out = (in − m) · i      i = scale / std,  m = mean − shift / i      each operation rounded to f32
//! ```
//!
//! on f32, after a crop to `size` (without it, none; `position` `"center"`, the default, or `"random"`)
//! and a mirroring of columns where `mirror` is true: true, false (default), a bernoulli draw, or the
//! name of one. `mean` (default 0) and `std` (1, above 0) are in levels of 0 to 255, a number or three;
//! `scale` (1, above 0) and `shift` (0) are numbers. `normalize` has the two-division form instead.

use crate::error::{Error, Result};
use crate::graph::args::{Args, Truth};
use crate::graph::op::Operator;
use crate::graph::primitive::{self, Build, NodeId};
use crate::graph::program::{Border, Op};

pub(super) struct CropMirrorNormalize;

impl Operator for CropMirrorNormalize {
    fn name(&self) -> &'static str {
        "crop_mirror_normalize"
    }

    fn args(&self) -> &'static [&'static str] {
        &["size", "position", "mirror", "mean", "std", "scale", "shift"]
    }

    fn build(&self, build: &mut Build, input: NodeId, args: &mut Args<'_>) -> Result<NodeId> {
        let cropped = crop(build, input, args)?;
        let mirrored = match args.truth(build, "mirror")? {
            Truth::Always(false) => cropped,
            Truth::Always(true) => build.flip(cropped, true, false),
            Truth::Drawn(predicate) => {
                let flipped = build.flip(cropped, true, false);
                build.select(predicate, flipped, cropped)?
            }
        };
        let mean = args.channels(build, "mean", Some(0.0))?;
        let std = args.channels(build, "std", Some(1.0))?;
        let scale = args.channels(build, "scale", Some(1.0))?;
        let shift = args.channels(build, "shift", Some(0.0))?;
        args.above_zero("std")?;
        args.above_zero("scale")?;
        let factor = build.apply_channels(Op::Div, scale, std);
        let moved = build.apply_channels(Op::Div, shift, factor);
        let centre = build.apply_channels(Op::Sub, mean, moved);
        let centred = build.point_scalars(mirrored, Op::Sub, centre);
        Ok(build.point_scalars(centred, Op::Mul, factor))
    }
}

fn crop(build: &mut Build, input: NodeId, args: &Args<'_>) -> Result<NodeId> {
    if !args.has("size") {
        if args.has("position") {
            return Err(Error::spec("position needs a size"));
        }
        return Ok(input);
    }
    let size = args.size("size")?;
    let random = args.choice("position", &[("center", false), ("random", true)])?;
    let draw = format!("{}.position", args.step());
    let draw = random.then(|| build.draw(&draw)).transpose()?;
    let fill = build.constant(0.0);
    build.crop(primitive::Crop { input, size, padding: 0, border: Border::Clamp, fill, draw })
}
