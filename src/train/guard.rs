//! A run in f32 or bfloat16 whose loss is no longer finite, stopped on the device.

use super::shim;
use tch::{Device, Kind, TchError, Tensor, no_grad};

type Result<T> = std::result::Result<T, TchError>;

/// Keeps weights and optimiser state as they were before the first step whose loss is not finite:
/// from that one on every step is masked.
///
/// A step: [`latch`](Self::latch) with each loss in it, the optimiser's step under
/// [`found_inf`](Self::found_inf), and [`update`](Self::update).
#[derive(Debug)]
pub struct Guard {
    found_inf: Tensor,
    one: Tensor,
    /// Steps so far, those that were done before it was made among them.
    steps: u64,
    /// How many of them were masked. A float, to which flags can be added as they are.
    masked: Tensor,
}

impl Guard {
    /// A guard on `device` that begins after `steps` steps.
    pub fn new(device: Device, steps: u64) -> Result<Self> {
        Ok(Guard {
            found_inf: Tensor::f_zeros([0; 0], (Kind::Float, device))?,
            one: Tensor::f_ones([0; 0], (Kind::Float, device))?,
            steps,
            masked: Tensor::f_zeros([0; 0], (Kind::Double, device))?,
        })
    }

    /// Looks at a loss, or at the norm of the gradients where it is at hand, which also tells of a
    /// gradient that is not finite though the loss was.
    pub fn latch(&mut self, value: &Tensor) -> Result<()> {
        no_grad(|| {
            // The check writes what it reads.
            let copy = value.f_to_dtype(Kind::Float, false, true)?;
            shim::unscale(&[copy], &mut self.found_inf, &self.one)
        })
    }

    /// 1 from the first value on that was not finite, else 0: one f32 on the device.
    pub fn found_inf(&self) -> &Tensor {
        &self.found_inf
    }

    /// Ends a step.
    pub fn update(&mut self) -> Result<()> {
        self.steps += 1;
        let _ = self.masked.f_add_(&self.found_inf)?;
        Ok(())
    }

    /// The number, from 1, of the first step that was masked. Waits for the device.
    pub fn read(&self) -> Result<Option<u64>> {
        let masked = self.masked.f_double_value(&[])? as u64;
        Ok((masked > 0).then(|| self.steps - masked + 1))
    }
}
