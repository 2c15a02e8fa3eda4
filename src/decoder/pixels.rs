//! Decoded images in memory.

use crate::error::{Error, ErrorKind, Result};
use crate::pages::{Piece, Slabs};
use crate::tensor::Buffer;

/// A decoded image: u8, RGB, rows top down, dense (row stride 3 x width).
#[derive(Default)]
pub struct Pixels {
    buffer: Buffer,
    width: u32,
    height: u32,
}

impl Pixels {
    /// libjpeg-turbo's AVX2 colour conversion stores around the cache where a row lies on a
    /// 32-byte boundary, which costs 30% at 32x32; so pixels start 16 bytes off one.
    const OFFSET: usize = 16;
    /// Kernels read four bytes a pixel; the last pixel's fourth lies past the end.
    const TAIL: usize = 64;

    /// An empty image that owns no memory yet.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes room for `width` x `height` pixels and lends them; their content is unspecified.
    ///
    /// # Errors
    /// Where there is no memory for them.
    pub fn reset(&mut self, width: u32, height: u32) -> Result<&mut [u8]> {
        let len = width as usize * height as usize * 3;
        self.buffer.resize(Self::OFFSET + len + Self::TAIL).map_err(|_| {
            let text = format!("out of memory for {width} x {height} pixels");
            Error::new(ErrorKind::Resources, text)
        })?;
        (self.width, self.height) = (width, height);
        Ok(&mut self.buffer[Self::OFFSET..Self::OFFSET + len])
    }

    /// The image where it lies.
    pub fn picture(&self) -> Picture<'_> {
        Picture { bytes: self.bytes(), width: self.width, height: self.height }
    }

    /// Columns.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// `height` x `width` x 3 bytes.
    pub fn bytes(&self) -> &[u8] {
        let len = self.width as usize * self.height as usize * 3;
        &self.buffer[Self::OFFSET..Self::OFFSET + len]
    }
}

/// A decoded image that lies in somebody's memory: as [`Pixels`], which lend it.
#[derive(Clone, Copy)]
pub struct Picture<'a> {
    /// With [`Pixels::TAIL`] bytes behind them that may be read.
    bytes: &'a [u8],
    width: u32,
    height: u32,
}

impl<'a> Picture<'a> {
    /// Columns.
    pub fn width(&self) -> u32 {
        self.width
    }

    /// Rows.
    pub fn height(&self) -> u32 {
        self.height
    }

    /// `height` x `width` x 3 bytes.
    pub fn bytes(&self) -> &'a [u8] {
        self.bytes
    }
}

/// A decoded image that stays where it is: no more memory than it needs, beside others.
pub(crate) struct KeptPixels {
    memory: Piece,
    width: u32,
    height: u32,
}

impl KeptPixels {
    /// `pixels` once more; `None` where there is no memory for them.
    pub(crate) fn new(pixels: &Pixels, slabs: &Slabs) -> Option<KeptPixels> {
        let bytes = pixels.bytes();
        let copy = |memory: &mut [u8]| memory[..bytes.len()].copy_from_slice(bytes);
        let memory = slabs.piece(bytes.len() + Pixels::TAIL, copy)?;
        Some(KeptPixels { memory, width: pixels.width, height: pixels.height })
    }

    /// Bytes of memory that `pixels` would take.
    pub(crate) fn memory(pixels: &Pixels) -> usize {
        (pixels.bytes().len() + Pixels::TAIL).next_multiple_of(Slabs::ALIGN)
    }

    /// The image where it lies.
    pub(crate) fn picture(&self) -> Picture<'_> {
        let bytes = &self.memory[..self.memory.len() - Pixels::TAIL];
        Picture { bytes, width: self.width, height: self.height }
    }
}
