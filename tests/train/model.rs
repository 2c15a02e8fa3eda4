//! The network and its steps, against torchvision's numbers and against themselves.

use crate::train::learner::Learner;
use crate::train::metrics::Meter;
use crate::train::resnet::{Mode, Stem};
use crate::{batch, learner, model, samples, seeded};
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
    let (images, _) = batch(16, 10);
    let logits = |mode| {
        let logits = tch::no_grad(|| model.forward(&images, mode)).unwrap();
        Vec::<f64>::try_from(logits.flatten(0, -1)).unwrap()
    };
    // Over 16 samples of one pixel, as the last layer has them, the division by the deviation
    // magnifies the last bits.
    close("batch_statistics", &logits(Mode::Train), 1e-4);
    close("running_statistics", &logits(Mode::Eval), 1e-5);

    // Small steps, since Adam turns the last bits of a gradient near zero into whole steps.
    tch::manual_seed(0);
    let mut learner = learner(Stem::Imagenet, 10);
    let samples = samples(batch(16, 10));
    let losses: Vec<f64> = (0..5)
        .map(|_| {
            let mut meter = Meter::new(Device::Cpu).unwrap();
            learner.learn(&samples, 1.0, &mut meter).unwrap();
            learner.update(1e-6, None, false).unwrap();
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
