//! The bodies of `fuzz/` without a fuzzer of its own toolchain: seeds, a corpus and mutation of both.
//!
//! Each target runs in a process of its own, so that a crash, a hang or memory without end is a
//! finding like a panic. Without `FOREBAY_FUZZ_SECONDS` that is a short run of a fixed seed; with it,
//! the time is shared out (`make fuzz`), and inputs that did something new are kept in `fuzz/corpus`.
//!
//! ```text
//! fuzz [FILTER]            targets whose name holds FILTER
//! fuzz --input FILE NAME   one body on one file: what was found, once more
//! fuzz --sources           the files that each target is about
//! ```

#[path = "../common/archive.rs"]
mod archive;
#[path = "../../fuzz/bodies/mod.rs"]
#[allow(unreachable_pub)] // Public to cargo-fuzz's targets.
mod bodies;
mod counters;
#[path = "../decoder/encode.rs"]
#[allow(dead_code)] // A part is used.
mod encode;
#[path = "../decoder/files.rs"]
#[allow(dead_code)] // A part is used.
mod files;
mod mutate;
mod pool;
mod seeds;
mod targets;
#[cfg(feature = "train")]
#[path = "../../src/train/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports)] // Parsers use a part.
mod train;
mod watch;
mod worker;

#[cfg(feature = "train")]
use forebay::*; // For the trainer, which is a part of a program.
use std::path::Path;
use std::process::ExitCode;
use std::time::Duration;
use targets::{TARGETS, Target};

/// Executions of a target in the everyday tests, the seeds among them.
const FEW: u64 = 2_000;

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let words: Vec<&str> = words.iter().map(String::as_str).collect();
    match words[..] {
        ["--worker", name, ref job @ ..] => worker::work(named(name), &worker::Job::read(job)),
        ["--input", file, name] => {
            let bytes = std::fs::read(file).expect("the file is there");
            println!("{name}: {}", (named(name).body)(&bytes));
        }
        ["--sources"] => {
            TARGETS.iter().for_each(|t| println!("{} {}", t.name, t.sources.join(" ")));
        }
        _ if words.contains(&"--list") => {
            TARGETS.iter().for_each(|target| println!("{}: test", target.name));
        }
        _ => return run(filter(&words)),
    }
    ExitCode::SUCCESS
}

fn named(name: &str) -> &'static Target {
    TARGETS.iter().find(|target| target.name == name).expect("a target of this name")
}

/// The first word that is neither an option of libtest's, which cargo's users give to every test, nor
/// the value of one.
fn filter<'a>(words: &[&'a str]) -> Option<&'a str> {
    let mut words = words.iter();
    while let Some(word) = words.next() {
        match *word {
            "--test-threads" | "--format" | "--color" | "--skip" => drop(words.next()),
            word if word.starts_with('-') => {}
            word => return Some(word),
        }
    }
    None
}

fn run(filter: Option<&str>) -> ExitCode {
    let chosen: Vec<_> =
        TARGETS.iter().filter(|target| filter.is_none_or(|f| target.name.contains(f))).collect();
    let seconds = std::env::var("FOREBAY_FUZZ_SECONDS").ok();
    let seconds: Option<u32> =
        seconds.map(|text| text.parse().expect("FOREBAY_FUZZ_SECONDS=SECONDS"));
    let share =
        seconds.map(|seconds| Duration::from_secs(seconds.into()) / chosen.len().max(1) as u32);
    println!("{:>14} {:>12} {:>9} {:>7} {:>10}", "", "executions", "a second", "corpus", "slowest");
    let mut executions = 0;
    let mut found = 0;
    for target in chosen {
        let corpus = Path::new("fuzz/corpus").join(target.name);
        let end = match share {
            Some(share) => watch::watch(target, u64::MAX, share, Some(&corpus)),
            None => watch::watch(target, FEW, Duration::MAX, None),
        };
        match end {
            Ok(tally) => {
                executions += tally.executions;
                println!("{:>14} {tally}", target.name);
            }
            Err(what) => {
                found += 1;
                println!("{:>14} FAILED: {what}", target.name);
            }
        }
    }
    println!("fuzz: {executions} executions, {found} targets failed");
    if found == 0 { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}
