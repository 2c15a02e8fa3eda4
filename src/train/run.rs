//! The training loop, top to bottom.

use super::accumulate::Accumulate;
use super::batch::Samples;
use super::checkpoint::{Checkpoint, Conditions, Identities, Lora, Meta, Model, Store, Tensors};
use super::device::Device;
use super::early_stop::{self, EarlyStop};
use super::evaluate::evaluate;
use super::event::{Epoch, Event, Log, Pass, Step, Summary};
use super::learner::{Learner, Recipe};
use super::metric::Metric;
use super::metrics::{Clock, Meter, Times};
use super::resnet::Stem;
use super::schedule::{self, Plan, Scheduler};
use super::torch;
use crate::error::{Error, ErrorKind, Result};
use crate::loader::{self, Loader, Position};
use crate::stats::BadSamples;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// What a user chooses about a run.
pub struct Options {
    /// Where to compute. The loaders' batches lie there.
    pub device: Device,
    /// The model's stem.
    pub stem: Stem,
    /// The model's classes; labels are below it. `None`: as many as the data has.
    pub classes: Option<i64>,
    /// The rank of low-rank adapters, which then learn in place of the weights.
    pub lora: Option<i64>,
    /// Weights to start from.
    pub weights: Option<Tensors>,
    /// What a step does.
    pub recipe: Recipe,
    /// Passes over the training samples.
    pub epochs: u32,
    /// Batches a step.
    pub accumulate: Accumulate,
    /// The learning rate by step.
    pub schedule: Plan,
    /// What checkpoints are rated by, and what a schedule that waits for a plateau watches.
    pub monitor: Metric,
    /// Whether more of it is better.
    pub maximize: bool,
    /// Ends the run before its last epoch.
    pub early_stop: Option<EarlyStop>,
    /// Steps between two checkpoints within an epoch; `None`: two minutes.
    pub save_every: Option<u64>,
    /// Steps between two readings of the metrics, at least 1.
    pub log_every: u64,
    /// Threads of libtorch; `None`: its own choice, one a physical core. The weights of two runs are
    /// the same to the bit only where these are.
    pub torch_threads: Option<i32>,
    /// Validates two batches before the first epoch, so that a mistake there shows now.
    pub sanity: bool,
    /// Trains on the first batch again and again, as many times as an epoch has batches: what
    /// training costs with a loader that costs nothing.
    pub repeat_batch: bool,
    /// The settings, as text for checkpoints.
    pub config: String,
}

/// What a run learns from and is judged by.
pub struct Data {
    /// Training samples; its seed also governs the weights.
    pub train: Loader,
    /// Validation samples, always those of the pipeline's epoch 0.
    pub valid: Option<Loader>,
}

impl Data {
    /// Which samples they are.
    pub fn identities(&self) -> Identities {
        Identities {
            train: self.train.identity(),
            valid: self.valid.as_ref().map(Loader::identity),
        }
    }
}

/// A run as it stands: what a checkpoint holds.
struct Run<'a> {
    learner: Learner,
    scheduler: Scheduler,
    early_stop: early_stop::State,
    meter: Meter,
    position: Position,
    global_step: u64,
    conditions: Conditions,
    config: &'a str,
    store: Option<&'a mut Store>,
    saved: Instant,
}

impl Run<'_> {
    /// Replaces the last checkpoint; one with a `score` may also be kept as one of the best.
    fn save(&mut self, score: Option<(String, f64)>) -> Result<()> {
        let Some(store) = &mut self.store else { return Ok(()) };
        if !self.learner.is_finite()? {
            let (step, last) = (self.global_step, store.last());
            let text = format!(
                "the weights are not finite after step {step}; {} is from before; try a lower --lr \
                 or --clip-norm",
                last.display()
            );
            return Err(Error::new(ErrorKind::Data, text));
        }
        let mut tensors = self.learner.state()?;
        tensors.extend(self.meter.state().map_err(torch)?);
        let model = self.learner.model().clone();
        let rated = score.is_some();
        let meta = Meta {
            version: env!("CARGO_PKG_VERSION").to_string(),
            position: self.position,
            global_step: self.global_step,
            model,
            conditions: self.conditions.clone(),
            schedule: self.scheduler.state(),
            early_stop: self.early_stop,
            score,
            config: self.config.to_string(),
            checksum: String::new(),
        };
        store.save(&tensors, &meta, rated)?;
        self.saved = Instant::now();
        Ok(())
    }

    /// Goes on from where `checkpoint` was made. Gives what may make a difference, a line each.
    fn load(&mut self, checkpoint: &Checkpoint) -> Result<Vec<String>> {
        let (meta, tensors) = (&checkpoint.meta, checkpoint.tensors()?);
        let (theirs, ours) = (&meta.model, self.learner.model());
        if !theirs.is_like(ours) {
            let text = format!("its network is another: {theirs}, and this run's: {ours}");
            return Err(Error::new(ErrorKind::Data, text));
        }
        let notes = self.conditions.compare(&meta.conditions);
        self.learner.load(&tensors, meta.global_step)?;
        self.meter.load(&tensors).map_err(torch)?;
        self.scheduler.load(meta.schedule)?;
        self.early_stop = meta.early_stop;
        self.position = meta.position;
        self.global_step = meta.global_step;
        Ok(notes)
    }
}

