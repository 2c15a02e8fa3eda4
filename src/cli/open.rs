//! The arguments that commands share, and opening what they name.

use super::cache::CacheArgs;
use super::classes::report_folders;
use super::faults::{FaultArgs, notes};
use super::limits::LimitArgs;
use super::pipelines;
use super::waiting::patiently;
use anyhow::{Context, Result, bail};
use clap::builder::NonEmptyStringValueParser;
use forebay::device::Choice;
use forebay::error::Error;
use forebay::graph::spec::{ReaderKind, Spec};
use forebay::loader::{Loader, Options};
use forebay::reader::tar::{has_shards, is_packed};
use std::path::{Path, PathBuf};
use std::str::FromStr;

/// Which pipeline.
#[derive(clap::Args)]
pub(crate) struct PipelineArgs {
    /// A pipeline file, or one of those built in: cifar10-train, cifar10-affine, cifar10-valid,
    /// fast-cifar, imagenet-train, imagenet-valid, decode-only
    #[arg(
        long,
        value_name = "FILE",
        default_value = "cifar10-train",
        value_parser = NonEmptyStringValueParser::new()
    )]
    pipeline: String,
}

impl PipelineArgs {
    /// The name or path as the user gave it.
    pub(crate) fn name(&self) -> &str {
        &self.pipeline
    }

    /// Reads the pipeline.
    pub(crate) fn spec(&self) -> Result<Spec> {
        pipelines::named(&self.pipeline)
    }
}

/// Which samples, through which pipeline.
#[derive(clap::Args)]
pub(crate) struct SourceArgs {
    /// Directory that holds labels.txt or tar shards, or train/ and valid/ that do (then train/ is
    /// taken)
    #[arg(long, value_name = "DIR", required = true)]
    data: Option<PathBuf>,
    #[command(flatten)]
    pub(crate) pipeline: PipelineArgs,
    /// Seed of the order and of every draw, instead of the pipeline's
    #[arg(long, value_name = "N")]
    seed: Option<u64>,
    /// Worker threads [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    threads: Option<u16>,
    /// Keep each of them on a core, in turn, in place of letting the system move it
    #[arg(long)]
    pin_threads: bool,
    /// Further threads, that read files ahead where the system has them not in memory [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1024))]
    read_ahead: Option<u16>,
    /// Let symbolic links lead out of the data directory
    #[arg(long)]
    follow_links: bool,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    faults: FaultArgs,
    #[command(flatten)]
    cache: CacheArgs,
}

impl SourceArgs {
    /// The data directory. A command that can do without it does not ask for it then.
    pub(crate) fn data(&self) -> &Path {
        self.data.as_deref().expect("required by the command line")
    }

    /// Worker threads; 0: one a core.
    pub(crate) fn threads(&self) -> usize {
        self.threads.map_or(0, usize::from)
    }

    /// Options of one process over the whole list, in batches of `batch_size`.
    pub(crate) fn options(&self, batch_size: usize) -> Options {
        let default = Options::default();
        Options {
            batch_size,
            threads: self.threads(),
            pin_threads: self.pin_threads,
            read_ahead: self.read_ahead.map_or(default.read_ahead, usize::from),
            seed: self.seed,
            follow_links: self.follow_links,
            on_error: self.faults.on_error,
            max_bad: self.faults.max_bad,
            cache: self.cache.cache,
            cache_budget: self.cache.cache_budget,
            limits: self.limits.limits(),
            ..default
        }
    }

    /// Opens `spec` over the data directory.
    pub(crate) fn open(&self, spec: &Spec, options: &Options) -> Result<Loader> {
        let roots = roots(self.data(), &spec.reader.kind)?;
        let opened = patiently(&roots[0], || Loader::open(spec, &roots[0], options));
        let mut loader = opened.map_err(|e| e.in_pipeline(self.pipeline.name()))?;
        if let Some(path) = &self.faults.quarantine {
            loader.quarantine(path).context("--quarantine")?;
        }
        report_folders(spec, &loader);
        if let Some(note) = loader.device_note() {
            eprintln!("forebay: note: {note}");
        }
        Ok(loader)
    }
}

