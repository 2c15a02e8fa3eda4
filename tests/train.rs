//! The trainer's parts on tensors, against torchvision's numbers and against themselves.
#![cfg(feature = "train")]

use forebay::train::checkpoint::{Meta, Store};
use forebay::train::metrics::{Meter, Metrics};
use forebay::train::resnet::{ResNet18, Stem};
use forebay::train::step;
use safetensors::SafeTensors;
use std::sync::{Mutex, MutexGuard};
use tch::nn::{Adam, OptimizerConfig, VarStore};
use tch::{Device, Kind, Tensor};

/// libtorch has one generator and one thread count for the whole process: tests take turns.
static LIBTORCH: Mutex<()> = Mutex::new(());

fn seeded(seed: i64) -> MutexGuard<'static, ()> {
    let turn = LIBTORCH.lock().unwrap_or_else(|poisoned| poisoned.into_inner());
    tch::set_num_threads(2);
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
    let logits = |train| {
        let logits = tch::no_grad(|| model.forward(&images, train)).unwrap();
        Vec::<f64>::try_from(logits.flatten(0, -1)).unwrap()
    };
    // Over 16 samples of one pixel, as the last layer has them, the division by the deviation
    // magnifies the last bits.
    close("batch_statistics", &logits(true), 1e-4);
    close("running_statistics", &logits(false), 1e-5);

    let mut optimizer = Adam::default().build(&variables, 1e-3).unwrap();
    let losses: Vec<f64> = (0..5)
        .map(|_| {
            let mut meter = Meter::new().unwrap();
            step::train(&model, &mut optimizer, &images, &labels, &mut meter).unwrap();
            meter.read().unwrap().loss
        })
        .collect();
    close("losses", &losses, 1e-3);
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
    let logits = model.forward(&batch(2, 10).0, true).unwrap();
    assert_eq!(logits.size(), [2, 10]);
}

fn some_steps(seed: i64) -> (Vec<Metrics>, Vec<u8>) {
    let _turn = seeded(seed);
    let (variables, model) = model(Stem::Imagenet, 10);
    let mut optimizer = Adam::default().build(&variables, 1e-3).unwrap();
    let mut meter = Meter::new().unwrap();
    let (images, labels) = batch(64, 10);
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
        let mut meter = Meter::new().unwrap();
        step::evaluate(&model, &images, &labels, &mut meter).unwrap();
        meter.read().unwrap()
    };
    let before = evaluate();
    assert_eq!(before, evaluate());
    let mut last = before;
    for _ in 0..15 {
        let mut meter = Meter::new().unwrap();
        step::train(&model, &mut optimizer, &images, &labels, &mut meter).unwrap();
        last = meter.read().unwrap();
    }
    assert!(last.accuracy == 1.0 && last.loss < before.loss / 4.0, "{before:?} to {last:?}");
}

#[test]
fn a_checkpoint_holds_dense_weights_and_its_story() {
    let _turn = seeded(4);
    let (variables, _) = model(Stem::Imagenet, 10);
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("new/run")).unwrap();
    store.save(&variables.variables(), &meta()).unwrap();
    let left: Vec<_> = store.last().parent().unwrap().read_dir().unwrap().collect();
    assert_eq!(left.len(), 1, "nothing but the checkpoint is left: {left:?}");

    let bytes = std::fs::read(store.last()).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let story = &header.metadata().as_ref().unwrap()[Meta::KEY];
    assert_eq!(serde_json::from_str::<Meta>(story).unwrap(), meta());
    let variables = variables.variables();
    assert_eq!(file.len(), variables.len());
    for (name, tensor) in variables {
        let saved = file.tensor(&name).unwrap();
        let shape: Vec<i64> = saved.shape().iter().map(|size| *size as i64).collect();
        assert_eq!(shape, tensor.size(), "{name}");
        let saved = Tensor::from_data_size(saved.data(), &shape, tensor.kind());
        assert!(saved.equal(&tensor), "{name}");
    }
}

#[test]
fn a_failed_save_keeps_the_checkpoint_before() {
    let _turn = seeded(5);
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    std::fs::write(store.last(), "older").unwrap();
    // A directory in the way of the temporary file, since root may write anywhere.
    std::fs::create_dir(dir.path().join(".last.safetensors.partial")).unwrap();
    let error = store.save(&Default::default(), &meta()).unwrap_err();
    assert_eq!(error.path(), Some(store.last().as_path()));
    assert_eq!(std::fs::read(store.last()).unwrap(), b"older");

    let error = Store::open(&store.last()).unwrap_err().to_string();
    assert!(error.contains("cannot create the directory"), "{error}");
}

#[test]
fn versions_count_up() {
    let dir = tempfile::tempdir().unwrap();
    for version in ["version_0", "version_1"] {
        let store = Store::next_version(dir.path()).unwrap();
        assert_eq!(store.last(), dir.path().join(version).join(Store::LAST));
    }
}
