//! The public iterator: a [`Loader`] opens a pipeline over a data directory and hands out
//! [`Batch`]es, epoch by epoch.

mod identity;
mod source;

use crate::decoder::{Lane, Limits, Reason};
use crate::device::Choice;
use crate::device::cpu::Cpu;
use crate::device::cuda::{Cuda, Driver};
use crate::error::{Error, ErrorKind, Result};
use crate::executor::program::{OutputInfo, Program};
use crate::executor::{Cache, Candidates, Decoding, Executor, Faults, Pending, Setup, Threads};
use crate::graph::spec::{Backend, DecodeScale, Spec};
use crate::policy::{self, LastBatch, MaxBad, OnError};
use crate::reader::Reader;
use crate::reader::sampler::{Place, Sampler, SamplerConfig};
use crate::stats::BadSamples;
use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::Arc;

pub use crate::device::cuda::ForeignStream;
pub use crate::executor::{Batch, CacheStats, DeviceTensor, GpuStats};
pub use identity::Identity;
pub use source::{kind_in, open_reader};

/// How to run a pipeline; none of it changes a sample's bytes, except `seed`.
#[derive(Debug, Clone)]
pub struct Options {
    /// Samples a batch of this rank.
    pub batch_size: usize,
    /// Worker threads; 0: one a core.
    pub threads: usize,
    /// Keeps each of them on a core, in turn, in place of letting the system move it.
    pub pin_threads: bool,
    /// Further threads, that read files of the batches to come where the system has them not in memory;
    /// elsewhere they rest. 0: none.
    pub read_ahead: usize,
    /// Batches made ahead of the consumer.
    pub prefetch: usize,
    /// This process's place among `world`.
    pub rank: u32,
    /// Number of processes that share an epoch.
    pub world: u32,
    /// Overrides the pipeline's seed.
    pub seed: Option<u64>,
    /// Overrides the pipeline's shuffle.
    pub shuffle: Option<bool>,
    /// Overrides the pipeline's last batch.
    pub last_batch: Option<LastBatch>,
    /// Overrides what the pipeline does with samples that cannot be read or decoded.
    pub on_error: Option<OnError>,
    /// Overrides how many of those the pipeline bears.
    pub max_bad: Option<MaxBad>,
    /// Overrides what the pipeline keeps in memory from epoch to epoch.
    pub cache: Option<policy::Cache>,
    /// The most bytes that this may take; without it [`Loader::CACHE_SHARE`] says how many.
    pub cache_budget: Option<u64>,
    /// Only the first so many samples of the list.
    pub limit: Option<u64>,
    /// Only these samples, in this order, unshuffled, each once; the last batch may be short.
    pub ids: Option<Vec<u64>>,
    /// Lets symbolic links lead out of the data directory.
    pub follow_links: bool,
    /// What one sample may cost; one that costs more is an error before it does.
    pub limits: Limits,
    /// Where the pipeline runs. From decoded pixels on, every device gives the same bytes.
    pub device: Choice,
    /// Where batches are handed over.
    pub deliver: Deliver,
}

/// Where batches are handed over.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Deliver {
    /// In host memory: a GPU's batches are copied back. [`Batch::images`] works everywhere.
    #[default]
    Host,
    /// In the memory of the device that makes them: [`Batch::lend`] on a GPU.
    Device,
}

impl Default for Options {
    /// Batches of 32 on every core, four ahead, of the whole list, as the pipeline says.
    fn default() -> Self {
        Options {
            batch_size: 32,
            threads: 0,
            pin_threads: false,
            read_ahead: 16,
            prefetch: 4,
            rank: 0,
            world: 1,
            seed: None,
            shuffle: None,
            last_batch: None,
            on_error: None,
            max_bad: None,
            cache: None,
            cache_budget: None,
            limit: None,
            ids: None,
            follow_links: false,
            limits: Limits::default(),
            device: Choice::Auto,
            deliver: Deliver::Host,
        }
    }
}

/// Where an iteration stands: what [`Loader::resume`] takes to go on from there.
///
/// It counts for all ranks together, so that others, in other batches, can go on with it. Rank 0's is
/// that of all: where the last global batch leaves nothing to some, those are a step further.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize,
)]
pub struct Position {
    /// The epoch.
    pub epoch: u32,
    /// Positions of its order that are done with: those of whole global batches.
    pub samples: u64,
}

