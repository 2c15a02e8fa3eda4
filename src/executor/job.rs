//! A batch in the making: tasks on every thread take its samples one by one, and the one that
//! finishes the last sample hands the batch to its consumer.

use super::Shared;
use super::fill::Fill;
use super::ring::{Lease, Size};
use super::worker::{Fit, Key, Worker};
use crate::error::{Error, ErrorKind, Result};
use crate::reader::sampler::Place;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// A batch in the making.
pub(super) struct Job {
    shared: Arc<Shared>,
    seed: u64,
    epoch: u32,
    places: Vec<Place>,
    fill: Fill,
    /// The packed size of every output of every sample that was resolved, outputs innermost.
    sizes: Box<[AtomicU64]>,
    /// Whether some sample found that its outputs have another size.
    mixed: AtomicBool,
    /// The failure of the lowest position so far.
    failure: Mutex<Option<(usize, Error)>>,
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
        let cells = places.len() * shared.program.outputs().len();
        Job {
            fill: Fill::new(lease, places.len()),
            sizes: (0..cells).map(|_| AtomicU64::new(0)).collect(),
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
    pub(super) fn work(&self, thread: usize) {
        // Only this thread takes this lock, and a panic is caught before it could poison it.
        let mut worker = lock(&self.shared.workers[thread]);
        while let Some(mut seat) = self.fill.claim() {
            let position = seat.index();
            let id = self.places[position].id;
            let key = Key { seed: self.seed, epoch: self.epoch, id };
            let outputs = self.outputs();
            let sizes = &self.sizes[position * outputs..][..outputs];
            let fit = caught(|| worker.sample(&self.shared, thread, key, &mut seat, sizes));
            match fit {
                Ok(Ok(Fit::Filled)) => {}
                Ok(Ok(Fit::OtherSize)) => {
                    self.mixed.store(true, Relaxed);
                    self.close();
                }
                Ok(Err(error)) => self.fail(position, error),
                Err(panic) => {
                    // A panic may have left any part of it half changed.
                    *worker = Worker::default();
                    self.fail(position, panic);
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
    pub(super) fn close(&self) {
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
    pub(super) fn abandon(&self) {
        self.close();
        *lock(&self.state) = State::Gone;
    }

    /// What the threads share.
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    fn fail(&self, position: usize, error: Error) {
        let mut failure = lock(&self.failure);
        if failure.as_ref().is_none_or(|(first, _)| position < *first) {
            *failure = Some((position, error));
        }
        drop(failure);
        self.close();
    }

    fn complete(&self, lease: Lease) {
        let error = caught(|| self.first_error()).unwrap_or_else(Some);
        let outcome = error.map_or(Ok(lease), Err);
        let mut state = lock(&self.state);
        if matches!(*state, State::Making) {
            *state = State::Ready(outcome);
            self.ready.notify_one();
        }
    }

    /// The error of the lowest position: a sample that failed, or one whose size differs.
    fn first_error(&self) -> Option<Error> {
        let failure = lock(&self.failure).take();
        let end = failure.as_ref().map_or(self.places.len(), |(position, _)| *position);
        let other_size = |position: usize| {
            let differs = |&output: &usize| self.size(position, output) != self.size(0, output);
            (0..self.outputs()).find(differs).map(|output| (position, output))
        };
        if self.mixed.load(Relaxed)
            && let Some((position, output)) = (1..end).find_map(other_size)
        {
            return Some(self.sizes_differ(position, output));
        }
        failure.map(|(position, error)| {
            let id = self.places[position].id;
            // Errors of the reader have their place.
            if error.path().is_some() { error } else { self.shared.reader.locate(id, error) }
        })
    }

    fn sizes_differ(&self, position: usize, output: usize) -> Error {
        let describe = |position: usize| {
            let id = self.places[position].id;
            let Size { height, width } = self.size(position, output);
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

    fn size(&self, position: usize, output: usize) -> Size {
        Size::unpack(self.sizes[position * self.outputs() + output].load(Relaxed))
    }

    fn outputs(&self) -> usize {
        self.shared.program.outputs().len()
    }
}

/// Runs `f`; a panic in it becomes an error, since an unfinished batch would never be delivered.
fn caught<R>(f: impl FnOnce() -> R) -> Result<R> {
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
