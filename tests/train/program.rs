//! `forebay-train` as a user runs it, on drawn shapes.

use crate::train::checkpoint::{Checkpoint, Meta, Tensors};
use assert_cmd::cargo::cargo_bin;
use forebay::dataset::export::{Jpeg, Subsampling, export};
use forebay::dataset::shapes::{Part, Shapes};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::atomic::AtomicBool;
use tempfile::TempDir;

/// A directory with train/ of `train` shapes and valid/ of `valid`.
pub(crate) fn shapes(train: u64, valid: u64) -> TempDir {
    let dir = tempfile::tempdir().unwrap();
    let jpeg = Jpeg { quality: 90, subsampling: Subsampling::S420 };
    for (name, part, count) in [("train", Part::Train, train), ("valid", Part::Valid, valid)] {
        let shapes = Shapes::new(1, part, count, 32);
        export(&shapes, &dir.path().join(name), jpeg, &|_| {}, &AtomicBool::new(false)).unwrap();
    }
    dir
}

/// `forebay-train train --data DATA ARGS`, on the CPU where ARGS do not say otherwise.
pub(crate) fn command(data: &Path, args: &str) -> Command {
    let mut command = Command::new(cargo_bin("forebay-train"));
    command.arg("train").arg("--data").arg(data).args(args.split_whitespace());
    if !args.contains("--device") {
        command.args(["--device", "cpu"]);
    }
    // As `forebay train` starts it.
    command.env("OMP_WAIT_POLICY", "passive").current_dir(data);
    command
}

pub(crate) fn run(data: &TempDir, args: &str) -> Output {
    command(data.path(), args).output().unwrap()
}

/// What it printed, once it has succeeded.
pub(crate) fn good(output: Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{stderr}");
    String::from_utf8(output.stdout).unwrap()
}

/// Its one line of complaint and exit status.
pub(crate) fn complaint(output: Output) -> (Option<i32>, String) {
    let stderr = String::from_utf8(output.stderr).unwrap();
    let lines: Vec<_> = stderr.lines().filter(|line| line.contains("error")).collect();
    assert_eq!(lines.len(), 1, "{stderr}");
    assert!(output.stdout.is_empty());
    (output.status.code(), lines[0].to_string())
}

/// The number behind `key=` in the line of an epoch.
pub(crate) fn told(line: &str, key: &str) -> f64 {
    let word = line.split_whitespace().find_map(|word| word.strip_prefix(key)?.strip_prefix('='));
    word.unwrap_or_else(|| panic!("no {key} in {line}")).parse().unwrap()
}

/// The last checkpoint of the run in `dir`.
pub(crate) fn last(dir: &Path) -> (Meta, Tensors) {
    let checkpoint = Checkpoint::read(&dir.join("checkpoints/last.safetensors")).unwrap();
    let tensors = checkpoint.tensors().unwrap();
    (checkpoint.meta, tensors)
}

/// Whether weights and state are the same to the bit.
pub(crate) fn same(a: &Tensors, b: &Tensors) -> bool {
    a.len() == b.len() && a.iter().all(|(name, tensor)| b[name].equal(tensor))
}

#[test]
fn the_curve_and_the_weights_follow_from_the_seed() {
    // The last training batch has one sample, from which batch norm can learn nothing.
    let data = shapes(33, 12);
    let train = |out: &str, args: &str| {
        let args = format!("--epochs 2 --batch-size 8 --torch-threads 1 --out {out} {args}");
        let stdout = good(run(&data, &args));
        let lines: Vec<_> = stdout.lines().map(str::to_string).collect();
        assert!(lines[1].starts_with("epoch 2/2 train_loss="), "{stdout}");
        assert!(
            lines[2].starts_with("trained 2 epochs in ") && lines[2].contains(" s on the CPU: "),
            "{stdout}"
        );
        let curve = ["train_loss", "train_acc", "valid_loss", "valid_acc"];
        let curve = curve.map(|key| [told(&lines[0], key), told(&lines[1], key)]);
        (curve, last(&data.path().join(out)))
    };
    let first = train("first", "--seed 7 --threads 1");
    let again = train("again", "--seed 7 --threads 2");
    let other = train("other", "--seed 8");
    assert_eq!(first.0, again.0);
    assert!(same(&first.1.1, &again.1.1) && !same(&first.1.1, &other.1.1));
    assert!(first.0.as_flattened().iter().all(|value| value.is_finite()), "{:?}", first.0);
    assert!(first.0[1].iter().all(|accuracy| (0.0..=1.0).contains(accuracy)));

    let Meta { position, global_step, model, conditions, .. } = &first.1.0;
    assert_eq!((position.epoch, position.samples, *global_step), (2, 0, 10));
    assert_eq!((conditions.identities.unwrap().train.seed, model.classes), (7, 10));
}

