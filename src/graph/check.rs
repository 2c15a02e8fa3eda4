//! From a [`Spec`] to the graph of primitives, with every name resolved and every type known.

use super::args::{Args, Scope, draw_channels};
use super::eval::{Value, evaluate};
use super::nearest;
use super::op::Operator;
use super::primitive::{Build, NodeId, ScalarId};
use super::spec::{Body, Condition, Dist, Output, Spec, Step, default_name};
use crate::error::{Error, Result};
use crate::tensor::DType;
use std::collections::{HashMap, HashSet};

/// The graph of primitives and what it shows.
pub(super) struct Checked {
    pub(super) build: Build,
    pub(super) outputs: Vec<(String, NodeId)>,
}

/// Resolves `spec` against `operators`.
pub(super) fn check(spec: &Spec, operators: &[&dyn Operator]) -> Result<Checked> {
    let mut checker = Checker {
        operators,
        build: Build::new(),
        scope: Scope::default(),
        names: HashSet::from(["decode".to_string()]),
        ordinals: HashMap::new(),
    };
    for draw in &spec.draws {
        checker.reserve(&draw.name)?;
        let channels = draw_channels(&mut checker.build, &draw.name, draw.dist, draw.per_channel)?;
        checker.scope.draws.insert(draw.name.clone(), channels);
    }
    let decoded = checker.build.decoded();
    checker.scope.images.insert("decode".into(), decoded);
    let last = checker.steps(&spec.steps, decoded)?;
    let outputs = spec
        .outputs
        .iter()
        .map(|output| Ok((output.name.clone(), checker.output(output, last)?)))
        .collect::<Result<_>>()?;
    Ok(Checked { build: checker.build, outputs })
}

struct Checker<'a> {
    operators: &'a [&'a dyn Operator],
    build: Build,
    scope: Scope,
    names: HashSet<String>,
    ordinals: HashMap<String, usize>,
}

impl<'a> Checker<'a> {
    fn reserve(&mut self, name: &str) -> Result<()> {
        if self.names.insert(name.to_string()) {
            return Ok(());
        }
        Err(Error::spec(format!("the name \"{name}\" is taken; give another name = \"…\"")))
    }

    /// The step's own name, or its op and its ordinal among the same op: `rotate`, `rotate_2`.
    fn name(&mut self, step: &Step) -> Result<String> {
        let op = match &step.body {
            Body::Op { op, .. } => op.as_str(),
            Body::Branch { .. } => "when",
        };
        let ordinal = self.ordinals.entry(op.to_string()).or_insert(0);
        *ordinal += 1;
        let name = step.name.clone().unwrap_or_else(|| default_name(op, *ordinal));
        self.reserve(&name).map_err(|e| e.at_step(&name))?;
        Ok(name)
    }

    fn steps(&mut self, steps: &[Step], mut image: NodeId) -> Result<NodeId> {
        for step in steps {
            let name = self.name(step)?;
            image = self.step(step, &name, image).map_err(|e| e.at_step(&name))?;
            self.scope.images.insert(name, image);
        }
        Ok(image)
    }

    fn step(&mut self, step: &Step, name: &str, before: NodeId) -> Result<NodeId> {
        let input = match &step.from {
            Some(from) => self.image(from)?,
            None => before,
        };
        self.build.enter(name);
        let predicate = step.when.as_ref().map(|when| self.predicate(when, name)).transpose()?;
        match &step.body {
            Body::Op { op, args } => {
                let operator = self.operator(op)?;
                for (key, _) in args {
                    if !operator.args().contains(&key.as_str()) && !operator.open() {
                        let known = operator.args();
                        return Err(Error::spec(nearest::unknown("argument", key, known)));
                    }
                }
                let mut args = Args { step: name, values: args, scope: &self.scope };
                let image = operator.build(&mut self.build, input, &mut args)?;
                match predicate {
                    Some(predicate) => self.build.select(predicate, image, input),
                    None => Ok(image),
                }
            }
            Body::Branch { then, otherwise } => {
                let predicate = predicate.ok_or_else(|| {
                    Error::spec("then and else need a when: a probability, a draw or an expression")
                })?;
                let a = self.steps(then, input)?;
                let b = self.steps(otherwise, input)?;
                self.build.enter(name);
                self.build.select(predicate, a, b)
            }
        }
    }

    fn operator(&self, op: &str) -> Result<&'a dyn Operator> {
        self.operators.iter().find(|o| o.name() == op).copied().ok_or_else(|| {
            let known: Vec<_> = self.operators.iter().map(|o| o.name()).collect();
            Error::spec(nearest::unknown("operator", op, &known))
        })
    }

    fn image(&self, name: &str) -> Result<NodeId> {
        self.scope.images.get(name).copied().ok_or_else(|| {
            let mut known: Vec<_> = self.scope.images.keys().map(String::as_str).collect();
            known.sort_unstable();
            Error::spec(format!("from: {}", nearest::unknown("step", name, &known)))
        })
    }

    fn predicate(&mut self, when: &Condition, step: &str) -> Result<ScalarId> {
        let [r, g, b] = match when {
            Condition::Probability(p) => {
                let draw = format!("{step}.when");
                draw_channels(&mut self.build, &draw, Dist::Bernoulli { p: *p }, false)?
            }
            Condition::Draw(name) => self.draw(name)?,
            Condition::Expr(expr) => {
                let draws = &self.scope.draws;
                let lookup = &mut |_: &mut Build, word: &str| match draws.get(word) {
                    Some(&channels) => Ok(Value::Scalars(channels)),
                    None => Err(unknown_draw(draws, word)),
                };
                match evaluate(&mut self.build, expr, lookup)? {
                    Value::Scalars(channels) => channels,
                    Value::Image(_) => unreachable!("only draws are in scope"),
                }
            }
        };
        if r != g || g != b {
            return Err(Error::spec("when must be one truth a sample, not one a channel"));
        }
        if !self.build.is_truth(r) {
            return Err(Error::spec(
                "when must be true or false: a bernoulli draw, or a comparison such as \
                 { expr = \"u < 0.5\" }",
            ));
        }
        Ok(r)
    }

    fn draw(&self, name: &str) -> Result<super::primitive::Channels> {
        let draws = &self.scope.draws;
        draws.get(name).copied().ok_or_else(|| unknown_draw(draws, name))
    }

    fn output(&mut self, output: &Output, last: NodeId) -> Result<NodeId> {
        let mut node = match &output.from {
            Some(from) => self.image(from)?,
            None => last,
        };
        let name = format!("output {}", output.name);
        self.build.enter(&name);
        node = match output.dtype {
            None => node,
            Some(DType::U8) => self.build.round(node),
            Some(DType::F32) => self.build.float(node),
            Some(DType::I64) => {
                return Err(
                    Error::spec("dtype of an image must be \"u8\" or \"f32\"").at_step(name)
                );
            }
        };
        Ok(match output.layout {
            None => node,
            Some(layout) => self.build.transpose(node, layout),
        })
    }
}

fn unknown_draw(draws: &HashMap<String, super::primitive::Channels>, word: &str) -> Error {
    let mut known: Vec<_> = draws.keys().map(String::as_str).collect();
    known.sort_unstable();
    Error::spec(format!("when: {}", nearest::unknown("draw", word, &known)))
}
