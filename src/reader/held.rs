//! Small files that stay mapped from epoch to epoch: to open one takes longer than to read and decode it.
//!
//! A file that is read a second time is mapped, and from then on copied without a call of the system. Only
//! files on this machine's own disks are, since what lies elsewhere would be a burden to a server.
//! A file that is replaced meanwhile is read as it was when it was mapped.
//!
//! One that is written to is read as it is, as far as the mapping can tell: the page in which a file ends is
//! zeros behind that end, so a last byte that is zero, or one behind it that is not, tells of another length.
//! Such a file is read by opening it.
//!
//! A process may have only so many mappings. Files that lie between what a program allocates would keep the
//! system from joining that to one. So addresses are set aside for all of them, and where the system refuses
//! one no more are mapped.

#![allow(unsafe_code)]

use super::beneath::Root;
use super::fault::Watch;
use crate::error::Result;
use rustix::mm::{MapFlags, ProtFlags, mmap, mmap_anonymous, munmap};
use std::ffi::CStr;
use std::ops::Range;
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::atomic::{
    AtomicBool, AtomicU64, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release},
};
use std::sync::{Mutex, PoisonError};

/// The largest file that is mapped, in bytes: of larger ones reading takes longer than opening.
const SMALL: usize = 16 << 10;
/// Mapped files of all readers of this process, at most: each holds about 2 KiB of the system's memory.
const MOST: usize = 1 << 16;
/// Mappings that are left to the rest of the process, beside those that it has when a reader is opened.
const LEFT: usize = 8192;
/// Bytes behind a file's end, in its last page, that are looked at.
const BEHIND: usize = 16;

/// Mapped files of all readers.
static MAPPED: AtomicUsize = AtomicUsize::new(0);

/// The mapped files of a reader, by sample.
#[derive(Default)]
pub(super) struct Held {
    places: Vec<AtomicU64>,
    /// The addresses that are set aside: none for no places.
    addresses: Option<Addresses>,
}

/// What a place says: nothing, that its file was read, or where it is mapped, as the number of its first
/// page and its length of 2 to [`SMALL`] bytes.
const NEW: u64 = 0;
const READ: u64 = 1;
const LENGTH: u32 = (2 * SMALL).ilog2();

/// Addresses for files.
struct Addresses {
    start: *mut u8,
    bytes: usize,
    /// Bytes of a page.
    page: usize,
    /// The first byte that is still free.
    free: AtomicUsize,
    /// How many files are mapped.
    files: AtomicUsize,
    /// Files of all readers that may be mapped before this one maps another.
    most: usize,
    /// Whether no more are mapped.
    full: AtomicBool,
    /// Ranges that may be somebody else's by now, since the system failed at them.
    torn: Mutex<Vec<Range<usize>>>,
}

// SAFETY: the memory is read by `Watch::copy` alone, from any thread, and given back when no thread can
// reach it any more.
unsafe impl Send for Addresses {}
// SAFETY: as above.
unsafe impl Sync for Addresses {}

impl Held {
    /// For a reader of `samples` samples below `root`. Of more than may be mapped at once the first have a
    /// place.
    pub(super) fn new(root: &Root, samples: u64) -> Self {
        let most = if root.is_near() && samples > 0 { most() } else { 0 };
        let count = samples.min(most as u64) as usize;
        match Addresses::of(count, most) {
            Some(addresses) => Held {
                places: std::iter::repeat_with(AtomicU64::default).take(count).collect(),
                addresses: Some(addresses),
            },
            None => Held::default(),
        }
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
        let (Some(place), Some(addresses)) = (place, &self.addresses) else {
            return root.read(name(), limit, buf);
        };
        // Acquire: the file was mapped before its place said so.
        let said = place.load(Acquire);
        if said > READ {
            let (page, bytes) = (said >> LENGTH, said & ((1 << LENGTH) - 1));
            if bytes <= limit && addresses.copy(page as usize, bytes as usize, buf) {
                return Ok(());
            }
        }
        let file = root.read_open(name(), limit, buf)?;
        match (said, file) {
            (NEW, Some(_)) => {
                let _ = place.compare_exchange(NEW, READ, Relaxed, Relaxed);
            }
            (READ, Some(file)) => {
                if let Some(page) = addresses.map(&file, buf) {
                    let said = (page as u64) << LENGTH | buf.len() as u64;
                    // Where another thread was faster, this mapping is not used.
                    let _ = place.compare_exchange(READ, said, Release, Relaxed);
                }
            }
            // Others are read in this way each time.
            _ => {}
        }
        Ok(())
    }
}

