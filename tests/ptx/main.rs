//! The PTX that this program embeds, run in an interpreter and held against the host's kernels: equal
//! to the bit, and no byte touched outside what a launch was given.
//!
//! Needs the interpreter (tools/ptxrun.py of FOREBAY_SHARED), NumPy (`make test-ptx` brings it) and a
//! build with NVRTC; where one is missing the test is skipped, which it prints.
//! FOREBAY_PTX_GRAPHS is the number of random graphs. FOREBAY_PTX is a folder with KERNEL.ptx to run
//! instead, compiled with -lineinfo say; `lines.json` there then has the lines that were executed, and
//! those that none was.
#![allow(unsafe_code)] // memory.rs launches the host's kernels.

mod batch;
#[path = "../common/mod.rs"]
mod common;
#[path = "../decoder/encode.rs"]
#[allow(dead_code)] // A part is used.
mod encode;
#[path = "../common/golden.rs"]
mod golden;
mod graphs;
mod interpreter;
mod jpeg;
mod memory;
#[path = "../common/graphs.rs"]
mod random;
mod settle;

use batch::{Grid, Sample, Tables, batch};
use forebay::device::cpu::Cpu;
use forebay::graph::file;
use interpreter::Interpreter;
use memory::Case;
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::TestRunner;
use std::collections::BTreeMap;

/// Blocks that divide the images, that do not, and that go round.
const GRIDS: [Grid; 4] = [
    Grid { resolve: 64, augment: 256, rounds: 1 },
    Grid { resolve: 3, augment: 96, rounds: 1 },
    Grid { resolve: 32, augment: 32, rounds: 3 },
    Grid { resolve: 64, augment: 7, rounds: 2 },
];

#[test]
fn compiled_kernels_equal_the_host() {
    let Some(interpreter) = Interpreter::find() else { return };
    let mut cases = vec![settle::case(256, 1), settle::case(5, 3), settle::case(32, 7)];
    cases.extend([(false, 0), (true, 0), (false, 9), (true, 9)].map(|(d, b)| jpeg::files(d, 5, b)));
    cases.extend([(8, 256), (8, 5), (4, 256), (2, 256), (1, 7)].map(|(s, t)| jpeg::idct(s, t)));
    let windows = [(37, 0, 32, 1), (38, 9, 5, 2), (4, 0, 7, 3)];
    cases.extend(windows.map(|(w, left, t, tiles)| jpeg::colour(w, left, t, tiles)));
    cases.extend(course());
    cases.extend(directed());
    cases.extend(golden_inputs());
    cases.extend(random_graphs());
    let left = interpreter.run(&cases);
    let best = Cpu::best().unwrap();
    for (case, interpreted) in cases.iter().zip(left.memories) {
        case.compare(&case.on_host(best), interpreted);
    }
    println!("{} cases equal to {} to the bit", cases.len(), best.level());
    for (kernel, lines) in left.lines {
        let (executed, never) = lines.instructions();
        println!("{kernel}: {executed} instructions executed, {never} never (jumps not counted)");
        // What is left are ways that only values or addresses beyond these cases take, and one of the two
        // that each division of 64 bits has, for operands that fit 32 and for others.
        assert!(
            never * 200 <= 3 * (executed + never),
            "{kernel}: {never} of its instructions never ran"
        );
    }
}

/// Samples of different sizes.
fn samples(sizes: &[(u32, u32)]) -> Vec<Sample> {
    let sample = |(id, &(width, height)): (usize, &(u32, u32))| Sample {
        id: id as u64,
        width,
        height,
        pixels: random::picture(width, height).iter().map(|&v| v.rotate_left(id as u32)).collect(),
    };
    sizes.iter().enumerate().map(sample).collect()
}

fn course() -> Vec<Case> {
    let spec = file::parse(include_str!("../../pipelines/cifar10-train.toml")).unwrap();
    let tables = Tables::of(&spec).unwrap();
    let case =
        |grid| batch("the course's pipeline".into(), &tables, &samples(&[(32, 32); 70]), grid).0;
    GRIDS[..2].iter().copied().map(case).collect()
}

fn directed() -> Vec<Case> {
    let sizes = [(17, 11), (12, 9), (1, 5), (16, 16)];
    let all = graphs::operations().into_iter().chain(graphs::gathers()).chain(graphs::resamples());
    let case = |(k, (label, tables)): (usize, (String, Tables))| {
        batch(label, &tables, &samples(&sizes), GRIDS[k % GRIDS.len()]).0
    };
    all.enumerate().map(case).collect()
}

/// The golden outputs' parameters on their inputs, one batch for each choice of them.
fn golden_inputs() -> Vec<Case> {
    let Some(dir) = common::shared("golden") else { return Vec::new() };
    let manifest = std::fs::read(dir.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let mut batches = BTreeMap::<String, (Tables, Vec<Sample>)>::new();
    for case in manifest["cases"].as_array().unwrap() {
        let op = case["op"].as_str().unwrap();
        let label = format!("golden {op} {} {}", case["params"], case["dtype"]);
        let layout = (case["shape"][0] == 3).then_some(forebay::tensor::Layout::Chw);
        let steps = golden::steps(op, &case["params"]);
        let tables = || Tables::of(&common::spec(steps, layout, None)).unwrap();
        let (_, samples) = batches.entry(label).or_insert_with(|| (tables(), Vec::new()));
        let jpeg = std::fs::read(dir.join("inputs").join(case["input"].as_str().unwrap())).unwrap();
        let image = turbojpeg::decompress(&jpeg, turbojpeg::PixelFormat::RGB).unwrap();
        let (width, height) = (image.width as u32, image.height as u32);
        let id = samples.len() as u64;
        samples.push(Sample { id, width, height, pixels: image.pixels });
    }
    batches.into_iter().map(|(label, (tables, s))| batch(label, &tables, &s, GRIDS[0]).0).collect()
}

fn random_graphs() -> Vec<Case> {
    let count = std::env::var("FOREBAY_PTX_GRAPHS").map_or(40, |n| n.parse().unwrap());
    let mut runner = TestRunner::deterministic();
    let mut draw = |strategy: (_, _)| {
        let strategy: (_, [_; 5]) = strategy;
        Strategy::new_tree(&strategy, &mut runner).unwrap().current()
    };
    let (mut cases, mut refused) = (Vec::new(), 0);
    while cases.len() < count {
        let (spec, sizes) = draw((random::any_spec(), std::array::from_fn(|_| random::size())));
        let Some(tables) = Tables::of(&spec) else { continue };
        let label = format!("random graph {}: {:?}", cases.len(), spec.steps);
        let grid = GRIDS[cases.len() % GRIDS.len()];
        let (case, left_alone) = batch(label, &tables, &samples(&sizes), grid);
        cases.push(case);
        refused += left_alone;
    }
    println!("{count} random graphs, {refused} samples of them refused and left alone");
    assert!(count < 20 || refused > 0);
    cases
}
