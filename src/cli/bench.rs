//! `forebay bench`: images/s, epoch by epoch, and where the time goes.

use super::digest::Digest;
use super::open::{self, BatchArgs, SourceArgs};
use super::paths::Paths;
use super::{baseline, calibrate, pipelines, progress::Progress};
use anyhow::{Result, bail};
use forebay::graph::spec::{ReaderKind, Spec};
use forebay::loader::{Loader, kind_in};
use forebay::stats::{BadSamples, Stats};
use serde_json::json;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::time::Instant;

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
    /// Also time what one would write by hand with rayon and the image crate, and print the ratio
    #[arg(long)]
    baseline: bool,
    /// Instead, find out from which size on nvJPEG beats the CPU decoder on this machine, and print
    /// the line for the pipeline file; takes no --data
    #[arg(long, conflicts_with_all = ["data", "baseline"])]
    calibrate: bool,
    /// Print one JSON object; its digest adds up those of the epochs, each of which is what
    /// `dump --epoch` prints for that epoch
    #[arg(long)]
    json: bool,
}

/// What was measured.
struct Report {
    threads: usize,
    batch_size: usize,
    /// Samples an epoch.
    samples: usize,
    images_per_s: Vec<f64>,
    digests: Vec<Digest>,
    stages: Stats,
    bad: BadSamples,
    /// Where the pipeline ran.
    device: String,
    paths: Paths,
    peak_memory: Option<u64>,
    baseline: Option<Vec<f64>>,
}

pub(crate) fn run(args: &Args) -> Result<()> {
    if args.calibrate {
        return calibrate::run(args.batch.device, args.source.threads(), args.json);
    }
    let spec = args.source.pipeline.spec()?;
    let options = args.batch.options(&args.source);
    let mut loader = args.source.open(&spec, &options)?;
    // Found out now, not after the epochs.
    let files = if args.baseline { Some(files(args, &spec, &loader)?) } else { None };
    let mut report = measure(args, &mut loader)?;
    open::report(&loader);
    if let Some(files) = files {
        if spec.steps != pipelines::built_in("cifar10-train")?.steps {
            eprintln!(
                "forebay: note: the baseline augments as cifar10-train does, not as this pipeline"
            );
        }
        let Report { threads, batch_size, .. } = report;
        let rates = baseline::run(&files, threads, batch_size, args.epochs, loader.seed())?;
        report.baseline = Some(rates);
    }
    let mut out = stdout().lock();
    if args.json {
        writeln!(out, "{}", to_json(args, &report))?;
    } else {
        write!(out, "{}", to_text(&report))?;
    }
    Ok(())
}

/// Times each epoch from the first request to the last batch.
///
/// Every byte delivered is read, for the digest, as a consumer would; that time counts.
fn measure(args: &Args, loader: &mut Loader) -> Result<Report> {
    let (mut images_per_s, mut digests, mut samples) = (Vec::new(), Vec::new(), 0);
    let progress = Progress::new("benching", loader.len() as u64 * u64::from(args.epochs));
    for epoch in 0..args.epochs {
        let mut digest = Digest::default();
        samples = 0;
        let start = Instant::now();
        for batch in loader.epoch(epoch) {
            let batch = batch?;
            samples += batch.len();
            digest.add(epoch, &batch);
            progress.add(1);
        }
        images_per_s.push(samples as f64 / start.elapsed().as_secs_f64());
        digests.push(digest);
    }
    Ok(Report {
        device: loader.gpu().map_or_else(|| "cpu".into(), |gpu| gpu.to_string()),
        paths: Paths::of(loader),
        threads: loader.threads(),
        batch_size: args.batch.batch_size,
        samples,
        images_per_s,
        digests,
        stages: loader.stats(),
        bad: loader.bad_samples(),
        peak_memory: peak_memory(),
        baseline: None,
    })
}

/// The files that the baseline reads.
fn files(args: &Args, spec: &Spec, loader: &Loader) -> Result<Vec<PathBuf>> {
    if let ReaderKind::Cifar10 { .. } = spec.reader.kind {
        bail!("--baseline reads image files, and this pipeline reads CIFAR-10's binaries");
    }
    let root = open::roots(args.source.data(), &spec.reader.kind)?.swap_remove(0);
    if kind_in(&spec.reader.kind, &root) == ReaderKind::Tar {
        bail!("--baseline reads image files, and {} holds tar shards", root.display());
    }
    Ok((0..loader.samples()).map(|id| root.join(loader.place(id))).collect())
}

