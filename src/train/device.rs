//! Where a run computes. libtorch's CUDA part is opened here, and only when a GPU was chosen: no
//! program is linked with it.
#![allow(unsafe_code)]

use super::shim::{allow_tf32, is_tf32};
use crate::error::{Error, ErrorKind, Result};
use libloading::os::unix::{Library, RTLD_GLOBAL, RTLD_NOW};
use std::path::{Path, PathBuf};

/// Where a run computes.
#[derive(Debug, Clone)]
pub struct Device {
    torch: tch::Device,
    name: String,
}

impl Device {
    /// The CPU.
    pub fn cpu() -> Self {
        Device { torch: tch::Device::Cpu, name: "the CPU".into() }
    }

    /// GPU number `ordinal`; `name` is what people call it. `tf32`: whether convolutions and matrix
    /// products may compute in TF32, else all of f32 counts.
    ///
    /// Comes before anything else is asked of libtorch, which looks for its CUDA part once, at the
    /// first question that has to do with it, and stays with what it found.
    ///
    /// # Errors
    /// What is missing and what brings it, where libtorch cannot use that GPU.
    pub fn cuda(ordinal: u32, name: &str, tf32: bool) -> Result<Self> {
        open_cuda()?;
        let count = if tch::Cuda::is_available() { tch::Cuda::device_count() } else { 0 };
        if i64::from(ordinal) >= count {
            let text = match count {
                0 => "libtorch finds no GPU that it can use; PyTorch 2.11.0's CUDA 13.0 needs \
                      driver 580 or newer"
                    .to_string(),
                n => format!("libtorch finds no cuda:{ordinal}; GPUs that it can use: {n}"),
            };
            return Err(Error::new(ErrorKind::Device, text));
        }
        allow_tf32(tf32);
        let name = if is_tf32() { format!("{name}, TF32") } else { name.to_string() };
        Ok(Device { torch: tch::Device::Cuda(ordinal as usize), name })
    }

    /// For people: `the CPU`, or `cuda:0 (NVIDIA H200), TF32`.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// What the last bits of its results depend on: the GPU, or the kind of processor with the widest
    /// instructions that libtorch has code for.
    pub fn processor(&self) -> String {
        if self.torch != tch::Device::Cpu {
            return self.name.clone();
        }
        let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
        let field = |name: &str| {
            let line = info.lines().find(|line| line.starts_with(name))?;
            line.split_once(':').map(|(_, value)| value.trim())
        };
        let has = |flag: &str| field("flags").is_some_and(|f| f.split(' ').any(|f| f == flag));
        let widest = ["amx_tile", "avx512_bf16", "avx512f", "avx2"].into_iter().find(|f| has(f));
        let model = field("model name").unwrap_or(std::env::consts::ARCH);
        widest.map_or_else(|| model.to_string(), |flag| format!("{model} ({flag})"))
    }

    /// What tensors of the run live on.
    pub fn torch(&self) -> tch::Device {
        self.torch
    }
}

/// Opens libtorch's CUDA part, for good, so that libtorch finds it.
fn open_cuda() -> Result<()> {
    const FILE: &str = "libtorch_cuda.so";
    let beside = Path::new(env!("FOREBAY_LIBTORCH")).join(FILE);
    // Elsewhere than where the program was built, it is the loader's to find.
    let file = if beside.exists() { beside } else { PathBuf::from(FILE) };
    // SAFETY: PyTorch's own library of the version that is linked; its initialisers register
    // kernels and hooks with that, as when a program is linked with both.
    match unsafe { Library::open(Some(file), RTLD_NOW | RTLD_GLOBAL) } {
        Ok(library) => {
            // Never closed: what it has registered points into it.
            std::mem::forget(library);
            Ok(())
        }
        Err(error) => {
            let reason = std::error::Error::source(&error).map(ToString::to_string);
            let reason = reason.unwrap_or_else(|| error.to_string());
            let text = format!(
                "this PyTorch lies in an environment without its CUDA libraries ({reason}); \
                 `make build` on a machine with a GPU brings them"
            );
            Err(Error::new(ErrorKind::Device, text))
        }
    }
}
