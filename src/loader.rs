//! The public iterator: a [`Loader`] opens a pipeline over a data directory and hands out
//! [`Batch`]es, epoch by epoch.

use crate::error::Result;
use crate::graph::spec::Spec;
use crate::policy::LastBatch;
use crate::tensor::TensorView;
use std::path::Path;

/// How to run a pipeline; none of it changes a sample's bytes, except `seed`.
#[derive(Debug, Clone)]
pub struct Options {
    /// Samples a batch of this rank.
    pub batch_size: usize,
    /// Worker threads; 0: one a core.
    pub threads: usize,
    /// Batches made ahead of the consumer.
    pub prefetch: usize,
    /// This process's place among `world`.
    pub rank: u32,
    /// Number of processes that share an epoch.
    pub world: u32,
    /// Overrides the pipeline's seed.
    pub seed: Option<u64>,
    /// Overrides the pipeline's shuffle.
    pub shuffle: Option<bool>,
    /// Overrides the pipeline's last batch.
    pub last_batch: Option<LastBatch>,
    /// Only the first so many samples of the list.
    pub limit: Option<u64>,
    /// Only these samples, in this order, unshuffled.
    pub ids: Option<Vec<u64>>,
    /// Lets symbolic links lead out of the data directory.
    pub follow_links: bool,
}

/// A pipeline opened over a data directory.
pub struct Loader {}

impl Loader {
    /// Opens the reader that `spec` names under `data` and compiles the plan.
    pub fn open(spec: &Spec, data: &Path, options: &Options) -> Result<Loader> {
        let _ = (spec, data, options);
        todo!()
    }

    /// Batches an epoch on this rank; the same in every epoch.
    pub fn len(&self) -> usize {
        todo!()
    }

    /// Whether an epoch has no batch.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Samples in the list (after `limit` and `ids`).
    pub fn samples(&self) -> u64 {
        todo!()
    }

    /// Names of the classes by label; empty where the data set has none.
    pub fn classes(&self) -> &[String] {
        todo!()
    }

    /// Iterates over the batches of epoch `epoch`. Dropping the iterator early is allowed.
    pub fn epoch(&mut self, epoch: u32) -> Epoch<'_> {
        self.epoch_from(epoch, 0)
    }

    /// The same from batch `step` on: exact, and as fast as from the start.
    pub fn epoch_from(&mut self, epoch: u32, step: usize) -> Epoch<'_> {
        let _ = (epoch, step);
        todo!()
    }

    /// Busy time of each stage and other counts since the loader was opened.
    pub fn stats(&self) -> crate::stats::Stats {
        todo!()
    }
}

/// The batches of one epoch. An error ends it.
pub struct Epoch<'a> {
    _loader: &'a mut Loader,
}

impl Iterator for Epoch<'_> {
    type Item = Result<Batch>;
    fn next(&mut self) -> Option<Self::Item> {
        todo!()
    }
}

/// A finished batch. Owns its slot, gives it back on drop; `Send` and `'static`.
pub struct Batch {}

impl Batch {
    /// Samples in the batch.
    pub fn len(&self) -> usize {
        todo!()
    }

    /// Whether it has none (never).
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The first output: (N, C, H, W) or as the pipeline's layout says.
    pub fn images(&self) -> TensorView<'_> {
        todo!()
    }

    /// Names of the outputs in order.
    pub fn outputs(&self) -> &[String] {
        todo!()
    }

    /// The output called `name`.
    pub fn output(&self, name: &str) -> Option<TensorView<'_>> {
        let _ = name;
        todo!()
    }

    /// N labels.
    pub fn labels(&self) -> &[i64] {
        todo!()
    }

    /// N sample numbers, from 0, in the list's order.
    pub fn ids(&self) -> &[i64] {
        todo!()
    }

    /// N flags, false where a place was filled under `last_batch = "pad"`.
    pub fn valid(&self) -> &[bool] {
        todo!()
    }
}
