//! The `forebay-train` program: what `forebay train` starts. Results go to stdout, everything else
//! to stderr. Exit status: 0 done, 1 failed, 2 wrong usage.

#[path = "../../cli/classes.rs"]
mod classes;
mod device;
mod export_weights;
mod screen;
#[path = "../../cli/status.rs"]
mod status;
// A module of this program and not of the library: `forebay` links the library, and must start
// where there is no libtorch.
#[path = "../../train/mod.rs"]
#[allow(unreachable_pub)] // The tests include it, too.
mod train;

use crate::train::checkpoint::Store;
use crate::train::resnet::Stem;
use crate::train::run::{self, Data, run};
use anyhow::{Context, Result};
use clap::{Parser, Subcommand, ValueEnum};
use classes::report_folders;
use forebay::device::Choice;
use forebay::error::{self, Error};
use forebay::graph::file;
use forebay::graph::spec::Spec;
use forebay::loader::{self, Deliver, Loader};
use forebay::tensor;
use screen::Screen;
use status::{report, usage};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// Training on forebay's loader.
#[derive(Parser)]
#[command(name = "forebay", bin_name = "forebay", version, max_term_width = 100)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

#[derive(Subcommand)]
enum Command {
    /// Train a ResNet-18 on a directory of images
    Train(Args),
}

#[derive(clap::Args)]
struct Args {
    /// Directory with train/ and valid/, or with the training samples themselves
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Passes over the training samples
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// Samples a batch
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(2..=1 << 24))]
    batch_size: u32,
    /// Adam's learning rate
    #[arg(long, value_name = "X", default_value_t = 1e-3, value_parser = learning_rate)]
    lr: f64,
    /// Seed of the weights, the order and every draw [default: the pipeline's]
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Where to load and train: auto, cpu, or cuda:N
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: Choice,
    /// Let convolutions and matrix products on a GPU compute in TF32, with 10 bits of mantissa
    #[arg(long)]
    tf32: bool,
    /// Where last.safetensors goes [default: the next runs/resnet18/version_N]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// What comes before the residual blocks: imagenet (7x7, pooled) or cifar (3x3)
    #[arg(long, default_value = "imagenet")]
    stem: StemName,
    /// Classes of the model [default: as many as the data has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=100_000))]
    classes: Option<i64>,
    /// Train on the first N samples of the list only
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..))]
    limit_train: Option<u64>,
    /// Validate on the first N samples of the list only
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit_valid: Option<u64>,
    /// Threads of the loader [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Threads of libtorch [default: one a physical core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=1024))]
    torch_threads: Option<i32>,
    /// Pipeline of the training samples [default: the built-in cifar10-train]
    #[arg(long, value_name = "FILE")]
    pipeline: Option<PathBuf>,
    /// Pipeline of the validation samples [default: the built-in cifar10-valid]
    #[arg(long, value_name = "FILE")]
    valid_pipeline: Option<PathBuf>,
    /// Let symbolic links lead out of the data directory
    #[arg(long)]
    follow_links: bool,
    /// Train on one batch, held in memory, again and again: what an epoch costs without a loader
    #[arg(long)]
    repeat_batch: bool,
    /// Steps between two lines of progress where there is no terminal [default: one in 10 s]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    log_every: Option<u32>,
}

/// The value of `--stem`.
#[derive(Clone, Copy, ValueEnum)]
enum StemName {
    Imagenet,
    Cifar,
}

fn learning_rate(text: &str) -> Result<f64, &'static str> {
    let rate = text.parse().ok().filter(|rate: &f64| rate.is_finite() && *rate >= 0.0);
    rate.ok_or("expected a number that is not negative, such as 0.001 or 1e-3")
}

fn main() -> ExitCode {
    let cli = match Cli::try_parse() {
        Ok(cli) => cli,
        Err(error) => return usage(&error),
    };
    let Command::Train(args) = cli.command;
    match train(&args) {
        Ok(true) => ExitCode::SUCCESS,
        // Told to stop: what follows in a script must not take it for done.
        Ok(false) => ExitCode::FAILURE,
        Err(error) => {
            report(&format!("{error:#}"));
            ExitCode::FAILURE
        }
    }
}