#[test]
fn filled_places_count_in_no_metric() {
    let data = shapes(8, 5);
    let pipeline = include_str!("../../pipelines/cifar10-valid.toml");
    let padded = pipeline.replace("shuffle = false", "shuffle = false\nlast_batch = \"pad\"");
    fs::write(data.path().join("pad.toml"), padded).unwrap();
    let valid = |args: &str| {
        let stdout = good(run(&data, &format!("--batch-size 4 --torch-threads 1 {args}")));
        ["valid_loss", "valid_acc"].map(|key| told(stdout.lines().next().unwrap(), key))
    };
    let (padded, plain) = (valid("--valid-pipeline pad.toml"), valid(""));
    assert!((padded[0] - plain[0]).abs() < 2e-4 && padded[1] == plain[1], "{padded:?} {plain:?}");
    last(&data.path().join("runs/resnet18/version_1"));
}

#[test]
fn one_batch_is_repeated_as_often_as_an_epoch_has_batches() {
    let data = shapes(12, 2);
    fs::remove_dir_all(data.path().join("valid")).unwrap();
    // One of the list's two halves cannot be read: the batch that is held comes from the other.
    let list: String = (0..12).map(|i| format!("{i}.jpg {}\n", i % 3)).collect();
    fs::write(data.path().join("train/labels.txt"), list).unwrap();
    fs::remove_file(data.path().join("train/classes.txt")).unwrap();
    let pipeline = include_str!("../../pipelines/cifar10-valid.toml");
    fs::write(data.path().join("ordered.toml"), pipeline).unwrap();
    (4..12).for_each(|i| fs::remove_file(data.path().join(format!("train/{i}.jpg"))).unwrap());
    let args = "--batch-size 4 --torch-threads 1 --pipeline ordered.toml --out out --repeat-batch";
    let output = run(&data, &format!("{args} --log-every 1"));
    let steps = String::from_utf8_lossy(&output.stderr).matches("epoch 1/1 training ").count();
    let stdout = good(output);
    assert!(!stdout.contains("valid_loss") && steps == 3, "{steps} {stdout}");
    // No classes.txt: one class more than the largest label.
    assert_eq!(last(&data.path().join("out")).0.model.classes, 3);
}

#[test]
fn an_interrupt_finishes_the_step_and_saves() {
    let data = shapes(64, 2);
    let args = "--epochs 1000 --batch-size 8 --torch-threads 1 --log-every 1 --out out";
    let mut command = command(data.path(), args);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn();
    let mut child = child.unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    lines.find(|line| line.contains("training 3/8")).unwrap();
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    // Its stderr must not fill up while it ends.
    let rest: Vec<_> = lines.collect();
    let output = child.wait_with_output().unwrap();
    let stdout = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(130), "{rest:?}");
    let position = last(&data.path().join("out")).0.position;
    assert!(position.samples >= 24 || position.epoch > 0, "{position:?}");
    let step = position.samples / 8;
    let line = format!("stopped after step {step} of epoch {};", position.epoch + 1);
    assert!(stdout.contains(&line), "{stdout}");
}

