//! A step of training, put together.

use crate::train::batch::Samples;
use crate::train::checkpoint::{Lora, Model, Tensors};
use crate::train::freeze::Unfreeze;
use crate::train::learner::{Learner, Recipe};
use crate::train::metrics::Meter;
use crate::train::optimizer::{Algorithm, Options};
use crate::train::resnet::Stem;
use crate::{batch, network, recipe, samples, seeded};
use tch::{Device, Tensor};

const SGD: Options = Options {
    algorithm: Algorithm::Sgd { momentum: 0.9, nesterov: false },
    weight_decay: 0.0,
    decay_norms_and_biases: true,
};

/// The same network each time.
fn learner(lora: bool, recipe: Recipe) -> Learner {
    tch::manual_seed(9);
    let lora = lora.then_some(Lora { rank: 2, head: false });
    let model = Model { lora, ..network(Stem::Imagenet, 4) };
    Learner::new(model, recipe, None, Device::Cpu).unwrap().0
}

/// The weights and statistics as they are now.
fn copy(learner: &Learner) -> Tensors {
    learner.weights().into_iter().map(|(name, tensor)| (name, tensor.copy())).collect()
}

fn meter() -> Meter {
    Meter::new(Device::Cpu).unwrap()
}

/// The samples `from` to below `to`.
fn part(all: &Samples, from: i64, to: i64) -> Samples {
    Samples {
        images: all.images.narrow(0, from, to - from),
        labels: all.labels.narrow(0, from, to - from),
        ids: (from..to).collect(),
    }
}

/// Names of what differs.
fn changed(before: &Tensors, after: &Tensors) -> Vec<String> {
    let differs = |(name, tensor): &(&String, &Tensor)| !before[*name].equal(*tensor);
    after.iter().filter(differs).map(|(name, _)| name.clone()).collect()
}

#[test]
fn small_batches_make_the_step_of_a_large_one() {
    let _turn = seeded(1);
    let all = samples(batch(13, 4));
    // Adapters pass gradients through the whole network, whose statistics stand still.
    for clip_norm in [None, Some(0.05)] {
        let recipe = Recipe { freeze_norm: true, optimizer: SGD, clip_norm, ..recipe() };
        let train = |parts: &[(i64, i64)], full: f64| {
            let mut learner = learner(true, recipe.clone());
            let norms = [(); 3].map(|()| {
                for (from, to) in parts {
                    let share = (to - from) as f64 / full;
                    learner.learn(&part(&all, *from, *to), share, &mut meter()).unwrap();
                }
                learner.update(0.05, None, true).unwrap().unwrap().double_value(&[])
            });
            (norms, copy(&learner))
        };
        let (norms, large) = train(&[(0, 12)], 12.0);
        // All of a step; an epoch's last, which is short, and whose last batch of one adds nothing.
        for (parts, full) in [
            (vec![(0, 5), (5, 10), (10, 12)], 12.0),
            (vec![(0, 5), (5, 10), (10, 12), (12, 13)], 20.0),
        ] {
            let (small_norms, small) = train(&parts, full);
            for (a, b) in norms.iter().zip(small_norms) {
                assert!((a - b).abs() < 1e-4 * a, "{clip_norm:?}: {a} {b}");
            }
            for (name, tensor) in &large {
                let off = (tensor - &small[name]).abs().max().double_value(&[]);
                assert!(off < 2e-6, "{clip_norm:?}: {name} by {off}");
            }
        }
        let moved = changed(&copy(&learner(true, recipe.clone())), &large);
        assert!(moved.contains(&"conv1.lora_a".to_string()), "{moved:?}");
    }
}

#[test]
fn a_step_of_one_sample_changes_nothing() {
    let _turn = seeded(2);
    let mut learner = learner(false, Recipe { clip_norm: Some(1.0), ..recipe() });
    let before = copy(&learner);
    learner.learn(&samples(batch(1, 4)), 1.0, &mut meter()).unwrap();
    assert!(learner.update(0.1, None, true).unwrap().is_none());
    assert_eq!(changed(&before, &copy(&learner)), [""; 0]);
    assert_eq!(learner.first_bad().unwrap(), None);
}

#[test]
fn what_is_frozen_keeps_every_bit() {
    let _turn = seeded(3);
    let samples = samples(batch(6, 4));
    let step = |lora: bool, recipe: Recipe| {
        let mut learner = learner(lora, recipe);
        let before = copy(&learner);
        for _ in 0..2 {
            learner.learn(&samples, 1.0, &mut meter()).unwrap();
            learner.update(0.1, None, false).unwrap();
        }
        changed(&before, &copy(&learner))
    };
    let last = Recipe { unfreeze: Unfreeze::Last, freeze_norm: true, ..recipe() };
    assert_eq!(step(false, last.clone()), ["fc.bias", "fc.weight"]);
    // Unless it was asked for, statistics move.
    let moving = step(false, Recipe { freeze_norm: false, ..last.clone() });
    let is_statistic = |name: &String| name.contains("running_") || name.ends_with("_tracked");
    assert!(moving.iter().all(|name| name.starts_with("fc.") || is_statistic(name)), "{moving:?}");
    assert_eq!(moving.len(), 2 + 3 * 20);

    let adapted = step(true, Recipe { freeze_norm: true, unfreeze: Unfreeze::Full, ..last });
    let learns = |name: &String| name.contains(".lora_") || name.starts_with("fc.");
    assert!(adapted.iter().all(learns), "{adapted:?}");
    assert_eq!(adapted.len(), 2 * 20 + 2);
}
