//! Copies out of mapped files, of which a part may be gone at any time.
//!
//! A mapping costs no call of the system a sample. But when its file is cut short, or the disk fails,
//! the next touch of a page that is no longer there raises SIGBUS, which ends a process. So there is
//! one way in, [`Watch::copy`], and a handler of that signal that knows what the thread it interrupted
//! is copying from. Where the fault lies in that, it notes from which byte on the file is gone and lays
//! zeros under the rest, so that the copy comes to its end; then the copy finds the note and fails.
//! Nothing is asked of the system before it.
//!
//! What was lost stays lost, even where the file grows again: the pages are no longer the file's.
//!
//! Any other SIGBUS goes to whoever handled it before, or ends the process as it would have. A program
//! that blocks SIGBUS, or puts a handler of its own over this one, is ended by a file that is cut.

#![allow(unsafe_code)]

use libc::{c_int, c_void, sigaction, siginfo_t};
use rustix::mm::{MapFlags, ProtFlags, mmap_anonymous};
use std::cell::Cell;
use std::mem::{transmute, zeroed};
use std::ptr;
use std::sync::atomic::{AtomicUsize, Ordering, compiler_fence, fence};
use std::sync::{Once, OnceLock};

/// The mapping of a file, or of what is one file's in a larger one.
pub(super) struct Watch {
    start: *const u8,
    /// Its bytes up to the end of its last page.
    bytes: usize,
    /// Bytes of a page, a power of two.
    page: usize,
    /// How many bytes, from the start, are still the file's. Never grows.
    left: AtomicUsize,
}

// SAFETY: the address is that of memory that whoever made this keeps readable, and that nobody writes to
// through it.
unsafe impl Send for Watch {}
// SAFETY: as above; what changes is atomic.
unsafe impl Sync for Watch {}

/// The bytes that were asked for are not there any more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Gone;

thread_local! {
    /// What this thread is copying from, or null. Without a destructor or an initializer that runs, so
    /// that it may be looked at in a signal handler.
    static COPYING: Cell<*const Watch> = const { Cell::new(ptr::null()) };
}

impl Watch {
    /// Of the first `bytes` bytes at `start`, the address of a page.
    ///
    /// # Safety
    /// From there to the end of the last page lies a file's mapping, which is readable and is nothing else
    /// as long as this is there. Memory is reached through it by raw pointers alone.
    pub(super) unsafe fn new(start: *const u8, bytes: usize) -> Watch {
        install();
        let page = rustix::param::page_size();
        Watch { start, bytes: bytes.next_multiple_of(page), page, left: AtomicUsize::new(bytes) }
    }

    /// Fills `into` with the bytes from byte `from` on. After an error its content is unspecified.
    ///
    /// The page in which a file ends is zeros behind that end, and the system raises no signal there:
    /// of a file that was cut within a page, up to a page of zeros may come without an error. Whoever
    /// gets a last byte of zero has to ask for the file's size, or to know the bytes otherwise.
    // A call, so that nothing is known here of what becomes of `into`: the compiler might else read
    // it from the mapping once more where it is used, which no handler watches over.
    #[inline(never)]
    pub(super) fn copy(&self, from: usize, into: &mut [u8]) -> Result<(), Gone> {
        let end = from.checked_add(into.len()).ok_or(Gone)?;
        if end > self.left.load(Ordering::Relaxed) {
            return Err(Gone);
        }
        COPYING.set(self);
        compiler_fence(Ordering::SeqCst);
        // SAFETY: `from..end` lies within the mapping, since `left` never exceeds its length, and whoever
        // made this keeps it there. `into` is borrowed mutably and apart from it. The memory is
        // reached by raw pointers alone, so nothing claims that it stays as it is: other processes may
        // write to the file, and the handler may replace pages by zeros, which stay mapped and
        // readable. A page that cannot be had raises SIGBUS, and the handler has been told above.
        unsafe {
            self.start.add(from).copy_to_nonoverlapping(into.as_mut_ptr(), into.len());
        }
        compiler_fence(Ordering::SeqCst);
        COPYING.set(ptr::null());
        // Zeros may be those that another thread's fault has put here. It has noted that before it
        // asked the system for them, so whoever reads one of them finds the note behind this fence.
        // Where each copy has a watch of its own the note is not shared, and whoever made it looks at the end.
        fence(Ordering::Acquire);
        match end > self.left.load(Ordering::Relaxed) {
            true => Err(Gone),
            false => Ok(()),
        }
    }

    /// Gives up the mapping from the page of `address` on; false where that is not in it, or the
    /// system has no memory left even for a note of zeros. Runs in the handler: one atomic operation
    /// and one call of the system, no lock, no allocation.
    fn give_up(&self, address: usize) -> bool {
        let Some(at) = address.checked_sub(self.start.addr()).filter(|at| *at < self.bytes) else {
            return false;
        };
        // To the end in one piece, which splits the mapping in two; all of it where the process may
        // have no more mappings than it has, since that splits nothing.
        [at & !(self.page - 1), 0].into_iter().any(|first| {
            self.left.fetch_min(first, Ordering::SeqCst);
            let page = self.start.wrapping_add(first).cast_mut().cast();
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
