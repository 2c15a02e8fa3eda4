//! `crop`: a window of `size = [rows, columns]` after `padding` pixels on each side.
//!
//! ```text
//! out(x, y) = padded(x + left, y + top)
//! ```
//!
//! `position = "center"`: left = (W + 2·padding − columns + 1) div 2, as DALI rounds. `"random"`:
//! left and top drawn uniformly from all places that fit. The padding shows `border` (`constant`
//! with `fill` 0 by default, `clamp` or `reflect`).

use crate::error::{Error, Result};
use crate::graph::args::Args;
use crate::graph::op::Operator;
use crate::graph::primitive::{self, Build, NodeId};
use crate::graph::program::Border;

pub(super) struct Crop;

impl Operator for Crop {
    fn name(&self) -> &'static str {
        "crop"
    }

    fn args(&self) -> &'static [&'static str] {
        &["size", "position", "padding", "border", "fill"]
    }

    fn build(&self, build: &mut Build, input: NodeId, args: &mut Args<'_>) -> Result<NodeId> {
        let size = args.size("size")?;
        let random = args.choice("position", &[("center", false), ("random", true)])?;
        let padding = args.count("padding", Some(0))?;
        let (mut border, fill) = args.border(build)?;
        if padding == 0 && (args.has("border") || args.has("fill")) {
            return Err(Error::spec("border and fill need a padding"));
        }
        if !args.has("border") {
            border = Border::Constant;
        }
        let draw = format!("{}.position", args.step());
        let draw = random.then(|| build.draw(&draw)).transpose()?;
        build.crop(primitive::Crop { input, size, padding, border, fill, draw })
    }
}