/// A batch since the last reading, for a message that names those whose loss was not finite.
struct Recent {
    ids: Vec<i64>,
    step: u64,
    rate: f64,
}

/// Trains a ResNet-18 on cross-entropy, from the beginning or on from `resume`. Keeps checkpoints
/// in `store`, where there is one.
///
/// When `stop` becomes true the step under way is finished and a checkpoint is made. Two runs with
/// the same data, options and seed leave the same weights to the bit on one kind of processor,
/// however often they were ended and resumed; on a GPU, some of cuDNN's kernels add in an order that
/// nobody promises.
///
/// The loop queues work and goes on. It waits for the device where it reads the metrics and saves,
/// and the loader where one of its slots comes round.
///
/// # Errors
/// Those of the loader and the store. A loss that is not finite ends the run, in 32 bits and bf16,
/// at the next reading; no weight has changed since before it.
pub fn run(
    options: &Options,
    data: &mut Data,
    store: Option<&mut Store>,
    resume: Option<(&Path, &Checkpoint)>,
    stop: &AtomicBool,
    tell: &mut dyn FnMut(Event<'_>),
) -> Result<Summary> {
    const SAVE_INTERVAL: Duration = Duration::from_secs(120);

    let identities = data.identities();
    let Data { train, valid } = data;
    let stopped = || stop.load(Ordering::Relaxed);
    let steps = train.len();
    if steps == 0 || train.samples() < 2 {
        let message = format!("{} training samples make no batch to learn from", train.samples());
        return Err(Error::new(ErrorKind::Data, message));
    }
    let plateau = matches!(options.schedule.kind, schedule::Kind::Plateau { .. });
    let watched = [
        ("--early-stop", options.early_stop.map(|early| early.monitor)),
        ("--schedule plateau with --monitor", Some(options.monitor).filter(|_| plateau)),
    ];
    for (what, metric) in watched {
        if let Some(metric) = metric.filter(|m| m.is_of_validation() && valid.is_none()) {
            let text = format!("{what} {metric} needs validation samples, and there are none");
            return Err(Error::new(ErrorKind::Data, text));
        }
    }

    // libtorch's one generator draws the weights and nothing else: data has its own, keyed, draws.
    let seed = train.seed();
    tch::manual_seed(seed as i64);
    if let Some(threads) = options.torch_threads {
        tch::set_num_threads(threads);
    }
    let device = options.device.torch();
    let classes = options.classes.map_or_else(|| classes(train, valid.as_ref()), Ok)?;
    std::iter::once(&*train).chain(&*valid).try_for_each(|data| check_labels(data, classes))?;
    let model = Model {
        stem: options.stem,
        classes,
        names: train.classes().to_vec(),
        lora: options.lora.map(|rank| {
            let before = resume.and_then(|(_, checkpoint)| checkpoint.meta.model.lora);
            Lora { rank, head: before.is_some_and(|lora| lora.head) }
        }),
    };
    let weights = options.weights.as_ref().filter(|_| resume.is_none());
    let (learner, report) = Learner::new(model, options.recipe.clone(), weights, device)?;
    let mut run = Run {
        learner,
        scheduler: Scheduler::new(options.schedule)?,
        early_stop: early_stop::State::default(),
        meter: Meter::new(device).map_err(torch)?,
        position: Position::default(),
        global_step: 0,
        conditions: Conditions {
            identities: Some(identities),
            batch_size: train.batch_size(),
            torch_threads: tch::get_num_threads(),
            processor: options.device.processor(),
        },
        config: &options.config,
        store,
        saved: Instant::now(),
    };
    let notes = match &resume {
        Some((path, checkpoint)) => run.load(checkpoint).map_err(|e| e.at_path(path))?,
        None => Vec::new(),
    };
    let (learning, parameters) = run.learner.parameters();
    tell(Event::Start {
        learning,
        parameters,
        model: run.learner.model(),
        device: options.device.name(),
        torch_threads: tch::get_num_threads(),
        resumed_at: resume.is_some().then_some(run.global_step),
    });
    if let Some(report) = &report {
        tell(Event::Weights(report));
    }
    for note in notes {
        tell(Event::Note(format!("the weights will differ from the run's left alone: {note}")));
    }

    // A mistake in validation shows now, and not after an epoch.
    if let Some(valid) = valid.as_mut().filter(|_| options.sanity && resume.is_none()) {
        let steps = valid.len().min(2);
        evaluate(&run.learner, valid, steps, &mut |step, times| {
            let (pass, bad) = (Pass::Sanity, BadSamples::default());
            tell(Event::Batch(&Step { pass, epoch: 0, step, steps, times, bad }));
            !stopped()
        })?;
    }
    if run.store.as_ref().is_some_and(|store| !store.last().exists()) {
        run.save(None)?;
    }

    // The same one after a resumption, wherever that stands.
    let held = match options.repeat_batch {
        true => {
            train.epoch(0).next().map(|batch| Samples::of(batch?, classes)).transpose()?.flatten()
        }
        false => None,
    };
    let mut summary = Summary { epochs: run.position.epoch, ..Summary::default() };
    let mut recent: Vec<Recent> = Vec::new();
    let mut shown = resume.is_some();
    summary.stopped_early = options.early_stop.is_some_and(|early| early.is_over(&run.early_stop));
    while run.position.epoch < options.epochs && !summary.stopped_early {
        let number = run.position.epoch + 1;
        let accumulate = options.accumulate.batches(number);
        let batch_size = run.conditions.batch_size;

        // Train.
        let judged = bad_samples(valid.as_ref());
        let mut clock = Clock::start();
        let begun = run.position;
        let batches = train.resume(begun);
        // Counted from the end: what was done of the epoch may have been done in other batches.
        let first = steps - batches.remaining();
        let mut batches = held.is_none().then_some(batches);
        // Batches that were begun, and those up to the last whole step.
        let (mut done, mut learned) = (first, first);
        let mut rate = run.scheduler.rate(run.global_step.saturating_sub(1));
        while done < steps && !(stopped() && done == learned) {
            let samples = match &mut batches {
                None => held.as_ref().map(Samples::again),
                Some(batches) => match clock.wait(|| batches.next()) {
                    Some(batch) => Samples::of(batch?, classes)?,
                    None => break,
                },
            };
            let bad = batches.as_ref().map(loader::Epoch::bad_samples).unwrap_or_default() + judged;
            if let Some(samples) = samples.as_ref().filter(|_| !shown) {
                tell(Event::Samples(&samples.images, &samples.labels));
                shown = true;
            }
            rate = run.scheduler.rate(run.global_step);
            if let Some(samples) = samples {
                // The share of one sample in a step is the same in all of its batches.
                let share = match accumulate {
                    1 => 1.0,
                    n => samples.ids.len() as f64 / (n * batch_size) as f64,
                };
                run.learner.learn(&samples, share, &mut run.meter)?;
                clock.count(samples.ids.len());
                recent.push(Recent { ids: samples.ids, step: run.global_step + 1, rate });
            }
            done += 1;
            let step_ends = (done - first).is_multiple_of(accumulate) || done == steps;
            if step_ends {
                let log = (run.global_step + 1).is_multiple_of(options.log_every) || done == steps;
                let momentum = run.scheduler.momentum(run.global_step);
                let norm = run.learner.update(rate, momentum, log)?;
                run.global_step += 1;
                learned = done;
                run.position.samples = begun.samples + ((done - first) * batch_size) as u64;
                let due = match options.save_every {
                    Some(steps) => run.global_step.is_multiple_of(steps),
                    None => run.saved.elapsed() >= SAVE_INTERVAL,
                };
                let due = due && done < steps;
                // Waits for the device.
                if log || due {
                    check(&run, &recent)?;
                    recent.clear();
                }
                if log {
                    let (since, sums) = run.meter.interval().map_err(torch)?;
                    let grad_norm = norm.map(|norm| norm.f_double_value(&[])).transpose();
                    // A last batch of one sample taught nothing, and has no mean.
                    if since.samples() > 0 {
                        tell(Event::Log(&Log {
                            epoch: number,
                            global_step: run.global_step,
                            rate,
                            metrics: since.metrics(),
                            epoch_metrics: sums.metrics(),
                            times: clock.read(),
                            grad_norm: grad_norm.map_err(torch)?,
                            scaling: run.learner.scaling()?,
                            bad,
                        }));
                    }
                }
                if due {
                    run.save(None)?;
                }
            }
            let (pass, times) = (Pass::Training, clock.read());
            tell(Event::Batch(&Step { pass, epoch: number, step: done, steps, times, bad }));
        }
        drop(batches);
        let bad = train.bad_samples() + judged;
        let train_times = clock.read();
        summary.train_times += train_times;
        if done < steps {
            check(&run, &recent)?;
            run.save(None)?;
            summary.stopped = Some(learned);
            break;
        }
        let train_metrics = run.meter.read().map_err(torch)?.metrics();

        // Validate.
        let evaluation = match valid {
            None => None,
            Some(valid) => {
                let (pass, steps) = (Pass::Validating, valid.len());
                let evaluation = evaluate(&run.learner, valid, steps, &mut |step, times| {
                    tell(Event::Batch(&Step { pass, epoch: number, step, steps, times, bad }));
                    !stopped()
                })?;
                if evaluation.is_none() {
                    // The epoch's training is done; a resumed run begins with its validation.
                    run.save(None)?;
                    summary.stopped = Some(learned);
                    break;
                }
                evaluation
            }
        };
        summary.valid_times += evaluation.as_ref().map_or(Times::default(), |e| e.times);

        // What follows from an epoch as a whole.
        let valid_metrics = evaluation.as_ref().map(|e| &e.metrics);
        let score = options.monitor.of(&train_metrics, valid_metrics);
        run.scheduler.end_epoch(score, options.maximize);
        let enough = match options.early_stop {
            None => false,
            Some(early) => early
                .monitor
                .of(&train_metrics, valid_metrics)
                .is_some_and(|value| early.end_epoch(&mut run.early_stop, value)),
        };
        // Before the checkpoint: a run that is killed between the two tells it again, not never.
        tell(Event::Epoch(&Epoch {
            epoch: number,
            global_step: run.global_step,
            rate,
            train: train_metrics,
            valid: evaluation.as_ref(),
            train_times,
            scaling: run.learner.scaling()?,
            bad: train.bad_samples() + bad_samples(valid.as_ref()),
        }));
        run.position = Position { epoch: number, samples: 0 };
        run.meter = Meter::new(device).map_err(torch)?;
        let score = score.filter(|score| score.is_finite());
        run.save(score.map(|score| (options.monitor.to_string(), score)))?;
        summary.epochs = number;
        summary.stopped_early = enough;
        if stopped() && !enough && number < options.epochs {
            summary.stopped = Some(0);
            break;
        }
    }
    let best = run.store.as_ref().and_then(|store| store.best());
    summary.best = best.map(|(score, path)| (score, path.to_path_buf()));
    Ok(summary)
}

fn bad_samples(valid: Option<&Loader>) -> BadSamples {
    valid.map(Loader::bad_samples).unwrap_or_default()
}

/// Ends a run whose loss is no longer finite.
fn check(run: &Run<'_>, recent: &[Recent]) -> Result<()> {
    let Some(first) = run.learner.first_bad()? else { return Ok(()) };
    let kept = match &run.store {
        Some(store) => format!("; {} is from before it", store.last().display()),
        None => String::new(),
    };
    let bad = recent.iter().filter(|batch| batch.step == first);
    let rate = bad.clone().map(|batch| batch.rate).next().unwrap_or_default();
    let ids = bad.flat_map(|batch| batch.ids.iter().map(i64::to_string));
    let ids = ids.collect::<Vec<_>>().join(",");
    let text = format!(
        "the loss is not finite at step {first} (epoch {}, learning rate {rate:e}){kept}; look at \
         its samples with `forebay preview --ids {ids}`, or try a lower --lr or --clip-norm",
        run.position.epoch + 1
    );
    Err(Error::new(ErrorKind::Data, text))
}

/// The classes that the data names, else one more than its largest label.
fn classes(train: &Loader, valid: Option<&Loader>) -> Result<i64> {
    if !train.classes().is_empty() {
        return Ok(train.classes().len() as i64);
    }
    let labels = |loader: &Loader| (0..loader.samples()).map(|id| loader.label(id)).max();
    let largest = std::iter::once(train).chain(valid).filter_map(labels).max().unwrap_or(0);
    if largest >= Model::MOST_CLASSES {
        let message = format!("label {largest} would make a model of as many classes");
        return Err(Error::new(ErrorKind::Limit, message));
    }
    Ok(largest + 1)
}

/// Before anything is learnt: on a GPU a label without a class ends the process, later and unnamed.
fn check_labels(data: &Loader, classes: i64) -> Result<()> {
    let wrong = (0..data.samples()).map(|id| (id, data.label(id))).find(|(_, l)| *l >= classes);
    wrong.map_or(Ok(()), |(id, label)| {
        let message = format!("label {label}, but the model has {classes} classes");
        Err(data.locate(id, Error::new(ErrorKind::Data, message)))
    })
}
