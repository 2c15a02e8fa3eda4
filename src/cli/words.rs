//! A plan's steps in words: what each does, and to which samples.

use forebay::graph::expr::{Binary, Expr, Unary};
use forebay::graph::plan::Plan;
use forebay::graph::program::{
    Border, FLAG_GROW, FLAG_HORIZONTAL, FLAG_IMAGE, FLAG_LINEAR, FLAG_RANDOM, FLAG_SUBPIXEL,
    FLAG_VERTICAL, Filter, Fit, NO_GUARD, Op, STEP_AFFINE, STEP_CROP, STEP_POINT, STEP_RESAMPLE,
    Scalar, Step,
};
use forebay::tensor::DType;
use std::cell::Cell;
use std::collections::{HashMap, HashSet};

/// Parts of one expression that are written out. A pipeline of a few lines can share its parts so
/// that the whole, written out, has more than there are atoms.
const PARTS: u32 = 100;

/// Reads the registers of a plan's scalar program back as expressions.
pub(crate) struct Words<'a> {
    plan: &'a Plan,
    registers: HashMap<u16, Scalar>,
    draws: HashMap<u32, &'a str>,
    /// Draws of which more than the first element is used.
    per_channel: HashSet<u32>,
}

impl<'a> Words<'a> {
    pub(crate) fn new(plan: &'a Plan) -> Self {
        let draw = |s: &&Scalar| s.op == Op::Unit as u16 || s.op == Op::Normal as u16;
        let later = plan.scalars().iter().filter(draw).filter(|scalar| scalar.element > 0);
        Words {
            plan,
            registers: plan.scalars().iter().map(|scalar| (scalar.dst, *scalar)).collect(),
            draws: plan.draws().iter().map(|(name, n)| (u32::from(*n), name.as_str())).collect(),
            per_channel: later.map(|scalar| scalar.value).collect(),
        }
    }

