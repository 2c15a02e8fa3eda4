//! The samples of a run.

use crate::args::Args;
use crate::classes::report_folders;
use crate::pipelines;
use crate::train::run::Data;
use crate::waiting::patiently;
use anyhow::{Context, Result, bail};
use forebay::device::Choice;
use forebay::error::Error;
use forebay::graph::spec::{ReaderKind, Spec};
use forebay::loader::{self, Deliver, Loader};
use forebay::policy::OnError;
use forebay::reader::tar::is_packed;
use std::path::{Path, PathBuf};

/// Opens the training samples and, where there are any, those to validate on.
pub(crate) fn open(args: &Args, device: Choice) -> Result<Data> {
    let Some(root) = &args.data.data else { bail!("--data DIR is missing") };
    let entries = root.read_dir();
    drop(entries.map_err(|e| Error::io("read the directory", root, e)).context("--data")?);
    let split = |name| Some(root.join(name)).filter(|dir| dir.is_dir());
    let few = args.run.dev_run.map(|batches| batches * u64::from(args.data.batch_size));
    let options = |limit: Option<u64>| loader::Options {
        batch_size: args.data.batch_size as usize,
        threads: args.data.threads.map_or(0, usize::from),
        pin_threads: args.data.pin_threads,
        read_ahead: args.data.read_ahead.map_or(loader::Options::default().read_ahead, usize::from),
        seed: args.run.seed,
        limit: limit.into_iter().chain(few).min(),
        follow_links: args.data.follow_links,
        on_error: args.data.faults.on_error,
        max_bad: args.data.faults.max_bad,
        cache: args.data.cache.cache,
        cache_budget: args.data.cache.cache_budget,
        limits: args.data.limits.limits(),
        device,
        deliver: Deliver::Device,
        ..loader::Options::default()
    };

    let dir = split("train").unwrap_or_else(|| root.clone());
    let quiet = args.run.quiet;
    let spec = fitting(&args.data.pipeline, &dir)?;
    let train = load(&spec, &args.data.pipeline, &dir, &options(args.data.limit_train), quiet)?;

    let named = args.data.valid_pipeline.as_deref();
    let dir = split("valid").or_else(|| named.map(|_| root.clone()));
    let load_valid = |dir: PathBuf| {
        let name = named.unwrap_or(VALID);
        let (spec, mut options) = (fitting(name, &dir)?, options(args.data.limit_valid));
        options.on_error = Some(judging(options.on_error.unwrap_or(spec.reader.on_error)));
        load(&spec, name, &dir, &options, quiet)
    };
    let valid = dir.map(load_valid).transpose()?;

    match &valid {
        _ if quiet => {}
        None => {
            let best = match args.run.monitor.is_of_validation() && args.run.save_top_k > 0 {
                true => ", so no checkpoint is the best; --monitor train_loss rates by that",
                false => "",
            };
            eprintln!("no valid/ in {}: training without validation{best}", root.display());
        }
        Some(_) if named.is_none() && !pipelines::is_built_in(&args.data.pipeline) => {
            eprintln!("validating through the built-in {VALID}; --valid-pipeline names another");
        }
        Some(_) => {}
    }
    Ok(Data { train, valid })
}

/// The pipeline `name` for the samples in `dir`. A built-in one reads a list; where there is none, but
/// folders, it reads a class a folder (and tar shards where those are, as every pipeline for lists
/// does). A file says itself what it reads.
pub(crate) fn fitting(name: &str, dir: &Path) -> Result<Spec> {
    let mut spec = pipelines::named(name)?;
    if let ReaderKind::File { file_list } = &spec.reader.kind
        && pipelines::is_built_in(name)
        && !dir.join(file_list).exists()
        && !is_packed(dir)
        && dir
            .read_dir()
            .is_ok_and(|mut all| all.any(|entry| entry.is_ok_and(|e| e.path().is_dir())))
    {
        spec.reader.kind = ReaderKind::Folders;
    }
    Ok(spec)
}

/// What becomes of bad samples where a network is judged: one in another's place would count twice.
pub(crate) fn judging(on_error: OnError) -> OnError {
    if on_error == OnError::Replace { OnError::Skip } else { on_error }
}

/// The pipeline of validation samples where none is named.
pub(crate) const VALID: &str = "cifar10-valid";

fn load(
    spec: &Spec,
    name: &str,
    dir: &Path,
    options: &loader::Options,
    quiet: bool,
) -> Result<Loader> {
    let open = || Loader::open(spec, dir, options);
    let loader = if quiet { open() } else { patiently(dir, open) };
    let loader = loader.map_err(|e| e.in_pipeline(name))?;
    if !quiet {
        report_folders(spec, &loader);
    }
    Ok(loader)
}
