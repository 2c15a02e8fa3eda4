//! The worker threads: a rayon pool of our own that is joined on drop.

use crate::error::{Error, ErrorKind, Result};
use std::thread::JoinHandle;

/// Threads that run tasks in the order they were spawned.
pub(super) struct Pool {
    /// `None` only while dropping.
    rayon: Option<rayon::ThreadPool>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts `threads` threads; 0: one for each core this process may use.
    pub(super) fn new(threads: usize) -> Result<Self> {
        let count = match threads {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            n => n,
        };
        let mut handles = Vec::with_capacity(count);
        let rayon = rayon::ThreadPoolBuilder::new()
            .num_threads(count)
            .spawn_handler(|thread| {
                let name = format!("forebay-{}", thread.index());
                handles.push(std::thread::Builder::new().name(name).spawn(|| thread.run())?);
                Ok(())
            })
            .build()
            .map_err(|e| {
                let message = format!("cannot start {count} worker threads: {e}");
                Error::new(ErrorKind::Io, message)
            })?;
        Ok(Pool { rayon: Some(rayon), threads: handles })
    }

    /// Number of threads.
    pub(super) fn threads(&self) -> usize {
        self.threads.len()
    }

    /// Runs `task` on some thread, which it is given the index of. It must not panic.
    pub(super) fn spawn(&self, task: impl FnOnce(usize) + Send + 'static) {
        let rayon = self.rayon.as_ref().expect("the pool is not being dropped");
        rayon.spawn(|| task(rayon::current_thread_index().expect("runs on a pool thread")));
    }
}

impl Drop for Pool {
    /// Rayon lets its threads end by themselves some time later; waiting for them means that no
    /// thread of ours runs, and no file is open, once a loader is gone.
    fn drop(&mut self) {
        drop(self.rayon.take());
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}
