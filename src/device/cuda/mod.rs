//! CUDA: a GPU opened through its driver, which is looked for at run time.
//!
//! The files hold one idea each: [`driver`] what is there, this one a context with the kernels,
//! `memory` what the GPU and the copy engine read and write, `order` streams, events and launches.
//! Calls need the context of their [`Cuda`] on the calling thread: see [`Cuda::bind`].

#![allow(unsafe_code)]

pub mod driver;
mod memory;
mod order;

pub use driver::{Driver, Gpu};
pub use memory::{DeviceMemory, PinnedMemory};
pub use order::{Event, ForeignStream, Stream};

use super::Kernel;
use super::images::{IMAGES, Image};
use crate::error::{Error, ErrorKind, Result};
use cudarc::driver::{DriverError, result, sys};
use driver::missing;
use std::ffi::CString;
use std::fmt;
use std::sync::Arc;

/// A GPU with the kernels loaded, on the device's primary context: the one that CUDA's runtime,
/// and libtorch with it, uses too.
pub struct Cuda {
    gpu: Gpu,
    device: sys::CUdevice,
    context: sys::CUcontext,
    modules: Vec<sys::CUmodule>,
    functions: [sys::CUfunction; Kernel::ALL.len()],
    images: [&'static str; Kernel::ALL.len()],
}

// SAFETY: the handles belong to the driver, which is thread-safe; calls that need the context make
// it current on their own thread.
unsafe impl Send for Cuda {}
// SAFETY: as above.
unsafe impl Sync for Cuda {}

impl Cuda {
    /// Opens `cuda:ordinal` and loads the kernels that suit it.
    ///
    /// # Errors
    /// No driver, one too old, no such GPU, a GPU older than every kernel, no memory: one line that
    /// says so, and what would fit.
    pub fn open(ordinal: u32) -> Result<Arc<Cuda>> {
        let driver = Driver::probe()?;
        driver.check_version()?;
        let gpu = driver.gpu(ordinal)?;
        let device = check("cuDeviceGet", result::device::get(ordinal as i32))?;
        // SAFETY: `device` is one of the driver's; the context is released when `cuda` drops.
        let context =
            check("cuDevicePrimaryCtxRetain", unsafe { result::primary_ctx::retain(device) })?;
        let mut cuda = Cuda {
            gpu,
            device,
            context,
            modules: Vec::new(),
            functions: [std::ptr::null_mut(); Kernel::ALL.len()],
            images: [""; Kernel::ALL.len()],
        };
        let bound = cuda.bind()?;
        for kernel in Kernel::ALL {
            let image = best_image(kernel, cuda.gpu.capability).ok_or_else(|| {
                let (major, minor) = cuda.gpu.capability;
                missing(format!(
                    "cuda:{ordinal} ({}) has compute capability {major}.{minor}, and there are no \
                     kernels for it (there are: {}); use --device cpu",
                    cuda.gpu.name,
                    architectures().collect::<Vec<_>>().join(", ")
                ))
            })?;
            // The driver reads PTX up to a NUL.
            let code = [image.code, b"\0"].concat();
            // SAFETY: `code` is a whole cubin, or PTX text that ends with a NUL.
            let module = unsafe { result::module::load_data(code.as_ptr().cast()) };
            let module = check("cuModuleLoadData", module)
                .map_err(|e| e.about(format!("kernel {} for {}", kernel.name(), image.arch)))?;
            cuda.modules.push(module);
            let name = CString::new(format!("forebay_{}", kernel.name())).expect("no NUL in it");
            // SAFETY: the module was just loaded.
            let function = unsafe { result::module::get_function(module, name) };
            cuda.functions[kernel as usize] = check("cuModuleGetFunction", function)?;
            cuda.images[kernel as usize] = image.arch;
        }
        drop(bound);
        Ok(Arc::new(cuda))
    }

    /// What the GPU is.
    pub fn gpu(&self) -> &Gpu {
        &self.gpu
    }

    /// The architecture that a kernel was loaded for: `sm_90`, or `compute_120` where the driver
    /// compiled it.
    pub fn image(&self, kernel: Kernel) -> &'static str {
        self.images[kernel as usize]
    }

    /// Free and total bytes of the GPU's memory. Needs the context.
    pub fn memory(&self) -> Result<(usize, usize)> {
        check("cuMemGetInfo", result::mem_get_info())
    }

