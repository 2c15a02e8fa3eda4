//! The norm of all gradients, and gradients clipped by it.
//!
//! R. Pascanu, T. Mikolov, Y. Bengio: *On the difficulty of training recurrent neural networks*
//! (ICML 2013).

use super::shim;
use tch::{TchError, Tensor, no_grad};

/// The L2 norm over all `gradients` as if they were one vector: one f32 on their device, 0 where
/// there are none. With `max`, scales them in place so that it is at most that; the norm that is
/// returned is that before.
///
/// The factor is `torch.nn.utils.clip_grad_norm_`'s, `max / (norm + 1e-6)` and at most 1. A norm that
/// is not finite spoils the gradients: such a step is to be masked. Does not wait for the device.
pub fn clip_norm(gradients: &[Tensor], max: Option<f64>) -> Result<Tensor, TchError> {
    if gradients.is_empty() {
        return Tensor::f_zeros([0; 0], tch::kind::FLOAT_CPU);
    }
    no_grad(|| {
        let norm = shim::norm(gradients)?;
        if let Some(max) = max {
            let factor = norm.f_add_scalar(1e-6)?.f_reciprocal()?.f_mul_scalar(max)?;
            // One launch for all gradients; what it finds out by the way is the caller's to ask.
            let mut found_inf = norm.f_zeros_like()?;
            shim::unscale(gradients, &mut found_inf, &factor.f_clamp_max(1.0)?)?;
        }
        Ok(norm)
    })
}
