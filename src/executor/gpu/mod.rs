//! Batches on a GPU: threads read and decode as they do for the CPU, into pinned memory; one thread
//! owns the driver and submits what is left: upload, nvJPEG and our own kernels for JPEGs, `resolve`, the
//! passes.

mod arena;
mod lay_out;
mod passes;
mod slot;
mod submit;
mod tables;
mod thread;

pub(super) use arena::{Arena, Piece};
pub(super) use slot::DeviceSlot;
pub(super) use thread::{DeviceThread, Submit};

use super::program::{OutputInfo, Program};
use super::ring::Lease;
use crate::decoder::gpu::Prepared;
use crate::decoder::{Frame, Limits, Rule};
use crate::device::cuda::{Cuda, Stream};
use crate::error::{Error, Result};
use crate::graph::spec::DecoderSpec;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tables::PlanTables;

/// What a place holds that nvJPEG has not written: no picture repeats these four bytes.
const UNWRITTEN: u32 = 0x1799_C35A;

/// How batches are made on a GPU.
pub struct Setup {
    /// The GPU.
    pub cuda: Arc<Cuda>,
    /// Whether batches come back to the host before they are handed over.
    pub to_host: bool,
    /// The pipeline's `[decoder]` table, which says what nvJPEG gets.
    pub decoder: DecoderSpec,
}

/// What the threads of a GPU pipeline share.
pub(super) struct Engine {
    cuda: Arc<Cuda>,
    /// Three queues, so that the upload of a batch, nvJPEG's work on it and the kernels of the one
    /// before run beside each other.
    upload: Stream,
    decoding: Stream,
    compute: Stream,
    plan: PlanTables,
    outputs: Vec<OutputInfo>,
    to_host: bool,
    limits: Limits,
    /// Which images nvJPEG gets, and what it is or why it gets none; set before the first batch.
    decoder: OnceLock<(Rule, String)>,
    counts: Counts,
    /// What nvJPEG said when it last failed.
    failure: Mutex<Option<String>>,
}

/// What the device thread counts.
#[derive(Debug, Default)]
struct Counts {
    own: AtomicU64,
    doubted: AtomicU64,
    hardware: AtomicU64,
    single: AtomicU64,
    retried: AtomicU64,
    grown: AtomicU64,
}

/// A snapshot of what the device thread has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GpuStats {
    /// Images that our own kernels got.
    pub own: u64,
    /// Those of them that left doubt and were decoded on the CPU.
    pub doubted: u64,
    /// Images that nvJPEG's hardware engine decoded.
    pub hardware: u64,
    /// Images that nvJPEG decoded one by one.
    pub single: u64,
    /// Images that nvJPEG failed at and that were decoded on the CPU.
    pub retried: u64,
    /// Times that memory was allocated because it was too small.
    pub grown: u64,
}

/// Where the pixels of a sample come from.
#[derive(Debug)]
pub(super) enum Source {
    /// Decoded on the CPU.
    Pixels(Piece),
    /// For nvJPEG.
    Encoded(Piece, Frame),
    /// For our own kernels: it goes up with the pixels.
    Own(Piece, Arc<Prepared>),
}

/// A slot's pinned memory while threads fill it.
pub(super) struct Stage {
    pub(super) pixels: Arena,
    pub(super) encoded: Arena,
}

impl Stage {
    /// Bytes that the samples take so far.
    pub(super) fn used(&self) -> usize {
        self.pixels.used().saturating_add(self.encoded.used())
    }
}

impl Engine {
    /// Opens streams and uploads the plan.
    fn new(setup: &Setup, program: &Program, limits: Limits) -> Result<Engine> {
        let cuda = &setup.cuda;
        let bound = cuda.bind()?;
        let (upload, decoding) = (Stream::new(cuda)?, Stream::new(cuda)?);
        let compute = Stream::new(cuda)?;
        let plan = PlanTables::upload(cuda, &upload, program.plan())?;
        drop(bound);
        Ok(Engine {
            cuda: cuda.clone(),
            upload,
            decoding,
            compute,
            plan,
            outputs: program.outputs().to_vec(),
            to_host: setup.to_host,
            limits,
            decoder: OnceLock::new(),
            counts: Counts::default(),
            failure: Mutex::new(None),
        })
    }

    /// The rule by which images are decoded.
    pub(super) fn rule(&self) -> &Rule {
        &self.decoder.get().expect("set when the engine was started").0
    }

    /// What decodes on the GPU, in words, or why nothing does.
    pub(super) fn nvjpeg(&self) -> &str {
        &self.decoder.get().expect("set when the engine was started").1
    }

    /// Whether batches come back to the host.
    pub(super) fn to_host(&self) -> bool {
        self.to_host
    }

    /// The GPU.
    pub(super) fn cuda(&self) -> &Arc<Cuda> {
        &self.cuda
    }

    /// What nvJPEG said when it last failed.
    pub(super) fn nvjpeg_failure(&self) -> Option<String> {
        self.failure.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn tell_failure(&self, error: &Error) {
        let mut failure = self.failure.lock().unwrap_or_else(PoisonError::into_inner);
        *failure = Some(error.message().to_string());
    }

    pub(super) fn stats(&self) -> GpuStats {
        let get = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        GpuStats {
            own: get(&self.counts.own),
            doubted: get(&self.counts.doubted),
            hardware: get(&self.counts.hardware),
            single: get(&self.counts.single),
            retried: get(&self.counts.retried),
            grown: get(&self.counts.grown),
        }
    }

    /// The slot's memory for a new batch, when the GPU is done with the last one.
    pub(super) fn stage(self: &Arc<Self>, lease: &mut Lease) -> Result<Stage> {
        let slot = match &mut lease.device {
            Some(slot) => slot,
            none => {
                let _bound = self.cuda.bind()?;
                none.insert(Box::new(DeviceSlot::new(self)?))
            }
        };
        let (pixels, encoded) = slot.come_round()?;
        Ok(Stage { pixels, encoded })
    }

    fn count(&self, counter: impl Fn(&Counts) -> &AtomicU64, by: u64) {
        counter(&self.counts).fetch_add(by, Ordering::Relaxed);
    }
}
