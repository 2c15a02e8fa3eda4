//! What goes wrong around a run, made to happen: full disks, signals and kills at each phase, files
//! that never end. `tests/faults` has the same for the loader.

use crate::fault::{
    complaint, fifo, finish, names, on_a_small_disk, resize_disk, unprivileged, until, wait,
};
use crate::program::{command, good, last, run, same, shapes};
use crate::train::checkpoint::Checkpoint;
use crate::train::log::csv;
use assert_cmd::cargo::cargo_bin;
use rustix::process::{Pid, Signal, kill_process};
use std::fs::{self, Permissions};
use std::io::{BufRead, BufReader};
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

/// Two steps an epoch, and 45 MB a checkpoint, since the optimiser keeps nothing.
const PLAIN: &str = "--batch-size 8 --torch-threads 1 --optimizer sgd --momentum 0 --save-top-k 0 \
                     --no-sanity --log-every 1";

fn stderr(output: &Output) -> String {
    String::from_utf8_lossy(&output.stderr).into_owned()
}

#[test]
fn a_full_disk_keeps_the_checkpoint_before() {
    on_a_small_disk("faults::a_full_disk_keeps_the_checkpoint_before", "70m", |disk| {
        let data = shapes(16, 4);
        let out = disk.join("out");
        let args = format!("{PLAIN} --save-every 1 --epochs 2 --out {}", out.display());
        let (status, line) = complaint(&finish(&mut command(data.path(), &args)));
        assert_eq!(status, Some(1), "{line}");
        let full = "last.safetensors: cannot write: no space left on device";
        assert!(line.contains("out/checkpoints/") && line.ends_with(full), "{line}");
        assert_eq!(names(&out.join("checkpoints")), ["last.safetensors"]);
        assert_eq!(last(&out).0.global_step, 0);
        // The same run, once there is room.
        resize_disk(disk, "200m");
        let args = format!("--resume last --out {}", out.display());
        assert!(good(run(&data, &args)).contains("epoch 2/2"));
        assert_eq!(last(&out).0.position.epoch, 2);
    });
}

#[test]
fn a_full_disk_costs_the_logs_and_not_the_run() {
    on_a_small_disk("faults::a_full_disk_costs_the_logs_and_not_the_run", "4k", |disk| {
        let data = shapes(32, 8);
        let train = |out: &str| {
            let (out, checkpoints) = (disk.join(out), data.path().join(out));
            fs::create_dir_all(&checkpoints).unwrap();
            fs::create_dir(&out).unwrap();
            symlink(checkpoints, out.join("checkpoints")).unwrap();
            let args = format!("{PLAIN} --epochs 2 --out {}", out.display());
            let output = finish(&mut command(data.path(), &args));
            let text = stderr(&output);
            good(output);
            assert_eq!(last(&out).0.position.epoch, 2);
            assert!(!names(&out).iter().any(|name| name.ends_with(".partial")), "{text}");
            let full: Vec<_> = text.lines().filter(|line| line.contains("no space left")).collect();
            assert_eq!(full.len(), 1, "told once: {text}");
            full[0].to_string()
        };
        let line = train("none");
        assert!(line.starts_with("forebay: note: there will be no logs: "), "{line}");
        assert!(line.contains("none/metrics.csv: cannot write: no space left"), "{line}");
        // Room for settings and metrics, and not for pictures.
        resize_disk(disk, "40k");
        let line = train("some");
        assert!(line.starts_with("forebay: note: a part of the logs is missing: "), "{line}");
        assert!(line.contains("some/events.out.tfevents."), "{line}");
        let rows = csv::read(&disk.join("some/metrics.csv")).unwrap();
        assert_eq!(rows.len(), 2 * (4 + 1), "each step and each epoch");
    });
}

