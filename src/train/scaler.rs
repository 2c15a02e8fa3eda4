//! The scale of float16's gradients, decided on the device.
//!
//! P. Micikevicius et al.: *Mixed precision training* (ICLR 2018).

use super::state::restore;
use super::{shim, torch};
use crate::error::{self, Error, ErrorKind};
use std::collections::BTreeMap;
use tch::{Device, Kind, TchError, Tensor, no_grad};

type Result<T> = std::result::Result<T, TchError>;

/// How the scale of a [`GradScaler`] moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Scaling {
    /// Its start.
    pub start: f64,
    /// The factor after `interval` steps without an infinity.
    pub growth: f64,
    /// The factor after a step that had one.
    pub backoff: f64,
    /// In steps.
    pub interval: i64,
}

impl Default for Scaling {
    /// PyTorch's.
    fn default() -> Self {
        Scaling { start: 65536.0, growth: 2.0, backoff: 0.5, interval: 2000 }
    }
}

/// `torch.amp.GradScaler`: keeps float16 gradients above what rounds to zero. The loss, and with it
/// every gradient, is multiplied by a scale that grows until a gradient overflows; that step is left
/// out, and the scale shrinks.
///
/// A step: for each of the batches that it accumulates, [`scale_loss`](Self::scale_loss) and the
/// backward pass; then once [`unscale`](Self::unscale), clipping, the optimiser's step under
/// [`found_inf`](Self::found_inf), and [`update`](Self::update).
#[derive(Debug)]
pub struct GradScaler {
    scaling: Scaling,
    scale: Tensor,
    /// Steps without an infinity since the scale last moved.
    growth: Tensor,
    found_inf: Tensor,
    /// A float, to which flags can be added as they are.
    skipped: Tensor,
}

impl GradScaler {
    /// A scaler for gradients on `device`.
    pub fn new(scaling: Scaling, device: Device) -> Result<Self> {
        Ok(GradScaler {
            scaling,
            scale: Tensor::f_full([0; 0], scaling.start, (Kind::Float, device))?,
            growth: zero(Kind::Int, device)?,
            found_inf: zero(Kind::Float, device)?,
            skipped: zero(Kind::Double, device)?,
        })
    }

    /// The loss to run the backward pass from.
    pub fn scale_loss(&self, loss: &Tensor) -> Result<Tensor> {
        loss.f_mul(&self.scale)
    }

    /// Divides `gradients` by the scale and finds out whether all are finite: once a step, with all
    /// of them, before they are clipped.
    pub fn unscale(&mut self, gradients: &[Tensor]) -> Result<()> {
        no_grad(|| {
            let inverse = self.scale.f_to_kind(Kind::Double)?.f_reciprocal()?;
            let _ = self.found_inf.f_zero_()?;
            shim::unscale(gradients, &mut self.found_inf, &inverse.f_to_kind(Kind::Float)?)
        })
    }

    /// 1 where the gradients last unscaled are not all finite, else 0: one f32 on the device.
    pub fn found_inf(&self) -> &Tensor {
        &self.found_inf
    }

    /// Moves the scale by what was found; ends a step.
    pub fn update(&mut self) -> Result<()> {
        let Scaling { growth, backoff, interval, .. } = self.scaling;
        no_grad(|| {
            let _ = self.scale.f_internal_amp_update_scale_(
                &self.growth,
                &self.found_inf,
                growth,
                backoff,
                interval,
            )?;
            let _ = self.skipped.f_add_(&self.found_inf)?;
            Ok(())
        })
    }

    /// The scale. Waits for the device.
    pub fn scale(&self) -> Result<f64> {
        self.scale.f_double_value(&[])
    }

    /// Steps that were left out, of all. Waits for the device.
    pub fn skipped(&self) -> Result<u64> {
        Ok(self.skipped.f_double_value(&[])? as u64)
    }

    /// A copy of the state: `scaler/scale`, an f32, `scaler/growth` and `scaler/skipped`, i64, none
    /// with an axis.
    pub fn state(&self) -> Result<Vec<(String, Tensor)>> {
        let copy = |(name, tensor): (String, Tensor)| {
            let kind = if name == SCALE { Kind::Float } else { Kind::Int64 };
            Ok((name, tensor.f_to_dtype(kind, false, true)?))
        };
        self.own().into_iter().map(copy).collect()
    }

    /// Goes on from a `state` that was saved. Tensors whose names do not begin with `scaler/` may be
    /// in it.
    ///
    /// # Errors
    /// The name that is missing, that is not wanted, whose shape is another or whose value makes no
    /// sense; the state is then as it was.
    pub fn load_state(&mut self, state: &BTreeMap<String, Tensor>) -> error::Result<()> {
        if let Some(scale) = state.get(SCALE).filter(|scale| scale.numel() == 1) {
            let scale = scale.f_to_kind(Kind::Double).and_then(|scale| scale.f_double_value(&[]));
            let scale = scale.map_err(torch)?;
            if !scale.is_finite() || scale <= 0.0 {
                let text = format!("{SCALE} is {scale} in the checkpoint, which scales nothing");
                return Err(Error::new(ErrorKind::Data, text));
            }
        }
        restore("scaler/", &self.own(), state)
    }

    fn own(&self) -> Vec<(String, Tensor)> {
        let own = [
            (SCALE, &self.scale),
            ("scaler/growth", &self.growth),
            ("scaler/skipped", &self.skipped),
        ];
        own.map(|(name, tensor)| (name.to_string(), tensor.shallow_clone())).into()
    }
}

const SCALE: &str = "scaler/scale";

fn zero(kind: Kind, device: Device) -> Result<Tensor> {
    Tensor::f_zeros([0; 0], (kind, device))
}
