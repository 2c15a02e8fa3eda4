//! A batch in the making: tasks on every thread take its samples one by one, and the one that
//! finishes the last sample hands the batch to its consumer.

use super::Shared;
use super::fill::Fill;
use super::gpu::{Source, Stage};
use super::program::Program;
use super::ring::{Lease, Size};
use super::worker::{Fit, Key, Worker};
use crate::error::{Error, ErrorKind, Result};
use crate::reader::sampler::Place;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// A batch in the making.
pub(super) struct Job {
    shared: Arc<Shared>,
    seed: u64,
    epoch: u32,
    places: Vec<Place>,
    fill: Fill,
    /// The packed size of every image of every sample that was resolved, images innermost.
    sizes: Box<[AtomicU64]>,
    /// Where each sample's pixels come from, where the batch goes to a GPU.
    sources: Box<[OnceLock<Source>]>,
    /// Whether some sample found that its outputs have another size.
    mixed: AtomicBool,
    /// The failure of the lowest position so far, and whether it is the sample's.
    failure: Mutex<Option<(usize, Error, bool)>>,
    state: Mutex<State>,
    /// Told when the state becomes ready.
    ready: Condvar,
}

enum State {
    Making,
    Ready(Result<Lease>),
    /// The consumer took the batch, or went away.
    Gone,
}

impl Job {
    /// A job that fills `lease` with the samples of `places`, at least one.
    pub(super) fn new(
        shared: Arc<Shared>,
        seed: u64,
        epoch: u32,
        places: Vec<Place>,
        mut lease: Lease,
    ) -> Self {
        lease.begin(&places, |id| shared.reader.label(id));
        let cells = places.len() * shared.program.plan().images().len();
        let sources = if shared.submit.is_some() { places.len() } else { 0 };
        Job {
            fill: Fill::new(lease, places.len()),
            sizes: (0..cells).map(|_| AtomicU64::new(0)).collect(),
            sources: (0..sources).map(|_| OnceLock::new()).collect(),
            mixed: AtomicBool::new(false),
            failure: Mutex::new(None),
            state: Mutex::new(State::Making),
            ready: Condvar::new(),
            shared,
            seed,
            epoch,
            places,
        }
    }

    /// Makes samples until none is left. Runs on several threads at once; never waits.
    pub(super) fn work(self: &Arc<Self>, thread: usize) {
        // Only this thread takes this lock, and a panic is caught before it could poison it.
        let mut worker = lock(&self.shared.workers[thread]);
        while let Some(mut seat) = self.fill.claim() {
            let position = seat.index();
            let id = self.places[position].id;
            let key = Key { seed: self.seed, epoch: self.epoch, id };
            let images = self.images();
            let sizes = &self.sizes[position * images..][..images];
            let source = self.sources.get(position);
            let fit = caught(|| worker.sample(&self.shared, thread, key, &mut seat, sizes, source));
            match fit {
                Ok(Ok(Fit::Filled)) => {}
                Ok(Ok(Fit::OtherSize)) => {
                    self.mixed.store(true, Relaxed);
                    self.close();
                }
                Ok(Ok(Fit::NoRoom(error))) => self.fail(position, error, false),
                Ok(Err(error)) => self.fail(position, error, true),
                Err(panic) => {
                    // A panic may have left any part of it half changed.
                    *worker = Worker::default();
                    self.fail(position, panic, true);
                }
            }
            if let Some(lease) = seat.retire() {
                self.complete(lease);
            }
        }
    }

    /// Gives up the samples that no thread has begun. Positions are claimed in rising order, so
    /// every sample before one that was claimed is still tried, and the error that is reported
    /// is the first one in the batch however threads ran.
    pub(super) fn close(self: &Arc<Self>) {
        if let Some(lease) = self.fill.close() {
            self.complete(lease);
        }
    }

