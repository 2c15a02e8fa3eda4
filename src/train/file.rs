//! Files that appear whole or not at all.

use crate::error::{Error, Result};
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};

/// Puts at `path` what `write` writes: into a file beside it, which is synced and then renamed over
/// it. Whatever happens, `path` holds what it held before or all of the new.
///
/// # Errors
/// Those of `write` and of the operating system.
pub fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    let temporary = beside(path);
    let replace = || {
        let mut file = File::create(&temporary)?;
        write(&mut file)?;
        file.sync_all()?;
        fs::rename(&temporary, path)?;
        // The rename itself is on disk only once the directory is.
        let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
        File::open(parent.unwrap_or(Path::new(".")))?.sync_all()
    };
    replace().map_err(|e| {
        // What could be written of it helps nobody, and may be what filled the disk.
        let _ = fs::remove_file(&temporary);
        Error::io("write", path, e)
    })
}

/// Where [`replace`] writes: `.NAME.partial` in the same directory.
pub fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".partial");
    path.with_file_name(name)
}
