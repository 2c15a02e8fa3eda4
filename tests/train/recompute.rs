//! Activation checkpointing against the plain backward pass.

use crate::train::recompute;
use crate::train::resnet::{Mode, ResNet18, Stem};
use crate::train::shim::Autocast;
use crate::{batch, model, seeded};
use std::collections::BTreeMap;
use std::process::Command;
use tch::nn::VarStore;
use tch::{Device, Kind, TchError, Tensor};

type Result<T> = std::result::Result<T, TchError>;

fn cross_entropy(logits: &Tensor, labels: &Tensor) -> Result<Tensor> {
    logits.f_cross_entropy_loss(labels, None::<Tensor>, tch::Reduction::Mean, -100, 0.0)
}

/// A backward pass over a batch from `scale` times the loss; recomputing, or as it comes.
fn pass(
    model: &ResNet18,
    (images, labels): &(Tensor, Tensor),
    kind: Option<Kind>,
    scale: f64,
    recomputing: bool,
) -> Result<()> {
    let autocast = || kind.map(|kind| Autocast::begin(Device::Cpu, kind)).transpose();
    let objective = |logits: &Tensor| cross_entropy(logits, labels)?.f_mul_scalar(scale);
    if recomputing {
        return recompute::backward(model, images, autocast, objective);
    }
    let score = {
        let _autocast = autocast()?;
        objective(&model.forward(images, Mode::Train)?)?
    };
    score.f_backward()
}

/// What two passes, without an update between them, leave in the network: gradients and statistics.
fn left(
    prepare: fn(&mut ResNet18, &VarStore),
    kind: Option<Kind>,
    recomputing: bool,
) -> BTreeMap<String, Tensor> {
    tch::manual_seed(1);
    let (variables, mut model) = model(Stem::Imagenet, 10);
    prepare(&mut model, &variables);
    for scale in [1.0, 1024.0] {
        pass(&model, &batch(4, 10), kind, scale, recomputing).unwrap();
    }
    let left = variables.variables().into_iter().map(|(name, variable)| match name.as_str() {
        _ if variable.requires_grad() => (name, variable.grad()),
        _ => {
            assert!(!variable.grad().defined(), "{name} is frozen");
            (name, variable)
        }
    });
    left.collect()
}

fn same_bits(prepare: fn(&mut ResNet18, &VarStore), kind: Option<Kind>) {
    let _turn = seeded(0);
    let (plain, recomputed) = (left(prepare, kind, false), left(prepare, kind, true));
    assert_eq!(plain["bn1.num_batches_tracked"].int64_value(&[]), 2);
    for (name, plain) in &plain {
        assert!(plain.defined() && recomputed[name].equal(plain), "{name}");
    }
}

#[test]
fn gradients_and_statistics_are_those_of_the_plain_pass() {
    same_bits(|_, _| {}, None);
}

#[test]
fn they_are_under_autocast_too() {
    same_bits(|_, _| {}, Some(Kind::BFloat16));
}

/// Only a layer in the middle and the head learn; a segment between them has nothing that does.
#[test]
fn the_walk_stops_where_nothing_learns_any_more() {
    same_bits(
        |model, variables| {
            for (name, variable) in variables.variables() {
                let learns = name.starts_with("layer3.1.conv1") || name.starts_with("fc.");
                let _ = variable.set_requires_grad(learns);
            }
            let learning = model.segments().iter().map(|segment| segment.is_trainable());
            let places: Vec<_> = learning.enumerate().filter(|(_, learns)| *learns).collect();
            assert_eq!(places, [(6, true), (9, true)]);
        },
        None,
    );
}

/// Runs itself in a process of its own for each way, since a process has one peak.
#[test]
fn the_peak_of_memory_is_lower() {
    const WAY: &str = "FOREBAY_TEST_PEAK";
    const SAID: &str = "peak in KiB: ";
    if let Ok(way) = std::env::var(WAY) {
        let _turn = seeded(0);
        let (_variables, model) = model(Stem::Cifar, 10);
        let images = Tensor::randn([24, 3, 32, 32], tch::kind::FLOAT_CPU);
        let labels = Tensor::zeros([24], (Kind::Int64, Device::Cpu));
        pass(&model, &(images, labels), None, 1.0, way == "recomputing").unwrap();
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
        println!("\n{SAID}{}", line.trim().trim_end_matches(" kB"));
        return;
    }
    let peak = |way| -> u64 {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "recompute::the_peak_of_memory_is_lower", "--nocapture"]);
        // Large tensors go back to the system when they end: what malloc would keep of them for the
        // next is no need of either way, and a matter of luck.
        command.env("MALLOC_MMAP_THRESHOLD_", "131072");
        let output = command.env(WAY, way).output().unwrap();
        let stdout = String::from_utf8(output.stdout).unwrap();
        let line = stdout.lines().find_map(|line| line.strip_prefix(SAID));
        line.unwrap_or_else(|| panic!("no peak in {stdout}")).parse().unwrap()
    };
    let (plain, recomputing) = (peak("plain"), peak("recomputing"));
    println!("{plain} KiB, recomputing {recomputing} KiB");
    assert!(recomputing + 30 * 1024 < plain, "{plain} KiB, recomputing {recomputing} KiB");
}
