//! Memory that the GPU reads and writes, and host memory that its copy engine does.
//!
//! Both kinds grow and never shrink: doubled when they are too small, so that nothing is allocated
//! once the largest content has been seen. Growing and dropping are for the owner, who knows that no
//! work that uses the memory is under way (the driver waits for such work all the same).
#![allow(unsafe_code)]

use super::{Cuda, check};
use crate::error::{Error, ErrorKind, Result};
use cudarc::driver::{result, sys};
use std::sync::Arc;

/// An address that every copy and every vector access likes.
const ALIGN: usize = 256;

/// Memory of a GPU.
pub struct DeviceMemory {
    cuda: Arc<Cuda>,
    address: u64,
    capacity: usize,
}

impl DeviceMemory {
    /// None yet.
    pub fn new(cuda: &Arc<Cuda>) -> Self {
        DeviceMemory { cuda: cuda.clone(), address: 0, capacity: 0 }
    }

    /// Makes room for `bytes`; whether that took an allocation, which loses the content.
    ///
    /// # Errors
    /// When the GPU has not so much memory: how much was asked for and how much is free.
    pub fn reserve(&mut self, bytes: usize) -> Result<bool> {
        if bytes <= self.capacity {
            return Ok(false);
        }
        let doubled = size(bytes.max(self.capacity * 2))?;
        let least = size(bytes)?;
        self.release();
        // SAFETY: takes a size; the context is current.
        let allocate = |bytes| check("cuMemAlloc", unsafe { result::malloc_sync(bytes) });
        // Where twice as much is not to be had, what is needed may be.
        let (address, capacity) = match allocate(doubled) {
            Ok(address) => (address, doubled),
            Err(e) if e.kind() == ErrorKind::Limit && least < doubled => {
                (allocate(least).map_err(|e| self.describe(e, least))?, least)
            }
            Err(e) => return Err(self.describe(e, doubled)),
        };
        (self.address, self.capacity) = (address, capacity);
        Ok(true)
    }

    /// Where it lies on the GPU.
    pub fn address(&self) -> u64 {
        self.address
    }

    /// Bytes there are.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    fn describe(&self, error: Error, bytes: usize) -> Error {
        if error.kind() != ErrorKind::Limit {
            return error;
        }
        let mib = |bytes: usize| bytes >> 20;
        let room = self.cuda.memory().map_or_else(
            |_| String::new(),
            |(free, total)| format!(" with {} of {} MiB free", mib(free), mib(total)),
        );
        let text = format!(
            "{}: a batch asked {} for {} MiB{room}; lower the batch size or prefetch",
            error.message(),
            self.cuda,
            mib(bytes.next_multiple_of(1 << 20)),
        );
        Error::new(ErrorKind::Limit, text)
    }

    fn release(&mut self) {
        if self.capacity > 0 {
            // SAFETY: allocated here and freed once. An error means that the context is lost, and
            // the memory with it.
            let _ = unsafe { result::free_sync(self.address) };
            (self.address, self.capacity) = (0, 0);
        }
    }
}

impl Drop for DeviceMemory {
    fn drop(&mut self) {
        let _bound = self.cuda.bind();
        self.release();
    }
}

/// Host memory that copies to and from a GPU can use while the host goes on.
pub struct PinnedMemory {
    cuda: Arc<Cuda>,
    start: *mut u8,
    capacity: usize,
}

// SAFETY: plain memory with one owner; the driver's calls on it are thread-safe.
unsafe impl Send for PinnedMemory {}
// SAFETY: `&self` gives a pointer and `&[u8]` only.
unsafe impl Sync for PinnedMemory {}

impl PinnedMemory {
    /// None yet.
    pub fn new(cuda: &Arc<Cuda>) -> Self {
        PinnedMemory { cuda: cuda.clone(), start: std::ptr::null_mut(), capacity: 0 }
    }

    /// Makes room for `bytes` and keeps the first `keep` of those there are; whether that took an
    /// allocation. New memory is zero.
    pub fn reserve(&mut self, bytes: usize, keep: usize) -> Result<bool> {
        if bytes <= self.capacity {
            return Ok(false);
        }
        let (doubled, least) = (size(bytes.max(self.capacity * 2))?, size(bytes)?);
        // SAFETY: takes a size; the context is current.
        let allocate = |bytes| check("cuMemHostAlloc", unsafe { result::malloc_host(bytes, 0) });
        let (start, capacity) = match allocate(doubled) {
            Err(e) if e.kind() == ErrorKind::Limit && least < doubled => (allocate(least), least),
            result => (result, doubled),
        };
        let start = start.map_err(|error| describe(error, capacity))?.cast::<u8>();
        let keep = keep.min(self.capacity);
        // SAFETY: both are that large, and the new memory overlaps nothing.
        unsafe {
            if keep > 0 {
                start.copy_from_nonoverlapping(self.start, keep);
            }
            start.add(keep).write_bytes(0, capacity - keep);
        }
        self.release();
        (self.start, self.capacity) = (start, capacity);
        Ok(true)
    }

    /// Its first byte; null where there is none.
    pub fn start(&self) -> *mut u8 {
        self.start
    }

    /// Bytes there are.
    pub fn capacity(&self) -> usize {
        self.capacity
    }

    /// The first `len` bytes.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn bytes(&self, len: usize) -> &[u8] {
        assert!(len <= self.capacity, "pinned memory of {} bytes", self.capacity);
        if len == 0 {
            return &[];
        }
        // SAFETY: initialised when it was allocated, and so many bytes long. Copies into it are
        // over when it is read: their owner waited for them.
        unsafe { std::slice::from_raw_parts(self.start, len) }
    }

    /// The first `len` bytes, to write.
    ///
    /// # Panics
    /// When there are fewer.
    pub fn bytes_mut(&mut self, len: usize) -> &mut [u8] {
        assert!(len <= self.capacity, "pinned memory of {} bytes", self.capacity);
        if len == 0 {
            return &mut [];
        }
        // SAFETY: as above, and `&mut self` keeps others off.
        unsafe { std::slice::from_raw_parts_mut(self.start, len) }
    }

    fn release(&mut self) {
        if self.capacity > 0 {
            // SAFETY: allocated here and freed once.
            let _ = unsafe { result::free_host(self.start.cast()) };
            (self.start, self.capacity) = (std::ptr::null_mut(), 0);
        }
    }
}

impl Drop for PinnedMemory {
    fn drop(&mut self) {
        let _bound = self.cuda.bind();
        self.release();
    }
}

fn describe(error: Error, bytes: usize) -> Error {
    if error.kind() != ErrorKind::Limit {
        return error;
    }
    let text = format!(
        "{}: a batch asked for {} MiB of pinned host memory; lower the batch size or prefetch",
        error.message(),
        bytes.next_multiple_of(1 << 20) >> 20,
    );
    Error::new(ErrorKind::Limit, text)
}

fn size(bytes: usize) -> Result<usize> {
    bytes.checked_next_multiple_of(ALIGN).ok_or_else(|| {
        Error::new(ErrorKind::Limit, format!("{bytes} bytes are more than a machine can address"))
    })
}

const _: () = assert!(size_of::<sys::CUdeviceptr>() == 8);
