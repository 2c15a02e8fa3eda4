//! Modules, functions, launches.

use crate::module::{Capability, KERNELS, Module};
use crate::state::{Out, driver};
use crate::status::{INVALID_HANDLE, INVALID_VALUE, NOT_FOUND, NOT_SUPPORTED};
use crate::work::Work;
use std::ffi::{CStr, c_char, c_void};

const MAX_THREADS: u32 = 1024;
const MAX_SHARED: u32 = 48 << 10;

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuModuleLoadData(module: Out<u64>, image: *const c_void) -> u32 {
    driver("cuModuleLoadData", |state| {
        state.device()?;
        if image.is_null() {
            return Err(INVALID_VALUE);
        }
        let device = Capability(state.config.major, state.config.minor);
        // SAFETY: by the interface `image` is a whole cubin or PTX that a zero ends.
        let loaded = unsafe { Module::load(image, device, state.config.driver_version)? };
        let handle = state.handle();
        module.put(handle, INVALID_VALUE)?;
        state.modules.insert(handle, loaded);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuModuleUnload(module: u64) -> u32 {
    driver("cuModuleUnload", |state| {
        let device = state.device()?;
        if !state.modules.contains_key(&module) {
            return Err(state.forbid(INVALID_HANDLE, format_args!("{module:#x} is no module")));
        }
        state.drain(device)?;
        state.modules.remove(&module);
        state.functions.retain(|_, (of, _)| *of != module);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuModuleGetFunction(
    function: Out<u64>,
    module: u64,
    name: *const c_char,
) -> u32 {
    driver("cuModuleGetFunction", |state| {
        state.device()?;
        if name.is_null() {
            return Err(INVALID_VALUE);
        }
        // SAFETY: by the interface a string that a zero ends.
        let name = unsafe { CStr::from_ptr(name) }.to_str().map_err(|_| NOT_FOUND)?;
        let Some(image) = state.modules.get(&module) else {
            return Err(state.forbid(INVALID_HANDLE, format_args!("{module:#x} is no module")));
        };
        let kernel = image.function(name).ok_or(NOT_FOUND)?;
        let handle = state.handle();
        function.put(handle, INVALID_VALUE)?;
        state.functions.insert(handle, (module, kernel));
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuFuncGetAttribute(value: Out<i32>, attribute: u32, function: u64) -> u32 {
    driver("cuFuncGetAttribute", |state| {
        state.device()?;
        let Some((module, _)) = state.functions.get(&function) else {
            return Err(state.forbid(INVALID_HANDLE, format_args!("{function:#x} is no function")));
        };
        let Capability(major, minor) = state.modules[module].target;
        // Numbers of CUfunction_attribute. The host's code has no registers to tell of.
        let answer = match attribute {
            0 => MAX_THREADS,
            1..=4 => 0, // bytes of shared, constant and local memory; registers
            5 | 6 => 10 * major + minor,
            _ => return Err(INVALID_VALUE),
        };
        value.put(answer as i32, INVALID_VALUE)
    })
}

/// Kernels have one parameter, which is copied now, and grids of one dimension.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn cuLaunchKernel(
    function: u64,
    grid_x: u32,
    grid_y: u32,
    grid_z: u32,
    block_x: u32,
    block_y: u32,
    block_z: u32,
    shared: u32,
    stream: u64,
    params: *const *const c_void,
    extra: *const *const c_void,
) -> u32 {
    driver("cuLaunchKernel", |state| {
        let stream = state.stream(stream)?;
        let Some(&(_, kernel)) = state.functions.get(&function) else {
            return Err(state.forbid(INVALID_HANDLE, format_args!("{function:#x} is no function")));
        };
        let kernel = &KERNELS[kernel];
        let none = [grid_x, grid_y, grid_z, block_x, block_y, block_z].contains(&0);
        if none || grid_x > i32::MAX as u32 || block_x > MAX_THREADS || shared > MAX_SHARED {
            return Err(INVALID_VALUE);
        }
        if [grid_y, grid_z, block_y, block_z] != [1; 4] || params.is_null() || !extra.is_null() {
            let text = "only grids of one dimension, with kernelParams, are known here";
            return Err(state.forbid(NOT_SUPPORTED, text));
        }
        let mut args = vec![0u64; kernel.bytes().div_ceil(8)];
        // SAFETY: by the interface the first pointer leads to the kernel's parameter; `args` has room
        // for it.
        unsafe {
            let from = (*params).cast::<u8>();
            args.as_mut_ptr().cast::<u8>().copy_from_nonoverlapping(from, kernel.bytes());
        }
        state.launches += 1;
        state.enqueue(stream, Work::Launch { kernel, args, blocks: grid_x, threads: block_x });
        Ok(())
    })
}
