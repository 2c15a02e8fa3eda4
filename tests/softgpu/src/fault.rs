//! Says which kernel touched memory that is not its own, before the process dies of it.

use crate::module::Kernel;
use std::io::Write;
use std::mem::MaybeUninit;
use std::ptr::{null, null_mut};
use std::sync::atomic::{AtomicI32, AtomicPtr, AtomicU32, Ordering::Relaxed};
use std::sync::{Once, OnceLock};

static KERNEL: AtomicPtr<Kernel> = AtomicPtr::new(null_mut());
static BLOCK: AtomicU32 = AtomicU32::new(0);
/// The thread that runs it, as the system numbers threads.
static THREAD: AtomicI32 = AtomicI32::new(0);
/// What was there to handle faults before.
static BEFORE: OnceLock<libc::sigaction> = OnceLock::new();

fn this_thread() -> i32 {
    // SAFETY: a system call without arguments.
    unsafe { libc::gettid() }
}

/// Notes what this thread runs until it is dropped.
pub(crate) struct Running(());

impl Running {
    pub(crate) fn new(kernel: &'static Kernel) -> Self {
        THREAD.store(this_thread(), Relaxed);
        KERNEL.store((kernel as *const Kernel).cast_mut(), Relaxed);
        Self(())
    }

    pub(crate) fn block(&self, block: u32) {
        BLOCK.store(block, Relaxed);
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        KERNEL.store(null_mut(), Relaxed);
    }
}

/// Handles faults from now on, until there is one.
pub(crate) fn install() {
    static DONE: Once = Once::new();
    DONE.call_once(|| {
        // SAFETY: a zeroed sigaction is a valid one, and its fields are set below; the handler calls
        // nothing but write and sigaction.
        unsafe {
            let mut action: libc::sigaction = MaybeUninit::zeroed().assume_init();
            action.sa_sigaction = handle as *const () as usize;
            action.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK;
            let mut before = MaybeUninit::zeroed().assume_init();
            libc::sigaction(libc::SIGSEGV, &action, &mut before);
            let _ = BEFORE.set(before);
        }
    });
}

extern "C" fn handle(_: libc::c_int, info: *const libc::siginfo_t, _: *mut libc::c_void) {
    // SAFETY: the kernel gives a valid siginfo_t; KERNEL is null or points into the static table.
    let (address, kernel) = unsafe { ((*info).si_addr() as usize, KERNEL.load(Relaxed).as_ref()) };
    let mut text = [0u8; 256];
    let mut rest = &mut text[..];
    let _ = match kernel {
        Some(kernel) if THREAD.load(Relaxed) == this_thread() => {
            let block = BLOCK.load(Relaxed);
            writeln!(rest, "softgpu: block {block} of {} touched {address:#x}", kernel.name)
        }
        _ => writeln!(rest, "softgpu: the host touched {address:#x}"),
    };
    let length = 256 - rest.len();
    // SAFETY: plain system calls on valid arguments. The instruction faults again after the return,
    // then with the handler that was there before.
    unsafe {
        libc::write(2, text.as_ptr().cast(), length);
        libc::sigaction(libc::SIGSEGV, BEFORE.get().map_or(null(), |before| before), null_mut());
    }
}
