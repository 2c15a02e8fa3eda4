//! What `bundle/run.sh` makes of a machine, shown on a bundle whose programs are a few lines of shell.
//! `make gpu-bundle` runs the real one.

use serde_json::Value;
use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

const NO_GPU: &str = r#"{"gpu": null, "reason": "no NVIDIA driver"}"#;
const GPU: &str =
    r#"{"gpu": {"name": "Drawn", "capability": [9, 0], "memory_bytes": 1, "cuda": "13.0"}}"#;

/// Held while programs are written and while a process is started: one that starts in between would
/// inherit the file that is being written, and for as long nobody can run it ("text file busy").
static WRITING: Mutex<()> = Mutex::new(());

fn output(command: &mut Command) -> std::io::Result<Output> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let child = {
        let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        command.spawn()?
    };
    child.wait_with_output()
}

/// A bundle in a folder of its own.
struct Bundle(tempfile::TempDir);

impl Bundle {
    /// Its program `gpu` prints `gpu`; `device` lists two tests, and runs `tests` as those.
    fn new(gpu: &str, tests: &str) -> Bundle {
        let _writing = WRITING.lock().unwrap_or_else(PoisonError::into_inner);
        let bundle = Bundle(tempfile::tempdir().unwrap());
        let root = Path::new(env!("CARGO_MANIFEST_DIR"));
        copy(&root.join("bundle"), bundle.0.path());
        copy(&root.join("pipelines"), &bundle.path("pipelines"));
        let arch = std::env::consts::ARCH;
        let manifest =
            format!(r#"{{"version": "0", "commit": "0", "arch": "{arch}", "glibc": "2.0"}}"#);
        fs::write(bundle.path("manifest.json"), manifest).unwrap();
        fs::create_dir(bundle.path("bin")).unwrap();
        let list = r#"[ "$1" != --list ] || { echo "one: test"; echo "two: test"; exit; }"#;
        bundle.program("gpu", &format!("echo '{gpu}'"));
        bundle.program("device", &format!("{list}\n{tests}"));
        bundle.program("forebay", r#"[ "$1" != doctor ] || echo "{}""#);
        bundle
    }

    fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    fn program(&self, name: &str, body: &str) {
        let path = self.path("bin").join(name);
        fs::write(&path, format!("#!/bin/sh\n{body}\n")).unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    }

    /// Runs it; the exit status and the report.
    fn run(&self, arguments: &[&str], required: bool) -> (i32, Report) {
        let mut command = Command::new(self.path("run.sh"));
        command.args(arguments).env("FOREBAY_REQUIRE_GPU", if required { "1" } else { "0" });
        let output = output(&mut command).unwrap();
        assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
        let json = fs::read(self.path("report.json")).unwrap();
        let report = Report(serde_json::from_slice(&json).unwrap());
        let page = fs::read_to_string(self.path("report.md")).unwrap();
        assert!(page.contains(report.verdict()), "{page}");
        (output.status.code().unwrap(), report)
    }
}

fn copy(from: &Path, to: &Path) {
    fs::create_dir_all(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, to) = entry.map(|e| (e.path(), to.join(e.file_name()))).unwrap();
        if path.is_dir() {
            copy(&path, &to);
        } else {
            fs::copy(&path, &to).unwrap();
        }
    }
}

struct Report(Value);

impl Report {
    fn verdict(&self) -> &str {
        self.0["verdict"].as_str().unwrap()
    }

    fn part(&self, name: &str) -> &str {
        let parts = self.0["parts"].as_array().unwrap();
        let part = parts.iter().find(|part| part["name"] == name);
        part.unwrap_or_else(|| panic!("no part {name}"))["outcome"].as_str().unwrap()
    }

