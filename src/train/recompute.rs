//! Activation checkpointing: a backward pass that keeps the input of each segment of the network
//! instead of all that happened in it, and computes that again when it gets there.
//!
//! T. Chen, B. Xu, C. Zhang, C. Guestrin: *Training deep nets with sublinear memory cost* (2016).

use super::resnet::{Mode, ResNet18, Segment};
use super::shim::{self, Autocast};
use tch::{TchError, Tensor, no_grad};

type Result<T> = std::result::Result<T, TchError>;

/// Does what a forward pass over `images` in [`Mode::Train`], `objective` of the logits and the
/// backward pass from what that returns would do: adds the same gradients to the parameters, and the
/// same statistics to the batch norms, once.
///
/// `autocast` begins what each part of the forward pass computes under, `objective` too. None
/// belongs around the call: one that keeps its casts would keep those that were made without a graph.
///
/// Costs another forward pass of all but the head and what lies below the first segment that learns.
pub fn backward(
    model: &ResNet18,
    images: &Tensor,
    autocast: impl Fn() -> Result<Option<Autocast>>,
    objective: impl FnOnce(&Tensor) -> Result<Tensor>,
) -> Result<()> {
    let under = |segment: &Segment, x: &Tensor, mode| {
        let _autocast = autocast()?;
        segment.forward(x, mode)
    };
    let (head, body) = model.segments().split_last().expect("a network has segments");
    let first = body.iter().position(Segment::is_trainable).unwrap_or(body.len());
    let mut kept = Vec::new();
    let mut x = images.shallow_clone();
    for (i, segment) in body.iter().enumerate() {
        let y = no_grad(|| under(segment, &x, Mode::Train))?;
        if i >= first {
            kept.push((segment, x));
        }
        x = y;
    }

    // Nobody asks for the gradient of what the first segment that learns is given.
    let x = leaf(&x, !kept.is_empty())?;
    let score = {
        let _autocast = autocast()?;
        objective(&head.forward(&x, Mode::Train)?)?
    };
    score.f_backward()?;
    let mut gradient = x.f_grad()?;
    while let Some((segment, x)) = kept.pop() {
        let x = leaf(&x, !kept.is_empty())?;
        shim::backward(&under(segment, &x, Mode::Again)?, &gradient)?;
        gradient = x.f_grad()?;
    }
    Ok(())
}

/// The same values, at which a graph ends.
fn leaf(x: &Tensor, wants_gradient: bool) -> Result<Tensor> {
    x.f_detach()?.f_set_requires_grad(wants_gradient)
}
