//! Starting from weights, freezing, and handing weights on.

use crate::train::export::{self, Exported};
use crate::train::freeze::{self, Unfreeze};
use crate::train::resnet::{Mode, Stem};
use crate::train::{state_dict, weights};
use crate::{batch, model, seeded};
use std::collections::BTreeMap;
use tch::{Kind, Tensor};

/// The state of a network as a file would have it: dense copies.
fn state(stem: Stem, classes: i64) -> BTreeMap<String, Tensor> {
    let variables = model(stem, classes).0.variables();
    variables.into_iter().map(|(name, t)| (name, t.detach().contiguous().copy())).collect()
}

fn same(a: &Tensor, b: &Tensor) -> bool {
    a.to_kind(Kind::Double).equal(&b.to_kind(Kind::Double))
}

#[test]
fn weights_go_in_by_name_and_keep_their_place() {
    let _turn = seeded(1);
    let theirs = state(Stem::Imagenet, 10);
    let (variables, _) = model(Stem::Imagenet, 10);
    let before: Vec<_> = variables.trainable_variables().iter().map(Tensor::stride).collect();
    let mut halves: BTreeMap<_, _> =
        theirs.iter().map(|(name, t)| (name.clone(), t.to_kind(Kind::Half))).collect();
    halves.retain(|name, _| !name.ends_with("num_batches_tracked"));
    let report = weights::load(&variables, &halves).unwrap();
    assert_eq!((report.taken, report.head), (102, None));
    assert!(report.missing.is_empty() && report.unexpected.is_empty());
    assert_eq!(report.to_string(), "102 tensors taken");
    for (name, ours) in variables.variables() {
        assert!(same(&ours, halves.get(&name).unwrap_or(&ours)), "{name}");
        assert!([Kind::Float, Kind::Int64].contains(&ours.kind()), "{name}");
    }
    let after = variables.trainable_variables();
    assert_eq!(after.iter().map(Tensor::stride).collect::<Vec<_>>(), before);
    assert!(after.iter().all(Tensor::requires_grad));
}

#[test]
fn a_head_of_other_classes_is_left_and_the_rest_is_told() {
    let _turn = seeded(2);
    let mut theirs = state(Stem::Imagenet, 1000);
    let (variables, _) = model(Stem::Imagenet, 10);
    let head = variables.variables()["fc.weight"].copy();
    theirs.retain(|name, _| !name.starts_with("layer4.1.") && name != "bn1.weight");
    theirs.insert("head\x1b".into(), Tensor::zeros([1], tch::kind::FLOAT_CPU));
    let report = weights::load(&variables, &theirs).unwrap();
    assert_eq!(report.head, Some((1000, 10)));
    assert_eq!(report.missing.len(), 11);
    assert_eq!(report.unexpected, ["head\x1b"]);
    assert!(variables.variables()["fc.weight"].equal(&head));
    assert!(variables.variables()["conv1.weight"].equal(&theirs["conv1.weight"]));
    let told = report.to_string();
    let lines: Vec<_> = told.lines().collect();
    assert_eq!(lines[1], "head left as drawn: the file's has 1000 classes, this one 10");
    let missing = "left as drawn, not in the file: bn1.weight, layer4.1.bn1.bias, ";
    assert!(
        lines[2].starts_with(missing) && lines[2].ends_with(", layer4.1.conv2.weight"),
        "{told}"
    );
    assert_eq!(lines[3], "not taken, not in the model: head\\u{1b}");
}

#[test]
fn what_does_not_fit_changes_nothing() {
    let _turn = seeded(3);
    let (variables, _) = model(Stem::Cifar, 10);
    let before = variables.variables()["bn1.weight"].copy();
    let failed = |theirs: &BTreeMap<String, Tensor>, text: &str| {
        let error = weights::load(&variables, theirs).unwrap_err();
        assert_eq!(error.message(), text);
        assert!(variables.variables()["bn1.weight"].equal(&before));
    };
    let mut theirs = state(Stem::Imagenet, 10);
    theirs.insert("bn1.weight".into(), Tensor::zeros([64], tch::kind::FLOAT_CPU));
    let conv1 = "conv1.weight is 64x3x7x7 in the file and 64x3x3x3 in the model";
    failed(&theirs, &format!("{conv1}; --stem imagenet fits"));
    theirs.insert("bn1.bias".into(), Tensor::zeros([0; 0], tch::kind::FLOAT_CPU));
    failed(&theirs, "bn1.bias is a single value in the file and 64 in the model");
    let other = BTreeMap::from([("features.0.weight".to_string(), Tensor::from(0.0))]);
    let text = "none of its 1 tensors is one of this ResNet-18: the first is features.0.weight";
    failed(&other, text);
}

#[test]
fn only_what_is_not_frozen_has_gradients() {
    let _turn = seeded(4);
    let (variables, model) = model(Stem::Imagenet, 3);
    let (images, labels) = batch(2, 3);
    for (unfreeze, parts) in [
        (Unfreeze::Last, &["fc"][..]),
        (Unfreeze::Most, &["fc", "layer3", "layer4"]),
        (Unfreeze::Full, &["bn1", "conv1", "fc", "layer1", "layer2", "layer3", "layer4"]),
    ] {
        freeze::apply(&variables, unfreeze).unwrap();
        let logits = model.forward(&images, Mode::Train).unwrap();
        logits.cross_entropy_for_logits(&labels).backward();
        let mut learning: Vec<_> = Vec::new();
        for (name, mut variable) in variables.variables() {
            let buffer = name.contains("running") || name.contains("tracked");
            let learns = variable.grad().defined();
            assert_eq!(learns, unfreeze.trainable(&name) && !buffer, "{name}");
            learning.extend(learns.then(|| name.split('.').next().unwrap().to_string()));
            variable.zero_grad();
        }
        learning.sort();
        learning.dedup();
        assert_eq!(learning, parts);
    }
}

#[test]
fn exported_weights_are_dense_and_come_back() {
    let _turn = seeded(5);
    let dir = tempfile::tempdir().unwrap();
    let (from, to) = (dir.path().join("last.safetensors"), dir.path().join("to.safetensors"));
    let theirs = state(Stem::Cifar, 7);
    let dense: Vec<_> = theirs.iter().filter(|(name, _)| !name.contains("tracked")).collect();
    let extra = Tensor::zeros([2], tch::kind::FLOAT_CPU);
    let own = "optimizer/step".to_string();
    let file = dense.into_iter().chain([(&own, &extra)]).map(|(name, t)| (name.clone(), t));
    Tensor::write_safetensors(&file.collect::<Vec<_>>(), &from).unwrap();
    let exported = export::export(&from, &to).unwrap();
    assert_eq!(exported, Exported { stem: Stem::Cifar, classes: 7, tensors: 122 });
    let back = state_dict::read(&to).unwrap();
    assert_eq!(back.keys().collect::<Vec<_>>(), theirs.keys().collect::<Vec<_>>());
    for (name, tensor) in &back {
        assert!(tensor.equal(&theirs[name]) && tensor.kind() == theirs[name].kind(), "{name}");
    }
    assert_eq!(dir.path().read_dir().unwrap().count(), 2);
}
