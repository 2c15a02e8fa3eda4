//! A pass over validation samples: metrics, who is taken for whom, and the worst mistakes.

use super::batch::Samples;
use super::learner::Learner;
use super::metrics::{Clock, Meter, Metrics, Times};
use super::torch;
use crate::error::Result;
use crate::loader::Loader;
use tch::{Device, Kind, Reduction, TchError, Tensor, no_grad};

/// What came of a pass.
#[derive(Debug)]
pub struct Evaluation {
    /// Means over the samples.
    pub metrics: Metrics,
    /// Row by label, column by what the model said; empty where there are more classes than
    /// [`Confusion::MOST`].
    pub confusion: Vec<Vec<u64>>,
    /// The worst mistakes, the worst first.
    pub mistakes: Vec<Mistake>,
    /// Where the time went.
    pub times: Times,
}

/// A sample that the model got wrong.
#[derive(Debug)]
pub struct Mistake {
    /// Its number in the list.
    pub id: i64,
    /// What it is.
    pub label: i64,
    /// What the model took it for.
    pub said: i64,
    /// Cross-entropy, in nats.
    pub loss: f64,
    /// (3, H, W) f32 on the CPU, as the pipeline made it.
    pub image: Tensor,
}

/// Scores the samples of `loader`'s epoch 0. `on_batch` is told the batches done and the times so
/// far, and says whether to go on; `None` where it said no, since metrics of a part would pass for
/// those of the whole.
pub fn evaluate(
    learner: &Learner,
    loader: &mut Loader,
    batches: usize,
    on_batch: &mut dyn FnMut(usize, Times) -> bool,
) -> Result<Option<Evaluation>> {
    let (device, classes) = (learner.device(), learner.model().classes);
    let mut meter = Meter::new(device).map_err(torch)?;
    let mut confusion = Confusion::new(classes, device).map_err(torch)?;
    let mut worst = Worst::default();
    let mut clock = Clock::start();
    let mut epoch = loader.epoch(0).take(batches);
    let mut done = 0;
    while let Some(batch) = clock.wait(|| epoch.next()) {
        if let Some(samples) = Samples::of(batch?, classes)? {
            no_grad(|| {
                let logits = learner.logits(&samples.images)?;
                let losses = losses(&logits, &samples.labels)?;
                meter.add(&losses.f_mean(Kind::Float)?, &logits, &samples.labels)?;
                let said = logits.f_argmax(1, false)?;
                confusion.add(&samples.labels, &said)?;
                worst.add(&samples, &losses, &said)
            })
            .map_err(torch)?;
            clock.count(samples.ids.len());
        }
        done += 1;
        if !on_batch(done, clock.read()) {
            return Ok(None);
        }
    }
    let metrics = meter.read().map_err(torch)?.metrics();
    let (confusion, mistakes) = (confusion.read().map_err(torch)?, worst.read().map_err(torch)?);
    Ok(Some(Evaluation { metrics, confusion, mistakes, times: clock.read() }))
}

/// Cross-entropy of each sample, in nats: N f32.
fn losses(logits: &Tensor, labels: &Tensor) -> Result<Tensor, TchError> {
    // No label is ignored.
    logits.f_cross_entropy_loss(labels, None::<Tensor>, Reduction::None, -100, 0.0)
}

/// Counts (label, answer) where the logits live.
#[derive(Debug)]
pub struct Confusion {
    classes: i64,
    counts: Option<Tensor>,
}

impl Confusion {
    /// The most classes for which counts are kept: 8 MB of them.
    pub const MOST: i64 = 1000;

    fn new(classes: i64, device: Device) -> Result<Self, TchError> {
        let zeros = || Tensor::f_zeros([classes * classes], (Kind::Int64, device));
        let counts = (classes <= Self::MOST).then(zeros).transpose()?;
        Ok(Confusion { classes, counts })
    }

    fn add(&mut self, labels: &Tensor, said: &Tensor) -> Result<(), TchError> {
        let Some(counts) = &mut self.counts else { return Ok(()) };
        let cells = labels.f_mul_scalar(self.classes)?.f_add(said)?;
        counts.f_index_add_(0, &cells, &cells.f_ones_like()?).map(|_| ())
    }

    fn read(&self) -> Result<Vec<Vec<u64>>, TchError> {
        let Some(counts) = &self.counts else { return Ok(Vec::new()) };
        let counts = Vec::<i64>::try_from(counts)?;
        let rows = counts.chunks(self.classes as usize);
        Ok(rows.map(|row| row.iter().map(|n| *n as u64).collect()).collect())
    }
}

/// The worst mistakes so far, with their pixels, where the logits live.
#[derive(Debug, Default)]
struct Worst {
    /// Losses (0 for right answers), [id, label, said], and images, the worst first.
    kept: Option<[Tensor; 3]>,
}

impl Worst {
    /// So many fit on a sheet.
    const COUNT: i64 = 16;

    fn add(&mut self, samples: &Samples, losses: &Tensor, said: &Tensor) -> Result<(), TchError> {
        let labels = &samples.labels;
        let wrong = said.f_ne_tensor(labels)?.f_to_kind(Kind::Float)?;
        // Infinite losses are the worst, and 0 times them would not be a number.
        let most = f64::from(f32::MAX);
        let losses = losses.f_nan_to_num(most, most, 0.0)?.f_mul(&wrong)?;
        let ids = Tensor::from_slice(&samples.ids).f_to_device(labels.device())?;
        let facts = Tensor::f_stack(&[&ids, labels, said], 1)?;
        let mut all = [losses, facts, samples.images.shallow_clone()];
        if let Some(kept) = &self.kept {
            // Images of another size would not fit beside those kept.
            if kept[2].size()[1..] != all[2].size()[1..] {
                return Ok(());
            }
            for (all, kept) in all.iter_mut().zip(kept) {
                *all = Tensor::f_cat(&[kept, &*all], 0)?;
            }
        }
        let count = Self::COUNT.min(all[0].size1()?);
        let (_, places) = all[0].f_topk(count, 0, true, true)?;
        let [losses, facts, images] = &all;
        let pick = |tensor: &Tensor| tensor.f_index_select(0, &places);
        self.kept = Some([pick(losses)?, pick(facts)?, pick(images)?]);
        Ok(())
    }

    fn read(self) -> Result<Vec<Mistake>, TchError> {
        let Some([losses, facts, images]) = self.kept else { return Ok(Vec::new()) };
        let losses = Vec::<f32>::try_from(losses)?;
        let facts = Vec::<i64>::try_from(facts.f_reshape([-1])?)?;
        let images = images.f_to_device(Device::Cpu)?;
        let found = losses.iter().zip(facts.chunks(3)).enumerate();
        found
            .filter(|(_, (_, facts))| facts[1] != facts[2])
            .map(|(place, (loss, facts))| {
                let [id, label, said] = [facts[0], facts[1], facts[2]];
                let image = images.f_get(place as i64)?;
                Ok(Mistake { id, label, said, loss: f64::from(*loss), image })
            })
            .collect()
    }
}
