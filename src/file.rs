//! Files: read without waiting, and replaced whole or not at all.
//!
//! A name that comes from outside may lead to anything. Opening a FIFO waits for a writer and a device
//! may never come to an end, so only regular files are read, and no more of them than was asked for.

use crate::error::{Error, ErrorKind, Result};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// What keeps an open from waiting, and from making a terminal this process's own.
pub(crate) const AT_ONCE: OFlags = OFlags::NONBLOCK.union(OFlags::NOCTTY);

/// Opens the regular file `path` for reading.
///
/// # Errors
/// The operating system's, and what is no regular file.
pub fn open(path: &Path) -> Result<File> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | AT_ONCE;
    let file: OwnedFd = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|e| Error::io("read", path, e.into()))?;
    length(&file, path)?;
    Ok(file.into())
}

/// Reads the whole regular file `path`.
///
/// # Errors
/// As [`open`], and a file of more than `limit` bytes.
pub fn read(path: &Path, limit: u64) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    read_all(open(path)?, path, limit, &mut bytes)?;
    Ok(bytes)
}

/// Reads all of the regular file `file` into `buf`, replacing what it held. Errors carry `path`.
pub(crate) fn read_all(file: impl AsFd, path: &Path, limit: u64, buf: &mut Vec<u8>) -> Result<()> {
    buf.clear();
    let size = length(&file, path)?;
    let refused = |kind, what: String| Err(Error::new(kind, what).at_path(path));
    if size > limit {
        let what = format!("has {size} bytes, above the limit of {limit}");
        return refused(ErrorKind::Limit, what);
    }
    let size = size as usize;
    // Asking for a byte more than there are makes the first read end short, which says that
    // the file ends there and saves the read that would return 0.
    if buf.try_reserve(size + 1).is_err() {
        return refused(ErrorKind::Resources, format!("out of memory for its {size} bytes"));
    }
    // By its place, since others may be reading through the same file.
    let pread = |buf: &mut Vec<u8>| {
        let at = buf.len() as u64;
        rustix::io::pread(&file, rustix::buffer::spare_capacity(buf), at)
    };
    fill(buf, size, pread).map_err(|e| Error::io("read", path, e.into()))?;
    if buf.len() != size {
        return refused(ErrorKind::Io, "its size changed while it was read".into());
    }
    Ok(())
}

/// The same in one call, where a read that stops within a page has come to the end: of regular files on
/// [`ends_short`]. False: it takes more than that, or something is wrong.
///
/// Nothing says that `file` is a regular one but that it can be read at a place, which FIFOs, sockets and
/// terminals cannot. A device, which only the machine's owner can make, does not end.
pub(crate) fn read_at_once(file: impl AsFd, limit: u64, buf: &mut Vec<u8>) -> bool {
    /// Room for a small file, before `buf` has seen a larger one.
    const ROOM: usize = 16 << 10;
    /// What is read goes page by page: an error behind the first, and the most that one call gives, end
    /// at a page's edge. What ends there is read in the way that tells them.
    const PAGE: usize = 4096;
    buf.clear();
    if buf.try_reserve(ROOM).is_err() {
        return false;
    }
    let room = buf.capacity();
    let got = rustix::io::pread(&file, rustix::buffer::spare_capacity(buf), 0);
    got.is_ok_and(|got| got % PAGE != 0 && got < room && got as u64 <= limit)
}

/// Whether `dir` lies on a file system of this machine's own disks or memory, where a read of a regular
/// file that stops within a page has come to the end. Elsewhere it may give less at any time.
pub(crate) fn ends_short(dir: impl AsFd) -> bool {
    // ext2 to ext4, XFS, Btrfs, F2FS, tmpfs: the numbers of linux/magic.h.
    let known = [0xEF53, 0x5846_5342, 0x9123_683E, 0xF2F5_2010, 0x0102_1994];
    rustix::fs::fstatfs(dir).is_ok_and(|found| known.contains(&(found.f_type as u64)))
}

/// Has the system read the regular file `file`, which stays in its memory; how many bytes, of at most
/// `limit`. Nothing is told of what goes wrong.
pub(crate) fn warm(file: impl AsFd, limit: u64) -> u64 {
    if length(&file, Path::new("")).is_err() {
        return 0;
    }
    let mut piece = [const { MaybeUninit::<u8>::uninit() }; 32 << 10];
    let mut total = 0;
    while total < limit {
        match rustix::io::read(&file, &mut piece) {
            Ok((got, rest)) => {
                total += got.len() as u64;
                // Less than was asked for is the end.
                if !rest.is_empty() {
                    break;
                }
            }
            Err(Errno::INTR) => {}
            Err(_) => break,
        }
    }
    total
}