    /// How a draw falls, before steps scale it.
    pub(crate) fn draw(&self, number: u16) -> &'static str {
        let is =
            |scalar: &&Scalar, op: Op| scalar.op == op as u16 && scalar.value == u32::from(number);
        let uses = |op| self.plan.scalars().iter().filter(|scalar| is(scalar, op)).count();
        match (uses(Op::Unit), uses(Op::Normal)) {
            (1, _) => "uniform from 0 to 1",
            (2.., _) => "uniform from 0 to 1, one a channel",
            (_, 1) => "normal",
            (_, 2..) => "normal, one a channel",
            _ => "a place or a window",
        }
    }

    /// The steps of a pass, a few lines each. Pointwise steps of one name are one expression.
    pub(crate) fn steps(&self, steps: &[Step]) -> Vec<String> {
        let mut lines = Vec::new();
        let alike = |a: &Step, b: &Step| a.name == b.name && a.guard == b.guard;
        for steps in steps.chunk_by(alike) {
            let name = &self.plan.names()[usize::from(steps[0].name)];
            lines.push(match steps[0].guard {
                NO_GUARD => name.clone(),
                guard => format!("{name}, if {}", self.register(guard)),
            });
            let kind = |a: &Step, b: &Step| a.kind == STEP_POINT && b.kind == STEP_POINT;
            for steps in steps.chunk_by(kind) {
                let what = match steps[0].kind {
                    STEP_POINT => self.points(steps),
                    STEP_AFFINE => self.affine(&steps[0]),
                    STEP_CROP => self.crop(&steps[0]),
                    STEP_RESAMPLE => self.resample(&steps[0]),
                    _ => flip(&steps[0]),
                };
                lines.push(format!("    {what}"));
            }
        }
        lines
    }

    /// A chain of pointwise operations as one expression on `x`.
    fn points(&self, steps: &[Step]) -> String {
        let chain = |x: Expr, step: &Step| {
            let unary = [Op::Round, Op::Not, Op::Neg].map(|op| op as u8);
            let operand = if unary.contains(&step.op) {
                Expr::Number(0.0)
            } else if step.flags & FLAG_IMAGE != 0 {
                Expr::Name(format!("image {}", step.regs[0]))
            } else {
                self.channels([0, 1, 2].map(|c| step.regs[c]))
            };
            apply(u16::from(step.op), x, operand)
        };
        let x = steps.iter().fold(Expr::Name("x".into()), chain);
        format!("x = {}", tidy(x))
    }

    fn affine(&self, step: &Step) -> String {
        let [angle, right, down, scale, shear_x, shear_y] =
            [0, 1, 2, 3, 4, 5].map(|i| self.register(step.regs[i]));
        let mut text = format!("turn by {angle} degrees");
        let parts = [
            (" right", right, Expr::Number(0.0)),
            (" down", down, Expr::Number(0.0)),
            (" times as large", scale, Expr::Number(1.0)),
            (" degrees of shear along x", shear_x, Expr::Number(0.0)),
            (" degrees of shear along y", shear_y, Expr::Number(0.0)),
        ];
        for (what, value, nothing) in parts {
            if value != nothing {
                text += &format!(", {value}{what}");
            }
        }
        text += if step.flags & FLAG_LINEAR != 0 { "; linear taps" } else { "; nearest pixel" };
        text += &self.border(step);
        if step.flags & FLAG_GROW != 0 {
            text += ", on a canvas that grows";
        }
        text
    }

    fn crop(&self, step: &Step) -> String {
        let place = if step.flags & FLAG_RANDOM != 0 { "at a drawn place" } else { "centred" };
        let mut text = format!("crop to {}x{}, {place}", step.height, step.width);
        if step.padding > 0 {
            text += &format!(", after {} pixels of padding{}", step.padding, self.border(step));
        }
        text
    }

    fn resample(&self, step: &Step) -> String {
        let size = format!("{}x{}", step.height, step.width);
        let mut text = match step.border {
            fit if fit == Fit::NotSmaller as u8 => format!("resize to no side under {size}"),
            fit if fit == Fit::NotLarger as u8 => format!("resize to no side over {size}"),
            _ => format!("resize to {size}"),
        };
        if step.flags & FLAG_RANDOM != 0 {
            let [least, most, narrow, wide] = [0, 1, 2, 3].map(|i| self.register(step.regs[i]));
            text += &format!(
                " a drawn window of {least} to {most} of the area, {narrow} to {wide} times as wide as \
                 high"
            );
        }
        text += match step.op {
            filter if filter == Filter::Triangle as u8 => "; antialiased",
            filter if filter == Filter::Linear as u8 => "; linear taps",
            _ => "; nearest pixel",
        };
        if step.flags & FLAG_SUBPIXEL != 0 {
            text += ", the scale kept where a side is rounded";
        }
        text
    }

    fn border(&self, step: &Step) -> String {
        match step.border {
            b if b == Border::Constant as u8 => format!(", border {}", self.register(step.regs[6])),
            b if b == Border::Reflect as u8 => ", border reflect".into(),
            _ => ", border clamp".into(),
        }
    }

    /// One expression for three registers that are the same, else one a channel.
    fn channels(&self, registers: [u16; 3]) -> Expr {
        let [r, g, b] = registers.map(|register| self.register(register));
        if r == g && g == b { r } else { Expr::Channels([r, g, b].map(Box::new)) }
    }

    fn register(&self, register: u16) -> Expr {
        self.part(register, &Cell::new(PARTS))
    }

    fn part(&self, register: u16, left: &Cell<u32>) -> Expr {
        let Some(scalar) = self.registers.get(&register).filter(|_| left.get() > 0) else {
            return Expr::Name("…".into());
        };
        left.set(left.get() - 1);
        if scalar.op == Op::Const as u16 {
            return number(f32::from_bits(scalar.value));
        }
        if scalar.op == Op::Unit as u16 || scalar.op == Op::Normal as u16 {
            let name = self.draws.get(&scalar.value).copied().unwrap_or("draw");
            let channel = ["r", "g", "b"].get(scalar.element as usize);
            return Expr::Name(
                match channel.filter(|_| self.per_channel.contains(&scalar.value)) {
                    Some(channel) => format!("{name}.{channel}"),
                    None => name.into(),
                },
            );
        }
        let [a, b] = [scalar.a, scalar.b].map(|register| self.part(register, left));
        match self.range(scalar) {
            Some([low, high]) => match a {
                Expr::Binary(op, u, _) => {
                    let width = Expr::Binary(Binary::Sub, Box::new(high), Box::new(low));
                    apply(scalar.op, Expr::Binary(op, u, Box::new(width)), b)
                }
                a => apply(scalar.op, a, b),
            },
            None => apply(scalar.op, a, b),
        }
    }

    /// The ends of `u * width + low`, where `high - low` is that width and shorter to write: 1.05 - 0.95 is
    /// 0.099999964 in f32.
    fn range(&self, sum: &Scalar) -> Option<[Expr; 2]> {
        let constant = |register: u16| {
            let scalar = self.registers.get(&register)?;
            (scalar.op == Op::Const as u16).then(|| f32::from_bits(scalar.value))
        };
        let product = self.registers.get(&sum.a).filter(|scalar| scalar.op == Op::Mul as u16)?;
        let low = constant(sum.b).filter(|_| sum.op == Op::Add as u16)?;
        let width = constant(product.b)?;
        let high = low + width;
        let shorter = format!("{high}{low}").len() < width.to_string().len();
        (high - low == width && shorter).then(|| [number(low), number(high)])
    }
}