impl Addresses {
    /// Sets addresses aside for `count` files, as long as all readers together have mapped fewer than `most`;
    /// none where the system has none, or for no file.
    fn of(count: usize, most: usize) -> Option<Addresses> {
        let page = rustix::param::page_size();
        let bytes = count.checked_mul(SMALL.next_multiple_of(page)).filter(|bytes| *bytes > 0)?;
        let flags = MapFlags::PRIVATE | MapFlags::NORESERVE;
        // SAFETY: new addresses of the system's choice, which nothing refers to.
        let start =
            unsafe { mmap_anonymous(ptr::null_mut(), bytes, ProtFlags::empty(), flags) }.ok()?;
        Some(Addresses {
            start: start.cast(),
            bytes,
            page,
            free: AtomicUsize::new(0),
            files: AtomicUsize::new(0),
            most,
            full: AtomicBool::new(false),
            torn: Mutex::default(),
        })
    }

    /// Maps `file`, which was just read as `bytes`; the number of its first page. `None` for one that is too
    /// large, whose end could not be told, or for which there is no room.
    fn map(&self, file: &OwnedFd, bytes: &[u8]) -> Option<usize> {
        let fits = (2..=SMALL).contains(&bytes.len());
        // Its last byte tells of a shorter file, and what is behind it of a longer one.
        let behind = self.page - bytes.len() % self.page;
        let tells = bytes.last() != Some(&0) && (BEHIND..self.page).contains(&behind);
        if !fits || !tells || self.full.load(Relaxed) {
            return None;
        }
        let before = MAPPED.fetch_add(1, Relaxed);
        let pages = bytes.len().next_multiple_of(self.page);
        let from = self.free.fetch_add(pages, Relaxed);
        let range = from..from.saturating_add(pages);
        if before >= self.most || range.end > self.bytes || !self.map_at(file, &range) {
            self.full.store(true, Relaxed);
            MAPPED.fetch_sub(1, Relaxed);
            return None;
        }
        self.files.fetch_add(1, Relaxed);
        Some(from / self.page)
    }

    /// Maps `file` at a range that `free` has passed.
    fn map_at(&self, file: &OwnedFd, range: &Range<usize>) -> bool {
        let flags = MapFlags::SHARED | MapFlags::FIXED;
        // SAFETY: these pages lie within the addresses that were set aside. Nobody else gets them, since
        // `free` has passed them, and nothing refers to them yet.
        let mapped = unsafe {
            mmap(self.start.add(range.start).cast(), range.len(), ProtFlags::READ, flags, file, 0)
        };
        if mapped.is_err() {
            // The system may have taken away what lay there before it failed.
            self.torn.lock().unwrap_or_else(PoisonError::into_inner).push(range.clone());
        }
        mapped.is_ok()
    }

    /// Copies a file of `bytes` bytes, which [`Addresses::map`] mapped at `page`, into `buf`; false where it
    /// is not there, or has another length now.
    fn copy(&self, page: usize, bytes: usize, buf: &mut Vec<u8>) -> bool {
        let seen = bytes + BEHIND;
        if buf.try_reserve(seen.saturating_sub(buf.len())).is_err() {
            return false;
        }
        buf.resize(seen, 0);
        let pages = bytes.next_multiple_of(self.page);
        // SAFETY: `map` has put the file's pages there, for good, and read-only. Where they were replaced by
        // zeros, since the file was cut, they are readable as well.
        let watch = unsafe { Watch::new(self.start.add(page * self.page), pages) };
        // The last byte once more: where another thread lays zeros meanwhile, it lays them to the end.
        let mut last = [0];
        let whole = watch.copy(0, buf).is_ok()
            && watch.copy(bytes - 1, &mut last).is_ok()
            && last != [0]
            && buf[bytes - 1] != 0
            && buf[bytes..].iter().all(|behind| *behind == 0);
        buf.truncate(bytes);
        whole
    }
}

impl Drop for Addresses {
    fn drop(&mut self) {
        let torn = self.torn.get_mut().unwrap_or_else(PoisonError::into_inner);
        torn.sort_by_key(|range| range.start);
        let mut from = 0;
        let end = self.bytes..self.bytes;
        for range in torn.drain(..).chain(std::iter::once(end)) {
            if from < range.start {
                // SAFETY: these were set aside by `of` and are still, whoever copied from them has borrowed
                // `self`, and nothing else refers to them.
                let _ = unsafe { munmap(self.start.add(from).cast(), range.start - from) };
            }
            from = range.end;
        }
        MAPPED.fetch_sub(*self.files.get_mut(), Relaxed);
    }
}

