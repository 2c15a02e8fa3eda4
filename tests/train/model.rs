//! The network and its steps, against torchvision's numbers and against themselves.

use crate::train::learner::{Learner, Recipe};
use crate::train::metrics::Meter;
use crate::train::optimizer::{Algorithm, Options};
use crate::train::resnet::{Mode, Segment, Stem};
use crate::{batch, learner, model, network, recipe, samples, seeded};
use std::collections::BTreeMap;
use tch::nn::VarStore;
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
    let (_, model) = model(Stem::Imagenet, 10);
    let samples = samples(batch(32, 10));
    let large = Tensor::randn([2, 3, 224, 224], tch::kind::FLOAT_CPU);
    let logits = |images: &Tensor, mode| {
        let logits = tch::no_grad(|| model.forward(images, mode)).unwrap();
        Vec::<f64>::try_from(logits.flatten(0, -1)).unwrap()
    };
    // Over 32 samples of one pixel, as the last layer has them, the division by the deviation
    // magnifies the last bits.
    close("batch_statistics", &logits(&samples.images, Mode::Train), 1e-4);
    close("running_statistics", &logits(&samples.images, Mode::Eval), 1e-5);
    close("running_statistics_224", &logits(&large, Mode::Eval), 1e-5);

    // A large epsilon, since Adam otherwise turns the last bits of a gradient near zero into whole
    // steps.
    tch::manual_seed(0);
    let algorithm = Algorithm::Adam { betas: (0.9, 0.999), epsilon: 1e-3 };
    let optimizer = Options { algorithm, ..Options::default() };
    let recipe = Recipe { optimizer, ..recipe() };
    let network = network(Stem::Imagenet, 10);
    let mut learner = Learner::new(network, recipe, None, Device::Cpu).unwrap().0;
    let losses: Vec<f64> = (0..20)
        .map(|_| {
            let mut meter = Meter::new(Device::Cpu).unwrap();
            learner.learn(&samples, 1.0, &mut meter).unwrap();
            learner.update(1e-5, None, false).unwrap();
            meter.read().unwrap().metrics().loss
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

#[test]
fn scoring_changes_nothing_and_training_learns() {
    let _turn = seeded(3);
    let mut learner = learner(Stem::Imagenet, 4);
    let samples = samples(batch(8, 4));
    let score = |learner: &Learner| learner.logits(&samples.images).unwrap();
    assert!(score(&learner).equal(&score(&learner)));
    let mut curve = Vec::new();
    for _ in 0..15 {
        let mut meter = Meter::new(Device::Cpu).unwrap();
        learner.learn(&samples, 1.0, &mut meter).unwrap();
        learner.update(1e-3, None, false).unwrap();
        curve.push(meter.read().unwrap().metrics());
    }
    let (first, last) = (curve[0], curve[14]);
    assert!(last.accuracy == 1.0 && last.loss < first.loss / 4.0, "{curve:?}");
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
