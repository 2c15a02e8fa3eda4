//! The directory in which a run's checkpoints are kept: the newest, and the best few.

use super::super::metric::Mode;
use super::{Checkpoint, Meta, Tensors, serialize};
use crate::error::{Error, ErrorKind, Result};
use crate::file::{beside, create_beside, replace};
use rustix::fs::{FlockOperation, flock};
use rustix::io::Errno;
use std::cmp::Ordering;
use std::fs::{self, File};
use std::io::Write;
use std::path::{Path, PathBuf};

/// A directory of checkpoints.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
    mode: Mode,
    top_k: usize,
    /// What is kept by its score, the best first.
    kept: Vec<Scored>,
    /// The directory, locked for as long as it is open. A killed process lets go, too.
    _lock: File,
}

/// A checkpoint that is named by its score.
#[derive(Debug)]
struct Scored {
    epoch: u32,
    metric: String,
    score: f64,
    path: PathBuf,
}

impl Store {
    /// The name of the newest checkpoint.
    pub const LAST: &'static str = "last.safetensors";

    /// Makes `dir` where it is missing, and finds out now, not after an epoch, whether files can be
    /// made in it. Where `resume`, checkpoints named by a score that lie there already count as kept;
    /// else none may lie there. One process at a time has it.
    pub fn open(dir: &Path, mode: Mode, top_k: usize, resume: bool) -> Result<Self> {
        fs::create_dir_all(dir).map_err(|e| Error::io("create the directory", dir, e))?;
        let lock = File::open(dir).map_err(|e| Error::io("open the directory", dir, e))?;
        // Another failure is that of a file system without locks.
        if let Err(Errno::WOULDBLOCK) = flock(&lock, FlockOperation::NonBlockingLockExclusive) {
            let text = "another run is at work here; give this one another --out";
            return Err(Error::new(ErrorKind::Data, text).at_path(dir));
        }
        let probe = dir.join(Self::LAST);
        create_beside(&probe)
            .and_then(|_| fs::remove_file(beside(&probe)))
            .map_err(|e| Error::io("write to the directory", dir, e))?;
        let (dir, kept) = (dir.to_path_buf(), scored(dir)?);
        let mut store = Store { dir, mode, top_k, kept, _lock: lock };
        if !resume && (!store.kept.is_empty() || store.last().exists()) {
            let text = "holds a run's checkpoints: --resume last goes on with it; another --out \
                        begins anew";
            return Err(Error::new(ErrorKind::Data, text).at_path(&store.dir));
        }
        store.rank();
        Ok(store)
    }

    fn rank(&mut self) {
        let mode = self.mode;
        self.kept.sort_by(|a, b| order(mode, a.score, b.score));
    }

    /// Where the newest checkpoint is.
    pub fn last(&self) -> PathBuf {
        self.dir.join(Self::LAST)
    }

    /// The checkpoint of the best score, with that.
    pub fn best(&self) -> Option<(f64, &Path)> {
        self.kept.first().map(|kept| (kept.score, kept.path.as_path()))
    }

    /// Replaces the newest checkpoint. Where `rated`, the story's score decides whether it is also
    /// kept under a name that tells it, in place of the worst of the best few.
    pub fn save(&mut self, tensors: &Tensors, meta: &Meta, rated: bool) -> Result<()> {
        let bytes = serialize(tensors, meta).map_err(|e| e.at_path(self.last()))?;
        if let (true, Some((name, score))) = (rated, &meta.score) {
            // Those of a run that watched another metric are no better and no worse. They stay.
            self.kept.retain(|kept| kept.metric == *name);
            let room = self.kept.len() < self.top_k;
            let better =
                self.kept.last().is_some_and(|worst| self.mode.better(*score, worst.score));
            if room || (better && self.top_k > 0) {
                let epoch = meta.position.epoch;
                let file = format!("epoch={epoch}-{name}={score:.4}.safetensors");
                let path = self.dir.join(file);
                replace(&path, |file| file.write_all(&bytes))?;
                self.kept.retain(|kept| kept.path != path);
                self.kept.push(Scored { epoch, metric: name.clone(), score: *score, path });
                self.rank();
            }
        }
        replace(&self.last(), |file| file.write_all(&bytes))?;
        // Only now: until the new ones were safe, the old ones were.
        for Scored { path, .. } in self.kept.drain(self.top_k.min(self.kept.len())..) {
            fs::remove_file(&path).map_err(|e| Error::io("remove", &path, e))?;
        }
        Ok(())
    }
}

