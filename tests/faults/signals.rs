//! Signals at each phase of each command; `tests/train` has those of training.

use crate::fault::{complaint, contents, finish, names, until, wait};
use crate::{forebay, one_jpeg};
use rustix::process::{Pid, Signal, kill_process};
use std::fs;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::thread;
use std::time::Duration;

/// Starts `command`, sends `signal` once it is so far, and waits for its end.
fn signalled(command: &mut Command, signal: Signal, so_far: impl Fn() -> bool) -> Output {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    until(so_far);
    kill_process(Pid::from_child(&child), signal).unwrap();
    wait(child)
}

/// Whether `dir` has `count` files, of whatever name.
fn has(dir: &Path, count: usize) -> bool {
    dir.read_dir().is_ok_and(|entries| entries.count() >= count)
}

/// An export that nobody disturbs: what comes to lie in `part`.
fn undisturbed(args: &str, part: &str) -> Vec<(String, Vec<u8>)> {
    let dir = tempfile::tempdir().unwrap();
    assert!(finish(&mut forebay(dir.path(), args)).status.success());
    contents(&dir.path().join(part))
}

#[test]
fn an_interrupted_export_ends_whole_and_goes_on() {
    for (signal, status, part, counts) in [
        (Signal::INT, 130, "out/train", "--train 3000 --valid 3"),
        (Signal::TERM, 143, "out/valid", "--train 3 --valid 3000"),
    ] {
        let args = format!("export shapes --to out --size 64 {counts}");
        let dir = tempfile::tempdir().unwrap();
        let dir = dir.path();
        let part_dir = dir.join(part);
        let output = signalled(&mut forebay(dir, &args), signal, || has(&part_dir, 20));
        let (code, line) = complaint(&output);
        assert_eq!(code, Some(status), "{line}");
        assert!(line.contains(" of 3000 ") && line.ends_with("run it again to go on"), "{line}");
        let left = names(&part_dir);
        assert!(left.iter().all(|name| name.ends_with(".jpg")), "{left:?}");

        let output = finish(&mut forebay(dir, &args));
        let told = String::from_utf8(output.stdout).unwrap();
        let kept = format!("{part}: {} images written, {} there", 3000 - left.len(), left.len());
        assert!(output.status.success() && told.contains(&kept), "{kept}: {told}");
        assert!(contents(&part_dir) == undisturbed(&args, part));
    }
}

#[test]
fn a_killed_export_goes_on_to_the_same_bytes() {
    let args = "export shapes --to out --size 64 --train 4000 --valid 3";
    let whole = undisturbed(args, "out/train");
    let dir = tempfile::tempdir().unwrap();
    let train = dir.path().join("out/train");
    for count in [10, 300, 1000] {
        let killed = || has(&train, count);
        let output = signalled(&mut forebay(dir.path(), args), Signal::KILL, killed);
        assert_eq!(output.status.signal(), Some(9));
        // Whatever has its final name is whole; the list comes last.
        let left = contents(&train).into_iter().filter(|(name, _)| !name.ends_with(".part"));
        let left: Vec<_> = left.collect();
        assert!(left.iter().all(|file| file.0 != "labels.txt" && whole.contains(file)));
    }
    assert!(finish(&mut forebay(dir.path(), args)).status.success());
    assert!(contents(&train) == whole);
}

/// A program that is started with nohup lives on when its terminal is closed.
#[test]
fn what_was_ignored_stays_so() {
    let dir = tempfile::tempdir().unwrap();
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP && exec \"$@\"", "sh", env!("CARGO_BIN_EXE_forebay")]);
    command.args(["export", "shapes", "--to", "out", "--size", "64", "--train", "1000"]);
    let train = dir.path().join("out/train");
    let output = signalled(command.current_dir(dir.path()), Signal::HUP, || has(&train, 20));
    assert!(output.status.success(), "{:?}", output.status);
    assert!(dir.path().join("out/valid/labels.txt").exists());
}

/// These have nothing to finish, so the signal ends them, as a shell expects.
#[test]
fn others_end_at_once() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    one_jpeg(dir, 100_000, 128);
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15)] {
        for args in ["check --data .", "bench --data . --epochs 1000"] {
            let so_far = || {
                thread::sleep(Duration::from_millis(300));
                true
            };
            let output = signalled(&mut forebay(dir, args), signal, so_far);
            assert_eq!(output.status.signal(), Some(number), "{args}");
        }
    }
}

#[test]
fn a_dump_that_is_ended_leaves_no_half_array() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    one_jpeg(dir, 20_000, 64);
    for (signal, number) in [(Signal::INT, 2), (Signal::TERM, 15), (Signal::KILL, 9)] {
        let out = dir.join(format!("out-{number}"));
        let args = format!("dump --data . --out out-{number} --batch-size 64");
        let output = signalled(&mut forebay(dir, &args), signal, || has(&out, 12));
        assert_eq!(output.status.signal(), Some(number));
        let whole = |array: &str| match array {
            "images" => 128 + 64 * 3 * 64 * 64 * 4,
            _ => 128 + 64 * 8,
        };
        // A file that was not done has another name, which the next dump uses again.
        for name in names(&out).iter().filter(|name| !name.starts_with('.')) {
            let length = fs::metadata(out.join(name)).unwrap().len();
            assert_eq!(length, whole(name.split('_').next().unwrap()), "{name}");
        }
        let args = format!("{args} --batches 20");
        assert!(finish(&mut forebay(dir, &args)).status.success());
        let number = |name: &str| name.split('_').nth(1)?.get(..3)?.parse::<usize>().ok();
        let half = |name: &String| name.starts_with('.') && number(name) < Some(20);
        assert!(!names(&out).iter().any(half), "{:?}", names(&out));
        fs::remove_dir_all(out).unwrap();
    }
}
