//! Fusion never changes a value, nor does the machine: over random graphs and every combination of
//! branches, the fused plan gives the bytes of the steps run one by one, on each instruction set
//! level, and through the GPU entry walked over its grid.

mod common;

use common::{pixels, run, spec, step, when};
use forebay::device::cpu::Cpu;
use forebay::executor::program::Program;
use forebay::graph::plan::Plan;
use forebay::graph::spec::{Arg, Body, Condition, Dist, DrawSpec, Output, Spec, Step};
use forebay::ops;
use forebay::tensor::{DType, Layout};
use proptest::prelude::*;
use proptest::strategy::ValueTree;

fn uniform(lo: f32, hi: f32, per_channel: bool) -> Arg {
    Arg::Draw { dist: Dist::Uniform { lo, hi }, per_channel }
}

fn text(word: &str) -> Arg {
    Arg::Text(word.into())
}

fn border() -> impl Strategy<Value = Vec<(&'static str, Arg)>> {
    prop_oneof![
        Just(vec![]),
        Just(vec![("border", text("reflect"))]),
        (0.0..255.0f64).prop_map(|v| vec![("fill", Arg::Number(v.round()))]),
    ]
}

/// One step of any operator.
fn any_op() -> impl Strategy<Value = Step> {
    let interp = prop_oneof![Just("linear"), Just("nearest")];
    prop_oneof![
        (border(), interp.clone(), any::<bool>()).prop_map(|(mut args, interp, keep)| {
            args.push(("angle", uniform(-200.0, 200.0, false)));
            args.push(("interp", text(interp)));
            args.push(("keep_size", Arg::Bool(keep)));
            step("rotate", &args)
        }),
        (border(), interp).prop_map(|(mut args, interp)| {
            args.push(("angle", uniform(-30.0, 30.0, false)));
            args.push(("scale", uniform(0.5, 1.5, false)));
            args.push(("shear_x", uniform(-20.0, 20.0, false)));
            args.push(("translate", Arg::Numbers(vec![2.5, -3.0])));
            args.push(("interp", text(interp)));
            step("affine", &args)
        }),
        Just(step("rgb_shift", &[("shift", uniform(-40.0, 40.0, true))])),
        Just(step(
            "brightness_contrast",
            &[
                ("brightness", uniform(0.5, 1.5, false)),
                (
                    "contrast",
                    Arg::Draw { dist: Dist::Normal { mean: 1.0, std: 0.3 }, per_channel: true }
                ),
            ],
        )),
        Just(step("normalize", &[("mean", Arg::Number(0.4)), ("std", Arg::Number(0.25))])),
        (any::<bool>(), any::<bool>()).prop_map(|(h, v)| {
            step("flip", &[("horizontal", Arg::Bool(h)), ("vertical", Arg::Bool(v))])
        }),
        (border(), 0..6u32, any::<bool>()).prop_map(|(args, padding, random)| {
            let mut args = if padding > 0 { args } else { vec![] };
            args.push(("size", Arg::Numbers(vec![9.0, 11.0])));
            args.push(("padding", Arg::Number(padding.into())));
            args.push(("position", text(if random { "random" } else { "center" })));
            step("crop", &args)
        }),
        Just(step("cast", &[("dtype", text("u8"))])),
        Just(step("cast", &[("dtype", text("f32"))])),
        Just(step("clamp", &[("lo", Arg::Number(20.0)), ("hi", Arg::Number(200.0))])),
        Just(step("transpose", &[("layout", text("CHW"))])),
        prop_oneof![
            Just("x * 0.5 + a"),
            Just("cast(clamp(x + a, 0, 255), u8)"),
            Just("x - x * [0.1, 0.2, 0.3]"),
            Just("cast(x > 100 or x < a, u8) * x"),
            Just("min(x, decode) / (x - 50)"),
            Just("1 / x + -x"),
        ]
        .prop_map(|formula| {
            let expr = forebay::graph::expr::Expr::parse(formula).unwrap();
            step("expr", &[("expr", Arg::Expr(expr)), ("a", uniform(-50.0, 50.0, true))])
        }),
    ]
}

