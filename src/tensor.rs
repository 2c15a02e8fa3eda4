//! Shapes, element types and the byte buffers that batches live in.

use crate::error::{Error, ErrorKind, Result};
use crate::pages;
use memmap2::MmapMut;
use std::{fmt, io};

/// Element type of an image or a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum DType {
    /// Unsigned byte, 0 to 255.
    U8,
    /// IEEE single precision.
    F32,
    /// Signed 64-bit integer (labels and ids only).
    I64,
}

impl DType {
    /// Bytes of one element.
    pub const fn size(self) -> usize {
        match self {
            DType::U8 => 1,
            DType::F32 => 4,
            DType::I64 => 8,
        }
    }

    /// The name used in pipeline files: `u8`, `f32`, `i64`.
    pub const fn name(self) -> &'static str {
        match self {
            DType::U8 => "u8",
            DType::F32 => "f32",
            DType::I64 => "i64",
        }
    }

    /// NumPy's descriptor, little endian: `|u1`, `<f4`, `<i8`.
    pub const fn npy(self) -> &'static str {
        match self {
            DType::U8 => "|u1",
            DType::F32 => "<f4",
            DType::I64 => "<i8",
        }
    }
}

impl fmt::Display for DType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Order of an image's axes in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Layout {
    /// Rows, columns, channels: what decoders give.
    Hwc,
    /// Channels, rows, columns: what PyTorch convolutions take.
    Chw,
}

impl Layout {
    /// The name used in pipeline files: `HWC`, `CHW`.
    pub const fn name(self) -> &'static str {
        match self {
            Layout::Hwc => "HWC",
            Layout::Chw => "CHW",
        }
    }

    /// The shape of a batch of `n` RGB images of `height` x `width`.
    pub const fn batch_shape(self, n: usize, height: usize, width: usize) -> [usize; 4] {
        match self {
            Layout::Hwc => [n, height, width, 3],
            Layout::Chw => [n, 3, height, width],
        }
    }
}

/// Bytes on a 64-byte boundary that grow and never shrink, so that a recycled buffer allocates
/// only until it has seen its largest content.
#[derive(Default)]
pub struct Buffer {
    /// A small buffer's memory.
    blocks: Vec<Block>,
    /// A large one's, in place of them.
    pages: Option<MmapMut>,
    len: usize,
}

/// One cache line; a vector of them is aligned to it.
#[derive(Clone, Copy, bytemuck::Zeroable, bytemuck::Pod)]
#[repr(C, align(64))]
struct Block([u8; 64]);

fn no_memory(len: usize) -> Error {
    Error::new(ErrorKind::Resources, format!("out of memory for {len} bytes"))
}

impl Buffer {
    /// From this many bytes on a buffer has pages of its own, in whole huge ones.
    const LARGE: usize = pages::HUGE / 2;

    /// An empty buffer that owns no memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Sets the length. Bytes that were handed out before are as they were left, others zero.
    ///
    /// # Errors
    /// Where there is no memory for it; the buffer is as it was.
    pub fn resize(&mut self, len: usize) -> Result<()> {
        if len > self.capacity() && len >= Self::LARGE {
            self.enlarge(len).map_err(|_| no_memory(len))?;
        }
        let blocks = if self.pages.is_some() { 0 } else { len.div_ceil(64) };
        if let Some(more) = blocks.checked_sub(self.blocks.len()) {
            // With room to grow further; where there is not so much, just what is needed.
            let reserved = self.blocks.try_reserve(more);
            let reserved = reserved.or_else(|_| self.blocks.try_reserve_exact(more));
            reserved.map_err(|_| no_memory(len))?;
            self.blocks.resize(blocks, Block([0; 64]));
        }
        self.len = len;
        Ok(())
    }

    /// Moves to pages for `len` bytes, with room to grow further where there is so much.
    fn enlarge(&mut self, len: usize) -> io::Result<()> {
        let more = len.max(self.capacity() / 2 * 3).next_multiple_of(pages::HUGE);
        let mut pages = pages::zeros(more).or_else(|_| pages::zeros(len))?;
        pages[..self.len].copy_from_slice(self);
        self.pages = Some(pages);
        self.blocks = Vec::new();
        Ok(())
    }

    /// Shortens to `len` bytes, where there are more.
    pub fn truncate(&mut self, len: usize) {
        self.len = self.len.min(len);
    }

    /// Bytes held, whether in use or not.
    pub fn capacity(&self) -> usize {
        self.pages.as_ref().map_or(self.blocks.len() * 64, |pages| pages.len())
    }
}

impl std::ops::Deref for Buffer {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        match &self.pages {
            Some(pages) => &pages[..self.len],
            None => &bytemuck::cast_slice(&self.blocks)[..self.len],
        }
    }
}

impl std::ops::DerefMut for Buffer {
    fn deref_mut(&mut self) -> &mut [u8] {
        match &mut self.pages {
            Some(pages) => &mut pages[..self.len],
            None => &mut bytemuck::cast_slice_mut(&mut self.blocks)[..self.len],
        }
    }
}

/// A borrowed, dense, row-major array: what a batch lends to its consumer.
#[derive(Clone, Copy)]
pub struct TensorView<'a> {
    /// Sizes of the axes, outermost first.
    pub shape: &'a [usize],
    /// Element type.
    pub dtype: DType,
    /// The elements, native endian; `shape` product times `dtype.size()` bytes.
    pub bytes: &'a [u8],
}

impl<'a> TensorView<'a> {
    /// The elements as `f32`; `None` when they are of another type.
    pub fn as_f32(&self) -> Option<&'a [f32]> {
        (self.dtype == DType::F32).then(|| bytemuck::cast_slice(self.bytes))
    }

    /// The elements as `i64`; `None` when they are of another type.
    pub fn as_i64(&self) -> Option<&'a [i64]> {
        (self.dtype == DType::I64).then(|| bytemuck::cast_slice(self.bytes))
    }
}
