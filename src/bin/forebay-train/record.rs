//! What a run leaves in its directory beside checkpoints: settings, metrics, TensorBoard's events,
//! pictures.

use crate::pictures::{confusion, mistakes, samples};
use crate::sheet;
use crate::train::event::{Epoch, Event, Log};
use crate::train::log::csv::{self, MetricsCsv, Row};
use crate::train::log::tensorboard::EventFile;
use crate::train::metrics::Metrics;
use crate::train::plot;
use anyhow::Result;
use forebay::file;
use image::RgbImage;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// Writes as the run goes. What fails is told once, and the run goes on.
pub(crate) struct Recorder {
    dir: PathBuf,
    csv: MetricsCsv,
    events: EventFile,
    /// Of the classes.
    names: Vec<String>,
    /// Of the last validation.
    confusion: Vec<Vec<u64>>,
    failed: bool,
}

impl Recorder {
    /// Goes on in `dir` after so many steps where it is a resumed run's, else begins there.
    /// `settings` go to hparams.toml.
    pub(crate) fn open(dir: &Path, settings: &str, resumed_at: Option<u64>) -> Result<Self> {
        let path = dir.join("hparams.toml");
        file::replace(&path, |file| file.write_all(settings.as_bytes()))?;
        let csv = MetricsCsv::open(&dir.join("metrics.csv"), resumed_at)?;
        let mut events = EventFile::create(dir, resumed_at)?;
        events.text("config", resumed_at.unwrap_or(0), &format!("```\n{settings}```"));
        events.flush()?;
        let dir = dir.to_path_buf();
        Ok(Recorder { dir, csv, events, names: Vec::new(), confusion: Vec::new(), failed: false })
    }

    /// Writes down an event of the run. The error is the first that something could not be written
    /// with.
    pub(crate) fn record(&mut self, event: &Event<'_>) -> Option<anyhow::Error> {
        let result = match event {
            Event::Start { model, .. } => {
                self.names.clone_from(&model.names);
                Ok(())
            }
            Event::Samples(images, labels) => samples(images, labels, &self.names)
                .and_then(|sheet| self.image("samples", 0, &sheet)),
            Event::Log(log) => self.log(log),
            Event::Epoch(epoch) => self.epoch(epoch),
            Event::Batch(_) | Event::Note(_) | Event::Weights(_) => Ok(()),
        };
        result.err().filter(|_| !std::mem::replace(&mut self.failed, true))
    }

    fn log(&mut self, log: &Log) -> Result<()> {
        let (images_per_s, wait_share) = (log.times.rate(), log.times.waiting());
        let peak = peak_memory_mib();
        let row = Row {
            epoch: Some(u64::from(log.epoch)),
            step: Some(log.global_step),
            lr: Some(log.rate),
            train_loss: Some(log.metrics.loss),
            train_acc: Some(log.metrics.accuracy),
            train_top5: Some(log.metrics.top5),
            images_per_s: Some(images_per_s),
            wait_share: Some(wait_share),
            peak_memory_mib: peak,
            grad_norm: log.grad_norm,
            skipped_steps: log.scaling.map(|(skipped, _)| skipped),
            bad_samples: Some(log.bad.samples),
            ..Row::default()
        };
        self.csv.append(&row)?;
        let Metrics { loss, accuracy, top5 } = log.metrics;
        let scalars = [
            ("train/loss", Some(loss)),
            ("train/acc", Some(accuracy)),
            ("train/top5", Some(top5)),
            ("lr", Some(log.rate)),
            ("images_per_s", Some(images_per_s)),
            ("wait_share", Some(wait_share)),
            ("peak_memory_mib", peak),
            ("grad_norm", log.grad_norm),
            ("scale", log.scaling.map(|(_, scale)| scale)),
            ("skipped_steps", log.scaling.map(|(skipped, _)| skipped as f64)),
            ("bad_samples", Some(log.bad.samples as f64)),
        ];
        self.scalars(log.global_step, &scalars)
    }

    fn epoch(&mut self, epoch: &Epoch<'_>) -> Result<()> {
        let step = epoch.global_step;
        let valid = epoch.valid.map(|valid| valid.metrics);
        let row = Row {
            epoch: Some(u64::from(epoch.epoch)),
            step: Some(step),
            lr: Some(epoch.rate),
            train_loss: Some(epoch.train.loss),
            train_acc: Some(epoch.train.accuracy),
            train_top5: Some(epoch.train.top5),
            valid_loss: valid.map(|valid| valid.loss),
            valid_acc: valid.map(|valid| valid.accuracy),
            valid_top5: valid.map(|valid| valid.top5),
            images_per_s: Some(epoch.train_times.rate()),
            wait_share: Some(epoch.train_times.waiting()),
            peak_memory_mib: peak_memory_mib(),
            skipped_steps: epoch.scaling.map(|(skipped, _)| skipped),
            bad_samples: Some(epoch.bad.samples),
            grad_norm: None,
        };
        self.csv.append(&row)?;
        let scalars = [
            ("epoch", Some(f64::from(epoch.epoch))),
            ("train_epoch/loss", Some(epoch.train.loss)),
            ("train_epoch/acc", Some(epoch.train.accuracy)),
            ("train_epoch/top5", Some(epoch.train.top5)),
            ("valid/loss", valid.map(|valid| valid.loss)),
            ("valid/acc", valid.map(|valid| valid.accuracy)),
            ("valid/top5", valid.map(|valid| valid.top5)),
        ];
        self.scalars(step, &scalars)?;
        if let Some(valid) = epoch.valid {
            self.confusion.clone_from(&valid.confusion);
            if !valid.mistakes.is_empty() {
                let sheet = mistakes(&valid.mistakes, &self.names)?;
                self.image("mistakes", step, &sheet)?;
            }
        }
        self.curves()
    }

    fn scalars(&mut self, step: u64, values: &[(&str, Option<f64>)]) -> Result<()> {
        for (tag, value) in values {
            if let Some(value) = value {
                self.events.scalar(tag, step, *value);
            }
        }
        Ok(self.events.flush()?)
    }

    fn image(&mut self, tag: &str, step: u64, image: &RgbImage) -> Result<()> {
        self.events.image(tag, step, plot::png(image)?, image.width(), image.height());
        Ok(self.events.flush()?)
    }

    /// Draws what is known of all epochs, those before a resumption too.
    fn curves(&self) -> Result<()> {
        let rows = csv::read(&self.dir.join("metrics.csv"))?;
        let path = self.curves_path();
        let curves = plot::curves(&rows)?;
        Ok(file::replace(&path, |file| file.write_all(curves.as_bytes()))?)
    }

    fn curves_path(&self) -> PathBuf {
        self.dir.join("curves.svg")
    }

    /// Draws who is taken for whom; gives the pictures that there are, with what they show, and the
    /// error unless one was told before.
    pub(crate) fn finish(self) -> (Vec<(&'static str, PathBuf)>, Option<anyhow::Error>) {
        let mut failed = None;
        let mut files = vec![("curves", self.curves_path())];
        // A picture of more classes is larger than a screen.
        if (2..=100).contains(&self.confusion.len()) {
            let path = self.dir.join("confusion.png");
            let drawn = confusion(&self.confusion, &self.names)
                .and_then(|picture| sheet::save(&picture, &path));
            match drawn {
                Ok(()) => files.push(("confusion", path)),
                Err(error) => failed = Some(error).filter(|_| !self.failed),
            }
        }
        files.retain(|(_, path)| path.exists());
        (files, failed)
    }
}

/// The most memory that this process has had, in MiB.
fn peak_memory_mib() -> Option<f64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kib / 1024.0)
}
