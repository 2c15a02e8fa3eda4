//! The training loop, top to bottom.

use super::batch::lend;
use super::checkpoint::{Meta, Store};
use super::device::Device;
use super::metrics::{Clock, Meter, Metrics, Times};
use super::resnet::{ResNet18, Stem};
use super::{step, torch};
use crate::error::{Error, ErrorKind, Result};
use crate::loader::{Batch, Loader};
use std::rc::Rc;
use std::sync::atomic::{AtomicBool, Ordering};
use tch::nn::{Adam, OptimizerConfig, VarStore};

/// What a user chooses about a run.
#[derive(Debug, Clone)]
pub struct Options {
    /// Where to compute. The loaders' batches lie there.
    pub device: Device,
    /// Passes over the training samples.
    pub epochs: u32,
    /// Adam's learning rate.
    pub learning_rate: f64,
    /// The model's stem.
    pub stem: Stem,
    /// The model's classes; labels are below it. `None`: as many as the data has.
    pub classes: Option<i64>,
    /// Threads of libtorch; `None`: its own choice, one a physical core. The weights of two runs are
    /// the same to the bit only where these are.
    pub torch_threads: Option<i32>,
    /// Trains on the first batch again and again, as many times as an epoch has batches: what
    /// training costs with a loader that costs nothing.
    pub repeat_batch: bool,
    /// Steps between two readings of the metrics.
    pub log_every: usize,
}

/// What a run learns from and is judged by.
pub struct Data {
    /// Training samples; its seed also governs the weights.
    pub train: Loader,
    /// Validation samples, always those of the pipeline's epoch 0.
    pub valid: Option<Loader>,
}

