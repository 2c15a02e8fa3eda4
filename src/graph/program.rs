//! The structures that the kernels read, as `kernels/program.cuh` declares them. Both sides assert
//! sizes and offsets, so that a change on one is an error on the other.
#![allow(missing_docs)] // The fields are described in kernels/program.cuh.

use bytemuck::{Pod, Zeroable};
use std::mem::offset_of;

/// Registers of a sample's scalar program.
pub const MAX_REGISTERS: usize = 256;
/// Pointwise operations of a pass.
pub const MAX_POINTS: usize = 24;
/// Flips and crops before, and as many after, the gather of a pass.
pub const MAX_MAPS: usize = 4;
/// Pixels of an image between passes.
pub const MAX_PIXELS: u64 = 1 << 27;
/// Longest side that a gather reads or makes.
pub const MAX_SIDE: u32 = 1 << 22;
/// Bytes that a source image carries past its end, since kernels read wide.
pub const TAIL: usize = 64;
/// The guard of a step that is always taken.
pub const NO_GUARD: u16 = 0xFFFF;

/// Operations on numbers: `enum Op` of the kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Op {
    Add,
    Sub,
    Rsub,
    Mul,
    Div,
    Rdiv,
    Min,
    Max,
    Lt,
    Le,
    Gt,
    Ge,
    Eq,
    Ne,
    And,
    Or,
    Neg,
    Not,
    Round,
    Const,
    Unit,
    Normal,
}

pub const STEP_POINT: u8 = 0;
pub const STEP_AFFINE: u8 = 1;
pub const STEP_CROP: u8 = 2;
pub const STEP_FLIP: u8 = 3;
pub const STEP_RESAMPLE: u8 = 4;

pub const FLAG_LINEAR: u8 = 1;
pub const FLAG_GROW: u8 = 2;
pub const FLAG_SUBPIXEL: u8 = 2;
pub const FLAG_ROUND: u8 = 4;
pub const FLAG_RANDOM: u8 = 8;
pub const FLAG_IMAGE: u8 = 16;
pub const FLAG_HORIZONTAL: u8 = 32;
pub const FLAG_VERTICAL: u8 = 64;
pub const FLAG_F32: u8 = 128;

/// What lies beyond an image's edge.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Border {
    /// The edge pixel.
    Clamp,
    /// A fill value.
    Constant,
    /// The image mirrored about the centre of its edge pixel.
    Reflect,
}

/// How a resample weighs the pixels that it reads: `enum Filter` of the kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Filter {
    /// Those nearer than one output pixel where the image shrinks, else than one input pixel: the
    /// antialiased form of linear.
    Triangle,
    /// The two nearest along each axis.
    Linear,
    /// The nearest.
    Nearest,
}

/// What becomes of the size that a resample is given: `enum Fit` of the kernels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Fit {
    /// It is the size of the result.
    Stretch,
    /// No side of the result is smaller; the aspect is kept.
    NotSmaller,
    /// No side is larger; the aspect is kept.
    NotLarger,
}

/// Which gather a resolved pass has.
pub const GATHER_NONE: u8 = 0;
/// A resample.
pub const GATHER_RESAMPLE: u8 = 3;

/// One instruction of the scalar program.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Scalar {
    pub op: u16,
    pub dst: u16,
    pub a: u16,
    pub b: u16,
    pub value: u32,
    pub element: u32,
}

/// A guarded step of a pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Step {
    pub kind: u8,
    pub op: u8,
    pub flags: u8,
    pub border: u8,
    pub guard: u16,
    pub name: u16,
    pub regs: [u16; 8],
    pub height: i32,
    pub width: i32,
    pub padding: i32,
    pub draw: u32,
}

/// One pass over the pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Pass {
    pub source: u16,
    pub dest: u16,
    pub source_type: u8,
    pub dest_type: u8,
    pub dest_layout: u8,
    pub unused: u8,
    pub first_step: u32,
    pub steps: u32,
}

/// An image in memory.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Image {
    pub data: u64,
    pub width: i32,
    pub height: i32,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Map {
    pub sign: i32,
    pub offset: i32,
    pub n: i32,
    pub border: u32,
}

#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Point {
    pub op: u16,
    pub flags: u16,
    pub image: u32,
    pub value: [f32; 3],
}

/// The pixels that an output place reads along an axis.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Taps {
    pub step: i64,
    pub from: i64,
    pub peak: f32,
    pub slope: f32,
    pub count: i32,
    pub unused: u32,
}

/// Fractional bits of places in [`Taps`].
pub const FRACTION: u32 = 38;

/// One sample's pass, as `resolve` writes it and `augment` reads it.
#[derive(Debug, Clone, Copy, PartialEq, Pod, Zeroable)]
#[repr(C)]
pub struct Resolved {
    pub source_width: i32,
    pub source_height: i32,
    pub view_width: i32,
    pub view_height: i32,
    pub out_width: i32,
    pub out_height: i32,
    pub gather: u8,
    pub border: u8,
    pub pre: u8,
    pub post: u8,
    pub points: u32,
    pub fill: f32,
    pub m: [f32; 8],
    pub unused: u32,
    pub taps_x: Taps,
    pub taps_y: Taps,
    pub pre_x: [Map; MAX_MAPS],
    pub pre_y: [Map; MAX_MAPS],
    pub post_x: [Map; MAX_MAPS],
    pub post_y: [Map; MAX_MAPS],
    pub point: [Point; MAX_POINTS],
}

