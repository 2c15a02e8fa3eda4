//! The arguments of a step, as an operator asks for them.

use super::eval::{Value, evaluate};
use super::primitive::{Build, Channels, NodeId, ScalarId};
use super::program::{Border, Op};
use super::spec::{Arg, Dist};
use crate::error::{Error, Result};
use std::collections::HashMap;

/// What names stand for where a step is built.
#[derive(Default)]
pub(super) struct Scope {
    /// Shared draws.
    pub(super) draws: HashMap<String, Channels>,
    /// Images of the steps so far.
    pub(super) images: HashMap<String, NodeId>,
}

/// The arguments of one step. Errors name the argument and what it must be; the caller adds the
/// step.
pub struct Args<'a> {
    pub(super) step: &'a str,
    pub(super) values: &'a [(String, Arg)],
    pub(super) scope: &'a Scope,
}

/// Whether something is done to a sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Truth {
    /// To all of them, or to none.
    Always(bool),
    /// Where this scalar is not 0.
    Drawn(ScalarId),
}

impl Args<'_> {
    fn get(&self, name: &str) -> Option<&Arg> {
        self.values.iter().find(|(key, _)| key == name).map(|(_, arg)| arg)
    }

    /// The step's name.
    pub fn step(&self) -> &str {
        self.step
    }

    /// Fails unless the file gives `name`; `what` says what it could be.
    pub fn required(&self, name: &str, what: &str) -> Result<()> {
        match self.has(name) {
            true => Ok(()),
            false => Err(Error::spec(format!("{name} is missing: give {what}"))),
        }
    }

    /// `[a, b]`, where it is given.
    pub fn pair(&self, name: &str) -> Result<Option<[f32; 2]>> {
        match self.get(name) {
            None => Ok(None),
            Some(Arg::Numbers(values)) if values.len() == 2 => {
                Ok(Some([values[0] as f32, values[1] as f32]))
            }
            Some(_) => Err(Error::spec(format!("{name} must be two numbers, [x, y]"))),
        }
    }

    /// Whether the file gives `name`.
    pub fn has(&self, name: &str) -> bool {
        self.get(name).is_some()
    }

    /// A number a channel: a number, three numbers, a draw, the name of a shared draw, or an
    /// expression on shared draws. Without a `default` it must be given.
    pub fn channels(
        &self,
        build: &mut Build,
        name: &str,
        default: Option<f32>,
    ) -> Result<Channels> {
        let Some(arg) = self.get(name) else {
            let value = default.ok_or_else(|| {
                Error::spec(format!("{name} is missing: give a number or a draw"))
            })?;
            return Ok([build.constant(value); 3]);
        };
        match arg {
            Arg::Number(value) => Ok([build.constant(*value as f32); 3]),
            Arg::Numbers(values) => match values[..] {
                [r, g, b] => Ok([r, g, b].map(|v| build.constant(v as f32))),
                _ => Err(Error::spec(format!(
                    "{name} has {} numbers; give one, or three for red, green, blue",
                    values.len()
                ))),
            },
            Arg::Draw { dist, per_channel } => {
                let draw = format!("{}.{name}", self.step);
                draw_channels(build, &draw, *dist, *per_channel)
            }
            Arg::Text(text) => self.scope.draws.get(text).copied().ok_or_else(|| {
                let known: Vec<_> = self.scope.draws.keys().map(String::as_str).collect();
                Error::spec(format!("{name}: {}", super::nearest::unknown("draw", text, &known)))
            }),
            Arg::Expr(expr) => {
                let draws = &self.scope.draws;
                let value = evaluate(build, expr, &mut |_, word| {
                    draws.get(word).map(|&c| Value::Scalars(c)).ok_or_else(|| {
                        let known: Vec<_> = draws.keys().map(String::as_str).collect();
                        Error::spec(super::nearest::unknown("draw", word, &known))
                    })
                });
                match value.map_err(|e| Error::spec(format!("{name}: {}", e.message())))? {
                    Value::Scalars(channels) => Ok(channels),
                    Value::Image(_) => unreachable!("only draws are in scope"),
                }
            }
            Arg::Bool(_) => Err(Error::spec(format!("{name} must be a number or a draw"))),
        }
    }

    /// One number for all channels, in the forms of [`Args::channels`].
    pub fn scalar(&self, build: &mut Build, name: &str, default: Option<f32>) -> Result<ScalarId> {
        let [r, g, b] = self.channels(build, name, default)?;
        if r == g && g == b {
            return Ok(r);
        }
        Err(Error::spec(format!("{name} must be one number, not one a channel")))
    }

    /// The least and the largest value that `name` can take, where the file says so: of numbers and
    /// of a uniform draw of the step's own.
    pub fn bounds(&self, name: &str) -> Option<(f64, f64)> {
        match self.get(name)? {
            Arg::Number(value) => Some((*value, *value)),
            Arg::Numbers(values) => {
                let least = values.iter().copied().fold(f64::INFINITY, f64::min);
                Some((least, values.iter().copied().fold(f64::NEG_INFINITY, f64::max)))
            }
            Arg::Draw { dist: Dist::Uniform { lo, hi }, .. } => Some(((*lo).into(), (*hi).into())),
            _ => None,
        }
    }

    /// Fails where `name` can be 0 or less.
    pub fn above_zero(&self, name: &str) -> Result<()> {
        match self.bounds(name) {
            Some((least, _)) if least <= 0.0 => {
                Err(Error::spec(format!("{name} must be above 0, it can be {least}")))
            }
            _ => Ok(()),
        }
    }

    /// `true` or `false`.
    pub fn flag(&self, name: &str, default: bool) -> Result<bool> {
        match self.get(name) {
            None => Ok(default),
            Some(Arg::Bool(value)) => Ok(*value),
            Some(_) => Err(Error::spec(format!("{name} must be true or false"))),
        }
    }

    /// A truth a sample, false where it is not given: `true`, `false`, a bernoulli draw, the name of a
    /// shared one, or an expression that is true or false.
    pub fn truth(&self, build: &mut Build, name: &str) -> Result<Truth> {
        match self.get(name) {
            None => Ok(Truth::Always(false)),
            Some(Arg::Bool(always)) => Ok(Truth::Always(*always)),
            Some(_) => {
                let scalar = self.scalar(build, name, None)?;
                if build.is_truth(scalar) {
                    return Ok(Truth::Drawn(scalar));
                }
                Err(Error::spec(format!(
                    "{name} must be true, false or a bernoulli draw, such as {{ bernoulli = 0.5 }}"
                )))
            }
        }
    }

    /// One of a few words; the first is the default.
    pub fn choice<T: Copy>(&self, name: &str, words: &[(&str, T)]) -> Result<T> {
        match self.get(name) {
            None => Ok(words[0].1),
            Some(Arg::Text(text)) => {
                words.iter().find(|(word, _)| word == text).map(|&(_, value)| value).ok_or_else(
                    || {
                        let known: Vec<_> = words.iter().map(|&(word, _)| word).collect();
                        Error::spec(format!(
                            "{name}: {}",
                            super::nearest::unknown("choice", text, &known)
                        ))
                    },
                )
            }
            Some(_) => {
                let known: Vec<_> = words.iter().map(|(word, _)| format!("\"{word}\"")).collect();
                Err(Error::spec(format!("{name} must be {}", known.join(" or "))))
            }
        }
    }

    /// A whole number from 0 to 65,500, a JPEG's largest side.
    pub fn count(&self, name: &str, default: Option<u32>) -> Result<u32> {
        match (self.get(name), default) {
            (None, Some(value)) => Ok(value),
            (Some(Arg::Number(value)), _) => whole(name, *value),
            _ => Err(Error::spec(format!("{name} must be a whole number"))),
        }
    }

    /// `[rows, columns]`, each at least 1; a single number stands for both.
    pub fn size(&self, name: &str) -> Result<(u32, u32)> {
        let (h, w) = match self.get(name) {
            Some(Arg::Number(side)) => (whole(name, *side)?, whole(name, *side)?),
            Some(Arg::Numbers(sides)) if sides.len() == 2 => {
                (whole(name, sides[0])?, whole(name, sides[1])?)
            }
            _ => {
                return Err(Error::spec(format!(
                    "{name} must be [rows, columns], for example [32, 32]"
                )));
            }
        };
        if h == 0 || w == 0 {
            return Err(Error::spec(format!("{name} must be at least [1, 1]")));
        }
        Ok((h, w))
    }

    /// `border` and `fill`. Giving `fill` alone means a constant border.
    pub fn border(&self, build: &mut Build) -> Result<(Border, ScalarId)> {
        let fill = self.scalar(build, "fill", Some(0.0))?;
        let words = [
            ("clamp", Border::Clamp),
            ("constant", Border::Constant),
            ("reflect", Border::Reflect),
        ];
        let border = match (self.has("border"), self.has("fill")) {
            (false, true) => Border::Constant,
            _ => self.choice("border", &words)?,
        };
        if self.has("fill") && border != Border::Constant {
            return Err(Error::spec("fill needs border = \"constant\""));
        }
        Ok((border, fill))
    }

    /// What the name `word` stands for in an expression of the step: its own arguments, shared
    /// draws, images of other steps, and `x`, the step's input.
    pub fn lookup(&self, build: &mut Build, input: NodeId, word: &str) -> Result<Value> {
        if word == "x" {
            return Ok(Value::Image(input));
        }
        if self.has(word) {
            return self.channels(build, word, None).map(Value::Scalars);
        }
        if let Some(&draw) = self.scope.draws.get(word) {
            return Ok(Value::Scalars(draw));
        }
        if let Some(&image) = self.scope.images.get(word) {
            return Ok(Value::Image(image));
        }
        let own = self.values.iter().map(|(name, _)| name.as_str()).filter(|&name| name != "expr");
        let draws = self.scope.draws.keys().map(String::as_str);
        let images = self.scope.images.keys().map(String::as_str);
        let mut known: Vec<_> = own.chain(draws).chain(images).chain(["x"]).collect();
        known.sort_unstable();
        Err(Error::spec(super::nearest::unknown("name", word, &known)))
    }

    /// The expression given as `name`.
    pub fn expr(&self, name: &str) -> Result<&super::expr::Expr> {
        match self.get(name) {
            Some(Arg::Expr(expr)) => Ok(expr),
            _ => Err(Error::spec(format!("{name} must be an expression, such as \"x / 255\""))),
        }
    }
}

