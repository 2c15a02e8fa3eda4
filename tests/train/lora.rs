//! Low-rank adapters: what learns, and that merging them changes nothing.

use crate::train::lora::{self, Head};
use crate::train::resnet::{Mode, ResNet18, Stem};
use crate::{batch, model, seeded};
use std::collections::BTreeMap;
use tch::Tensor;
use tch::nn::{Adam, OptimizerConfig, VarStore};

fn adapted(rank: i64, head: Head) -> (VarStore, ResNet18) {
    let (variables, mut model) = model(Stem::Imagenet, 10);
    model.add_lora(&variables, rank, head).unwrap();
    (variables, model)
}

fn values(variables: &VarStore) -> BTreeMap<String, Tensor> {
    variables.variables().into_iter().map(|(name, tensor)| (name, tensor.copy())).collect()
}

fn logits(model: &ResNet18, images: &Tensor) -> Tensor {
    tch::no_grad(|| model.forward(images, Mode::Eval)).unwrap()
}

fn largest_difference(a: &Tensor, b: &Tensor) -> f64 {
    (a - b).abs().max().double_value(&[])
}

/// 20 convolutions and the head; of rank 2 they have 2 * (I * K * K + O) numbers each.
#[test]
fn adapters_alone_learn_and_merge_into_plain_weights() {
    let _turn = seeded(6);
    let (_, plain) = model(Stem::Imagenet, 10);
    let (images, labels) = batch(8, 10);
    tch::manual_seed(6);
    let (variables, model) = adapted(2, Head::Adapted);
    assert!(logits(&model, &images).equal(&logits(&plain, &images)), "B is not zero at the start");

    let before = values(&variables);
    let mut optimizer = Adam::default().build(&variables, 1e-2).unwrap();
    let mut losses = Vec::new();
    for _ in 0..4 {
        let logits = model.forward(&images, Mode::Train).unwrap();
        let loss = logits.cross_entropy_for_logits(&labels);
        optimizer.backward_step(&loss);
        losses.push(loss.double_value(&[]));
    }
    assert!(losses[3] < losses[0] / 2.0, "{losses:?}");
    let after = values(&variables);
    assert_eq!(lora::layers(&after).len(), 21);
    let changed = |name: &str| !after[name].equal(&before[name]);
    for name in after.keys() {
        let learns =
            [".lora_a", ".lora_b", ".running_mean", ".running_var", ".num_batches_tracked"]
                .iter()
                .any(|end| name.ends_with(end));
        assert_eq!(changed(name), learns, "{name}");
        assert_eq!(variables.variables()[name].grad().defined(), name.contains("lora"), "{name}");
    }
    assert_eq!(after["layer1.0.conv1.lora_a"].size(), [2, 64, 3, 3]);
    assert_eq!(after["layer1.0.conv1.lora_b"].size(), [64, 2, 1, 1]);

    let merged = lora::merge(after).unwrap();
    assert!(lora::layers(&merged).is_empty());
    let (plain_variables, plain) = crate::model(Stem::Imagenet, 10);
    for (name, variable) in plain_variables.variables() {
        tch::no_grad(|| variable.shallow_clone().copy_(&merged[&name]));
    }
    assert_eq!(merged.len(), plain_variables.len());
    let off = largest_difference(&logits(&model, &images), &logits(&plain, &images));
    println!("logits of the merged weights: largest difference {off:e}");
    assert!(off < 1e-5, "{off:e}");
}

#[test]
fn a_new_head_learns_as_a_whole_beside_adapters() {
    let _turn = seeded(8);
    let (variables, model) = adapted(1, Head::Whole);
    let (images, labels) = batch(2, 10);
    model.forward(&images, Mode::Train).unwrap().cross_entropy_for_logits(&labels).backward();
    for (name, variable) in variables.variables() {
        let learns = name.contains("lora_") || name.starts_with("fc.");
        assert_eq!(variable.grad().defined(), learns, "{name}");
    }
    assert!(!variables.variables().contains_key("fc.lora_a"));
}

#[test]
fn what_is_no_adapter_is_an_error() {
    let ones = |size: &[i64]| Tensor::ones(size, tch::kind::FLOAT_CPU);
    let state = |parts: &[(&str, &[i64])]| -> BTreeMap<String, Tensor> {
        parts.iter().map(|(name, size)| (format!("fc.{name}"), ones(size))).collect()
    };
    let good = [("weight", &[3, 4][..]), ("lora_a", &[2, 4]), ("lora_b", &[3, 2])];
    let merged = lora::merge(state(&good)).unwrap();
    assert!(merged["fc.weight"].equal(&(ones(&[3, 4]) * 3)) && merged.len() == 1);

    for part in ["weight", "lora_a", "lora_b"] {
        let mut state = state(&good);
        state.remove(&format!("fc.{part}"));
        let error = lora::merge(state).unwrap_err().to_string();
        assert_eq!(error, format!("fc.{part} is missing or holds no floats"));
    }
    for (part, size) in [
        ("weight", &[4, 3][..]),
        ("weight", &[3]),
        ("weight", &[]),
        ("lora_a", &[2, 4, 1, 1]),
        ("lora_a", &[2]),
        ("lora_b", &[3, 1]),
        ("lora_b", &[1, 2]),
    ] {
        let mut state = state(&good);
        state.insert(format!("fc.{part}"), ones(size));
        let error = lora::merge(state).unwrap_err().to_string();
        assert!(error.ends_with(" do not fit each other"), "{error}");
    }
}
