//! A trained network out of a file, to be asked and no longer taught.

use crate::train::checkpoint::{self, Checkpoint, Meta, Model, Tensors};
use crate::train::device::Device;
use crate::train::freeze::Unfreeze;
use crate::train::learner::{Learner, Recipe};
use crate::train::{lora, optimizer, precision::Precision, state_dict, weights};
use anyhow::{Context, Result, bail};
use std::path::Path;

/// The network of a checkpoint or of a state dict at `path`, and the story of the first. Mirror images
/// are looked at, too, with `test_flip` or where the run did.
pub(crate) fn open(
    path: &Path,
    device: &Device,
    precision: Precision,
    test_flip: bool,
) -> Result<(Learner, Option<Meta>)> {
    let (model, tensors, meta) = read(path)?;
    let recipe = Recipe {
        // Nothing learns; so little has state.
        unfreeze: Unfreeze::Last,
        freeze_norm: false,
        optimizer: optimizer::Options::default(),
        clip_norm: None,
        precision,
        checkpoint_activations: false,
        label_smoothing: 0.0,
        test_flip: test_flip || settings(meta.as_ref())?.get("test_flip").is_some_and(is_true),
    };
    let (mut learner, _) = Learner::new(model, recipe, None, device.torch())?;
    learner.load_weights(&tensors).with_context(|| path.display().to_string())?;
    Ok((learner, meta))
}

/// What held in the run that left a checkpoint; nothing where there is none.
pub(crate) fn settings(meta: Option<&Meta>) -> Result<toml::Table> {
    let config = meta.map_or("", |meta| &meta.config);
    config.parse().context("the checkpoint's settings")
}

fn is_true(value: &toml::Value) -> bool {
    value.as_bool() == Some(true)
}

/// Weights to start from: a state dict's or a whole checkpoint's, with adapters merged into them.
pub(crate) fn weights(path: &Path) -> Result<Tensors> {
    Ok(lora::merge(checkpoint::weights(path)?)?)
}

fn read(path: &Path) -> Result<(Model, Tensors, Option<Meta>)> {
    if Meta::peek(path).is_some() {
        let checkpoint = Checkpoint::read(path)?;
        let tensors = checkpoint.tensors()?;
        return Ok((checkpoint.meta.model.clone(), tensors, Some(checkpoint.meta)));
    }
    let tensors = state_dict::read(path)?;
    let size = |name: &str| tensors.get(name).map(tch::Tensor::size);
    let (Some(conv1), Some(head)) = (size("conv1.weight"), size("fc.weight")) else {
        bail!("{}: no weights of a ResNet-18: conv1.weight or fc.weight is missing", path.display())
    };
    let Some(stem) = weights::stem(&conv1) else {
        bail!("{}: conv1.weight has the shape {conv1:?}, which is no stem here", path.display())
    };
    let [classes @ 1..=Model::MOST_CLASSES, _] = head[..] else {
        bail!("{}: fc.weight has the shape {head:?}, which is no head here", path.display())
    };
    let model = Model { stem, classes, names: Vec::new(), lora: None };
    Ok((model, tensors, None))
}
