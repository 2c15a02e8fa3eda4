//! The command line: the only place that prints.
//!
//! Each command is a module with its arguments and `run`. Results go to stdout, everything else to
//! stderr. Exit status: 0 done, 1 failed, 2 wrong usage, 128 + n ended by signal n.

mod baseline;
mod bench;
mod cache;
mod calibrate;
mod check;
mod classes;
mod clean;
mod decodes;
mod digest;
mod doctor;
mod dump;
mod explain;
mod export;
mod faults;
mod interrupt;
mod limits;
mod npy;
mod open;
mod pack;
mod paths;
mod pipelines;
mod preview;
mod progress;
#[allow(dead_code)] // The other program draws other sheets.
mod sheet;
mod status;
mod train;
mod waiting;
mod words;

use clap::{Parser, Subcommand};
use status::{report, usage};
use std::ffi::OsString;
use std::io;
use std::process::ExitCode;

/// GPU-first data loading and augmentation: one definition, CPU and GPU, the same bytes.
#[derive(Parser)]
#[command(name = "forebay", version, about, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Tell what this machine and this build can do, and why
    Doctor(doctor::Args),
    /// Write a data set as a directory of JPEG files with a label list
    Export(export::Args),
    /// Write a directory of image files as tar shards with an index, which are read faster
    Pack(pack::Args),
    /// Train a ResNet-18; `forebay train --help` lists its options, and so on for the next five
    #[command(disable_help_flag = true)]
    Train(Handed),
    /// Score a checkpoint: accuracy, also by class, and who is taken for whom
    #[command(disable_help_flag = true)]
    Eval(Handed),
    /// Say what is on pictures
    #[command(disable_help_flag = true)]
    Predict(Handed),
    /// Turn a checkpoint into a state dict that torchvision loads
    #[command(disable_help_flag = true)]
    ExportWeights(Handed),
    /// Merge low-rank adapters into the weights
    #[command(disable_help_flag = true)]
    MergeLora(Handed),
    /// Draw a learning rate schedule
    #[command(disable_help_flag = true)]
    PlotLr(Handed),
    /// Measure images/s, epoch by epoch, and where the time goes
    Bench(bench::Args),
    /// Write batches as .npy files (images, labels, ids), which any tool can check
    Dump(dump::Args),
    /// Draw a contact sheet: originals beside what the pipeline makes of them
    Preview(preview::Args),
    /// Tell what a pipeline compiles to: passes, kernels, bytes moved, draws, memory
    Explain(explain::Args),
    /// Find every unreadable or odd file before training
    Check(check::Args),
}

/// The arguments of a command of the other program.
#[derive(clap::Args)]
struct Handed {
    #[arg(trailing_var_arg = true, allow_hyphen_values = true, value_name = "OPTIONS")]
    args: Vec<OsString>,
}

/// A command's end where nothing went wrong.
enum Verdict {
    Good,
    /// `check` found faults.
    Bad,
    /// A signal came before all was done: the exit status that tells which.
    Interrupted(u8),
}

/// Parses the arguments, runs the command, and turns its end into an exit status.
pub(crate) fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let result = match cli.command {
        Command::Doctor(args) => doctor::run(&args).map(|()| Verdict::Good),
        Command::Export(args) => export::run(&args),
        Command::Pack(args) => pack::run(&args),
        Command::Train(handed) => train::exec("train", handed.args),
        Command::Eval(handed) => train::exec("eval", handed.args),
        Command::Predict(handed) => train::exec("predict", handed.args),
        Command::ExportWeights(handed) => train::exec("export-weights", handed.args),
        Command::MergeLora(handed) => train::exec("merge-lora", handed.args),
        Command::PlotLr(handed) => train::exec("plot-lr", handed.args),
        Command::Bench(args) => bench::run(&args).map(|()| Verdict::Good),
        Command::Dump(args) => dump::run(&args).map(|()| Verdict::Good),
        Command::Preview(args) => preview::run(&args).map(|()| Verdict::Good),
        Command::Explain(args) => explain::run(&args).map(|()| Verdict::Good),
        Command::Check(args) => check::run(&args),
    };
    match result {
        Ok(Verdict::Good) => ExitCode::SUCCESS,
        Ok(Verdict::Bad) => ExitCode::FAILURE,
        Ok(Verdict::Interrupted(status)) => ExitCode::from(status),
        // Whoever read our output has seen enough (`forebay explain … | head`).
        Err(error) if is_broken_pipe(&error) => ExitCode::SUCCESS,
        Err(error) => {
            report(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error.chain().any(|cause| {
        cause.downcast_ref::<io::Error>().is_some_and(|e| e.kind() == io::ErrorKind::BrokenPipe)
    })
}

/// `no fault`, `1 fault`, `2 faults`.
fn counts(n: u64, one: &str, many: &str) -> String {
    match n {
        0 => format!("no {one}"),
        1 => format!("1 {one}"),
        n => format!("{n} {many}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn arguments_are_consistent() {
        Cli::command().debug_assert();
    }
}
