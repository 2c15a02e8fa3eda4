//! What lists of a thousand to a hundred million samples cost: to open, to hold, and a sample.
//!
//! `cargo bench --bench scale -- [LINES…]`; without numbers 1e3, 1e4 … 1e7. 1e8 lines take 3.6 GB of the
//! temporary folder and as much memory.

use forebay::policy::LastBatch;
use forebay::reader::Reader;
use forebay::reader::file_list::FileList;
use forebay::reader::sampler::{Sampler, SamplerConfig};
use std::fs::File;
use std::hint::black_box;
use std::io::{BufWriter, Write};
use std::path::Path;
use std::time::{Duration, Instant};

/// Samples that are asked for, of each list.
const ASKED: u64 = 1 << 20;

fn main() {
    // Cargo passes --bench to programs of its own kind.
    let numbers: Vec<u64> = std::env::args().filter_map(|arg| arg.parse().ok()).collect();
    let numbers =
        if numbers.is_empty() { (3..=7).map(|e| 10_u64.pow(e)).collect() } else { numbers };
    println!(
        "| lines | text, B a line | open, ns a line | held beside the text, B a line | name and label, ns | order, ns a sample | sampler, B |"
    );
    println!("|---|---|---|---|---|---|---|");
    for lines in numbers {
        let dir = tempfile::tempdir().unwrap();
        write(&dir.path().join("labels.txt"), lines);
        measure(dir.path(), lines);
    }
}

/// Names of 33 bytes, as in a folder a class.
fn write(path: &Path, lines: u64) {
    let mut list = BufWriter::new(File::create(path).unwrap());
    for id in 0..lines {
        let class = id % 1000;
        writeln!(list, "n{:08}/n{:08}_{id:09}.jpg {class}", class * 9973, class * 9973).unwrap();
    }
    list.flush().unwrap();
}

fn measure(dir: &Path, lines: u64) {
    let text = std::fs::metadata(dir.join("labels.txt")).unwrap().len();
    let before = resident();
    let start = Instant::now();
    let list = FileList::open(dir, "labels.txt", false).unwrap();
    let open = start.elapsed();
    assert_eq!(list.len(), lines);
    let held = resident().saturating_sub(before).saturating_sub(text);

    let config = SamplerConfig {
        samples: lines,
        batch_size: 256,
        rank: 3,
        world: 1000,
        shuffle: true,
        last_batch: LastBatch::Pad,
        seed: 42,
    };
    let sampler = Sampler::new(config).unwrap();
    let mut places = Vec::new();
    let mut asked = Vec::new();
    let start = Instant::now();
    for step in 0.. {
        let epoch = (step / sampler.len()) as u32;
        sampler.batch(epoch, step % sampler.len(), &mut places);
        asked.extend(places.iter().map(|place| place.id));
        if asked.len() as u64 >= ASKED {
            break;
        }
    }
    let order = start.elapsed();
    let start = Instant::now();
    for &id in &asked {
        black_box((list.place(id), list.label(id)));
    }
    let found = start.elapsed();
    let each = |time: Duration, n: u64| time.as_nanos() as f64 / n as f64;
    let asked = asked.len() as u64;
    println!(
        "| {lines} | {:.1} | {:.0} | {:.1} | {:.0} | {:.0} | {} |",
        text as f64 / lines as f64,
        each(open, lines),
        held as f64 / lines as f64,
        each(found, asked),
        each(order, asked),
        size_of::<Sampler>()
    );
}

/// Bytes of memory that this process holds.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() * 1024
}
