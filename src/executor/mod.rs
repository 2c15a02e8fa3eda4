//! Runs a compiled [`program`] over the samples of a reader, batch by batch, on threads of its
//! own. The one place where readers, decoders and programs meet.
//!
//! `README.md` beside this file says who owns a slot when.

mod ahead;
mod batch;
mod cache;
mod fill;
mod gpu;
mod job;
mod ledger;
mod memory;
mod near;
mod pool;
pub mod program;
mod ring;
mod window;
mod worker;

pub use batch::{Batch, DeviceTensor};
pub use cache::{Cache, CacheStats};
pub use gpu::{GpuStats, Setup};
pub use pool::Threads;

use crate::decoder::{Lane, Limits, Reason};
use crate::device::cpu::Cpu;
use crate::device::cuda::Cuda;
use crate::error::{Error, ErrorKind, Result};
use crate::policy::OnError;
use crate::reader::Reader;
use crate::reader::sampler::Place;
use crate::rng;
use crate::stats::{BadSamples, Counters, Stats};
use ahead::Ahead;
use gpu::{DeviceThread, Submit};
use job::{Job, Order};
use ledger::Ledger;
use pool::Pool;
use program::Program;
use ring::{Lease, Ring, Size};
use std::collections::VecDeque;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Instant;
use worker::Worker;

/// A program bound to a reader and to threads.
pub struct Executor {
    // Dropped first: it holds on to batches.
    ahead: Option<Ahead>,
    // Dropped next: its threads use the rest, and queue what the next thread does.
    pool: Pool,
    device: Option<DeviceThread>,
    shared: Arc<Shared>,
    ring: Arc<Ring>,
}

/// What the threads of an executor share.
struct Shared {
    program: Program,
    reader: Arc<dyn Reader>,
    decoding: Decoding,
    on_error: OnError,
    candidates: Candidates,
    ledger: Mutex<Ledger>,
    /// Samples that need no reading any more.
    cache: Option<Cache>,
    /// The most bytes that the outputs of one batch may take.
    memory: usize,
    /// One a thread, which alone locks it; on a GPU the last is the device thread's.
    workers: Box<[OwnLines<Mutex<Worker>>]>,
    /// One a thread, so that no two write the same cache line.
    counters: Box<[OwnLines<Tally>]>,
    /// What the consumer counts.
    consumer: Counters,
    /// The way to the GPU, where there is one.
    submit: Option<Submit>,
}

/// How the threads decode.
#[derive(Clone, Copy)]
pub struct Decoding {
    /// Larger images are refused.
    pub limits: Limits,
    /// Of our own JPEG decoder; `None` leaves all JPEGs to libjpeg-turbo.
    pub own: Option<Cpu>,
}

/// What becomes of samples that cannot be made.
pub struct Faults {
    /// The choice for each.
    pub on_error: OnError,
    /// The most different ones.
    pub most: u64,
    /// The samples from which stand-ins are drawn.
    pub candidates: Candidates,
}

/// Samples from which others are drawn.
pub struct Candidates {
    /// How many.
    pub count: u64,
    /// Their numbers, where those are not 0 to `count`.
    pub ids: Option<Arc<[u64]>>,
}

impl Candidates {
    /// The stand-in for sample `id` after so many that would not do.
    fn pick(&self, seed: u64, epoch: u32, id: u64, tries: u32) -> u64 {
        let index = rng::stand_in(seed, epoch, id, tries, self.count);
        self.ids.as_ref().map_or(index, |ids| ids[index as usize])
    }
}

/// What a thread counts.
#[derive(Default)]
struct Tally {
    stages: Counters,
    /// Images decoded on the CPU, by [`Reason`].
    reasons: [AtomicU64; Reason::COUNT],
    /// The same, by [`Lane`].
    lanes: [AtomicU64; Lane::ALL.len()],
    /// Samples found in the cache.
    hits: AtomicU64,
    /// Samples read since they were not.
    misses: AtomicU64,
}

/// Cache lines of its own (two, since processors fetch them in pairs).
#[derive(Default)]
#[repr(align(128))]
struct OwnLines<T>(T);

