//! Learning rates by step. The formulas are those of `torch.optim.lr_scheduler`, in closed form, so
//! that a resumed run needs no history but that of the plateau.

use crate::error::{Error, ErrorKind, Result};
use serde::{Deserialize, Serialize};
use std::f64::consts::PI;

/// How the rate goes on after the warm-up.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
#[serde(tag = "name", rename_all = "lowercase")]
pub enum Kind {
    /// It stays.
    Constant,
    /// Half a cosine per step, down to a rate at the end of the run (`CosineAnnealingLR`).
    Cosine {
        /// The rate at `total_steps`, at most the base rate.
        min_lr: f64,
    },
    /// Up and down in cosines, the momentum against it (`OneCycleLR`, two phases). The base rate is
    /// the highest. It has a warm-up of its own, so that of the plan is not used.
    OneCycle {
        /// The share of the steps on the way up, 0 to 1.
        pct_start: f64,
        /// The base rate is so many times the first.
        div_factor: f64,
        /// The first rate is so many times the last.
        final_div_factor: f64,
    },
    /// Multiplied by a factor every few epochs of the run (`StepLR`).
    Step {
        /// Epochs between two drops, at least 1.
        every_epochs: u64,
        /// The factor, 0 to 1.
        gamma: f64,
    },
    /// Multiplied by a factor when a metric stays without improvement (`ReduceLROnPlateau` with a
    /// relative threshold).
    Plateau {
        /// The factor, above 0 and below 1.
        factor: f64,
        /// Epochs without improvement that are borne.
        patience: u64,
        /// The share of the best value by which another has to be better.
        threshold: f64,
        /// The rate is never reduced below this.
        min_lr: f64,
    },
}

/// A run's rates. Steps are those of the optimiser.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// How the rate goes on after the warm-up.
    pub kind: Kind,
    /// The rate after the warm-up.
    pub base_lr: f64,
    /// Steps in which the rate rises to it in equal parts. The first of them has one part and not 0,
    /// with which a step would be lost.
    pub warmup_steps: u64,
    /// Steps of the run, at least 1. Later ones have the last rate.
    pub total_steps: u64,
}

/// What does not follow from the number of a step.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// Epochs that ended.
    pub epochs: u64,
    /// Plateau: the base rate as reduced so far.
    pub rate: f64,
    /// Plateau: the best value of the metric so far.
    pub best: Option<f64>,
    /// Plateau: epochs since it or since the last reduction.
    pub bad_epochs: u64,
}

/// Says which rate a step has.
#[derive(Debug, Clone)]
pub struct Scheduler {
    plan: Plan,
    state: State,
}

impl Scheduler {
    /// A scheduler at the run's start.
    ///
    /// # Errors
    /// A number of the plan that is out of its range.
    pub fn new(plan: Plan) -> Result<Self> {
        check(&plan)?;
        let state = State { epochs: 0, rate: plan.base_lr, best: None, bad_epochs: 0 };
        Ok(Scheduler { plan, state })
    }

    /// The rate of `step`, counted from 0.
    pub fn rate(&self, step: u64) -> f64 {
        let Plan { kind, base_lr, warmup_steps, total_steps } = self.plan;
        let warm_up = ((step as f64 + 1.0) / warmup_steps.max(1) as f64).min(1.0);
        match kind {
            Kind::Constant => warm_up * base_lr,
            Kind::Cosine { min_lr } => {
                let steps = total_steps.saturating_sub(warmup_steps).max(1);
                let done = step.saturating_sub(warmup_steps).min(steps);
                warm_up * cosine(base_lr, min_lr, done as f64 / steps as f64)
            }
            Kind::OneCycle { pct_start, div_factor, final_div_factor } => {
                let first = base_lr / div_factor;
                self.cycle(step, pct_start, [first, base_lr, first / final_div_factor])
            }
            Kind::Step { every_epochs, gamma } => {
                // An epoch's steps are not always as many: batches may be accumulated by epoch.
                let drops = self.state.epochs / every_epochs;
                warm_up * base_lr * gamma.powf(drops as f64)
            }
            Kind::Plateau { .. } => warm_up * self.state.rate,
        }
    }

    /// The momentum of `step` (Adam: its first beta) where the schedule governs it: it falls from
    /// 0.95 to 0.85 while the rate rises, and rises again.
    pub fn momentum(&self, step: u64) -> Option<f64> {
        match self.plan.kind {
            Kind::OneCycle { pct_start, .. } => {
                Some(self.cycle(step, pct_start, [0.95, 0.85, 0.95]))
            }
            _ => None,
        }
    }