/// The most memory that this process has held, in bytes, where the system tells.
fn peak_memory() -> Option<u64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kib: u64 = line.trim().strip_suffix(" kB")?.parse().ok()?;
    Some(kib * 1024)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

fn to_json(args: &Args, report: &Report) -> serde_json::Value {
    let round = |rates: &[f64]| -> Vec<f64> {
        rates.iter().map(|rate| (rate * 10.0).round() / 10.0).collect()
    };
    let Stats { read_ns, decode_ns, augment_ns, wait_ns, warnings, .. } = report.stages;
    let mut object = json!({
        "forebay": env!("CARGO_PKG_VERSION"),
        "pipeline": args.source.pipeline.name(),
        "device": report.device,
        "threads": report.threads,
        "batch_size": report.batch_size,
        "samples": report.samples,
        "images_per_s": round(&report.images_per_s),
        "digest": report.digests.iter().copied().sum::<Digest>().to_string(),
        "epoch_digests": report.digests.iter().map(Digest::to_string).collect::<Vec<_>>(),
        "stages_s": {
            "read": seconds(read_ns),
            "decode": seconds(decode_ns),
            "augment": seconds(augment_ns),
            "wait": seconds(wait_ns),
        },
        "decoder_warnings": warnings,
        "bad_samples": report.bad.samples,
        "skipped": report.bad.skipped,
        "replaced": report.bad.replaced,
        "peak_memory_bytes": report.peak_memory,
    });
    object["decoded"] = report.paths.to_json();
    if let Some(rates) = &report.baseline {
        object["baseline"] = json!({
            "images_per_s": round(rates),
            "ratio": (median(&report.images_per_s) / median(rates) * 100.0).round() / 100.0,
        });
    }
    object
}

fn to_text(report: &Report) -> String {
    let Report { threads, batch_size, samples, images_per_s, device, .. } = report;
    let mut text = format!(
        "{samples} samples an epoch, batches of {batch_size}, on {device} with {threads} threads\n\n"
    );
    let mut line = |name: &str, value: &str| text += &format!("{name:<12}{value:>12}\n");
    line("", "images/s");
    for (epoch, rate) in images_per_s.iter().enumerate() {
        line(&format!("epoch {epoch}"), &format!("{rate:.0}"));
    }
    line("median", &format!("{:.0}", median(images_per_s)));
    if let Some(rates) = &report.baseline {
        line("baseline", &format!("{:.0}", median(rates)));
        line("ratio", &format!("{:.2}", median(images_per_s) / median(rates)));
    }

    let Stats { read_ns, decode_ns, augment_ns, wait_ns, .. } = report.stages;
    // On a GPU the workers' part ends when the images lie where the upload finds them.
    let on_cpu = report.device == "cpu";
    let last = if on_cpu { "augment" } else { "hand over" };
    let stages = [("read", read_ns), ("decode", decode_ns), (last, augment_ns)];
    let busy: u64 = stages.iter().map(|(_, ns)| ns).sum();
    text += "\nwhere the workers' time goes\n";
    for (name, ns) in stages {
        let share = 100.0 * ns as f64 / busy.max(1) as f64;
        text += &format!("{name:<12}{:>10.2} s{share:>8.1} %\n", seconds(ns));
    }
    text += &format!("{:<12}{:>10.2} s  (the consumer, for batches)\n", "wait", seconds(wait_ns));
    if let Some((name, _)) = stages.iter().max_by_key(|(_, ns)| ns).filter(|_| on_cpu) {
        text += &format!(
            "most of the work is to {name}; that is where a faster epoch must come from\n"
        );
    }
    text += &report.paths.to_text();
    if report.stages.grown_slots > 0 {
        text +=
            &format!("{} batch slots were made beside the usual ones\n", report.stages.grown_slots);
    }
    if let Some(bytes) = report.peak_memory {
        text += &format!("\npeak memory {:.0} MiB\n", bytes as f64 / f64::from(1 << 20));
    }
    for (epoch, digest) in report.digests.iter().enumerate() {
        text += &format!("digest of epoch {epoch} {digest}\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[9.0, 1.0, 3.0]), 3.0);
        assert_eq!(median(&[9.0, 1.0, 3.0, 4.0]), 3.5);
    }
}
