//! The trainer: a ResNet-18 on libtorch, fed by the loader. The only place that names `tch`.
//!
//! [`run::run`] is the training loop and reads top to bottom; [`learner`] is a step. What they are
//! made of has a module each.

pub mod accumulate;
mod adapter;
pub mod batch;
pub mod checkpoint;
pub mod clip;
pub mod device;
pub mod early_stop;
pub mod evaluate;
pub mod event;
pub mod export;
pub mod freeze;
pub mod guard;
mod init;
mod layer;
pub mod learner;
pub mod log;
pub mod lora;
pub mod metric;
pub mod metrics;
pub mod optimizer;
pub mod plot;
pub mod precision;
pub mod recompute;
pub mod resnet;
pub mod run;
pub mod scaler;
pub mod schedule;
pub mod shim;
mod state;
pub mod state_dict;
pub mod weights;

use crate::error::{Error, ErrorKind};

/// libtorch's messages go on for a screen of C++ frames; the first line holds what happened.
///
/// No `From`: a second one for [`Error`], and only with this feature, makes code elsewhere ambiguous.
fn torch(error: tch::TchError) -> Error {
    let text = match error {
        tch::TchError::Torch(text) => text,
        other => other.to_string(),
    };
    let line = text.lines().next().unwrap_or_default();
    Error::new(ErrorKind::Device, format!("libtorch: {line}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn errors_of_libtorch_fit_one_line() {
        let a = tch::Tensor::zeros([2, 3], tch::kind::FLOAT_CPU);
        let text = torch(a.f_matmul(&a).unwrap_err()).to_string();
        assert!(text.starts_with("libtorch: ") && text.lines().count() == 1, "{text}");
    }
}
