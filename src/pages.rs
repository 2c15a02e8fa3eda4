//! Large memory, in huge pages where the system gives them, and small pieces of it.
//!
//! A processor looks up where each page lies. Batches and kept images are many times what it remembers in
//! pages of 4 KiB, and a look-up costs as much as to fetch a line from memory; of pages of 2 MiB it remembers
//! enough.
#![allow(unsafe_code)]

use memmap2::{Advice, MmapMut, MmapOptions, MmapRaw};
use std::io;
use std::sync::{Arc, Mutex, PoisonError};

/// Bytes of a huge page.
pub(crate) const HUGE: usize = 2 << 20;

/// Zeros, of `bytes` bytes, from 1. Pages are the process's once they are touched.
pub(crate) fn zeros(bytes: usize) -> io::Result<MmapMut> {
    let memory = MmapOptions::new().len(bytes).map_anon()?;
    // Where the system has none, or does not want to be told, its own pages do.
    let _ = memory.advise(Advice::HugePage);
    Ok(memory)
}

/// Where pieces come from: one behind another, out of few large mappings.
#[derive(Default)]
pub(crate) struct Slabs(Mutex<Option<Open>>);

/// The slab that pieces are taken from.
struct Open {
    slab: Arc<MmapRaw>,
    free: usize,
}

/// Bytes that do not change any more.
pub(crate) struct Piece {
    slab: Arc<MmapRaw>,
    start: u32,
    bytes: u32,
}

impl Slabs {
    /// Bytes of a slab.
    const SLAB: usize = 32 << 20;
    /// Pieces begin at a multiple of this, a cache line.
    pub(crate) const ALIGN: usize = 64;

    /// A piece of `bytes` bytes, zeros before `write` has filled them; `None` where there is no memory, or for
    /// 4 GiB or more.
    pub(crate) fn piece(&self, bytes: usize, write: impl FnOnce(&mut [u8])) -> Option<Piece> {
        let (slab, start) = self.take(bytes)?;
        let piece = Piece { slab, start: start.try_into().ok()?, bytes: bytes.try_into().ok()? };
        // SAFETY: `take` gives each range once, within the slab, which the piece keeps. So nothing else refers
        // to these bytes until the piece is returned.
        write(unsafe { std::slice::from_raw_parts_mut(piece.slab.as_mut_ptr().add(start), bytes) });
        Some(piece)
    }

    /// A slab and where in it `bytes` bytes lie that are nobody's.
    fn take(&self, bytes: usize) -> Option<(Arc<MmapRaw>, usize)> {
        let map = |bytes| Some(Arc::new(MmapRaw::from(zeros(bytes).ok()?)));
        // One of its own, so that at most an eighth of a slab's end is left.
        if bytes > Self::SLAB / 8 {
            return Some((map(bytes)?, 0));
        }
        let mut open = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if open.as_ref().is_none_or(|open| bytes > Self::SLAB - open.free) {
            *open = Some(Open { slab: map(Self::SLAB)?, free: 0 });
        }
        let open = open.as_mut()?;
        let start = open.free;
        open.free = (start + bytes).next_multiple_of(Self::ALIGN);
        Some((open.slab.clone(), start))
    }
}

impl std::ops::Deref for Piece {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // SAFETY: within the slab, as `piece` has checked by taking them; written before the piece was there,
        // and by nobody since.
        unsafe {
            std::slice::from_raw_parts(
                self.slab.as_ptr().add(self.start as usize),
                self.bytes as usize,
            )
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Whoever asks at the same time: each piece holds what was written to it, and nothing else does.
    #[test]
    fn pieces_are_apart() {
        let slabs = Slabs::default();
        let lengths = [1, 63, 64, 65, 3136, 0, 100_000, Slabs::SLAB / 8, Slabs::SLAB / 8 + 1];
        let all = Mutex::new(Vec::new());
        std::thread::scope(|scope| {
            for thread in 0..4 {
                let (slabs, all) = (&slabs, &all);
                scope.spawn(move || {
                    for turn in 0..40_usize {
                        let value = (thread * 40 + turn) as u8;
                        let bytes = lengths[turn % lengths.len()];
                        let piece = slabs.piece(bytes, |memory| {
                            assert!(memory.iter().all(|byte| *byte == 0));
                            memory.fill(value);
                        });
                        all.lock().unwrap().push((value, bytes, piece.unwrap()));
                    }
                });
            }
        });
        drop(slabs);
        for (value, bytes, piece) in all.into_inner().unwrap() {
            assert!(piece.len() == bytes && piece.iter().all(|byte| *byte == value));
            assert!(piece.as_ptr().addr().is_multiple_of(Slabs::ALIGN));
        }
    }
}