/// Starts a run, sends `signal` once its stderr has a line with `text`, and waits for its end.
fn signalled(data: &Path, args: &str, text: &str, signal: Signal) -> Output {
    let mut command = command(data, args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    assert!(lines.any(|line| line.contains(text)), "no line with {text}");
    kill_process(Pid::from_child(&child), signal).unwrap();
    // Its stderr must not fill up while it ends.
    thread::spawn(move || lines.count());
    wait(child)
}

#[test]
fn sigterm_saves_and_tells_so_by_its_status() {
    let data = shapes(64, 400);
    // In training; and behind the last step, in validation.
    for (place, text) in [("train", "1/1 training 2/8"), ("valid", "1/1 training 8/8")] {
        let out = data.path().join(place);
        let args = format!("{PLAIN} --epochs 1 --out {place}");
        let output = signalled(data.path(), &args, text, Signal::TERM);
        assert_eq!(output.status.code(), Some(143), "{place}");
        let stdout = String::from_utf8(output.stdout).unwrap();
        assert!(stdout.contains("stopped after step ") && stdout.contains("--resume "), "{stdout}");
        let position = last(&out).0.position;
        assert!(position.epoch == 0 && position.samples >= 16, "{position:?}");
        assert_eq!(position.samples == 64, place == "valid", "{position:?}");
        assert_eq!(names(&out.join("checkpoints")), ["last.safetensors"]);
    }
}

#[test]
fn a_signal_while_a_checkpoint_is_written_waits_for_it() {
    let data = shapes(16, 2);
    let checkpoints = data.path().join("out/checkpoints");
    let (partial, last_path) = (".last.safetensors.partial", checkpoints.join("last.safetensors"));
    let args = format!("{PLAIN} --epochs 1000 --save-every 1 --out out");
    let child = command(data.path(), &args).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let child = child.unwrap();
    // Not the probe at the start.
    until(|| last_path.exists());
    until(|| checkpoints.join(partial).exists());
    kill_process(Pid::from_child(&child), Signal::INT).unwrap();
    let output = wait(child);
    assert_eq!(output.status.code(), Some(130));
    assert_eq!(names(&checkpoints), ["last.safetensors"]);
    let (meta, _) = last(&data.path().join("out"));
    let stdout = String::from_utf8(output.stdout).unwrap();
    let told = match meta.position.samples / 8 {
        0 => format!("stopped after epoch {}", meta.position.epoch),
        step => format!("stopped after step {step} of epoch {}", meta.position.epoch + 1),
    };
    assert!(stdout.contains(&told), "{told}: {stdout}");
}

#[test]
fn a_second_signal_ends_at_once() {
    // One step of some seconds.
    let data = shapes(512, 1);
    let args = "--batch-size 512 --torch-threads 1 --no-sanity --save-top-k 0 --out out";
    let mut command = command(data.path(), args);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(child.stderr.take().unwrap()).lines().map(Result::unwrap);
    until(|| data.path().join("out/checkpoints/last.safetensors").exists());
    let process = Pid::from_child(&child);
    kill_process(process, Signal::INT).unwrap();
    assert!(lines.any(|line| line.contains("finishing this step, then saving")));
    kill_process(process, Signal::INT).unwrap();
    let output = wait(child);
    assert_eq!(output.status.code(), Some(130));
    assert!(output.stdout.is_empty(), "it was not finished");
    assert_eq!(last(&data.path().join("out")).0.global_step, 0);
}

#[test]
fn a_signal_at_the_start_leaves_nothing_in_the_way() {
    let data = shapes(16, 2);
    for milliseconds in [0, 20, 200] {
        let args = format!("{PLAIN} --out out-{milliseconds}");
        let mut command = command(data.path(), &args);
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        thread::sleep(Duration::from_millis(milliseconds));
        kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
        let status = wait(child).status;
        // By the signal itself until there is something to save.
        assert!(status.signal() == Some(15) || status.code() == Some(143), "{status}");
    }
    let out = data.path().join("out-0/checkpoints/last.safetensors");
    let again = if out.exists() { "--resume last --out out-0" } else { "--out out-0" };
    good(run(&data, &format!("{PLAIN} {again}")));
}

/// A few kills here; `make test-kill` asks for more.
#[test]
fn a_run_killed_within_a_checkpoint_goes_on_to_the_same_weights() {
    let kills = std::env::var("FOREBAY_KILLS").map_or(2, |kills| kills.parse::<u64>().unwrap());
    let kills = kills.max(2);
    let data = shapes(32, 2);
    let args = format!("{PLAIN} --save-every 1 --seed 5 --epochs {}", 1 + kills);
    good(run(&data, &format!("{args} --out alone")));
    let checkpoints = data.path().join("killed/checkpoints");
    let last_path = checkpoints.join("last.safetensors");
    let partial = checkpoints.join(".last.safetensors.partial");
    let mut steps = Vec::new();
    for kill in 0..kills {
        let args = match kill {
            0 => format!("{args} --out killed"),
            _ => "--resume last --out killed".to_string(),
        };
        let begun =
            if kill == 0 { None } else { fs::metadata(&last_path).unwrap().modified().ok() };
        let mut command = command(data.path(), &args);
        let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
        // The first checkpoint of this process, and then the next one in the making.
        until(|| fs::metadata(&last_path).is_ok_and(|file| file.modified().ok() != begun));
        until(|| fs::metadata(&partial).is_ok_and(|file| file.len() > 0));
        thread::sleep(Duration::from_millis(7 * (kill % 5)));
        child.kill().unwrap();
        assert_eq!(child.wait().unwrap().signal(), Some(9), "it was at work");
        steps.push(Checkpoint::read(&last_path).unwrap().meta.global_step);
    }
    assert!(steps.is_sorted() && steps.last() > Some(&0), "{steps:?}");
    println!("killed within a checkpoint behind steps {steps:?}");
    good(run(&data, "--resume last --out killed"));
    assert_eq!(names(&checkpoints), ["last.safetensors"]);
    let last = |out: &str| last(&data.path().join(out)).1;
    assert!(same(&last("killed"), &last("alone")));
}

/// Each file that the programs are told to read may be a FIFO that nobody writes to.
#[test]
fn nothing_waits_for_a_fifo() {
    let data = shapes(4, 2);
    fifo(&data.path().join("fifo.png"));
    let train = format!("train --data . --device cpu {PLAIN}");
    for args in [
        &format!("{train} --resume fifo.png"),
        &format!("{train} --weights fifo.png"),
        &format!("{train} --config fifo.png"),
        &format!("{train} --pipeline fifo.png"),
        &format!("{train} --valid-pipeline fifo.png"),
        "predict --device cpu --checkpoint fifo.png train/0.jpg",
        "eval --device cpu --data . --checkpoint fifo.png",
        "export-weights --checkpoint fifo.png --to to.safetensors",
        "merge-lora --checkpoint fifo.png --to to.safetensors",
    ] {
        let mut command = Command::new(cargo_bin("forebay-train"));
        command.args(args.split_whitespace()).current_dir(data.path());
        let (status, line) = complaint(&finish(&mut command));
        let told = "fifo.png: is a FIFO, not a regular file";
        assert!(status == Some(1) && line.contains(told), "{args}: {line}");
    }
    // What a run has to go on with, and a picture.
    good(run(&data, &format!("{PLAIN} --out out")));
    let metrics = data.path().join("out/metrics.csv");
    fs::remove_file(&metrics).unwrap();
    fifo(&metrics);
    let output = finish(&mut command(data.path(), "--resume last --epochs 2 --out out"));
    let text = stderr(&output);
    good(output);
    assert!(text.contains("there will be no logs: out/metrics.csv: is a FIFO"), "{text}");
    let args =
        "predict --device cpu --checkpoint out/checkpoints/last.safetensors fifo.png train/0.jpg";
    let mut command = Command::new(cargo_bin("forebay-train"));
    command.args(args.split_whitespace()).current_dir(data.path());
    let output = finish(&mut command);
    let (status, line) = complaint(&output);
    assert!(status == Some(1) && line.contains("fifo.png: is a FIFO"), "{line}");
    assert!(String::from_utf8(output.stdout).unwrap().starts_with("train/0.jpg: "));
}

#[test]
fn a_right_that_is_missing_is_told() {
    let data = shapes(4, 2);
    let checkpoints = data.path().join("out/checkpoints");
    fs::create_dir_all(&checkpoints).unwrap();
    let mode = |mode| fs::set_permissions(&checkpoints, Permissions::from_mode(mode)).unwrap();
    let run = |args: &str| {
        let mut command = unprivileged(cargo_bin("forebay-train"));
        command.args(["train", "--data", ".", "--device", "cpu"]).args(args.split_whitespace());
        complaint(&finish(command.current_dir(data.path())))
    };
    mode(0o500);
    let (status, line) = run(&format!("{PLAIN} --out out"));
    let told = "out/checkpoints: cannot write to the directory: permission denied";
    assert!(status == Some(1) && line.contains(told), "{line}");
    mode(0o700);
    let last = checkpoints.join("last.safetensors");
    fs::write(&last, "").unwrap();
    fs::set_permissions(&last, Permissions::from_mode(0o000)).unwrap();
    let (status, line) = run("--resume last --out out");
    let told = "last.safetensors: cannot read: permission denied";
    assert!(status == Some(1) && line.contains(told), "{line}");
}

/// As when a terminal is closed.
#[test]
fn a_run_that_nobody_listens_to_is_done_all_the_same() {
    let data = shapes(16, 2);
    let mut command = command(data.path(), &format!("{PLAIN} --epochs 2 --out out"));
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert!(wait(child).status.success());
    let (meta, _) = last(&data.path().join("out"));
    assert_eq!(meta.position.epoch, 2);
    assert!(!csv::read(&data.path().join("out/metrics.csv")).unwrap().is_empty());
}
