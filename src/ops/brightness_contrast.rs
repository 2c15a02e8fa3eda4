//! `brightness_contrast`: DALI's formula.
//!
//! ```text
//! out = in·(b·c) + (shift·range + b·(centre − c·centre))      product and sum rounded separately
//! ```
//!
//! `brightness` b and `contrast` c default to 1, `brightness_shift` to 0, in shares of the range.
//! On u8: range 255, `contrast_center` 128, and the result is u8 again, half away from zero and
//! saturating. On f32: range 1, centre 0.5.

use crate::error::Result;
use crate::graph::args::Args;
use crate::graph::op::Operator;
use crate::graph::primitive::{Build, NodeId};
use crate::graph::program::Op;
use crate::tensor::DType;

pub(super) struct BrightnessContrast;

impl Operator for BrightnessContrast {
    fn name(&self) -> &'static str {
        "brightness_contrast"
    }

    fn args(&self) -> &'static [&'static str] {
        &["brightness", "brightness_shift", "contrast", "contrast_center"]
    }

    fn build(&self, build: &mut Build, input: NodeId, args: &mut Args<'_>) -> Result<NodeId> {
        let bytes = build.image_type(input).dtype == DType::U8;
        let (range, centre) = if bytes { (255.0, 128.0) } else { (1.0, 0.5) };
        let brightness = args.channels(build, "brightness", Some(1.0))?;
        let shift = args.channels(build, "brightness_shift", Some(0.0))?;
        let contrast = args.channels(build, "contrast", Some(1.0))?;
        let centre = args.channels(build, "contrast_center", Some(centre))?;
        let range = [build.constant(range); 3];

        let factor = build.apply_channels(Op::Mul, brightness, contrast);
        let pulled = build.apply_channels(Op::Mul, contrast, centre);
        let left = build.apply_channels(Op::Sub, centre, pulled);
        let raised = build.apply_channels(Op::Mul, brightness, left);
        let shifted = build.apply_channels(Op::Mul, shift, range);
        let offset = build.apply_channels(Op::Add, shifted, raised);

        let scaled = build.point_scalars(input, Op::Mul, factor);
        let out = build.point_scalars(scaled, Op::Add, offset);
        Ok(if bytes { build.round(out) } else { out })
    }
}
