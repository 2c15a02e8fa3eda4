//! `forebay pack`: a directory of image files as tar shards.

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

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory that holds labels.txt or a directory a class, or train/ and valid/ that do
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Directory to write to; where there are train/ and valid/, into directories of these names
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// Bytes of a shard: a number, or one with KiB, MiB, GiB, kB, MB or GB
    #[arg(long, value_name = "BYTES", default_value = "256MiB", value_parser = bytes)]
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

/// A number of bytes, with a unit or without.
fn bytes(text: &str) -> Result<u64, String> {
    const UNITS: [(&str, u64); 7] = [
        ("KiB", 1 << 10),
        ("MiB", 1 << 20),
        ("GiB", 1 << 30),
        ("kB", 1_000),
        ("MB", 1_000_000),
        ("GB", 1_000_000_000),
        ("", 1),
    ];
    let unit = |&(name, size): &(&str, u64)| Some((text.strip_suffix(name)?.trim_end(), size));
    let (number, size) = UNITS.iter().find_map(unit).expect("every text ends with nothing");
    let number = number.parse::<u64>().ok().and_then(|number| number.checked_mul(size));
    number.filter(|&bytes| bytes > 0).ok_or("expected bytes, such as 256MiB".into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_have_units() {
        for (text, expected) in [
            ("1", 1),
            ("256MiB", 256 << 20),
            ("2 GB", 2_000_000_000),
            ("3KiB", 3072),
            ("5kB", 5000),
        ] {
            assert_eq!(bytes(text), Ok(expected), "{text}");
        }
        for wrong in ["", "MiB", "0", "-1", "1.5GB", "1TB", "99999999999GiB"] {
            assert!(bytes(wrong).is_err(), "{wrong}");
        }
    }
}
