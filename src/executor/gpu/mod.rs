//! Batches on a GPU: threads read and decode as they do for the CPU, into pinned memory; one thread
//! owns the driver and submits what is left: upload, nvJPEG, `resolve`, the passes.
//!
//! The device thread never waits for the GPU while all goes well, except for nvJPEG's word on the
//! images of a batch, behind the next batch's upload.

mod arena;
mod lay_out;
mod slot;
mod submit;
mod tables;

pub(super) use arena::{Arena, Piece};
pub(super) use slot::DeviceSlot;

use super::job::{Job, caught};
use super::program::{OutputInfo, Program};
use super::ring::Lease;
use crate::decoder::nvjpeg::{Library, Nvjpeg};
use crate::decoder::{Frame, Limits, Reason, Rule};
use crate::device::cuda::{Cuda, Stream};
use crate::error::{Error, ErrorKind, Result};
use crate::graph::spec::{DecoderSpec, Placement};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread::JoinHandle;
use submit::{Flight, Submitter};
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
    hardware: AtomicU64,
    single: AtomicU64,
    retried: AtomicU64,
    grown: AtomicU64,
}

/// A snapshot of what the device thread has counted.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GpuStats {
    /// Images that nvJPEG's hardware engine decoded.
    pub hardware: u64,
    /// Images that nvJPEG decoded one by one.
    pub single: u64,
    /// Images that failed on the GPU and were decoded on the CPU.
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

/// The device thread, and the way to it.
pub(super) struct DeviceThread {
    engine: Arc<Engine>,
    sender: Sender<Message>,
    thread: Option<JoinHandle<()>>,
}

enum Message {
    Batch(Arc<Job>, Lease),
    /// Nothing to do but to finish what was begun.
    None,
    Stop,
}

/// Hands finished jobs to the device thread.
#[derive(Clone)]
pub(super) struct Submit {
    pub(super) engine: Arc<Engine>,
    sender: Sender<Message>,
}

impl Submit {
    /// Queues a batch whose samples are all there.
    pub(super) fn batch(&self, job: Arc<Job>, lease: Lease) {
        // The thread ends after the last job is done, since whoever stops it waits for those first.
        if let Err(unsent) = self.sender.send(Message::Batch(job, lease))
            && let Message::Batch(job, lease) = unsent.0
        {
            drop(lease);
            job.finish(Err(Error::new(ErrorKind::Device, "the device thread is gone")));
        }
    }
}

impl DeviceThread {
    /// Opens streams, uploads the plan, looks for nvJPEG where `mixed` says to, and starts the
    /// thread.
    pub(super) fn start(setup: &Setup, program: &Program, limits: Limits) -> Result<DeviceThread> {
        let cuda = &setup.cuda;
        let bound = cuda.bind()?;
        let (upload, decoding) = (Stream::new(cuda)?, Stream::new(cuda)?);
        let compute = Stream::new(cuda)?;
        let plan = PlanTables::upload(cuda, &upload, program.plan())?;
        drop(bound);
        let engine = Arc::new(Engine {
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
        });
        let (sender, receiver) = channel();
        let (answer, started) = channel();
        let thread = {
            let (engine, decoder) = (engine.clone(), setup.decoder.clone());
            let body = move || serve(engine, &receiver, &decoder, &answer);
            std::thread::Builder::new().name("forebay-cuda".into()).spawn(body)
        };
        let thread = thread.map_err(|e| {
            Error::new(ErrorKind::Io, format!("cannot start the device thread: {e}"))
        })?;
        let thread = DeviceThread { engine, sender, thread: Some(thread) };
        // A thread that ended without an answer has panicked.
        let gone = || Error::new(ErrorKind::Device, "the device thread ended at its start");
        started.recv().map_err(|_| gone())??;
        Ok(thread)
    }

    /// What the thread shares with others.
    pub(super) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What jobs need to reach the thread.
    pub(super) fn submit(&self) -> Submit {
        Submit { engine: self.engine.clone(), sender: self.sender.clone() }
    }
}

impl Drop for DeviceThread {
    /// Every job that was queued is done before the thread ends.
    fn drop(&mut self) {
        let _ = self.sender.send(Message::Stop);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

/// The thread's body.
fn serve(
    engine: Arc<Engine>,
    jobs: &Receiver<Message>,
    decoder: &DecoderSpec,
    started: &Sender<Result<()>>,
) {
    let bound = match engine.cuda.bind() {
        Ok(bound) => bound,
        Err(error) => return drop(started.send(Err(error))),
    };
    let (nvjpeg, gpu, words) = open_nvjpeg(decoder);
    let DecoderSpec { split, exact, .. } = *decoder;
    let rule = Rule { split, exact, gpu, limits: engine.limits };
    let _ = engine.decoder.set((rule, words));
    let _ = started.send(Ok(()));
    let mut submitter = Submitter::new(engine, nvjpeg);
    // The batch whose images nvJPEG is at, while the next one is uploaded.
    let mut flight: Option<Flight> = None;
    loop {
        let message = match &flight {
            None => jobs.recv().unwrap_or(Message::Stop),
            Some(_) => match jobs.try_recv() {
                Ok(message) => message,
                Err(TryRecvError::Disconnected) => Message::Stop,
                Err(TryRecvError::Empty) => Message::None,
            },
        };
        let (next, last) = match message {
            Message::Batch(job, lease) => (submitter.begin(job, lease), false),
            Message::None => (None, false),
            Message::Stop => (None, true),
        };
        if let Some(flight) = flight.take() {
            submitter.finish(flight);
        }
        match next {
            Some(next) if next.has_images() => flight = submitter.decode(next),
            Some(next) => submitter.finish(next),
            None if last => break,
            None => {}
        }
    }
    drop(submitter);
    drop(bound);
}

/// nvJPEG, made on the thread that will use it; whether images may go there; and what it is, or why
/// it is not there, in words.
fn open_nvjpeg(decoder: &DecoderSpec) -> (Option<Nvjpeg>, Result<(), Reason>, String) {
    let reason = match decoder {
        DecoderSpec { device: Placement::Cpu, .. } => Reason::Pipeline,
        DecoderSpec { exact: true, .. } => Reason::Exact,
        DecoderSpec { device: Placement::Mixed, .. } => {
            let started = Library::open().and_then(|library| {
                let mut nvjpeg = Nvjpeg::new(library);
                nvjpeg.start()?;
                Ok(nvjpeg)
            });
            return match started {
                Ok(mut nvjpeg) => {
                    let words = nvjpeg.description();
                    (Some(nvjpeg), Ok(()), words)
                }
                Err(error) => (None, Err(Reason::NoNvjpeg), error.to_string()),
            };
        }
    };
    (None, Err(reason), reason.to_string())
}

/// Runs a step of the device thread; a panic in it becomes an error.
fn guarded<R>(step: impl FnOnce() -> Result<R>) -> Result<R> {
    caught(step).and_then(|result| result)
}
