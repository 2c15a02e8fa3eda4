//! `forebay bench`: images/s, epoch by epoch, and where the time goes.

mod bottleneck;
mod cold;
mod process;
mod report;

use super::digest::Digest;
use super::open::{self, BatchArgs, SourceArgs};
use super::paths::Paths;
use super::{baseline, calibrate, pipelines, progress::Progress};
use anyhow::{Result, bail, ensure};
use bottleneck::Work;
use cold::Cold;
use forebay::graph::spec::{ReaderKind, Spec};
use forebay::loader::{Loader, kind_in};
use process::Usage;
use report::Report;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::time::{Duration, Instant};

#[derive(clap::Args)]
#[command(mut_arg("data", |arg| arg.required(false).required_unless_present("calibrate")))]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    batch: BatchArgs,
    /// Epochs to time, one after another; the first may find the files not in memory yet
    #[arg(long, value_name = "N", default_value = "3", value_parser = clap::value_parser!(u32).range(1..))]
    epochs: u32,
    /// Before each epoch, have the system drop the files from memory, so that they come from the disk
    #[arg(long)]
    cold: bool,
    /// Do not look at the batches, which a digest does within the time that is measured
    #[arg(long)]
    no_digest: bool,
    /// Also time what one would write by hand with rayon and the image crate, and print the ratio
    #[arg(long)]
    baseline: bool,
    /// Instead, find out from which size on nvJPEG beats our own decoder, on the GPU and on the CPU,
    /// on this machine, and print the line for the pipeline file; takes no --data
    #[arg(long, conflicts_with_all = ["data", "baseline", "cold"])]
    calibrate: bool,
    /// Print one JSON object; its digest adds up those of the epochs, each of which is what
    /// `dump --epoch` prints for that epoch
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.calibrate {
        return calibrate::run(args.batch.device, args.source.threads(), args.json);
    }
    let spec = args.source.pipeline.spec()?;
    let options = args.batch.options(&args.source);
    let mut loader = args.source.open(&spec, &options)?;
    // Found out now, not after the epochs.
    let baseline = args.baseline.then(|| files("--baseline", args, &spec, &loader)).transpose()?;
    let cold = args.cold.then(|| files("--cold", args, &spec, &loader)).transpose()?;
    let mut report = measure(args, &mut loader, cold.map(Cold::new))?;
    open::report(&loader);
    if let Some(files) = baseline {
        if spec.steps != pipelines::built_in("cifar10-train")?.steps {
            eprintln!(
                "forebay: note: the baseline augments as cifar10-train does, not as this pipeline"
            );
        }
        let (threads, batch_size) = (report.work.threads, report.batch_size);
        let rates = baseline::run(&files, threads, batch_size, args.epochs, loader.seed())?;
        report.baseline = Some(rates);
    }
    let mut out = stdout().lock();
    if args.json {
        writeln!(out, "{}", report.to_json())?;
    } else {
        write!(out, "{}", report.to_text())?;
    }
    Ok(())
}

/// Times each epoch from the first request to the last batch.
///
/// With a digest every byte delivered is read, as a consumer would; that time counts. An epoch that
/// fills a cache is told, and counts to nothing else where others come behind it.
fn measure(args: &Args, loader: &mut Loader, cold: Option<Cold>) -> Result<Report> {
    let (mut images_per_s, mut digests, mut samples) = (Vec::new(), Vec::new(), 0);
    let (mut taken, mut used, mut filling) = (Duration::ZERO, Usage::NONE, None);
    let progress = Progress::new("benching", loader.len() as u64 * u64::from(args.epochs));
    for epoch in 0..args.epochs {
        cold.as_ref().map_or(Ok(()), Cold::forget)?;
        let mut digest = Digest::default();
        samples = 0;
        let before = Usage::now();
        let start = Instant::now();
        for batch in loader.epoch(epoch) {
            let batch = batch?;
            samples += batch.len();
            if !args.no_digest {
                digest.add(epoch, &batch);
            }
            progress.add(1);
        }
        let elapsed = start.elapsed();
        taken += elapsed;
        used.add_since(before);
        images_per_s.push(samples as f64 / elapsed.as_secs_f64());
        digests.extend((!args.no_digest).then_some(digest));
        if epoch == 0 && args.epochs > 1 && loader.cache_stats().is_some() {
            filling = Some(loader.stats());
            (taken, used) = (Duration::ZERO, Usage::NONE);
        }
    }
    let stats = loader.stats();
    let first_counted = u32::from(filling.is_some());
    Ok(Report {
        pipeline: args.source.pipeline.name().into(),
        device: loader.gpu().map_or_else(|| "cpu".into(), |gpu| gpu.to_string()),
        paths: Paths::of(loader),
        batch_size: args.batch.batch_size,
        samples,
        first_counted: first_counted as usize,
        warnings: stats.warnings,
        grown_slots: stats.grown_slots,
        work: Work {
            seconds: taken.as_secs_f64(),
            images: samples * (args.epochs - first_counted) as usize,
            threads: loader.threads(),
            available: std::thread::available_parallelism().map_or(1, |n| n.get()),
            stats: stats - filling.unwrap_or_default(),
            used,
            on_cpu: loader.gpu().is_none(),
        },
        images_per_s,
        digests,
        bad: loader.bad_samples(),
        cold: cold.is_some(),
        peak_memory: process::peak_memory(),
        baseline: None,
    })
}

/// The files behind the samples, for `flag`, in their order.
fn files(flag: &str, args: &Args, spec: &Spec, loader: &Loader) -> Result<Vec<PathBuf>> {
    let root = open::roots(args.source.data(), &spec.reader.kind)?.swap_remove(0);
    if kind_in(&spec.reader.kind, &root) == ReaderKind::Tar {
        bail!("{flag} reads image files, and {} holds tar shards", root.display());
    }
    let file = |id| root.join(loader.place(id));
    // CIFAR-10's binaries hold many samples a file.
    ensure!(file(0).exists(), "{flag} takes a file a sample, and {} is none", file(0).display());
    Ok((0..loader.samples()).map(file).collect())
}
