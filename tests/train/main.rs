//! The trainer: its parts on tensors, and the program as a user runs it.
#![cfg(feature = "train")]

mod checkpoint;
mod device;
mod lora;
mod model;
mod program;
mod recompute;
#[path = "../common/softgpu.rs"]
mod softgpu;
#[path = "../../src/train/mod.rs"]
#[allow(dead_code, unreachable_pub)] // Tests of parts use a part.
mod train;

use crate::train::checkpoint::Meta;
use crate::train::resnet::{ResNet18, Stem};
use forebay::{error, loader, tensor};
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

fn meta() -> Meta {
    Meta {
        version: "0".into(),
        epoch: 1,
        step: 2,
        seed: 3,
        stem: Stem::Imagenet,
        classes: 10,
        torch_threads: 2,
    }
}
