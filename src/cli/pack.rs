//! `forebay pack`: a directory of image files as tar shards.

use super::cache::size;
use super::interrupt::Interrupt;
use super::open::{PipelineArgs, roots};
use super::progress::Progress;
use super::{Verdict, counts, pipelines, status};
use anyhow::{Result, bail};
use clap::value_parser;
use forebay::dataset::pack::{Report, pack};
use forebay::graph::spec::ReaderKind;
use forebay::loader::open_reader;
use forebay::reader::{DEFAULT_LIMIT, Reader};
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// An index counts blocks of 512 bytes within a shard in 32 bits.
const SHARD_LIMIT: u64 = 2 << 40;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory that holds labels.txt or a directory a class, or train/ and valid/ that do
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Directory to write to; where there are train/ and valid/, into directories of these names
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Bytes of a shard, such as 64MiB or 1GiB; at most 2TiB
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = shard_size)]
    shard_size: u64,
    /// Name of the label list in the directory, instead of the pipeline's
    #[arg(long, value_name = "NAME")]
    list: Option<String>,
    /// Its reader says how samples are listed
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Let symbolic links lead out of the data directory
    #[arg(long)]
    follow_links: bool,
    /// Refuse files of more bytes
    #[arg(long, value_name = "N", default_value_t = DEFAULT_LIMIT)]
    #[arg(value_parser = value_parser!(u64).range(1..))]
    max_file_bytes: u64,
}

/// Packs each directory with samples.
pub(crate) fn run(args: &Args) -> Result<Verdict> {
    let (kind, roots) = source(args)?;
    // All are looked at before anything is written.
    let mut parts: Vec<(Arc<dyn Reader>, PathBuf)> = Vec::new();
    for root in &roots {
        let reader = open_reader(&kind, root, args.follow_links, args.max_file_bytes)
            .map_err(|e| e.in_pipeline(args.pipeline.name()))?;
        let to = match root.file_name() {
            Some(name) if *root != args.data => args.to.join(name),
            _ => args.to.clone(),
        };
        if is_same(root, &to) {
            bail!("--to: {} is the directory that is read; give another one", to.display());
        }
        parts.push((reader, to));
    }
    let interrupt = Interrupt::catch(|| {})?;
    for (reader, to) in &parts {
        let progress = Progress::new("packing", reader.len());
        let add = |samples| progress.add(samples);
        let report = pack(&**reader, to, args.shard_size, &add, interrupt.stop());
        drop(progress);
        let Report { samples, shards, bytes, complete } = report?;
        if !complete {
            let total = reader.len();
            let to = to.display();
            status::report(&format!(
                "stopped before all {total} samples were packed: {to} is as it was"
            ));
            return Ok(Verdict::Interrupted(interrupt.status()));
        }
        let (samples, shards) =
            (counts(samples, "sample", "samples"), counts(shards as u64, "shard", "shards"));
        let to = to.display();
        writeln!(stdout().lock(), "{to}: {samples} in {shards}, {} MiB", bytes.div_ceil(1 << 20))?;
    }
    Ok(Verdict::Good)
}

/// How samples are listed, and the directories that hold some. A built-in pipeline reads a list; where
/// there is none, but directories, they are taken for classes.
fn source(args: &Args) -> Result<(ReaderKind, Vec<PathBuf>)> {
    let mut kind = args.pipeline.spec()?.reader.kind;
    if let Some(list) = &args.list {
        kind = ReaderKind::File { file_list: list.clone() };
    }
    match roots(&args.data, &kind) {
        Err(_)
            if args.list.is_none()
                && pipelines::is_built_in(args.pipeline.name())
                && has_directories(&args.data) =>
        {
            kind = ReaderKind::Folders;
            roots(&args.data, &kind).map(|roots| (kind, roots))
        }
        found => found.map(|roots| (kind, roots)),
    }
}

fn has_directories(dir: &Path) -> bool {
    dir.read_dir().is_ok_and(|mut all| all.any(|entry| entry.is_ok_and(|e| e.path().is_dir())))
}

/// Whether both are one directory, by whatever names.
fn is_same(one: &Path, other: &Path) -> bool {
    matches!((one.canonicalize(), other.canonicalize()), (Ok(one), Ok(other)) if one == other)
}

/// Bytes of a shard: as many as an index can tell.
fn shard_size(text: &str) -> Result<u64, String> {
    match size(text)? {
        bytes @ 1..=SHARD_LIMIT => Ok(bytes),
        _ => Err("expected a size from 1 to 2TiB, such as 256MiB".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_of_shards() {
        for (text, expected) in [("1", 1), ("256MiB", 256 << 20), ("2TiB", 2 << 40)] {
            assert_eq!(shard_size(text), Ok(expected), "{text}");
        }
        for wrong in ["", "0", "-1", "2.1TiB"] {
            assert!(shard_size(wrong).is_err(), "{wrong}");
        }
    }
}
