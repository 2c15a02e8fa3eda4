//! The `forebay-train` program: what `forebay train` and its kin start. Results go to stdout,
//! everything else to stderr. Exit status: 0 done, 1 failed, 2 wrong usage, 128 + n ended by signal n.

mod args;
#[path = "../../cli/cache.rs"]
mod cache;
#[path = "../../cli/classes.rs"]
mod classes;
mod config;
mod data;
mod eval;
mod export_weights;
#[path = "../../cli/faults.rs"]
mod faults;
#[path = "../../cli/interrupt.rs"]
mod interrupt;
#[path = "../../cli/limits.rs"]
mod limits;
mod merge_lora;
mod network;
mod pictures;
#[path = "../../cli/pipelines.rs"]
mod pipelines;
mod place;
mod plot_lr;
mod predict;
mod record;
mod runs;
mod schedule_args;
mod screen;
#[path = "../../cli/sheet.rs"]
#[allow(dead_code)] // The other program draws other sheets.
mod sheet;
#[path = "../../cli/status.rs"]
mod status;
// A module of this program and not of the library: `forebay` links the library, and must start
// where there is no libtorch.
#[path = "../../train/mod.rs"]
#[allow(unreachable_pub)] // The tests include it, too.
mod train;
mod training;
#[path = "../../cli/waiting.rs"]
mod waiting;

use clap::builder::BoolishValueParser;
use clap::{ArgAction, Command, CommandFactory, FromArgMatches, Parser, Subcommand};
use forebay::error;
use forebay::{file, letters, loader, stats, tensor};
use status::{report, usage};
use std::env;
use std::ffi::OsString;
use std::process::ExitCode;

/// Training on forebay's loader.
#[derive(Parser)]
#[command(name = "forebay", bin_name = "forebay", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Subcommands,
}

#[derive(Subcommand)]
enum Subcommands {
    /// Train a ResNet-18 on a directory of images
    Train(Box<args::Args>),
    /// Score a checkpoint: accuracy, also by class, and who is taken for whom
    Eval(eval::Args),
    /// Say what is on pictures
    Predict(predict::Args),
    /// Turn a checkpoint into a state dict that torchvision loads
    ExportWeights(export_weights::Args),
    /// Merge low-rank adapters into the weights
    MergeLora(merge_lora::Args),
    /// Draw a learning rate schedule
    PlotLr(plot_lr::Args),
}

/// How a command ended where nothing went wrong.
enum Verdict {
    Done,
    /// Something that a script must not take for done: a file could not be read.
    Part,
    /// A signal came before all was done: the exit status that tells which.
    Interrupted(u8),
}

fn main() -> ExitCode {
    let arguments: Vec<OsString> = env::args_os().collect();
    match run(&arguments) {
        Ok(Verdict::Done) => ExitCode::SUCCESS,
        Ok(Verdict::Part) => ExitCode::FAILURE,
        Ok(Verdict::Interrupted(status)) => ExitCode::from(status),
        Err(error) => match error.downcast::<clap::Error>() {
            Ok(error) => usage(&error),
            Err(error) => {
                report(&format!("{error:#}"));
                ExitCode::FAILURE
            }
        },
    }
}

fn run(arguments: &[OsString]) -> anyhow::Result<Verdict> {
    let command = command();
    let matches = command.clone().try_get_matches_from(arguments)?;
    match Cli::from_arg_matches(&matches)?.command {
        Subcommands::Train(_) => {
            let train = command.find_subcommand("train").expect("it is one");
            let matches = matches.subcommand_matches("train").expect("it was given");
            training::main(train, matches, &arguments[2..])
        }
        Subcommands::Eval(args) => eval::run(&args).map(|()| Verdict::Done),
        Subcommands::Predict(args) => predict::run(&args),
        Subcommands::ExportWeights(args) => export_weights::run(&args).map(|()| Verdict::Done),
        Subcommands::MergeLora(args) => merge_lora::run(&args).map(|()| Verdict::Done),
        Subcommands::PlotLr(args) => plot_lr::run(&args).map(|()| Verdict::Done),
    }
}

/// The command line. Switches of `train` also take `=false`, since a file may have set them, and of
/// an option that is given twice the last one holds.
fn command() -> Command {
    Cli::command().mut_subcommand("train", |train| {
        train.args_override_self(true).allow_negative_numbers(true).mut_args(|arg| {
            match arg.get_action() {
                ArgAction::SetTrue if arg.get_id() != "print_config" => arg
                    .action(ArgAction::Set)
                    .num_args(0..=1)
                    .require_equals(true)
                    .value_name("BOOL")
                    .value_parser(BoolishValueParser::new())
                    .default_value("false")
                    .default_missing_value("true")
                    .hide_default_value(true)
                    .hide_possible_values(true),
                _ => arg,
            }
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_consistent() {
        command().debug_assert();
    }
}
