//! What the kernels `entropy`, `subsequence`, `idct` and `colour` take, as `kernels/` declares it. Both sides assert sizes.
//!
//! Pointers are numbers, since they are of the host or of a GPU.

use super::group::PLACES;
use bytemuck::{Pod, Zeroable};

/// `EntropyArgs` of `kernels/entropy.cu`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct EntropyArgs {
    pub(super) scans: u64,
    pub(super) pool: u64,
    pub(super) status: u64,
    pub(super) n: u32,
    pub(super) unused: u32,
}

/// `Scan` of `kernels/entropy.cuh`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Scan {
    pub(super) bytes: u64,
    pub(super) coefficients: u64,
    pub(super) last: u64,
    pub(super) length: u32,
    pub(super) form: u32,
    pub(super) first: u32,
    pub(super) count: u32,
    pub(super) image: u32,
    pub(super) unused: u32,
}

/// `SubsequenceArgs` of `kernels/subsequence.cu`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct SubsequenceArgs {
    pub(super) intervals: u64,
    pub(super) interval_of: u64,
    pub(super) pool: u64,
    pub(super) before: u64,
    pub(super) links: u64,
    pub(super) tallies: u64,
    pub(super) status: u64,
    pub(super) n: u32,
    pub(super) bytes: u32,
    /// A [`Step`](super::cut::Step).
    pub(super) step: u32,
    pub(super) unused: u32,
}

/// `Interval` of `kernels/subsequence.cuh`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Interval {
    pub(super) bytes: u64,
    pub(super) coefficients: u64,
    pub(super) length: u32,
    pub(super) form: u32,
    pub(super) number: u32,
    pub(super) first: u32,
    pub(super) count: u32,
    pub(super) image: u32,
}

/// `Slots` of `kernels/entropy.cuh`.
#[derive(Debug, Clone, Copy, Default, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Slots {
    pub(super) component: u32,
    pub(super) first: u32,
    pub(super) across: u32,
    pub(super) down: u32,
}

/// Blocks of an MCU, at most: four of luma and one of each chroma component.
pub(super) const MOST_BLOCKS: usize = 6;

/// `Form` of `kernels/entropy.cuh`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Form {
    pub(super) dc: [u32; 3],
    pub(super) ac: [u32; 3],
    pub(super) columns: u32,
    pub(super) mcus: u32,
    pub(super) interval: u32,
    pub(super) intervals: u32,
    pub(super) blocks: u32,
    pub(super) unused: u32,
    pub(super) slots: [Slots; MOST_BLOCKS],
    pub(super) places: [u16; 64],
}

impl Form {
    /// [`Form::places`] of every picture.
    pub(super) const PLACES: [u16; 64] = *PLACES.first_chunk().expect("more of them");
}

/// Bits of a look-up's index. Codes and values that together are longer go through [`Huffman::resolve`](super::tables::Huffman::resolve).
pub(super) const BITS: u32 = 10;

/// `Codes` of `kernels/entropy.cuh`.
#[derive(Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Codes {
    pub(super) look: [u32; 1 << BITS],
    pub(super) limits: [u32; 17],
    pub(super) offsets: [i32; 17],
    pub(super) symbols: [u8; 256],
}

/// `IdctArgs` of `kernels/idct.cu`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct IdctArgs {
    pub(super) runs: u64,
    pub(super) run_of: u64,
    pub(super) status: u64,
    pub(super) n: u32,
    pub(super) unused: u32,
}

/// `Run` of `kernels/idct.cu`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Run {
    pub(super) coefficients: u64,
    pub(super) quantisation: u64,
    pub(super) planes: u64,
    pub(super) places: u64,
    pub(super) last: u64,
    pub(super) first: u32,
    pub(super) groups: u32,
    pub(super) stride: i32,
    pub(super) paired: u32,
    pub(super) lanes: u32,
    pub(super) side: u32,
    pub(super) image: u32,
    pub(super) unused: u32,
}

/// `ColourArgs` of `kernels/colour.cu`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub struct ColourArgs {
    pub(super) pictures: u64,
    pub(super) n: u32,
    pub(super) tiles: u32,
}

/// `Picture` of `kernels/colour.cuh`.
#[derive(Debug, Clone, Copy, Pod, Zeroable)]
#[repr(C)]
pub(super) struct Picture {
    pub(super) planes: [u64; 3],
    pub(super) to: u64,
    pub(super) chroma_size: [i32; 2],
    pub(super) strides: [i32; 2],
    /// First rows of planes.
    pub(super) firsts: [i32; 2],
    /// First columns.
    pub(super) lefts: [i32; 2],
    pub(super) columns: [i32; 2],
    pub(super) top: i32,
    pub(super) rows: [i32; 2],
    /// A [`Chroma`](super::part::Chroma).
    pub(super) chroma: u32,
}

const _: () = assert!(size_of::<EntropyArgs>() == 32 && size_of::<Scan>() == 48);
const _: () = assert!(size_of::<SubsequenceArgs>() == 72 && size_of::<Interval>() == 40);
const _: () = assert!(size_of::<Form>() == 272 && size_of::<Codes>() == 4488);
const _: () = assert!(size_of::<IdctArgs>() == 32 && size_of::<Run>() == 72);
const _: () = assert!(size_of::<ColourArgs>() == 16 && size_of::<Picture>() == 88);
