//! Many epochs over files of which some are damaged: memory, open files and threads stay as they are.
//!
//! `make test-soak` runs 200 epochs over 2,000 files; without it, a few over a few.

#[path = "common/mod.rs"]
mod common;

use common::{spec, step};
use forebay::graph::spec::Arg;
use forebay::loader::{Loader, Options};
use forebay::policy::{MaxBad, OnError};
use std::fs;
use std::path::Path;
use turbojpeg::{Image, PixelFormat, Subsamp};

/// Kinds of damage, of which each damaged file has one.
const KINDS: usize = 6;

/// Writes `count` JPEG files of many sizes and their list; of twenty files one is damaged. How many are.
fn write_files(dir: &Path, count: usize) -> u64 {
    let mut list = String::new();
    let mut bad = 0;
    for id in 0..count {
        let (width, height) = (24 + id * 7 % 90, 24 + id * 13 % 70);
        let pixels: Vec<u8> =
            (0..3 * width * height).map(|k| (k / 3 * (id % 7 + 1)) as u8).collect();
        let format = PixelFormat::RGB;
        let image = Image { pixels: &pixels[..], width, pitch: 3 * width, height, format };
        let mut bytes = turbojpeg::compress(image, 80, Subsamp::Sub2x2).unwrap().to_vec();
        let path = dir.join(format!("{id}.jpg"));
        list += &format!("{id}.jpg {}\n", id % 10);
        if id % 20 == 7 {
            bad += 1;
            match bad as usize % KINDS {
                0 => continue,
                1 => bytes.truncate(bytes.len() / 2),
                2 => bytes.clear(),
                3 => bytes = b"no picture".to_vec(),
                4 => {
                    fs::create_dir(&path).unwrap();
                    continue;
                }
                // A size that no limit allows.
                _ => {
                    let frame = bytes.windows(2).position(|m| m == [0xFF, 0xC0]).unwrap();
                    bytes[frame + 5..frame + 9].copy_from_slice(&[0xFF; 4]);
                }
            }
        }
        fs::write(path, bytes).unwrap();
    }
    fs::write(dir.join("labels.txt"), list).unwrap();
    bad
}

/// What the process holds.
#[derive(Debug, Clone, Copy)]
struct Held {
    resident_kib: u64,
    files: usize,
    threads: u64,
}

fn held() -> Held {
    let status = fs::read_to_string("/proc/self/status").unwrap();
    let number = |key: &str| -> u64 {
        let line = status.lines().find_map(|line| line.strip_prefix(key)).unwrap();
        line.split_whitespace().next().unwrap().parse().unwrap()
    };
    Held {
        resident_kib: number("VmRSS:"),
        files: fs::read_dir("/proc/self/fd").unwrap().count(),
        threads: number("Threads:"),
    }
}

#[test]
fn memory_and_open_files_stay_flat() {
    let whole = std::env::var_os("FOREBAY_SOAK").is_some();
    let (epochs, count) = if whole { (200, 2000) } else { (40, 200) };
    let dir = tempfile::tempdir().unwrap();
    let bad = write_files(dir.path(), count);

    let size = Arg::Numbers(vec![24.0, 24.0]);
    let crop = step("crop", &[("size", size), ("position", Arg::Text("random".into()))]);
    let rotate = step("rotate", &[("angle", Arg::Number(15.0)), ("keep_size", Arg::Bool(true))]);
    let spec = spec(vec![crop, rotate], None, None);
    let open = |on_error| {
        let options = Options {
            batch_size: 64,
            threads: 2,
            shuffle: Some(true),
            on_error: Some(on_error),
            max_bad: Some(MaxBad::Count(bad)),
            // One of its threads may have a file open at any moment.
            read_ahead: 0,
            ..Options::default()
        };
        Loader::open(&spec, dir.path(), &options).unwrap()
    };
    let mut loaders = [open(OnError::Skip), open(OnError::Replace)];
    for loader in &mut loaders {
        loader.quarantine(&dir.path().join("quarantine.jsonl")).unwrap();
    }

    let (mut begun, mut delivered) = (None, 0);
    for epoch in 0..epochs {
        let loader = &mut loaders[epoch as usize % 2];
        // Now and then an epoch is left in its middle.
        let batches = if epoch % 7 == 6 { loader.len() / 2 } else { loader.len() };
        for batch in loader.epoch(epoch).take(batches) {
            delivered += batch.unwrap().len();
        }
        // Until here buffers may have grown.
        if epoch + 1 == epochs / 4 {
            begun = Some(held());
        }
        if whole && (epoch + 1) % 20 == 0 {
            println!("epoch {}: {:?}", epoch + 1, held());
        }
    }
    let (begun, ended) = (begun.unwrap(), held());
    let told = loaders.each_ref().map(|loader| loader.bad_samples().to_string());
    println!("{epochs} epochs, {delivered} samples delivered; {}", told.join(" | "));
    println!("after a quarter {begun:?}, at the end {ended:?}");
    assert!(loaders.iter().all(|loader| loader.bad_samples().samples == bad));
    assert_eq!((ended.files, ended.threads), (begun.files, begun.threads));
    let decades = f64::from(epochs) * 0.75 / 10.0;
    let growth = ended.resident_kib as f64 / begun.resident_kib as f64 - 1.0;
    // Less than 1% in 10 epochs.
    assert!(growth < 0.01 * decades, "{:.1}% more memory", growth * 100.0);
    let log = fs::read_to_string(dir.path().join("quarantine.jsonl")).unwrap();
    assert_eq!(log.lines().count() as u64, 2 * bad, "each file once for each loader");
}
