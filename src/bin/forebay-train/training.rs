//! `forebay train`.

use crate::Verdict;
use crate::args::{Args, ModeName, OptimizerName, StemName, UnfreezeName};
use crate::classes::report_folders;
use crate::config::{self, Source};
use crate::network;
use crate::pipelines;
use crate::place;
use crate::record::Recorder;
use crate::screen::Screen;
use crate::train::checkpoint::{Checkpoint, Pick, Store, find};
use crate::train::early_stop::EarlyStop;
use crate::train::event::Event;
use crate::train::freeze::Unfreeze;
use crate::train::learner::Recipe;
use crate::train::metric::Mode;
use crate::train::optimizer::{self, Algorithm};
use crate::train::resnet::Stem;
use crate::train::run::{self, Data, run};
use anyhow::{Context, Result, anyhow, bail};
use clap::{ArgMatches, Command, FromArgMatches};
use forebay::device::Choice;
use forebay::error::Error;
use forebay::graph::file;
use forebay::graph::spec::Spec;
use forebay::loader::{self, Deliver, Loader};
use std::ffi::OsString;
use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

/// A checkpoint that a run goes on from.
struct Resume {
    path: PathBuf,
    checkpoint: Checkpoint,
}

/// Trains with what `matches` of `command` say, which were parsed from `user`.
pub(crate) fn main(command: &Command, matches: &ArgMatches, user: &[OsString]) -> Result<Verdict> {
    // A file may say where the run lies that this one goes on with, which says the rest.
    let args = Args::from_arg_matches(matches)?;
    let (mut matches, mut args) = settings(command, &args, None, user)?;
    let resume = args.resume.as_deref().map(|what| resume(what, &args)).transpose()?;
    if resume.is_some() {
        (matches, args) = settings(command, &args, resume.as_ref(), user)?;
    }
    if args.print_config {
        stdout().write_all(config::print(command, &matches, false).as_bytes())?;
        return Ok(Verdict::Done);
    }
    if args.run.dev_run.is_some() && resume.is_some() {
        bail!("--dev-run tries a run from its beginning: leave out --resume");
    }
    train(&args, resume, &config::print(command, &matches, true))
}

/// The settings of all sources: the recipe, the checkpoint, the file, and the user's own.
fn settings(
    command: &Command,
    args: &Args,
    resume: Option<&Resume>,
    user: &[OsString],
) -> Result<(ArgMatches, Args)> {
    let mut sources = Vec::new();
    if let Some(Resume { path, checkpoint }) = resume {
        let (name, text) = (path.display().to_string(), checkpoint.meta.config.clone());
        sources.push(Source { name, text });
    }
    if let Some(name) = &args.preset {
        sources.extend(Source::preset(name)?.with_presets()?);
    }
    if let Some(path) = &args.config {
        sources.extend(Source::file(path)?.with_presets()?);
    }
    let mut all = vec![OsString::from("train")];
    for source in &sources {
        all.extend(source.arguments(command)?);
    }
    all.extend_from_slice(user);
    // Each part was understood by itself.
    let matches = command.clone().try_get_matches_from(all)?;
    let args = Args::from_arg_matches(&matches)?;
    Ok((matches, args))
}