/// A pipeline opened over a data directory.
pub struct Loader {
    executor: Executor,
    sampler: Sampler,
    /// The samples that the sampler's numbers stand for, where that is not themselves.
    ids: Option<Arc<[u64]>>,
    samples: u64,
    /// Samples in the list after `limit`.
    listed: u64,
    seed: u64,
    /// [`Identity::pipeline`].
    pipeline: u64,
    prefetch: usize,
    position: Position,
    device_note: Option<String>,
    /// The data directory; empty where the reader is the caller's own.
    root: PathBuf,
}

impl Loader {
    /// The part of the memory that is free when a loader is opened, for itself and the other shards of
    /// its epochs together, that its cache takes where no budget is given: 1 / 4, so that a loader of
    /// training samples, one of validation samples and what trains on them have room.
    pub const CACHE_SHARE: u64 = 4;

    /// Opens the reader that `spec` names under `data` and compiles the plan.
    pub fn open(spec: &Spec, data: &Path, options: &Options) -> Result<Loader> {
        let max_bytes = options.limits.bytes;
        let reader = open_reader(&spec.reader.kind, data, options.follow_links, max_bytes)?;
        let loader = Self::with_reader(spec, reader, options)?;
        Ok(Loader { root: data.to_path_buf(), ..loader })
    }

    /// The same over a reader of the caller's own, whatever `spec.reader.kind` says.
    pub fn with_reader(spec: &Spec, reader: Arc<dyn Reader>, options: &Options) -> Result<Loader> {
        let listed = options.limit.map_or(reader.len(), |limit| limit.min(reader.len()));
        let samples = options.ids.as_ref().map_or(listed, |ids| ids.len() as u64);
        if let Some(id) = options.ids.iter().flatten().find(|id| **id >= listed) {
            let message = format!("no sample {id}: the list has {listed}, numbered from 0");
            return Err(Error::new(ErrorKind::Data, message));
        }
        let seed = options.seed.unwrap_or(spec.seed);
        let replay = options.ids.is_some();
        let shuffle = !replay && options.shuffle.unwrap_or(spec.reader.shuffle);
        let last_batch = match replay {
            true => LastBatch::Partial,
            false => options.last_batch.unwrap_or(spec.reader.last_batch),
        };
        let sampler = Sampler::new(SamplerConfig {
            samples,
            batch_size: options.batch_size,
            rank: options.rank,
            world: options.world,
            shuffle,
            last_batch,
            seed,
        })?;
        let program = Program::new(spec)?;
        // Those ahead, the one being handed over, and the one before it if it is still held.
        let held = options.prefetch.saturating_add(2);
        let (cuda, device_note) = options.device.open()?;
        let no_nvjpeg = || no_nvjpeg(spec, options.device);
        let device_note = device_note.or_else(|| cuda.is_none().then(no_nvjpeg).flatten());
        let setup = cuda.map(|cuda| Setup {
            cuda,
            to_host: options.deliver == Deliver::Host,
            decoder: spec.decoder.clone(),
        });
        let ids: Option<Arc<[u64]>> = options.ids.as_deref().map(Arc::from);
        let faults = Faults {
            on_error: options.on_error.unwrap_or(spec.reader.on_error),
            most: options.max_bad.unwrap_or(spec.reader.max_bad).of(samples),
            candidates: Candidates { count: samples, ids: ids.clone() },
        };
        let own = Cpu::best().filter(|_| spec.decoder.backend != Backend::Turbo);
        let bounds = (Decoding { limits: options.limits, own }, faults);
        let threads = Threads {
            count: options.threads,
            pinned: options.pin_threads,
            ahead: options.read_ahead,
        };
        let cache = options.cache.unwrap_or(spec.reader.cache);
        let budget = options.cache_budget.unwrap_or_else(|| {
            Cache::free_memory() / Self::CACHE_SHARE / u64::from(options.world).max(1)
        });
        if cache == policy::Cache::Decoded && spec.decoder.scale == DecodeScale::Fast {
            return Err(Error::spec(
                "cache = \"decoded\" keeps whole images, and decoder.scale = \"fast\" decodes them \
                 smaller each time: take one of the two",
            ));
        }
        let cache = Cache::new(cache, listed, budget)?;
        let executor =
            Executor::new(program, reader, bounds, threads, held, setup.as_ref(), cache)?;
        Ok(Loader {
            executor,
            sampler,
            ids,
            samples,
            listed,
            seed,
            pipeline: identity::of_pipeline(spec, shuffle, last_batch),
            prefetch: options.prefetch,
            position: Position::default(),
            device_note,
            root: PathBuf::new(),
        })
    }

    /// Batches an epoch on this rank; the same in every epoch.
    pub fn len(&self) -> usize {
        self.sampler.len()
    }

