//! Random pipelines that fit together: any operator, predicates, nested branches, images of
//! earlier steps as operands, several outputs.
//!
//! Steps drawn at random rarely agree in type and size. Each list is therefore grown step by step
//! with the planner as the judge; a step that does not fit is mended with a cast or a crop, or left
//! out. What shrinks is the list of candidates.

use super::common::{spec, step, when};
use forebay::graph::expr::Expr;
use forebay::graph::plan::Plan;
use forebay::graph::spec::{Arg, Body, Condition, Dist, DrawSpec, Output, Spec, Step};
use forebay::ops;
use forebay::tensor::{DType, Layout};
use proptest::prelude::*;

/// The crop of random pipelines, rows and columns.
const CROP: [f64; 2] = [9.0, 11.0];

fn uniform(lo: f32, hi: f32, per_channel: bool) -> Arg {
    Arg::Draw { dist: Dist::Uniform { lo, hi }, per_channel }
}

fn text(word: &str) -> Arg {
    Arg::Text(word.into())
}

fn formula(expr: &str) -> Step {
    let args = [("expr", Arg::Expr(Expr::parse(expr).unwrap())), ("a", uniform(-50., 50., true))];
    step("expr", &args)
}

fn cast(dtype: &str) -> Step {
    step("cast", &[("dtype", text(dtype))])
}

fn crop() -> Step {
    step("crop", &[("size", Arg::Numbers(CROP.to_vec()))])
}

fn border() -> impl Strategy<Value = Vec<(&'static str, Arg)>> {
    prop_oneof![
        Just(vec![]),
        Just(vec![("border", text("clamp"))]),
        Just(vec![("border", text("reflect"))]),
        // Of a u8 image the fill is u8, too.
        (-20.0..300.0f64).prop_map(|v| vec![("fill", Arg::Number(v))]),
        Just(vec![("border", text("constant")), ("fill", uniform(0.0, 255.0, false))]),
    ]
}

fn gather() -> impl Strategy<Value = Step> {
    let interp = || prop_oneof![Just("linear"), Just("nearest")];
    let rotate = (border(), interp(), any::<bool>()).prop_map(|(mut args, interp, keep)| {
        args.push(("angle", uniform(-200.0, 200.0, false)));
        args.push(("interp", text(interp)));
        args.push(("keep_size", Arg::Bool(keep)));
        step("rotate", &args)
    });
    let affine = (border(), interp()).prop_map(|(mut args, interp)| {
        args.push(("angle", uniform(-30.0, 30.0, false)));
        args.push(("scale", uniform(0.5, 1.5, false)));
        args.push(("shear_x", uniform(-20.0, 20.0, false)));
        args.push(("shear_y", Arg::Number(7.5)));
        args.push(("translate", Arg::Numbers(vec![2.5, -3.0])));
        args.push(("interp", text(interp)));
        step("affine", &args)
    });
    let filter = || prop_oneof![Just("triangle"), Just("linear"), Just("nearest")];
    let resize =
        (filter(), new_size(), mode(), any::<bool>()).prop_map(|(filter, size, mode, exact)| {
            let mut args = vec![("interp", text(filter)), ("mode", text(mode))];
            let square = matches!(mode, "shorter" | "longer");
            args.push((
                "size",
                if square { Arg::Number(size[0]) } else { Arg::Numbers(size.to_vec()) },
            ));
            if mode != "stretch" {
                args.push(("subpixel_scale", Arg::Bool(exact)));
            }
            step("resize", &args)
        });
    let window = (filter(), new_size(), 0.1..1.0f64).prop_map(|(filter, size, least)| {
        let args = [
            ("interp", text(filter)),
            ("size", Arg::Numbers(size.to_vec())),
            ("area", Arg::Numbers(vec![least, 1.0])),
        ];
        step("random_resized_crop", &args)
    });
    prop_oneof![rotate, affine, resize, window]
}

/// Mostly the crop's, so that branches agree; also more columns than a strip has pixels, and so few
/// that each reads more taps than rows have tables for.
fn new_size() -> impl Strategy<Value = [f64; 2]> {
    prop_oneof![
        6 => Just(CROP),
        1 => Just([1.0, 2.0]),
        1 => Just([13.0, 70.0]),
        2 => (5..24u32, 5..24u32).prop_map(|(h, w)| [h.into(), w.into()]),
    ]
}

