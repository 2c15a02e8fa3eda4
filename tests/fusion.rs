//! Fusion never changes a value, nor does the machine: over random graphs and every combination of
//! branches, the fused plan gives the bytes of the steps run one by one, on each instruction set
//! level, and through the GPU entry walked over its grid.

mod common;
#[path = "common/graphs.rs"]
mod graphs;

use common::{pixels, run, run_resolved, spec, step};
use forebay::decoder::{Region, Scale, Wanted};
use forebay::device::cpu::Cpu;
use forebay::executor::program::Program;
use forebay::graph::plan::Plan;
use forebay::graph::program::{MAX_POINTS, NO_GUARD, Op, STEP_RESAMPLE};
use forebay::graph::spec::{Arg, Dist, Spec, Step};
use forebay::tensor::{DType, Layout};
use forebay::{ops, rng};
use graphs::{any_spec, picture, size};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::collections::HashMap;

const SEED: u64 = 42;
const EPOCH: u32 = 3;

/// Which guarded steps of `plan` sample `id` takes: its scalar program, as far as guards need it.
fn taken(plan: &Plan, seed: u64, epoch: u32, id: u64) -> Vec<bool> {
    let mut r = vec![f32::NAN; plan.scalars().len()];
    let truth = |b: bool| f32::from(u8::from(b));
    for s in plan.scalars() {
        let (a, b) = (r[usize::from(s.a)], r[usize::from(s.b)]);
        r[usize::from(s.dst)] = match s.op {
            op if op == Op::Const as u16 => f32::from_bits(s.value),
            op if op == Op::Unit as u16 => {
                let word = rng::draw_word(seed, epoch, id, s.value as u16, s.element);
                (word >> 8) as f32 * 2f32.powi(-24)
            }
            op if op == Op::Add as u16 => a + b,
            op if op == Op::Mul as u16 => a * b,
            op if op == Op::Lt as u16 => truth(a < b),
            op if op == Op::Gt as u16 => truth(a > b),
            op if op == Op::And as u16 => truth(a != 0.0 && b != 0.0),
            op if op == Op::Or as u16 => truth(a != 0.0 || b != 0.0),
            op if op == Op::Not as u16 => truth(a == 0.0),
            _ => f32::NAN,
        };
    }
    let guards = plan.steps().iter().filter(|step| step.guard != NO_GUARD);
    guards.map(|step| r[usize::from(step.guard)] != 0.0).collect()
}

/// The first samples that take each combination of branches, of those among 100 samples.
fn one_a_combination(plan: &Plan) -> Vec<u64> {
    let mut first = HashMap::new();
    for id in 0..100 {
        first.entry(taken(plan, SEED, EPOCH, id)).or_insert(id);
    }
    let mut ids: Vec<_> = first.into_values().collect();
    ids.sort_unstable();
    ids.truncate(24);
    ids
}

fn same_bytes(spec: &Spec, width: u32, height: u32) -> Result<(), TestCaseError> {
    let Ok(plan) = Plan::compile(spec, ops::ALL) else { return Ok(()) };
    let plain = Plan::compile_unfused(spec, ops::ALL).unwrap();
    prop_assert!(plan.passes().len() <= plain.passes().len());
    let image = pixels(width, height, &picture(width, height));
    let best = Cpu::best().unwrap();
    let reference = Program::with(plain, best);
    let mut others: Vec<_> =
        Cpu::levels().into_iter().map(|cpu| Program::with(plan.clone(), cpu)).collect();
    others.push(Program::with(plan.clone(), best).on_grid(32));
    for id in one_a_combination(&plan) {
        let mut scratch = Default::default();
        let mut resolve = |p: &Program| p.resolve(&mut scratch, SEED, EPOCH, id, width, height);
        // A crop may be larger than the picture: then all refuse it.
        if resolve(&reference).is_err() {
            for other in &others {
                prop_assert!(resolve(other).is_err());
            }
            continue;
        }
        let expected = run(&reference, &image, EPOCH, id);
        for other in &others {
            let got = run(other, &image, EPOCH, id);
            prop_assert!(got == expected, "{} sample {id}: {:?}", other.device(), spec.steps);
        }
    }
    Ok(())
}

/// What `narrow` says a sample reads of its picture is enough of it; pixels of the window and of the
/// picture.
fn window_is_enough(spec: &Spec, width: u32, height: u32) -> Result<Vec<[u32; 2]>, TestCaseError> {
    let mut windows = Vec::new();
    let Ok(plan) = Plan::compile(spec, ops::ALL) else { return Ok(windows) };
    let bytes = picture(width, height);
    let whole = pixels(width, height, &bytes);
    let program = Program::with(plan, Cpu::best().unwrap());
    for id in 0..4 {
        let mut scratch = Default::default();
        if program.resolve(&mut scratch, SEED, EPOCH, id, width, height).is_err() {
            continue;
        }
        let Wanted { region, scale } = program.narrow(&mut scratch, true);
        prop_assert_eq!(scale, Scale::Full);
        let Region { x, y, width: columns, height: rows } = region;
        let line = |row: u32| {
            let start = ((y + row) * width + x) as usize * 3;
            &bytes[start..start + columns as usize * 3]
        };
        let part = pixels(columns, rows, &(0..rows).flat_map(line).copied().collect::<Vec<_>>());
        let got = run_resolved(&program, &mut scratch, &part);
        prop_assert!(got == run(&program, &whole, EPOCH, id), "{region:?} of {:?}", spec.steps);
        windows.push([columns * rows, width * height]);
    }
    Ok(windows)
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1000,
        failure_persistence: None,
        ..Default::default()
    })]

    #[test]
    fn fused_equals_step_by_step(spec in any_spec(), (width, height) in size()) {
        same_bytes(&spec, width, height)?;
    }

    #[test]
    fn what_a_sample_reads_is_enough(spec in any_spec(), (width, height) in size()) {
        window_is_enough(&spec, width, height)?;
    }
}

