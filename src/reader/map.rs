//! Files mapped into memory, which are read by copying out of them.
//!
//! A mapping costs no call of the system a sample. But when its file is cut short, or the disk fails,
//! the next touch of a page that is no longer there raises SIGBUS, which ends a process. So there is
//! one way in, [`Map::copy`], and a handler of that signal that knows which mapping the thread it
//! interrupted is copying from. Where the fault lies in that one, it notes from which byte on the
//! file is gone and lays zeros under the rest, so that the copy comes to its end; then the copy finds
//! the note and fails. Nothing is asked of the system before it.
//!
//! What was lost stays lost, even where the file grows again: the pages are no longer the file's.
//!
//! Any other SIGBUS goes to whoever handled it before, or ends the process as it would have. A program
//! that blocks SIGBUS, or puts a handler of its own over this one, is ended by a file that is cut.

#![allow(unsafe_code)]

use libc::{c_int, c_void, sigaction, siginfo_t};
use memmap2::{MmapOptions, MmapRaw};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::cell::Cell;
use std::io;
use std::mem::{transmute, zeroed};
use std::os::fd::OwnedFd;
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering, compiler_fence, fence};
use std::sync::{Once, OnceLock};

/// A mapped file.
pub(crate) struct Map {
    memory: MmapRaw,
    watch: Watch,
}

/// What the handler knows of a mapping.
struct Watch {
    /// Its address.
    start: usize,
    /// Its bytes up to the end of its last page.
    bytes: usize,
    /// Bytes of a page, a power of two.
    page: usize,
    /// How many bytes, from the start, are still the file's. Never grows.
    left: AtomicUsize,
}

/// The bytes that were asked for are not there any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone;

thread_local! {
    /// The mapping that this thread is copying from, or null. Without a destructor or an initializer
    /// that runs, so that it may be looked at in a signal handler.
    static COPYING: Cell<*const Watch> = const { Cell::new(ptr::null()) };
}

impl Map {
    /// Maps the first `bytes` bytes of `file`, which has so many; from 1.
    pub(crate) fn new(file: &OwnedFd, bytes: u64) -> io::Result<Map> {
        install();
        let bytes = usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory)?;
        let memory = MmapOptions::new().len(bytes).map_raw_read_only(file)?;
        let page = rustix::param::page_size();
        let watch = Watch {
            start: memory.as_ptr().addr(),
            bytes: bytes.next_multiple_of(page),
            page,
            left: AtomicUsize::new(bytes),
        };
        Ok(Map { memory, watch })
    }

    /// Bytes of the file when it was mapped.
    pub(crate) fn len(&self) -> u64 {
        self.memory.len() as u64
    }

    /// Fills `into` with the file's bytes from byte `from` on. After an error its content is
    /// unspecified.
    ///
    /// The page in which a file ends is zeros behind that end, and the system raises no signal there:
    /// of a file that was cut within a page, up to a page of zeros may come without an error. Whoever
    /// gets a last byte of zero has to ask for the file's size, or to know the bytes otherwise.
    // A call, so that nothing is known here of what becomes of `into`: the compiler might else read
    // it from the mapping once more where it is used, which no handler watches over.
    #[inline(never)]
    pub(crate) fn copy(&self, from: u64, into: &mut [u8]) -> Result<(), Gone> {
        let from = usize::try_from(from).map_err(|_| Gone)?;
        let end = from.checked_add(into.len()).ok_or(Gone)?;
        if end > self.watch.left.load(Ordering::Relaxed) {
            return Err(Gone);
        }
        COPYING.set(&raw const self.watch);
        compiler_fence(Ordering::SeqCst);
        // SAFETY: `from..end` lies within the mapping, since `left` never exceeds its length, and the
        // mapping lives as long as `self`. `into` is borrowed mutably and apart from it. The memory is
        // reached by raw pointers alone, so nothing claims that it stays as it is: other processes may
        // write to the file, and the handler may replace pages by zeros, which stay mapped and
        // readable. A page that cannot be had raises SIGBUS, and the handler has been told above.
        unsafe {
            self.memory.as_ptr().add(from).copy_to_nonoverlapping(into.as_mut_ptr(), into.len());
        }
        compiler_fence(Ordering::SeqCst);
        COPYING.set(ptr::null());
        // Zeros may be those that another thread's fault has put here. It has noted that before it
        // asked the system for them, so whoever reads one of them finds the note behind this fence.
        fence(Ordering::SeqCst);
        match end > self.watch.left.load(Ordering::Relaxed) {
            true => Err(Gone),
            false => Ok(()),
        }
    }
}

