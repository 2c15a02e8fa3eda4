//! The network and its steps, against torchvision's numbers and against themselves.

use crate::train::checkpoint::Store;
use crate::train::metrics::{Meter, Metrics};
use crate::train::resnet::{Mode, Segment, Stem};
use crate::train::step;
use crate::{batch, meta, model, seeded};
use std::collections::BTreeMap;
use tch::nn::{Adam, OptimizerConfig, VarStore};
use tch::{Device, Tensor};

/// tests/data/resnet18.json holds what torchvision makes of the same seed;
/// `tests/python/test_resnet.py` writes it and holds torchvision to it.
#[test]
fn the_same_seed_gives_torchvisions_logits_and_losses() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/resnet18.json");
    let expected: serde_json::Value =
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let numbers = |name: &str| -> Vec<f64> {
        let list = expected[name].as_array().unwrap();
        list.iter().map(|number| number.as_f64().unwrap()).collect()
    };
    let close = |name: &str, got: &[f64], bound: f64| {
        let expected = numbers(name);
        assert_eq!(got.len(), expected.len());
        let off = got.iter().zip(&expected).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
        println!("{name}: largest difference {off:e}");
        assert!(off < bound, "{name}: {off:e}\n{got:?}\n{expected:?}");
    };

    let _turn = seeded(0);
    let (variables, model) = model(Stem::Imagenet, 10);
    let (images, labels) = batch(16, 10);
    let large = Tensor::randn([2, 3, 224, 224], tch::kind::FLOAT_CPU);
    let logits = |images: &Tensor, mode| {
        let logits = tch::no_grad(|| model.forward(images, mode)).unwrap();
        Vec::<f64>::try_from(logits.flatten(0, -1)).unwrap()
    };
    // Over 16 samples of one pixel, as the last layer has them, the division by the deviation
    // magnifies the last bits.
    close("batch_statistics", &logits(&images, Mode::Train), 1e-4);
    close("running_statistics", &logits(&images, Mode::Eval), 1e-5);
    close("running_statistics_224", &logits(&large, Mode::Eval), 1e-5);

    // A large epsilon, since Adam otherwise turns the last bits of a gradient near zero into whole
    // steps.
    let mut optimizer = Adam { eps: 1e-4, ..Adam::default() }.build(&variables, 1e-4).unwrap();
    let losses: Vec<f64> = (0..20)
        .map(|_| {
            let mut meter = Meter::new(Device::Cpu).unwrap();
            step::train(&model, &mut optimizer, &images, &labels, &mut meter).unwrap();
            meter.read().unwrap().loss
        })
        .collect();
    close("losses", &losses, 1e-4);
}

#[test]
fn parameters_are_as_many_as_torchvisions() {
    let _turn = seeded(0);
    let trainable = |variables: &VarStore| -> usize {
        variables.trainable_variables().iter().map(Tensor::numel).sum()
    };
    let (variables, _) = model(Stem::Imagenet, 1000);
    assert_eq!((trainable(&variables), variables.len()), (11_689_512, 122));
    let (variables, model) = model(Stem::Cifar, 10);
    assert_eq!(trainable(&variables), 11_173_962);
    let logits = model.forward(&batch(2, 10).0, Mode::Train).unwrap();
    assert_eq!(logits.size(), [2, 10]);
}

fn some_steps(seed: i64) -> (Vec<Metrics>, Vec<u8>) {
    let _turn = seeded(seed);
    tch::set_num_threads(2);
    let (variables, model) = model(Stem::Imagenet, 10);
    let mut optimizer = Adam::default().build(&variables, 1e-3).unwrap();
    let mut meter = Meter::new(Device::Cpu).unwrap();
    let (images, labels) = batch(32, 10);
    let mut curve = Vec::new();
    for _ in 0..4 {
        step::train(&model, &mut optimizer, &images, &labels, &mut meter).unwrap();
        curve.push(meter.read().unwrap());
    }
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    store.save(&variables.variables(), &meta()).unwrap();
    (curve, std::fs::read(store.last()).unwrap())
}

#[test]
fn the_same_seed_gives_the_same_bytes() {
    let (first, second, other) = (some_steps(1), some_steps(1), some_steps(2));
    assert_eq!(first.0, second.0);
    assert!(first.1 == second.1, "the files differ");
    assert!(first.1 != other.1, "another seed gives the same file");
}

#[test]
fn evaluating_changes_nothing_and_training_learns() {
    let _turn = seeded(3);
    let (variables, model) = model(Stem::Imagenet, 4);
    let mut optimizer = Adam::default().build(&variables, 1e-3).unwrap();
    let (images, labels) = batch(8, 4);
    let evaluate = || {
        let mut meter = Meter::new(Device::Cpu).unwrap();
        step::evaluate(&model, &images, &labels, &mut meter).unwrap();
        meter.read().unwrap()
    };
    let before = evaluate();
    assert_eq!(before, evaluate());
    let mut last = before;
    for _ in 0..15 {
        let mut meter = Meter::new(Device::Cpu).unwrap();
        step::train(&model, &mut optimizer, &images, &labels, &mut meter).unwrap();
        last = meter.read().unwrap();
    }
    assert!(last.accuracy == 1.0 && last.loss < before.loss / 4.0, "{before:?} to {last:?}");
}

/// The head learns and layer4's statistics move, while the rest stands still and costs nothing.
#[test]
fn frozen_layers_keep_no_graph_and_their_statistics() {
    let _turn = seeded(7);
    let (variables, mut model) = model(Stem::Imagenet, 10);
    for (name, variable) in variables.variables() {
        let _ = variable.set_requires_grad(name.starts_with("fc."));
    }
    model.freeze_statistics(|layer| !layer.starts_with("layer4"));
    let copies = || -> BTreeMap<String, Tensor> {
        variables.variables().into_iter().map(|(name, tensor)| (name, tensor.copy())).collect()
    };
    let (before, (images, labels)) = (copies(), batch(4, 10));
    let (head, body) = model.segments().split_last().unwrap();
    let forward = |x: Tensor, part: &Segment| part.forward(&x, Mode::Train).unwrap();
    let features = body.iter().fold(images, forward);
    assert!(!features.requires_grad(), "a graph is kept below the head");
    forward(features, head).cross_entropy_for_logits(&labels).backward();
    for (name, now) in copies() {
        let moved =
            name.starts_with("layer4") && (name.contains("running") || name.contains("num_"));
        assert_eq!(now.equal(&before[&name]), !moved, "{name}");
        let gradient = variables.variables()[&name].grad();
        assert_eq!(gradient.defined(), name.starts_with("fc."), "{name}");
    }

    // In training, too, they normalise with what they keep.
    let x = Tensor::randn([2, 64, 8, 8], tch::kind::FLOAT_CPU);
    let block = &model.segments()[1];
    let (train, eval) = (block.forward(&x, Mode::Train), block.forward(&x, Mode::Eval));
    assert!(train.unwrap().equal(&eval.unwrap()));
    model.freeze_statistics(|_| false);
    let _ = model.segments()[1].forward(&x, Mode::Train).unwrap();
    assert_eq!(variables.variables()["layer1.0.bn1.num_batches_tracked"].int64_value(&[]), 1);
}
