//! What a run tells as it goes, for screens and logs.

use super::checkpoint::Model;
use super::evaluate::Evaluation;
use super::metrics::{Metrics, Times};
use super::weights;
use crate::stats::BadSamples;
use std::path::PathBuf;
use tch::Tensor;

/// What a run tells as it goes.
pub enum Event<'a> {
    /// Once, before the first step.
    Start {
        /// Numbers that training changes.
        learning: usize,
        /// Numbers in all.
        parameters: usize,
        /// The network.
        model: &'a Model,
        /// What computes.
        device: &'a str,
        /// Threads of libtorch on the CPU.
        torch_threads: i32,
        /// Steps done before, by a run that this one goes on from.
        resumed_at: Option<u64>,
    },
    /// What became of the weights that it started from.
    Weights(&'a weights::Report),
    /// Something that may surprise.
    Note(String),
    /// The first batch of the run: (N, 3, H, W) f32 on the device, N labels.
    Samples(&'a Tensor, &'a Tensor),
    /// After each batch.
    Batch(&'a Step),
    /// At every so many steps of the optimiser: what was measured since the last one.
    Log(&'a Log),
    /// After each epoch.
    Epoch(&'a Epoch<'a>),
}

/// Which pass over samples.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Pass {
    /// A look at two validation batches before the first epoch.
    Sanity,
    /// Training.
    Training,
    /// Validation after an epoch.
    Validating,
}

/// Where a run stands within a pass.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// The pass.
    pub pass: Pass,
    /// The epoch, from 1.
    pub epoch: u32,
    /// Batches done.
    pub step: usize,
    /// Batches of the pass.
    pub steps: usize,
    /// The pass so far, of which a run that was resumed knows only its own part.
    pub times: Times,
    /// What this process could not make of samples so far, of training and of validation.
    pub bad: BadSamples,
}

/// What was measured since the last such point.
#[derive(Debug, Clone, Copy)]
pub struct Log {
    /// The epoch, from 1.
    pub epoch: u32,
    /// Steps of the optimiser since the beginning of training.
    pub global_step: u64,
    /// Of that step.
    pub rate: f64,
    /// Since the last point.
    pub metrics: Metrics,
    /// Of the epoch so far.
    pub epoch_metrics: Metrics,
    /// Of the epoch so far.
    pub times: Times,
    /// Of that step's gradients, before clipping.
    pub grad_norm: Option<f64>,
    /// With 16-mixed: steps skipped so far, and the scale.
    pub scaling: Option<(u64, f64)>,
    /// What this process could not make of samples so far, of training and of validation.
    pub bad: BadSamples,
}

/// What came of an epoch.
pub struct Epoch<'a> {
    /// The epoch, from 1.
    pub epoch: u32,
    /// Steps of the optimiser since the beginning of training.
    pub global_step: u64,
    /// Of the last step.
    pub rate: f64,
    /// Over the training samples, each as the model was when it saw them.
    pub train: Metrics,
    /// Over the validation samples after the epoch.
    pub valid: Option<&'a Evaluation>,
    /// Of the training pass.
    pub train_times: Times,
    /// With 16-mixed: steps skipped so far, and the scale.
    pub scaling: Option<(u64, f64)>,
    /// What this process could not make of samples so far, of training and of validation.
    pub bad: BadSamples,
}

/// What came of a run.
#[derive(Debug, Default)]
pub struct Summary {
    /// Epochs finished, those before a resumption among them.
    pub epochs: u32,
    /// `Some(n)`: the run was told to stop and did so after `n` batches of the next epoch.
    pub stopped: Option<usize>,
    /// No improvement ended it.
    pub stopped_early: bool,
    /// Of all training passes of this process.
    pub train_times: Times,
    /// Of all validation passes of this process.
    pub valid_times: Times,
    /// The best checkpoint and its score.
    pub best: Option<(f64, PathBuf)>,
}
