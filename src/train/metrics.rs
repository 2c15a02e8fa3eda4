//! Loss and accuracy over many batches, and the clock of a pass over the data.

use std::time::{Duration, Instant};
use tch::{Device, Kind, TchError, Tensor, no_grad};

/// Means over the samples seen.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Metrics {
    /// Mean cross-entropy, in nats.
    pub loss: f64,
    /// Share of samples whose largest logit is their label's, 0 to 1.
    pub accuracy: f64,
}

/// Sums loss and right answers where the logits live, so that nothing waits for the device until
/// the sums are read.
#[derive(Debug)]
pub struct Meter {
    loss: Tensor,
    right: Tensor,
    samples: u64,
}

impl Meter {
    /// A meter that has seen nothing, for logits on `device`.
    pub fn new(device: Device) -> Result<Self, TchError> {
        let zero = |kind| Tensor::f_zeros([0; 0], (kind, device));
        Ok(Meter { loss: zero(Kind::Double)?, right: zero(Kind::Int64)?, samples: 0 })
    }

    /// Adds a batch: its mean `loss`, (N, classes) `logits` and N `labels`. Keeps no graph.
    pub fn add(&mut self, loss: &Tensor, logits: &Tensor, labels: &Tensor) -> Result<(), TchError> {
        let samples = labels.size1()?;
        no_grad(|| {
            let loss = loss.f_to_kind(Kind::Double)?.f_mul_scalar(samples)?;
            let right = logits.f_argmax(1, false)?.f_eq_tensor(labels)?.f_sum(Kind::Int64)?;
            self.loss = self.loss.f_add(&loss)?;
            self.right = self.right.f_add(&right)?;
            self.samples += samples as u64;
            Ok(())
        })
    }

    /// The means so far; not a number before the first sample. Waits for the device.
    pub fn read(&self) -> Result<Metrics, TchError> {
        let samples = self.samples as f64;
        let right = self.right.f_int64_value(&[])? as f64;
        Ok(Metrics { loss: self.loss.f_double_value(&[])? / samples, accuracy: right / samples })
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
        assert!(meter.read().unwrap().loss.is_nan());
        let logits = |values: &[f32]| Tensor::from_slice(values).view((-1, 2));
        let mut add = |loss: f32, values: &[f32], labels: &[i64]| {
            let (loss, labels) = (Tensor::from(loss), Tensor::from_slice(labels));
            meter.add(&loss, &logits(values), &labels).unwrap();
        };
        add(1.0, &[0.0, 1.0, 1.0, 0.0, 3.0, 2.0], &[1, 1, 0]);
        add(5.0, &[0.0, 1.0], &[0]);
        assert_eq!(meter.read().unwrap(), Metrics { loss: 2.0, accuracy: 0.5 });
    }
}
