//! `flip`: mirrors columns (`horizontal`, the default) and rows (`vertical`). With
//! `when = { probability = 0.5 }` it is the usual random flip.

use crate::error::{Error, Result};
use crate::graph::args::Args;
use crate::graph::op::Operator;
use crate::graph::primitive::{Build, NodeId};

pub(super) struct Flip;

impl Operator for Flip {
    fn name(&self) -> &'static str {
        "flip"
    }

    fn args(&self) -> &'static [&'static str] {
        &["horizontal", "vertical"]
    }

    fn build(&self, build: &mut Build, input: NodeId, args: &mut Args<'_>) -> Result<NodeId> {
        let vertical = args.flag("vertical", false)?;
        let horizontal = args.flag("horizontal", !args.has("vertical"))?;
        if !horizontal && !vertical {
            return Err(Error::spec("neither horizontal nor vertical: it would flip nothing"));
        }
        Ok(build.flip(input, horizontal, vertical))
    }
}