/// Arguments of `resolve`. Addresses are those of the device that runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct ResolveArgs {
    pub scalars: u64,
    pub passes: u64,
    pub steps: u64,
    pub samples: u64,
    pub images: u64,
    pub resolved: u64,
    pub status: u64,
    pub seed: u64,
    pub epoch: u32,
    pub n_scalars: u32,
    pub n_passes: u32,
    pub n_images: u32,
    pub n_samples: u32,
    pub unused: u32,
}

/// Arguments of `augment`. Addresses are those of the device that runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct AugmentArgs {
    pub resolved: u64,
    pub images: u64,
    pub status: u64,
    pub n_passes: u32,
    pub n_images: u32,
    pub n_samples: u32,
    pub number: u32,
    pub pass: Pass,
    pub tiles: u32,
    pub unused: u32,
}

/// An image as a GPU's decoder left it, for `settle`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct Decoded {
    pub from: u64,
    pub to: u64,
    pub width: i32,
    pub height: i32,
    pub turn: u32,
    pub sample: u32,
}

/// Arguments of `settle`. Addresses are those of the device that runs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Pod, Zeroable)]
#[repr(C)]
pub struct SettleArgs {
    pub decoded: u64,
    pub status: u64,
    pub n: u32,
    pub tiles: u32,
    pub pattern: u32,
    pub unused: u32,
}

/// What is wrong with a sample: `enum Fault` of the kernels, in the status word's
/// upper half; the lower half is the step's name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// The crop is larger than the padded image.
    Crop,
    /// The two images of an operation have different sizes.
    Operand,
    /// The result would have no pixels, or more than [`MAX_PIXELS`].
    Size,
    /// The GPU's decoder reported success for an image that it did not write.
    Unwritten,
}

impl Fault {
    /// The fault and the step's name in a status word; `None` where it is 0.
    pub fn of(status: u32) -> Option<(Fault, usize)> {
        let fault = match status >> 16 {
            0 => return None,
            1 => Fault::Crop,
            2 => Fault::Operand,
            3 => Fault::Size,
            _ => Fault::Unwritten,
        };
        Some((fault, (status & 0xFFFF) as usize))
    }
}

const _: () = {
    assert!(size_of::<Scalar>() == 16);
    assert!(size_of::<Step>() == 40);
    assert!(size_of::<Pass>() == 16);
    assert!(size_of::<Image>() == 16);
    assert!(size_of::<Map>() == 16);
    assert!(size_of::<Point>() == 20);
    assert!(size_of::<Taps>() == 32);
    assert!(size_of::<Resolved>() == 872 && offset_of!(Resolved, taps_x) == 72);
    assert!(size_of::<ResolveArgs>() == 88 && offset_of!(ResolveArgs, scalars) == 0);
    assert!(offset_of!(ResolveArgs, passes) == 8 && offset_of!(ResolveArgs, steps) == 16);
    assert!(offset_of!(ResolveArgs, samples) == 24 && offset_of!(ResolveArgs, images) == 32);
    assert!(offset_of!(ResolveArgs, resolved) == 40 && offset_of!(ResolveArgs, status) == 48);
    assert!(offset_of!(ResolveArgs, seed) == 56 && offset_of!(ResolveArgs, epoch) == 64);
    assert!(offset_of!(ResolveArgs, n_scalars) == 68 && offset_of!(ResolveArgs, n_passes) == 72);
    assert!(offset_of!(ResolveArgs, n_images) == 76 && offset_of!(ResolveArgs, n_samples) == 80);
    assert!(size_of::<AugmentArgs>() == 64 && offset_of!(AugmentArgs, resolved) == 0);
    assert!(offset_of!(AugmentArgs, images) == 8 && offset_of!(AugmentArgs, status) == 16);
    assert!(offset_of!(AugmentArgs, n_passes) == 24 && offset_of!(AugmentArgs, n_images) == 28);
    assert!(offset_of!(AugmentArgs, n_samples) == 32 && offset_of!(AugmentArgs, number) == 36);
    assert!(offset_of!(AugmentArgs, pass) == 40 && offset_of!(AugmentArgs, tiles) == 56);
    assert!(size_of::<Decoded>() == 32 && offset_of!(Decoded, from) == 0);
    assert!(offset_of!(Decoded, to) == 8 && offset_of!(Decoded, width) == 16);
    assert!(offset_of!(Decoded, height) == 20 && offset_of!(Decoded, turn) == 24);
    assert!(offset_of!(Decoded, sample) == 28);
    assert!(size_of::<SettleArgs>() == 32 && offset_of!(SettleArgs, decoded) == 0);
    assert!(offset_of!(SettleArgs, status) == 8 && offset_of!(SettleArgs, n) == 16);
    assert!(offset_of!(SettleArgs, tiles) == 20 && offset_of!(SettleArgs, pattern) == 24);
};
