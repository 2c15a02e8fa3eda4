//! Epochs that find none of their files in memory.

use anyhow::Result;
use forebay::error::Error;
use rustix::fs::{Advice, fadvise};
use std::path::PathBuf;

/// The files behind the samples, each once.
pub(super) struct Cold(Vec<PathBuf>);

impl Cold {
    pub(super) fn new(mut files: Vec<PathBuf>) -> Self {
        files.sort_unstable();
        files.dedup();
        // What is not written yet stays in memory, whatever is advised.
        rustix::fs::sync();
        Cold(files)
    }

    /// Has the system forget what it holds of them. It may decline: what was read from the disk
    /// afterwards is counted and told.
    pub(super) fn forget(&self) -> Result<()> {
        for path in &self.0 {
            let file = forebay::file::open(path)?;
            fadvise(&file, 0, None, Advice::DontNeed)
                .map_err(|e| Error::io("drop from memory", path, e.into()))?;
        }
        Ok(())
    }
}
