//! All that a step of training changes, and the step.

use super::batch::Samples;
use super::checkpoint::{Model, Tensors};
use super::clip::clip_norm;
use super::freeze::{self, Unfreeze};
use super::guard::Guard;
use super::lora::Head;
use super::metrics::Meter;
use super::optimizer::{self, Optimizer};
use super::precision::Precision;
use super::resnet::{Mode, ResNet18};
use super::scaler::{GradScaler, Scaling};
use super::state_dict::shown;
use super::{recompute, torch, weights};
use crate::error::{Error, ErrorKind, Result};
use crate::loader::Batch;
use tch::nn::VarStore;
use tch::{Device, Kind, Reduction, TchError, Tensor, no_grad};

/// What a step does.
#[derive(Debug, Clone)]
pub struct Recipe {
    /// What learns.
    pub unfreeze: Unfreeze,
    /// Batch norms of layers that do not learn keep their statistics.
    pub freeze_norm: bool,
    /// The optimiser.
    pub optimizer: optimizer::Options,
    /// The norm over all gradients to which larger ones are scaled down.
    pub clip_norm: Option<f64>,
    /// What the forward pass computes in.
    pub precision: Precision,
    /// Computes activations again in the backward pass instead of keeping them.
    pub checkpoint_activations: bool,
    /// Share of the target that goes to all classes alike, 0 to below 1.
    pub label_smoothing: f64,
    /// Scores an image by the mean of its logits and its mirror image's.
    pub test_flip: bool,
}

/// A network, its optimiser, and what keeps bad steps off both.
#[derive(Debug)]
pub struct Learner {
    model: Model,
    recipe: Recipe,
    device: Device,
    variables: VarStore,
    network: ResNet18,
    optimizer: Optimizer,
    /// Where losses are scaled.
    scaler: Option<GradScaler>,
    guard: Guard,
    /// Of the batches since the last update, how much of one step they are.
    share: f64,
}

impl Learner {
    /// A network with weights drawn from libtorch's generator, then taken from `weights` as far as
    /// they go: what became of those comes with it.
    pub fn new(
        mut model: Model,
        recipe: Recipe,
        weights: Option<&Tensors>,
        device: Device,
    ) -> Result<(Self, Option<weights::Report>)> {
        recipe.precision.check(device)?;
        recipe.optimizer.check()?;
        let mut variables = VarStore::new(Device::Cpu);
        let mut network =
            ResNet18::new(&variables.root(), model.stem, model.classes).map_err(torch)?;
        let report = weights.map(|weights| weights::load(&variables, weights)).transpose()?;
        freeze::apply(&variables, recipe.unfreeze)?;
        if let Some(lora) = &mut model.lora {
            // A head that knows these classes already is adapted; one that was drawn anew is not.
            if let Some(report) = &report {
                lora.head =
                    report.head.is_none() && !report.missing.iter().any(|n| n == "fc.weight");
            }
            let head = if lora.head { Head::Adapted } else { Head::Whole };
            network.add_lora(&variables, lora.rank, head).map_err(torch)?;
        }
        if recipe.freeze_norm {
            let unfreeze = recipe.unfreeze;
            network.freeze_statistics(|norm| model.lora.is_some() || !unfreeze.trainable(norm));
        }
        no_grad(|| variables.set_device(device));
        let mut named: Vec<_> = variables.variables().into_iter().collect();
        named.sort_by(|(a, _), (b, _)| a.cmp(b));
        let optimizer = Optimizer::new(recipe.optimizer, named).map_err(torch)?;
        let scaler = match recipe.precision {
            Precision::F16Mixed => {
                Some(GradScaler::new(Scaling::default(), device).map_err(torch)?)
            }
            Precision::F32 | Precision::Bf16Mixed => None,
        };
        let guard = Guard::new(device, 0).map_err(torch)?;
        let learner = Learner {
            model,
            recipe,
            device,
            variables,
            network,
            optimizer,
            scaler,
            guard,
            share: 0.0,
        };
        Ok((learner, report))
    }

    /// What it learns to tell apart, and with what.
    pub fn model(&self) -> &Model {
        &self.model
    }

    /// Where it computes.
    pub fn device(&self) -> Device {
        self.device
    }

