//! Pipelines that between them have every operation on every kind of operand, and every gather with
//! every border between crops and flips.

use super::batch::Tables;
use super::common::{spec, step};
use forebay::graph::expr::Expr;
use forebay::graph::program::Op;
use forebay::graph::spec::{Arg, Dist, Step};
use forebay::tensor::{DType, Layout};

const LAYOUTS: [Option<Layout>; 2] = [None, Some(Layout::Chw)];

fn uniform(lo: f32, hi: f32) -> Arg {
    Arg::Draw { dist: Dist::Uniform { lo, hi }, per_channel: true }
}

fn text(word: &str) -> Arg {
    Arg::Text(word.into())
}

fn formula(name: &str, expr: &str) -> Step {
    let args = [("expr", Arg::Expr(Expr::parse(expr).unwrap())), ("a", uniform(-50.0, 50.0))];
    Step { name: Some(name.into()), ..step("expr", &args) }
}

/// Every operation of the kernels.
#[rustfmt::skip]
const OPERATIONS: [Op; 19] = [
    Op::Add, Op::Sub, Op::Rsub, Op::Mul, Op::Div, Op::Rdiv, Op::Min, Op::Max, Op::Lt, Op::Le, Op::Gt,
    Op::Ge, Op::Eq, Op::Ne, Op::And, Op::Or, Op::Neg, Op::Not, Op::Round,
];

/// Each operation on pixels, with a constant, a u8 image and an f32 image, in passes that read and
/// write u8 or f32 in either layout; and each on numbers.
pub(crate) fn operations() -> Vec<(String, Tables)> {
    let mut all = Vec::new();
    for (k, op) in OPERATIONS.into_iter().enumerate() {
        for (j, operand) in ["a", "decode", "float"].into_iter().enumerate() {
            let mut steps = vec![formula("float", "(x - 100) * 1.5")];
            if (k + j) % 2 == 0 {
                steps.push(step("cast", &[("dtype", text("u8"))]));
            }
            // The test's place is taken by other operations, which no formula gives to an image.
            let narrow = (k + j) % 3 == 0;
            let sum = format!("x + {operand}");
            let expr = if narrow { format!("cast({sum}, u8)") } else { sum };
            steps.push(formula("tested", &expr));
            let spec = spec(steps, LAYOUTS[k % 2], None);
            let tables = Tables::of(&spec).unwrap().with_point(Op::Add, op);
            all.push((format!("{op:?} of x and {operand}"), tables));
        }
        // A uniform draw is lo + (hi - lo) * unit.
        let shift = spec(vec![step("rgb_shift", &[("shift", uniform(-15.0, 15.0))])], None, None);
        let tables = Tables::of(&shift).unwrap().with_scalar(Op::Mul, op);
        all.push((format!("{op:?} of numbers"), tables));
    }
    all
}

/// Crops and flips before and behind a gather of a u8 or an f32 image, all with one border.
pub(crate) fn gathers() -> Vec<(String, Tables)> {
    let mut all = Vec::new();
    for (k, border) in ["clamp", "reflect", "constant"].into_iter().cycle().take(24).enumerate() {
        let (linear, keep, float) = (k / 3 % 2 == 0, k / 6 % 2 == 0, k / 12 == 0);
        let mut edge = vec![("border", text(border))];
        if border == "constant" {
            edge.push(("fill", Arg::Number(77.0)));
        }
        let crop = |position: &str| {
            let size = Arg::Numbers(vec![9.0, 13.0]);
            let args =
                [("size", size), ("padding", Arg::Number(6.0)), ("position", text(position))];
            step("crop", &[&args[..], &edge].concat())
        };
        let flip = |h, v| step("flip", &[("horizontal", Arg::Bool(h)), ("vertical", Arg::Bool(v))]);
        let angle = Arg::Draw { dist: Dist::Uniform { lo: -200.0, hi: 200.0 }, per_channel: false };
        let rotate = [
            ("angle", angle),
            ("interp", text(if linear { "linear" } else { "nearest" })),
            ("keep_size", Arg::Bool(keep)),
        ];
        let mut steps = vec![
            formula("float", "x * 1.7 - 60"),
            crop("random"),
            flip(true, k % 2 == 0),
            step("rotate", &[&rotate[..], &edge].concat()),
            crop("center"),
            flip(k % 2 == 0, true),
        ];
        if !float {
            steps.remove(0);
        }
        let dtype = if k % 2 == 0 { DType::F32 } else { DType::U8 };
        let tables = Tables::of(&spec(steps, LAYOUTS[k / 2 % 2], Some(dtype))).unwrap();
        all.push((format!("{border}, from f32: {float}, {rotate:?}"), tables));
    }
    all
}

/// Resamples of a u8 or an f32 image between crops and flips: each filter and mode, of all of the image
/// and of drawn windows, enlarging and shrinking.
pub(crate) fn resamples() -> Vec<(String, Tables)> {
    let modes = ["stretch", "shorter", "longer", "not_smaller", "not_larger", "window"];
    let mut all = Vec::new();
    for (k, mode) in modes.into_iter().cycle().take(36).enumerate() {
        let filter = ["triangle", "linear", "nearest"][k / 6 % 3];
        let (float, large) = (k / 18 == 0, k % 4 == 0);
        let size = if large { [19.0, 23.0] } else { [4.0, 3.0] };
        let square = matches!(mode, "shorter" | "longer");
        let size = if square { Arg::Number(size[0]) } else { Arg::Numbers(size.to_vec()) };
        let mut args = vec![("interp", text(filter)), ("size", size)];
        let op = if mode == "window" { "random_resized_crop" } else { "resize" };
        if op == "resize" {
            args.push(("mode", text(mode)));
        }
        if op == "resize" && mode != "stretch" {
            args.push(("subpixel_scale", Arg::Bool(k % 2 == 0)));
        }
        let pad = |border: &str| {
            let size = Arg::Numbers(vec![9.0, 13.0]);
            let args = [("size", size), ("padding", Arg::Number(9.0)), ("border", text(border))];
            step("crop", &args)
        };
        let mut steps = vec![
            formula("float", "x * 1.7 - 60"),
            pad(["reflect", "clamp"][k % 2]),
            step("flip", &[]),
            step(op, &args),
            pad(["clamp", "reflect"][k % 2]),
            step("flip", &[("vertical", Arg::Bool(true))]),
        ];
        if !float {
            steps.remove(0);
        }
        let dtype = if k % 2 == 0 { DType::F32 } else { DType::U8 };
        let tables = Tables::of(&spec(steps, LAYOUTS[k / 2 % 2], Some(dtype))).unwrap();
        all.push((format!("resample, from f32: {float}, {args:?}"), tables));
    }
    // Windows of which no attempt fits, and a result larger than any image.
    let window = |aspect: [f64; 2]| {
        let args = [("size", Arg::Number(5.0)), ("aspect", Arg::Numbers(aspect.to_vec()))];
        let area = [("area", Arg::Numbers(vec![0.9, 1.0]))];
        step("random_resized_crop", &[&args[..], &area].concat())
    };
    let size = Arg::Numbers(vec![60_000.0, 2_000.0]);
    let large = step("resize", &[("size", size), ("mode", text("not_smaller"))]);
    for step in [window([5.0, 6.0]), window([0.05, 0.1]), large] {
        let label = format!("{step:?}");
        all.push((label, Tables::of(&spec(vec![step], None, None)).unwrap()));
    }
    all
}
