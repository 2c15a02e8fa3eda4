//! A batch in the making: tasks on every thread take its samples one by one, and the one that
//! finishes the last sample hands the batch to its consumer.

mod complete;

use super::Shared;
use super::fill::{Fill, Seat};
use super::gpu::{Source, Stage};
use super::ledger::{Done, Incident};
use super::near::Approach;
use super::program::Program;
use super::ring::{Lease, Size};
use super::worker::{Fit, Key, Worker};
use crate::decoder::Info;
use crate::error::{Error, ErrorKind, Result};
use crate::policy::OnError;
use crate::reader::sampler::Place;
use std::any::Any;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};

/// Samples that are drawn, one after another, to take the place of a bad one.
const STAND_INS: u32 = 32;

/// What a batch is to be.
pub(super) struct Order {
    pub(super) seed: u64,
    pub(super) epoch: u32,
    pub(super) places: Vec<Place>,
    /// What becomes of a sample that cannot be made.
    pub(super) on_error: OnError,
    /// Samples that are known not to be, since a GPU and then the CPU failed at them.
    pub(super) known: Vec<(u64, Error)>,
}

/// A batch in the making.
pub(super) struct Job {
    shared: Arc<Shared>,
    order: Order,
    fill: Fill,
    /// The packed size of every image, images innermost, of every sample that goes to a GPU or for whose
    /// outputs the slot is not laid out. Threads leave nothing where that is all that is to be known, since
    /// they would wait for each other's.
    sizes: Box<[AtomicU64]>,
    /// Where each sample's pixels come from, where the batch goes to a GPU.
    sources: Box<[OnceLock<Source>]>,
    /// Whether some sample found that its outputs have another size.
    mixed: AtomicBool,
    /// The failure of the lowest position so far.
    failure: Mutex<Option<(usize, Error)>>,
    /// What was found of samples that do not end the batch, in no order.
    incidents: Mutex<Vec<Incident>>,
    /// Where those who read ahead are.
    ahead: AtomicUsize,
    /// The samples of the batch in the end, where they are not those that were ordered.
    changed: OnceLock<Changed>,
    delivery: Arc<Delivery>,
}

/// The samples that a batch has in the end.
struct Changed {
    /// The seat of each.
    seats: Vec<usize>,
    /// The number of each.
    ids: Vec<i64>,
}

/// The way from a job to its consumer.
struct Delivery {
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
    /// A job that fills `lease` with the samples of `order`, at least one.
    pub(super) fn new(shared: Arc<Shared>, order: Order, lease: Lease) -> Self {
        let delivery = Delivery { state: Mutex::new(State::Making), ready: Condvar::new() };
        Self::deliver(shared, order, lease, Arc::new(delivery))
    }

    fn deliver(
        shared: Arc<Shared>,
        order: Order,
        mut lease: Lease,
        delivery: Arc<Delivery>,
    ) -> Self {
        let places = &order.places;
        lease.begin(places, |id| shared.reader.label(id));
        let cells = places.len() * shared.program.plan().images().len();
        let sources = if shared.submit.is_some() { places.len() } else { 0 };
        Job {
            fill: Fill::new(lease, places.len()),
            sizes: (0..cells).map(|_| AtomicU64::new(0)).collect(),
            sources: (0..sources).map(|_| OnceLock::new()).collect(),
            mixed: AtomicBool::new(false),
            failure: Mutex::new(None),
            incidents: Mutex::new(Vec::new()),
            ahead: AtomicUsize::new(0),
            changed: OnceLock::new(),
            delivery,
            shared,
            order,
        }
    }

    /// Makes samples until none is left. Runs on several threads at once; never waits.
    pub(super) fn work(self: &Arc<Self>, thread: usize) {
        // Only this thread takes this lock, and a panic is caught before it could poison it.
        let mut worker = lock(&self.shared.workers[thread].0);
        worker.begin();
        let mut claims = self.fill.claims(self.shared.workers.len());
        while let Some(mut seat) = claims.next() {
            self.sit(&mut worker, &mut seat);
        }
        drop(worker);
        if let Some(lease) = claims.retire() {
            self.complete(lease, thread);
        }
    }

