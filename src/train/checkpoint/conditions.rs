//! What a run that goes on has to share with the one that made the checkpoint.

use crate::loader::Identity;
use serde::{Deserialize, Serialize};
use std::fmt::Display;

/// What the last bits of a run's weights follow from, beside its settings.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Conditions {
    /// Which samples; `None` in files from before it was kept.
    #[serde(default)]
    pub identities: Option<Identities>,
    /// Samples a batch.
    pub batch_size: usize,
    /// Threads of libtorch on the CPU.
    pub torch_threads: i32,
    /// What computes: the kind of processor, or the GPU.
    pub processor: String,
}

impl Conditions {
    /// What a run that goes on under `self` computes otherwise than one under `before`, a line each.
    /// Which samples they are is another matter: [`Identities::differences`].
    pub fn compare(&self, before: &Conditions) -> Vec<String> {
        let mut notes = Vec::new();
        let mut note = |what: &str, before: &dyn Display, now: &dyn Display| {
            notes.push(format!("{what}: {before} before, {now} now"));
        };
        if self.batch_size != before.batch_size {
            note("batch size", &before.batch_size, &self.batch_size);
        }
        if self.torch_threads != before.torch_threads {
            note("threads of libtorch", &before.torch_threads, &self.torch_threads);
        }
        if self.processor != before.processor {
            note("processor", &before.processor, &self.processor);
        }
        notes
    }
}

/// Which samples a run learns from and is judged by.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Identities {
    /// Those that it learns from.
    pub train: Identity,
    /// Those that it is judged by, where there are any.
    pub valid: Option<Identity>,
}

impl Identities {
    /// What is another than in `before`, each with the settings that decide about it. Losing or gaining
    /// validation is none of them.
    pub fn differences(&self, before: &Identities) -> Vec<&'static str> {
        let (now, then) = (self.train, before.train);
        let mut checks = vec![
            (now.pipeline == then.pipeline, "pipeline (--pipeline)"),
            (now.data == then.data, "list of samples (--data, --limit-train)"),
            (now.seed == then.seed, "seed (--seed)"),
        ];
        if let (Some(now), Some(then)) = (self.valid, before.valid) {
            // Its order matters to no score, and its draws are few: the seed is that of training.
            checks.extend([
                (now.pipeline == then.pipeline, "validation pipeline (--valid-pipeline)"),
                (now.data == then.data, "list of validation samples (--data, --limit-valid)"),
            ]);
        }
        checks.into_iter().filter(|(same, _)| !same).map(|(_, what)| what).collect()
    }
}