    /// Whether an epoch has no batch.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Samples in the list (after `limit` and `ids`).
    pub fn samples(&self) -> u64 {
        self.samples
    }

    /// Samples a whole batch of this rank.
    pub fn batch_size(&self) -> usize {
        self.sampler.batch_size()
    }

    /// Names of the classes by label; empty where the data set has none.
    pub fn classes(&self) -> &[String] {
        self.executor.reader().classes()
    }

    /// What is odd about the source but no error, a line each: an empty class, say.
    pub fn warnings(&self) -> &[String] {
        self.executor.reader().warnings()
    }

    /// The label of sample `id` of the list.
    pub fn label(&self, id: u64) -> i64 {
        self.executor.reader().label(id)
    }

    /// Where sample `id` of the list comes from: its path under the data directory.
    pub fn place(&self, id: u64) -> PathBuf {
        self.executor.reader().place(id)
    }

    /// Gives an error about sample `id` of the list its place: file, line and sample.
    pub fn locate(&self, id: u64, error: Error) -> Error {
        self.executor.reader().locate(id, error)
    }

    /// What each output of a batch holds.
    pub fn outputs(&self) -> &[OutputInfo] {
        self.executor.program().outputs()
    }

    /// Worker threads.
    pub fn threads(&self) -> usize {
        self.executor.threads()
    }

    /// The GPU that the pipeline runs on; `None`: the CPU.
    pub fn gpu(&self) -> Option<&Cuda> {
        self.executor.gpu()
    }

    /// What happened on the GPU since the loader was opened.
    pub fn gpu_stats(&self) -> Option<GpuStats> {
        self.executor.gpu_stats()
    }

    /// Where the pipeline runs on a GPU: what decodes there, in words, or why nothing does.
    pub fn nvjpeg(&self) -> Option<&str> {
        self.executor.nvjpeg()
    }

    /// What nvJPEG said when it last failed at an image.
    pub fn nvjpeg_failure(&self) -> Option<String> {
        self.executor.nvjpeg_failure()
    }

    /// That nvJPEG made some of the pixels, where it did: what a run's summary has to say, since they
    /// are not the CPU's to the bit.
    pub fn nvjpeg_note(&self) -> Option<String> {
        let GpuStats { hardware, single, retried, .. } = self.gpu_stats()?;
        let images = (hardware + single).saturating_sub(retried);
        (images > 0).then(|| {
            format!(
                "{images} images were decoded by nvJPEG, whose pixels differ a little from the \
                 CPU's; decoder.exact = true forbids it"
            )
        })
    }

    /// Why the pipeline runs on the CPU: where there is a GPU that [`Choice::Auto`] passed over, and where
    /// the pipeline asks for nvJPEG.
    pub fn device_note(&self) -> Option<&str> {
        self.device_note.as_deref()
    }

    /// Images that were decoded on the CPU since the loader was opened, by reason.
    pub fn cpu_decoded(&self) -> Vec<(Reason, u64)> {
        self.executor.cpu_decoded()
    }

    /// The same, by who decoded them.
    pub fn cpu_decoders(&self) -> Vec<(Lane, u64)> {
        self.executor.cpu_decoders()
    }

    /// What is kept in memory from epoch to epoch, and how many samples came from it; `None` where
    /// nothing is kept.
    pub fn cache_stats(&self) -> Option<CacheStats> {
        self.executor.cache_stats()
    }

    /// The seed of the sampler and of every draw.
    pub fn seed(&self) -> u64 {
        self.seed
    }

    /// What every epoch's samples follow from. Looks at each name and label of the list.
    pub fn identity(&self) -> Identity {
        let data = identity::of_data(self.executor.reader(), self.listed, self.ids.as_deref());
        Identity { pipeline: self.pipeline, data, seed: self.seed }
    }

    /// The batch after the last one delivered: [`Loader::resume`] goes on exactly there, in this
    /// process or in another, on as many ranks or on others.
    pub fn position(&self) -> Position {
        self.position
    }

