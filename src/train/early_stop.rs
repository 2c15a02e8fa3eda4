//! Stopping when a metric no longer gets better, as Lightning's `EarlyStopping`.

use super::metric::{Metric, Mode};
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
    /// What the rest is about.
    pub monitor: Option<Metric>,
    /// The best value so far.
    pub best: Option<f64>,
    /// Epochs since.
    pub waited: u32,
}

impl EarlyStop {
    /// Whether patience is at its end. What a run that watched another metric has seen is no reason.
    pub fn is_over(&self, state: &State) -> bool {
        state.monitor == Some(self.monitor) && state.waited >= self.patience
    }

    /// Takes in the metric after an epoch; whether the run is to end. A value that is not finite ends
    /// it, since no later one will be better.
    pub fn end_epoch(&self, state: &mut State, value: f64) -> bool {
        if state.monitor != Some(self.monitor) {
            *state = State { monitor: Some(self.monitor), ..State::default() };
        }
        let delta = match self.mode {
            Mode::Max => self.min_delta,
            Mode::Min => -self.min_delta,
        };
        if value.is_finite() && state.best.is_none_or(|best| self.mode.better(value - delta, best))
        {
            (state.best, state.waited) = (Some(value), 0);
        } else {
            // A run that is killed now and goes on is to know that it had ended.
            state.waited = if value.is_finite() { state.waited + 1 } else { u32::MAX };
        }
        self.is_over(state)
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

    #[test]
    fn another_metric_has_another_best() {
        let accuracy = EarlyStop {
            monitor: "valid_acc".parse().unwrap(),
            mode: Mode::Max,
            patience: 1,
            min_delta: 0.0,
        };
        let loss =
            EarlyStop { monitor: "valid_loss".parse().unwrap(), mode: Mode::Min, ..accuracy };
        let mut state = State::default();
        assert!(!accuracy.end_epoch(&mut state, 0.5) && accuracy.end_epoch(&mut state, 0.5));
        let text = serde_json::to_string(&state).unwrap();
        let mut state: State = serde_json::from_str(&text).unwrap();
        assert!(accuracy.is_over(&state) && !loss.is_over(&state));
        assert!(!loss.end_epoch(&mut state, 2.0) && !loss.end_epoch(&mut state, 1.0));
        assert!(loss.end_epoch(&mut state, f64::NAN) && loss.is_over(&state));
    }
}
