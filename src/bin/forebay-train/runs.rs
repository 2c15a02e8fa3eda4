//! Where runs lie: the one to go on with, and the place of the next.

use crate::args::Args;
use crate::train::checkpoint::{Checkpoint, Meta, Pick, Store, find};
use crate::train::log::csv;
use anyhow::{Context, Result, anyhow};
use forebay::error::Error;
use forebay::file;
use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

/// A checkpoint that a run goes on from.
pub(crate) struct Resume {
    pub(crate) path: PathBuf,
    pub(crate) checkpoint: Checkpoint,
}

/// Where a run's checkpoints are, under its directory.
pub(crate) const CHECKPOINTS: &str = "checkpoints";

/// The checkpoint that `--resume` means.
pub(crate) fn resume(what: &str, args: &Args) -> Result<Resume> {
    let pick = match what {
        "last" => Pick::Last,
        "best" => Pick::Best(args.run.mode()),
        path => {
            let path = PathBuf::from(path);
            let checkpoint = Checkpoint::read(&path).map_err(|error| {
                let dir = path.parent().unwrap_or(Path::new("."));
                match find(dir, Pick::Last) {
                    Ok((good, ..)) if good != path => {
                        anyhow!("{error}; the next good one is {}", good.display())
                    }
                    _ => error.into(),
                }
            })?;
            return Ok(Resume { path, checkpoint });
        }
    };
    let dir = match &args.run.out {
        Some(dir) => dir.clone(),
        None => newest(&runs(args))?,
    };
    let (path, checkpoint, passed_over) = find(&dir.join(CHECKPOINTS), pick)?;
    for error in passed_over {
        eprintln!("forebay: note: passed over {error}");
    }
    if !args.run.quiet {
        eprintln!("going on from {}", path.display());
    }
    Ok(Resume { path, checkpoint })
}

/// Where the versions of a run lie.
fn runs(args: &Args) -> PathBuf {
    Path::new("runs").join(&args.run.name)
}

/// Whether the file at `path` lies in the directory `dir`, by whatever names.
pub(crate) fn lies_in(path: &Path, dir: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    real(path).is_some_and(|path| path.parent() == real(dir).as_deref())
}

/// Where the run goes: made where it is missing.
pub(crate) fn directory(args: &Args, resume: Option<&Resume>) -> Result<PathBuf> {
    if let Some(dir) = &args.run.out {
        fs::create_dir_all(dir).map_err(|e| Error::io("create the directory", dir, e))?;
        return Ok(dir.clone());
    }
    let checkpoints = resume.and_then(|resume| resume.path.parent());
    if let Some(dir) = checkpoints.filter(|dir| dir.ends_with(CHECKPOINTS))
        && let Some(dir) = dir.parent()
    {
        return Ok(dir.to_path_buf());
    }
    let parent = runs(args);
    fs::create_dir_all(&parent).map_err(|e| Error::io("create the directory", &parent, e))?;
    // One that another run takes at this moment is not there to be had.
    for version in 1 + versions(&parent)?.last().map_or(-1, |(version, _)| *version).. {
        let dir = parent.join(format!("version_{version}"));
        match fs::create_dir(&dir) {
            Ok(()) => return Ok(dir),
            Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(e) => return Err(Error::io("create the directory", dir, e).into()),
        }
    }
    unreachable!("there are more numbers than directories")
}

/// Before a run goes on from step `step`: keeps what `dir` has of later steps under names of their
/// own. `None` where there is nothing, as after `--resume last`; else what to tell.
pub(crate) fn set_aside(dir: &Path, step: u64) -> Result<Option<String>> {
    let last = dir.join(CHECKPOINTS).join(Store::LAST);
    let Some(later) = Meta::peek(&last).map(|meta| meta.global_step).filter(|at| *at > step) else {
        return Ok(None);
    };
    let kept = last.with_file_name(format!("until-step={later}.safetensors"));
    let (metrics, copy) = (dir.join("metrics.csv"), format!("metrics-until-step={later}.csv"));
    if metrics.exists() {
        let rows = file::read(&metrics, csv::MOST)?;
        file::put(&dir.join(&copy), |file| file.write_all(&rows))?;
    }
    // Last, since by this it is found out that the rest was done.
    fs::rename(&last, &kept).map_err(|e| Error::io("rename", &last, e))?;
    let text = format!(
        "steps {step} to {later} are done anew; {} and {copy} keep what was",
        kept.display()
    );
    Ok(Some(text))
}

/// The newest run of `parent` that has a checkpoint.
fn newest(parent: &Path) -> Result<PathBuf> {
    let versions = versions(parent).unwrap_or_default();
    let with_checkpoint = versions.into_iter().rev().map(|(_, dir)| dir);
    with_checkpoint
        .into_iter()
        .find(|dir| dir.join(CHECKPOINTS).join(Store::LAST).exists())
        .with_context(|| format!("no run in {} to go on with", parent.display()))
}

/// The directories version_N of `parent`, by N.
fn versions(parent: &Path) -> Result<Vec<(i64, PathBuf)>> {
    let entries = fs::read_dir(parent).map_err(|e| Error::io("read the directory", parent, e))?;
    let mut versions = Vec::new();
    for entry in entries {
        let path = entry.map_err(|e| Error::io("read the directory", parent, e))?.path();
        let name = path.file_name().and_then(|name| name.to_str());
        if let Some(Ok(version)) = name.and_then(|n| n.strip_prefix("version_")).map(str::parse) {
            versions.push((version, path));
        }
    }
    versions.sort();
    Ok(versions)
}
