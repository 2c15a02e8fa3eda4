//! The trainer: its parts on tensors, and the program as a user runs it.
#![cfg(feature = "train")]

mod checkpoint;
mod config;
mod device;
#[path = "../common/fault.rs"]
mod fault;
mod faults;
mod learner;
mod log;
mod lora;
mod model;
mod optimizer;
mod pickling;
mod plot;
mod precision;
mod program;
mod recompute;
mod resume;
mod run;
mod scaler;
mod schedule;
#[path = "../common/softgpu.rs"]
mod softgpu;
mod state_dict;
#[path = "../../src/train/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports)] // Tests of parts use a part.
mod train;
mod weights;

use crate::train::batch::Samples;
use crate::train::checkpoint::{Conditions, Identities, Meta, Model};
use crate::train::freeze::Unfreeze;
use crate::train::learner::{Learner, Recipe};
use crate::train::precision::Precision;
use crate::train::resnet::{ResNet18, Stem};
use crate::train::schedule::{Kind as RateKind, Plan, Scheduler};
use forebay::loader::{Identity, Position};
use forebay::{error, file, letters, loader, stats, tensor};
use std::sync::{Mutex, MutexGuard};
use tch::nn::VarStore;
use tch::{Device, Kind, Tensor};

/// libtorch has one generator and one thread count for the whole process: tests take turns.
static LIBTORCH: Mutex<()> = Mutex::new(());

fn seeded(seed: i64) -> MutexGuard<'static, ()> {
    let turn = LIBTORCH.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    // On a busy machine libtorch's threads spend most of their time waiting for each other.
    tch::set_num_threads(1);
    tch::manual_seed(seed);
    turn
}

fn model(stem: Stem, classes: i64) -> (VarStore, ResNet18) {
    let variables = VarStore::new(Device::Cpu);
    let model = ResNet18::new(&variables.root(), stem, classes).unwrap();
    (variables, model)
}

/// Random images with labels 0, 1, 2, ….
fn batch(samples: i64, classes: i64) -> (Tensor, Tensor) {
    let images = Tensor::randn([samples, 3, 32, 32], tch::kind::FLOAT_CPU);
    (images, Tensor::arange(samples, (Kind::Int64, Device::Cpu)).remainder(classes))
}

fn samples((images, labels): (Tensor, Tensor)) -> Samples {
    let ids = (0..labels.size()[0]).collect();
    Samples { images, labels, ids }
}

/// What a step does when nobody chooses otherwise.
fn recipe() -> Recipe {
    Recipe {
        unfreeze: Unfreeze::Full,
        freeze_norm: false,
        optimizer: train::optimizer::Options::default(),
        clip_norm: None,
        precision: Precision::F32,
        checkpoint_activations: false,
        label_smoothing: 0.0,
        test_flip: false,
    }
}

fn network(stem: Stem, classes: i64) -> Model {
    Model { stem, classes, names: Vec::new(), lora: None }
}

fn learner(stem: Stem, classes: i64) -> Learner {
    Learner::new(network(stem, classes), recipe(), None, Device::Cpu).unwrap().0
}

/// The story of a run after `epoch` epochs and `samples` samples, rated `score`.
fn meta(epoch: u32, samples: u64, score: Option<f64>) -> Meta {
    Meta {
        version: "0".into(),
        position: Position { epoch, samples },
        global_step: 12,
        model: Model {
            stem: Stem::Imagenet,
            classes: 10,
            names: vec!["a \"quoted\" \\ name".into()],
            lora: None,
        },
        conditions: Conditions {
            identities: Some(Identities {
                train: Identity { pipeline: 1, data: u64::MAX, seed: 3 },
                valid: Some(Identity { pipeline: 4, data: 5, seed: 6 }),
            }),
            batch_size: 8,
            torch_threads: 2,
            processor: "one".into(),
        },
        schedule: Scheduler::new(PLAN).unwrap().state(),
        early_stop: Default::default(),
        score: score.map(|score| ("valid_acc".into(), score)),
        config: "lr = 0.001\n".into(),
        checksum: String::new(),
    }
}

const PLAN: Plan = Plan { kind: RateKind::Constant, base_lr: 0.1, warmup_steps: 0, total_steps: 1 };