    /// Numbers that training changes, and all there are.
    pub fn parameters(&self) -> (usize, usize) {
        let count = |tensors: Vec<Tensor>| tensors.iter().map(Tensor::numel).sum();
        let all = self.variables.trainable_variables();
        let learning = all.iter().filter(|t| t.requires_grad()).map(Tensor::shallow_clone);
        (count(learning.collect()), count(all))
    }

    /// Adds the gradients of a batch, which is `share` of a step, 0 to 1, and its metrics as they
    /// were before the step. A batch of one sample adds nothing: batch norm has no variance over it,
    /// and would take in one that is not a number.
    pub fn learn(&mut self, samples: &Samples, share: f64, meter: &mut Meter) -> Result<()> {
        if samples.ids.len() < 2 {
            return Ok(());
        }
        self.share += share;
        self.backward(samples, share, meter).map_err(torch)
    }

    fn backward(
        &mut self,
        samples: &Samples,
        share: f64,
        meter: &mut Meter,
    ) -> Result<(), TchError> {
        let Samples { images, labels, .. } = samples;
        let Learner { network, recipe, device, scaler, guard, .. } = self;
        let autocast = || recipe.precision.autocast(*device);
        let mut objective = |logits: &Tensor| {
            let logits = logits.f_to_kind(Kind::Float)?;
            let loss = cross_entropy(&logits, labels, recipe.label_smoothing)?;
            if scaler.is_none() {
                guard.latch(&loss)?;
            }
            meter.add(&loss.f_detach()?, &logits.f_detach()?, labels)?;
            let loss = if share == 1.0 { loss } else { loss.f_mul_scalar(share)? };
            match scaler {
                Some(scaler) => scaler.scale_loss(&loss),
                None => Ok(loss),
            }
        };
        if recipe.checkpoint_activations {
            return recompute::backward(network, images, autocast, objective);
        }
        let logits = {
            let _autocast = autocast()?;
            network.forward(images, Mode::Train)?
        };
        objective(&logits)?.f_backward()
    }

    /// Takes a step along the gradients that were added since the last one, and forgets them.
    /// With `measure`, or where it clips, it also gives their norm: one f32 on the device. Without
    /// gradients nothing changes.
    pub fn update(
        &mut self,
        rate: f64,
        momentum: Option<f64>,
        measure: bool,
    ) -> Result<Option<Tensor>> {
        self.step(rate, momentum, measure).map_err(torch)
    }

    fn step(
        &mut self,
        rate: f64,
        momentum: Option<f64>,
        measure: bool,
    ) -> Result<Option<Tensor>, TchError> {
        let mut gradients = self.optimizer.gradients();
        let share = std::mem::take(&mut self.share);
        // The last step of an epoch may have fewer samples than the others.
        if share > 0.0 && (share - 1.0).abs() > 1e-6 {
            no_grad(|| {
                gradients.iter_mut().try_for_each(|g| g.f_mul_scalar_(1.0 / share).map(|_| ()))
            })?;
        }
        if let Some(scaler) = &mut self.scaler {
            scaler.unscale(&gradients)?;
        }
        // There are none where every batch was of one sample.
        let measure = (measure || self.recipe.clip_norm.is_some()) && !gradients.is_empty();
        let norm = measure.then(|| clip_norm(&gradients, self.recipe.clip_norm)).transpose()?;
        if let (None, Some(norm)) = (&self.scaler, &norm) {
            self.guard.latch(norm)?;
        }
        let found_inf = match &self.scaler {
            Some(scaler) => scaler.found_inf(),
            None => self.guard.found_inf(),
        };
        self.optimizer.step(rate, momentum, Some(found_inf))?;
        match &mut self.scaler {
            Some(scaler) => scaler.update()?,
            None => self.guard.update()?,
        }
        self.optimizer.zero_grad()?;
        Ok(norm)
    }

    /// (N, classes) f32 logits of images in evaluation, without a graph.
    pub fn logits(&self, images: &Tensor) -> Result<Tensor, TchError> {
        no_grad(|| {
            let _autocast = self.recipe.precision.autocast(self.device)?;
            let logits = self.network.forward(images, Mode::Eval)?.f_to_kind(Kind::Float)?;
            if !self.recipe.test_flip {
                return Ok(logits);
            }
            let mirrored = self.network.forward(&images.f_flip([3])?, Mode::Eval)?;
            logits.f_add(&mirrored.f_to_kind(Kind::Float)?)?.f_mul_scalar(0.5)
        })
    }

