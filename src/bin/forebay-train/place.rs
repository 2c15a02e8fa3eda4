//! `--device`: a GPU where both the loader and libtorch can use it, else the CPU.

use crate::train::device::Device;
use anyhow::{Result, anyhow};
use forebay::device::Choice;
use forebay::device::cuda::{Cuda, Driver};
use forebay::error;
use std::sync::Arc;

/// Where a run loads and learns.
pub(crate) struct Place {
    /// For libtorch.
    pub(crate) torch: Device,
    /// The same for the loader.
    pub(crate) loader: Choice,
    /// Keeps the GPU's context, which loader and libtorch share, from being made anew.
    _context: Option<Arc<Cuda>>,
}

impl Place {
    fn cpu() -> Self {
        Place { torch: Device::cpu(), loader: Choice::Cpu, _context: None }
    }

    fn gpu(cuda: Arc<Cuda>, tf32: bool) -> error::Result<Self> {
        let ordinal = cuda.gpu().ordinal;
        let torch = Device::cuda(ordinal, &cuda.to_string(), tf32)?;
        Ok(Place { torch, loader: Choice::Cuda(ordinal), _context: Some(cuda) })
    }
}

/// Opens what `choice` comes to on this machine. Says why where there is a GPU that it passes over.
///
/// # Errors
/// What keeps a GPU that was asked for from being used.
pub(crate) fn open(choice: Choice, tf32: bool) -> Result<Place> {
    let place = match choice {
        Choice::Auto if Driver::probe().is_err() => Place::cpu(),
        Choice::Auto => Cuda::open(0).and_then(|cuda| Place::gpu(cuda, tf32)).unwrap_or_else(|e| {
            eprintln!("forebay: note: computing on the CPU, not on cuda:0: {e}");
            Place::cpu()
        }),
        Choice::Cpu | Choice::Cuda(_) => match choice.open()?.0 {
            None => Place::cpu(),
            Some(cuda) => Place::gpu(cuda, tf32)
                .map_err(|e| anyhow!("--device {choice}: {e}; or use --device cpu"))?,
        },
    };
    if tf32 && place.loader == Choice::Cpu {
        eprintln!("forebay: note: --tf32 has no effect on the CPU");
    }
    Ok(place)
}
