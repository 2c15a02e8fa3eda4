//! `forebay dump`: batches as .npy files.

use super::digest::Digest;
use super::open::{self, BatchArgs, SourceArgs, report};
use super::{counts, npy, progress::Progress};
use anyhow::{Result, ensure};
use forebay::error::Error;
use forebay::loader::{Batch, Options};
use forebay::tensor::{DType, TensorView};
use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    #[command(flatten)]
    batch: BatchArgs,
    /// Directory for the files, made where it is missing
    #[arg(long, value_name = "DIR")]
    out: PathBuf,
    /// Only the first so many batches
    #[arg(long, value_name = "N", value_parser = open::positive)]
    batches: Option<usize>,
    /// The epoch
    #[arg(long, value_name = "N", default_value = "0")]
    epoch: u32,
    /// Only these samples, in this order, by their number in the list, from 0
    #[arg(long, value_name = "ID,…", value_delimiter = ',', conflicts_with = "shard")]
    ids: Option<Vec<u64>>,
}

/// Writes `images_000.npy` (and other outputs by their names), `labels_000.npy` and `ids_000.npy`
/// for each batch.
pub(crate) fn run(args: &Args) -> Result<()> {
    let spec = args.source.pipeline.spec()?;
    let options = Options { ids: args.ids.clone(), ..args.batch.options(&args.source) };
    let mut loader = args.source.open(&spec, &options)?;
    for output in &spec.outputs {
        check_name(&output.name)?;
    }
    fs::create_dir_all(&args.out).map_err(|e| Error::io("create the directory", &args.out, e))?;

    let batches = args.batches.unwrap_or(usize::MAX).min(loader.len());
    let progress = Progress::new("dumping", batches as u64);
    let (mut samples, mut bytes, mut digest) = (0, 0, Digest::default());
    for (number, batch) in loader.epoch(args.epoch).take(batches).enumerate() {
        let batch = batch?;
        bytes += write(&args.out, number, &batch)?;
        samples += batch.len();
        digest.add(args.epoch, &batch);
        progress.add(1);
    }
    drop(progress);

    let mut out = stdout().lock();
    let dir = args.out.display();
    let samples = counts(samples as u64, "sample", "samples");
    let of_batches = counts(batches as u64, "batch", "batches");
    writeln!(out, "{dir}: {samples} in {of_batches}, {bytes} bytes")?;
    writeln!(out, "digest {digest}")?;
    report(&loader);
    let stale = args.out.join(file_name("ids", batches));
    if stale.exists() {
        eprintln!("forebay: note: {} and others are left from an earlier dump", stale.display());
    }
    Ok(())
}

/// Writes the arrays of a batch and returns their size in bytes.
fn write(dir: &Path, number: usize, batch: &Batch) -> Result<usize> {
    let shape = [batch.len()];
    let integers = |values| TensorView {
        shape: &shape,
        dtype: DType::I64,
        bytes: bytemuck::cast_slice::<i64, u8>(values),
    };
    let outputs = batch.outputs().iter().filter_map(|name| Some((&**name, batch.output(name)?)));
    let others = [("labels", integers(batch.labels())), ("ids", integers(batch.ids()))];
    let mut bytes = 0;
    for (name, array) in outputs.chain(others) {
        npy::write(&dir.join(file_name(name, number)), array)?;
        bytes += array.bytes.len();
    }
    // Places that repeat a sample to fill up the batch.
    if batch.valid().contains(&false) {
        let valid: Vec<u8> = batch.valid().iter().map(|&valid| u8::from(valid)).collect();
        npy::write_bytes(&dir.join(file_name("valid", number)), "|b1", &shape, &valid)?;
    }
    Ok(bytes)
}

fn file_name(array: &str, number: usize) -> String {
    format!("{array}_{number:03}.npy")
}

/// Output names become file names, so they stay in the directory and off the other arrays.
fn check_name(name: &str) -> Result<()> {
    ensure!(
        !["labels", "ids", "valid"].contains(&name),
        "the output \"{name}\" has the name of an array that a dump writes anyway; rename it"
    );
    ensure!(
        name.chars().all(|c| c.is_alphanumeric() || matches!(c, '_' | '-')),
        "the output {name:?} cannot be a file's name; use letters, digits, '_' and '-'"
    );
    Ok(())
}
