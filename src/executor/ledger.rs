//! The book of bad samples: what was found in delivered batches, in their order, whatever the threads
//! did. So counts, the log, and the batch at which there are too many are the same in every run.

use super::Shared;
use crate::error::{Error, ErrorKind, Result};
use crate::file;
use crate::stats::BadSamples;
use serde_json::{Map, Value};
use std::collections::HashSet;
use std::fs::{File, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

/// What was found of a sample.
#[derive(Debug)]
pub(super) struct Incident {
    /// Its place in the batch.
    pub(super) position: usize,
    /// The sample.
    pub(super) id: u64,
    /// What is wrong with it, and where it lies.
    pub(super) error: Error,
    pub(super) done: Done,
}

/// What was done with a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Done {
    /// Its decoder warned, and it was kept.
    Kept,
    /// It was left out.
    Skipped,
    /// Another took its place.
    Replaced(u64),
}

/// The book.
pub(super) struct Ledger {
    /// The most different samples that may be bad.
    most: u64,
    bad: HashSet<u64>,
    warned: HashSet<u64>,
    counts: BadSamples,
    log: Option<Log>,
    log_failure: Option<Error>,
}

impl Ledger {
    /// An empty book, for at most `most` different bad samples.
    pub(super) fn new(most: u64) -> Self {
        Ledger {
            most,
            bad: HashSet::new(),
            warned: HashSet::new(),
            counts: BadSamples::default(),
            log: None,
            log_failure: None,
        }
    }

    /// Also writes to the end of `path`, names of files with `root` before them. The file is made when
    /// there is something to write; its directory must be there now, and what is there already must be
    /// a log.
    pub(super) fn log_to(&mut self, path: &Path, root: &Path) -> Result<()> {
        if path.symlink_metadata().is_ok() {
            let mut first = [b'{'];
            let read = file::open(path)?.read(&mut first);
            read.map_err(|e| Error::io("read", path, e))?;
            if first != [b'{'] {
                let text = "is no log of bad samples, and is not written to";
                return Err(Error::new(ErrorKind::Data, text).at_path(path));
            }
        }
        let dir = path.parent().filter(|dir| !dir.as_os_str().is_empty());
        if let Some(dir) = dir {
            std::fs::read_dir(dir).map_err(|e| Error::io("open the directory", dir, e))?;
        }
        let (path, root) = (path.to_path_buf(), root.to_path_buf());
        self.log = Some(Log { file: None, path, root });
        Ok(())
    }

    /// The counts so far.
    pub(super) fn counts(&self) -> BadSamples {
        self.counts
    }

    /// Why the log has ended, where it has.
    pub(super) fn log_failure(&self) -> Option<&Error> {
        self.log_failure.as_ref()
    }

    /// Takes in what was found in a batch of `epoch`. The error is that of the sample that was one
    /// too many.
    pub(super) fn take(
        &mut self,
        shared: &Shared,
        epoch: u32,
        incidents: Vec<Incident>,
    ) -> Result<()> {
        for Incident { id, error, done, .. } in incidents {
            let first = match done {
                Done::Kept => self.warned.insert(id),
                Done::Skipped | Done::Replaced(_) => self.bad.insert(id),
            };
            match done {
                Done::Kept => {}
                Done::Skipped => self.counts.skipped += 1,
                Done::Replaced(_) => self.counts.replaced += 1,
            }
            self.counts.samples = self.bad.len() as u64;
            self.counts.warned = self.warned.len() as u64;
            // Each sample is written down once, however many epochs meet it.
            if first {
                let (word, by) = match done {
                    Done::Kept => ("kept", None),
                    Done::Skipped => ("skipped", None),
                    Done::Replaced(by) => ("replaced", Some(by)),
                };
                self.write(shared, epoch, id, &error, word, by);
            }
            if self.counts.samples > self.most && done != Done::Kept {
                let text = format!(
                    "that makes {} bad of {} samples, more than the {} that max_bad allows (--max-bad)",
                    self.counts.samples, shared.candidates.count, self.most
                );
                return Err(error.adding(text));
            }
        }
        Ok(())
    }

    /// Takes in the error that ended an epoch.
    pub(super) fn failed(&mut self, shared: &Shared, epoch: u32, error: &Error) {
        if let Some(id) = error.sample().filter(|id| self.bad.insert(*id)) {
            self.counts.samples = self.bad.len() as u64;
            self.write(shared, epoch, id, error, "failed", None);
        }
    }

    fn write(
        &mut self,
        shared: &Shared,
        epoch: u32,
        id: u64,
        error: &Error,
        done: &str,
        by: Option<u64>,
    ) {
        let Some(log) = &mut self.log else { return };
        let name = shared.reader.place(id);
        let mut entry = Map::new();
        let mut put = |key: &str, value: Value| entry.insert(key.to_string(), value);
        let file = log.root.join(shared.reader.file(id));
        put("path", file.to_string_lossy().into());
        put("sample", id.into());
        if let Some(line) = error.line() {
            put("line", line.into());
        }
        put("epoch", epoch.into());
        if let Some(offset) = error.offset() {
            put("offset", offset.into());
        }
        // The name is an entry of its own.
        let subject = format!("{}: ", name.display());
        let reason = error.message();
        put("reason", reason.strip_prefix(&subject).unwrap_or(reason).into());
        put("done", done.into());
        if let Some(by) = by {
            put("by", by.into());
        }
        if let Err(error) = log.append(&Value::Object(entry)) {
            // Told by the loader; a full disk elsewhere does not end an epoch.
            self.log_failure = Some(error);
            self.log = None;
        }
    }
}

/// The quarantine log: a JSON object a line.
struct Log {
    file: Option<File>,
    path: PathBuf,
    root: PathBuf,
}

impl Log {
    fn append(&mut self, entry: &Value) -> Result<()> {
        let file = match &mut self.file {
            Some(file) => file,
            none => none.insert(open(&self.path)?),
        };
        let line = format!("{entry}\n");
        file.write_all(line.as_bytes()).map_err(|e| Error::io("write", &self.path, e))
    }
}

/// Opens the file at its end.
fn open(path: &Path) -> Result<File> {
    let failed = |e| Error::io("write", path, e);
    let mut options = OpenOptions::new();
    let mut file = options.read(true).append(true).create(true).open(path).map_err(failed)?;
    // A process that was killed while it wrote leaves a line without its end.
    let mut last = [b'\n'];
    if file.seek(SeekFrom::End(0)).map_err(failed)? > 0 {
        file.seek(SeekFrom::End(-1)).map_err(failed)?;
        file.read_exact(&mut last).map_err(failed)?;
    }
    if last != [b'\n'] {
        file.write_all(b"\n").map_err(failed)?;
    }
    Ok(file)
}
