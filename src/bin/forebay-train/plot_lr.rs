//! `forebay plot-lr`: how the learning rate of a run will go.

use crate::schedule_args::{ScheduleName, ShapeArgs};
use crate::train::plot::{Format, Line, rates};
use crate::train::schedule::{Plan, Scheduler};
use anyhow::{Context, Result};
use clap::ValueEnum;
use forebay::error::Error;
use std::path::PathBuf;

/// The value of `plot-lr`'s flags.
#[derive(Debug, clap::Args)]
pub(crate) struct Args {
    /// Schedules, all drawn in one picture: KIND,KIND,...
    #[arg(long, value_name = "KIND", value_delimiter = ',', default_value = "constant")]
    schedule: Vec<ScheduleName>,
    /// The learning rate
    #[arg(long, value_name = "X", default_value_t = 1e-3)]
    lr: f64,
    /// Passes over the training samples
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
    epochs: u64,
    /// Steps of the optimiser an epoch [default: those of CIFAR-10 in batches of 128]
    #[arg(long, value_name = "N", default_value_t = 391, hide_default_value = true, value_parser = clap::value_parser!(u64).range(1..=1_000_000_000))]
    steps_per_epoch: u64,
    #[command(flatten)]
    shape: ShapeArgs,
    /// The picture; its name ends in .svg or .png
    #[arg(long, value_name = "FILE", help_heading = None)]
    to: PathBuf,
}

/// Draws the picture.
pub(crate) fn run(args: &Args) -> Result<()> {
    let format = Format::of(&args.to).context("--to")?;
    let line = |name: &ScheduleName| {
        let plan = args.shape.plan(*name, args.lr, args.epochs, args.steps_per_epoch)?;
        let value = name.to_possible_value().expect("each schedule has a name");
        let mut name = value.get_name().to_string();
        if name == "plateau" {
            name += ", no epoch better than the first";
        }
        Ok(Line { name, points: points(plan)? })
    };
    let lines = args.schedule.iter().map(line).collect::<Result<Vec<_>>>()?;
    let picture = rates(&lines, format)?;
    std::fs::write(&args.to, picture).map_err(|e| Error::io("write", &args.to, e))?;
    Ok(())
}

/// As many points of the schedule as can be told apart. No epoch is better than the first.
fn points(plan: Plan) -> Result<Vec<(f64, f64)>> {
    const MOST: u64 = 4000;

    let mut scheduler = Scheduler::new(plan)?;
    let mut ended = 0;
    let every = plan.total_steps.div_ceil(MOST) as usize;
    let steps = (0..plan.total_steps).step_by(every).chain([plan.total_steps - 1]);
    Ok(steps
        .map(|step| {
            while ended < step / plan.steps_per_epoch {
                scheduler.end_epoch(Some(0.0), true);
                ended += 1;
            }
            (step as f64, scheduler.rate(step))
        })
        .collect())
}