impl Executor {
    /// Starts `threads` that run `program` over the samples of `reader`.
    /// `held` is the number of batches that exist at once when all goes as planned; more are made
    /// when they are asked for, and counted in [`Stats::grown_slots`]. `setup` names the GPU that
    /// runs the program; without one the threads do. What was read or decoded stays in `cache`.
    pub fn new(
        program: Program,
        reader: Arc<dyn Reader>,
        (decoding, faults): (Decoding, Faults),
        threads: Threads,
        held: usize,
        setup: Option<&Setup>,
        cache: Option<Cache>,
    ) -> Result<Self> {
        let ahead =
            (threads.ahead > 0 && reader.warm().is_some()).then(|| Ahead::new(threads.ahead));
        let ahead = ahead.transpose()?;
        let pool = Pool::new(threads)?;
        let ring = Ring::new(program.outputs(), held);
        let threads = 0..pool.threads() + usize::from(setup.is_some());
        let start = |setup| DeviceThread::start(setup, &program, decoding.limits);
        let device = setup.map(start).transpose()?;
        let gpu_memory = setup.map_or(usize::MAX, |s| s.cuda.gpu().memory as usize);
        let shared = Arc::new(Shared {
            program,
            reader,
            decoding,
            on_error: faults.on_error,
            ledger: Mutex::new(Ledger::new(faults.most)),
            candidates: faults.candidates,
            cache,
            memory: memory::whole().min(gpu_memory) / held.max(1),
            workers: threads
                .clone()
                .map(|thread| OwnLines(Mutex::new(Worker::new(thread))))
                .collect(),
            counters: threads.map(|_| OwnLines::default()).collect(),
            consumer: Counters::default(),
            submit: device.as_ref().map(DeviceThread::submit),
        });
        Ok(Executor { ahead, pool, device, shared, ring })
    }

    /// Starts the batch of `places`, at least one. Returns at once.
    pub fn start(&self, seed: u64, epoch: u32, places: Vec<Place>) -> Pending {
        // More tasks than samples would find nothing to do.
        let tasks = self.pool.threads().min(places.len());
        let samples = places.len();
        let lease = self.ring.take();
        let on_error = self.shared.on_error;
        let order = Order { seed, epoch, places, on_error, known: Vec::new() };
        let job = Arc::new(Job::new(self.shared.clone(), order, lease));
        for _ in 0..tasks {
            let job = job.clone();
            self.pool.spawn(move |thread| job.work(thread));
        }
        if let Some(ahead) = &self.ahead {
            ahead.offer(&job, samples);
        }
        Pending(job)
    }

    /// Counts that the consumer asks for the first of `under_way`, and how many of those are finished.
    pub fn asked(&self, under_way: &VecDeque<Pending>) {
        // An epoch's first request finds nothing begun, which says nothing of the threads.
        if under_way.is_empty() {
            return;
        }
        let ready = under_way.iter().filter(|pending| pending.0.is_ready()).count();
        let consumer = &self.shared.consumer;
        consumer.requests.fetch_add(1, Relaxed);
        consumer.under_way.fetch_add(under_way.len() as u64, Relaxed);
        consumer.ready.fetch_add(ready as u64, Relaxed);
    }

    /// Worker threads.
    pub fn threads(&self) -> usize {
        self.pool.threads()
    }

    /// The program that runs.
    pub fn program(&self) -> &Program {
        &self.shared.program
    }

    /// Where the samples come from.
    pub fn reader(&self) -> &dyn Reader {
        &*self.shared.reader
    }

    /// Busy time of each stage and other counts so far.
    pub fn stats(&self) -> Stats {
        let mut stats = self.shared.consumer.snapshot();
        stats.grown_slots = self.ring.grown();
        self.shared.counters.iter().for_each(|c| stats += c.0.stages.snapshot());
        stats
    }

    /// Samples of delivered batches that could not be made as they are.
    pub fn bad_samples(&self) -> BadSamples {
        self.shared.ledger().counts()
    }

    /// Writes each such sample to the end of the file `path`, a JSON object a line, with `root` before
    /// the names of files.
    pub fn log_bad_samples(&self, path: &Path, root: &Path) -> Result<()> {
        self.shared.ledger().log_to(path, root)
    }

    /// Why that log has ended, where it could not be written any more.
    pub fn bad_samples_log_failure(&self) -> Option<Error> {
        self.shared.ledger().log_failure().cloned()
    }

    /// The GPU that runs the program.
    pub fn gpu(&self) -> Option<&Cuda> {
        self.device.as_ref().map(|device| &**device.engine().cuda())
    }

