//! Learning rates, held to PyTorch's: `tests/python/test_schedule.py` makes the numbers.

use crate::train::schedule::{Kind, Plan, Scheduler, State};
use serde::Deserialize;

#[derive(Deserialize)]
struct Numbers {
    by_step: Vec<ByStep>,
    by_epoch: Vec<ByEpoch>,
}

#[derive(Deserialize)]
struct ByStep {
    plan: WithEpochs,
    rates: Vec<f64>,
    momenta: Option<Vec<f64>>,
}

#[derive(Deserialize)]
struct WithEpochs {
    #[serde(flatten)]
    plan: Plan,
    steps_per_epoch: usize,
}

#[derive(Deserialize)]
struct ByEpoch {
    plan: Plan,
    maximize: bool,
    monitored: Vec<Option<f64>>,
    rates: Vec<f64>,
}

fn numbers() -> Numbers {
    serde_json::from_str(include_str!("../data/schedules.json")).unwrap()
}

fn assert_close(got: f64, expected: f64, at: &str) {
    assert!((got - expected).abs() <= 1e-12 * expected.abs(), "{at}: {got} is not {expected}");
}

fn plan(kind: Kind) -> Plan {
    Plan { kind, base_lr: 0.1, warmup_steps: 4, total_steps: 40 }
}

const PLATEAU: Kind = Kind::Plateau { factor: 0.3, patience: 1, threshold: 1e-4, min_lr: 0.0 };

#[test]
fn rates_and_momenta_are_pytorchs() {
    for ByStep { plan: WithEpochs { plan, steps_per_epoch }, rates, momenta } in numbers().by_step {
        let mut scheduler = Scheduler::new(plan).unwrap();
        assert_eq!(rates.len() as u64, plan.total_steps);
        assert_eq!(momenta.is_some(), scheduler.momentum(0).is_some());
        for (step, expected) in rates.iter().enumerate() {
            let at = format!("{plan:?}, step {step}");
            if step > 0 && step % steps_per_epoch == 0 {
                scheduler.end_epoch(None, false);
            }
            assert_close(scheduler.rate(step as u64), *expected, &at);
        }
        for (step, expected) in momenta.iter().flatten().enumerate() {
            let got = scheduler.momentum(step as u64).unwrap();
            assert_close(got, *expected, &format!("{plan:?}, momentum of step {step}"));
        }
        // A step too many, as after a resumed run's change of length, is no way up again.
        let end = scheduler.rate(plan.total_steps);
        assert_eq!(scheduler.rate(u64::MAX), end, "{plan:?}");
        assert!(end <= rates[rates.len() - 1] * (1.0 + 1e-12), "{plan:?}");
    }
}

#[test]
fn a_plateau_reduces_as_pytorch_does_and_resumes_from_json() {
    for ByEpoch { plan, maximize, monitored, rates } in numbers().by_epoch {
        let mut scheduler = Scheduler::new(plan).unwrap();
        for (epoch, (value, expected)) in monitored.iter().zip(&rates).enumerate() {
            scheduler.end_epoch(Some(value.unwrap_or(f64::NAN)), maximize);
            assert_close(scheduler.rate(0), *expected, &format!("{plan:?}, epoch {epoch}"));

            let mut resumed = Scheduler::new(plan).unwrap();
            let state = serde_json::to_string(&scheduler.state()).unwrap();
            resumed.load(serde_json::from_str(&state).unwrap()).unwrap();
            assert_eq!(resumed.state(), scheduler.state(), "{plan:?}, epoch {epoch}");
            scheduler = resumed;
        }
    }
}

#[test]
fn without_a_metric_a_plateau_stays_and_its_warm_up_is_that_of_all() {
    let mut scheduler = Scheduler::new(Plan { base_lr: 0.5, ..plan(PLATEAU) }).unwrap();
    for _ in 0..9 {
        scheduler.end_epoch(None, true);
    }
    let rates: Vec<f64> = (0..5).map(|step| scheduler.rate(step)).collect();
    assert_eq!(rates, [0.125, 0.25, 0.375, 0.5, 0.5]);
}

#[test]
fn a_number_out_of_range_is_named() {
    let kinds = [
        (Kind::Cosine { min_lr: 0.2 }, "min_lr is 0.2; it must be within 0 and"),
        (Kind::OneCycle { pct_start: 1.5, div_factor: 25.0, final_div_factor: 1e4 }, "pct_start"),
        (Kind::OneCycle { pct_start: 0.5, div_factor: 0.0, final_div_factor: 1e4 }, "div_factor"),
        (Kind::Step { every_epochs: 0, gamma: 0.1 }, "step_epochs is 0; it must be at least 1"),
        (Kind::Step { every_epochs: 1, gamma: f64::NAN }, "gamma is NaN"),
        (Kind::Plateau { factor: 1.0, patience: 1, threshold: 0.0, min_lr: 0.0 }, "below 1"),
    ];
    for (kind, expected) in kinds {
        let error = Scheduler::new(plan(kind)).unwrap_err().to_string();
        assert!(error.contains(expected), "{error}");
    }
    let lengths = [
        Plan { total_steps: 0, ..plan(Kind::Constant) },
        Plan { base_lr: f64::INFINITY, ..plan(Kind::Constant) },
    ];
    for plan in lengths {
        assert!(Scheduler::new(plan).is_err(), "{plan:?}");
    }
    let state = State { epochs: 0, rate: f64::NAN, best: None, bad_epochs: 0 };
    assert!(Scheduler::new(plan(PLATEAU)).unwrap().load(state).is_err());
}