impl Watch {
    /// Gives up the mapping from the page of `address` on; false where that is not in it, or the
    /// system has no memory left even for a note of zeros. Runs in the handler: one atomic operation
    /// and one call of the system, no lock, no allocation.
    fn give_up(&self, address: usize) -> bool {
        let Some(at) = address.checked_sub(self.start).filter(|at| *at < self.bytes) else {
            return false;
        };
        // To the end in one piece, which splits the mapping in two; all of it where the process may
        // have no more mappings than it has, since that splits nothing.
        [at & !(self.page - 1), 0].into_iter().any(|first| {
            self.left.fetch_min(first, Ordering::SeqCst);
            let page = ptr::without_provenance_mut(self.start + first);
            let flags = MapFlags::PRIVATE | MapFlags::FIXED | MapFlags::NORESERVE;
            // SAFETY: these are whole pages of the mapping, which is there: the interrupted copy
            // borrows it. Nothing refers to its memory but raw pointers of copies, to which these
            // pages are as readable as those before.
            unsafe { mmap_anonymous(page, self.bytes - first, ProtFlags::READ, flags) }.is_ok()
        })
    }
}

/// What SIGBUS did before.
static BEFORE: OnceLock<sigaction> = OnceLock::new();

/// Puts the handler in place, once for the process.
fn install() {
    static ONCE: Once = Once::new();
    ONCE.call_once(|| {
        // SAFETY: a sigaction is integers and an optional function, all of which may be zero.
        let (mut before, mut ours): (sigaction, sigaction) = unsafe { (zeroed(), zeroed()) };
        // SAFETY: both point to sigactions, and null asks without a change.
        let asked = unsafe { sigaction(libc::SIGBUS, ptr::null(), &mut before) };
        // Known before the handler may run.
        BEFORE.get_or_init(|| before);
        ours.sa_sigaction = on_bus_error as *const () as usize;
        // On the thread's own stack for signals where it has one: a fault may come deep down.
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART;
        // SAFETY: the mask is a valid one, empty; the handler has the form that SA_SIGINFO asks for.
        let set = unsafe { sigaction(libc::SIGBUS, &ours, ptr::null_mut()) };
        assert!(asked == 0 && set == 0, "SIGBUS is a signal that can be handled");
    });
}

/// Handles SIGBUS. Does what is allowed at any moment of any thread: reads this thread's cell and
/// atomics, and calls the system.
extern "C" fn on_bus_error(signal: c_int, info: *mut siginfo_t, context: *mut c_void) {
    // SAFETY: under SA_SIGINFO the system passes what it knows of the signal. The address is that of
    // the access where there was one; else it is some other number, and is not used.
    let (code, address) = unsafe { ((*info).si_code, (*info).si_addr().addr()) };
    // Raised by an access, and not sent by somebody: those codes are not positive.
    let accessed = code > 0;
    let copying = COPYING.get();
    if accessed && !copying.is_null() {
        // SAFETY: `copy` has set it on this thread and not taken it back, so it is what was
        // interrupted, and it borrows the map.
        let copying = unsafe { &*copying };
        if copying.give_up(address) {
            return;
        }
    }
    pass_on(signal, info, context, accessed);
}

/// Does what SIGBUS did before.
fn pass_on(signal: c_int, info: *mut siginfo_t, context: *mut c_void, accessed: bool) {
    let Some(before) = BEFORE.get() else { return };
    match before.sa_sigaction {
        libc::SIG_IGN if !accessed => {}
        libc::SIG_DFL | libc::SIG_IGN => {
            // The access is made once more when this returns, and ends the process.
            // SAFETY: it is what the system gave.
            unsafe { sigaction(signal, before, ptr::null_mut()) };
            if !accessed {
                // SAFETY: has no conditions. It waits until the handler returns, too.
                unsafe { libc::raise(signal) };
            }
        }
        handler if before.sa_flags & libc::SA_SIGINFO != 0 => {
            // SAFETY: whoever installed it with this flag gave a function of this form.
            let handler: extern "C" fn(c_int, *mut siginfo_t, *mut c_void) =
                unsafe { transmute(ptr::with_exposed_provenance::<()>(handler)) };
            handler(signal, info, context);
        }
        handler => {
            // SAFETY: as above, without the flag.
            let handler: extern "C" fn(c_int) =
                unsafe { transmute(ptr::with_exposed_provenance::<()>(handler)) };
            handler(signal);
        }
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
