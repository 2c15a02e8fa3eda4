//! What a run does when something goes wrong or comes to its end, and what a user asks for beside it.

use crate::program::{complaint, good, last, run, same, shapes, told};
use crate::train::checkpoint::{Checkpoint, Meta, Tensors};
use assert_cmd::cargo::cargo_bin;
use std::fs;
use std::path::Path;
use std::process::{Command, Output};
use tempfile::TempDir;

const SMALL: &str = "--batch-size 8 --torch-threads 1 --seed 5 --no-sanity";

/// `forebay-train ARGS` in the directory `data`.
fn other(data: &TempDir, args: &str) -> Output {
    let mut command = Command::new(cargo_bin("forebay-train"));
    command.args(args.split_whitespace()).current_dir(data.path()).output().unwrap()
}

fn stderr(output: &Output) -> String {
    String::from_utf8(output.stderr.clone()).unwrap()
}

fn all_finite(tensors: &Tensors) -> bool {
    tensors.values().all(|tensor| tensor.isfinite().all().int64_value(&[]) == 1)
}

/// Names of what lies in `dir`, in order.
fn names(dir: &Path) -> Vec<String> {
    let entries = dir.read_dir().unwrap();
    let mut names: Vec<_> =
        entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    names
}

#[test]
fn a_loss_that_is_not_finite_ends_the_run() {
    let data = shapes(40, 1);
    let args = format!("{SMALL} --lr 1e30 --log-every 2 --save-every 1 --epochs 3 --out out");
    let (status, line) = complaint(run(&data, &args));
    assert_eq!(status, Some(1));
    let expected = "not finite at step 2 (epoch 1, learning rate 1e30); \
                    out/checkpoints/last.safetensors is from before it";
    assert!(line.contains(expected), "{line}");
    let ids = line.split("--ids ").nth(1).unwrap().split('`').next().unwrap();
    let mut ids: Vec<u64> = ids.split(',').map(|id| id.parse().unwrap()).collect();
    ids.sort();
    ids.dedup();
    assert!(ids.len() == 8 && ids[7] < 40, "{line}");
    let (meta, tensors) = last(&data.path().join("out"));
    assert!(meta.global_step <= 1 && all_finite(&tensors));
}

#[test]
fn an_image_that_is_not_finite_is_found() {
    let data = shapes(64, 1);
    let pipeline = include_str!("../../pipelines/cifar10-valid.toml");
    let step =
        "[[step]]\nop = \"expr\"\nexpr = \"x / (d > 0.02)\"\nd = { uniform = [0.0, 1.0] }\n\n";
    let broken = pipeline.replace("[output]", &format!("{step}[output]"));
    fs::write(data.path().join("broken.toml"), broken).unwrap();
    let args = format!("{SMALL} --pipeline broken.toml --log-every 5 --epochs 9 --save-every 1");
    let (_, line) = complaint(run(&data, &format!("{args} --out out")));
    let after = |text: &str| line.split(text).nth(1).unwrap().split([' ', ')']).next().unwrap();
    let step: u64 = after("not finite at step ").parse().unwrap();
    let (meta, tensors) = last(&data.path().join("out"));
    assert!(meta.global_step < step && all_finite(&tensors), "{} {line}", meta.global_step);
    // It goes on to the same place.
    let (_, again) = complaint(run(&data, "--resume last --out out"));
    assert_eq!(again, line);
}

