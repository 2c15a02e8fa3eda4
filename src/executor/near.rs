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

/// Memory that is brought near in turns, with something else done between them: a processor waits for so many
/// lines at once and no more.
pub(super) struct Approach<'a>(&'a [u8]);

impl<'a> Approach<'a> {
    /// Lines that are asked for in a turn.
    const TURN: usize = 16 * 64;

    /// Of nothing.
    pub(super) const NOTHING: Approach<'a> = Approach(&[]);

    /// Of `bytes`, from the first on.
    pub(super) fn to(bytes: &'a [u8]) -> Self {
        Approach(bytes)
    }

    /// One turn; whether there are more.
    pub(super) fn step(&mut self) -> bool {
        let (now, later) = self.0.split_at(self.0.len().min(Self::TURN));
        bring(now);
        self.0 = later;
        !later.is_empty()
    }
}

/// Asks for nothing: stable Rust has a way for x86-64 alone.
#[cfg(not(target_arch = "x86_64"))]
pub(super) fn bring<T>(_: &[T]) {}
