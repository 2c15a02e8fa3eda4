//! Runs that were ended and go on: the same weights to the bit as of one that was left alone.

use crate::program::{command, complaint, good, last, run, same, shapes, told};
use crate::train::checkpoint::{Checkpoint, Store, Tensors};
use crate::train::metric::Mode;
use forebay::loader::Position;
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeSet;
use std::fs;
use std::hash::{BuildHasher, Hasher, RandomState};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::Stdio;
use std::thread;
use std::time::Instant;
use tempfile::TempDir;

/// Two epochs of 7 batches, the last of them short, two of which make a step. All that has a state:
/// momentum, a plateau, patience.
const RUN: &str = "--epochs 2 --batch-size 8 --accumulate 1:2 --torch-threads 1 --seed 5 \
                   --schedule plateau --plateau-patience 0 --early-stop valid_loss --log-every 1 \
                   --save-every 1 --no-sanity";

fn left_alone(data: &TempDir) -> (String, Tensors) {
    let stdout = good(run(data, &format!("{RUN} --out alone")));
    (stdout, last(&data.path().join("alone")).1)
}

/// Starts a run in `out`, and kills it without warning once `stderr` has a line with `text`.
fn kill_at(data: &Path, args: &str, text: &str, signal: Signal) {
    let mut child =
        command(data, args).stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    let found = lines.by_ref().find(|line| line.contains(text));
    kill_process(Pid::from_child(&child), signal).unwrap();
    let rest: Vec<_> = lines.collect();
    assert!(found.is_some(), "no line with {text}: {rest:?}");
    child.wait().unwrap();
}

#[test]
fn a_killed_run_goes_on_to_the_same_weights() {
    let data = shapes(53, 11);
    let (told_alone, alone) = left_alone(&data);
    // In the first epoch's first and last step, and in the second; then the same run twice.
    let kills = [
        vec!["1/2 training 2/7"],
        vec!["1/2 training 7/7"],
        vec!["1/2 training 4/7", "2/2 training 6/7"],
    ];
    for (place, moments) in kills.iter().enumerate() {
        let out = format!("killed-{place}");
        kill_at(data.path(), &format!("{RUN} --out {out}"), moments[0], Signal::KILL);
        for moment in &moments[1..] {
            // Settings come from the checkpoint.
            let resume = format!("--resume last --out {out}");
            kill_at(data.path(), &resume, moment, Signal::KILL);
        }
        let stdout = good(run(&data, &format!("--resume last --out {out}")));
        assert!(same(&last(&data.path().join(&out)).1, &alone), "{moments:?}");
        // The curve is that of the whole epoch, and metrics.csv has each step once.
        let line = |text: &str| {
            let line = text.lines().find(|line| line.starts_with("epoch 2/2")).unwrap();
            ["train_loss", "train_acc", "valid_loss", "lr"].map(|key| told(line, key).to_string())
        };
        assert_eq!(line(&stdout), line(&told_alone));
        let steps = |out: &str| {
            let text = fs::read_to_string(data.path().join(out).join("metrics.csv")).unwrap();
            let columns = text
                .lines()
                .skip(1)
                .map(|line| line.split(',').take(6).collect::<Vec<_>>().join(","));
            columns.collect::<Vec<_>>()
        };
        assert_eq!(steps(&out), steps("alone"), "{moments:?}");
    }
}

/// A few kills here; `make test-kill` asks for more.
#[test]
fn a_run_killed_at_random_moments_goes_on_to_the_same_weights() {
    let kills = std::env::var("FOREBAY_KILLS").map_or(2, |kills| kills.parse().unwrap());
    let data = shapes(53, 11);
    let settings = RUN.replace("--epochs 2", &format!("--epochs {}", 1 + kills));
    let start = Instant::now();
    good(run(&data, &format!("{settings} --out alone")));
    let (whole, alone) = (start.elapsed(), last(&data.path().join("alone")).1);
    let checkpoints = data.path().join("killed/checkpoints");
    let args = || match checkpoints.join("last.safetensors").exists() {
        true => "--resume last --out killed".to_string(),
        false => format!("{settings} --out killed"),
    };
    for kill in 1..=kills {
        let share =
            f64::from(RandomState::new().build_hasher().finish() as u32) / f64::from(u32::MAX);
        // On average the run comes to its end with the last kill.
        let moment = whole.mul_f64(share * 2.0 / f64::from(kills));
        let mut command = command(data.path(), &args());
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        thread::sleep(moment);
        child.kill().unwrap();
        let ended = child.wait().unwrap();
        let files = checkpoints.read_dir().into_iter().flatten().map(|file| file.unwrap().path());
        let files: Vec<_> =
            files.filter(|path| path.extension().is_some_and(|e| e == "safetensors")).collect();
        for path in &files {
            Checkpoint::read(path).unwrap();
        }
        let told = last_position(&checkpoints);
        println!(
            "kill {kill} of {kills} after {moment:.2?} ({ended}): {} files, at {told:?}",
            files.len()
        );
    }
    good(run(&data, &args()));
    assert!(same(&last(&data.path().join("killed")).1, &alone));
}

