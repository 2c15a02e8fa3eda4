//! Files of weights: safetensors, the zip archive and the older format of `torch.save`.

use super::input::Input;
use super::refusal;
use crate::train::state_dict;
use forebay::Result;
use std::collections::BTreeMap;
use tch::{Kind, Tensor};

thread_local! {
    static FILE: Input = Input::named("weights.pth");
}

/// Tensors every value of which can be read, or an error.
pub fn run(bytes: &[u8]) -> String {
    told(FILE.with(|file| state_dict::read(file.put(bytes))))
}

pub(super) fn told(read: Result<BTreeMap<String, Tensor>>) -> String {
    /// Strides of 0 make tensors far larger than their file; the reader bounds them, summing takes long.
    const MOST: usize = 1 << 16;

    let tensors = match read {
        Ok(tensors) => tensors,
        Err(error) => return refusal(&error),
    };
    assert!(!tensors.is_empty());
    for tensor in tensors.values().filter(|tensor| tensor.numel() <= MOST) {
        // Every value is touched: one outside of its memory is a crash, sooner or later.
        let sum = tensor.f_to_kind(Kind::Double).and_then(|values| values.f_sum(Kind::Double));
        let _ = sum.expect("a tensor of the types that are read can be summed");
    }
    let kinds: Vec<_> = tensors.values().take(3).map(Tensor::kind).collect();
    format!("{} tensors {kinds:?}", tensors.len().min(3))
}
