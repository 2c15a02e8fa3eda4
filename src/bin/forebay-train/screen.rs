//! How far a run is, and what came of it.

use crate::train::event::{Epoch, Event, Log, Pass, Step, Summary};
use crate::train::metrics::Metrics;
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, Write};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// A bar on a terminal, now and then a plain line elsewhere; the lines of epochs on stdout.
pub(crate) struct Screen {
    epochs: u32,
    /// A plain line at every reading of the metrics, not only one in a while.
    every: bool,
    quiet: bool,
    bar: ProgressBar,
    /// What computes.
    device: String,
    /// Of this pass, as last read.
    log: Option<Log>,
    /// Whether a line has yet to show it.
    fresh: bool,
    /// Epochs that this process finished.
    done: u32,
    /// Of the last epoch.
    last: Option<(Metrics, Option<Metrics>)>,
    skipped: u64,
    last_line: Instant,
    start: Instant,
}

impl Screen {
    /// Time between plain lines: rare enough for a log, often enough to see that it lives.
    const INTERVAL: Duration = Duration::from_secs(10);

    /// With `every`, a plain line at every reading of the metrics; with `quiet`, no line but those of
    /// epochs and the end.
    pub(crate) fn new(epochs: u32, every: bool, quiet: bool) -> Self {
        let bar = if quiet { ProgressBar::hidden() } else { ProgressBar::new(0) };
        let style = "{prefix} {wide_bar} {pos}/{len} {msg}";
        bar.set_style(ProgressStyle::with_template(style).expect("the template is right"));
        let now = Instant::now();
        Screen {
            epochs,
            every,
            quiet,
            bar,
            device: String::new(),
            log: None,
            fresh: false,
            done: 0,
            last: None,
            skipped: 0,
            last_line: now,
            start: now,
        }
    }

    /// Shows an event of the run.
    pub(crate) fn show(&mut self, event: &Event<'_>) {
        match event {
            Event::Start { learning, parameters, model, device, torch_threads, resumed_at } => {
                self.device = (*device).to_string();
                let classes = model.classes;
                let all = if learning == parameters {
                    String::new()
                } else {
                    format!(", of which {learning} learn,")
                };
                self.tell(&format!(
                    "ResNet-18 of {parameters} parameters{all} for {classes} classes, on {device}; \
                     libtorch has {torch_threads} thread{}",
                    if *torch_threads == 1 { "" } else { "s" }
                ));
                if let Some(step) = resumed_at {
                    self.tell(&format!("going on after step {step}"));
                }
            }
            Event::Weights(report) => {
                for line in report.to_string().lines() {
                    self.note(line);
                }
            }
            Event::Note(text) => self.note(text),
            Event::Samples(..) => {}
            Event::Batch(step) => self.step(step),
            Event::Log(log) => self.log(log),
            Event::Epoch(epoch) => self.epoch(epoch),
        }
    }

    /// A line that says something the user did not ask for.
    pub(crate) fn note(&self, text: &str) {
        self.say(&format!("forebay: note: {text}"));
    }

    /// A line of how it goes.
    fn tell(&self, text: &str) {
        if !self.quiet {
            self.say(text);
        }
    }

    /// A line on stderr. When nobody reads it any more, as after a terminal was closed, training goes
    /// on, or saves.
    fn say(&self, text: &str) {
        self.bar.suspend(|| {
            let _ = writeln!(io::stderr(), "{text}");
        });
    }

    fn log(&mut self, log: &Log) {
        if let Some((skipped, scale)) = log.scaling {
            if skipped > self.skipped {
                let steps = skipped - self.skipped;
                self.tell(&format!(
                    "step {}: {steps} skipped, since gradients overflowed; the scale is {scale}",
                    log.global_step
                ));
            }
            self.skipped = skipped;
        }
        (self.log, self.fresh) = (Some(*log), true);
    }