fn condition() -> impl Strategy<Value = Condition> {
    prop_oneof![
        (0.2..0.8f32).prop_map(Condition::Probability),
        Just(Condition::Draw("coin".into())),
        Just(Condition::Expr(
            forebay::graph::expr::Expr::parse("u < 0.6 and not coin or u > 0.9").unwrap()
        )),
    ]
}

/// Steps with predicates and nested branches.
fn any_steps(depth: u32) -> BoxedStrategy<Vec<Step>> {
    let plain = any_op();
    let guarded = (condition(), any_op()).prop_map(|(c, s)| when(c, s));
    let one = if depth == 0 {
        prop_oneof![plain, guarded].boxed()
    } else {
        let branch = (condition(), any_steps(depth - 1), any_steps(depth - 1)).prop_map(
            |(c, then, otherwise)| Step {
                name: None,
                from: None,
                when: Some(c),
                body: Body::Branch { then, otherwise },
            },
        );
        prop_oneof![3 => plain, 3 => guarded, 2 => branch].boxed()
    };
    prop::collection::vec(one, 0..5).boxed()
}

fn any_spec() -> impl Strategy<Value = Spec> {
    let layout = prop_oneof![Just(None), Just(Some(Layout::Chw))];
    let dtype = prop_oneof![Just(None), Just(Some(DType::U8)), Just(Some(DType::F32))];
    (any_steps(2), layout, dtype, any::<bool>()).prop_map(|(steps, layout, dtype, two)| {
        let mut spec = spec(steps, layout, dtype);
        let draw = |name: &str, dist| DrawSpec { name: name.into(), dist, per_channel: false };
        spec.draws.push(draw("coin", Dist::Bernoulli { p: 0.5 }));
        spec.draws.push(draw("u", Dist::Uniform { lo: 0.0, hi: 1.0 }));
        if two {
            let from = Some("decode".into());
            spec.outputs.push(Output { name: "original".into(), from, layout: None, dtype: None });
        }
        spec
    })
}

/// A picture with every level, smooth and noisy parts.
fn picture(width: u32, height: u32) -> forebay::decoder::Pixels {
    let bytes: Vec<u8> = (0..width * height * 3)
        .map(|k| if k % 7 < 3 { ((k * 40503) >> 7) as u8 } else { (k / 3) as u8 })
        .collect();
    pixels(width, height, &bytes)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..Default::default() })]

    #[test]
    fn fused_equals_step_by_step(spec in any_spec(), width in 1..40u32, height in 1..30u32) {
        // Most random graphs fit together; those whose branches disagree are refused by name.
        let Ok(plan) = Plan::compile(&spec, ops::ALL) else { return Ok(()) };
        let plain = Plan::compile_unfused(&spec, ops::ALL).unwrap();
        prop_assert!(plan.passes.len() <= plain.passes.len());
        let image = picture(width, height);
        let best = Cpu::best().unwrap();
        let reference = Program::with(plain, best);
        let mut others: Vec<_> =
            Cpu::levels().into_iter().map(|cpu| Program::with(plan.clone(), cpu)).collect();
        others.push(Program::with(plan.clone(), best).on_grid(32));
        for id in 0..6 {
            let mut scratch = Default::default();
            // A crop may be larger than the picture: then all refuse it.
            if reference.resolve(&mut scratch, 42, 3, id, width, height).is_err() {
                for other in &others {
                    prop_assert!(other.resolve(&mut scratch, 42, 3, id, width, height).is_err());
                }
                continue;
            }
            let expected = run(&reference, &image, 3, id);
            for other in &others {
                let got = run(other, &image, 3, id);
                prop_assert!(got == expected, "{} sample {id}: {:?}", other.device(), spec.steps);
            }
        }
    }
}

/// How many of the random graphs are plans: the property above would hold for none, too.
#[test]
fn most_random_graphs_compile() {
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let (mut compiled, mut passes, mut branches) = (0, 0, 0);
    for _ in 0..300 {
        let spec = any_spec().new_tree(&mut runner).unwrap().current();
        if let Ok(plan) = Plan::compile(&spec, ops::ALL) {
            compiled += 1;
            passes += plan.passes.len();
            branches += plan.steps.iter().filter(|s| s.guard != 0xFFFF).count();
        }
    }
    println!("{compiled} of 300 random graphs compile: {passes} passes, {branches} guarded steps");
    assert!(compiled > 100 && branches > 100);
}
