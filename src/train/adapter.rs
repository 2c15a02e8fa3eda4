//! The two matrices beside a frozen weight; lora.rs says what for.

use super::init::{channels_last, uniform};
use tch::nn::Path;
use tch::{TchError, Tensor};

type Result<T> = std::result::Result<T, TchError>;

/// The names of the matrices under their layer.
pub(super) const A: &str = "lora_a";
/// As [`A`].
pub(super) const B: &str = "lora_b";

/// The two matrices of a layer.
#[derive(Debug)]
pub(super) struct Adapter {
    pub(super) a: Tensor,
    pub(super) b: Tensor,
}

impl Adapter {
    /// An adapter of `weight`, (O, I) or (O, I, K, K), with the parameters `lora_a` and `lora_b` of
    /// `path`: A from He's uniform distribution as PyTorch draws layers, B of zeros.
    pub(super) fn new(path: &Path<'_>, weight: &Tensor, rank: i64) -> Result<Self> {
        let mut a = weight.size();
        let mut b = vec![1; a.len()];
        (b[0], b[1]) = (a[0], rank);
        a[0] = rank;
        let fan_in: i64 = a[1..].iter().product();
        let mut a = uniform(&a, 1.0 / (fan_in as f64).sqrt())?;
        if a.dim() == 4 {
            a = channels_last(&a)?;
        }
        let b = Tensor::f_zeros(&b, tch::kind::FLOAT_CPU)?;
        let add = |name, drawn: Tensor| -> Result<Tensor> {
            Ok(path.add(name, drawn.f_to_device(path.device())?, true))
        };
        Ok(Adapter { a: add(A, a)?, b: add(B, b)? })
    }

    /// The weight of the plain layer that does the same as one of `weight` with this beside it.
    pub(super) fn merged(&self, weight: &Tensor) -> Result<Tensor> {
        // With I last, as convolutions lie in memory, nothing of this copies.
        let rows = |tensor: &Tensor| match tensor.dim() {
            4 => tensor.f_permute([0, 2, 3, 1])?.f_flatten(1, -1),
            _ => Ok(tensor.shallow_clone()),
        };
        let sum = rows(weight)?.f_addmm(&rows(&self.b)?, &rows(&self.a)?)?;
        match weight.size()[..] {
            [o, i, h, w] => sum.f_view([o, h, w, i])?.f_permute([0, 3, 1, 2]),
            _ => Ok(sum),
        }
    }

    pub(super) fn is_trainable(&self) -> bool {
        self.a.requires_grad() || self.b.requires_grad()
    }
}