    /// From the first value to the second and on to the third. As PyTorch has it, the second is
    /// reached one step before its share of the steps is done, in general between two steps.
    fn cycle(&self, step: u64, pct_start: f64, [first, second, third]: [f64; 3]) -> f64 {
        let last = (self.plan.total_steps - 1) as f64;
        let turn = pct_start * self.plan.total_steps as f64 - 1.0;
        let step = (step as f64).min(last);
        let (from, to, start, end) = match step <= turn {
            true => (first, second, 0.0, turn),
            false => (second, third, turn, last),
        };
        cosine(from, to, if end > start { (step - start) / (end - start) } else { 1.0 })
    }

    /// Takes in the `monitored` metric after an epoch; more is better where it is to be maximised.
    /// Without a value nothing changes. One that is not a number is no improvement.
    pub fn end_epoch(&mut self, monitored: Option<f64>, maximize: bool) {
        /// PyTorch's: a reduction by less is left out.
        const LEAST: f64 = 1e-8;

        self.state.epochs += 1;
        let Kind::Plateau { factor, patience, threshold, min_lr } = self.plan.kind else { return };
        let Some(value) = monitored else { return };
        let State { rate, best, bad_epochs, .. } = &mut self.state;
        let better = match maximize {
            true => value > best.unwrap_or(f64::NEG_INFINITY) * (1.0 + threshold),
            false => value < best.unwrap_or(f64::INFINITY) * (1.0 - threshold),
        };
        if better && value.is_finite() {
            (*best, *bad_epochs) = (Some(value), 0);
            return;
        }
        *bad_epochs += 1;
        if *bad_epochs > patience {
            let reduced = (*rate * factor).max(min_lr);
            if *rate - reduced > LEAST {
                *rate = reduced;
            }
            *bad_epochs = 0;
        }
    }

    /// What [`Scheduler::load`] goes on from.
    pub fn state(&self) -> State {
        self.state
    }

    /// Goes on from where another scheduler of the same plan was.
    ///
    /// # Errors
    /// A rate that is none: the state comes from a file.
    pub fn load(&mut self, state: State) -> Result<()> {
        if !state.rate.is_finite() || state.rate < 0.0 {
            let message = format!("the schedule's state has the rate {}", state.rate);
            return Err(Error::new(ErrorKind::Data, message));
        }
        self.state = state;
        Ok(())
    }
}

/// From `from` to `to` along half a cosine, as `part` goes from 0 to 1.
fn cosine(from: f64, to: f64, part: f64) -> f64 {
    to + (from - to) / 2.0 * (1.0 + (PI * part).cos())
}

fn check(plan: &Plan) -> Result<()> {
    let within = |what: &str, value: f64, good: bool, range: &str| match good && value.is_finite() {
        true => Ok(()),
        false => Err(Error::spec(format!("schedule: {what} is {value}; it must be {range}"))),
    };
    let base = plan.base_lr;
    within("the learning rate", base, base >= 0.0, "at least 0")?;
    within("total_steps", plan.total_steps as f64, plan.total_steps > 0, "at least 1")?;
    let lowest = |rate: f64| {
        let range = format!("within 0 and the learning rate, {base}");
        within("min_lr", rate, (0.0..=base).contains(&rate), &range)
    };
    match plan.kind {
        Kind::Constant => Ok(()),
        Kind::Cosine { min_lr } => lowest(min_lr),
        Kind::OneCycle { pct_start, div_factor, final_div_factor } => {
            within("pct_start", pct_start, (0.0..=1.0).contains(&pct_start), "within 0 and 1")?;
            within("div_factor", div_factor, div_factor >= 1.0, "at least 1")?;
            within("final_div_factor", final_div_factor, final_div_factor > 0.0, "above 0")
        }
        Kind::Step { every_epochs, gamma } => {
            within("step_epochs", every_epochs as f64, every_epochs > 0, "at least 1")?;
            within("gamma", gamma, (0.0..=1.0).contains(&gamma), "within 0 and 1")
        }
        Kind::Plateau { factor, threshold, min_lr, .. } => {
            within("plateau_factor", factor, factor > 0.0 && factor < 1.0, "above 0 and below 1")?;
            within("the plateau's threshold", threshold, threshold >= 0.0, "at least 0")?;
            lowest(min_lr)
        }
    }
}