fn flip(step: &Step) -> String {
    let mirrored = |flag, what| (step.flags & flag != 0).then_some(what);
    let both = [mirrored(FLAG_HORIZONTAL, "left to right"), mirrored(FLAG_VERTICAL, "upside down")];
    format!("mirror {}", both.into_iter().flatten().collect::<Vec<_>>().join(" and "))
}

/// The expression without zeros that change nothing of it: a product of numbers that is 0 is written so, and
/// what is added to 0 stands alone where the sign of a zero that comes of it is not seen.
fn tidy(x: Expr) -> Expr {
    let boxed = |x: Box<Expr>, tidy: fn(Expr) -> Expr| Box::new(tidy(*x));
    match x {
        Expr::Cast(a, DType::U8) => Expr::Cast(boxed(a, unsigned), DType::U8),
        Expr::Binary(op, a, b) => match (op, tidy(*a), tidy(*b)) {
            (Binary::Mul, Expr::Number(a), Expr::Number(b)) if a * b == 0.0 => Expr::Number(a * b),
            (op, a, b) => Expr::Binary(op, Box::new(a), Box::new(b)),
        },
        Expr::Channels(each) => Expr::Channels(each.map(|x| boxed(x, tidy))),
        other => other,
    }
}

/// The same where 0 and -0 are one: no sum, product or rounding that follows tells them apart but by a zero.
fn unsigned(x: Expr) -> Expr {
    match tidy(x) {
        Expr::Binary(op @ (Binary::Add | Binary::Sub | Binary::Mul), a, b) => {
            match (op, unsigned(*a), unsigned(*b)) {
                (Binary::Add, Expr::Number(0.0), x) | (Binary::Add, x, Expr::Number(0.0)) => x,
                (op, a, b) => Expr::Binary(op, Box::new(a), Box::new(b)),
            }
        }
        Expr::Channels(each) => Expr::Channels(each.map(|x| Box::new(unsigned(*x)))),
        other => other,
    }
}

/// The number that prints as short as the float it stands for.
fn number(value: f32) -> Expr {
    Expr::Number(value.to_string().parse().unwrap_or_else(|_| f64::from(value)))
}