/// What cannot be read is left out or replaced, counted and listed; the curve follows from the seed.
#[test]
fn bad_samples_are_borne_and_told() {
    let data = shapes(40, 10);
    for name in ["train/3.jpg", "train/17.jpg", "valid/2.jpg"] {
        let path = data.path().join(name);
        let bytes = fs::read(&path).unwrap();
        fs::write(&path, &bytes[..bytes.len() / 2]).unwrap();
    }
    let args = "--batch-size 8 --torch-threads 1 --epochs 2 --log-every 1 --no-sanity";
    let (status, line) = complaint(run(&data, &format!("{args} --out fail")));
    assert!(status == Some(1) && line.contains("truncated JPEG"), "{line}");
    for (on_error, done) in [("skip", "left out"), ("replace", "taken by others")] {
        let train = |threads: u32| {
            let out = format!("{on_error}-{threads}");
            let args = format!("{args} --on-error {on_error} --threads {threads} --out {out}");
            let output = run(&data, &args);
            let stderr = String::from_utf8(output.stderr.clone()).unwrap();
            (good(output), stderr, data.path().join(out))
        };
        let (stdout, stderr, dir) = train(1);
        assert!(stdout.contains(" bad_samples=3\n") && stderr.contains(", 2 bad\n"), "{stderr}");
        assert!(
            stderr.contains(&format!("note: 2 samples are bad: 4 places {done}\n")),
            "{stderr}"
        );
        // Where the network is judged nothing stands in for another.
        assert!(stderr.contains("note: 1 sample is bad: 2 places left out\n"), "{stderr}");
        let metrics = fs::read_to_string(dir.join("metrics.csv")).unwrap();
        assert!(metrics.lines().next_back().unwrap().ends_with(",3"), "{metrics}");
        let log = fs::read_to_string(dir.join("quarantine.jsonl")).unwrap();
        let of = |file: &str| log.lines().filter(|line| line.contains(file)).count();
        assert_eq!(["train/3.jpg", "train/17.jpg", "valid/2.jpg"].map(of), [1, 1, 1], "{log}");
        assert!(stdout.contains("quarantine.jsonl"), "{stdout}");
        let (.., again) = train(2);
        assert!(same(&last(&dir).1, &last(&again).1), "{on_error}");
    }
}

#[test]
fn class_folders_are_told() {
    let data = shapes(4, 2);
    let (list, sorted) = (data.path().join("train"), data.path().join("sorted"));
    for (image, class) in [(0, "dog"), (1, "cat"), (2, "dog"), (3, "cat")] {
        let name = format!("{image}.jpg");
        fs::create_dir_all(sorted.join(class)).unwrap();
        fs::rename(list.join(&name), sorted.join(class).join(&name)).unwrap();
    }
    let pipeline = include_str!("../../pipelines/cifar10-valid.toml");
    let folders =
        pipeline.replace("kind = \"file\"\nfile_list = \"labels.txt\"", "kind = \"folders\"");
    fs::write(data.path().join("folders.toml"), folders).unwrap();
    let args = "--pipeline folders.toml --batch-size 2 --torch-threads 1";
    let output = command(&sorted, args).current_dir(data.path()).output().unwrap();
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    good(output);
    assert!(stderr.contains("forebay: classes: 0 cat, 1 dog\n"), "{stderr}");
}

#[test]
fn mistakes_are_told_in_one_line() {
    let data = shapes(4, 2);
    let failed = |args: &str, text: &str| {
        let (status, line) = complaint(run(&data, args));
        assert!(status == Some(1) && line.contains(text), "{args}: {line}");
    };
    failed("--classes 2", "but the model has 2 classes");
    failed("--pipeline none.toml", "none.toml: cannot");
    failed("--out valid/0.jpg", "valid/0.jpg: cannot create the directory");
    let pipeline = include_str!("../../pipelines/decode-only.toml");
    fs::write(data.path().join("bytes.toml"), pipeline).unwrap();
    failed("--pipeline bytes.toml", "takes batches of (N, 3, H, W) f32");
    fs::remove_file(data.path().join("train/2.jpg")).unwrap();
    failed("", "2.jpg");
    fs::remove_dir_all(data.path().join("train")).unwrap();
    failed("", "labels.txt");

    for args in ["--epochs 0", "--batch-size 1", "--lr nan", "--device tpu", "--stem vgg", "--nope"]
    {
        let (status, line) = complaint(run(&data, args));
        assert_eq!(status, Some(2), "{args}: {line}");
    }
}