/// Tells what is to be known of the batches that were delivered: bad samples, pixels that are not the
/// CPU's, and what came from the cache.
pub(crate) fn report(loader: &Loader) {
    for note in notes(loader) {
        eprintln!("forebay: note: {note}");
    }
}

/// How samples are put into batches.
#[derive(clap::Args)]
pub(crate) struct BatchArgs {
    /// Samples a batch
    #[arg(long, value_name = "N", default_value = "256", value_parser = positive)]
    pub(crate) batch_size: usize,
    /// Where to run: auto, cpu, or cuda:N
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: Choice,
    /// This process's share of each epoch: R of N, R from 0
    #[arg(long, value_name = "R/N", default_value = "0/1")]
    shard: Shard,
}

impl BatchArgs {
    /// Options for these batches of `source`.
    pub(crate) fn options(&self, source: &SourceArgs) -> Options {
        let Shard { rank, world } = self.shard;
        Options { rank, world, device: self.device, ..source.options(self.batch_size) }
    }
}

/// A number from 1 up to what a batch can hold.
pub(crate) fn positive(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(n @ 1..=0xFF_FFFF) => Ok(n),
        _ => Err("expected an integer from 1 to 16777215".into()),
    }
}

/// The value of `--shard`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Shard {
    rank: u32,
    world: u32,
}

impl FromStr for Shard {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let parse = || {
            let (rank, world) = text.split_once('/')?;
            let (rank, world) = (rank.parse().ok()?, world.parse().ok()?);
            (rank < world).then_some(Shard { rank, world })
        };
        parse().ok_or("expected R/N with R from 0 to N - 1, such as 0/2")
    }
}

/// The directories that hold samples: `data` itself, or its train/ and valid/. Never empty.
pub(crate) fn roots(data: &Path, kind: &ReaderKind) -> Result<Vec<PathBuf>> {
    let entries = data.read_dir().map_err(|e| Error::io("read the directory", data, e));
    drop(entries.context("--data")?);
    let splits = || ["train", "valid"].map(|split| data.join(split)).into_iter();
    let (itself, splits): (bool, Vec<PathBuf>) = match kind {
        ReaderKind::File { file_list } => {
            let holds = |dir: &Path| dir.join(file_list).exists() || is_packed(dir);
            (holds(data), splits().filter(|dir| holds(dir)).collect())
        }
        ReaderKind::Tar => (has_shards(data), splits().filter(|dir| has_shards(dir)).collect()),
        // Two classes called "train" and "valid" are never meant.
        ReaderKind::Folders => {
            let splits: Vec<PathBuf> = splits().filter(|dir| dir.is_dir()).collect();
            (splits.len() < 2, splits)
        }
        ReaderKind::Cifar10 { .. } => (true, Vec::new()),
    };
    match (itself, kind) {
        (true, _) => Ok(vec![data.to_path_buf()]),
        (false, ReaderKind::File { file_list }) if splits.is_empty() => bail!(
            "{}: no {file_list} or .tar files here, nor in train/ or valid/; `forebay export` writes \
             such a directory",
            data.display()
        ),
        (false, ReaderKind::Tar) if splits.is_empty() => bail!(
            "{}: no .tar files here, nor in train/ or valid/; `forebay pack` writes such a directory",
            data.display()
        ),
        _ => Ok(splits),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shards() {
        assert_eq!("1/2".parse(), Ok(Shard { rank: 1, world: 2 }));
        for wrong in ["", "1", "2/2", "0/0", "-1/2", "1/2/3"] {
            assert!(wrong.parse::<Shard>().is_err(), "{wrong}");
        }
    }
}
