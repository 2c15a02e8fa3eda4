//! Encoded bytes to RGB pixels.

use crate::error::Result;
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
    pub fn reset(&mut self, width: u32, height: u32) -> &mut [u8] {
        let len = width as usize * height as usize * 3;
        self.buffer.resize(Self::OFFSET + len + Self::TAIL);
        (self.width, self.height) = (width, height);
        &mut self.buffer[Self::OFFSET..Self::OFFSET + len]
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

/// Bounds checked before memory is taken or work is done.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Pixels of one image.
    pub pixels: u64,
    /// Bytes of one encoded file.
    pub bytes: u64,
    /// Scans of one progressive JPEG.
    pub scans: u32,
}

/// What a decode found beside the pixels.
#[derive(Debug, Clone, Default)]
pub struct Info {
    /// `"jpeg"`, `"png"`, ….
    pub format: &'static str,
    /// Codes of libjpeg's warnings in order (`JWRN_*` as numbers), empty for other formats.
    pub warnings: Vec<i32>,
}

/// Decodes one image after another on one thread; keeps its handles and scratch.
pub struct Decoder {}

impl Decoder {
    /// A decoder with the given limits.
    pub fn new(limits: Limits) -> Self {
        let _ = limits;
        todo!()
    }

    /// Decodes `bytes`, whose format is found from their content, with EXIF orientation applied.
    pub fn decode(&mut self, bytes: &[u8], out: &mut Pixels) -> Result<Info> {
        let _ = (bytes, out);
        todo!()
    }
}
