//! What happens when: streams, events, and the work that is put on them.
#![allow(unsafe_code)]

use super::{Cuda, Kernel, check};
use crate::error::Result;
use cudarc::driver::sys::CUevent_flags as EventFlags;
use cudarc::driver::{result, sys};
use std::ffi::c_void;
use std::sync::Arc;

/// A queue of work, done in order, beside other queues. It never waits for the legacy default
/// stream, nor that for it, unless an event says so.
pub struct Stream {
    cuda: Arc<Cuda>,
    raw: sys::CUstream,
}

// SAFETY: a handle of the driver, which is thread-safe.
unsafe impl Send for Stream {}
// SAFETY: as above.
unsafe impl Sync for Stream {}

/// A stream of somebody else's: libtorch's current one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForeignStream(usize);

impl ForeignStream {
    /// The legacy default stream of the primary context, on which libtorch runs unless told
    /// otherwise.
    pub const LEGACY: ForeignStream = ForeignStream(0);

    /// A `CUstream` or `cudaStream_t` as a number.
    ///
    /// # Safety
    /// It is 0 or a stream of the device's primary context, and stays so for as long as batches are
    /// lent to it.
    pub unsafe fn from_raw(raw: usize) -> Self {
        ForeignStream(raw)
    }

    /// Work put on this stream from now on waits for what `event` recorded last.
    pub fn wait(self, event: &Event) -> Result<()> {
        wait(self.raw(), event)
    }

    /// Waits, on the host, for all work put there.
    pub fn synchronize(self) -> Result<()> {
        synchronize(self.raw())
    }

    fn raw(self) -> sys::CUstream {
        self.0 as sys::CUstream
    }
}

impl Stream {
    /// A new one. Needs the context.
    pub fn new(cuda: &Arc<Cuda>) -> Result<Self> {
        let raw = check(
            "cuStreamCreate",
            result::stream::create(result::stream::StreamKind::NonBlocking),
        )?;
        Ok(Stream { cuda: cuda.clone(), raw })
    }

    /// The handle, for libraries that put work on the stream.
    pub fn raw(&self) -> *mut c_void {
        self.raw.cast()
    }

    /// Work put on this stream from now on waits for what `event` recorded last.
    pub fn wait(&self, event: &Event) -> Result<()> {
        wait(self.raw, event)
    }

    /// `event` happens when the work put here so far is done.
    pub fn record(&self, event: &Event) -> Result<()> {
        record(self.raw, event)
    }

    /// Waits, on the host, for all work put here.
    pub fn synchronize(&self) -> Result<()> {
        synchronize(self.raw)
    }

    /// Copies `bytes` to the GPU's address `to`.
    ///
    /// # Safety
    /// `bytes` is pinned, and neither freed nor written before the copy is done; `to` has room on
    /// this device, and only work ordered with this stream uses it.
    pub unsafe fn upload(&self, to: u64, bytes: &[u8]) -> Result<()> {
        if bytes.is_empty() {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        check("cuMemcpyHtoDAsync", unsafe { result::memcpy_htod_async(to, bytes, self.raw) })
    }

    /// Copies `len` bytes from the GPU's address `from` to `to`.
    ///
    /// # Safety
    /// As [`Stream::upload`], the other way round; `to` is not read before the copy is done.
    pub unsafe fn download(&self, to: *mut u8, from: u64, len: usize) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        let status = unsafe { sys::cuMemcpyDtoHAsync_v2(to.cast(), from, len, self.raw) };
        check("cuMemcpyDtoHAsync", status.result())
    }

    /// Writes `word` over `len` bytes from `to` on, both multiples of four.
    ///
    /// # Safety
    /// `to` has that much room on this device, and only work ordered with this stream uses it.
    pub unsafe fn fill(&self, to: u64, word: u32, len: usize) -> Result<()> {
        if len == 0 {
            return Ok(());
        }
        // SAFETY: the caller's promise.
        let status = unsafe { sys::cuMemsetD32Async(to, word, len / 4, self.raw) };
        check("cuMemsetD32Async", status.result())
    }

    /// Starts `kernel` on `blocks` blocks of `threads`. `args` is copied before this returns.
    ///
    /// # Safety
    /// `A` is the structure that the kernel declares, every pointer in it is valid on this device
    /// until the launch has run, and only work ordered with this stream uses what it writes.
    pub unsafe fn launch<A: bytemuck::NoUninit>(
        &self,
        kernel: Kernel,
        args: &A,
        blocks: u32,
        threads: u32,
    ) -> Result<()> {
        if blocks == 0 {
            return Ok(());
        }
        let function = self.cuda.functions[kernel as usize];
        let mut params = [std::ptr::from_ref(args).cast_mut().cast::<c_void>()];
        // SAFETY: the function takes one parameter, which the driver only reads; the rest is the
        // caller's promise.
        let status = unsafe {
            result::launch_kernel(
                function,
                (blocks, 1, 1),
                (threads, 1, 1),
                0,
                self.raw,
                &mut params,
            )
        };
        check("cuLaunchKernel", status)
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        let _bound = self.cuda.bind();
        // SAFETY: made here and destroyed once; the driver finishes what is on it.
        let _ = unsafe { result::stream::destroy(self.raw) };
    }
}

/// A mark in a stream that others can wait for. It never measures time.
pub struct Event {
    cuda: Arc<Cuda>,
    raw: sys::CUevent,
}

// SAFETY: a handle of the driver, which is thread-safe.
unsafe impl Send for Event {}
// SAFETY: as above.
unsafe impl Sync for Event {}

impl Event {
    /// A new one, which counts as happened until it is recorded. Needs the context.
    pub fn new(cuda: &Arc<Cuda>) -> Result<Self> {
        // A host that waits sleeps: threads that decode have better use for the core.
        let flags =
            EventFlags::CU_EVENT_DISABLE_TIMING as u32 | EventFlags::CU_EVENT_BLOCKING_SYNC as u32;
        let mut raw = std::ptr::null_mut();
        // SAFETY: the pointer is valid for the call.
        check("cuEventCreate", unsafe { sys::cuEventCreate(&mut raw, flags) }.result())?;
        Ok(Event { cuda: cuda.clone(), raw })
    }

    /// It happens when the work put on a foreign stream so far is done.
    pub fn record_on(&self, stream: ForeignStream) -> Result<()> {
        record(stream.raw(), self)
    }

    /// Waits for it on the host.
    pub fn synchronize(&self) -> Result<()> {
        // SAFETY: the event lives as long as `self`.
        check("cuEventSynchronize", unsafe { result::event::synchronize(self.raw) })
    }
}

impl Drop for Event {
    fn drop(&mut self) {
        let _bound = self.cuda.bind();
        // SAFETY: made here and destroyed once; the driver keeps it while work waits for it.
        let _ = unsafe { result::event::destroy(self.raw) };
    }
}

fn synchronize(stream: sys::CUstream) -> Result<()> {
    // SAFETY: the stream lives, by its owner's promise.
    check("cuStreamSynchronize", unsafe { result::stream::synchronize(stream) })
}

fn wait(stream: sys::CUstream, event: &Event) -> Result<()> {
    let flags = sys::CUevent_wait_flags::CU_EVENT_WAIT_DEFAULT;
    // SAFETY: both live, the stream by its owner's promise.
    check("cuStreamWaitEvent", unsafe { result::stream::wait_event(stream, event.raw, flags) })
}

fn record(stream: sys::CUstream, event: &Event) -> Result<()> {
    // SAFETY: as above.
    check("cuEventRecord", unsafe { result::event::record(event.raw, stream) })
}
