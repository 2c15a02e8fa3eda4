//! Files that stay open from epoch to epoch: to open a small file takes longer than to read it.
//!
//! Only files on this machine's own disks stay open, since elsewhere each would be a burden to a server.
//! A file that is replaced meanwhile is read as it was when it was opened.

use super::beneath::Root;
use crate::error::Result;
use crate::file;
use rustix::io::fcntl_dupfd_cloexec;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::ffi::CStr;
use std::os::fd::OwnedFd;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// The largest file that stays open, in bytes: of larger ones reading takes longer than opening.
const SMALL: usize = 16 << 10;
/// Open files of all readers of this process, at most: each holds about 1.5 KiB of the system's memory.
const MOST: u64 = 1 << 16;
/// Numbers of open files that are left to the rest of the process.
const LEFT: u64 = 4096;
/// Numbers below stay free, for programs that wait for files by `select`, which takes no others.
const LOWEST: i32 = 1024;

/// Open files of all readers.
static OPEN: AtomicU64 = AtomicU64::new(0);

/// The open files of a reader, by sample.
#[derive(Default)]
pub(super) struct Held {
    places: Vec<OnceLock<OwnedFd>>,
}

impl Held {
    /// For a reader of `samples` samples below `root`. Of more than may be open at once the first have a
    /// place.
    pub(super) fn new(root: &Root, samples: u64) -> Self {
        let count = if root.is_near() && samples > 0 { samples.min(most()) as usize } else { 0 };
        Held { places: std::iter::repeat_with(OnceLock::new).take(count).collect() }
    }

    /// Reads the whole regular file of sample `id`, which is `name` below `root`, as [`Root::read`] does.
    pub(super) fn read<'a>(
        &self,
        root: &Root,
        id: u64,
        name: impl FnOnce() -> &'a CStr,
        limit: u64,
        buf: &mut Vec<u8>,
    ) -> Result<()> {
        let place = usize::try_from(id).ok().and_then(|id| self.places.get(id));
        let held = place.and_then(OnceLock::get);
        if held.is_some_and(|file| file::read_at_once(file, limit, buf)) {
            return Ok(());
        }
        let file = root.read_open(name(), limit, buf)?;
        if let (Some(place), Some(file), None) = (place, file, held)
            && buf.len() <= SMALL
        {
            keep(place, &file);
        }
        Ok(())
    }
}

impl Drop for Held {
    fn drop(&mut self) {
        let open = self.places.iter().filter(|place| place.get().is_some()).count();
        // Closed before they no longer count.
        self.places.clear();
        OPEN.fetch_sub(open as u64, Relaxed);
    }
}

/// Keeps `file` in `place`, if there is room for one more and nobody was faster.
fn keep(place: &OnceLock<OwnedFd>, file: &OwnedFd) {
    let fits = OPEN.fetch_add(1, Relaxed) < most();
    let kept = fits && fcntl_dupfd_cloexec(file, LOWEST).is_ok_and(|file| place.set(file).is_ok());
    if !kept {
        OPEN.fetch_sub(1, Relaxed);
    }
}

/// How many files may stay open. The first call raises the process's own limit to that and [`LEFT`], as far
/// as the system lets it.
fn most() -> u64 {
    static FOUND: OnceLock<u64> = OnceLock::new();
    *FOUND.get_or_init(|| {
        let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
        let wanted = maximum.unwrap_or(u64::MAX).min(MOST + LEFT);
        if wanted <= LEFT {
            return 0;
        }
        let current = match current {
            Some(now) if now < wanted => {
                let raised = Rlimit { current: Some(wanted), maximum };
                if setrlimit(Resource::Nofile, raised).is_ok() { wanted } else { now }
            }
            now => now.unwrap_or(u64::MAX),
        };
        current.saturating_sub(LEFT).min(MOST)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    #[test]
    fn small_files_stay_open_and_are_read_as_they_are() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let root = Root::open(dir.path(), false).unwrap();
        let held = Held::new(&root, 3);
        if held.places.is_empty() {
            println!("skipped: this kernel or its limit of open files lets none stay open");
            return;
        }
        let read = |id| {
            let mut buf = b"left over".to_vec();
            held.read(&root, id, || c"file", 20_000, &mut buf).map(|()| buf)
        };
        let open = || held.places.iter().filter(|place| place.get().is_some()).count();
        assert!(read(0).is_err() && open() == 0);
        fs::write(dir.path().join("file"), vec![1; 17_000]).unwrap();
        assert_eq!((read(0).unwrap().len(), open()), (17_000, 0), "a large one");
        for (id, expected) in [(0, 1), (0, 1), (2, 2), (3, 2), (u64::MAX, 2)] {
            fs::write(dir.path().join("file"), [id as u8; 30]).unwrap();
            assert_eq!(read(id).unwrap(), [id as u8; 30]);
            assert_eq!(open(), expected);
        }
        // One that grew is read whole, or refused, as any other.
        fs::write(dir.path().join("file"), vec![2; 18_000]).unwrap();
        assert_eq!(read(0).unwrap().len(), 18_000);
        fs::write(dir.path().join("file"), vec![2; 21_000]).unwrap();
        assert!(read(0).unwrap_err().message().contains("above the limit"));
        // One that is gone is there for who has it open.
        fs::write(dir.path().join("file"), [5; 30]).unwrap();
        fs::remove_file(dir.path().join("file")).unwrap();
        assert!(read(0).is_ok() && read(1).is_err());
        // Other tests may hold files of theirs.
        let all = OPEN.load(Relaxed);
        assert!(all >= 2);
    }
}
