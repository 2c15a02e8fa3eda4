//! The operators of pipeline files, one a file: arguments, formula, and the primitives it is
//! built from.

mod affine;
mod brightness_contrast;
mod cast;
mod clamp;
mod crop;
mod crop_mirror_normalize;
mod expr;
mod flip;
mod normalize;
mod random_resized_crop;
mod resize;
mod rgb_shift;
mod rotate;
mod transpose;

use crate::error::{Error, Result};
use crate::graph::op::Operator;
use crate::graph::primitive::{Build, NodeId};
use crate::tensor::DType;

/// Every operator, by name.
pub const ALL: &[&dyn Operator] = &[
    &affine::Affine,
    &brightness_contrast::BrightnessContrast,
    &cast::Cast,
    &clamp::Clamp,
    &crop::Crop,
    &crop_mirror_normalize::CropMirrorNormalize,
    &expr::Expression,
    &flip::Flip,
    &normalize::Normalize,
    &random_resized_crop::RandomResizedCrop,
    &resize::Resize,
    &rgb_shift::RgbShift,
    &rotate::Rotate,
    &transpose::Transpose,
];

/// Names of all operators.
pub fn names() -> Vec<&'static str> {
    ALL.iter().map(|op| op.name()).collect()
}

/// Refuses an f32 image, for operators whose meaning is in levels of 0 to 255.
fn bytes_only(build: &Build, input: NodeId) -> Result<()> {
    match build.image_type(input).dtype {
        DType::U8 => Ok(()),
        other => Err(Error::spec(format!(
            "needs a u8 image and gets {other}; put it before the step that makes it {other}, or \
             cast to u8"
        ))),
    }
}