    /// What happened on the GPU so far.
    pub fn gpu_stats(&self) -> Option<GpuStats> {
        self.device.as_ref().map(|device| device.engine().stats())
    }

    /// What decodes on the GPU, in words, or why nothing does.
    pub fn nvjpeg(&self) -> Option<&str> {
        self.device.as_ref().map(|device| device.engine().nvjpeg())
    }

    /// What nvJPEG said when it last failed at an image.
    pub fn nvjpeg_failure(&self) -> Option<String> {
        self.device.as_ref().and_then(|device| device.engine().nvjpeg_failure())
    }

    /// Images that were decoded on the CPU so far, by reason; those that occurred.
    pub fn cpu_decoded(&self) -> Vec<(Reason, u64)> {
        let count = |reason: Reason| self.sum(|tally| &tally.reasons[reason as usize]);
        let counts = Reason::ALL.iter().map(|&reason| (reason, count(reason)));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// Images that were decoded on the CPU so far, by who did; those that occurred.
    pub fn cpu_decoders(&self) -> Vec<(Lane, u64)> {
        let count = |lane: Lane| self.sum(|tally| &tally.lanes[lane.index()]);
        let counts = Lane::ALL.iter().map(|&lane| (lane, count(lane)));
        counts.filter(|(_, count)| *count > 0).collect()
    }

    /// What the cache holds and has done, where there is one.
    pub fn cache_stats(&self) -> Option<CacheStats> {
        let cache = self.shared.cache.as_ref()?;
        Some(cache.stats(self.sum(|tally| &tally.hits), self.sum(|tally| &tally.misses)))
    }

    /// What all threads have counted together.
    fn sum(&self, count: impl Fn(&Tally) -> &AtomicU64) -> u64 {
        self.shared.counters.iter().map(|tally| count(&tally.0).load(Relaxed)).sum()
    }
}

/// A batch that was started. Dropping it gives up what no thread has begun, without waiting: each
/// thread finishes at most the sample it is at.
pub struct Pending(Arc<Job>);

impl Pending {
    /// Waits for the batch. The error of the first sample that failed, in the order of the batch, or
    /// that of the one that is one too many.
    pub fn wait(self) -> Result<Batch> {
        let start = Instant::now();
        let outcome = self.arrived();
        let waited = start.elapsed().as_nanos() as u64;
        let (shared, epoch) = (self.0.shared(), self.0.epoch());
        shared.consumer.wait_ns.fetch_add(waited, Relaxed);
        let mut ledger = shared.ledger();
        let mut lease = outcome.inspect_err(|error| ledger.failed(shared, epoch, error))?;
        ledger.take(shared, epoch, std::mem::take(&mut lease.incidents))?;
        Ok(Batch::new(lease))
    }

    fn arrived(&self) -> Result<Lease> {
        let mut lease = self.0.wait()?;
        // A batch that comes back to the host has arrived when the GPU is done with it.
        if let (Some(submit), Some(device)) = (&self.0.shared().submit, &mut lease.device)
            && submit.engine.to_host()
        {
            let _bound = submit.engine.cuda().bind()?;
            device.landed()?;
        }
        Ok(lease)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        self.0.abandon();
    }
}

impl Shared {
    /// The device thread's own worker.
    fn device_thread(&self) -> usize {
        self.workers.len() - 1
    }

    /// The book of bad samples; only consumers take this lock.
    fn ledger(&self) -> MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Refuses a sample whose outputs, times `samples`, are more than a batch may take, before
    /// anything is allocated for it.
    fn check_memory(&self, samples: usize, size: impl Fn(usize) -> Size) -> Result<()> {
        let mut total = 0_usize;
        for (output, info) in self.program.outputs().iter().enumerate() {
            let size = size(output);
            let bytes = size.bytes(samples, info.dtype.size());
            total = match bytes.and_then(|bytes| total.checked_add(bytes)) {
                Some(total) if total <= self.memory => total,
                _ => {
                    let message = format!(
                        "a batch of {samples} images of {}x{} (width x height) at output \"{}\" \
                         takes more than {} MiB, so that the batches in flight would not fit into \
                         memory: lower the batch size or prefetch, or add a step \
                         that makes the images smaller",
                        size.width,
                        size.height,
                        info.name,
                        self.memory >> 20
                    );
                    return Err(Error::new(ErrorKind::Limit, message));
                }
            };
        }
        Ok(())
    }

