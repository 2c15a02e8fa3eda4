//! `forebay train`.

use crate::Verdict;
use crate::args::{Args, OptimizerName, StemName, UnfreezeName};
use crate::config::{self, Source};
use crate::data;
use crate::faults::notes;
use crate::interrupt::Interrupt;
use crate::network;
use crate::place;
use crate::record::Recorder;
use crate::runs::{CHECKPOINTS, Resume, directory, lies_in, resume, set_aside};
use crate::screen::Screen;
use crate::train::checkpoint::Store;
use crate::train::early_stop::EarlyStop;
use crate::train::event::Event;
use crate::train::freeze::Unfreeze;
use crate::train::learner::Recipe;
use crate::train::metric::Mode;
use crate::train::optimizer::{self, Algorithm};
use crate::train::resnet::Stem;
use crate::train::run::{self, Data, run};
use anyhow::{Context, Result, bail};
use clap::{ArgMatches, Command, FromArgMatches};
use std::ffi::OsString;
use std::fs;
use std::io::{Write, stderr, stdout};

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
    let mut data = data::open(args, place.loader)?;
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
    let mut changes = Vec::new();
    if let Some(resume) = &resume {
        changes.extend(other_samples(resume, &data, args.force_resume)?);
        let others = config::compare(&resume.checkpoint.meta.config, settings)?.into_iter();
        changes.extend(others.map(|it| format!("the run goes on otherwise than it began: {it}")));
    }
    let run_dir = match args.run.dev_run {
        Some(_) => None,
        None => Some(directory(args, resume.as_ref())?),
    };
    let monitor = args.run.monitor;
    let mode = args.run.mode().unwrap_or(monitor.mode());
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
        let later = resumed_at.map(|step| set_aside(dir, step)).transpose()?.flatten();
        changes.extend(later);
    }
    let quarantine = match &args.data.faults.quarantine {
        Some(path) => Some(path.clone()),
        None => run_dir.as_ref().map(|dir| dir.join("quarantine.jsonl")),
    };
    if let Some(path) = &quarantine {
        data.train.quarantine(path).context("--quarantine")?;
        data.valid.as_mut().map_or(Ok(()), |valid| valid.quarantine(path))?;
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
        config: settings.to_string(),
    };
    let mut recorder = None;
    let interrupt = Interrupt::catch(|| {
        let text = "\nfinishing this step, then saving; Ctrl-C again ends at once";
        let _ = writeln!(stderr(), "{text}");
    })?;
    let mut screen = Screen::new(epochs, args.run.log_every.is_some(), args.run.quiet);
    let mut tell = |event: Event<'_>| {
        screen.show(&event);
        // Not before: a run that cannot go on is to leave the logs as they are.
        if let (Event::Start { .. }, Some(dir)) = (&event, &run_dir) {
            for change in &changes {
                screen.note(change);
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
    let summary = run(&options, &mut data, store.as_mut(), resume, interrupt.stop(), &mut tell);
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
    files.extend(
        quarantine.map(|path| ("bad samples".to_string(), path)).filter(|(_, p)| p.exists()),
    );
    screen.finish(&summary, &files);
    for loader in [Some(&data.train), data.valid.as_ref()].into_iter().flatten() {
        for note in notes(loader) {
            screen.note(&note);
        }
    }
    Ok(match summary.stopped {
        None => Verdict::Done,
        Some(_) => Verdict::Interrupted(interrupt.status()),
    })
}

/// Refuses to go on from a checkpoint with other samples than it was made with, unless `forced`; then
/// gives what to tell.
fn other_samples(resume: &Resume, data: &Data, forced: bool) -> Result<Option<String>> {
    let path = resume.path.display();
    let Some(before) = &resume.checkpoint.meta.conditions.identities else {
        return Ok(Some(format!(
            "{path} does not say which pipeline, samples and seed it is of: these are taken for them"
        )));
    };
    let differences = data.identities().differences(before);
    if differences.is_empty() {
        return Ok(None);
    }
    let what = format!("the run began with another {}", differences.join(" and another "));
    if !forced {
        bail!("{path}: {what}; give the same again, or --force-resume to go on with this");
    }
    Ok(Some(format!("--force-resume: {what}, and goes on with this")))
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
