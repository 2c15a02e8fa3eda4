//! What tests of faults share: an end to every wait, a disk that is full, and a process that may not
//! do everything.
#![allow(dead_code)] // Each binary uses a part.

use rustix::process::{Pid, Signal, kill_process};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::Duration;
use std::{env, fs, thread};

/// After this long something hangs, however busy the machine is.
const PATIENCE: Duration = Duration::from_secs(120);

/// Runs `command` to its end.
pub(crate) fn finish(command: &mut Command) -> Output {
    let command = command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    wait(command.spawn().unwrap())
}

/// Waits for `child`. One that hangs is killed, and fails the test.
pub(crate) fn wait(child: Child) -> Output {
    let process = Pid::from_child(&child);
    let (send, ended) = channel();
    thread::spawn(move || send.send(child.wait_with_output()));
    match ended.recv_timeout(PATIENCE) {
        Ok(output) => output.unwrap(),
        Err(_) => {
            let _ = kill_process(process, Signal::KILL);
            panic!("a process hangs");
        }
    }
}

/// Runs `f`, which must come to its end.
pub(crate) fn ends<R: Send + 'static>(f: impl FnOnce() -> R + Send + 'static) -> R {
    let (send, ended) = channel();
    let thread = thread::spawn(move || drop(send.send(f())));
    match ended.recv_timeout(PATIENCE) {
        Ok(result) => result,
        Err(RecvTimeoutError::Timeout) => panic!("it hangs"),
        Err(RecvTimeoutError::Disconnected) => {
            std::panic::resume_unwind(thread.join().expect_err("it sent nothing"))
        }
    }
}

/// Waits until `happened`, which something else is about to bring about.
pub(crate) fn until(happened: impl Fn() -> bool) {
    let start = std::time::Instant::now();
    while !happened() {
        assert!(start.elapsed() < PATIENCE, "it never happens");
        thread::sleep(Duration::from_millis(1));
    }
}

/// The one line of an error, with its exit status.
pub(crate) fn complaint(output: &Output) -> (Option<i32>, String) {
    let text = String::from_utf8_lossy(&output.stderr);
    let lines: Vec<_> = text.lines().filter(|line| line.contains("error")).collect();
    assert_eq!(lines.len(), 1, "{:?}: {text}", output.status);
    (output.status.code(), lines[0].to_string())
}

/// Names of what lies in `dir`, hidden or not, in order.
pub(crate) fn names(dir: &Path) -> Vec<String> {
    let entries = dir.read_dir().unwrap().map(|entry| entry.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

/// A FIFO that nobody writes to.
pub(crate) fn fifo(path: &Path) {
    let (cwd, kind) = (rustix::fs::CWD, rustix::fs::FileType::Fifo);
    rustix::fs::mknodat(cwd, path, kind, 0o600.into(), 0).unwrap();
}

/// A command that runs `program` without the right to pass over file modes, which root has.
pub(crate) fn unprivileged(program: impl AsRef<OsStr>) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.arg("--bounding-set=-dac_override,-dac_read_search").arg(program);
    command
}

/// Tells a test that it runs in a process of its own.
const ALONE: &str = "FOREBAY_TEST_ALONE";

/// Runs the rest of the test `name` in a process of its own.
pub(crate) fn alone(name: &str, body: impl FnOnce()) {
    if env::var_os(ALONE).is_some() {
        return body();
    }
    again(Command::new(env::current_exe().unwrap()).env(ALONE, "1"), name);
}

/// Runs the test `name` by `command`, which this binary's other arguments follow.
fn again(command: &mut Command, name: &str) {
    let Output { status, stdout, stderr } = finish(command.args(["--exact", name, "--nocapture"]));
    let text = [String::from_utf8_lossy(&stdout), String::from_utf8_lossy(&stderr)].concat();
    assert!(status.success() && text.contains("1 passed"), "{status}: {text}");
}

/// Tells a test that it runs a second time, and where its disk is.
const DISK: &str = "FOREBAY_TEST_DISK";

/// Runs the rest of the test `name` in a process whose small disk, of `size`, is the directory that
/// `body` gets. Where a system lets nobody mount, says so aloud.
pub(crate) fn on_a_small_disk(name: &str, size: &str, body: impl FnOnce(&Path)) {
    if let Some(dir) = env::var_os(DISK) {
        return body(&PathBuf::from(dir));
    }
    let dir = tempfile::tempdir().unwrap();
    // As root; and as anyone, where the system allows user namespaces.
    let ways: [&[&str]; 2] = [&["--mount"], &["--map-root-user", "--mount"]];
    let mount = "mount -t tmpfs -o size=$1 forebay \"$0\" && shift && exec \"$@\"";
    let command = |way: &[&str]| {
        let mut command = Command::new("unshare");
        command.args(way).args(["sh", "-c", mount]).arg(dir.path()).arg(size);
        command
    };
    let works = |way: &&&[&str]| {
        command(way).arg("true").output().is_ok_and(|output| output.status.success())
    };
    let Some(way) = ways.iter().find(works) else {
        return eprintln!("skipped: this system lets nobody mount a small disk");
    };
    again(command(way).arg(env::current_exe().unwrap()).env(DISK, dir.path()), name);
}

/// Gives the disk at `dir` another size.
pub(crate) fn resize_disk(dir: &Path, size: &str) {
    let options = format!("remount,size={size}");
    assert!(Command::new("mount").args(["-o", &options]).arg(dir).status().unwrap().success());
}

/// Every file of `dir` with its content.
pub(crate) fn contents(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let read = |name: String| {
        let bytes = fs::read(dir.join(&name)).unwrap();
        (name, bytes)
    };
    names(dir).into_iter().map(read).collect()
}
