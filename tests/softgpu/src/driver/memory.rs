//! Memory, copies and fills.

use crate::memory::{FreeError, Kind};
use crate::state::{Out, State, driver};
use crate::status::{INVALID_VALUE, OUT_OF_MEMORY, Outcome};
use crate::work::{Source, Work};
use std::ffi::c_void;

/// Bytes of a device that are not in use.
fn free_bytes(state: &State, device: u32) -> u64 {
    let used = state.machine.memory.live_bytes(|kind| kind == Kind::Device(device));
    state.config.memory.saturating_sub(used)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemGetInfo_v2(free: Out<usize>, total: Out<usize>) -> u32 {
    driver("cuMemGetInfo_v2", |state| {
        let device = state.device()?;
        free.put(free_bytes(state, device) as usize, INVALID_VALUE)?;
        total.put(state.config.memory as usize, INVALID_VALUE)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemAlloc_v2(address: Out<u64>, bytes: usize) -> u32 {
    driver("cuMemAlloc_v2", |state| {
        let device = state.device()?;
        if bytes == 0 || address.0.is_null() {
            return Err(INVALID_VALUE);
        }
        let rounded = bytes.checked_next_multiple_of(256).ok_or(OUT_OF_MEMORY)?;
        if rounded as u64 > free_bytes(state, device) {
            return Err(OUT_OF_MEMORY);
        }
        let made = state.machine.memory.allocate(bytes, Kind::Device(device));
        address.put(made.ok_or(OUT_OF_MEMORY)? as u64, INVALID_VALUE)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemHostAlloc(
    address: Out<*mut c_void>,
    bytes: usize,
    flags: u32,
) -> u32 {
    driver("cuMemHostAlloc", |state| {
        state.device()?;
        if bytes == 0 || address.0.is_null() || flags > 7 {
            return Err(INVALID_VALUE);
        }
        let made = state.machine.memory.allocate(bytes, Kind::Pinned);
        address.put(made.ok_or(OUT_OF_MEMORY)? as *mut c_void, INVALID_VALUE)
    })
}

/// At once. Drivers wait for the device here, but CUDA's documentation does not say so of both kinds,
/// so a program should not count on it: work that runs on memory that is gone is a violation.
fn free(state: &mut State, address: usize, pinned: bool) -> Outcome {
    state.device()?;
    match state.machine.memory.free(address, pinned) {
        Ok(()) => Ok(()),
        Err(FreeError::Spoilt(text)) => {
            state.machine.violation(text);
            Ok(())
        }
        Err(FreeError::Unknown) => {
            let text = format_args!("{address:#x} is no allocation of that kind");
            Err(state.forbid(INVALID_VALUE, text))
        }
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemFree_v2(address: u64) -> u32 {
    driver("cuMemFree_v2", |state| free(state, address as usize, false))
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemFreeHost(address: *mut c_void) -> u32 {
    driver("cuMemFreeHost", |state| free(state, address as usize, true))
}

/// Checks the device's side of a copy or fill.
fn check_device(state: &mut State, address: usize, bytes: usize) -> Outcome {
    let checked = state.machine.memory.on_device(address, bytes);
    checked.map_err(|text| state.forbid(INVALID_VALUE, text))
}

/// Checks the host's side; true where it is pinned.
fn check_host(state: &mut State, address: usize, bytes: usize) -> Outcome<bool> {
    match state.machine.memory.place(address, bytes) {
        Ok(None) if address != 0 => Ok(false),
        Ok(Some(Kind::Pinned)) => Ok(true),
        Ok(_) => {
            let text = format_args!("{address:#x} is not an address of the host");
            Err(state.forbid(INVALID_VALUE, text))
        }
        Err(text) => Err(state.forbid(INVALID_VALUE, text)),
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemcpyHtoDAsync_v2(
    to: u64,
    from: *const c_void,
    bytes: usize,
    stream: u64,
) -> u32 {
    driver("cuMemcpyHtoDAsync_v2", |state| {
        let stream = state.stream(stream)?;
        if bytes == 0 {
            return Ok(());
        }
        check_device(state, to as usize, bytes)?;
        let pinned = check_host(state, from as usize, bytes)?;
        let from = if pinned {
            Source::Pinned(from as usize)
        } else {
            // SAFETY: by the interface `from` is good for `bytes` bytes.
            Source::Staged(unsafe { std::slice::from_raw_parts(from.cast(), bytes) }.to_vec())
        };
        state.enqueue(stream, Work::Upload { to: to as usize, from, bytes });
        Ok(())
    })
}

/// A copy to pageable memory is done when the call returns.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemcpyDtoHAsync_v2(
    to: *mut c_void,
    from: u64,
    bytes: usize,
    stream: u64,
) -> u32 {
    driver("cuMemcpyDtoHAsync_v2", |state| {
        let stream = state.stream(stream)?;
        if bytes == 0 {
            return Ok(());
        }
        check_device(state, from as usize, bytes)?;
        let pinned = check_host(state, to as usize, bytes)?;
        state.enqueue(stream, Work::Download { to: to as usize, from: from as usize, bytes });
        if pinned { Ok(()) } else { state.wait(&state.streams.end(stream)) }
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemcpyDtoDAsync_v2(
    to: u64,
    from: u64,
    bytes: usize,
    stream: u64,
) -> u32 {
    driver("cuMemcpyDtoDAsync_v2", |state| {
        let stream = state.stream(stream)?;
        if bytes == 0 {
            return Ok(());
        }
        check_device(state, from as usize, bytes)?;
        check_device(state, to as usize, bytes)?;
        state.enqueue(stream, Work::Download { to: to as usize, from: from as usize, bytes });
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuMemsetD32Async(to: u64, value: u32, words: usize, stream: u64) -> u32 {
    driver("cuMemsetD32Async", |state| {
        let stream = state.stream(stream)?;
        if words == 0 {
            return Ok(());
        }
        let bytes = words.checked_mul(4).filter(|_| to.is_multiple_of(4)).ok_or(INVALID_VALUE)?;
        check_device(state, to as usize, bytes)?;
        state.enqueue(stream, Work::Fill { to: to as usize, value, words });
        Ok(())
    })
}
