//! How far a run is, and what came of it.

use crate::train::metrics::Metrics;
use crate::train::run::{Epoch, Event, Step, Summary};
use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// A bar on a terminal, now and then a plain line elsewhere; the lines of epochs on stdout.
pub(crate) struct Screen {
    epochs: u32,
    every: bool,
    bar: ProgressBar,
    /// What computes.
    device: String,
    /// Of this pass, as last read.
    metrics: Option<Metrics>,
    last_line: Instant,
    start: Instant,
}

impl Screen {
    /// Time between plain lines: rare enough for a log, often enough to see that it lives.
    const INTERVAL: Duration = Duration::from_secs(10);

    /// `every`: a plain line at every reading of the metrics, not only one in a while.
    pub(crate) fn new(epochs: u32, every: bool) -> Self {
        let bar = ProgressBar::new(0);
        let style = "{prefix} {wide_bar} {pos}/{len} {msg}";
        bar.set_style(ProgressStyle::with_template(style).expect("the template is right"));
        let now = Instant::now();
        let device = String::new();
        Screen { epochs, every, bar, device, metrics: None, last_line: now, start: now }
    }

    /// Shows an event of the run.
    pub(crate) fn show(&mut self, event: Event<'_>) {
        match event {
            Event::Start { parameters, classes, device, torch_threads } => {
                self.device = device.to_string();
                eprintln!(
                    "ResNet-18 of {parameters} parameters for {classes} classes, on {device}; \
                     libtorch has {torch_threads} threads"
                );
            }
            Event::Step(step) => self.step(step),
            Event::Epoch(epoch) => self.epoch(epoch),
        }
    }

    fn step(&mut self, step: &Step) {
        if step.step == 1 {
            self.metrics = None;
        }
        self.metrics = step.metrics.or(self.metrics);
        let pass = if step.validating { "validating" } else { "training" };
        let pass = format!("epoch {}/{} {pass}", step.epoch, self.epochs);
        let mut text = String::new();
        if let Some(metrics) = &self.metrics {
            text += &format!("loss {:.4} acc {:.4}, ", metrics.loss, metrics.accuracy);
        }
        let (rate, waiting) = (step.times.rate(), step.times.waiting() * 100.0);
        text += &format!("{rate:.0} images/s, {waiting:.1}% waiting");
        if !self.bar.is_hidden() {
            self.bar.set_length(step.steps as u64);
            self.bar.set_position(step.step as u64);
            self.bar.set_prefix(pass);
            self.bar.set_message(text);
        } else if match self.every {
            true => step.metrics.is_some(),
            false => self.last_line.elapsed() >= Self::INTERVAL,
        } {
            self.last_line = Instant::now();
            eprintln!("{pass} {}/{} {text}", step.step, step.steps);
        }
    }

    fn epoch(&mut self, epoch: &Epoch) {
        let mut line = format!(
            "epoch {}/{} train_loss={:.4} train_acc={:.4}",
            epoch.epoch, self.epochs, epoch.train.loss, epoch.train.accuracy
        );
        if let Some(valid) = &epoch.valid {
            line += &format!(" valid_loss={:.4} valid_acc={:.4}", valid.loss, valid.accuracy);
        }
        let (train, valid) = (&epoch.train_times, &epoch.valid_times);
        line += &format!(
            " seconds={:.2} train_seconds={:.2} wait_seconds={:.3} images_per_s={:.0}",
            (train.total + valid.total).as_secs_f64(),
            train.total.as_secs_f64(),
            train.waited.as_secs_f64(),
            train.rate()
        );
        self.print(&line);
    }

    /// Sums up; `saved` is where the weights are.
    pub(crate) fn finish(&self, summary: &Summary, saved: &Path) {
        let saved = saved.display();
        if let Some(step) = summary.stopped {
            let place = match step {
                0 => format!("epoch {}", summary.epochs),
                _ => format!("step {step} of epoch {}", summary.epochs + 1),
            };
            self.print(&format!("stopped after {place}; saved {saved}"));
            return;
        }
        let (epochs, times) = (summary.epochs, &summary.train_times);
        self.print(&format!(
            "trained {epochs} epoch{} in {:.1} s on {}: {:.0} images/s, {:.2}% of the time waiting for \
             data; saved {saved}",
            if epochs == 1 { "" } else { "s" },
            self.start.elapsed().as_secs_f64(),
            self.device,
            times.rate(),
            times.waiting() * 100.0
        ));
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