/// How many files of all readers may be mapped.
fn most() -> usize {
    let read = |path| std::fs::read_to_string(path).unwrap_or_default();
    let most = read("/proc/sys/vm/max_map_count").trim().parse::<usize>().unwrap_or(0);
    let others = read("/proc/self/maps").lines().count().saturating_sub(MAPPED.load(Relaxed));
    most.saturating_sub(LEFT + others).min(MOST)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;

    fn held(dir: &std::path::Path, samples: u64) -> Option<(Root, Held)> {
        let root = Root::open(dir, false).unwrap();
        let held = Held::new(&root, samples);
        if held.places.is_empty() {
            println!("skipped: this kernel or its limits let no file stay mapped");
            return None;
        }
        Some((root, held))
    }

    fn mapped(held: &Held) -> usize {
        held.places.iter().filter(|place| place.load(Acquire) > READ).count()
    }

    #[test]
    fn small_files_stay_mapped_and_are_read_as_they_are() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let Some((root, held)) = held(dir.path(), 3) else { return };
        let read = |id| {
            let mut buf = b"left over".to_vec();
            held.read(&root, id, || c"file", 20_000, &mut buf).map(|()| buf)
        };
        let write = |bytes: &[u8]| fs::write(dir.path().join("file"), bytes).unwrap();
        assert!(read(0).is_err());
        // One that is large, and those whose end could not be told.
        for bytes in [vec![1; 17_000], vec![1; 8192], vec![1; 4090], vec![1, 0], vec![1], vec![]] {
            write(&bytes);
            assert!((0..3).all(|_| read(0).unwrap() == bytes));
            assert_eq!(mapped(&held), 0);
        }
        write(&[1; 30]);
        for (id, expected) in
            [(0, 1), (0, 1), (2, 1), (2, 2), (2, 2), (3, 2), (3, 2), (u64::MAX, 2)]
        {
            assert_eq!(read(id).unwrap(), [1; 30]);
            assert_eq!(mapped(&held), expected, "{id}");
        }
        // One that is written to is read as it is, whatever its length by now, or refused as any other.
        for bytes in [31, 29, 0, 46, 47, 4095, 4096, 4097, 18_000, 30].map(|count| vec![2; count]) {
            write(&bytes);
            assert!(read(0).unwrap() == bytes, "{}", bytes.len());
        }
        write(&[2; 21_000]);
        assert!(read(0).unwrap_err().message().contains("above the limit"));
        // One that is gone is there for who has it mapped.
        write(&[5; 30]);
        fs::remove_file(dir.path().join("file")).unwrap();
        assert!(read(2).is_ok() && read(1).is_err());
        // Other tests may have files of theirs.
        assert!(MAPPED.load(Relaxed) >= 2);
    }

    /// Pages that are no longer there raise SIGBUS; what is there again is read again.
    #[test]
    fn a_file_that_is_cut_is_read_as_it_is() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let Some((root, held)) = held(dir.path(), 2) else { return };
        let file = dir.path().join("file");
        let bytes: Vec<u8> = (0..9000).map(|i| (i % 251) as u8 + 1).collect();
        let read = |id| {
            let mut buf = Vec::new();
            held.read(&root, id, || c"file", 20_000, &mut buf).map(|()| buf).unwrap()
        };
        fs::write(&file, &bytes).unwrap();
        for id in [0, 0, 1, 1] {
            assert!(read(id) == bytes);
        }
        assert_eq!(mapped(&held), 2);
        fs::write(&file, &bytes[..5000]).unwrap();
        assert!(read(0) == bytes[..5000]);
        fs::write(&file, &bytes).unwrap();
        assert!(read(0) == bytes && read(1) == bytes);
    }

    /// Threads that read the same files for the first time at once get the same bytes.
    #[test]
    fn threads_map_at_once() {
        let dir = tempfile::tempdir_in("/dev/shm").unwrap();
        let Some((root, held)) = held(dir.path(), 40) else { return };
        let names: Vec<_> =
            (0..40).map(|id| std::ffi::CString::new(id.to_string()).unwrap()).collect();
        for id in 0..40 {
            fs::write(dir.path().join(id.to_string()), vec![id as u8 + 1; 300 * id + 1]).unwrap();
        }
        std::thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| {
                    let mut buf = Vec::new();
                    for id in (0..4).flat_map(|_| 0..40) {
                        held.read(&root, id as u64, || &names[id], 20_000, &mut buf).unwrap();
                        assert!(buf == vec![id as u8 + 1; 300 * id + 1]);
                    }
                });
            }
        });
        // All but the one of one byte.
        assert_eq!(mapped(&held), 39);
    }
}