/// Trains; whether to the end.
fn train(args: &Args) -> Result<bool> {
    let place = device::open(args.device, args.tf32)?;
    let mut data = open(args, place.loader)?;
    let store = match &args.out {
        Some(dir) => Store::open(dir)?,
        None => Store::next_version(Path::new("runs/resnet18"))?,
    };
    let options = run::Options {
        device: place.torch.clone(),
        epochs: args.epochs,
        learning_rate: args.lr,
        stem: match args.stem {
            StemName::Imagenet => Stem::Imagenet,
            StemName::Cifar => Stem::Cifar,
        },
        classes: args.classes,
        torch_threads: args.torch_threads,
        repeat_batch: args.repeat_batch,
        log_every: args.log_every.map_or(20, |n| n as usize),
    };
    let stop = stop_on_interrupt()?;
    let mut screen = Screen::new(args.epochs, args.log_every.is_some());
    let summary = run(&options, &mut data, &store, &stop, &mut |event| screen.show(event))?;
    screen.finish(&summary, &store.last());
    for loader in [Some(&data.train), data.valid.as_ref()].into_iter().flatten() {
        if let Some(note) = loader.nvjpeg_note() {
            eprintln!("forebay: note: {note}");
        }
    }
    Ok(summary.stopped.is_none())
}

/// Opens the training samples and, where there are any, those to validate on.
fn open(args: &Args, device: Choice) -> Result<Data> {
    let entries = args.data.read_dir();
    drop(entries.map_err(|e| Error::io("read the directory", &args.data, e)).context("--data")?);
    let split = |name| Some(args.data.join(name)).filter(|dir| dir.is_dir());
    let options = |limit| loader::Options {
        batch_size: args.batch_size as usize,
        threads: args.threads.map_or(0, usize::from),
        seed: args.seed,
        limit,
        follow_links: args.follow_links,
        device,
        deliver: Deliver::Device,
        ..loader::Options::default()
    };

    let built_in = include_str!("../../../pipelines/cifar10-train.toml");
    let spec = pipeline(args.pipeline.as_deref(), built_in)?;
    let dir = split("train").unwrap_or_else(|| args.data.clone());
    let name = args.pipeline.as_deref().unwrap_or(Path::new("cifar10-train"));
    let train = load(&spec, &dir, &options(args.limit_train), name)?;

    let built_in = include_str!("../../../pipelines/cifar10-valid.toml");
    let spec = pipeline(args.valid_pipeline.as_deref(), built_in)?;
    let dir = split("valid").or_else(|| args.valid_pipeline.as_ref().map(|_| args.data.clone()));
    let name = args.valid_pipeline.as_deref().unwrap_or(Path::new("cifar10-valid"));
    let valid = dir.map(|dir| load(&spec, &dir, &options(args.limit_valid), name)).transpose()?;

    match &valid {
        None => eprintln!("no valid/ in {}: training without validation", args.data.display()),
        Some(_) if args.pipeline.is_some() && args.valid_pipeline.is_none() => {
            eprintln!(
                "validating through the built-in cifar10-valid; --valid-pipeline names another"
            );
        }
        Some(_) => {}
    }
    Ok(Data { train, valid })
}

/// `name`: what the pipeline's errors call it.
fn load(spec: &Spec, dir: &Path, options: &loader::Options, name: &Path) -> Result<Loader> {
    let loader = Loader::open(spec, dir, options).map_err(|e| e.in_pipeline(name))?;
    report_folders(spec, &loader);
    Ok(loader)
}

fn pipeline(path: Option<&Path>, built_in: &str) -> Result<Spec> {
    Ok(path.map_or_else(|| file::parse(built_in), file::load)?)
}

/// A flag that the first Ctrl-C sets. The second one ends the program.
fn stop_on_interrupt() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            // What a shell reports for a program that an interrupt ended.
            std::process::exit(130);
        }
        eprintln!("\nfinishing this step, then saving; Ctrl-C again ends at once");
    })
    .context("cannot catch Ctrl-C")?;
    Ok(stop)
}