/// What a run tells as it goes.
#[derive(Debug, Clone, Copy)]
pub enum Event<'a> {
    /// Once, before the first step.
    Start {
        /// Numbers that training changes.
        parameters: usize,
        /// The model's classes.
        classes: i64,
        /// What computes.
        device: &'a str,
        /// Threads of libtorch on the CPU.
        torch_threads: i32,
    },
    /// After each batch.
    Step(&'a Step),
    /// After each epoch.
    Epoch(&'a Epoch),
}

/// Where a run stands within a pass over its training or validation samples.
#[derive(Debug, Clone, Copy)]
pub struct Step {
    /// Whether this is the validation pass.
    pub validating: bool,
    /// The epoch, from 1.
    pub epoch: u32,
    /// Batches done.
    pub step: usize,
    /// Batches of the pass.
    pub steps: usize,
    /// The pass so far.
    pub times: Times,
    /// The pass so far, at every `log_every`-th training step.
    pub metrics: Option<Metrics>,
}

/// What came of an epoch.
#[derive(Debug, Clone, Copy)]
pub struct Epoch {
    /// The epoch, from 1.
    pub epoch: u32,
    /// Over the training samples, each as the model was when it saw them.
    pub train: Metrics,
    /// Over the validation samples after the epoch.
    pub valid: Option<Metrics>,
    /// Of the training pass.
    pub train_times: Times,
    /// Of the validation pass.
    pub valid_times: Times,
}

/// What came of a run.
#[derive(Debug, Clone, Copy, Default)]
pub struct Summary {
    /// Epochs finished.
    pub epochs: u32,
    /// `Some(n)`: the run was told to stop and did so after `n` steps of the next epoch.
    pub stopped: Option<usize>,
    /// Of all training passes.
    pub train_times: Times,
    /// Of all validation passes.
    pub valid_times: Times,
}

/// Trains a ResNet-18 with Adam on cross-entropy. Keeps the newest weights in `store`.
///
/// When `stop` becomes true the step under way is finished and the weights are saved. Two runs with
/// the same data, options and seed leave the same weights to the bit on one kind of processor; on a
/// GPU, some of cuDNN's kernels add in an order that nobody promises.
///
/// On a GPU the loop queues work and goes on; it waits for the device where it reads the metrics and
/// saves, and the loader where one of its slots comes round.
pub fn run(
    options: &Options,
    data: &mut Data,
    store: &Store,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Event<'_>),
) -> Result<Summary> {
    let Data { train, valid } = data;
    let classes = options.classes.map_or_else(|| classes(train, valid.as_ref()), Ok)?;
    let stopped = || stop.load(Ordering::Relaxed);

    // libtorch's one generator draws the weights and nothing else: data has its own, keyed, draws.
    let seed = train.seed();
    tch::manual_seed(seed as i64);
    if let Some(threads) = options.torch_threads {
        tch::set_num_threads(threads);
    }
    let torch_threads = tch::get_num_threads();
    let device = options.device.torch();
    let mut variables = VarStore::new(tch::Device::Cpu);
    let model = ResNet18::new(&variables.root(), options.stem, classes).map_err(torch)?;
    tch::no_grad(|| variables.set_device(device));
    let mut optimizer = Adam::default().build(&variables, options.learning_rate).map_err(torch)?;
    let parameters = variables.trainable_variables().iter().map(tch::Tensor::numel).sum();
    tell(Event::Start { parameters, classes, device: options.device.name(), torch_threads });

    let save = |epoch, step: usize| {
        let version = env!("CARGO_PKG_VERSION").to_string();
        let (step, stem) = (step as u64, options.stem);
        let meta = Meta { version, epoch, step, seed, stem, classes, torch_threads };
        store.save(&variables.variables(), &meta)
    };
    let held = match options.repeat_batch {
        true => train.epoch(0).next().transpose()?.map(Rc::new),
        false => None,
    };
    let steps = train.len();
    if steps == 0 || train.samples() < 2 {
        let message = format!("{} training samples make no batch to learn from", train.samples());
        return Err(Error::new(ErrorKind::Data, message));
    }

    let mut summary = Summary::default();
    for epoch in 0..options.epochs {
        // Train.
        let mut meter = Meter::new(device).map_err(torch)?;
        let mut clock = Clock::start();
        let mut done = 0;
        let mut batches: Box<dyn Iterator<Item = Result<Rc<Batch>>>> = match &held {
            Some(batch) => Box::new((0..steps).map(|_| Ok(batch.clone()))),
            None => Box::new(train.epoch(epoch).map(|batch| batch.map(Rc::new))),
        };
        while !stopped() {
            let Some(batch) = clock.wait(|| batches.next()) else { break };
            let batch = batch?;
            lend(&batch, classes, |images, labels| {
                // Batch norm has no variance over one sample, and would take in one that is NaN.
                if labels.size1().map_err(torch)? > 1 {
                    step::train(&model, &mut optimizer, images, labels, &mut meter)
                        .map_err(torch)?;
                }
                Ok(())
            })?;
            clock.count(batch.len());
            done += 1;
            // Reading waits for the device, so that the last step's time is that of the whole pass.
            let log = done % options.log_every.max(1) == 0 || done == steps;
            let metrics = log.then(|| meter.read()).transpose().map_err(torch)?;
            tell(Event::Step(&Step {
                validating: false,
                epoch: epoch + 1,
                step: done,
                steps,
                times: clock.read(),
                metrics,
            }));
        }
        drop(batches);
        let train_times = clock.read();
        summary.train_times += train_times;
        if done < steps {
            save(epoch, done)?;
            summary.stopped = Some(done);
            return Ok(summary);
        }
        summary.epochs = epoch + 1;
        save(epoch + 1, 0)?;
        let train_metrics = meter.read().map_err(torch)?;

        // Validate.
        let mut meter = Meter::new(device).map_err(torch)?;
        let mut clock = Clock::start();
        if let Some(valid) = valid {
            let steps = valid.len();
            let mut batches = valid.epoch(0);
            let mut done = 0;
            while !stopped() {
                let Some(batch) = clock.wait(|| batches.next()) else { break };
                let batch = batch?;
                lend(&batch, classes, |images, labels| {
                    step::evaluate(&model, images, labels, &mut meter).map_err(torch)
                })?;
                clock.count(batch.len());
                done += 1;
                tell(Event::Step(&Step {
                    validating: true,
                    epoch: epoch + 1,
                    step: done,
                    steps,
                    times: clock.read(),
                    metrics: None,
                }));
            }
        }
        // Metrics of a part would pass for those of the whole.
        let whole = valid.is_some() && !stopped();
        let valid_metrics = whole.then(|| meter.read()).transpose().map_err(torch)?;
        let valid_times = clock.read();
        summary.valid_times += valid_times;
        tell(Event::Epoch(&Epoch {
            epoch: epoch + 1,
            train: train_metrics,
            valid: valid_metrics,
            train_times,
            valid_times,
        }));
        if stopped() {
            summary.stopped = Some(0);
            return Ok(summary);
        }
    }
    Ok(summary)
}

/// The classes that the data names, else one more than its largest label.
fn classes(train: &Loader, valid: Option<&Loader>) -> Result<i64> {
    /// A head of so many classes takes 200 MB and as much for each of Adam's moments. A larger label
    /// is rather a slip in the list than a class.
    const MOST: i64 = 100_000;

    if !train.classes().is_empty() {
        return Ok(train.classes().len() as i64);
    }
    let labels = |loader: &Loader| (0..loader.samples()).map(|id| loader.label(id)).max();
    let largest = std::iter::once(train).chain(valid).filter_map(labels).max().unwrap_or(0);
    if largest >= MOST {
        let message = format!("label {largest} would make a model of as many classes");
        return Err(Error::new(ErrorKind::Limit, message));
    }
    Ok(largest + 1)
}