    /// Waits for the batch, or for the first error in it. To be called once.
    pub(super) fn wait(&self) -> Result<Lease> {
        let state = lock(&self.state);
        let making = |state: &mut State| matches!(state, State::Making);
        let mut state =
            self.ready.wait_while(state, making).unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::Gone) {
            State::Ready(outcome) => outcome,
            State::Making | State::Gone => unreachable!("a batch has one consumer"),
        }
    }

    /// Gives the batch up. Its slot goes back now or when the last sample that is being made is
    /// done, even while tasks of this job wait for their turn.
    pub(super) fn abandon(self: &Arc<Self>) {
        // First, so that whoever retires the last sample does not take the batch for whole.
        *lock(&self.state) = State::Gone;
        self.close();
    }

    /// What the threads share.
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    fn fail(self: &Arc<Self>, position: usize, error: Error, of_sample: bool) {
        let mut failure = lock(&self.failure);
        if failure.as_ref().is_none_or(|(first, ..)| position < *first) {
            *failure = Some((position, error, of_sample));
        }
        drop(failure);
        self.close();
    }

    /// Every sample is there, or some failed, or nobody wants them.
    fn complete(self: &Arc<Self>, lease: Lease) {
        if self.gone() {
            return;
        }
        let error = caught(|| self.first_error()).unwrap_or_else(Some);
        match (error, &self.shared.submit) {
            (Some(error), _) => self.finish(Err(error)),
            (None, Some(submit)) => submit.batch(self.clone(), lease),
            (None, None) => self.finish(Ok(lease)),
        }
    }

    /// Hands the batch, or what is wrong with it, to its consumer.
    pub(super) fn finish(&self, outcome: Result<Lease>) {
        let mut state = lock(&self.state);
        if matches!(*state, State::Making) {
            *state = State::Ready(outcome);
            self.ready.notify_one();
        }
    }

    /// Whether nobody wants the batch any more.
    pub(super) fn gone(&self) -> bool {
        matches!(*lock(&self.state), State::Gone)
    }

    /// Samples.
    pub(super) fn len(&self) -> usize {
        self.places.len()
    }

    /// What is run over them.
    pub(super) fn program(&self) -> &Program {
        &self.shared.program
    }

    /// The seed of every draw.
    pub(super) fn seed(&self) -> u64 {
        self.seed
    }

    /// The epoch of every draw.
    pub(super) fn epoch(&self) -> u32 {
        self.epoch
    }

    /// Where the pixels of a sample come from; every sample is there, and goes to a GPU.
    pub(super) fn source(&self, position: usize) -> &Source {
        self.sources[position].get().expect("every sample was staged")
    }

    /// The pinned memory that the samples were put into.
    pub(super) fn stage(&self) -> &Stage {
        self.fill.stage()
    }

    /// Names the sample in its error.
    pub(super) fn locate(&self, position: usize, error: Error) -> Error {
        let id = self.places[position].id;
        // Errors of the reader have their place.
        if error.path().is_some() { error } else { self.shared.reader.locate(id, error) }
    }

    /// The error of the lowest position: a sample that failed, or one whose size differs.
    fn first_error(&self) -> Option<Error> {
        let failure = lock(&self.failure).take();
        let end = failure.as_ref().map_or(self.places.len(), |(position, ..)| *position);
        let other_size = |position: usize| {
            let size = |position: usize, output: usize| self.output_size(position, output);
            let differs = |&output: &usize| size(position, output) != size(0, output);
            (0..self.program().outputs().len()).find(differs).map(|output| (position, output))
        };
        if self.mixed.load(Relaxed)
            && let Some((position, output)) = (1..end).find_map(other_size)
        {
            return Some(self.sizes_differ(position, output));
        }
        failure.map(
            |(position, error, of_sample)| {
                if of_sample { self.locate(position, error) } else { error }
            },
        )
    }

    fn sizes_differ(&self, position: usize, output: usize) -> Error {
        let describe = |position: usize| {
            let id = self.places[position].id;
            let Size { height, width } = self.output_size(position, output);
            let place = self.shared.reader.place(id);
            format!("sample {id} ({}) is {width}x{height}", place.display())
        };
        let info = &self.shared.program.outputs()[output];
        let message = format!(
            "{} but {} (width x height) at output \"{}\": fix the size with {}",
            describe(0),
            describe(position),
            info.name,
            info.shape_step_hint
        );
        Error::new(ErrorKind::Shape, message)
    }

    /// The size that was found for an image of a sample.
    pub(super) fn size(&self, position: usize, image: usize) -> Size {
        Size::unpack(self.sizes[position * self.images() + image].load(Relaxed))
    }

    fn output_size(&self, position: usize, output: usize) -> Size {
        self.size(position, self.program().plan().outputs()[output].image)
    }

    fn images(&self) -> usize {
        self.program().plan().images().len()
    }
}

/// Runs `f`; a panic in it becomes an error, since an unfinished batch would never be delivered.
pub(super) fn caught<R>(f: impl FnOnce() -> R) -> Result<R> {
    catch_unwind(AssertUnwindSafe(f)).map_err(|panic: Box<dyn Any + Send>| {
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("no message");
        let message = format!("internal error, please report it: {}", text.replace('\n', " "));
        Error::new(ErrorKind::Device, message)
    })
}

/// A lock whose data are whole even where a thread panicked while it held it.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
