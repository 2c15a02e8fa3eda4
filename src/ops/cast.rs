//! `cast`: to `dtype = "u8"` (half away from zero, saturating, NaN to 0) or `"f32"` (exact).

use crate::error::Result;
use crate::graph::args::Args;
use crate::graph::op::Operator;
use crate::graph::primitive::{Build, NodeId};

pub(super) struct Cast;

impl Operator for Cast {
    fn name(&self) -> &'static str {
        "cast"
    }

    fn args(&self) -> &'static [&'static str] {
        &["dtype"]
    }

    fn build(&self, build: &mut Build, input: NodeId, args: &mut Args<'_>) -> Result<NodeId> {
        args.required("dtype", "\"u8\" or \"f32\"")?;
        let bytes = args.choice("dtype", &[("u8", true), ("f32", false)])?;
        Ok(if bytes { build.round(input) } else { build.float(input) })
    }
}