#[test]
fn no_improvement_ends_a_run_and_one_that_goes_on() {
    let data = shapes(16, 4);
    let args = "--epochs 9 --early-stop valid_acc --min-delta 1 --patience 2 --save-top-k 2";
    let stdout = good(run(&data, &format!("{SMALL} {args} --out out")));
    assert!(stdout.contains("ended early, since nothing improved"), "{stdout}");
    assert!(stdout.contains("epoch 3/9") && !stdout.contains("epoch 4/9"), "{stdout}");
    let checkpoints = data.path().join("out/checkpoints");
    assert_eq!(names(&checkpoints).len(), 3);
    let stdout = good(run(&data, "--resume last --out out"));
    assert!(stdout.starts_with("nothing left to do: 3 epochs are done, and no"), "{stdout}");
    // Another metric has patience of its own, and its own best.
    let args = "--early-stop train_loss --monitor train_loss --patience 9 --epochs 4";
    let output = run(&data, &format!("--resume last --out out {args}"));
    let text = stderr(&output);
    assert!(text.contains("monitor: \"valid_acc\" before, \"train_loss\" now"), "{text}");
    let stdout = good(output);
    assert!(stdout.contains("epoch 4/4") && stdout.contains("\nbest train_loss "), "{stdout}");
    assert_eq!(names(&checkpoints).len(), 4);
}

#[test]
fn trying_saves_nothing() {
    let data = shapes(40, 20);
    let before = names(data.path());
    let output = run(&data, "--batch-size 8 --torch-threads 1 --dev-run 2 --quiet --epochs 5");
    assert_eq!(stderr(&output), "", "and --quiet says nothing beside what came of it");
    let stdout = good(output);
    assert!(stdout.starts_with("epoch 1/1 ") && !stdout.contains("last "), "{stdout}");
    assert_eq!(names(data.path()), before);
}

#[test]
fn the_repeated_batch_is_the_same_after_a_resumption() {
    let data = shapes(24, 1);
    let args = format!("{SMALL} --repeat-batch");
    good(run(&data, &format!("{args} --epochs 2 --out alone")));
    good(run(&data, &format!("{args} --epochs 1 --out two")));
    good(run(&data, "--resume last --epochs 2 --out two"));
    let last = |out: &str| last(&data.path().join(out)).1;
    assert!(same(&last("alone"), &last("two")));
}

#[test]
fn a_last_batch_of_one_sample_is_no_reading() {
    let data = shapes(17, 1);
    good(run(&data, &format!("{SMALL} --log-every 1 --out out")));
    let rows = fs::read_to_string(data.path().join("out/metrics.csv")).unwrap();
    assert!(!rows.contains("NaN"), "{rows}");
    // Two steps and the epoch.
    assert_eq!(rows.lines().count(), 1 + 2 + 1, "{rows}");
}

#[test]
fn a_run_goes_on_where_its_file_says() {
    let data = shapes(16, 1);
    fs::write(data.path().join("run.toml"), "name = \"007\"\nepochs = 1\n").unwrap();
    // What a failed start leaves behind is no run to go on with.
    good(run(&data, &format!("{SMALL} --config run.toml")));
    complaint(run(&data, &format!("{SMALL} --config run.toml --weights run.toml")));
    fs::create_dir_all(data.path().join("runs/007/version_1/checkpoints")).unwrap();
    let output = run(&data, "--config run.toml --resume last --epochs 2 --lr 0.01");
    let text = stderr(&output);
    assert!(good(output).contains("epoch 2/2"));
    assert!(text.contains("otherwise than it began: lr: 0.001 before, 0.01 now"), "{text}");
    assert!(!text.contains("epochs: 1 before"), "{text}");
    assert_eq!(last(&data.path().join("runs/007/version_0")).0.position.epoch, 2);
    assert_eq!(names(&data.path().join("runs/007")).len(), 2);
}

#[test]
fn a_run_that_goes_on_harms_no_other() {
    let data = shapes(16, 1);
    for out in ["one", "two"] {
        good(run(&data, &format!("{SMALL} --log-every 1 --out {out}")));
    }
    let file = |name: &str| fs::read(data.path().join(name)).unwrap();
    let before = (file("two/metrics.csv"), file("two/checkpoints/last.safetensors"));
    // Into another run's directory; with another network; a trial that would not go on.
    let one = "--resume one/checkpoints/last.safetensors";
    let (_, line) = complaint(run(&data, &format!("{one} --epochs 2 --out two")));
    assert!(line.contains("holds a run's checkpoints"), "{line}");
    complaint(run(&data, "--resume last --out two --stem cifar"));
    let (_, line) = complaint(run(&data, "--resume last --out two --dev-run 1"));
    assert!(line.contains("leave out --resume"), "{line}");
    assert_eq!((file("two/metrics.csv"), file("two/checkpoints/last.safetensors")), before);

    good(run(&data, &format!("{one} --epochs 2 --out three")));
    assert_eq!(last(&data.path().join("three")).0.position.epoch, 2);
    assert_eq!(last(&data.path().join("one")).0.position.epoch, 1);
}

