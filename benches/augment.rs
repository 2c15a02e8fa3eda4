//! `resolve` and `augment` on decoded images in memory, one thread, per image. The course's
//! pipeline, its steps alone, and every instruction set level of this machine.
//!
//! `cargo bench --bench augment`

use divan::Bencher;
use forebay::decoder::Pixels;
use forebay::device::cpu::Cpu;
use forebay::executor::program::{Program, Scratch};
use forebay::graph::file;
use forebay::graph::plan::Plan;
use forebay::ops;

fn main() {
    divan::main();
}

const COURSE: &str = include_str!("../pipelines/cifar10-train.toml");

/// The course's pipeline with only the named step, always taken; `""` for none.
fn alone(op: &str) -> String {
    let mut steps = COURSE.split("[[step]]");
    let head = steps.next().unwrap().to_string();
    let step = steps
        .find(|s| s.contains(&format!("op = \"{op}\"")))
        .map(|s| s.split("[output]").next().unwrap().replace("when = { probability = 0.5 }\n", ""));
    let output = "[output]\nlayout = \"CHW\"\ndtype = \"f32\"\n";
    match step {
        Some(step) => format!("{head}[[step]]{step}{output}"),
        None => format!("{head}{output}"),
    }
}

fn bench(bencher: Bencher, text: &str, cpu: Cpu, side: u32) {
    let spec = file::parse(text).unwrap();
    let program = Program::with(Plan::compile(&spec, ops::ALL).unwrap(), cpu);
    let mut pixels = Pixels::new();
    for (k, byte) in pixels.reset(side, side).unwrap().iter_mut().enumerate() {
        *byte = ((k * 40503) >> 7) as u8;
    }
    let mut scratch = Scratch::default();
    let mut out = vec![0f32; side as usize * side as usize * 3];
    let mut id = 0;
    bencher.bench_local(|| {
        id += 1;
        program.resolve(&mut scratch, 42, 0, id, side, side).unwrap();
        let place = bytemuck::cast_slice_mut(&mut out);
        program.run(&mut scratch, pixels.picture(), &mut [place]).unwrap();
    });
}

#[divan::bench(args = [32, 224])]
fn course(bencher: Bencher, side: u32) {
    bench(bencher, COURSE, Cpu::best().unwrap(), side);
}

#[divan::bench(args = Cpu::levels().iter().map(|c| c.level()).collect::<Vec<_>>())]
fn course_32_at(bencher: Bencher, level: &str) {
    let cpu = Cpu::levels().into_iter().find(|c| c.level() == level).unwrap();
    bench(bencher, COURSE, cpu, 32);
}

#[divan::bench(args = ["", "rotate", "rgb_shift", "brightness_contrast", "normalize"])]
fn step_32(bencher: Bencher, op: &str) {
    bench(bencher, &alone(op), Cpu::best().unwrap(), 32);
}

/// A padded random crop, mirrored for half of the samples, then normalized.
#[divan::bench(args = [32, 224])]
fn crop_flip(bencher: Bencher, side: u32) {
    let steps = format!(
        "[[step]]\nop = \"crop\"\nsize = [{side}, {side}]\npadding = 4\nposition = \"random\"\n\
         [[step]]\nop = \"flip\"\nwhen = {{ probability = 0.5 }}\nhorizontal = true\n[[step]]"
    );
    let text = alone("normalize").replacen("[[step]]", &steps, 1);
    bench(bencher, &text, Cpu::best().unwrap(), side);
}

#[divan::bench]
fn resolve(bencher: Bencher) {
    let program = Program::new(&file::parse(COURSE).unwrap()).unwrap();
    let mut scratch = Scratch::default();
    let mut id = 0;
    bencher.bench_local(|| {
        id += 1;
        program.resolve(&mut scratch, 42, 0, id, 32, 32).unwrap();
    });
}