/// Reads on until `buf` holds `size` bytes or the file has no more. `read` is one call of the system,
/// which puts what it gets behind what is there and tells how much that was.
fn fill(
    buf: &mut Vec<u8>,
    size: usize,
    mut read: impl FnMut(&mut Vec<u8>) -> rustix::io::Result<usize>,
) -> rustix::io::Result<()> {
    while buf.len() < size {
        match read(buf) {
            Ok(0) => break,
            Ok(_) | Err(Errno::INTR) => {}
            Err(e) => return Err(e),
        }
    }
    Ok(())
}

/// Bytes of a regular file; the error for anything else says what it is.
pub(crate) fn length(file: impl AsFd, path: &Path) -> Result<u64> {
    let stat = rustix::fs::fstat(file).map_err(|e| Error::io("read", path, e.into()))?;
    let what = match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => return Ok(stat.st_size as u64),
        FileType::Directory => "a directory",
        FileType::Fifo => "a FIFO",
        FileType::CharacterDevice | FileType::BlockDevice => "a device",
        _ => "a special file",
    };
    Err(Error::new(ErrorKind::Data, format!("is {what}, not a regular file")).at_path(path))
}

/// Puts at `path` what `write` writes: into a file beside it, which is then renamed over it. Whatever
/// happens to this process, `path` holds what it held before or all of the new.
///
/// # Errors
/// Those of `write` and of the operating system.
pub fn put(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    let put = || {
        let mut file = create_beside(path)?;
        write(&mut file)?;
        drop(file);
        fs::rename(beside(path), path)
    };
    put().map_err(|e| {
        // What could be written of it helps nobody, and may be what filled the disk.
        let _ = fs::remove_file(beside(path));
        Error::io("write", path, e)
    })
}

/// The same, and on the disk when this returns, so that it outlives a power failure.
///
/// # Errors
/// As [`put`].
pub fn replace(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    put(path, |file| {
        write(file)?;
        file.sync_all()
    })?;
    // The rename itself is on disk only once the directory is.
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let sync = File::open(parent.unwrap_or(Path::new("."))).and_then(|dir| dir.sync_all());
    sync.map_err(|e| Error::io("write", path, e))
}

/// Makes the file that [`put`] writes to, or empties the one that a killed run left.
///
/// # Errors
/// The operating system's.
pub fn create_beside(path: &Path) -> io::Result<File> {
    // What lies there may be a link or a FIFO of somebody else's making.
    let flags = (OFlags::NOFOLLOW | AT_ONCE).bits() as i32;
    let mut options = OpenOptions::new();
    options.write(true).create(true).truncate(true).custom_flags(flags).open(beside(path))
}

