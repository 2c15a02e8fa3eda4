//! Threads that have the system get files from their disk before workers ask for them.
//!
//! A worker that finds a file in the system's memory reads it within microseconds; to have done so before
//! would only be the same work twice. Elsewhere it waits, while a disk or a network serves many at once in
//! hardly more time than one. So these threads go through the samples of batches that were started, past
//! those that workers have begun, and read their files; and once some in a row were there at once, they
//! rest for a while.

use super::job::{Job, caught};
use crate::error::{Error, ErrorKind, Result};
use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// Files in a row that come at once, or are kept, before the threads rest.
const IN_A_ROW: u32 = 32;
/// Samples that are started before they try again.
const REST: u64 = 8192;
/// What comes within this, and a nanosecond a byte, comes from memory: a disk takes twice as long.
const AT_ONCE: Duration = Duration::from_micros(40);

/// The threads. Dropping it ends them; each finishes at most the file it is at.
pub(super) struct Ahead {
    state: Arc<State>,
    threads: Vec<JoinHandle<()>>,
}

#[derive(Default)]
struct State {
    queue: Mutex<Queue>,
    /// Told when there is something to do.
    ready: Condvar,
    /// Files in a row that came at once.
    at_once: AtomicU32,
}

#[derive(Default)]
struct Queue {
    jobs: VecDeque<Arc<Job>>,
    /// Samples to be started before the next try.
    rest: u64,
    end: bool,
}

impl Ahead {
    /// Starts `count` threads.
    pub(super) fn new(count: usize) -> Result<Self> {
        let mut ahead = Ahead { state: Arc::default(), threads: Vec::with_capacity(count) };
        for number in 0..count {
            let state = ahead.state.clone();
            let thread = std::thread::Builder::new().name(format!("forebay-ahead-{number}"));
            let thread = thread.spawn(move || state.serve()).map_err(|e| {
                let text = format!("cannot start {count} threads that read ahead: {e}");
                Error::new(ErrorKind::Io, text)
            })?;
            ahead.threads.push(thread);
        }
        Ok(ahead)
    }

    /// Tells of a batch of `samples` samples that was started.
    pub(super) fn offer(&self, job: &Arc<Job>, samples: usize) {
        let mut queue = self.state.queue();
        queue.rest = queue.rest.saturating_sub(samples as u64);
        if queue.rest == 0 {
            queue.jobs.push_back(job.clone());
            self.state.ready.notify_all();
        }
    }
}

impl Drop for Ahead {
    fn drop(&mut self) {
        let mut queue = self.state.queue();
        queue.end = true;
        queue.jobs.clear();
        drop(queue);
        self.state.ready.notify_all();
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

impl State {
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A thread's body.
    fn serve(&self) {
        loop {
            let idle = |queue: &mut Queue| queue.jobs.is_empty() && !queue.end;
            let queue = self.ready.wait_while(self.queue(), idle);
            let queue = queue.unwrap_or_else(PoisonError::into_inner);
            let Some(job) = queue.jobs.front().cloned() else { return };
            drop(queue);
            self.fetch(&job);
            let mut queue = self.queue();
            if queue.jobs.front().is_some_and(|front| Arc::ptr_eq(front, &job)) {
                queue.jobs.pop_front();
            }
        }
    }

    /// Reads the samples of `job` that nobody has begun, until none is left or it is time to rest.
    fn fetch(&self, job: &Job) {
        let Some(source) = job.shared().reader.warm() else { return };
        while let Some(id) = job.ahead() {
            let held = job.shared().cache.as_ref().is_some_and(|cache| cache.holds(id));
            let start = Instant::now();
            // A source of the user's own may panic; reading the sample will tell.
            let bytes = if held { 0 } else { caught(|| source.fetch(id)).unwrap_or(0) };
            if start.elapsed() > AT_ONCE + Duration::from_nanos(bytes) {
                self.at_once.store(0, Relaxed);
            } else if self.at_once.fetch_add(1, Relaxed) + 1 >= IN_A_ROW {
                self.at_once.store(0, Relaxed);
                job.leave_ahead();
                let mut queue = self.queue();
                queue.jobs.clear();
                queue.rest = REST;
                return;
            }
        }
    }
}