fn mode() -> impl Strategy<Value = &'static str> {
    let modes = vec!["shorter", "longer", "not_smaller", "not_larger"];
    prop_oneof![Just("stretch"), prop::sample::select(modes)]
}

fn map() -> impl Strategy<Value = Step> {
    let flip = (any::<bool>(), any::<bool>()).prop_map(|(h, v)| {
        step("flip", &[("horizontal", Arg::Bool(h)), ("vertical", Arg::Bool(v))])
    });
    let crop = (border(), 0..12u32, any::<bool>()).prop_map(|(args, padding, random)| {
        let mut args = if padding > 0 { args } else { vec![] };
        args.push(("size", Arg::Numbers(CROP.to_vec())));
        args.push(("padding", Arg::Number(padding.into())));
        args.push(("position", text(if random { "random" } else { "center" })));
        step("crop", &args)
    });
    prop_oneof![2 => flip, 1 => crop]
}

fn point() -> impl Strategy<Value = Step> {
    let contrast = Dist::Normal { mean: 1.0, std: 0.3 };
    prop_oneof![
        2 => Just(step("rgb_shift", &[("shift", uniform(-40.0, 40.0, true))])),
        2 => Just(step(
            "brightness_contrast",
            &[
                ("brightness", uniform(0.5, 1.5, false)),
                ("contrast", Arg::Draw { dist: contrast, per_channel: true }),
            ],
        )),
        1 => Just(step("normalize", &[("mean", Arg::Number(0.4)), ("std", Arg::Number(0.25))])),
        1 => Just(cast("u8")),
        1 => Just(cast("f32")),
        1 => Just(step("clamp", &[("lo", Arg::Number(20.0)), ("hi", Arg::Number(200.0))])),
        1 => Just(step("transpose", &[("layout", text("CHW"))])),
        4 => prop_oneof![
            Just("x * 0.5 + a"),
            Just("cast(clamp(x + a, 0, 255), u8)"),
            Just("x - x * [0.1, 0.2, 0.3]"),
            Just("cast(x > 100 or x < a, u8) * x"),
            Just("not (x == a or x != 100 and x >= 50) - x"),
            Just("1 / x + -x"),
            Just("x - (x + 3) * a"),
            Just("(((x + 1) * 2 - 3 + a) / 1.5 + 4) * 0.75 - a"),
        ]
        .prop_map(formula),
        // Images of earlier steps, where there are such.
        2 => prop_oneof![
            Just("min(x, decode) / (x - 50)"),
            Just("max(x, flip) - a"),
            Just("x * 0.25 + rotate * 0.75"),
            Just("(x - crop) * (x + crop)"),
            Just("x <= brightness_contrast"),
            Just("x + resize * 0.5"),
        ]
        .prop_map(formula),
    ]
}

/// Weights of gathers, maps and pointwise steps. A list leans to one kind, so that some pass holds
/// as many of it as fit.
type Leaning = [u32; 3];

fn leaning() -> impl Strategy<Value = Leaning> {
    prop_oneof![3 => Just([2, 3, 5]), 1 => Just([1, 12, 2]), 1 => Just([1, 1, 20])]
}

fn any_op([gathers, maps, points]: Leaning) -> impl Strategy<Value = Step> {
    let from = prop_oneof![
        16 => Just(None),
        1 => Just(Some("decode")),
        1 => Just(Some("flip")),
        1 => Just(Some("rgb_shift")),
    ];
    let body = prop_oneof![gathers => gather(), maps => map(), points => point()];
    (body, from).prop_map(|(step, from)| Step { from: from.map(str::to_string), ..step })
}

fn condition() -> impl Strategy<Value = Condition> {
    prop_oneof![
        (0.3..0.7f32).prop_map(Condition::Probability),
        Just(Condition::Draw("coin".into())),
        Just(Condition::Expr(Expr::parse("u < 0.6 and not coin or u > 0.9").unwrap())),
    ]
}

fn branch(condition: Condition, then: Vec<Step>, otherwise: Vec<Step>) -> Step {
    let body = Body::Branch { then, otherwise };
    Step { name: None, from: None, when: Some(condition), body }
}