/// Where [`put`] writes: `.NAME.partial` in the same directory.
pub fn beside(path: &Path) -> PathBuf {
    let mut name = OsString::from(".");
    name.push(path.file_name().unwrap_or_default());
    name.push(".partial");
    path.with_file_name(name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;
    use std::io::Write;
    use std::os::unix::fs::symlink;

    /// A system that answers as `answers` say: so many bytes, or an error.
    fn filled(size: usize, answers: &[Result<usize, Errno>]) -> (rustix::io::Result<()>, Vec<u8>) {
        let mut answers: VecDeque<_> = answers.iter().copied().collect();
        let mut buf = Vec::new();
        let result = fill(&mut buf, size, |buf| {
            let got = answers.pop_front().expect("no call after the last answer")?;
            let from = buf.len();
            buf.extend((from..from + got).map(|i| i as u8));
            Ok(got)
        });
        assert!(answers.is_empty(), "every answer was asked for");
        (result, buf)
    }

    /// Signals and short reads are no end; an error in the middle is one.
    #[test]
    fn reading_goes_on_until_the_end_or_an_error() {
        let whole: Vec<u8> = (0..10).collect();
        let calls = [Err(Errno::INTR), Ok(1), Ok(4), Err(Errno::INTR), Err(Errno::INTR), Ok(5)];
        assert_eq!(filled(10, &calls), (Ok(()), whole.clone()));
        assert_eq!(filled(10, &[Ok(6), Ok(0)]), (Ok(()), whole[..6].to_vec()));
        // One that grew gives the byte more that was asked for.
        assert_eq!(filled(9, &[Ok(10)]), (Ok(()), whole));
        assert_eq!(filled(10, &[Ok(5), Err(Errno::INTR), Err(Errno::IO)]).0, Err(Errno::IO));
        assert_eq!(filled(0, &[]).1, b"");
    }

    #[test]
    fn what_is_no_regular_file_is_refused_without_waiting() {
        let dir = tempfile::tempdir().unwrap();
        let path = |name: &str| dir.path().join(name);
        rustix::fs::mknodat(rustix::fs::CWD, path("fifo"), FileType::Fifo, 0o600.into(), 0)
            .unwrap();
        fs::write(path("file"), b"12345").unwrap();
        assert_eq!(read(&path("file"), 5).unwrap(), b"12345");
        let refused = |path: &Path| {
            let error = read(path, 4).unwrap_err();
            assert_eq!(error.path(), Some(path));
            error.message().to_string()
        };
        assert_eq!(refused(&path("file")), "has 5 bytes, above the limit of 4");
        assert_eq!(refused(&path("fifo")), "is a FIFO, not a regular file");
        assert_eq!(refused(dir.path()), "is a directory, not a regular file");
        assert_eq!(refused(Path::new("/dev/zero")), "is a device, not a regular file");
        assert_eq!(refused(&path("none")), "cannot read: no such file or directory");
    }

    /// Every size around what the buffer holds, in a buffer that grows meanwhile and in one that has.
    #[test]
    fn reading_until_it_ends_short_is_reading_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        let mut buf = Vec::new();
        let read_short =
            |file: File, limit, buf: &mut Vec<u8>| match read_at_once(&file, limit, buf) {
                true => Ok(()),
                false => read_all(&file, Path::new("zero"), limit, buf),
            };
        for size in [0, 1, 16_383, 16_384, 16_385, 50_000, 49_999, 100_000, 100_001, 3] {
            let bytes: Vec<u8> = (0..size).map(|k| (k * 7 / 3) as u8).collect();
            fs::write(&path, &bytes).unwrap();
            let mut read = |limit| read_short(open(&path).unwrap(), limit, &mut buf);
            assert_eq!(read((size as u64).saturating_sub(1)).is_ok(), size == 0);
            read(size as u64).unwrap();
            assert_eq!(buf, bytes);
            read_short(open(&path).unwrap(), 1 << 20, &mut Vec::new()).unwrap();
        }
        let device = File::open("/dev/zero").unwrap();
        let refused = read_short(device, 1 << 20, &mut buf).unwrap_err();
        assert_eq!(refused.to_string(), "zero: is a device, not a regular file");
        assert!(
            ends_short(File::open("/dev/shm").unwrap())
                && !ends_short(File::open("/proc").unwrap())
        );
    }

    #[test]
    fn files_are_warmed_up_to_the_limit() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, vec![7; 100_000]).unwrap();
        let warmed = |limit| warm(open(&path).unwrap(), limit);
        assert_eq!((warmed(u64::MAX), warmed(0)), (100_000, 0));
        assert!((40_000..100_000).contains(&warmed(40_000)));
        assert_eq!(warm(File::open(dir.path()).unwrap(), 1), 0);
        assert_eq!(warm(File::open("/dev/zero").unwrap(), 1), 0);
    }

    #[test]
    fn a_file_is_replaced_whole_or_not_at_all() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(&path, "before").unwrap();
        let full = || Err(io::Error::from(io::ErrorKind::StorageFull));
        let failed = replace(&path, |file| file.write_all(b"half").and(full()));
        assert_eq!(failed.unwrap_err().path(), Some(path.as_path()));
        assert_eq!(fs::read(&path).unwrap(), b"before");
        // What a killed run left is written over.
        fs::write(beside(&path), "a longer half").unwrap();
        replace(&path, |file| file.write_all(b"after")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"after");
        assert_eq!(dir.path().read_dir().unwrap().count(), 1);
        assert_eq!(beside(Path::new("a/b.c")), Path::new("a/.b.c.partial"));
    }

    /// Whoever may write to the directory cannot make us wait, nor write elsewhere.
    #[test]
    fn what_lies_beside_is_not_followed() {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("file");
        fs::write(dir.path().join("other"), "other").unwrap();
        symlink("other", beside(&path)).unwrap();
        put(&path, |file| file.write_all(b"new")).unwrap_err();
        assert_eq!(fs::read(dir.path().join("other")).unwrap(), b"other");
        let fifo = beside(&path);
        rustix::fs::mknodat(rustix::fs::CWD, &fifo, FileType::Fifo, 0o600.into(), 0).unwrap();
        put(&path, |file| file.write_all(b"new")).unwrap_err();
        // Both were cleared out of the way.
        put(&path, |file| file.write_all(b"new")).unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }
}
