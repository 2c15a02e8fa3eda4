//! How tensors begin: drawn, and laid out as convolutions want them.

use tch::{TchError, Tensor};

type Result<T> = std::result::Result<T, TchError>;

/// The same (N, C, H, W) values with the channels of a pixel side by side in memory.
pub(super) fn channels_last(tensor: &Tensor) -> Result<Tensor> {
    tensor.f_permute([0, 2, 3, 1])?.f_contiguous()?.f_permute([0, 3, 1, 2])
}

/// Values between -`bound` and `bound`.
pub(super) fn uniform(size: &[i64], bound: f64) -> Result<Tensor> {
    Tensor::f_empty(size, tch::kind::FLOAT_CPU)?.f_uniform_(-bound, bound)
}
