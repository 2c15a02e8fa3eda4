//! `resolve` and the pass that resamples, on a decoded image of 500x375 in memory, one thread, per image:
//! ImageNet's pipelines, and the resample alone on every instruction set level of this machine.
//!
//! `cargo bench --bench resample`

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

fn bench(bencher: Bencher, text: &str, cpu: Cpu) {
    let (width, height) = (500, 375);
    let program = Program::with(Plan::compile(&file::parse(text).unwrap(), ops::ALL).unwrap(), cpu);
    let mut pixels = Pixels::new();
    for (k, byte) in pixels.reset(width, height).unwrap().iter_mut().enumerate() {
        *byte = ((k * 40503) >> 7) as u8;
    }
    let mut scratch = Scratch::default();
    let element = program.outputs()[0].dtype.size();
    let mut out = vec![0u64; 224 * 224 * 3 * element / 8];
    let mut id = 0;
    bencher.bench_local(|| {
        id += 1;
        program.resolve(&mut scratch, 42, 0, id, width, height).unwrap();
        let place = bytemuck::cast_slice_mut(&mut out);
        program.run(&mut scratch, pixels.picture(), &mut [place]).unwrap();
    });
}

#[divan::bench]
fn imagenet_train(bencher: Bencher) {
    bench(bencher, include_str!("../pipelines/imagenet-train.toml"), Cpu::best().unwrap());
}

#[divan::bench]
fn imagenet_valid(bencher: Bencher) {
    bench(bencher, include_str!("../pipelines/imagenet-valid.toml"), Cpu::best().unwrap());
}

#[divan::bench(args = Cpu::levels().iter().map(|c| c.level()).collect::<Vec<_>>())]
fn window_to_224_at(bencher: Bencher, level: &str) {
    let cpu = Cpu::levels().into_iter().find(|c| c.level() == level).unwrap();
    bench(bencher, "[[step]]\nop = \"random_resized_crop\"\nsize = 224", cpu);
}

#[divan::bench(args = ["triangle", "linear", "nearest"])]
fn resize_to_224(bencher: Bencher, interp: &str) {
    let step = format!("[[step]]\nop = \"resize\"\nsize = 224\ninterp = \"{interp}\"");
    bench(bencher, &step, Cpu::best().unwrap());
}
