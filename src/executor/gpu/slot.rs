//! A slot's memory on the GPU, what of it the host shares, and the events that say who is done.
#![allow(unsafe_code)]

use super::arena::Arena;
use super::{Engine, UNWRITTEN};
use crate::device::cuda::{DeviceMemory, Event, ForeignStream, PinnedMemory};
use crate::error::{Error, ErrorKind, Result};
use std::sync::{Arc, Mutex, PoisonError};

/// What a slot owns where a pipeline runs on a GPU.
///
/// Four orders keep its uses apart. `ready` of the slot's last batch has happened, on the host's
/// word, before anything of the slot but what the consumer reads is written again ([`DeviceSlot::come_round`]); the
/// kernels wait for `uploaded`; the consumer's stream waits for `ready`; and what writes `outputs` and
/// `labels` waits for `released`, which the consumer's stream records when the batch is dropped.
pub(in crate::executor) struct DeviceSlot {
    pub(super) engine: Arc<Engine>,
    /// Decoded pixels, and files for our own kernels, on their way up.
    pub(super) staging: PinnedMemory,
    /// Encoded bytes for nvJPEG.
    pub(super) encoded: PinnedMemory,
    /// Ids, labels and addresses; `layout` says where.
    pub(super) tables: PinnedMemory,
    /// Pixels of images that failed on the GPU.
    pub(super) retried: PinnedMemory,
    /// Status words that come down: first of who decodes, then those of `resolve`.
    pub(super) words: PinnedMemory,
    /// What `staging` and `tables` are on the GPU.
    pub(super) pixels: DeviceMemory,
    pub(super) device_tables: DeviceMemory,
    /// What is decoded there, and the same turned upright where it has to be.
    pub(super) decoded: DeviceMemory,
    pub(super) upright: DeviceMemory,
    /// Resolved programs, status words, images between passes, what our own kernels write between them.
    pub(super) work: DeviceMemory,
    pub(super) outputs: Vec<DeviceMemory>,
    pub(super) labels: DeviceMemory,
    /// The outputs on the host, where batches are delivered there.
    pub(super) host_outputs: Vec<PinnedMemory>,
    pub(super) uploaded: Event,
    pub(super) settled: Event,
    pub(super) ready: Event,
    pub(super) released: Event,
    /// Samples whose status words come down with `ready`; `None` before the first batch.
    pub(super) flying: Option<usize>,
    /// Whether `decoded` holds the pattern wherever images may be written.
    pub(super) blank: bool,
    /// The stream that the current batch was lent to.
    lent: Mutex<Option<ForeignStream>>,
    /// Whether `released` was recorded for a batch whose outputs may still be read.
    pub(super) in_use: bool,
}

impl DeviceSlot {
    /// A slot that owns no memory yet. Needs the context.
    pub(super) fn new(engine: &Arc<Engine>) -> Result<Self> {
        let cuda = &engine.cuda;
        let pinned = || PinnedMemory::new(cuda);
        let device = || DeviceMemory::new(cuda);
        Ok(DeviceSlot {
            staging: pinned(),
            encoded: pinned(),
            tables: pinned(),
            retried: pinned(),
            words: pinned(),
            pixels: device(),
            device_tables: device(),
            decoded: device(),
            upright: device(),
            work: device(),
            outputs: (0..engine.outputs.len()).map(|_| device()).collect(),
            labels: device(),
            host_outputs: (0..engine.outputs.len()).map(|_| pinned()).collect(),
            uploaded: Event::new(cuda)?,
            settled: Event::new(cuda)?,
            ready: Event::new(cuda)?,
            released: Event::new(cuda)?,
            flying: None,
            blank: true,
            lent: Mutex::new(None),
            in_use: false,
            engine: engine.clone(),
        })
    }

    /// Waits until the GPU is done with the slot's last batch, so that its memory may be written
    /// again: the host's by threads, `decoded` by nvJPEG, whose engine may start before what was
    /// put on its stream before (pytorch/vision#9606).
    ///
    /// This is the one place where the host waits for the GPU while all goes well, and there the
    /// batch has long been consumed.
    pub(super) fn come_round(&mut self) -> Result<(Arena, Arena)> {
        let _bound = self.engine.cuda.bind()?;
        self.landed()?;
        Ok((Arena::new(&self.staging), Arena::new(&self.encoded)))
    }