/// What the random graphs hold: the property above would be true of none, too.
#[test]
fn random_graphs_are_rich() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let [mut compiled, mut passes, mut fused, mut guarded, mut full, mut combinations] = [0; 6];
    let [mut resamples, mut parts] = [0; 2];
    for _ in 0..300 {
        let spec = any_spec().new_tree(&mut runner).unwrap().current();
        let Ok(plan) = Plan::compile(&spec, ops::ALL) else { continue };
        let plain = Plan::compile_unfused(&spec, ops::ALL).unwrap();
        compiled += 1;
        passes += plan.passes().len();
        fused += plain.passes().len() - plan.passes().len();
        guarded += plan.steps().iter().filter(|s| s.guard != NO_GUARD).count();
        full += plan.passes().iter().filter(|pass| pass.steps as usize >= MAX_POINTS).count();
        combinations += one_a_combination(&plan).len();
        resamples += plan.steps().iter().filter(|s| s.kind == STEP_RESAMPLE).count();
        let windows = window_is_enough(&spec, 30, 20).unwrap();
        parts += windows.iter().filter(|[part, whole]| part < whole).count();
    }
    println!(
        "{compiled} of 300 random graphs compile: {passes} passes, {full} of them full, with \
         {fused} more fused into them; {guarded} guarded steps, {combinations} combinations of \
         branches run; {resamples} resamples; {parts} samples that read a part"
    );
    assert!(compiled > 270 && fused > 1500 && guarded > 1500 && combinations > 1000 && full > 10);
    assert!(resamples > 100 && parts > 50);
}

/// Gathers, crops and flips for a picture of that size, between which no pass is cut.
fn movements(width: u32, height: u32, border: &str) -> Vec<Vec<Step>> {
    let angle = |range: f32| Arg::Draw {
        dist: Dist::Uniform { lo: -range, hi: range },
        per_channel: false,
    };
    let text = |word: &str| Arg::Text(word.into());
    let edge = match border {
        "constant" => vec![("border", text(border)), ("fill", Arg::Number(77.0))],
        _ => vec![("border", text(border))],
    };
    let with = |op: &str, args: &[(&str, Arg)]| step(op, &[args, &edge].concat());
    let rotate = |range| with("rotate", &[("angle", angle(range)), ("keep_size", Arg::Bool(true))]);
    let scale =
        |scale: f64| with("affine", &[("angle", angle(20.0)), ("scale", Arg::Number(scale))]);
    let flip = |h, v| step("flip", &[("horizontal", Arg::Bool(h)), ("vertical", Arg::Bool(v))]);
    let size = |height: u32, width: u32| Arg::Numbers(vec![height.into(), width.into()]);
    let crop = |padding: f64| {
        let padding = [("padding", Arg::Number(padding)), ("position", text("random"))];
        with("crop", &[&[("size", size(height, width))][..], &padding].concat())
    };
    let inner = step("crop", &[("size", size(height.div_ceil(2), width.div_ceil(2)))]);
    vec![
        vec![rotate(15.0)],
        vec![flip(true, false), rotate(200.0)],
        vec![rotate(90.0), flip(true, true), inner.clone()],
        vec![inner, flip(false, true), scale(0.7)],
        vec![scale(3.0)],
        vec![with("rotate", &[("angle", angle(45.0))])],
        vec![with("rotate", &[("angle", angle(30.0)), ("interp", text("nearest"))])],
        vec![crop(4.0)],
        vec![flip(true, false), crop(9.0)],
        vec![crop(2.0), flip(true, true), crop(3.0)],
    ]
}

/// The host reads rows and stores strips: where registers, chunks and borders end among them depends
/// on the width. The grid knows neither.
#[test]
fn every_width() {
    let wide = [255, 256, 257, 300, 600].map(|width| (width, 5));
    let sizes = (1..=70).map(|width| (width, 1 + width * 5 % 23)).chain(wide);
    for (k, (width, height)) in sizes.enumerate() {
        let image = pixels(width, height, &picture(width, height));
        let border = ["constant", "clamp", "reflect"][k % 3];
        for (j, steps) in movements(width, height, border).into_iter().enumerate() {
            let layout = [None, Some(Layout::Chw)][(j + k / 3) % 2];
            let dtype = [DType::U8, DType::F32][(j / 2 + k) % 2];
            let spec = spec(steps, layout, Some(dtype));
            let plan = Plan::compile(&spec, ops::ALL).unwrap();
            let grid = Program::with(plan.clone(), Cpu::best().unwrap()).on_grid(32);
            let programs = Cpu::levels().into_iter().map(|cpu| Program::with(plan.clone(), cpu));
            for program in programs {
                for id in 0..4 {
                    let [got, expected] = [&program, &grid].map(|p| run(p, &image, EPOCH, id));
                    let device = program.device();
                    assert!(got == expected, "{device} {width}x{height} {:?}", spec.steps);
                }
            }
        }
    }
}
