//! Epochs of decoded images that are kept in memory, beside augmenting one image again and again on as
//! many threads: what handing samples out and batches over costs. In turn, so that what else the machine
//! does falls on both.
//!
//! `cargo bench --bench cache -- [THREADS]`

use forebay::Result;
use forebay::decoder::Pixels;
use forebay::device::Choice;
use forebay::executor::program::{Program, Scratch};
use forebay::graph::file;
use forebay::loader::{Loader, Options};
use forebay::policy::Cache;
use forebay::reader::{Content, Reader};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Instant;

const COURSE: &str = include_str!("../pipelines/cifar10-train.toml");
const COUNT: u64 = 50_000;
const SIDE: u32 = 32;
const ROUNDS: usize = 15;

struct Source;

impl Reader for Source {
    fn len(&self) -> u64 {
        COUNT
    }

    fn label(&self, _id: u64) -> i64 {
        0
    }

    fn classes(&self) -> &[String] {
        &[]
    }

    fn place(&self, id: u64) -> PathBuf {
        id.to_string().into()
    }

    fn read(&self, id: u64, buf: &mut Vec<u8>) -> Result<Content> {
        buf.clear();
        buf.extend((0..u64::from(SIDE * SIDE * 3)).map(|k| ((k * 40503 + id) >> 7) as u8));
        Ok(Content::Planar { height: SIDE, width: SIDE })
    }
}

fn main() {
    // Cargo passes --bench to programs of its own kind.
    let threads = std::env::args().find_map(|arg| arg.parse().ok());
    let threads = threads.unwrap_or_else(|| std::thread::available_parallelism().unwrap().get());
    let spec = file::parse(COURSE).unwrap();
    let options = Options {
        batch_size: 256,
        threads,
        cache: Some(Cache::Decoded),
        cache_budget: Some(1 << 30),
        device: Choice::Cpu,
        ..Options::default()
    };
    let mut loader = Loader::with_reader(&spec, Arc::new(Source), &options).unwrap();
    let mut epoch = |number| loader.epoch(number).for_each(|batch| drop(batch.unwrap()));
    let program = Program::new(&spec).unwrap();
    epoch(0);
    alone(&program, threads);
    let mut rounds: Vec<(f64, f64)> = (1..=ROUNDS)
        .map(|round| (rate(|| epoch(round as u32)), rate(|| alone(&program, threads))))
        .collect();
    rounds.sort_by(|a, b| (a.0 / a.1).total_cmp(&(b.0 / b.1)));
    let (kept, augment) = rounds[ROUNDS / 2];
    let [least, median, most] = [0, ROUNDS / 2, ROUNDS - 1].map(|at| rounds[at].0 / rounds[at].1);
    println!(
        "{threads} threads, {ROUNDS} rounds in turn: epochs from the cache {kept:.0}/s, augment alone"
    );
    println!("{augment:.0}/s, ratio {median:.2} ({least:.2} to {most:.2})");
}

/// Images a second.
fn rate(work: impl FnOnce()) -> f64 {
    let start = Instant::now();
    work();
    COUNT as f64 / start.elapsed().as_secs_f64()
}

/// As many images as an epoch has, each thread one image to one place.
fn alone(program: &Program, threads: usize) {
    std::thread::scope(|scope| {
        for thread in 0..threads as u64 {
            scope.spawn(move || {
                let mut pixels = Pixels::new();
                for (k, byte) in pixels.reset(SIDE, SIDE).unwrap().iter_mut().enumerate() {
                    *byte = ((k * 40503) >> 7) as u8;
                }
                let mut scratch = Scratch::default();
                let mut out = vec![0_f32; (SIDE * SIDE * 3) as usize];
                for id in (thread..COUNT).step_by(threads) {
                    program.resolve(&mut scratch, 42, 0, id, SIDE, SIDE).unwrap();
                    let place = bytemuck::cast_slice_mut(&mut out);
                    program.run(&mut scratch, pixels.picture(), &mut [place]).unwrap();
                }
            });
        }
    });
}
