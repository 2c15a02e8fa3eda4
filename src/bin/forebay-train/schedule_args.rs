//! The flags of a learning rate's schedule, which `train` and `plot-lr` share.

use crate::train::schedule::{Kind, Plan};
use anyhow::{Result, ensure};
use clap::ValueEnum;

/// A schedule by name.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum ScheduleName {
    Constant,
    Cosine,
    #[value(name = "onecycle")]
    OneCycle,
    Step,
    Plateau,
}

/// Which schedule, and its shape.
#[derive(Debug, Clone, clap::Args)]
pub(crate) struct ScheduleArgs {
    /// How the learning rate changes
    #[arg(long, value_name = "KIND", default_value = "constant", help_heading = HEADING)]
    pub(crate) schedule: ScheduleName,
    #[command(flatten)]
    pub(crate) shape: ShapeArgs,
}

/// The shape of a schedule. A flag that the schedule has no use for changes nothing.
#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = HEADING)]
pub(crate) struct ShapeArgs {
    /// Epochs over which the rate rises first; onecycle has a rise of its own [default: 0]
    #[arg(long, value_name = "X", overrides_with = "warmup_steps")]
    pub(crate) warmup_epochs: Option<f64>,
    /// The same in steps of the optimiser
    #[arg(long, value_name = "N", overrides_with = "warmup_epochs")]
    pub(crate) warmup_steps: Option<u64>,
    /// cosine: the rate at the end; plateau: the lowest
    #[arg(long, value_name = "X", default_value_t = 0.0)]
    pub(crate) min_lr: f64,
    /// onecycle: share of the steps on the way up
    #[arg(long, value_name = "X", default_value_t = 0.3)]
    pub(crate) pct_start: f64,
    /// onecycle: --lr is so many times the first rate
    #[arg(long, value_name = "X", default_value_t = 25.0)]
    pub(crate) div_factor: f64,
    /// onecycle: the first rate is so many times the last
    #[arg(long, value_name = "X", default_value_t = 1e4)]
    pub(crate) final_div_factor: f64,
    /// step: epochs between two drops
    #[arg(long, value_name = "N", default_value_t = 30)]
    pub(crate) step_epochs: u64,
    /// step: what a drop multiplies the rate by
    #[arg(long, value_name = "X", default_value_t = 0.1)]
    pub(crate) gamma: f64,
    /// plateau: what a reduction multiplies the rate by
    #[arg(long, value_name = "X", default_value_t = 0.1)]
    pub(crate) plateau_factor: f64,
    /// plateau: epochs without improvement that are borne
    #[arg(long, value_name = "N", default_value_t = 10)]
    pub(crate) plateau_patience: u64,
}

const HEADING: &str = "Learning rate";

impl ScheduleArgs {
    /// The rates of a run of `epochs` epochs. `steps` says how many steps of the optimiser the first
    /// so many epochs have.
    pub(crate) fn plan(&self, lr: f64, epochs: u32, steps: impl Fn(f64) -> u64) -> Result<Plan> {
        self.shape.plan(self.schedule, lr, epochs, steps)
    }
}

impl ShapeArgs {
    /// The same for the schedule `name`.
    pub(crate) fn plan(
        &self,
        name: ScheduleName,
        lr: f64,
        epochs: u32,
        steps: impl Fn(f64) -> u64,
    ) -> Result<Plan> {
        let min_lr = self.min_lr;
        let kind = match name {
            ScheduleName::Constant => Kind::Constant,
            ScheduleName::Cosine => Kind::Cosine { min_lr },
            ScheduleName::OneCycle => Kind::OneCycle {
                pct_start: self.pct_start,
                div_factor: self.div_factor,
                final_div_factor: self.final_div_factor,
            },
            ScheduleName::Step => Kind::Step { every_epochs: self.step_epochs, gamma: self.gamma },
            ScheduleName::Plateau => Kind::Plateau {
                factor: self.plateau_factor,
                patience: self.plateau_patience,
                threshold: 1e-4,
                min_lr,
            },
        };
        let warmup_epochs = self.warmup_epochs.unwrap_or(0.0);
        ensure!(
            warmup_epochs.is_finite() && warmup_epochs >= 0.0,
            "--warmup-epochs is {warmup_epochs}; it must be at least 0"
        );
        let warmup_steps = self.warmup_steps.unwrap_or_else(|| steps(warmup_epochs));
        let total_steps = steps(f64::from(epochs));
        Ok(Plan { kind, base_lr: lr, warmup_steps, total_steps })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: ScheduleArgs,
    }

    fn plan(words: &str) -> Result<Plan> {
        Cli::try_parse_from(words.split(' '))
            .unwrap()
            .args
            .plan(0.1, 3, |epochs| (epochs * 50.0) as u64)
    }

    #[test]
    fn flags_make_a_plan() {
        let constant =
            Plan { kind: Kind::Constant, base_lr: 0.1, warmup_steps: 0, total_steps: 150 };
        assert_eq!(plan("train").unwrap(), constant);
        let cosine = Plan { kind: Kind::Cosine { min_lr: 0.01 }, warmup_steps: 75, ..constant };
        let words = "train --schedule cosine --min-lr 0.01 --warmup-epochs 1.5";
        assert_eq!(plan(words).unwrap(), cosine);
        // The last one holds, as where a flag follows what a file says.
        let steps = plan(&format!("{words} --warmup-steps 7")).unwrap();
        assert_eq!(steps, Plan { warmup_steps: 7, ..cosine });
        let epochs = plan("train --warmup-steps 7 --warmup-epochs 2").unwrap();
        assert_eq!(epochs, Plan { warmup_steps: 100, ..constant });

        let error = plan("train --warmup-epochs=-1").unwrap_err().to_string();
        assert_eq!(error, "--warmup-epochs is -1; it must be at least 0");
    }
}