    /// The outcome of a test on a device.
    fn test(&self, name: &str, device: &str) -> &str {
        let tests = self.0["tests"].as_array().unwrap();
        let test = tests.iter().find(|test| test["name"] == name && test["device"] == device);
        test.unwrap_or_else(|| panic!("no test {name} on {device}"))["outcome"].as_str().unwrap()
    }
}

const ON_GPU: &str = "device tests on cuda:0";

/// Both tests pass, and the first prints what nvJPEG did.
const GREEN: &str = r#"
echo "    every kind: nvJPEG differs by 3 at most, 0.2500 on average"
echo "$2 one ... ok (0.1 s)"
echo "$2 two ... ok (0.2 s)"
echo "$2: 2 passed, 0 failed""#;

fn python() -> bool {
    let found = output(Command::new("python3").arg("--version")).is_ok();
    if !found {
        eprintln!("skipped: needs python3");
    }
    found
}

#[test]
fn without_a_gpu() {
    if !python() {
        return;
    }
    let bundle = Bundle::new(NO_GPU, GREEN);
    // Without the parts that need data sets, which a few lines of shell do not draw.
    let (status, report) = bundle.run(&["--quick"], false);
    assert_eq!(report.part(ON_GPU), "no device");
    assert_eq!(report.part("kernels"), "no device");
    assert_eq!(report.part("trainer on cuda:0"), "no device");
    assert_eq!(report.part("loader on cpu"), "missing");
    assert_eq!(report.part("device tests on cpu"), "ok");
    assert_eq!(report.test("two", "soft"), "ok");
    assert!(report.verdict().starts_with("no device"), "{}", report.verdict());
    assert_eq!(status, 0);
    let (status, report) = bundle.run(&["--quick"], true);
    assert!(report.verdict().contains("FOREBAY_REQUIRE_GPU=1"), "{}", report.verdict());
    assert_eq!(status, 1);
}

#[test]
fn with_a_gpu() {
    if !python() {
        return;
    }
    let (status, report) = Bundle::new(GPU, GREEN).run(&["--quick"], true);
    assert_eq!(report.part(ON_GPU), "ok");
    assert_eq!(report.test("one", "cuda:0"), "ok");
    assert_eq!(report.0["nvjpeg"][0]["largest"], 3);
    assert_eq!(report.0["nvjpeg"][0]["mean"], 0.25);
    // What is not there is named and takes nothing from the rest.
    assert_eq!(report.part("trainer on cuda:0"), "missing");
    assert!(report.verdict().contains("trainer"), "{}", report.verdict());
    // The stand-in for `forebay` writes no arrays and times nothing.
    assert_eq!(report.part("nvJPEG against the CPU decoder"), "failed");
    assert_eq!(status, 1);
}

#[test]
fn tests_that_fail_or_die() {
    if !python() {
        return;
    }
    let fails = r#"echo "$2 one ... ok (0.1 s)"; echo "it says why"; echo "$2 two ... FAILED (0.2 s)"
echo "$2: 1 passed, 1 failed"; exit 1"#;
    let (status, report) = Bundle::new(NO_GPU, fails).run(&["--quick"], false);
    assert_eq!(report.test("one", "cpu"), "ok");
    assert_eq!(report.test("two", "cpu"), "FAILED");
    assert_eq!(report.0["tests"][1]["said"][0], "it says why");
    assert!(report.verdict().starts_with("FAILED") && report.verdict().contains("two on cpu"));
    assert_eq!(status, 1);

    let dies = r#"echo "$2 one ... ok (0.1 s)"; kill -SEGV $$"#;
    let (status, report) = Bundle::new(NO_GPU, dies).run(&["--quick"], false);
    assert_eq!(report.test("two", "cpu"), "died");
    assert_eq!(status, 1);
}

/// Whatever hangs is stopped, with its children, and named; what is behind it is not run.
#[test]
fn tests_that_hang() {
    if !python() {
        return;
    }
    let hangs = r#"echo "$2 one ... ok (0.1 s)"; sleep 600 & wait"#;
    let bundle = Bundle::new(NO_GPU, hangs);
    let start = Instant::now();
    let (status, report) = bundle.run(&["--quick", "--limit", "3"], false);
    assert!(start.elapsed() < Duration::from_secs(120), "it was not stopped");
    assert_eq!(report.part("device tests on cpu"), "stopped");
    assert_eq!(report.test("two", "cpu"), "stopped");
    assert_eq!(report.part("device tests on the software driver"), "not run");
    assert_eq!(status, 1);
}

#[test]
fn a_python_that_is_missing_is_named() {
    let bundle = Bundle::new(NO_GPU, GREEN);
    let tools = tempfile::tempdir().unwrap();
    for tool in ["dirname", "sh"] {
        let path = ["/bin", "/usr/bin"].map(|dir| Path::new(dir).join(tool));
        let path = path.iter().find(|path| path.exists()).unwrap();
        std::os::unix::fs::symlink(path, tools.path().join(tool)).unwrap();
    }
    let run = output(Command::new(bundle.path("run.sh")).env("PATH", tools.path())).unwrap();
    assert_eq!(run.status.code(), Some(1));
    assert!(String::from_utf8_lossy(&run.stderr).contains("no python3"), "{run:?}");
}
