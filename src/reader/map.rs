//! Files mapped into memory, which are read by copying out of them.

#![allow(unsafe_code)]

use super::fault::{Gone, Watch};
use memmap2::{MmapOptions, MmapRaw};
use std::io;
use std::os::fd::OwnedFd;

/// A mapped file.
pub(crate) struct Map {
    // Dropped before the memory that it watches over.
    watch: Watch,
    memory: MmapRaw,
}

impl Map {
    /// Maps the first `bytes` bytes of `file`, which has so many; from 1.
    pub(crate) fn new(file: &OwnedFd, bytes: u64) -> io::Result<Map> {
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let memory = MmapOptions::new().len(bytes).map_raw_read_only(file)?;
        // SAFETY: the mapping is of whole pages, and lives as long as what watches over it. Its memory is
        // reached through that alone.
        let watch = unsafe { Watch::new(memory.as_ptr(), bytes) };
        Ok(Map { watch, memory })
    }

    /// Bytes of the file when it was mapped.
    pub(crate) fn len(&self) -> u64 {
        self.memory.len() as u64
    }

    /// Fills `into` with the file's bytes from byte `from` on, as [`Watch::copy`].
    pub(crate) fn copy(&self, from: u64, into: &mut [u8]) -> Result<(), Gone> {
        self.watch.copy(usize::try_from(from).map_err(|_| Gone)?, into)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs::File;
    use std::os::unix::process::ExitStatusExt;
    use std::process::Command;
    use std::thread;

    /// A file of `pages` pages and a half, its n-th byte n % 251 + 1, and the file mapped.
    fn mapped(pages: usize) -> (File, Vec<u8>, Map) {
        let bytes: Vec<u8> =
            (0..pages * page() + page() / 2).map(|i| (i % 251) as u8 + 1).collect();
        let mut file = tempfile::tempfile().unwrap();
        io::Write::write_all(&mut file, &bytes).unwrap();
        let map = Map::new(&file.try_clone().unwrap().into(), bytes.len() as u64).unwrap();
        (file, bytes, map)
    }

    fn page() -> usize {
        rustix::param::page_size()
    }

    fn copied(map: &Map, from: usize, count: usize) -> Result<Vec<u8>, Gone> {
        let mut bytes = vec![7; count];
        map.copy(from as u64, &mut bytes).map(|()| bytes)
    }

    #[test]
    fn a_copy_is_within_the_file() {
        let (_file, bytes, map) = mapped(3);
        assert_eq!(copied(&map, 0, bytes.len()).as_ref(), Ok(&bytes));
        assert_eq!(copied(&map, 5000, 0), Ok(vec![]));
        assert_eq!(copied(&map, bytes.len() - 1, 1).unwrap(), bytes[bytes.len() - 1..]);
        assert_eq!(copied(&map, bytes.len(), 1), Err(Gone));
        assert_eq!(copied(&map, bytes.len() - 1, 2), Err(Gone));
        assert_eq!(map.copy(u64::MAX, &mut [0; 2]), Err(Gone));
    }

    /// What is before the cut is still there, what is behind it is gone for good.
    #[test]
    fn a_file_that_is_cut_is_an_error() {
        let (file, bytes, map) = mapped(5);
        let cut = 2 * page();
        file.set_len(cut as u64).unwrap();
        assert_eq!(copied(&map, cut - 10, 11), Err(Gone));
        assert_eq!(copied(&map, cut - 10, 10).unwrap(), bytes[cut - 10..cut]);
        assert_eq!(copied(&map, bytes.len() - 1, 1), Err(Gone));
        file.set_len(bytes.len() as u64).unwrap();
        assert_eq!(copied(&map, cut, 1), Err(Gone));
        assert_eq!(copied(&map, 0, cut).unwrap(), bytes[..cut]);
        // Cut further, in the middle of a page: zeros up to its end.
        file.set_len(10).unwrap();
        assert_eq!(copied(&map, 0, 12).unwrap(), [&bytes[..10], &[0, 0]].concat());
        assert_eq!(copied(&map, page(), 1), Err(Gone));
        assert_eq!(copied(&map, 0, 10).unwrap(), bytes[..10]);
        // Another mapping of the file knows nothing of it.
        file.set_len(bytes.len() as u64).unwrap();
        let again = Map::new(&file.into(), bytes.len() as u64).unwrap();
        assert_eq!(copied(&again, page(), 3), Ok(vec![0; 3]));
    }

    /// Whoever comes first: no copy holds zeros that are not the file's and calls them right.
    #[test]
    fn threads_fault_at_once() {
        for _ in 0..20 {
            let (file, bytes, map) = mapped(64);
            let (map, bytes) = (&map, &bytes);
            thread::scope(|scope| {
                for thread in 0..4 {
                    scope.spawn(move || {
                        for turn in 0..400 {
                            let from = (turn * 7919 + thread * 104_729) % (bytes.len() - 600);
                            if let Ok(found) = copied(map, from, 600) {
                                // The cut is at a page, so there are no zeros without a signal.
                                assert!(found == bytes[from..from + 600], "{from}");
                            }
                        }
                    });
                }
                file.set_len(8 * page() as u64).unwrap();
            });
            assert_eq!(copied(map, 0, 8 * page()).unwrap(), bytes[..8 * page()]);
            assert_eq!(copied(map, 8 * page(), 1), Err(Gone));
        }
    }

    /// The handler is for copies alone.
    #[test]
    fn other_faults_end_the_process() {
        const CHILD: &str = "FOREBAY_TEST_FAULT";
        if std::env::var_os(CHILD).is_none() {
            let test = "reader::map::tests::other_faults_end_the_process";
            let mut child = Command::new(std::env::current_exe().unwrap());
            let output = child.args(["--exact", test]).env(CHILD, "1").output().unwrap();
            assert_eq!(output.status.signal(), Some(libc::SIGBUS), "{output:?}");
            return;
        }
        let (file, bytes, map) = mapped(2);
        let other = MmapOptions::new().len(bytes.len()).map_raw_read_only(&file).unwrap();
        file.set_len(0).unwrap();
        assert_eq!(copied(&map, 0, 1), Err(Gone));
        // SAFETY: it is mapped. That its file is not there any more is what the test is about.
        unsafe { other.as_ptr().read_volatile() };
    }
}