    /// Fills a seat, or sees to it that the batch can do without.
    fn sit(self: &Arc<Self>, worker: &mut Worker, seat: &mut Seat<'_>) {
        let position = seat.index();
        let id = self.order.places[position].id;
        let error = match self.make(worker, seat, id) {
            Ok(fit) => return self.seated(position, id, fit),
            // Errors of the reader have their place.
            Err(error) if error.path().is_some() => error,
            Err(error) => self.placed(id, error),
        };
        match self.order.on_error {
            OnError::Fail => self.fail(position, error),
            // Leaving out what the machine had no room for would lose good samples.
            _ if error.kind() == ErrorKind::Resources => self.fail(position, error),
            OnError::Skip => self.note(Incident { position, id, error, done: Done::Skipped }),
            OnError::Replace => {
                let Order { seed, epoch, .. } = self.order;
                let candidates = &self.shared.candidates;
                let others = (0..STAND_INS).map(|tries| candidates.pick(seed, epoch, id, tries));
                for other in others.filter(|other| *other != id) {
                    match self.make(worker, seat, other) {
                        Ok(fit) => {
                            let done = Done::Replaced(other);
                            self.note(Incident { position, id, error, done });
                            return self.seated(position, other, fit);
                        }
                        Err(error) if error.kind() == ErrorKind::Resources => {
                            return self.fail(position, error);
                        }
                        // One that is bad itself is told in its own place.
                        Err(_) => {}
                    }
                }
                let text = format!("{STAND_INS} samples drawn to take its place are no better");
                self.fail(position, error.adding(text));
            }
        }
    }

    /// Makes sample `id` in a seat; the error is the sample's.
    fn make(&self, worker: &mut Worker, seat: &mut Seat<'_>, id: u64) -> Result<Fit> {
        if let Some((_, error)) = self.order.known.iter().find(|(bad, _)| *bad == id) {
            return Err(error.clone());
        }
        let position = seat.index();
        let key = Key { seed: self.order.seed, epoch: self.order.epoch, id };
        let images = self.images();
        let sizes = &self.sizes[position * images..][..images];
        let source = self.sources.get(position);
        let later = |seats| self.order.places.get(seat.later(seats)).map(|place| place.id);
        let cache = self.shared.cache.as_ref();
        let soon = cache.map_or(Approach::NOTHING, |cache| cache.approach([1, 2, 3].map(later)));
        let made = caught(|| worker.sample(&self.shared, key, seat, sizes, source, soon));
        made.unwrap_or_else(|panic| {
            // It may have left any part of it half changed.
            worker.renew();
            Err(panic)
        })
    }

    /// Takes down how a sample that is good by itself fits.
    fn seated(self: &Arc<Self>, position: usize, id: u64, fit: Fit) {
        match fit {
            Fit::Filled(info) => self.warn(position, id, &info),
            Fit::OtherSize => {
                self.mixed.store(true, Relaxed);
                self.close();
            }
            Fit::NoRoom(error) => self.fail(position, self.placed(id, error)),
        }
    }

    fn note(&self, incident: Incident) {
        lock(&self.incidents).push(incident);
    }

    /// Gives up the samples that no thread has begun. Positions are claimed in rising order, so
    /// every sample before one that was claimed is still tried, and the error that is reported
    /// is the first one in the batch however threads ran.
    fn close(self: &Arc<Self>) {
        // Whoever closes holds a seat, or the consumer is gone: there is nothing to complete.
        drop(self.fill.close());
    }

    /// Waits for the batch, or for the first error in it. To be called once.
    pub(super) fn wait(&self) -> Result<Lease> {
        let Delivery { state, ready } = &*self.delivery;
        let making = |state: &mut State| matches!(state, State::Making);
        let mut state =
            ready.wait_while(lock(state), making).unwrap_or_else(PoisonError::into_inner);
        match std::mem::replace(&mut *state, State::Gone) {
            State::Ready(outcome) => outcome,
            State::Making | State::Gone => unreachable!("a batch has one consumer"),
        }
    }

    /// Whether the batch, or its error, lies ready for its consumer.
    pub(super) fn is_ready(&self) -> bool {
        matches!(*lock(&self.delivery.state), State::Ready(_))
    }

    /// Gives the batch up. Its slot goes back now or when the last sample that is being made is
    /// done, even while tasks of this job wait for their turn.
    pub(super) fn abandon(self: &Arc<Self>) {
        // First, so that whoever retires the last sample does not take the batch for whole.
        *lock(&self.delivery.state) = State::Gone;
        self.close();
    }

