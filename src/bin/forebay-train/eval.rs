//! `forebay eval`: how good a network is, and where it errs.

use crate::data::{VALID, fitting, judging};
use crate::faults::{FaultArgs, notes};
use crate::limits::LimitArgs;
use crate::network;
use crate::pictures::{class, confusion};
use crate::place;
use crate::sheet;
use crate::train::evaluate::{Evaluation, evaluate};
use crate::train::precision::Precision;
use anyhow::{Context, Result, bail};
use forebay::device::Choice;
use forebay::loader::{self, Deliver, Loader};
use forebay::policy::Cache;
use forebay::stats::BadSamples;
use indicatif::ProgressBar;
use std::io::{Write, stdout};
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A checkpoint, or a state dict of a ResNet-18
    #[arg(long, value_name = "FILE")]
    checkpoint: PathBuf,
    /// Directory with the samples, or with valid/ that has them [default: the checkpoint's]
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    /// A pipeline file, or a built-in one [default: the checkpoint's for validation]
    #[arg(long, value_name = "FILE")]
    pipeline: Option<String>,
    /// Samples a batch
    #[arg(long, value_name = "N", default_value_t = 256, value_parser = clap::value_parser!(u32).range(1..=1 << 24))]
    batch_size: u32,
    /// Only the first N samples of the list
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    limit: Option<u64>,
    /// Where to compute: auto, cpu, or cuda:N
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: Choice,
    /// 32, 16-mixed (GPUs only) or bf16-mixed
    #[arg(long, default_value = "32", value_name = "PRECISION")]
    precision: Precision,
    /// Score each image and its mirror image [default: as the checkpoint's run did]
    #[arg(long)]
    test_flip: bool,
    /// Threads of the loader [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Let symbolic links lead out of the data directory
    #[arg(long)]
    follow_links: bool,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    faults: FaultArgs,
    /// Draw who is taken for whom
    #[arg(long, value_name = "FILE.png")]
    confusion: Option<PathBuf>,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// Scores a network and tells.
pub(crate) fn run(args: &Args) -> Result<()> {
    let place = place::open(args.device, false)?;
    let (learner, meta) =
        network::open(&args.checkpoint, &place.torch, args.precision, args.test_flip)?;
    let settings = network::settings(meta.as_ref())?;
    let setting = |key: &str| settings.get(key).and_then(toml::Value::as_str).map(str::to_string);
    let Some(data) = args.data.clone().or_else(|| setting("data").map(PathBuf::from)) else {
        bail!("--data DIR is missing, and {} names none", args.checkpoint.display())
    };
    let valid = data.join("valid");
    let data = if valid.is_dir() { valid } else { data };
    let pipeline = args.pipeline.clone().or_else(|| setting("valid_pipeline"));
    let pipeline = pipeline.unwrap_or_else(|| VALID.to_string());
    let spec = fitting(&pipeline, &data)?;
    let on_error = args.faults.on_error.unwrap_or(spec.reader.on_error);
    let options = loader::Options {
        batch_size: args.batch_size as usize,
        threads: args.threads.map_or(0, usize::from),
        limit: args.limit,
        follow_links: args.follow_links,
        on_error: Some(judging(on_error)),
        max_bad: args.faults.max_bad,
        // One epoch is all there is.
        cache: Some(Cache::None),
        limits: args.limits.limits(),
        device: place.loader,
        deliver: Deliver::Device,
        ..loader::Options::default()
    };
    let mut loader = Loader::open(&spec, &data, &options).map_err(|e| e.in_pipeline(&pipeline))?;
    if let Some(path) = &args.faults.quarantine {
        loader.quarantine(path).context("--quarantine")?;
    }

    let steps = loader.len();
    let bar = ProgressBar::new(steps as u64);
    let evaluation = evaluate(&learner, &mut loader, steps, &mut |done, _| {
        bar.set_position(done as u64);
        true
    })?;
    bar.finish_and_clear();
    for note in notes(&loader) {
        eprintln!("forebay: note: {note}");
    }
    let evaluation = evaluation.expect("nobody stopped it");
    let names = match &meta {
        Some(meta) if !meta.model.names.is_empty() => meta.model.names.clone(),
        _ => loader.classes().to_vec(),
    };
    match args.json {
        true => writeln!(stdout(), "{}", json(&evaluation, &names, loader.bad_samples()))?,
        false => tell(&evaluation, &names)?,
    }
    // The figures were told already, whatever becomes of the picture.
    if let Some(path) = &args.confusion {
        if evaluation.confusion.is_empty() {
            bail!("--confusion: {} classes are too many for a picture", learner.model().classes);
        }
        let picture = confusion(&evaluation.confusion, &names);
        sheet::save(&picture?, path)?;
    }
    Ok(())
}

/// Of each class: its name, right answers, samples, and what it is most often taken for.
struct Class {
    name: String,
    right: u64,
    samples: u64,
    mistaken_for: Option<(String, u64)>,
}

fn by_class(evaluation: &Evaluation, names: &[String]) -> Vec<Class> {
    let rows = evaluation.confusion.iter().enumerate();
    rows.map(|(label, row)| {
        let others = row.iter().enumerate().filter(|(said, count)| *said != label && **count > 0);
        let most = others.max_by_key(|(said, count)| (**count, std::cmp::Reverse(*said)));
        Class {
            name: class(names, label as i64),
            right: row[label],
            samples: row.iter().sum(),
            mistaken_for: most.map(|(said, count)| (class(names, said as i64), *count)),
        }
    })
    .collect()
}

fn tell(evaluation: &Evaluation, names: &[String]) -> std::io::Result<()> {
    let (metrics, times) = (&evaluation.metrics, &evaluation.times);
    let mut out = stdout().lock();
    writeln!(
        out,
        "valid_loss={:.4} valid_acc={:.4} valid_top5={:.4} samples={} images_per_s={:.0}",
        metrics.loss,
        metrics.accuracy,
        metrics.top5,
        times.samples,
        times.rate()
    )?;
    let classes = by_class(evaluation, names);
    let width = classes.iter().map(|class| class.name.chars().count()).max().unwrap_or(0).max(5);
    if !classes.is_empty() {
        writeln!(out, "{:<width$}     acc    right of samples  most often taken for", "class")?;
    }
    for Class { name, right, samples, mistaken_for } in classes {
        // A class may have no samples.
        let share = match samples {
            0 => "-".to_string(),
            _ => format!("{:.4}", right as f64 / samples as f64),
        };
        let most = mistaken_for.map_or_else(String::new, |(name, n)| format!("{name} ({n})"));
        writeln!(out, "{name:<width$}  {share:>6}  {right:>7} of {samples:<7}  {most}")?;
    }
    Ok(())
}

fn json(evaluation: &Evaluation, names: &[String], bad: BadSamples) -> serde_json::Value {
    let metrics = &evaluation.metrics;
    let classes = by_class(evaluation, names).into_iter().map(|class| {
        serde_json::json!({ "name": class.name, "right": class.right, "samples": class.samples })
    });
    serde_json::json!({
        "loss": metrics.loss,
        "acc": metrics.accuracy,
        "top5": metrics.top5,
        "samples": evaluation.times.samples,
        "images_per_s": evaluation.times.rate(),
        "bad_samples": bad.samples,
        "classes": classes.collect::<Vec<_>>(),
        "confusion": evaluation.confusion,
    })
}
