//! Data sets that forebay writes: CIFAR-10, and shapes it draws itself, as directories of JPEG files;
//! and any directory of images as tar shards.

pub mod cifar10;
pub mod export;
pub mod pack;
pub mod shapes;

use crate::error::{Error, ErrorKind, Result};
use rustix::fs::{FlockOperation, Mode, OFlags};
use std::os::fd::OwnedFd;
use std::path::Path;

/// Makes the directory `dir` where it is missing, and opens it for this process alone, as long as what
/// comes back lives: two writers of one directory would use the same temporary names.
fn claim(dir: &Path) -> Result<OwnedFd> {
    std::fs::create_dir_all(dir).map_err(|e| Error::io("create directory", dir, e))?;
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let fd = rustix::fs::open(dir, flags, Mode::empty())
        .map_err(|e| Error::io("open directory", dir, e.into()))?;
    // Where the file system has no locks there is nothing to ask.
    let lock = rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive);
    if lock == Err(rustix::io::Errno::WOULDBLOCK) {
        let what = "another export or packing is writing here";
        return Err(Error::new(ErrorKind::Io, what).at_path(dir));
    }
    Ok(fd)
}

/// Labelled images of one size, made or found one at a time, from any thread.
pub trait Source: Sync {
    /// Number of images.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rows and columns of every image, 1 to 65,535.
    fn side(&self) -> u32;

    /// Names of the classes by label.
    fn classes(&self) -> &[String];

    /// The label of image `index`, below the number of classes.
    fn label(&self, index: u64) -> u8;

    /// Puts image `index` into `rgb`: `side` x `side` x 3 bytes, rows top down. Errors are those of
    /// where it comes from.
    fn image(&self, index: u64, rgb: &mut [u8]) -> Result<()>;
}
