//! `forebay plot-lr`: how the learning rate of a run will go.

use crate::schedule_args::{ScheduleName, ShapeArgs};
use crate::train::plot::{Format, Line, rates};
use crate::train::schedule::{Plan, Scheduler};
use anyhow::{Context, Result};
use clap::ValueEnum;
use forebay::file;
use std::io::Write;
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
    #[arg(long, value_name = "N", default_value_t = 10, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    epochs: u32,
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
        let plan = args.shape.plan(*name, args.lr, args.epochs, steps(args.steps_per_epoch))?;
        let value = name.to_possible_value().expect("each schedule has a name");
        let mut name = value.get_name().to_string();
        if name == "plateau" {
            name += ", no epoch better than the first";
        }
        Ok(Line { name, points: points(plan, args.steps_per_epoch)? })
    };
    let lines = args.schedule.iter().map(line).collect::<Result<Vec<_>>>()?;
    let picture = rates(&lines, format)?;
    file::put(&args.to, |file| file.write_all(&picture))?;
    Ok(())
}

/// Steps in so many epochs, of `per_epoch` each.
fn steps(per_epoch: u64) -> impl Fn(f64) -> u64 {
    move |epochs| (epochs * per_epoch as f64).round() as u64
}

/// The rates of enough steps for a picture. No epoch is better than the first.
fn points(plan: Plan, steps_per_epoch: u64) -> Result<Vec<(f64, f64)>> {
    const MOST: u64 = 1600;

    let mut scheduler = Scheduler::new(plan)?;
    let mut ended = 0;
    let every = plan.total_steps.div_ceil(MOST) as usize;
    let steps = (0..plan.total_steps).step_by(every).chain([plan.total_steps - 1]);
    Ok(steps
        .map(|step| {
            while ended < step / steps_per_epoch {
                scheduler.end_epoch(Some(0.0), true);
                ended += 1;
            }
            (step as f64, scheduler.rate(step))
        })
        .collect())
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        args: Args,
    }

    fn parse(words: &str) -> Args {
        Cli::try_parse_from(words.split(' ')).unwrap().args
    }

    #[test]
    fn a_plateau_is_drawn_as_one_that_never_gets_better() {
        let args = parse("plot-lr --lr 1 --plateau-patience 1 --plateau-factor 0.5 --to a.svg");
        let plan = args.shape.plan(ScheduleName::Plateau, 1.0, 6, steps(10)).unwrap();
        let points = points(plan, 10).unwrap();
        let starts: Vec<f64> = points.iter().step_by(10).map(|(_, rate)| *rate).collect();
        // The first epoch is the best, the next two are not, and so on.
        assert_eq!(starts, [1.0, 1.0, 1.0, 0.5, 0.5, 0.25, 0.25]);
    }

    #[test]
    fn a_long_run_is_drawn_from_some_of_its_steps_and_the_last() {
        let args = parse("plot-lr --to a.svg");
        let plan =
            args.shape.plan(ScheduleName::Plateau, 1.0, 1_000_000, steps(1_000_000_000)).unwrap();
        let points = points(plan, 1_000_000_000).unwrap();
        assert!(points.len() <= 1601, "{}", points.len());
        assert_eq!(points.last().unwrap().0, 1e15 - 1.0);
    }

    #[test]
    fn the_picture_is_what_its_name_says() {
        let dir = tempfile::tempdir().unwrap();
        for (name, magic) in [("a.svg", "<svg"), ("a.PNG", "\u{fffd}PNG")] {
            let mut args = parse("plot-lr --schedule cosine,onecycle --to a");
            args.to = dir.path().join(name);
            run(&args).unwrap();
            let bytes = std::fs::read(&args.to).unwrap();
            assert!(String::from_utf8_lossy(&bytes).starts_with(magic), "{name}");
        }
        let error = format!("{:#}", run(&parse("plot-lr --to a.gif")).unwrap_err());
        assert_eq!(error, "--to: a.gif: a picture's name ends in .svg or .png");
        let error = run(&parse("plot-lr --schedule step --gamma 2 --to a.svg")).unwrap_err();
        assert_eq!(error.to_string(), "schedule: gamma is 2; it must be within 0 and 1");
    }
}
