//! The worker threads: a rayon pool of our own that is joined on drop.

use crate::error::{Error, ErrorKind, Result};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};
use std::io;
use std::sync::mpsc;
use std::thread::JoinHandle;

/// How many threads, and where they run.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Threads {
    /// 0: one for each core that this process may use, by its affinity and its control group's quota.
    pub count: usize,
    /// Keeps each thread on one of the cores that the process may run on, in turn, in place of letting
    /// the system move it.
    pub pinned: bool,
    /// Further threads, that read the files of samples to come where that takes long.
    pub ahead: usize,
}

/// Threads that run tasks in the order they were spawned.
pub(super) struct Pool {
    /// `None` only while dropping.
    rayon: Option<rayon::ThreadPool>,
    threads: Vec<JoinHandle<()>>,
}

impl Pool {
    /// Starts the threads.
    pub(super) fn new(threads: Threads) -> Result<Self> {
        let count = match threads.count {
            0 => std::thread::available_parallelism().map_or(1, |n| n.get()),
            n => n,
        };
        let cores = if threads.pinned { cores()? } else { Vec::new() };
        let (sender, pinned) = mpsc::channel();
        let mut handles = Vec::with_capacity(count);
        let rayon = rayon::ThreadPoolBuilder::new()
            .num_threads(count)
            .spawn_handler(|thread| {
                let name = format!("forebay-{}", thread.index());
                let core = cores.get(thread.index() % cores.len().max(1)).copied();
                let sender = sender.clone();
                let body = move || {
                    let _ = sender.send(core.map_or(Ok(()), pin));
                    drop(sender);
                    thread.run();
                };
                handles.push(std::thread::Builder::new().name(name).spawn(body)?);
                Ok(())
            })
            .build()
            .map_err(|e| {
                let message = format!("cannot start {count} worker threads: {e}");
                Error::new(ErrorKind::Io, message)
            })?;
        let pool = Pool { rayon: Some(rayon), threads: handles };
        drop(sender);
        match pinned.into_iter().find_map(Result::err) {
            Some(error) => Err(cannot_pin(error)),
            None => Ok(pool),
        }
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

/// The numbers of the cores that this thread may run on.
fn cores() -> Result<Vec<usize>> {
    let set = sched_getaffinity(None).map_err(|e| cannot_pin(e.into()))?;
    Ok((0..CpuSet::MAX_CPU).filter(|core| set.is_set(*core)).collect())
}

/// Keeps the calling thread on a core.
fn pin(core: usize) -> io::Result<()> {
    let mut set = CpuSet::new();
    set.set(core);
    Ok(sched_setaffinity(None, &set)?)
}

fn cannot_pin(error: io::Error) -> Error {
    let text = format!("cannot keep worker threads on cores: {error} (leave out --pin-threads)");
    Error::new(ErrorKind::Io, text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pinned_threads_take_the_cores_in_turn() {
        let cores = cores().unwrap();
        let pool = Pool::new(Threads { count: cores.len() + 1, pinned: true, ahead: 0 });
        let pool = pool.unwrap();
        let (sender, receiver) = mpsc::channel();
        let all = pool.rayon.as_ref().unwrap();
        all.broadcast(|thread| sender.send((thread.index(), super::cores().unwrap())).unwrap());
        drop(sender);
        let mut found: Vec<_> = receiver.into_iter().collect();
        found.sort();
        let expected = (0..=cores.len()).map(|index| (index, vec![cores[index % cores.len()]]));
        assert!(found.into_iter().eq(expected));
        // The thread that asked for them is where it was.
        assert_eq!(super::cores().unwrap(), cores);
    }
}