    /// Refuses a batch whose decoded images, on their way to a GPU, are more than it may take.
    fn check_staging(&self, stage: &gpu::Stage) -> Result<()> {
        if stage.used() <= self.memory {
            return Ok(());
        }
        let text = format!(
            "the decoded images of a batch take more than {} MiB on their way to the GPU, so that \
             the batches in flight would not fit into memory: lower the batch size or prefetch",
            self.memory >> 20
        );
        Err(Error::new(ErrorKind::Limit, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::graph::spec::{Output, Spec};
    use crate::reader::Content;

    struct Gray;

    impl Reader for Gray {
        fn len(&self) -> u64 {
            u64::MAX
        }

        fn label(&self, id: u64) -> i64 {
            id as i64
        }

        fn classes(&self) -> &[String] {
            &[]
        }

        fn place(&self, _id: u64) -> std::path::PathBuf {
            "gray".into()
        }

        fn read(&self, id: u64, buf: &mut Vec<u8>) -> Result<Content> {
            // Sizes that change from batch to batch.
            let side = 1 + id as u32 / 16 % 8;
            buf.clear();
            buf.resize((side * side * 3) as usize, id as u8);
            Ok(Content::Planar { height: side, width: side })
        }
    }

    fn executor(threads: usize, held: usize) -> Executor {
        let output = Output { name: "images".into(), from: None, layout: None, dtype: None };
        let spec = Spec {
            seed: 0,
            reader: Default::default(),
            decoder: Default::default(),
            draws: vec![],
            steps: vec![],
            outputs: vec![output],
        };
        let program = Program::new(&spec).unwrap();
        let candidates = Candidates { count: u64::MAX, ids: None };
        let faults = Faults { on_error: OnError::Fail, most: 0, candidates };
        let bounds = (Decoding { limits: Limits::default(), own: None }, faults);
        let threads = Threads { count: threads, pinned: false, ahead: 0 };
        Executor::new(program, Arc::new(Gray), bounds, threads, held, None, None).unwrap()
    }

    fn places(batch: u64) -> Vec<Place> {
        (batch * 16..batch * 16 + 16).map(|id| Place { id, valid: true }).collect()
    }

    /// Slots and their bytes are the same after the first round as after many.
    #[test]
    fn slots_are_recycled() {
        let executor = executor(3, 4);
        let mut after = Vec::new();
        for round in 0..20 {
            let pending: Vec<_> = (0..4).map(|b| executor.start(0, round, places(b * 2))).collect();
            // Every slot sees the largest batch in the first round.
            let batches: Vec<_> = pending.into_iter().map(|p| p.wait().unwrap()).collect();
            drop(batches);
            if round == 0 {
                let four: Vec<_> = (0..4).map(|_| executor.start(0, 0, places(7))).collect();
                four.into_iter().for_each(|p| drop(p.wait().unwrap()));
            }
            after.push(executor.ring.idle());
        }
        assert_eq!(after[0], (4, 4 * 16 * 8 * 8 * 3));
        assert!(after.iter().all(|a| *a == after[0]), "{after:?}");
        assert_eq!(executor.stats().grown_slots, 0);
    }

    /// Batches that are started and given up leave no slot behind, and none is made beyond those
    /// that a thread may be holding for the sample it is at.
    #[test]
    fn abandoned_slots_come_back() {
        let executor = executor(2, 4);
        for round in 0..500 {
            drop((0..4).map(|b| executor.start(0, round, places(b))).collect::<Vec<_>>());
        }
        let (grown, ring) = (executor.stats().grown_slots as usize, executor.ring.clone());
        assert!(grown <= 2, "{grown}");
        drop(executor);
        assert_eq!(ring.idle().0, 4 + grown);
    }

    #[test]
    fn what_lies_ready_is_counted() {
        let executor = executor(2, 4);
        let mut under_way = VecDeque::new();
        executor.asked(&under_way);
        assert_eq!(executor.stats().requests, 0);
        under_way.extend((0..2).map(|b| executor.start(0, 0, places(b))));
        while !under_way.iter().all(|pending| pending.0.is_ready()) {
            std::thread::yield_now();
        }
        executor.asked(&under_way);
        let Stats { requests, under_way, ready, .. } = executor.stats();
        assert_eq!((requests, under_way, ready), (1, 2, 2));
    }
}