    /// The likeliest classes of a batch's first sample with their probabilities, the likeliest first.
    pub fn likely(&self, batch: Batch, count: i64) -> Result<Vec<(i64, f64)>> {
        let Some(samples) = Samples::of(batch, self.model.classes)? else { return Ok(Vec::new()) };
        let likely = || -> Result<_, TchError> {
            let logits = self.logits(&samples.images.f_to_device(self.device)?)?.f_get(0)?;
            let count = count.min(self.model.classes);
            let (shares, labels) =
                logits.f_softmax(0, Kind::Double)?.f_topk(count, 0, true, true)?;
            Ok((Vec::<i64>::try_from(labels)?, Vec::<f64>::try_from(shares)?))
        };
        let (labels, shares) = likely().map_err(torch)?;
        Ok(labels.into_iter().zip(shares).collect())
    }

    /// The number, from 1, of the first step with a loss that was not finite; it and those after it
    /// changed no weight. `None` with f16, whose scaler skips such steps. Waits for the device.
    pub fn first_bad(&self) -> Result<Option<u64>> {
        match self.scaler {
            Some(_) => Ok(None),
            None => self.guard.read().map_err(torch),
        }
    }

    /// With f16: steps that were skipped, and the scale. Waits for the device.
    pub fn scaling(&self) -> Result<Option<(u64, f64)>> {
        let Some(scaler) = &self.scaler else { return Ok(None) };
        Ok(Some((scaler.skipped().map_err(torch)?, scaler.scale().map_err(torch)?)))
    }

    /// Whether every weight is. Waits for the device.
    pub fn is_finite(&self) -> Result<bool> {
        let sum = || -> Result<f64, TchError> {
            let weights = self.variables.variables();
            let sums = weights.values().map(|weight| weight.f_sum(Kind::Float));
            let sums = sums.collect::<Result<Vec<_>, _>>()?;
            Tensor::f_stack(&sums, 0)?.f_abs()?.f_sum(Kind::Double)?.f_double_value(&[])
        };
        Ok(sum().map_err(torch)?.is_finite())
    }

    /// The weights by torchvision's names.
    pub fn weights(&self) -> Tensors {
        self.variables.variables().into_iter().collect()
    }

    /// Weights and the state of optimiser and scaler.
    pub fn state(&self) -> Result<Tensors> {
        let mut all = self.weights();
        all.extend(self.optimizer.state());
        if let Some(scaler) = &self.scaler {
            all.extend(scaler.state().map_err(torch)?);
        }
        Ok(all)
    }

    /// Takes over the state of another learner of the same model and recipe after so many `steps`.
    pub fn load(&mut self, tensors: &Tensors, steps: u64) -> Result<()> {
        self.load_weights(tensors)?;
        self.optimizer.load_state(tensors)?;
        if let Some(scaler) = &mut self.scaler {
            scaler.load_state(tensors)?;
        }
        self.guard = Guard::new(self.device, steps).map_err(torch)?;
        Ok(())
    }

    /// Takes over all weights, and those alone.
    pub fn load_weights(&mut self, tensors: &Tensors) -> Result<()> {
        let plain = tensors.iter().filter(|(name, _)| !name.contains('/'));
        let plain = plain.map(|(name, tensor)| (name.clone(), tensor.shallow_clone())).collect();
        let report = weights::load(&self.variables, &plain)?;
        let odd = report.missing.iter().chain(&report.unexpected).next();
        if let Some(name) = odd.map(String::as_str).or(report.head.map(|_| "fc.weight")) {
            let name = shown(name);
            let text = format!("its weights are another network's: {name} does not fit");
            return Err(Error::new(ErrorKind::Data, text));
        }
        Ok(())
    }
}

/// The mean over the batch, in nats. No label is ignored.
fn cross_entropy(logits: &Tensor, labels: &Tensor, smoothing: f64) -> Result<Tensor, TchError> {
    logits.f_cross_entropy_loss(labels, None::<Tensor>, Reduction::Mean, -100, smoothing)
}
