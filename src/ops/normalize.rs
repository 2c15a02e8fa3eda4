//! `normalize`: to zero mean and unit deviation, f32.
//!
//! ```text
//! out = (in / scale − mean) / std      three rounded operations
//! ```
//!
//! `mean` and `std` are a number or three, in units of `scale`, which is 255 by default; `std` is
//! above 0.

use crate::error::Result;
use crate::graph::args::Args;
use crate::graph::op::Operator;
use crate::graph::primitive::{Build, NodeId};
use crate::graph::program::Op;

pub(super) struct Normalize;

impl Operator for Normalize {
    fn name(&self) -> &'static str {
        "normalize"
    }

    fn args(&self) -> &'static [&'static str] {
        &["mean", "std", "scale"]
    }

    fn build(&self, build: &mut Build, input: NodeId, args: &mut Args<'_>) -> Result<NodeId> {
        let mean = args.channels(build, "mean", None)?;
        let std = args.channels(build, "std", None)?;
        let scale = args.channels(build, "scale", Some(255.0))?;
        args.above_zero("std")?;
        args.above_zero("scale")?;
        let unit = build.point_scalars(input, Op::Div, scale);
        let centred = build.point_scalars(unit, Op::Sub, mean);
        Ok(build.point_scalars(centred, Op::Div, std))
    }
}