fn last_position(checkpoints: &Path) -> Option<Position> {
    Some(Checkpoint::read(&checkpoints.join("last.safetensors")).ok()?.meta.position)
}

#[test]
fn an_interrupted_validation_comes_first_when_the_run_goes_on() {
    let data = shapes(24, 200);
    let settings = "--epochs 1 --batch-size 8 --torch-threads 1 --seed 5 --log-every 1 --no-sanity";
    let alone = good(run(&data, &format!("{settings} --out alone")));
    let args = format!("{settings} --out stopped");
    kill_at(data.path(), &args, "1/1 training 3/3", Signal::INT);
    let (meta, _) = last(&data.path().join("stopped"));
    let stdout = good(run(&data, "--resume last --out stopped"));
    if meta.position.epoch == 0 {
        assert_eq!(meta.position.samples, 24);
        let scores = |text: &str| {
            let line = text.lines().find(|line| line.starts_with("epoch 1/1")).unwrap();
            ["train_loss", "valid_loss", "valid_acc"].map(|key| told(line, key).to_string())
        };
        assert_eq!(scores(&stdout), scores(&alone));
    }
    let last = |out: &str| last(&data.path().join(out)).1;
    assert!(same(&last("stopped"), &last("alone")));
    // And again: there is nothing to do.
    let stdout = good(run(&data, "--resume last --out stopped"));
    assert!(stdout.starts_with("nothing left to do: 1 epochs are done"), "{stdout}");
}

#[test]
fn what_cannot_go_on_is_told() {
    let data = shapes(16, 4);
    let out = "--batch-size 8 --torch-threads 1 --save-every 1 --log-every 1";
    good(run(&data, &format!("{out} --out run")));
    let last = data.path().join("run/checkpoints/last.safetensors");
    let whole = fs::read(&last).unwrap();

    // Another thread count: aloud, and on.
    let output = run(&data, "--resume last --out run --epochs 2 --torch-threads 2");
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    good(output);
    assert!(stderr.contains("threads of libtorch: 1 before, 2 now"), "{stderr}");

    // Another network.
    let (_, line) = complaint(run(&data, "--resume last --out run --stem cifar"));
    assert!(line.contains("imagenet stem") && line.contains("cifar stem"), "{line}");

    // A damaged one: the next good one, aloud; by its name, an error that names the good one.
    fs::write(&last, &whole[..whole.len() / 2]).unwrap();
    let output = run(&data, "--resume last --out run --epochs 3");
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    good(output);
    assert!(
        stderr.contains("passed over") && stderr.contains("last.safetensors: not a whole"),
        "{stderr}"
    );
    fs::write(&last, &whole[..whole.len() / 2]).unwrap();
    let (_, line) = complaint(run(&data, "--resume run/checkpoints/last.safetensors"));
    assert!(line.contains("the next good one is run/checkpoints/epoch="), "{line}");

    // No run at all.
    let (_, line) = complaint(run(&data, "--resume last"));
    assert!(line.contains("no run in runs/resnet18 to go on with"), "{line}");
    let (_, line) = complaint(run(&data, "--resume best --out none"));
    assert!(line.contains("none/checkpoints: cannot read"), "{line}");
}