    /// Waits for the batch and looks at its status words.
    pub(in crate::executor) fn landed(&mut self) -> Result<()> {
        let Some(samples) = self.flying else { return Ok(()) };
        self.ready.synchronize()?;
        self.flying = None;
        let words = &self.words.bytes(samples * 8)[samples * 4..];
        match bytemuck::cast_slice::<u8, u32>(words).iter().find(|word| **word != 0) {
            None => Ok(()),
            // The host found the sizes of every sample before the launch, and no fault in them.
            Some(word) => Err(Error::new(
                ErrorKind::Device,
                format!(
                    "{} gave status {word:#x} for a sample that is right on the CPU: internal \
                     error, please report it",
                    self.engine.cuda
                ),
            )),
        }
    }

    /// Makes `stream` wait for the batch; from now on it is what reads the outputs.
    pub(in crate::executor) fn lend(&self, stream: ForeignStream) -> Result<()> {
        let _bound = self.engine.cuda.bind()?;
        let mut lent = self.lent.lock().unwrap_or_else(PoisonError::into_inner);
        if lent.is_some_and(|other| other != stream) {
            let text = "the batch is lent to another stream already; drop it first, or have the \
                        other stream wait for that one";
            return Err(Error::new(ErrorKind::Device, text));
        }
        stream.wait(&self.ready)?;
        *lent = Some(stream);
        Ok(())
    }

    /// The batch was dropped: what its consumer has put on its stream so far still reads it.
    pub(in crate::executor) fn give_back(&mut self) -> Result<()> {
        let lent = self.lent.get_mut().unwrap_or_else(PoisonError::into_inner);
        let Some(stream) = lent.take() else { return Ok(()) };
        let cuda = &self.engine.cuda;
        let recorded = cuda.bind().and_then(|_bound| self.released.record_on(stream));
        match recorded {
            Ok(()) => self.in_use = true,
            // Then the host waits for the stream instead.
            Err(_) => {
                let _bound = cuda.bind()?;
                stream.synchronize()?;
            }
        }
        Ok(())
    }

    /// Waits, on the host, until no consumer reads what the last batch left: before such memory
    /// grows, which frees it.
    pub(super) fn take_back(&mut self) -> Result<()> {
        if self.in_use {
            self.released.synchronize()?;
            self.in_use = false;
        }
        Ok(())
    }

    /// Address on the GPU of an output of the current batch.
    pub(in crate::executor) fn output(&self, output: usize) -> u64 {
        self.outputs[output].address()
    }

    /// Address on the GPU of the labels of the current batch.
    pub(in crate::executor) fn labels(&self) -> u64 {
        self.labels.address()
    }

    /// N of `cuda:N`.
    pub(in crate::executor) fn ordinal(&self) -> u32 {
        self.engine.cuda.gpu().ordinal
    }

    /// An output of the current batch on the host, where it was delivered there.
    pub(in crate::executor) fn host_output(&self, output: usize, len: usize) -> Option<&[u8]> {
        self.engine.to_host.then(|| self.host_outputs[output].bytes(len))
    }

    /// Fills `decoded` with the pattern, all of it, and waits for that: after it has grown, and
    /// after a batch that did not end well.
    pub(super) fn make_blank(&mut self) -> Result<()> {
        let compute = &self.engine.compute;
        // SAFETY: the memory is the slot's own, and nothing that uses it is under way.
        unsafe { compute.fill(self.decoded.address(), UNWRITTEN, self.decoded.capacity()) }?;
        compute.synchronize()?;
        self.blank = true;
        Ok(())
    }
}

impl Drop for DeviceSlot {
    /// Memory is not given back before the last work on it is done. A wait that fails is tried once
    /// more in another way; where that fails, too, the context is lost, and the work with it.
    fn drop(&mut self) {
        let _bound = self.engine.cuda.bind();
        if self.landed().is_err() {
            let _ = self.engine.compute.synchronize();
        }
        if self.take_back().is_err() {
            let _ = self.released.synchronize();
        }
    }
}
