//! The scaler, against torch.amp.GradScaler's moves, and the guard.

use crate::train::clip::clip_norm;
use crate::train::guard::Guard;
use crate::train::optimizer::{Algorithm, Optimizer, Options};
use crate::train::scaler::{GradScaler, Scaling};
use serde::Deserialize;
use serde_json::Value;
use std::collections::BTreeMap;
use tch::{Device, Kind, Tensor};

/// `scaler` of tests/data/optimizers.json; `tests/python/test_optimizer.py` writes it.
#[derive(Deserialize)]
struct Moves {
    start: f64,
    interval: i64,
    /// The gradients of each batch of each step, some of them names of what is not finite.
    batches: Vec<Vec<Value>>,
    scales: Vec<f64>,
    growth: Vec<i64>,
    weights: Vec<f32>,
}

fn number(value: &Value) -> f64 {
    value.as_f64().unwrap_or_else(|| value.as_str().unwrap().parse().unwrap())
}

fn plain(weight: &Tensor) -> Optimizer {
    let algorithm = Algorithm::Sgd { momentum: 0.0, nesterov: false };
    let options = Options { algorithm, ..Options::default() };
    Optimizer::new(options, vec![("weight".into(), weight.shallow_clone())]).unwrap()
}

fn saved(scaler: &GradScaler) -> BTreeMap<String, Tensor> {
    scaler.state().unwrap().into_iter().collect()
}

#[test]
fn it_moves_as_torchs_and_goes_on_from_a_state() {
    let file = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/data/optimizers.json");
    let file: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let moves: Moves = serde_json::from_value(file["scaler"].clone()).unwrap();
    let scaling = Scaling { start: moves.start, interval: moves.interval, ..Scaling::default() };
    let mut scaler = GradScaler::new(scaling, Device::Cpu).unwrap();
    let weight = Tensor::from(1_f32).set_requires_grad(true);
    let mut optimizer = plain(&weight);
    let mut skipped = 0;
    for (step, batches) in moves.batches.iter().enumerate() {
        optimizer.zero_grad().unwrap();
        for gradient in batches {
            let loss = &weight * number(gradient) / batches.len() as f64;
            scaler.scale_loss(&loss).unwrap().backward();
        }
        scaler.unscale(&optimizer.gradients()).unwrap();
        let _ = clip_norm(&optimizer.gradients(), Some(0.25)).unwrap();
        optimizer.step(0.5, None, Some(scaler.found_inf())).unwrap();
        scaler.update().unwrap();

        skipped += u64::from(!batches.iter().all(|gradient| number(gradient).is_finite()));
        let state = saved(&scaler);
        let told = (scaler.scale().unwrap(), state["scaler/growth"].int64_value(&[]));
        assert_eq!(told, (moves.scales[step], moves.growth[step]), "step {step}");
        assert_eq!(scaler.skipped().unwrap(), skipped, "step {step}");
        let off = (weight.double_value(&[]) as f32 - moves.weights[step]).abs();
        assert!(off < 1e-6, "step {step}: the weight is off by {off:e}");

        if step % 2 == 0 {
            scaler = GradScaler::new(scaling, Device::Cpu).unwrap();
            scaler.load_state(&state).unwrap();
        }
    }
    assert_eq!((skipped, moves.scales.len()), (3, moves.batches.len()));
}

#[test]
fn a_state_that_scales_nothing_is_refused() {
    let mut scaler = GradScaler::new(Scaling::default(), Device::Cpu).unwrap();
    for bad in [f64::NAN, f64::INFINITY, 0.0, -1.0] {
        let mut state = saved(&scaler);
        state.insert("scaler/scale".into(), Tensor::from(bad));
        let text = scaler.load_state(&state).unwrap_err().to_string();
        assert!(text.contains("scaler/scale is"), "{text}");
    }
    let mut state = saved(&scaler);
    state.remove("scaler/growth");
    let text = scaler.load_state(&state).unwrap_err().to_string();
    assert!(text.contains("lacks scaler/growth"), "{text}");
    assert_eq!(scaler.scale().unwrap(), 65536.0);
}

#[test]
fn from_the_first_bad_loss_on_nothing_changes() {
    for bad in [f64::NAN, f64::INFINITY, f64::NEG_INFINITY] {
        let mut guard = Guard::new(Device::Cpu, 100).unwrap();
        let weight = Tensor::from(1_f32).set_requires_grad(true);
        let mut optimizer = plain(&weight);
        let mut step = |factors: &[f64]| {
            optimizer.zero_grad().unwrap();
            for factor in factors {
                let loss = &weight * *factor;
                guard.latch(&loss).unwrap();
                loss.backward();
            }
            optimizer.step(0.5, None, Some(guard.found_inf())).unwrap();
            guard.update().unwrap();
            (weight.double_value(&[]), guard.read().unwrap())
        };
        assert_eq!(step(&[0.5, -1.0]), (1.25, None));
        assert_eq!(step(&[0.5]), (1.0, None));
        assert_eq!(step(&[0.5, bad, 1.0]), (1.0, Some(103)));
        assert_eq!(step(&[0.5]), (1.0, Some(103)));
        assert_eq!(step(&[bad]), (1.0, Some(103)));
    }
    let mut guard = Guard::new(Device::Cpu, 0).unwrap();
    let loss = Tensor::from_slice(&[f32::MAX]).sum(Kind::Float);
    guard.latch(&loss).unwrap();
    assert_eq!(
        (guard.found_inf().double_value(&[]), loss.double_value(&[]) as f32),
        (0.0, f32::MAX)
    );
}
