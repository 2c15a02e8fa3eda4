//! Memory that will soon be read, brought near while something else is done.
#![allow(unsafe_code)]

/// Bytes that come at once from memory.
#[cfg(target_arch = "x86_64")]
const LINE: usize = 64;

/// Asks the processor to have all of `items` in its cache soon. Nothing waits for it, and where the
/// processor cannot be asked nothing is done.
#[cfg(target_arch = "x86_64")]
pub(super) fn bring<T>(items: &[T]) {
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    let first = items.as_ptr().cast::<i8>();
    // From the line that the first byte lies in.
    let skip = first.addr() % LINE;
    for at in (0..skip + size_of_val(items)).step_by(LINE) {
        // SAFETY: a hint, which reads nothing that the program could tell; every x86-64 has it.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(first.wrapping_sub(skip).wrapping_add(at)) };
    }
}

/// Asks for nothing: stable Rust has a way for x86-64 alone.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn bring<T>(_: &[T]) {}
