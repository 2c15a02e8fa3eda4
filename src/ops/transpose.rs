//! `transpose`: the order of axes that the output has, `layout = "CHW"` or `"HWC"`. Folded into
//! the store of the last pass; steps behind it work as before it.

use crate::error::Result;
use crate::graph::args::Args;
use crate::graph::op::Operator;
use crate::graph::primitive::{Build, NodeId};
use crate::tensor::Layout;

pub(super) struct Transpose;

impl Operator for Transpose {
    fn name(&self) -> &'static str {
        "transpose"
    }

    fn args(&self) -> &'static [&'static str] {
        &["layout"]
    }

    fn build(&self, build: &mut Build, input: NodeId, args: &mut Args<'_>) -> Result<NodeId> {
        let layout = args.choice("layout", &[("CHW", Layout::Chw), ("HWC", Layout::Hwc)])?;
        Ok(build.transpose(input, layout))
    }
}