    /// Makes the context current on this thread until the guard drops; then the one that was
    /// current before is so again, so that a consumer's choice of device stays as it was.
    pub fn bind(&self) -> Result<Bound> {
        let before = check("cuCtxGetCurrent", result::ctx::get_current())?;
        if before == Some(self.context) {
            return Ok(Bound(None));
        }
        // SAFETY: the context is retained for as long as `self` lives.
        check("cuCtxSetCurrent", unsafe { result::ctx::set_current(self.context) })?;
        Ok(Bound(Some(before)))
    }
}

impl Drop for Cuda {
    fn drop(&mut self) {
        // What fails here has nobody to tell, and nothing more can be done.
        let bound = self.bind();
        for &module in &self.modules {
            // SAFETY: loaded in this context, and nothing launches its kernels any more: whatever
            // could holds an Arc of `self`.
            let _ = unsafe { result::module::unload(module) };
        }
        drop(bound);
        // SAFETY: retained once in `open`.
        let _ = unsafe { result::primary_ctx::release(self.device) };
    }
}

impl fmt::Display for Cuda {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cuda:{} ({})", self.gpu.ordinal, self.gpu.name)
    }
}

/// Gives the thread the context it had before.
#[must_use]
pub struct Bound(Option<Option<sys::CUcontext>>);

impl Drop for Bound {
    fn drop(&mut self) {
        if let Some(before) = self.0 {
            // SAFETY: it was current on this thread, and whoever made it so still owns it.
            let _ = unsafe { result::ctx::set_current(before.unwrap_or(std::ptr::null_mut())) };
        }
    }
}

/// Architectures of the embedded kernels, each once.
pub fn architectures() -> impl Iterator<Item = &'static str> {
    IMAGES.iter().filter(|image| image.kernel == Kernel::ALL[0].name()).map(|image| image.arch)
}

/// The image of `kernel` that a GPU of `capability` runs: machine code of its own major version and
/// no newer minor one, else PTX that is not newer.
fn best_image(kernel: Kernel, capability: (u32, u32)) -> Option<&'static Image> {
    let version = |arch: &str| -> Option<(u32, u32)> {
        let number: u32 = arch.split_once('_')?.1.parse().ok()?;
        Some((number / 10, number % 10))
    };
    let of_kernel = IMAGES.iter().filter(|image| image.kernel == kernel.name());
    let suits = |image: &&Image| match version(image.arch) {
        Some(v) if image.arch.starts_with("sm_") => v.0 == capability.0 && v.1 <= capability.1,
        Some(v) => v <= capability,
        None => false,
    };
    // Machine code sorts above PTX, newer above older.
    of_kernel.filter(suits).max_by_key(|i| (i.arch.starts_with("sm_"), version(i.arch)))
}

/// Names the driver's call in its error.
fn check<T>(call: &str, result: Result<T, DriverError>) -> Result<T> {
    result.map_err(|error| {
        let text = |c: Result<&std::ffi::CStr, DriverError>| {
            c.map_or_else(|_| "unknown".into(), |c| c.to_string_lossy().into_owned())
        };
        let (name, meaning) = (text(error.error_name()), text(error.error_string()));
        let kind = match error.0 {
            sys::CUresult::CUDA_ERROR_OUT_OF_MEMORY => ErrorKind::Limit,
            _ => ErrorKind::Device,
        };
        Error::new(kind, format!("{call}: {meaning} ({name})"))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn images_suit_their_gpus() {
        if IMAGES.is_empty() {
            eprintln!("skipped: built without NVRTC, so there are no kernels for GPUs");
            return;
        }
        let arch = |capability| best_image(Kernel::Augment, capability).map(|image| image.arch);
        for (capability, expected) in [
            ((7, 0), None),
            ((7, 5), Some("sm_75")),
            ((8, 0), Some("sm_80")),
            ((8, 6), Some("sm_80")),
            ((8, 9), Some("sm_80")),
            ((9, 0), Some("sm_90")),
            ((10, 3), Some("sm_100")),
            ((12, 1), Some("sm_120")),
            ((13, 0), Some("compute_120")),
        ] {
            assert_eq!(arch(capability), expected, "{capability:?}");
        }
    }
}
