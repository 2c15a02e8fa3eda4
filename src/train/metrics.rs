//! Loss and accuracy over many batches, and the clock of a pass over the data.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};
use tch::{Device, Kind, TchError, Tensor, no_grad};

/// Means over the samples seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metrics {
    /// Mean cross-entropy, in nats.
    pub loss: f64,
    /// Share of samples whose largest logit is their label's, 0 to 1.
    pub accuracy: f64,
    /// Share of samples whose label is among the five largest logits, 0 to 1.
    pub top5: f64,
}

/// Sums over the samples seen.
#[derive(Debug, Clone, Copy, PartialEq, Default)]
pub struct Sums {
    loss: f64,
    right: i64,
    top5: i64,
    samples: i64,
}

impl Sums {
    /// How many samples.
    pub fn samples(self) -> i64 {
        self.samples
    }

    /// The means; not a number before the first sample.
    pub fn metrics(self) -> Metrics {
        let samples = self.samples as f64;
        let share = |count: i64| count as f64 / samples;
        Metrics { loss: self.loss / samples, accuracy: share(self.right), top5: share(self.top5) }
    }
}

impl std::ops::Sub for Sums {
    type Output = Sums;

    fn sub(self, before: Sums) -> Sums {
        Sums {
            loss: self.loss - before.loss,
            right: self.right - before.right,
            top5: self.top5 - before.top5,
            samples: self.samples - before.samples,
        }
    }
}

/// Sums loss and right answers where the logits live, so that nothing waits for the device until
/// the sums are read.
#[derive(Debug)]
pub struct Meter {
    loss: Tensor,
    /// Right answers, and right ones among five.
    hits: Tensor,
    samples: i64,
    /// As they were at the last reading of an interval.
    marked: Sums,
}

impl Meter {
    /// A meter that has seen nothing, for logits on `device`.
    pub fn new(device: Device) -> Result<Self, TchError> {
        Ok(Meter {
            loss: Tensor::f_zeros([0; 0], (Kind::Double, device))?,
            hits: Tensor::f_zeros([2], (Kind::Int64, device))?,
            samples: 0,
            marked: Sums::default(),
        })
    }

    /// Adds a batch: its mean `loss`, (N, classes) `logits` and N `labels`. Keeps no graph.
    pub fn add(&mut self, loss: &Tensor, logits: &Tensor, labels: &Tensor) -> Result<(), TchError> {
        let samples = labels.size1()?;
        no_grad(|| {
            let loss = loss.f_to_kind(Kind::Double)?.f_mul_scalar(samples)?;
            let (_, likely) = logits.f_topk(logits.size2()?.1.min(5), 1, true, true)?;
            let hits = likely.f_eq_tensor(&labels.f_unsqueeze(1)?)?;
            let hits = hits.f_sum_dim_intlist([0_i64].as_slice(), false, Kind::Int64)?;
            let top5 = hits.f_sum(Kind::Int64)?;
            let hits = Tensor::f_stack(&[hits.f_select(0, 0)?, top5], 0)?;
            self.loss = self.loss.f_add(&loss)?;
            self.hits = self.hits.f_add(&hits)?;
            self.samples += samples;
            Ok(())
        })
    }

    /// The sums so far. Waits for the device.
    pub fn read(&self) -> Result<Sums, TchError> {
        let hits = Vec::<i64>::try_from(&self.hits)?;
        Ok(Sums {
            loss: self.loss.f_double_value(&[])?,
            right: hits[0],
            top5: hits[1],
            samples: self.samples,
        })
    }

    const LOSS: &'static str = "meter/loss";
    const COUNTS: &'static str = "meter/counts";

    /// The sums since this was last asked, and all. Waits for the device.
    pub fn interval(&mut self) -> Result<(Sums, Sums), TchError> {
        let all = self.read()?;
        Ok((all - std::mem::replace(&mut self.marked, all), all))
    }

    /// What [`Meter::load`] goes on from, by name. Waits for the device.
    pub fn state(&self) -> Result<[(String, Tensor); 2], TchError> {
        let both = [self.read()?, self.marked];
        let losses = Tensor::from_slice(&both.map(|sums| sums.loss));
        let counts = both.map(|sums| [sums.right, sums.top5, sums.samples]);
        let counts = Tensor::from_slice(counts.as_flattened());
        Ok([(Self::LOSS.into(), losses), (Self::COUNTS.into(), counts)])
    }

