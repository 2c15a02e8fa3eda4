//! Low-rank adapters: beside each frozen weight W a product B·A of few numbers, which learns.
//!
//! E. Hu, Y. Shen, P. Wallis, Z. Allen-Zhu, Y. Li, S. Wang, L. Wang, W. Chen: *LoRA: low-rank
//! adaptation of large language models* (ICLR 2022). Their alpha is the rank here, so that the product
//! is not scaled. For a convolution A is one of `rank` channels with the same kernel, and B a 1x1
//! convolution behind it. They run beside the frozen layer and not as W + B·A in its place, which
//! would want the gradient of a whole weight: a third of the work of a step.

use super::adapter::{A, Adapter, B};
use super::resnet::ResNet18;
use super::state_dict::shown;
use super::torch;
use crate::error::{Error, ErrorKind, Result};
use std::collections::{BTreeMap, BTreeSet};
use tch::nn::VarStore;
use tch::{Kind, TchError, Tensor, no_grad};

type TorchResult<T> = std::result::Result<T, TchError>;

/// What the head learns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Head {
    /// An adapter, as the convolutions: for weights whose head knows the classes already.
    Adapted,
    /// All of itself: for a head that was drawn anew, which no adapter of low rank makes good.
    Whole,
}

impl ResNet18 {
    /// Freezes the network, whose parameters are `variables`, and puts adapters of `rank` (1 or more)
    /// on its convolutions and its head, or trains the head itself. They compute nothing but zeros
    /// before they have learned. Their names are `layer1.0.conv1.lora_a`, of `rank`xIxKxK, and
    /// `layer1.0.conv1.lora_b`, of Ox`rank`x1x1; the head's `fc.lora_a` and `fc.lora_b` have two axes.
    ///
    /// Draws come from libtorch's generator of the CPU. Comes once, at most.
    pub fn add_lora(&mut self, variables: &VarStore, rank: i64, head: Head) -> TorchResult<()> {
        for (name, parameter) in variables.variables() {
            let whole = head == Head::Whole && ["fc.weight", "fc.bias"].contains(&name.as_str());
            let _ = parameter.f_set_requires_grad(whole)?;
        }
        let root = variables.root();
        let mut weights: Vec<_> = self.weights_mut().collect();
        if head == Head::Whole {
            weights.pop();
        }
        weights.into_iter().try_for_each(|weight| weight.adapt(&root, rank))
    }
}

/// The layers that have adapters in a state dict.
pub fn layers(tensors: &BTreeMap<String, Tensor>) -> BTreeSet<String> {
    let layer = |name: &String| {
        let layer = name.strip_suffix(A).or_else(|| name.strip_suffix(B))?.strip_suffix('.')?;
        Some(layer.to_string())
    };
    tensors.keys().filter_map(layer).collect()
}

/// The state dict of the plain network that gives the logits of the adapted one, up to the rounding
/// of f32: logits of a few units are off by less than 1e-5.
///
/// # Errors
/// Where half of an adapter or its weight is missing, or their shapes do not fit each other.
pub fn merge(mut tensors: BTreeMap<String, Tensor>) -> Result<BTreeMap<String, Tensor>> {
    for layer in layers(&tensors) {
        let mut take = |name: &str| {
            let name = format!("{layer}.{name}");
            let tensor = tensors.remove(&name).filter(|tensor| tensor.is_floating_point());
            let missing = || data(format!("{} is missing or holds no floats", shown(&name)));
            tensor.ok_or_else(missing)?.f_to_kind(Kind::Float).map_err(torch)
        };
        let (weight, a, b) = (take("weight")?, take(A)?, take(B)?);
        let (w, size_a, size_b) = (weight.size(), a.size(), b.size());
        let fits = matches!(w.len(), 2 | 4)
            && [size_a.len(), size_b.len()] == [w.len(); 2]
            && size_a[1..] == w[1..]
            && size_b[..2] == [w[0], size_a[0]]
            && size_b[2..].iter().all(|size| *size == 1);
        if !fits {
            let text =
                format!("{layer}: {A} of {size_a:?}, {B} of {size_b:?} and the weight of {w:?}");
            return Err(data(format!("{text} do not fit each other")));
        }
        let merged = no_grad(|| Adapter { a, b }.merged(&weight)).map_err(torch)?;
        tensors.insert(format!("{layer}.weight"), merged);
    }
    Ok(tensors)
}

fn data(text: String) -> Error {
    Error::new(ErrorKind::Data, text)
}
