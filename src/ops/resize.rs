//! `resize`: the image in another size.
//!
//! ```text
//! out(x, y) = Σⱼ wyⱼ · (Σₖ wxₖ · in(x₀ + k, y₀ + j))      in f32; u8 is rounded at the end
//! ```
//!
//! with w = 1 − |pixel − centre| / r, divided by the sum of the weights along its axis; the centre of
//! output pixel i is (i + ½)·W/W_out − ½, and beyond the edge lies the edge pixel. `interp` is
//! `triangle` (antialiased: r = W/W_out where the image shrinks, else 1), `linear` (r = 1) or `nearest`.
//!
//! `size` is a number or `[rows, columns]`; `mode` says what becomes of it:
//!
//! | mode | the result |
//! |---|---|
//! | `stretch` (default) | has this size |
//! | `shorter`, `longer` | has this number of pixels on its shorter, longer side |
//! | `not_smaller`, `not_larger` | is the smallest, largest that is not smaller, larger on either side |
//!
//! All but `stretch` keep the aspect; the other side is rounded half up. `subpixel_scale` (default
//! true, as in DALI) keeps the scale exactly there, so that a rounded side shows up to half an output
//! pixel more or less of the image; with false it shows all of it, as in torchvision.

use crate::error::{Error, Result};
use crate::graph::args::Args;
use crate::graph::op::Operator;
use crate::graph::primitive::{Build, NodeId};
use crate::graph::program::{Filter, Fit};
use crate::graph::resample::Resample;

pub(super) struct Resize;

impl Operator for Resize {
    fn name(&self) -> &'static str {
        "resize"
    }

    fn args(&self) -> &'static [&'static str] {
        &["size", "mode", "interp", "subpixel_scale"]
    }

    fn build(&self, build: &mut Build, input: NodeId, args: &mut Args<'_>) -> Result<NodeId> {
        let size = args.size("size")?;
        // `shorter` is `not_smaller` of a square, `longer` is `not_larger`.
        let (fit, square) = args.choice(
            "mode",
            &[
                ("stretch", (Fit::Stretch, false)),
                ("shorter", (Fit::NotSmaller, true)),
                ("longer", (Fit::NotLarger, true)),
                ("not_smaller", (Fit::NotSmaller, false)),
                ("not_larger", (Fit::NotLarger, false)),
            ],
        )?;
        if square && size.0 != size.1 {
            return Err(Error::spec(
                "mode \"shorter\" and \"longer\" take one number as size; \"not_smaller\" and \
                 \"not_larger\" take [rows, columns]",
            ));
        }
        let subpixel = args.flag("subpixel_scale", true)?;
        if args.has("subpixel_scale") && fit == Fit::Stretch {
            return Err(Error::spec("subpixel_scale is for modes that keep the aspect"));
        }
        let filter = filter(args)?;
        build.resample(Resample { input, size, fit, subpixel, filter, window: None })
    }
}

/// `interp = "triangle"`, the default, `"linear"` or `"nearest"`.
pub(super) fn filter(args: &Args<'_>) -> Result<Filter> {
    let words =
        [("triangle", Filter::Triangle), ("linear", Filter::Linear), ("nearest", Filter::Nearest)];
    args.choice("interp", &words)
}