/// `op(a, b)` as people write it; operations of one operand leave `b`.
fn apply(op: u16, a: Expr, b: Expr) -> Expr {
    const BINARY: [(Op, Binary); 14] = [
        (Op::Add, Binary::Add),
        (Op::Sub, Binary::Sub),
        (Op::Mul, Binary::Mul),
        (Op::Div, Binary::Div),
        (Op::Min, Binary::Min),
        (Op::Max, Binary::Max),
        (Op::Lt, Binary::Lt),
        (Op::Le, Binary::Le),
        (Op::Gt, Binary::Gt),
        (Op::Ge, Binary::Ge),
        (Op::Eq, Binary::Eq),
        (Op::Ne, Binary::Ne),
        (Op::And, Binary::And),
        (Op::Or, Binary::Or),
    ];
    let is = |known: Op| known as u16 == op;
    let binary = |op, a, b| Expr::Binary(op, Box::new(a), Box::new(b));
    match (a, b) {
        (a, _) if is(Op::Round) => Expr::Cast(Box::new(a), DType::U8),
        (a, _) if is(Op::Not) => Expr::Unary(Unary::Not, Box::new(a)),
        (a, _) if is(Op::Neg) => Expr::Unary(Unary::Neg, Box::new(a)),
        (a, b) if is(Op::Rsub) => binary(Binary::Sub, b, a),
        (a, b) if is(Op::Rdiv) => binary(Binary::Div, b, a),
        // `u * 30 + -15`
        (a, Expr::Number(b)) if is(Op::Add) && b < 0.0 => binary(Binary::Sub, a, Expr::Number(-b)),
        (a, b) => match BINARY.iter().find(|(known, _)| is(*known)) {
            Some((_, op)) => binary(*op, a, b),
            None => Expr::Name("?".into()),
        },
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::graph::file;
    use forebay::ops;

    fn words(steps: &str) -> Vec<String> {
        let plan = Plan::compile(&file::parse(steps).unwrap(), ops::ALL).unwrap();
        let words = Words::new(&plan);
        plan.passes()
            .iter()
            .flat_map(|p| words.steps(&plan.steps()[p.first_step as usize..][..p.steps as usize]))
            .collect()
    }

    #[test]
    fn steps_are_told_with_their_draws_and_predicates() {
        let text = words(
            r#"
            [[step]]
            op = "flip"
            when = { probability = 0.5 }

            [[step]]
            op = "expr"
            u = { uniform = [-1.0, 1.0], per = "channel" }
            expr = "cast(1 - (x + u) / 2, u8)"
            "#,
        );
        assert_eq!(
            text,
            [
                "flip, if flip.when < 0.5",
                "    mirror left to right",
                "expr",
                "    x = cast(1 - (x + [expr.u.r * 2 - 1, expr.u.g * 2 - 1, expr.u.b * 2 - 1]) / 2, u8)",
            ]
        );
    }

    #[test]
    fn resamples_are_told() {
        let text = words(
            r#"
            [[step]]
            op = "random_resized_crop"
            size = [20, 30]
            area = [0.5, 1.0]

            [[step]]
            op = "resize"
            size = 16
            mode = "shorter"
            interp = "linear"
            "#,
        );
        assert_eq!(
            text,
            [
                "random_resized_crop",
                "    resize to 20x30 a drawn window of 0.5 to 1 of the area, 0.75 to 1.3333334 times as \
                 wide as high; antialiased",
                "resize",
                "    resize to no side under 16x16; linear taps, the scale kept where a side is rounded",
            ]
        );
    }

    /// Widths as they were written, and no zeros, where that is what is computed.
    #[test]
    fn numbers_are_those_of_the_file() {
        let step = r#"
            [[step]]
            op = "brightness_contrast"
            brightness = { uniform = [0.95, 1.05] }
            contrast = 0.9
        "#;
        let b = "(brightness_contrast.brightness * (1.05 - 0.95) + 0.95)";
        let text = words(step);
        assert_eq!(text[1], format!("    x = cast(x * ({b} * 0.9) + {b} * (128 - 0.9 * 128), u8)"));
        // As f32, adding to 0 turns -0 into 0.
        let text = words(&format!("[[step]]\nop = \"cast\"\ndtype = \"f32\"\n{step}"));
        assert!(text[1].ends_with(&format!(") + (0 + {b} * (0.5 - 0.9 * 0.5))")), "{}", text[1]);
    }

    /// A line with hundreds of parts does not become hundreds of words.
    #[test]
    fn shared_parts_do_not_explode() {
        let sum = (0..7).fold("d".to_string(), |sum, _| format!("({sum} + {sum})"));
        let draw = "[[draw]]\nname = \"d\"\nuniform = [0.0, 1.0]\n";
        let step = format!("[[step]]\nop = \"expr\"\nexpr = \"x * {sum}\"\n");
        let text = words(&(draw.to_string() + &step)).join("");
        assert!(text.len() < 2000 && text.contains('…'), "{text}");
    }
}