fn whole(name: &str, value: f64) -> Result<u32> {
    if value.fract() == 0.0 && (0.0..=65_500.0).contains(&value) {
        return Ok(value as u32);
    }
    Err(Error::spec(format!("{name} must be whole and from 0 to 65500, it is {value}")))
}

/// The values of the draw called `name`: lo + (hi - lo) u, u < p, mean + std z, each operation
/// rounded to f32.
pub(super) fn draw_channels(
    build: &mut Build,
    name: &str,
    dist: Dist,
    per_channel: bool,
) -> Result<Channels> {
    let draw = build.draw(name)?;
    let element = |build: &mut Build, k: u32| match dist {
        Dist::Uniform { lo, hi } => {
            let (u, lo, width) = (build.unit(draw, k), build.constant(lo), build.constant(hi - lo));
            let scaled = build.apply(Op::Mul, u, width);
            build.apply(Op::Add, scaled, lo)
        }
        Dist::Bernoulli { p } => {
            let (u, p) = (build.unit(draw, k), build.constant(p));
            build.apply(Op::Lt, u, p)
        }
        Dist::Normal { mean, std } => {
            let (z, mean, std) = (build.normal(draw, k), build.constant(mean), build.constant(std));
            let scaled = build.apply(Op::Mul, z, std);
            build.apply(Op::Add, scaled, mean)
        }
    };
    if per_channel {
        Ok([element(build, 0), element(build, 1), element(build, 2)])
    } else {
        Ok([element(build, 0); 3])
    }
}
