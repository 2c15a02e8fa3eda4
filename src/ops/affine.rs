//! `affine`: turn, shear, enlarge and move about the centre; the canvas keeps its size.
//!
//! ```text
//! out = T(translate) · R(angle) · Shear(shear_x, shear_y) · scale
//! ```
//!
//! in torchvision's order and signs, except that `angle` is positive counter-clockwise as in
//! `rotate`. `translate_x`, `translate_y` in pixels to the right and down (`translate = [x, y]`
//! gives both), `shear_x`, `shear_y` in degrees, `scale` above 0. A translation moves where the
//! output shows the centre.

use super::rotate::linear;
use crate::error::{Error, Result};
use crate::graph::args::Args;
use crate::graph::op::Operator;
use crate::graph::primitive::{self, Build, NodeId};

pub(super) struct Affine;

impl Operator for Affine {
    fn name(&self) -> &'static str {
        "affine"
    }

    fn args(&self) -> &'static [&'static str] {
        &[
            "angle",
            "translate",
            "translate_x",
            "translate_y",
            "scale",
            "shear_x",
            "shear_y",
            "interp",
            "border",
            "fill",
        ]
    }

    fn build(&self, build: &mut Build, input: NodeId, args: &mut Args<'_>) -> Result<NodeId> {
        let angle = args.scalar(build, "angle", Some(0.0))?;
        let translate = match args.pair("translate")? {
            Some(_) if args.has("translate_x") || args.has("translate_y") => {
                return Err(Error::spec("give translate, or translate_x and translate_y"));
            }
            Some(pair) => pair.map(|v| build.constant(v)),
            None => [
                args.scalar(build, "translate_x", Some(0.0))?,
                args.scalar(build, "translate_y", Some(0.0))?,
            ],
        };
        let scale = args.scalar(build, "scale", Some(1.0))?;
        args.above_zero("scale")?;
        for name in ["shear_x", "shear_y"] {
            if args.bounds(name).is_some_and(|(least, most)| least <= -90.0 || most >= 90.0) {
                return Err(Error::spec(format!("{name} must be between -90 and 90 degrees")));
            }
        }
        let shear =
            [args.scalar(build, "shear_x", Some(0.0))?, args.scalar(build, "shear_y", Some(0.0))?];
        let linear = linear(args)?;
        let (border, fill) = args.border(build)?;
        let grow = false;
        Ok(build.affine(primitive::Affine {
            input,
            angle,
            translate,
            scale,
            shear,
            fill,
            linear,
            grow,
            border,
        }))
    }
}
