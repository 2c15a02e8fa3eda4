//! What the machine does without a loader: what `make bench-peers` holds forebay's epochs against.
//!
//! ```text
//! cargo bench --bench alone -- decode DATA [--epochs N] [--threads N] [--out FILE]
//! cargo bench --bench alone -- augment DATA --pipeline FILE [--places N] [--epochs N] [--threads N] [--out FILE]
//! ```
//! DATA holds labels.txt. `decode` reads and decodes its files, in an order that is shuffled once,
//! through libjpeg-turbo alone. `augment` decodes them once and then runs the pipeline's steps over
//! them, in memory; it writes to N places in turn, which all threads share out, else each thread to one. Prints one line of JSON: the images of all epochs, and those of a second of theirs.
//! `--out` writes the bytes of the first 64 in the list's order instead, one after another.

mod augment;
mod decode;

use anyhow::{Context, Result, bail};
use std::ffi::CString;
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::time::Instant;

/// Images that `--out` writes.
const SHOWN: usize = 64;
/// Images that a thread claims at once: so few that threads end together, so many that claims cost
/// nothing.
const CLAIM: usize = 16;

struct Options {
    data: PathBuf,
    pipeline: Option<PathBuf>,
    epochs: usize,
    threads: usize,
    places: usize,
    out: Option<PathBuf>,
}

fn main() -> ExitCode {
    match run() {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("alone: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn run() -> Result<()> {
    // cargo adds --bench.
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let what = words.next().context("decode or augment?")?;
    let options = options(words)?;
    match what.as_str() {
        "decode" => decode::run(&options),
        "augment" => augment::run(&options),
        _ => bail!("{what}: decode or augment?"),
    }
}

fn options(mut words: impl Iterator<Item = String>) -> Result<Options> {
    let data = words.next().context("a data directory?")?.into();
    let threads = std::thread::available_parallelism().map_or(1, |n| n.get());
    let mut options = Options { data, pipeline: None, epochs: 1, threads, places: 0, out: None };
    while let Some(word) = words.next() {
        let value = words.next().with_context(|| format!("{word} takes a value"))?;
        match word.as_str() {
            "--epochs" => options.epochs = value.parse().context("--epochs")?,
            "--threads" => options.threads = value.parse().context("--threads")?,
            "--places" => options.places = value.parse().context("--places")?,
            "--pipeline" => options.pipeline = Some(value.into()),
            "--out" => options.out = Some(value.into()),
            _ => bail!("unknown option {word}"),
        }
    }
    Ok(options)
}

/// The names in the directory's list, of "name label" lines.
fn names(data: &Path) -> Result<Vec<CString>> {
    let path = data.join("labels.txt");
    let text = std::fs::read_to_string(&path).with_context(|| path.display().to_string())?;
    let lines = text.lines().filter(|line| !line.trim().is_empty());
    let name = |line: &str| {
        let (name, _) =
            line.trim_end().rsplit_once([' ', '\t']).context("a line without a label")?;
        Ok(CString::new(name.trim_end())?)
    };
    lines.map(name).collect()
}

/// Runs `work` over `count` images `epochs` times on every thread, each with a state of its own, and
/// prints how many a second that were.
fn time<S>(
    options: &Options,
    count: usize,
    state: impl Fn() -> Result<S> + Sync,
    work: impl Fn(&mut S, usize, usize) -> Result<()> + Sync,
) -> Result<()> {
    let images = count * options.epochs;
    let next = AtomicUsize::new(0);
    let thread = || -> Result<()> {
        let mut state = state()?;
        loop {
            let from = next.fetch_add(CLAIM, Relaxed);
            if from >= images {
                return Ok(());
            }
            for image in from..images.min(from + CLAIM) {
                work(&mut state, image / count, image % count)?;
            }
        }
    };
    let start = Instant::now();
    std::thread::scope(|scope| -> Result<()> {
        let threads: Vec<_> = (0..options.threads).map(|_| scope.spawn(thread)).collect();
        threads.into_iter().try_for_each(|thread| thread.join().expect("it does not panic"))
    })?;
    let rate = images as f64 / start.elapsed().as_secs_f64();
    println!("{{\"images\": {images}, \"images_per_s\": {rate:.1}}}");
    Ok(())
}