fn train(args: &Args, resume: Option<Resume>, settings: &str) -> Result<Verdict> {
    let place = place::open(args.run.device, args.run.tf32)?;
    let (mut data, pipeline) = open(args, place.loader)?;
    if args.model.lora.is_some() && !matches!(args.model.unfreeze, UnfreezeName::Full) {
        bail!("--lora trains adapters in place of all weights: leave out --unfreeze");
    }
    let epochs = if args.run.dev_run.is_some() { 1 } else { args.run.epochs };
    let accumulate = args.optimizer.accumulate.clone();
    let steps = data.train.len();
    let steps_in = |epochs: f64| accumulate.total(epochs, steps);
    let schedule = args.schedule.plan(args.optimizer.lr, epochs, steps_in)?;
    let weights = match (&args.model.weights, &resume) {
        (Some(path), None) => Some(network::weights(path)?),
        _ => None,
    };
    let changes = match &resume {
        Some(resume) => config::compare(&resume.checkpoint.meta.config, settings)?,
        None => Vec::new(),
    };
    let run_dir = match args.run.dev_run {
        Some(_) => None,
        None => Some(directory(args, resume.as_ref())?),
    };
    let monitor = args.run.monitor;
    let mode = mode(args).unwrap_or(monitor.mode());
    let mut store = None;
    let mut resumed_at = resume.as_ref().map(|resume| resume.checkpoint.meta.global_step);
    if let Some(dir) = &run_dir {
        let checkpoints = dir.join(CHECKPOINTS);
        // A run that goes on elsewhere begins there.
        if !resume.as_ref().is_some_and(|resume| lies_in(&resume.path, &checkpoints)) {
            resumed_at = None;
        }
        let top_k = usize::from(args.run.save_top_k);
        store = Some(Store::open(&checkpoints, mode, top_k, resumed_at.is_some())?);
    }
    let options = run::Options {
        device: place.torch.clone(),
        stem: match args.model.stem {
            StemName::Imagenet => Stem::Imagenet,
            StemName::Cifar => Stem::Cifar,
        },
        classes: args.model.classes,
        lora: args.model.lora,
        weights,
        recipe: recipe(args),
        epochs,
        schedule,
        accumulate,
        monitor,
        maximize: mode == Mode::Max,
        early_stop: args.run.early_stop.map(|monitor| EarlyStop {
            monitor,
            mode: if monitor == args.run.monitor { mode } else { monitor.mode() },
            patience: args.run.patience,
            min_delta: args.run.min_delta,
        }),
        save_every: args.run.save_every,
        log_every: args.run.log_every.map_or(20, u64::from),
        torch_threads: args
            .run
            .torch_threads
            .or(resume.as_ref().map(|resume| resume.checkpoint.meta.conditions.torch_threads)),
        sanity: !args.run.no_sanity,
        repeat_batch: args.data.repeat_batch,
        pipeline,
        config: settings.to_string(),
    };
    let mut recorder = None;
    let stop = stop_on_interrupt()?;
    let mut screen = Screen::new(epochs, args.run.log_every.is_some(), args.run.quiet);
    let mut tell = |event: Event<'_>| {
        screen.show(&event);
        // Not before: a run that cannot go on is to leave the logs as they are.
        if let (Event::Start { .. }, Some(dir)) = (&event, &run_dir) {
            for change in &changes {
                screen.note(&format!("the run goes on otherwise than it began: {change}"));
            }
            match Recorder::open(dir, settings, resumed_at) {
                Ok(opened) => recorder = Some(opened),
                Err(error) => screen.note(&format!("there will be no logs: {error:#}")),
            }
        }
        if let Some(error) = recorder.as_mut().and_then(|recorder| recorder.record(&event)) {
            screen.note(&format!("a part of the logs is missing: {error:#}"));
        }
    };
    let resume = resume.map(|Resume { path, checkpoint }| (path, checkpoint));
    let resume = resume.as_ref().map(|(path, checkpoint)| (path.as_path(), checkpoint));
    let summary = run(&options, &mut data, store.as_mut(), resume, &stop, &mut tell);
    if let (Err(_), Some(dir), None) = (&summary, &run_dir, &args.run.out) {
        // Of a run that could not begin nothing is left; what is not empty stays.
        let _ = fs::remove_dir(dir.join(CHECKPOINTS)).and_then(|()| fs::remove_dir(dir));
    }
    let summary = summary?;

    let mut files = Vec::new();
    if let Some(store) = &store {
        if let Some((score, path)) = &summary.best {
            files.push((format!("best {monitor} {score:.4}"), path.clone()));
        }
        files.push(("last".to_string(), store.last()));
    }
    if let Some((pictures, failed)) = recorder.map(Recorder::finish) {
        files.extend(pictures.into_iter().map(|(what, path)| (what.to_string(), path)));
        if let Some(error) = failed {
            screen.note(&format!("a part of the logs is missing: {error:#}"));
        }
    }
    screen.finish(&summary, &files);
    for loader in [Some(&data.train), data.valid.as_ref()].into_iter().flatten() {
        if let Some(note) = loader.nvjpeg_note() {
            screen.note(&note);
        }
    }
    Ok(if summary.stopped.is_none() { Verdict::Done } else { Verdict::Part })
}

/// The value of `--mode`.
fn mode(args: &Args) -> Option<Mode> {
    args.run.mode.map(|mode| match mode {
        ModeName::Max => Mode::Max,
        ModeName::Min => Mode::Min,
    })
}

