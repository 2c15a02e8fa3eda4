//! The driver, if there is one. Probing opens no context and never panics.
#![allow(unsafe_code)]

use super::check;
use crate::device::images::{IMAGES, NVRTC};
use crate::error::{Error, ErrorKind, Result};
use cudarc::driver::sys::CUdevice_attribute_enum as Attribute;
use cudarc::driver::{result, sys};

/// An NVIDIA driver that answers, and has at least one GPU.
#[derive(Debug, Clone, Copy)]
pub struct Driver {
    /// The newest CUDA that it supports: 13000 for 13.0.
    version: i32,
    devices: u32,
}

/// A GPU, before anything is opened on it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gpu {
    /// N of `cuda:N`.
    pub ordinal: u32,
    /// As the driver calls it.
    pub name: String,
    /// Compute capability, major and minor: (9, 0).
    pub capability: (u32, u32),
    /// Bytes of memory.
    pub memory: u64,
}

impl Driver {
    /// Looks for the driver and its devices.
    ///
    /// # Errors
    /// What is missing and what brings it: the driver's library, a device, or a newer driver.
    pub fn probe() -> Result<Driver> {
        // SAFETY: opens and closes libcuda, whose initialisers only set up its own state.
        if !unsafe { sys::is_culib_present() } {
            return Err(missing(
                "no NVIDIA driver: libcuda.so.1 is not on this machine; install the driver \
                 (Debian: nvidia-driver, Ubuntu: nvidia-driver-580)",
            ));
        }
        match result::init() {
            Ok(()) => {}
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_NO_DEVICE => {
                return Err(missing("the NVIDIA driver finds no GPU on this machine"));
            }
            Err(error) if error.0 == sys::CUresult::CUDA_ERROR_STUB_LIBRARY => {
                return Err(missing(
                    "libcuda.so is the toolkit's stub, not the driver's; take its folder out of \
                     LD_LIBRARY_PATH",
                ));
            }
            Err(error) => return check("cuInit", Err(error)),
        }
        let mut version = 0;
        // SAFETY: the pointer is valid for the call.
        check("cuDriverGetVersion", unsafe { sys::cuDriverGetVersion(&mut version) }.result())?;
        let devices = check("cuDeviceGetCount", result::device::get_count())?;
        match u32::try_from(devices) {
            Ok(devices @ 1..) => Ok(Driver { version, devices }),
            _ => Err(missing("the NVIDIA driver finds no GPU on this machine")),
        }
    }

    /// The newest CUDA that the driver supports, major and minor.
    pub fn version(&self) -> (u32, u32) {
        let version = self.version.max(0) as u32;
        (version / 1000, version % 1000 / 10)
    }

    /// GPUs, numbered from 0.
    pub fn devices(&self) -> u32 {
        self.devices
    }

    /// What is known of GPU `ordinal`.
    ///
    /// # Errors
    /// When there is no such GPU, with the number of those there are.
    pub fn gpu(&self, ordinal: u32) -> Result<Gpu> {
        if ordinal >= self.devices {
            let text = match self.devices {
                1 => format!("no GPU cuda:{ordinal}: this machine has one, cuda:0"),
                n => {
                    format!("no GPU cuda:{ordinal}: this machine has {n}, cuda:0 to cuda:{}", n - 1)
                }
            };
            return Err(missing(text));
        }
        let device = check("cuDeviceGet", result::device::get(ordinal as i32))?;
        let attribute = |attribute| {
            // SAFETY: `device` is one of the driver's.
            let value = unsafe { result::device::get_attribute(device, attribute) };
            check("cuDeviceGetAttribute", value).map(|value| value.max(0) as u32)
        };
        // SAFETY: as above.
        let memory = check("cuDeviceTotalMem", unsafe { result::device::total_mem(device) })?;
        Ok(Gpu {
            ordinal,
            name: check("cuDeviceGetName", result::device::get_name(device))?,
            capability: (
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR)?,
                attribute(Attribute::CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR)?,
            ),
            memory: memory as u64,
        })
    }

    /// Refuses a driver that is too old for the kernels of this build: machine code of one CUDA
    /// major version runs on drivers of that version and later ones.
    ///
    /// # Errors
    /// Says which version is needed and which driver has it; also where there are no kernels.
    pub fn check_version(&self) -> Result<()> {
        let Some(nvrtc) = NVRTC.filter(|_| !IMAGES.is_empty()) else {
            return Err(missing(
                "this build has no kernels for GPUs, since it found no NVRTC; `make build` brings it",
            ));
        };
        let needed: u32 = nvrtc.split('.').next().and_then(|n| n.parse().ok()).unwrap_or(0);
        let (major, minor) = self.version();
        if major >= needed {
            return Ok(());
        }
        let driver = match needed {
            12 => "525 or newer",
            13 => "580 or newer",
            _ => "a newer one",
        };
        Err(missing(format!(
            "the NVIDIA driver is too old: it supports CUDA {major}.{minor}, and the kernels need \
             {needed}.0; install driver {driver}"
        )))
    }
}

pub(super) fn missing(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Device, text)
}
