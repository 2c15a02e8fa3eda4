//! A worker from outside: starts it, sees that it goes on, and keeps the input that ended it.

use crate::targets::Target;
use crate::worker::Job;
use std::fmt;
use std::fs::{self, File};
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use xxhash_rust::xxh3::xxh3_64;

/// An input that takes so long is a hang. Bodies take well under a second.
const HANG: Duration = Duration::from_secs(20);
/// A line now and then, in long runs.
const SAY: Duration = Duration::from_secs(60);

/// What a worker did.
pub(crate) struct Tally {
    pub(crate) executions: u64,
    corpus: usize,
    slowest: Duration,
    time: Duration,
}

impl fmt::Display for Tally {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Tally { executions, corpus, .. } = self;
        let rate = *executions as f64 / self.time.as_secs_f64();
        let slowest = self.slowest.as_secs_f64() * 1e3;
        write!(f, "{executions:>12} {rate:>9.0} {corpus:>7} {slowest:>7.1} ms")
    }
}

/// Runs a worker to its end.
///
/// # Errors
/// What was found, and where its input is kept.
pub(crate) fn watch(
    target: &Target,
    executions: u64,
    time: Duration,
    corpus: Option<&Path>,
) -> Result<Tally, String> {
    // In memory where that can be, since most bodies write what they read.
    let memory = Path::new("/dev/shm");
    let root = if memory.is_dir() { memory.to_path_buf() } else { std::env::temp_dir() };
    let folder = tempfile::Builder::new().prefix("forebay-fuzz-").tempdir_in(root).unwrap();
    let record = folder.path().join("record");
    let job = Job { record: record.clone(), executions, time, corpus: corpus.map(Into::into) };
    let begun = Instant::now();
    let mut worker = Command::new(std::env::current_exe().expect("the program has a path"))
        .args(["--worker", target.name])
        .args(job.words())
        .env("TMPDIR", folder.path())
        .stdout(Stdio::piped())
        .spawn()
        .expect("this program starts again");
    wait(&mut worker, &record, target.name).map_err(|what| {
        let kept = keep(&record, target.name);
        let again = "cargo test --release --features train --test fuzz -- --input";
        format!("{what}; once more by: {again} {kept} {}", target.name)
    })?;
    let mut said = String::new();
    worker.stdout.take().expect("piped").read_to_string(&mut said).unwrap();
    let [executions, corpus, slowest] = said.split_whitespace().collect::<Vec<_>>()[..] else {
        return Err(format!("a worker that ends with {said:?}"));
    };
    Ok(Tally {
        executions: executions.parse().unwrap(),
        corpus: corpus.parse().unwrap(),
        slowest: Duration::from_secs_f64(slowest.parse().unwrap()),
        time: begun.elapsed(),
    })
}

/// Until the worker is done; what became of it where it is not well.
fn wait(worker: &mut Child, record: &Path, name: &str) -> Result<(), String> {
    let mut last = (0, Instant::now());
    let mut said = Instant::now();
    loop {
        if let Some(status) = worker.try_wait().expect("the worker is ours") {
            return if status.success() { Ok(()) } else { Err(format!("{status}, see above")) };
        }
        let now = File::open(record).and_then(|file| {
            let mut count = [0; 8];
            file.read_exact_at(&mut count, 0).map(|()| u64::from_le_bytes(count))
        });
        let now = now.unwrap_or(0);
        if now != last.0 {
            last = (now, Instant::now());
        } else if last.1.elapsed() > HANG {
            worker.kill().and_then(|()| worker.wait()).expect("the worker is ours");
            return Err(format!("an input that takes more than {} s", HANG.as_secs()));
        }
        if said.elapsed() > SAY {
            said = Instant::now();
            println!("{name:>14} {now:>12} so far");
        }
        sleep(Duration::from_millis(20));
    }
}

/// Keeps the input in work; its path.
fn keep(record: &Path, name: &str) -> String {
    const HEAD: usize = 16;
    let told = fs::read(record).unwrap_or_default();
    let Some((head, input)) = told.split_at_checked(HEAD) else { return "nothing".into() };
    let length = u64::from_le_bytes(head[8..].try_into().expect("8 bytes")) as usize;
    let input = &input[..length.min(input.len())];
    let folder = Path::new("fuzz/artifacts").join(name);
    let path = folder.join(format!("{:016x}", xxh3_64(input)));
    fs::create_dir_all(&folder).and_then(|()| fs::write(&path, input)).expect("can be kept");
    path.display().to_string()
}