    /// The next sample that no worker has begun, each to one caller only.
    pub(super) fn ahead(&self) -> Option<u64> {
        self.ahead.fetch_max(self.fill.begun(), Relaxed);
        let next = self.ahead.fetch_add(1, Relaxed);
        self.order.places.get(next).map(|place| place.id)
    }

    /// From now on [`Job::ahead`] gives nobody a sample.
    pub(super) fn leave_ahead(&self) {
        self.ahead.store(self.order.places.len(), Relaxed);
    }

    /// What the threads share.
    pub(super) fn shared(&self) -> &Shared {
        &self.shared
    }

    fn fail(self: &Arc<Self>, position: usize, error: Error) {
        let mut failure = lock(&self.failure);
        if failure.as_ref().is_none_or(|(first, _)| position < *first) {
            *failure = Some((position, error));
        }
        drop(failure);
        self.close();
    }

    /// Takes down what a decoder said of a sample that a GPU failed at.
    pub(super) fn warned(&self, position: usize, info: &Info) {
        self.warn(position, self.id(position), info);
    }

    fn warn(&self, position: usize, id: u64, info: &Info) {
        let Some(text) = info.warning_text() else { return };
        let error = self.placed(id, Error::new(ErrorKind::Decode, text));
        self.note(Incident { position, id, error, done: Done::Kept });
    }

    /// Hands the batch, or what is wrong with it, to its consumer.
    pub(super) fn finish(&self, mut outcome: Result<Lease>) {
        if let Ok(lease) = &mut outcome {
            lease.incidents.append(&mut lock(&self.incidents));
            lease.incidents.sort_by_key(|it| (it.position, it.done == Done::Kept));
        }
        let Delivery { state, ready } = &*self.delivery;
        let mut state = lock(state);
        if matches!(*state, State::Making) {
            *state = State::Ready(outcome);
            ready.notify_one();
        }
    }

    /// Whether nobody wants the batch any more.
    pub(super) fn gone(&self) -> bool {
        matches!(*lock(&self.delivery.state), State::Gone)
    }

    /// Samples that the batch has in the end.
    pub(super) fn len(&self) -> usize {
        self.changed.get().map_or(self.order.places.len(), |changed| changed.seats.len())
    }

    /// The seat of one of them.
    fn seat(&self, position: usize) -> usize {
        self.changed.get().map_or(position, |changed| changed.seats[position])
    }

    /// The number of one of them.
    pub(super) fn id(&self, position: usize) -> u64 {
        match self.changed.get() {
            Some(changed) => changed.ids[position] as u64,
            None => self.order.places[position].id,
        }
    }

    /// What becomes of a sample that cannot be made.
    pub(super) fn on_error(&self) -> OnError {
        self.order.on_error
    }

    /// What is run over them.
    pub(super) fn program(&self) -> &Program {
        &self.shared.program
    }

    /// The seed of every draw.
    pub(super) fn seed(&self) -> u64 {
        self.order.seed
    }

    /// The epoch of every draw.
    pub(super) fn epoch(&self) -> u32 {
        self.order.epoch
    }

    /// Where the pixels of a sample come from; every sample is there, and goes to a GPU.
    pub(super) fn source(&self, position: usize) -> &Source {
        self.sources[self.seat(position)].get().expect("every sample was staged")
    }

    /// The pinned memory that the samples were put into.
    pub(super) fn stage(&self) -> &Stage {
        self.fill.stage()
    }

    /// Names the sample in its error.
    pub(super) fn locate(&self, position: usize, error: Error) -> Error {
        self.placed(self.id(position), error)
    }

    fn placed(&self, id: u64, error: Error) -> Error {
        // A reader of the user's own may panic, and a seat that is not retired is waited for.
        caught(|| self.shared.reader.locate(id, error)).unwrap_or_else(|panic| panic.at_sample(id))
    }

    /// The size that was found for an image of a sample.
    pub(super) fn size(&self, position: usize, image: usize) -> Size {
        self.size_in(self.seat(position), image)
    }

    fn size_in(&self, seat: usize, image: usize) -> Size {
        Size::unpack(self.size_word(seat, image))
    }

    fn size_word(&self, seat: usize, image: usize) -> u64 {
        self.sizes[seat * self.images() + image].load(Relaxed)
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
