//! What an epoch is run by: instruction sets, GPUs, and what stands in for GPUs.

use crate::batch::{Grid, Sample, Tables, batch};
use crate::common;
use crate::interpreter::Interpreter;
use crate::loader::{rest, whole_epoch};
use crate::reference::{EPOCHS, Reference, SAMPLES, SOURCE, open, spec};
use crate::softgpu;
use forebay::device::Choice;
use forebay::device::cpu::Cpu;
use forebay::device::cuda::Driver;
use forebay::device::images::IMAGES;
use forebay::executor::program::Program;
use forebay::graph::plan::Plan;
use forebay::loader::{Options, Position};
use forebay::ops;

#[test]
fn instruction_sets_and_grids() {
    let plan = Plan::compile(&spec(), ops::ALL).unwrap();
    let levels = Cpu::levels();
    let mut programs: Vec<(String, Program)> = Vec::new();
    for &cpu in &levels {
        programs.push((cpu.level().to_string(), Program::with(plan.clone(), cpu)));
    }
    for threads in [256, 32, 7] {
        let program = Program::with(plan.clone(), levels[0]).on_grid(threads);
        programs.push((format!("a grid of blocks of {threads}"), program));
    }
    for reference in EPOCHS.map(Reference::new) {
        for (name, program) in &programs {
            for (id, sample) in SOURCE.0.iter().enumerate() {
                let pixels = common::pixels(sample.width, sample.height, &sample.pixels);
                let outputs = common::run(program, &pixels, reference.epoch, id as u64);
                let bytes = outputs.into_iter().map(|(_, _, bytes)| bytes);
                assert!(bytes.eq(reference.bytes[id].iter().cloned()), "{name}, sample {id}");
            }
        }
    }
    let names: Vec<_> = programs.iter().map(|(name, _)| name.as_str()).collect();
    println!("the same bytes by {}", names.join(", "));
    for level in ["x86-64-v2", "x86-64-v3", "x86-64-v4"] {
        if !names.contains(&level) {
            eprintln!("skipped: {level}, which this machine does not have");
        }
    }
}

/// Whether there is a GPU; says so where there is none.
pub(crate) fn has_gpu() -> bool {
    let probe = Driver::probe();
    if let Err(reason) = &probe {
        assert!(std::env::var_os("FOREBAY_REQUIRE_GPU").is_none_or(|it| it != "1"), "{reason}");
        eprintln!("skipped: no GPU ({reason})");
    }
    probe.is_ok()
}

#[test]
fn a_gpu() {
    if !has_gpu() {
        return;
    }
    let references = EPOCHS.map(Reference::new);
    let device = Choice::Cuda(0);
    for (batch_size, prefetch) in [(1, 0), (4, 0), (4, 3), (23, 1)] {
        for (threads, world) in [(1, 1), (3, 1), (2, 2), (1, 5)] {
            let options =
                Options { batch_size, prefetch, threads, world, device, ..Options::default() };
            whole_epoch(&references, &options);
        }
    }
    let [_, reference] = references;
    let options = Options { batch_size: 4, threads: 2, device, ..Options::default() };
    let mut loader = [open(&options)];
    for samples in 0..=SAMPLES {
        let position = Position { epoch: reference.epoch, samples };
        let rest = rest(&reference, &mut loader, position).concat().len() as u64;
        assert_eq!(rest, SAMPLES - samples);
    }
}

/// The tests of a GPU, here and in golden.rs, in a process that finds the driver of tests/softgpu.
#[test]
fn the_software_driver() {
    if IMAGES.is_empty() {
        eprintln!("skipped: built without NVRTC, so there are no kernels for GPUs");
        return;
    }
    let this = std::env::current_exe().unwrap();
    let mut command = softgpu::command(&this).expect("the software driver");
    let output = command.arg("::a_gpu").env("FOREBAY_REQUIRE_GPU", "1").output().unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && told.contains("2 passed"), "{told}");
}

/// The host's kernels, whose bytes are the reference's by the test above, against the PTX.
#[test]
fn compiled_ptx() {
    let Some(interpreter) = Interpreter::find() else { return };
    let sample = |(id, sample): (usize, &crate::reference::Sample)| Sample {
        id: id as u64,
        width: sample.width,
        height: sample.height,
        pixels: sample.pixels.clone(),
    };
    let samples: Vec<Sample> = SOURCE.0.iter().enumerate().take(8).map(sample).collect();
    let tables = Tables::of(&spec()).unwrap();
    let grid = Grid { resolve: 3, augment: 32, rounds: 1 };
    let (case, refused) = batch("the matrix's pipeline".into(), &tables, &samples, grid);
    assert_eq!(refused, 0);
    let mut left = interpreter.run(std::slice::from_ref(&case));
    case.compare(&case.on_host(Cpu::best().unwrap()), left.memories.remove(0));
}
