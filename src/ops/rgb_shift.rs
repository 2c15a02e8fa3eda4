//! `rgb_shift`: adds a value to each channel of a u8 image.
//!
//! ```text
//! out = u8(in + shift)      half away from zero, saturating
//! ```
//!
//! `shift` is a number, three numbers, or a draw (`per = "channel"` for one a channel), in levels.

use super::bytes_only;
use crate::error::Result;
use crate::graph::args::Args;
use crate::graph::op::Operator;
use crate::graph::primitive::{Build, NodeId};
use crate::graph::program::Op;

pub(super) struct RgbShift;

impl Operator for RgbShift {
    fn name(&self) -> &'static str {
        "rgb_shift"
    }

    fn args(&self) -> &'static [&'static str] {
        &["shift"]
    }

    fn build(&self, build: &mut Build, input: NodeId, args: &mut Args<'_>) -> Result<NodeId> {
        bytes_only(build, input)?;
        let shift = args.channels(build, "shift", None)?;
        let shifted = build.point_scalars(input, Op::Add, shift);
        Ok(build.round(shifted))
    }
}