#[test]
fn adapted_weights_are_scored_shown_and_gone_on_from() {
    let data = shapes(24, 12);
    let stdout = good(run(&data, &format!("{SMALL} --lora 2 --freeze-norm --out out")));
    let line = stdout.lines().next().unwrap();
    let checkpoint = "out/checkpoints/last.safetensors";
    let scored =
        good(other(&data, &format!("eval --device cpu --batch-size 8 --checkpoint {checkpoint}")));
    let mut lines = scored.lines();
    let first = lines.next().unwrap();
    for key in ["valid_loss", "valid_acc"] {
        assert!((told(first, key) - told(line, key)).abs() < 2e-4, "{first} {line}");
    }
    assert_eq!(told(first, "samples"), 12.0);
    assert!(lines.next().unwrap().starts_with("class ") && lines.count() == 10, "{scored}");

    let args = format!(
        "predict --device cpu --top 2 --json --checkpoint {checkpoint} valid/0.jpg none.jpg"
    );
    let output = other(&data, &args);
    assert_eq!(output.status.code(), Some(1));
    assert!(stderr(&output).contains("none.jpg: cannot read"));
    let told: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    let p = [0, 1].map(|place| told["classes"][place]["p"].as_f64().unwrap());
    assert!(told["path"] == "valid/0.jpg" && p[0] >= p[1] && p[0] < 1.0, "{told}");

    // Weights that another run starts from are those with the adapters in them: the same scores.
    let args = format!("--weights {checkpoint} --lr 0 --unfreeze last --freeze-norm --out on");
    let output = run(&data, &format!("{SMALL} {args}"));
    assert!(stderr(&output).contains("note: 122 tensors taken\n"), "{}", stderr(&output));
    let on = good(output);
    let valid_loss = |text: &str| crate::program::told(text.lines().next().unwrap(), "valid_loss");
    assert!((valid_loss(&on) - valid_loss(&stdout)).abs() < 2e-4, "{on} {stdout}");

    // Plain weights come of merging, and the other command says so.
    let export = format!("export-weights --checkpoint {checkpoint} --to to.safetensors");
    let (_, line) = complaint(other(&data, &export));
    assert!(line.contains("`forebay merge-lora` merges them"), "{line}");

    // One changed value is told, whatever reads it.
    let mut bytes = fs::read(data.path().join(checkpoint)).unwrap();
    let place = bytes.len() - 1000;
    bytes[place] ^= 1;
    let damaged = data.path().join("damaged.safetensors");
    fs::write(&damaged, bytes).unwrap();
    assert!(Checkpoint::read(&damaged).is_err() && Meta::peek(&damaged).is_some());
    for output in [
        other(&data, "eval --device cpu --checkpoint damaged.safetensors"),
        other(&data, "export-weights --checkpoint damaged.safetensors --to to.safetensors"),
        other(&data, "merge-lora --checkpoint damaged.safetensors --to to.safetensors"),
        run(&data, "--weights damaged.safetensors"),
    ] {
        let (_, line) = complaint(output);
        assert!(line.contains("its checksum is another"), "{line}");
    }
}

