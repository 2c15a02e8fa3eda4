//! A file that a body's bytes are put into, for parsers that read one.

use super::folder;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

pub(super) struct Input {
    _folder: TempDir,
    path: PathBuf,
}

impl Input {
    pub(super) fn named(name: &str) -> Input {
        let folder = folder();
        let path = folder.path().join(name);
        Input { _folder: folder, path }
    }

    pub(super) fn put(&self, bytes: &[u8]) -> &Path {
        std::fs::write(&self.path, bytes).expect("the file is writable");
        &self.path
    }
}