    /// Takes over the state of another meter; `tensors` hold it by name.
    pub fn load(&mut self, tensors: &BTreeMap<String, Tensor>) -> Result<(), TchError> {
        let device = self.loss.device();
        let missing = || TchError::Shape("the state of the meter is missing".into());
        let losses = Vec::<f64>::try_from(tensors.get(Self::LOSS).ok_or_else(missing)?)?;
        let counts = Vec::<i64>::try_from(tensors.get(Self::COUNTS).ok_or_else(missing)?)?;
        let ([loss, marked_loss], [right, top5, samples, marked @ ..]) = (&losses[..], &counts[..])
        else {
            return Err(missing());
        };
        let [marked_right, marked_top5, marked_samples] = *marked else { return Err(missing()) };
        self.loss = Tensor::from(*loss).f_to_device(device)?;
        self.hits = Tensor::from_slice(&[*right, *top5]).f_to_device(device)?;
        self.samples = *samples;
        self.marked = Sums {
            loss: *marked_loss,
            right: marked_right,
            top5: marked_top5,
            samples: marked_samples,
        };
        Ok(())
    }
}

/// Where the time of a pass over the data went.
#[derive(Debug, Clone, Copy, Default)]
pub struct Times {
    /// Samples processed.
    pub samples: u64,
    /// All of the time.
    pub total: Duration,
    /// The part of it that was spent waiting for batches.
    pub waited: Duration,
}

impl Times {
    /// Samples processed a second.
    pub fn rate(&self) -> f64 {
        self.samples as f64 / self.total.as_secs_f64()
    }

    /// The share of the time spent waiting, 0 to 1.
    pub fn waiting(&self) -> f64 {
        self.waited.as_secs_f64() / self.total.as_secs_f64()
    }
}

impl std::ops::AddAssign for Times {
    fn add_assign(&mut self, other: Times) {
        self.samples += other.samples;
        self.total += other.total;
        self.waited += other.waited;
    }
}

/// Measures [`Times`].
#[derive(Debug)]
pub(super) struct Clock {
    start: Instant,
    samples: u64,
    waited: Duration,
}

impl Clock {
    /// A clock that starts now.
    pub(super) fn start() -> Self {
        Clock { start: Instant::now(), samples: 0, waited: Duration::ZERO }
    }

    /// Runs `f` and counts its time as waiting.
    pub(super) fn wait<T>(&mut self, f: impl FnOnce() -> T) -> T {
        let start = Instant::now();
        let value = f();
        self.waited += start.elapsed();
        value
    }

    /// Counts so many samples as processed.
    pub(super) fn count(&mut self, samples: usize) {
        self.samples += samples as u64;
    }

    /// The times so far.
    pub(super) fn read(&self) -> Times {
        Times { samples: self.samples, total: self.start.elapsed(), waited: self.waited }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn batches_weigh_by_their_samples() {
        let mut meter = Meter::new(Device::Cpu).unwrap();
        assert!(meter.read().unwrap().metrics().loss.is_nan());
        let logits = |values: &[f32]| Tensor::from_slice(values).view((-1, 2));
        let mut add = |loss: f32, values: &[f32], labels: &[i64]| {
            let (loss, labels) = (Tensor::from(loss), Tensor::from_slice(labels));
            meter.add(&loss, &logits(values), &labels).unwrap();
        };
        add(1.0, &[0.0, 1.0, 1.0, 0.0, 3.0, 2.0], &[1, 1, 0]);
        add(5.0, &[0.0, 1.0], &[0]);
        let expected = Metrics { loss: 2.0, accuracy: 0.5, top5: 1.0 };
        assert_eq!(meter.read().unwrap().metrics(), expected);

        meter.interval().unwrap();
        let state = meter.state().unwrap().into_iter().collect();
        let mut other = Meter::new(Device::Cpu).unwrap();
        other.load(&state).unwrap();
        assert_eq!(other.interval().unwrap(), meter.interval().unwrap());
    }

    #[test]
    fn the_label_may_be_the_fifth() {
        let mut meter = Meter::new(Device::Cpu).unwrap();
        let logits = Tensor::arange(7, (Kind::Float, Device::Cpu)).unsqueeze(0).repeat([7, 1]);
        let labels = Tensor::arange(7, (Kind::Int64, Device::Cpu));
        meter.add(&Tensor::from(0.5_f32), &logits, &labels).unwrap();
        let sums = meter.read().unwrap();
        assert_eq!((sums.right, sums.top5, sums.samples), (1, 5, 7));
    }
}