    /// Iterates over the batches of epoch `epoch`. Dropping the iterator early is allowed.
    pub fn epoch(&mut self, epoch: u32) -> Epoch<'_> {
        self.epoch_from(epoch, 0)
    }

    /// The same from batch `step` on: exact, and as fast as from the start.
    pub fn epoch_from(&mut self, epoch: u32, step: usize) -> Epoch<'_> {
        let samples = (step as u64).saturating_mul(self.sampler.global_batch_size());
        self.resume(Position { epoch, samples })
    }

    /// Goes on with an epoch from where it stood. Loaders of the same [`Identity`] on all ranks of a
    /// world of any size, with batches of any size, deliver between them what was left, in the same
    /// global order.
    pub fn resume(&mut self, position: Position) -> Epoch<'_> {
        let rest = self.sampler.rest(position.samples);
        self.position = match rest.is_empty() {
            true => Position { epoch: position.epoch.wrapping_add(1), samples: 0 },
            false => position,
        };
        Epoch { in_flight: VecDeque::new(), epoch: position.epoch, rest, next: 0, loader: self }
    }

    /// Samples of the batches delivered so far that could not be read or decoded, and what was done.
    pub fn bad_samples(&self) -> BadSamples {
        self.executor.bad_samples()
    }

    /// From now on writes each of them, once, to the end of the file `path`, and those that were kept
    /// in spite of a decoder's warning: a JSON object a line of `path` (of the shard, where it lies in
    /// one), `sample`, `line` of the list, `epoch`, `offset` in the file in bytes, `reason`, and
    /// `done`: `"failed"`, `"skipped"`, `"replaced"` (`by` which sample) or `"kept"`; without what is
    /// not known.
    ///
    /// Loaders may share a file. One that can no longer be written ends the log and nothing else:
    /// [`Loader::quarantine_failure`].
    ///
    /// # Errors
    /// When the file cannot be opened for writing.
    pub fn quarantine(&mut self, path: &Path) -> Result<()> {
        self.executor.log_bad_samples(path, &self.root)
    }

    /// Why the quarantine log has ended, where it could not be written any more.
    pub fn quarantine_failure(&self) -> Option<Error> {
        self.executor.bad_samples_log_failure()
    }

    /// Busy time of each stage and other counts since the loader was opened.
    pub fn stats(&self) -> crate::stats::Stats {
        self.executor.stats()
    }
}

/// Why nvJPEG decodes nothing where a pipeline asks for it and the CPU runs it.
fn no_nvjpeg(spec: &Spec, device: Choice) -> Option<String> {
    let why = match device {
        _ if spec.decoder.backend != Backend::Nvjpeg => return None,
        Choice::Cpu => "so the device was chosen".into(),
        Choice::Auto | Choice::Cuda(_) => Driver::probe().err()?.to_string(),
    };
    Some(format!("on the CPU, though decoder.backend = \"nvjpeg\": {why}"))
}

/// The batches of one epoch. An error ends it; the loader can go on with another.
///
/// Under [`OnError::Skip`] a batch may be shorter than its size; the number of batches is the same.
pub struct Epoch<'a> {
    /// Batches that were started, the next to deliver first. Dropping one gives it up.
    in_flight: VecDeque<Pending>,
    epoch: u32,
    /// What is dealt: the epoch, or what was left of it.
    rest: Sampler,
    /// The next batch of that to start.
    next: usize,
    loader: &'a mut Loader,
}

impl Epoch<'_> {
    /// [`Loader::bad_samples`].
    pub fn bad_samples(&self) -> BadSamples {
        self.loader.bad_samples()
    }

    /// Batches still to come, unless an error ends the epoch before.
    pub fn remaining(&self) -> usize {
        self.rest.len() - self.next + self.in_flight.len()
    }

    /// Starts batches until `count` are in flight or the epoch has no more.
    fn top_up(&mut self, count: usize) {
        let Loader { executor, ids, seed, .. } = &*self.loader;
        while self.in_flight.len() < count && self.next < self.rest.len() {
            let mut places: Vec<Place> = Vec::new();
            self.rest.batch(self.epoch, self.next, &mut places);
            if let Some(ids) = ids {
                places.iter_mut().for_each(|place| place.id = ids[place.id as usize]);
            }
            self.in_flight.push_back(executor.start(*seed, self.epoch, places));
            self.next += 1;
        }
    }
}

impl Iterator for Epoch<'_> {
    type Item = Result<Batch>;

    fn next(&mut self) -> Option<Self::Item> {
        self.loader.executor.asked(&self.in_flight);
        // One more than `prefetch`, so that so many are under way while the consumer has its own.
        self.top_up(self.loader.prefetch.saturating_add(1));
        let batch = self.in_flight.pop_front()?.wait();
        if batch.is_err() {
            self.in_flight.clear();
            self.next = self.rest.len();
        } else if self.remaining() == 0 {
            self.loader.position = Position { epoch: self.epoch.wrapping_add(1), samples: 0 };
        } else {
            self.loader.position.samples += self.rest.global_batch_size();
        }
        Some(batch)
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        let remaining = self.remaining();
        (remaining.min(1), Some(remaining))
    }
}

impl std::iter::FusedIterator for Epoch<'_> {}