/// What a run's samples follow from, each thing by itself: refused with its name and without a trace,
/// and told where it is forced. What only decides how they are made may change.
#[test]
fn other_samples_are_refused() {
    let data = shapes(24, 4);
    let settings =
        "--batch-size 8 --torch-threads 1 --epochs 2 --save-top-k 2 --no-sanity --seed 5";
    good(run(&data, &format!("{settings} --out run")));
    let checkpoints = data.path().join("run/checkpoints");
    let mut files = checkpoints.read_dir().unwrap().map(|entry| entry.unwrap().path());
    let first = files.find(|path| path.to_str().unwrap().contains("epoch=1-")).unwrap();
    let resume = format!("--resume {} --out run", first.display());
    let text = |name: &str| fs::read_to_string(data.path().join(name)).unwrap();
    let write = |name: &str, text: String| fs::write(data.path().join(name), text).unwrap();

    let pipeline = include_str!("../../pipelines/cifar10-train.toml");
    write("split.toml", pipeline.replace("\"mixed\"", "\"mixed\"\nsplit = 900"));
    let list = text("train/labels.txt");
    let names = || checkpoints.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    let before = (text("run/metrics.csv"), names().collect::<BTreeSet<_>>());
    for (args, what) in [
        ("--pipeline split.toml", "pipeline (--pipeline);"),
        ("--limit-train 23", "list of samples (--data, --limit-train);"),
        ("--seed 6", "seed (--seed);"),
        ("--limit-valid 3", "list of validation samples (--data, --limit-valid);"),
        ("--seed 6 --limit-train 23", "list of samples (--data, --limit-train) and another seed"),
    ] {
        let (status, line) = complaint(run(&data, &format!("{resume} {args}")));
        let expected = format!("the run began with another {what}");
        assert!(status == Some(1) && line.contains(&expected), "{args}: {line}");
        assert!(line.contains("--force-resume"), "{line}");
    }
    // One label, and one name.
    let other = list.replacen("0.jpg 0", "0.jpg 1", 1);
    for other in [other, list.replacen("0.jpg", "./0.jpg", 1)] {
        assert_ne!(other, list);
        write("train/labels.txt", other);
        let (_, line) = complaint(run(&data, &resume));
        assert!(line.contains("another list of samples"), "{line}");
    }
    write("train/labels.txt", list.clone());
    assert_eq!((text("run/metrics.csv"), names().collect()), before);

    // The same by another name, on other threads, in other batches.
    write("same.toml", format!("# A copy.\n{pipeline}"));
    let args = "--pipeline same.toml --threads 3 --batch-size 6 --out same";
    let output = run(&data, &format!("{resume} {args}"));
    let told = String::from_utf8(output.stderr.clone()).unwrap();
    good(output);
    assert!(told.contains("batch size: 8 before, 6 now") && !told.contains("began"), "{told}");

    let args = "--force-resume --seed 6 --limit-valid 3 --out forced";
    let output = run(&data, &format!("{resume} {args}"));
    let told = String::from_utf8(output.stderr.clone()).unwrap();
    good(output);
    let expected = "--force-resume: the run began with another seed (--seed) and another list of \
                    validation samples";
    assert!(told.contains(expected), "{told}");
    let identities = last(&data.path().join("forced")).0.conditions.identities.unwrap();
    assert_eq!(identities.train.seed, 6);
    assert_eq!(complaint(run(&data, "--force-resume")).0, Some(2));

    // What does not say whose it is goes on with whatever there is.
    let (mut meta, tensors) = last(&data.path().join("run"));
    meta.conditions.identities = None;
    let mut store = Store::open(&data.path().join("old/checkpoints"), Mode::Max, 1, false).unwrap();
    store.save(&tensors, &meta, false).unwrap();
    drop(store);
    let output = run(&data, "--resume last --out old --epochs 3 --seed 6");
    let told = String::from_utf8(output.stderr.clone()).unwrap();
    good(output);
    assert!(told.contains("does not say which pipeline, samples and seed it is of"), "{told}");
}

/// The samples that follow within the epoch are the same ones whatever the batch size: which they are
/// shows in the sum of the losses of a network that learns nothing.
#[test]
fn an_epoch_goes_on_in_other_batches() {
    let data = shapes(53, 11);
    let frozen = "--lr 0 --freeze-norm --unfreeze last --torch-threads 1 --seed 5 --log-every 1 \
                  --no-sanity --save-every 1";
    let alone = good(run(&data, &format!("{frozen} --batch-size 8 --out alone")));
    kill_at(
        data.path(),
        &format!("{frozen} --batch-size 8 --out killed"),
        "1/1 training 1/7",
        Signal::KILL,
    );
    let position = last_position(&data.path().join("killed/checkpoints")).unwrap();
    assert!(position.samples >= 8 && position.samples.is_multiple_of(8), "{position:?}");
    let output = run(&data, "--resume last --out killed --batch-size 5");
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    let stdout = good(output);
    assert!(stderr.contains("batch size: 8 before, 5 now"), "{stderr}");
    let steps = 53_u64.div_ceil(5);
    assert!(stderr.contains(&format!("training {steps}/{steps}")), "{stderr}");
    let loss = |text: &str| told(text.lines().next().unwrap(), "train_loss");
    assert!((loss(&stdout) - loss(&alone)).abs() < 2e-4, "{stdout} {alone}");
}
