//! Pinned memory while many threads put pieces into it: each piece takes the next place by one
//! atomic addition.
#![allow(unsafe_code)]

use crate::device::cuda::PinnedMemory;
use crate::error::Result;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Places start on this boundary: 16-byte loads of kernels, and words of the unwritten pattern.
pub(super) const ALIGN: usize = 256;

/// The memory of one slot, shared for as long as its batch is being made.
///
/// Where it is too small a piece waits apart, and [`gather`] grows the memory before the upload.
pub(in crate::executor) struct Arena {
    start: *mut u8,
    capacity: usize,
    /// Where the next piece goes; past `capacity` there is no room left.
    next: AtomicUsize,
}

// SAFETY: pieces never overlap, since `next` only grows, and nobody reads before all are put.
unsafe impl Send for Arena {}
// SAFETY: as above.
unsafe impl Sync for Arena {}

/// A piece's place in the memory.
#[derive(Debug)]
pub(in crate::executor) struct Piece {
    /// Bytes from the start.
    pub(in crate::executor) offset: usize,
    /// Bytes of the piece.
    pub(in crate::executor) len: usize,
    /// The bytes themselves, where there was no room for them.
    apart: Option<Box<[u8]>>,
}

impl Arena {
    /// All of `memory`, which stays where it is until the pieces are gathered: the slot that owns
    /// it is the job's, and nobody else reaches it.
    pub(super) fn new(memory: &PinnedMemory) -> Self {
        Arena { start: memory.start(), capacity: memory.capacity(), next: AtomicUsize::new(0) }
    }

    /// Copies `bytes` to a place of their own.
    pub(in crate::executor) fn put(&self, bytes: &[u8]) -> Piece {
        let room = bytes.len().next_multiple_of(ALIGN);
        // Relaxed: the number itself is the claim. Whoever reads the bytes is told by other means.
        let offset = self.next.fetch_add(room, Ordering::Relaxed);
        if offset.checked_add(room).is_none_or(|end| end > self.capacity) {
            return Piece { offset, len: bytes.len(), apart: Some(bytes.into()) };
        }
        // SAFETY: the range lies within the memory (`room` covers `bytes`), was claimed by this
        // call alone, and `bytes` lies elsewhere.
        unsafe {
            self.start.add(offset).copy_from_nonoverlapping(bytes.as_ptr(), bytes.len());
        }
        Piece { offset, len: bytes.len(), apart: None }
    }

    /// Bytes that the pieces take.
    pub(super) fn used(&self) -> usize {
        self.next.load(Ordering::Relaxed)
    }
}

/// Puts the pieces that had no room into `memory`, grown to hold `used` bytes; whether it grew.
/// `pieces` are all that were put into the memory's arena, which is not used after this.
pub(super) fn gather<'a>(
    memory: &mut PinnedMemory,
    used: usize,
    pieces: impl Iterator<Item = &'a Piece>,
) -> Result<bool> {
    if used <= memory.capacity() {
        return Ok(false);
    }
    let there = memory.capacity();
    memory.reserve(used, there)?;
    let bytes = memory.bytes_mut(used);
    for piece in pieces {
        if let Some(apart) = &piece.apart {
            bytes[piece.offset..][..piece.len].copy_from_slice(apart);
        }
    }
    Ok(true)
}
