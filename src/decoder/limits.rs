//! What one image may cost.

use crate::error::{Error, ErrorKind, Result};

/// Bounds checked before memory is taken or work is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Pixels of one image.
    pub pixels: u64,
    /// Bytes of one encoded file.
    pub bytes: u64,
    /// Scans of one progressive JPEG.
    pub scans: u32,
    /// Pixels times scans of one image: a JPEG of several scans visits its pixels in each of them.
    pub work: u64,
}

impl Default for Limits {
    /// 128 million pixels, more than any photo of ImageNet; files of 256 MiB; ten times the scans
    /// that libjpeg writes; and work for fifteen scans of the largest image, some seconds on a core.
    fn default() -> Self {
        Limits { pixels: 128_000_000, bytes: 256 << 20, scans: 100, work: 2_000_000_000 }
    }
}

impl Limits {
    pub(super) fn check_pixels(&self, width: u32, height: u32) -> Result<()> {
        let pixels = u64::from(width) * u64::from(height);
        let (most, of, flag) = if pixels > self.pixels {
            (self.pixels, "pixels", "--max-pixels")
        } else if pixels > self.work {
            (self.work, "pixels times scans", "--max-work")
        } else {
            return Ok(());
        };
        let text = format!(
            "{width} x {height} pixels are over the limit of {most} {of} ({flag} raises it)"
        );
        Err(Error::new(ErrorKind::Limit, text))
    }

    pub(super) fn check_bytes(&self, len: usize) -> Result<()> {
        if len as u64 <= self.bytes {
            return Ok(());
        }
        let text = format!(
            "a file of {len} bytes is over the limit of {} (--max-file-bytes raises it)",
            self.bytes
        );
        Err(Error::new(ErrorKind::Limit, text))
    }
}
