//! Stopping when a metric no longer gets better, as Lightning's `EarlyStopping`.

use super::checkpoint::Mode;
use super::metrics::Metric;
use serde::{Deserialize, Serialize};

/// Which metric is watched, and for how long it may stay without improvement.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct EarlyStop {
    /// The metric.
    pub monitor: Metric,
    /// Which values are better.
    pub mode: Mode,
    /// Epochs without improvement after which a run ends.
    pub patience: u32,
    /// What counts as improvement is more than this.
    pub min_delta: f64,
}

/// Where the patience stands.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize)]
pub struct State {
    /// The best value so far.
    pub best: Option<f64>,
    /// Epochs since.
    pub waited: u32,
}

impl EarlyStop {
    /// Takes in the metric after an epoch; whether the run is to end. A value that is not finite ends
    /// it, since no later one will be better.
    pub fn end_epoch(&self, state: &mut State, value: f64) -> bool {
        let delta = match self.mode {
            Mode::Max => self.min_delta,
            Mode::Min => -self.min_delta,
        };
        if value.is_finite() && state.best.is_none_or(|best| self.mode.better(value - delta, best))
        {
            *state = State { best: Some(value), waited: 0 };
        } else {
            state.waited += 1;
        }
        !value.is_finite() || state.waited >= self.patience
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(mode: Mode, patience: u32, min_delta: f64, values: &[f64]) -> Option<usize> {
        let stop = EarlyStop { monitor: "valid_acc".parse().unwrap(), mode, patience, min_delta };
        let mut state = State::default();
        values.iter().position(|value| stop.end_epoch(&mut state, *value)).map(|at| at + 1)
    }

    #[test]
    fn ends_after_so_many_epochs_without_improvement() {
        assert_eq!(epochs(Mode::Max, 2, 0.0, &[0.1, 0.2, 0.2, 0.3, 0.3, 0.2, 0.9]), Some(6));
        assert_eq!(epochs(Mode::Max, 3, 0.0, &[0.1, 0.2, 0.2, 0.3, 0.3, 0.2]), None);
        // Too little is no improvement, and the bar stays where it was.
        assert_eq!(epochs(Mode::Max, 2, 0.1, &[0.5, 0.55, 0.59]), Some(3));
        assert_eq!(epochs(Mode::Max, 2, 0.1, &[0.5, 0.55, 0.65]), None);
        assert_eq!(epochs(Mode::Min, 1, 0.0, &[2.0, 1.0, 0.5, 0.5]), Some(4));
        assert_eq!(epochs(Mode::Min, 5, 0.0, &[2.0, f64::NAN]), Some(2));
        assert_eq!(epochs(Mode::Min, 5, 0.0, &[f64::INFINITY, 1.0]), Some(1));
    }
}