/// Candidates, most of which do not fit their neighbours.
fn candidates(depth: u32, longest: usize) -> BoxedStrategy<Vec<Step>> {
    leaning()
        .prop_flat_map(move |kind| prop::collection::vec(one(kind, depth), 0..=longest))
        .boxed()
}

fn one(kind: Leaning, depth: u32) -> BoxedStrategy<Step> {
    let guarded = (condition(), any_op(kind)).prop_map(|(c, s)| when(c, s));
    if depth == 0 {
        return prop_oneof![any_op(kind), guarded].boxed();
    }
    let parts = (condition(), candidates(depth - 1, 4), candidates(depth - 1, 4));
    let choice = parts.prop_map(|(c, then, otherwise)| branch(c, then, otherwise));
    prop_oneof![3 => any_op(kind), 3 => guarded, 1 => choice].boxed()
}

/// `steps` as a pipeline with the draws that conditions name.
fn pipeline(steps: Vec<Step>, layout: Option<Layout>, dtype: Option<DType>) -> Spec {
    let mut spec = spec(steps, layout, dtype);
    let draw = |name: &str, dist| DrawSpec { name: name.into(), dist, per_channel: false };
    spec.draws.push(draw("coin", Dist::Bernoulli { p: 0.5 }));
    spec.draws.push(draw("u", Dist::Uniform { lo: 0.0, hi: 1.0 }));
    spec
}

fn compiles(before: &[Step], more: &[Step]) -> bool {
    let steps = [before, more].concat();
    Plan::compile(&pipeline(steps, None, None), ops::ALL).is_ok()
}

/// What fits of `candidates` behind the steps `before`.
fn fit(before: &[Step], candidates: Vec<Step>) -> Vec<Step> {
    let mut all = before.to_vec();
    for candidate in candidates {
        if let Some(step) = mended(&all, candidate) {
            all.push(step);
        }
    }
    all.split_off(before.len())
}

/// The step, or a choice that ends both its branches with the same type and size.
fn mended(before: &[Step], step: Step) -> Option<Step> {
    let Some(condition) = step.when.clone() else {
        return compiles(before, std::slice::from_ref(&step)).then_some(step);
    };
    let (then, otherwise) = match &step.body {
        Body::Op { .. } => (vec![Step { when: None, ..step.clone() }], vec![]),
        Body::Branch { then, otherwise } => (then.clone(), otherwise.clone()),
    };
    let (then, otherwise) = (fit(before, then), fit(before, otherwise));
    let same_type = vec![cast("u8")];
    let ends = [vec![], same_type.clone(), vec![crop()], [vec![crop()], same_type].concat()];
    let plain = matches!(step.body, Body::Op { .. }).then_some(step);
    let choices = ends.into_iter().map(|end| {
        branch(condition.clone(), [&then[..], &end].concat(), [&otherwise[..], &end].concat())
    });
    plain.into_iter().chain(choices).find(|step| compiles(before, std::slice::from_ref(step)))
}

/// A pipeline; nearly all compile.
pub(crate) fn any_spec() -> impl Strategy<Value = Spec> {
    let layout = prop_oneof![Just(None), Just(Some(Layout::Chw))];
    let dtype = prop_oneof![Just(None), Just(Some(DType::U8)), Just(Some(DType::F32))];
    let more = prop::option::of(prop_oneof![Just("decode"), Just("rotate"), Just("flip")]);
    (candidates(2, 12), layout, dtype, more).prop_map(|(candidates, layout, dtype, more)| {
        let mut spec = pipeline(fit(&[], candidates), layout, dtype);
        if let Some(from) = more {
            let (name, from) = ("second".into(), Some(from.into()));
            spec.outputs.push(Output { name, from, layout: None, dtype: None });
            if Plan::compile(&spec, ops::ALL).is_err() {
                spec.outputs.pop();
            }
        }
        spec
    })
}

/// Columns and rows of a picture; smaller ones than the crop are refused by most pipelines.
pub(crate) fn size() -> impl Strategy<Value = (u32, u32)> {
    prop_oneof![4 => (11..40u32, 9..30u32), 1 => (1..20u32, 1..20u32)]
}

/// A picture with every level, smooth and noisy parts.
pub(crate) fn picture(width: u32, height: u32) -> Vec<u8> {
    (0..width * height * 3)
        .map(|k| if k % 7 < 3 { ((k * 40503) >> 7) as u8 } else { (k / 3) as u8 })
        .collect()
}
