//! One step of training and one of evaluation, on tensors.

use super::metrics::Meter;
use super::resnet::{Mode, ResNet18};
use tch::nn::Optimizer;
use tch::{Reduction, TchError, Tensor, no_grad};

/// Learns from a batch: forward, loss, backward, update. The metrics are those before the update.
///
/// Nothing that outlives the call refers to `images` or `labels`.
pub fn train(
    model: &ResNet18,
    optimizer: &mut Optimizer,
    images: &Tensor,
    labels: &Tensor,
    meter: &mut Meter,
) -> Result<(), TchError> {
    let logits = model.forward(images, Mode::Train)?;
    let loss = cross_entropy(&logits, labels)?;
    optimizer.zero_grad();
    loss.f_backward()?;
    optimizer.step();
    meter.add(&loss, &logits, labels)
}

/// Scores a batch with the running statistics; changes nothing but the meter.
///
/// Nothing that outlives the call refers to `images` or `labels`.
pub fn evaluate(
    model: &ResNet18,
    images: &Tensor,
    labels: &Tensor,
    meter: &mut Meter,
) -> Result<(), TchError> {
    no_grad(|| {
        let logits = model.forward(images, Mode::Eval)?;
        meter.add(&cross_entropy(&logits, labels)?, &logits, labels)
    })
}

/// The mean over the batch, in nats. No label is ignored.
fn cross_entropy(logits: &Tensor, labels: &Tensor) -> Result<Tensor, TchError> {
    const IGNORED: i64 = -100;
    logits.f_cross_entropy_loss(labels, None::<Tensor>, Reduction::Mean, IGNORED, 0.0)
}