fn order(mode: Mode, a: f64, b: f64) -> Ordering {
    match (mode.better(a, b), mode.better(b, a)) {
        (true, _) => Ordering::Less,
        (_, true) => Ordering::Greater,
        _ => Ordering::Equal,
    }
}

/// Checkpoints of `dir` that are named by a score, by epoch; where there are several metrics, those of
/// the newest one's.
fn scored(dir: &Path) -> Result<Vec<Scored>> {
    let entries = fs::read_dir(dir).map_err(|e| Error::io("read the directory", dir, e))?;
    let mut found = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| Error::io("read the directory", dir, e))?.path();
        let parts = path.file_name().and_then(|name| name.to_str()).and_then(|name| {
            let (epoch, score) = name.strip_prefix("epoch=")?.split_once('-')?;
            let (metric, score) = score.strip_suffix(".safetensors")?.rsplit_once('=')?;
            Some((epoch.parse().ok()?, metric.to_string(), score.parse().ok()?))
        });
        let Some((epoch, metric, named)) = parts else { continue };
        // Names have four digits: of two that they make equal, one is better.
        let exact = Meta::peek(&path).and_then(|meta| meta.score);
        let score = exact.filter(|(name, _)| *name == metric).map_or(named, |(_, score)| score);
        found.push(Scored { epoch, metric, score, path });
    }
    // The directory's own order is nobody's.
    found.sort_by(|a, b| (a.epoch, &a.path).cmp(&(b.epoch, &b.path)));
    if let Some(metric) = found.last().map(|newest| newest.metric.clone()) {
        found.retain(|scored| scored.metric == metric);
    }
    Ok(found)
}

/// Which checkpoint of a directory a run goes on from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pick {
    /// The newest.
    Last,
    /// The one of the best score; without a mode, losses are better when small, the rest when large.
    Best(Option<Mode>),
}

/// Reads the checkpoint that `pick` means, and where that one is damaged the next good one. What
/// was passed over comes with it, a line each.
///
/// # Errors
/// Where none is good: what is wrong with the first.
pub fn find(dir: &Path, pick: Pick) -> Result<(PathBuf, Checkpoint, Vec<String>)> {
    let mut scored = scored(dir)?;
    let last = dir.join(Store::LAST);
    let mut candidates = Vec::new();
    match pick {
        Pick::Last => {
            candidates.push(last);
            scored.reverse();
        }
        Pick::Best(mode) => {
            let is_loss = scored.iter().all(|scored| scored.metric.ends_with("_loss"));
            let mode = mode.unwrap_or(if is_loss { Mode::Min } else { Mode::Max });
            scored.sort_by(|a, b| order(mode, a.score, b.score));
            if scored.is_empty() {
                let text = "holds no checkpoint named by a score; --resume last takes the newest";
                return Err(Error::new(ErrorKind::Data, text).at_path(dir));
            }
        }
    }
    candidates.extend(scored.into_iter().map(|scored| scored.path));
    if let Pick::Best(_) = pick {
        candidates.push(dir.join(Store::LAST));
    }
    let mut passed_over: Vec<Error> = Vec::new();
    for path in candidates {
        match Checkpoint::read(&path) {
            Ok(checkpoint) => {
                let notes = passed_over.iter().map(ToString::to_string).collect();
                return Ok((path, checkpoint, notes));
            }
            Err(error) => passed_over.push(error),
        }
    }
    Err(passed_over.swap_remove(0))
}
