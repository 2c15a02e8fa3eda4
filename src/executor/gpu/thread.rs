//! The device thread: it alone puts a pipeline's work on the GPU.
//!
//! It never waits for the GPU while all goes well, except for the word on a batch's images that are decoded
//! there, behind the next batch's upload.

use super::submit::{Flight, Submitter};
use super::{Engine, Setup};
use crate::decoder::nvjpeg::{Library, Nvjpeg};
use crate::decoder::{Limits, Reason, Rule};
use crate::error::{Error, ErrorKind, Result};
use crate::executor::job::{Job, caught};
use crate::executor::program::Program;
use crate::executor::ring::Lease;
use crate::graph::spec::{DecoderSpec, Placement};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use std::thread::JoinHandle;

/// The device thread, and the way to it.
pub(in crate::executor) struct DeviceThread {
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
pub(in crate::executor) struct Submit {
    pub(in crate::executor) engine: Arc<Engine>,
    sender: Sender<Message>,
}

impl Submit {
    /// Queues a batch whose samples are all there.
    pub(in crate::executor) fn batch(&self, job: Arc<Job>, lease: Lease) {
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
    pub(in crate::executor) fn start(
        setup: &Setup,
        program: &Program,
        limits: Limits,
    ) -> Result<DeviceThread> {
        let engine = Arc::new(Engine::new(setup, program, limits)?);
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
    pub(in crate::executor) fn engine(&self) -> &Engine {
        &self.engine
    }

    /// What jobs need to reach the thread.
    pub(in crate::executor) fn submit(&self) -> Submit {
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
    let (split, exact, own) = (decoder.least(), decoder.is_exact(), decoder.own_on_gpu());
    let rule = Rule { split, exact, own, gpu, limits: engine.limits };
    let _ = engine.decoder.set((rule, words));
    let _ = started.send(Ok(()));
    let mut submitter = Submitter::new(engine, nvjpeg);
    // The batch whose images are being decoded, while the next one is uploaded.
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
        _ if decoder.is_exact() => Reason::Exact,
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
pub(super) fn guarded<R>(step: impl FnOnce() -> Result<R>) -> Result<R> {
    caught(step).and_then(|result| result)
}
