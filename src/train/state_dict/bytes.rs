//! A file's bytes, taken from the front.

use super::bad;
use crate::error::Result;

/// What is left of the bytes. Taking more than there is, is an error.
#[derive(Debug, Clone, Copy)]
pub(super) struct Bytes<'a>(pub(super) &'a [u8]);

impl<'a> Bytes<'a> {
    pub(super) fn take(&mut self, count: usize) -> Result<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or_else(cut_short)?;
        self.0 = rest;
        Ok(taken)
    }

    pub(super) fn array<const N: usize>(&mut self) -> Result<[u8; N]> {
        let (taken, rest) = self.0.split_first_chunk().ok_or_else(cut_short)?;
        self.0 = rest;
        Ok(*taken)
    }

    /// A little-endian number of `N` bytes, at most 8.
    pub(super) fn number<const N: usize>(&mut self) -> Result<u64> {
        let mut wide = [0; 8];
        wide[..N].copy_from_slice(&self.array::<N>()?);
        Ok(u64::from_le_bytes(wide))
    }

    /// As many bytes as a little-endian number of `N` bytes before them says.
    pub(super) fn counted<const N: usize>(&mut self) -> Result<&'a [u8]> {
        let count = self.number::<N>()?;
        self.take(usize::try_from(count).map_err(|_| cut_short())?)
    }

    /// The text up to the next line feed, which is taken, too.
    pub(super) fn line(&mut self) -> Result<&'a str> {
        let end = memchr::memchr(b'\n', self.0).ok_or_else(cut_short)?;
        let line = self.take(end)?;
        self.take(1)?;
        text(line)
    }
}

pub(super) fn text(bytes: &[u8]) -> Result<&str> {
    std::str::from_utf8(bytes).map_err(|_| bad("damaged: a name in it is not text"))
}

fn cut_short() -> crate::error::Error {
    bad("damaged: it ends too early")
}