    fn step(&mut self, step: &Step) {
        if step.step == 1 && step.pass != Pass::Training {
            self.log = None;
        }
        let pass = match step.pass {
            Pass::Sanity => "looking at validation".to_string(),
            Pass::Training => format!("epoch {}/{} training", step.epoch, self.epochs),
            Pass::Validating => format!("epoch {}/{} validating", step.epoch, self.epochs),
        };
        // A reading comes before the batch at which it was made.
        let fresh = std::mem::take(&mut self.fresh);
        let mut text = String::new();
        if let Some(log) = &self.log {
            let Metrics { loss, accuracy, .. } = log.epoch_metrics;
            text += &format!("loss {loss:.4} acc {accuracy:.4}, ");
        }
        let (rate, waiting) = (step.times.rate(), step.times.waiting() * 100.0);
        text += &format!("{rate:.0} images/s, {waiting:.1}% waiting");
        if step.bad.samples > 0 {
            text += &format!(", {} bad", step.bad.samples);
        }
        if !self.bar.is_hidden() {
            self.bar.set_length(step.steps as u64);
            self.bar.set_position(step.step as u64);
            self.bar.set_prefix(pass);
            self.bar.set_message(text);
        } else if match self.every {
            true => fresh,
            false => self.last_line.elapsed() >= Self::INTERVAL,
        } {
            self.last_line = Instant::now();
            self.tell(&format!("{pass} {}/{} {text}", step.step, step.steps));
        }
    }

    fn epoch(&mut self, epoch: &Epoch<'_>) {
        let mut line = format!(
            "epoch {}/{} train_loss={:.4} train_acc={:.4}",
            epoch.epoch, self.epochs, epoch.train.loss, epoch.train.accuracy
        );
        let valid = epoch.valid.map(|valid| valid.metrics);
        let mut seconds = epoch.train_times.total;
        if let Some(evaluation) = epoch.valid {
            let Metrics { loss, accuracy, .. } = evaluation.metrics;
            line += &format!(" valid_loss={loss:.4} valid_acc={accuracy:.4}");
            seconds += evaluation.times.total;
        }
        let train = &epoch.train_times;
        line += &format!(
            " lr={:.3e} seconds={:.2} train_seconds={:.2} wait_seconds={:.3} images_per_s={:.0}",
            epoch.rate,
            seconds.as_secs_f64(),
            train.total.as_secs_f64(),
            train.waited.as_secs_f64(),
            train.rate()
        );
        if epoch.bad.samples > 0 {
            line += &format!(" bad_samples={}", epoch.bad.samples);
        }
        self.print(&line);
        self.log = None;
        self.last = Some((epoch.train, valid));
        self.done += 1;
    }

    /// Sums up. `files` are what the run left, each with what it is.
    pub(crate) fn finish(&self, summary: &Summary, files: &[(String, PathBuf)]) {
        let (epochs, times) = (summary.epochs, &summary.train_times);
        if let Some(step) = summary.stopped {
            let place = match step {
                0 => format!("epoch {epochs}"),
                _ => format!("step {step} of epoch {}", epochs + 1),
            };
            let last = files.iter().find(|(what, _)| what == "last");
            let resume = last.map_or_else(String::new, |(_, path)| {
                format!("; --resume {} goes on from there", path.display())
            });
            self.print(&format!("stopped after {place}{resume}"));
        } else if times.samples == 0 {
            // A run that was stopped in its last validation had only that left.
            let begun =
                if self.last.is_some() { "nothing left to train" } else { "nothing left to do" };
            self.print(&format!(
                "{begun}: {epochs} epochs are done{}",
                match summary.stopped_early {
                    true => ", and no improvement came",
                    false => "; --epochs asks for more",
                }
            ));
        } else {
            self.print(&format!(
                "trained {} epoch{} in {:.1} s on {}: {:.0} images/s while training, {:.2}% of that \
                 waiting for data{}",
                self.done,
                if self.done == 1 { "" } else { "s" },
                self.start.elapsed().as_secs_f64(),
                self.device,
                times.rate(),
                times.waiting() * 100.0,
                if summary.stopped_early { "; ended early, since nothing improved" } else { "" },
            ));
        }
        if let Some((train, valid)) = &self.last {
            self.print("          loss     acc    top5");
            for (name, metrics) in [("train", Some(train)), ("valid", valid.as_ref())] {
                if let Some(Metrics { loss, accuracy, top5 }) = metrics {
                    self.print(&format!("{name} {loss:8.4}  {accuracy:6.4}  {top5:6.4}"));
                }
            }
        }
        for (what, path) in files {
            self.print(&format!("{what:<22} {}", path.display()));
        }
    }

    /// A line on stdout, above the bar. When nobody reads it any more, training goes on.
    fn print(&self, line: &str) {
        self.bar.suspend(|| {
            let _ = writeln!(io::stdout(), "{line}");
        });
    }
}

impl Drop for Screen {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