#[test]
fn a_run_that_cannot_begin_leaves_nothing() {
    let data = shapes(4, 2);
    for (args, expected) in [
        ("--precision 16-mixed", "on the CPU use bf16-mixed"),
        ("--optimizer sgd --momentum 0 --nesterov", "momentum"),
        ("--schedule step --step-epochs 0", "step_epochs is 0"),
        ("--lora 4 --unfreeze last", "leave out --unfreeze"),
        ("--early-stop valid_acc", "needs validation samples"),
    ] {
        if args.contains("early-stop") {
            fs::remove_dir_all(data.path().join("valid")).unwrap();
        }
        let (_, line) = complaint(run(&data, args));
        assert!(line.contains(expected), "{args}: {line}");
        let runs = data.path().join("runs/resnet18");
        assert!(!runs.exists() || names(&runs).is_empty(), "{args}: {:?}", names(&runs));
    }
}

#[test]
fn a_warm_up_in_epochs_counts_their_own_steps() {
    // 4 batches an epoch: a step each, then two each.
    let data = shapes(32, 2);
    let args = "--batch-size 8 --torch-threads 1 --epochs 3 --accumulate 1:1,2:2 --warmup-epochs 2 \
                --log-every 1 --lr 0.006 --out out";
    good(run(&data, args));
    let text = fs::read_to_string(data.path().join("out/metrics.csv")).unwrap();
    let mut lines = text.lines().skip(1).map(|line| line.split(',').collect::<Vec<_>>());
    let mut rates: Vec<(u64, String)> =
        lines.by_ref().map(|row| (row[1].parse().unwrap(), row[2].to_string())).collect();
    rates.dedup();
    let told: Vec<f64> = rates.iter().map(|(_, rate)| rate.parse().unwrap()).collect();
    let expected = [0.001, 0.002, 0.003, 0.004, 0.005, 0.006, 0.006, 0.006];
    assert!(told.iter().zip(expected).all(|(a, b)| (a - b).abs() < 1e-12), "{told:?}");
    assert_eq!(told.len(), 8);
}

#[test]
fn going_back_loses_nothing() {
    let data = shapes(16, 8);
    let checkpoints = data.path().join("out/checkpoints");
    let settings = "--batch-size 8 --torch-threads 1 --epochs 2 --save-top-k 2 --out out";
    good(run(&data, settings));
    let before = last(&data.path().join("out")).1;
    let mut names = names(&checkpoints);
    names.retain(|name| name.starts_with("epoch=1-"));
    let output = run(&data, &format!("--resume out/checkpoints/{}", names[0]));
    let told = stderr(&output);
    good(output);
    assert!(told.contains("steps 2 to 4 are done anew; out/checkpoints/until-step=4"), "{told}");
    let kept = Checkpoint::read(&checkpoints.join("until-step=4.safetensors")).unwrap();
    assert!(same(&kept.tensors().unwrap(), &before));
    assert!(same(&last(&data.path().join("out")).1, &before), "the same steps again");
    assert!(data.path().join("out/metrics-until-step=4.csv").exists());
}

#[test]
fn a_class_a_folder_needs_no_list() {
    let data = shapes(12, 4);
    for split in ["train", "valid"] {
        let dir = data.path().join(split);
        let list = fs::read_to_string(dir.join("labels.txt")).unwrap();
        for line in list.lines() {
            let (name, label) = line.split_once(' ').unwrap();
            fs::create_dir_all(dir.join(label)).unwrap();
            fs::rename(dir.join(name), dir.join(label).join(name)).unwrap();
        }
        fs::remove_file(dir.join("labels.txt")).unwrap();
        // Both need the same classes.
        (0..10).for_each(|label| fs::create_dir_all(dir.join(label.to_string())).unwrap());
    }
    let output = run(&data, "--batch-size 4 --torch-threads 1 --out out");
    let told = stderr(&output);
    assert!(good(output).contains("valid_acc="));
    assert!(told.contains("forebay: classes: 0 0, 1 1, 2 2"), "{told}");
    let scored = other(&data, "eval --device cpu --checkpoint out/checkpoints/last.safetensors");
    assert!(good(scored).contains("samples=4"));
}
