//! What a run computes in.

use super::shim::Autocast;
use crate::error::{Error, ErrorKind, Result};
use std::fmt;
use std::str::FromStr;
use tch::{Device, Kind, TchError};

/// What the forward pass computes in, by Lightning's names. Weights, gradients and the optimiser's
/// state are f32 in all of them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Precision {
    /// f32.
    #[default]
    F32,
    /// float16 where libtorch deems it good enough: its gradients need a
    /// [`GradScaler`](super::scaler::GradScaler).
    F16Mixed,
    /// bfloat16 where libtorch deems it good enough: f32's range, 8 bits of mantissa.
    Bf16Mixed,
}

impl Precision {
    const ALL: [Self; 3] = [Precision::F32, Precision::F16Mixed, Precision::Bf16Mixed];

    /// Whether a run on `device` can compute in it.
    ///
    /// # Errors
    /// float16 on the CPU.
    pub fn check(self, device: Device) -> Result<()> {
        if self == Precision::F16Mixed && device == Device::Cpu {
            let text = "precision 16-mixed needs a GPU; on the CPU use bf16-mixed";
            return Err(Error::new(ErrorKind::Device, text));
        }
        Ok(())
    }

    /// Begins it on `device` for this thread, where it is not f32; it ends when what is returned
    /// drops. For the forward pass and the loss: the backward pass follows their types by itself.
    pub fn autocast(self, device: Device) -> Result<Option<Autocast>, TchError> {
        let kind = match self {
            Precision::F32 => return Ok(None),
            Precision::F16Mixed => Kind::Half,
            Precision::Bf16Mixed => Kind::BFloat16,
        };
        Autocast::begin(device, kind).map(Some)
    }
}

impl fmt::Display for Precision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Precision::F32 => "32",
            Precision::F16Mixed => "16-mixed",
            Precision::Bf16Mixed => "bf16-mixed",
        })
    }
}

impl FromStr for Precision {
    type Err = Error;

    fn from_str(text: &str) -> Result<Self> {
        Self::ALL.into_iter().find(|precision| precision.to_string() == text).ok_or_else(|| {
            Error::spec(format!("precision `{text}` is none of 32, 16-mixed and bf16-mixed"))
        })
    }
}
