//! Initialisation, devices, primary contexts, errors in words.

use crate::state::{Out, State, driver};
use crate::status::{INVALID_CONTEXT, INVALID_DEVICE, INVALID_VALUE, NO_DEVICE, Outcome, describe};
use std::ffi::c_char;
use std::ptr::null;

const NAME: &[u8] = b"software device\0";

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuInit(flags: u32) -> u32 {
    driver("cuInit", |state| {
        if flags != 0 {
            return Err(INVALID_VALUE);
        }
        if state.config.devices == 0 {
            return Err(NO_DEVICE);
        }
        state.initialised = true;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDriverGetVersion(version: Out<i32>) -> u32 {
    driver("cuDriverGetVersion", |state| {
        version.put(state.config.driver_version as i32, INVALID_VALUE)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGetErrorName(error: u32, text: Out<*const c_char>) -> u32 {
    driver("cuGetErrorName", |_| match describe(error) {
        Some((name, _)) => text.put(name.as_ptr(), INVALID_VALUE),
        None => text.put(null(), INVALID_VALUE).and(Err(INVALID_VALUE)),
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuGetErrorString(error: u32, text: Out<*const c_char>) -> u32 {
    driver("cuGetErrorString", |_| match describe(error) {
        Some((_, words)) => text.put(words.as_ptr(), INVALID_VALUE),
        None => text.put(null(), INVALID_VALUE).and(Err(INVALID_VALUE)),
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGetCount(count: Out<i32>) -> u32 {
    driver("cuDeviceGetCount", |state| {
        state.check_initialised()?;
        count.put(state.config.devices as i32, INVALID_VALUE)
    })
}

/// A device's number, where there is such a device.
fn device(state: &State, number: i32) -> Outcome<u32> {
    state.check_initialised()?;
    let number = u32::try_from(number).ok().filter(|&n| n < state.config.devices);
    number.ok_or(INVALID_DEVICE)
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGet(handle: Out<i32>, ordinal: i32) -> u32 {
    driver("cuDeviceGet", |state| {
        device(state, ordinal)?;
        handle.put(ordinal, INVALID_VALUE)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGetName(name: *mut c_char, length: i32, number: i32) -> u32 {
    driver("cuDeviceGetName", |state| {
        device(state, number)?;
        if name.is_null() || length <= 0 {
            return Err(INVALID_VALUE);
        }
        let count = NAME.len().min(length as usize);
        // SAFETY: by the interface `name` is good for `length` bytes.
        unsafe {
            name.copy_from_nonoverlapping(NAME.as_ptr().cast(), count);
            name.add(count - 1).write(0);
        }
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceGetAttribute(value: Out<i32>, attribute: u32, number: i32) -> u32 {
    driver("cuDeviceGetAttribute", |state| {
        device(state, number)?;
        // Numbers of CUdevice_attribute.
        let answer = match attribute {
            1 | 2 | 3 | 39 => 1024, // threads of a block, along x, along y; of a multiprocessor
            4 => 64,                // along z
            5 => i32::MAX,          // blocks of a grid along x
            6 | 7 => 65_535,        // along y, along z
            8 => 48 << 10,          // shared memory of a block
            10 => 32,               // threads of a warp
            12 => 65_536,           // registers of a block
            13 | 36 => 1_000_000,   // kHz of the chip, of its memory
            16 => 4,                // multiprocessors
            18 => 0,                // shares the host's memory
            19 | 31 | 41 => 1,      // maps host memory, concurrent kernels, one address space
            33 => number + 1,       // PCI bus
            34 | 50 => 0,           // PCI slot, domain
            37 => 64,               // bits of the memory bus
            38 => 4 << 20,          // bytes of the L2 cache
            40 => 2,                // copy engines
            75 => state.config.major as i32,
            76 => state.config.minor as i32,
            _ => return Err(INVALID_VALUE),
        };
        value.put(answer, INVALID_VALUE)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDeviceTotalMem_v2(bytes: Out<usize>, number: i32) -> u32 {
    driver("cuDeviceTotalMem_v2", |state| {
        device(state, number)?;
        bytes.put(state.config.memory as usize, INVALID_VALUE)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDevicePrimaryCtxRetain(context: Out<u64>, number: i32) -> u32 {
    driver("cuDevicePrimaryCtxRetain", |state| {
        let device = device(state, number)?;
        context.put(State::context_of(device), INVALID_VALUE)?;
        state.streams.create_default(device);
        *state.retained.entry(device).or_default() += 1;
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuDevicePrimaryCtxRelease_v2(number: i32) -> u32 {
    driver("cuDevicePrimaryCtxRelease_v2", |state| {
        let device = device(state, number)?;
        match state.retained.get_mut(&device) {
            None => Err(state.forbid(INVALID_CONTEXT, "the context is not retained")),
            Some(times) if *times > 1 => {
                *times -= 1;
                Ok(())
            }
            // The last one. What is left on the device stays, so that the report shows it.
            Some(_) => {
                let drained = state.drain(device);
                state.retained.remove(&device);
                drained
            }
        }
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxSetCurrent(context: u64) -> u32 {
    driver("cuCtxSetCurrent", |state| {
        state.check_initialised()?;
        if context != 0 && state.device_of(context).is_none() {
            return Err(INVALID_CONTEXT);
        }
        State::set_current(context);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuCtxGetCurrent(context: Out<u64>) -> u32 {
    driver("cuCtxGetCurrent", |state| {
        state.check_initialised()?;
        context.put(State::current(), INVALID_VALUE)
    })
}