/// What a step does.
fn recipe(args: &Args) -> Recipe {
    let optimizer = &args.optimizer;
    let (betas, epsilon) = ((optimizer.beta1, optimizer.beta2), optimizer.eps);
    Recipe {
        unfreeze: match args.model.unfreeze {
            UnfreezeName::Last => Unfreeze::Last,
            UnfreezeName::Most => Unfreeze::Most,
            UnfreezeName::Full => Unfreeze::Full,
        },
        freeze_norm: args.model.freeze_norm,
        optimizer: optimizer::Options {
            algorithm: match optimizer.optimizer {
                OptimizerName::Sgd => {
                    Algorithm::Sgd { momentum: optimizer.momentum, nesterov: optimizer.nesterov }
                }
                OptimizerName::Adam => Algorithm::Adam { betas, epsilon },
                OptimizerName::Adamw => Algorithm::AdamW { betas, epsilon },
            },
            weight_decay: optimizer.weight_decay,
            decay_norms_and_biases: !optimizer.no_decay_norm,
        },
        clip_norm: optimizer.clip_norm,
        precision: args.run.precision,
        checkpoint_activations: args.run.checkpoint_activations,
        label_smoothing: optimizer.label_smoothing,
        test_flip: args.run.test_flip,
    }
}

/// Where a run's checkpoints are, under its directory.
const CHECKPOINTS: &str = "checkpoints";

/// The checkpoint that `--resume` means.
fn resume(what: &str, args: &Args) -> Result<Resume> {
    let pick = match what {
        "last" => Pick::Last,
        "best" => Pick::Best(mode(args)),
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
fn lies_in(path: &Path, dir: &Path) -> bool {
    let real = |path: &Path| fs::canonicalize(path).ok();
    real(path).is_some_and(|path| path.parent() == real(dir).as_deref())
}

/// Where the run goes: made where it is missing.
fn directory(args: &Args, resume: Option<&Resume>) -> Result<PathBuf> {
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

/// Opens the training samples and, where there are any, those to validate on; also says what the
/// first go through.
fn open(args: &Args, device: Choice) -> Result<(Data, String)> {
    let Some(root) = &args.data.data else { bail!("--data DIR is missing") };
    let entries = root.read_dir();
    drop(entries.map_err(|e| Error::io("read the directory", root, e)).context("--data")?);
    let split = |name| Some(root.join(name)).filter(|dir| dir.is_dir());
    let few = args.run.dev_run.map(|batches| batches * u64::from(args.data.batch_size));
    let options = |limit: Option<u64>| loader::Options {
        batch_size: args.data.batch_size as usize,
        threads: args.data.threads.map_or(0, usize::from),
        seed: args.run.seed,
        limit: limit.into_iter().chain(few).min(),
        follow_links: args.data.follow_links,
        device,
        deliver: Deliver::Device,
        ..loader::Options::default()
    };

    let dir = split("train").unwrap_or_else(|| root.clone());
    let quiet = args.run.quiet;
    let spec = pipelines::named(&args.data.pipeline)?;
    let train = load(&spec, &args.data.pipeline, &dir, &options(args.data.limit_train), quiet)?;
    let pipeline = file::print(&spec);

    let named = args.data.valid_pipeline.as_deref();
    let dir = split("valid").or_else(|| named.map(|_| root.clone()));
    let options = options(args.data.limit_valid);
    let load_valid = |dir: PathBuf| {
        let name = named.unwrap_or(VALID);
        load(&pipelines::named(name)?, name, &dir, &options, quiet)
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
    Ok((Data { train, valid }, pipeline))
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
    let loader = Loader::open(spec, dir, options).map_err(|e| e.in_pipeline(name))?;
    if !quiet {
        report_folders(spec, &loader);
    }
    Ok(loader)
}

/// A flag that the first Ctrl-C sets. The second one ends the program.
fn stop_on_interrupt() -> Result<Arc<AtomicBool>> {
    let stop = Arc::new(AtomicBool::new(false));
    let flag = Arc::clone(&stop);
    ctrlc::set_handler(move || {
        if flag.swap(true, Ordering::Relaxed) {
            // What a shell reports for a program that an interrupt ended.
            std::process::exit(130);
        }
        eprintln!("\nfinishing this step, then saving; Ctrl-C again ends at once");
    })
    .context("cannot catch Ctrl-C")?;
    Ok(stop)
}
