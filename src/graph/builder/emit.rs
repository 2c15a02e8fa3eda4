//! From the builder's nodes to a [`Spec`].
//!
//! Steps are listed in the order they were built; what does not read the step before it says
//! `from`, and what is read that way gets the name it would have by default. [`Fold`] has decided
//! before which nodes are steps.

use super::fold::{Fold, Leaves};
use super::{Branch, DECODE, Form, Given, Id, Kind, State, Term};
use crate::error::{Error, Result};
use crate::graph::expr::Expr;
use crate::graph::spec::{Arg, Body, Condition, Dist, DrawSpec, Output, Spec, Step, default_name};
use std::collections::{HashMap, HashSet};

/// Most nodes of one expression: bounds the recursion, and the text of a chain that doubles.
const MAX_PARTS: usize = 1024;

pub(super) fn spec(state: &State) -> Result<Spec> {
    let reader = state.reader.clone().ok_or_else(|| {
        Error::spec("the graph has no reader, begin with g.read_file_list(\"labels.txt\").build()")
    })?;
    if state.outputs.is_empty() {
        return Err(Error::spec("the graph has no output, end with g.output(\"images\", image)"));
    }
    let mut emit = Emit {
        fold: Fold::new(state)?,
        steps: HashMap::new(),
        referenced: HashSet::new(),
        ordinals: HashMap::new(),
    };
    let (steps, last) = emit.steps(0, DECODE)?;
    let mut outputs: Vec<Output> = Vec::new();
    for (name, image) in &state.outputs {
        let from = if *image == last { None } else { Some(emit.reference(*image, 0)?) };
        let output = Output { name: name.clone(), from, layout: None, dtype: None };
        output.check_name()?;
        if outputs.iter().any(|other| other.name == *name) {
            return Err(Error::spec(format!("two outputs are called {name:?}")));
        }
        outputs.push(output);
    }
    let mut spec = Spec {
        seed: state.seed,
        reader,
        decoder: state.decoder.clone().unwrap_or_default(),
        draws: emit.shared_draws(),
        steps,
        outputs,
    };
    let mut names = emit.fold.draws.values().cloned().collect();
    emit.drop_names(&mut spec.steps, &mut names)?;
    Ok(spec)
}

struct Emit<'a> {
    fold: Fold<'a>,
    /// Names of the steps emitted so far, and those that something refers to.
    steps: HashMap<Id, String>,
    referenced: HashSet<String>,
    /// Steps so far of each op.
    ordinals: HashMap<String, usize>,
}

impl Emit<'_> {
    fn shared_draws(&self) -> Vec<DrawSpec> {
        let mut ids: Vec<Id> = self.fold.draws.keys().copied().collect();
        ids.sort_unstable();
        let spec = |id| match *self.fold.kind(id) {
            Kind::Draw { dist, per_channel } => {
                Some(DrawSpec { name: self.fold.draws[&id].clone(), dist, per_channel })
            }
            _ => None,
        };
        ids.into_iter().filter_map(spec).collect()
    }

    /// The steps of a scope whose first reads `input`, and the image that the last one makes.
    fn steps(&mut self, scope: usize, input: Id) -> Result<(Vec<Step>, Id)> {
        let mut steps = Vec::new();
        let mut previous = input;
        for id in self.fold.sequences[scope].clone() {
            steps.push(self.step(id, previous)?);
            previous = id;
        }
        Ok((steps, previous))
    }

    fn branch(&mut self, branch: Branch, input: Id) -> Result<Vec<Step>> {
        let (mut steps, last) = self.steps(branch.scope, input)?;
        if branch.result != last {
            // The branch is an image made outside it.
            let from = Some(self.reference(branch.result, branch.scope)?);
            let args = vec![("expr".into(), Arg::Expr(Expr::Name("x".into())))];
            self.count("expr");
            let body = Body::Op { op: "expr".into(), args };
            steps.push(Step { name: None, from, when: None, body });
        }
        Ok(steps)
    }

    fn step(&mut self, id: Id, previous: Id) -> Result<Step> {
        let node = &self.fold.state.nodes[id];
        let input = self.input(id, previous);
        let from = if input == previous { None } else { Some(self.reference(input, node.scope)?) };
        let mut name = node.name.clone();
        let (when, body) = match &node.kind {
            Kind::When { predicate, input, then, otherwise } => {
                let when = self.condition(*predicate)?;
                match self.only_step(*input, *then, *otherwise) {
                    Some(inner) => {
                        name = name.or_else(|| self.fold.state.nodes[inner].name.clone());
                        let (op, args) = self.body(inner, *input)?;
                        self.claim(id, &mut name, &op);
                        (Some(when), Body::Op { op, args })
                    }
                    None => {
                        self.claim(id, &mut name, "when");
                        let then = self.branch(*then, *input)?;
                        let otherwise = self.branch(*otherwise, *input)?;
                        (Some(when), Body::Branch { then, otherwise })
                    }
                }
            }
            _ => {
                let (op, args) = self.body(id, input)?;
                self.claim(id, &mut name, &op);
                (None, Body::Op { op, args })
            }
        };
        Ok(Step { name, from, when, body })
    }

    /// Gives a step its name, for now also where the default would do: see [`Emit::drop_names`].
    fn claim(&mut self, id: Id, name: &mut Option<String>, op: &str) {
        let default = self.count(op);
        match name {
            Some(name) => {
                self.referenced.insert(name.clone());
            }
            None => *name = Some(default),
        }
        self.steps.extend(name.clone().map(|name| (id, name)));
    }

    /// Counts one more step of `op` and says its default name.
    fn count(&mut self, op: &str) -> String {
        let ordinal = self.ordinals.entry(op.to_owned()).or_default();
        *ordinal += 1;
        default_name(op, *ordinal)
    }

    /// Drops the names that nothing refers to, so that a spec says no more than a person would;
    /// `taken` are the names of draws and earlier steps.
    fn drop_names(&self, steps: &mut [Step], taken: &mut HashSet<String>) -> Result<()> {
        for step in steps {
            step.name.take_if(|name| !self.referenced.contains(name));
            if let Some(name) = step.name.clone().filter(|name| !taken.insert(name.clone())) {
                let message = format!("a step and another node are both called {name:?}");
                return Err(Error::spec(message));
            }
            if let Body::Branch { then, otherwise } = &mut step.body {
                self.drop_names(then, taken)?;
                self.drop_names(otherwise, taken)?;
            }
        }
        Ok(())
    }

    /// The image that a step reads as its input: the one before it where it can be.
    fn input(&self, id: Id, previous: Id) -> Id {
        match self.fold.kind(id) {
            Kind::Op { input, .. } | Kind::When { input, .. } => *input,
            _ => {
                let images = self.fold.leaves(id).images;
                if images.contains(&previous) {
                    previous
                } else {
                    images.first().copied().unwrap_or(previous)
                }
            }
        }
    }

    /// The single operator that a `when` without `else` consists of, which then carries the
    /// predicate itself.
    fn only_step(&self, input: Id, then: Branch, otherwise: Branch) -> Option<Id> {
        let [inner] = *self.fold.sequences[then.scope].as_slice() else { return None };
        let plain = !matches!(self.fold.kind(inner), Kind::When { .. })
            && then.result == inner
            && self.input(inner, input) == input
            && self.fold.sequences[otherwise.scope].is_empty()
            && otherwise.result == input;
        plain.then_some(inner)
    }

    /// The name by which a step in `scope` refers to an image.
    fn reference(&mut self, image: Id, scope: usize) -> Result<String> {
        if image == DECODE {
            return Ok("decode".into());
        }
        let home = self.fold.state.nodes[image].scope;
        let mut at = scope;
        while at != home && at != 0 {
            at = self.fold.state.scopes[at];
        }
        match self.steps.get(&image) {
            Some(name) if at == home => {
                self.referenced.insert(name.clone());
                Ok(name.clone())
            }
            _ => Err(Error::spec(
                "an image made inside a branch is used outside it; let the branch return it",
            )),
        }
    }

    fn condition(&self, predicate: Id) -> Result<Condition> {
        Ok(match (self.fold.draws.get(&predicate), self.fold.probability(predicate)) {
            (Some(name), _) => Condition::Draw(name.clone()),
            (None, Some(p)) => Condition::Probability(p),
            (None, None) => Condition::Expr(self.scalar_expr(predicate)?),
        })
    }

    fn scalar_expr(&self, id: Id) -> Result<Expr> {
        checked(self.expr(Term::Node(id), &HashMap::new(), &mut 0)?)
    }

    /// The operator and arguments of a step that reads `input`.
    fn body(&mut self, id: Id, input: Id) -> Result<(String, Vec<(String, Arg)>)> {
        match self.fold.kind(id) {
            Kind::Op { op, args, .. } => {
                let args: Result<Vec<_>> = args
                    .iter()
                    .map(|(key, given)| Ok((key.clone(), self.argument(given)?)))
                    .collect();
                Ok((op.clone(), args?))
            }
            Kind::Math { form: Form::Cast(dtype), terms, .. } if reads_only(terms, input) => {
                Ok(("cast".into(), vec![("dtype".into(), Arg::Text(dtype.name().into()))]))
            }
            Kind::Math { form: Form::Clamp, terms, .. } if reads_only(&terms[..1], input) => {
                match terms[1..] {
                    [Term::Number(lo), Term::Number(hi)] => {
                        let bounds = [("lo", lo), ("hi", hi)];
                        let args = bounds.map(|(key, v)| (key.into(), Arg::Number(v)));
                        Ok(("clamp".into(), args.into()))
                    }
                    _ => self.expr_step(id, input),
                }
            }
            _ => self.expr_step(id, input),
        }
    }

    fn argument(&self, given: &Given) -> Result<Arg> {
        Ok(match given {
            Given::Plain(arg) => arg.clone(),
            Given::Scalar(id) => match (self.fold.draws.get(id), self.fold.kind(*id)) {
                (Some(name), _) => Arg::Text(name.clone()),
                (None, &Kind::Draw { dist, per_channel }) => Arg::Draw { dist, per_channel },
                (None, _) => Arg::Expr(self.scalar_expr(*id)?),
            },
        })
    }

    /// The arithmetic at `root` as an `expr` step: `x` is `input`, and the draws that this step
    /// alone reads are its arguments.
    fn expr_step(&mut self, root: Id, input: Id) -> Result<(String, Vec<(String, Arg)>)> {
        let Leaves { draws, images } = self.fold.leaves(root);
        let mut names: HashMap<Id, String> = HashMap::new();
        for image in images {
            let scope = self.fold.state.nodes[root].scope;
            let name = if image == input { "x".into() } else { self.reference(image, scope)? };
            names.insert(image, name);
        }
        let mut own = Vec::new();
        for id in draws.into_iter().filter(|id| !self.fold.draws.contains_key(id)) {
            let &Kind::Draw { dist, per_channel } = self.fold.kind(id) else { continue };
            let letter = match dist {
                Dist::Uniform { .. } => "u",
                Dist::Bernoulli { .. } => "b",
                Dist::Normal { .. } => "n",
            };
            let mut candidates = (1..).map(|n| default_name(letter, n));
            let name = candidates.find(|name| {
                !names.values().chain(self.fold.draws.values()).any(|other| other == name)
            });
            let name = name.unwrap_or_default();
            own.push((name.clone(), Arg::Draw { dist, per_channel }));
            names.insert(id, name);
        }
        let Kind::Math { form, terms, .. } = self.fold.kind(root) else {
            return Err(Error::spec("an expression step is made of arithmetic"));
        };
        let expr = checked(self.math(*form, terms, &names, &mut 0)?)?;
        let mut args = vec![("expr".to_owned(), Arg::Expr(expr))];
        args.append(&mut own);
        Ok(("expr".into(), args))
    }

    /// `names` holds the names of images and of the step's own draws; `parts` counts.
    fn expr(&self, term: Term, names: &HashMap<Id, String>, parts: &mut usize) -> Result<Expr> {
        *parts += 1;
        if *parts > MAX_PARTS {
            let message = format!("an expression has more than {MAX_PARTS} parts");
            return Err(Error::spec(message + ", give one of its images a name by named"));
        }
        let number = |value| Box::new(Expr::Number(value));
        match term {
            Term::Number(value) => Ok(Expr::Number(value)),
            Term::Channels(values) => Ok(Expr::Channels(values.map(number))),
            Term::Node(id) => {
                match (names.get(&id).or_else(|| self.fold.draws.get(&id)), self.fold.kind(id)) {
                    (Some(name), _) => Ok(Expr::Name(name.clone())),
                    (None, Kind::Math { form, terms, .. }) => self.math(*form, terms, names, parts),
                    (None, _) => Err(Error::spec("an expression reads a node that has no name")),
                }
            }
        }
    }

    fn math(
        &self,
        form: Form,
        terms: &[Term],
        names: &HashMap<Id, String>,
        parts: &mut usize,
    ) -> Result<Expr> {
        let mut operands = terms.iter().map(|term| self.expr(*term, names, parts).map(Box::new));
        let mut next =
            || operands.next().unwrap_or_else(|| Err(Error::spec("an operator lacks an operand")));
        Ok(match form {
            Form::Unary(op) => Expr::Unary(op, next()?),
            Form::Binary(op) => Expr::Binary(op, next()?, next()?),
            Form::Clamp => Expr::Clamp(next()?, next()?, next()?),
            Form::Cast(dtype) => Expr::Cast(next()?, dtype),
        })
    }
}

/// Refuses an expression that a pipeline file could not hold.
fn checked(expr: Expr) -> Result<Expr> {
    Expr::parse(&expr.to_string())?;
    Ok(expr)
}

fn reads_only(terms: &[Term], image: Id) -> bool {
    matches!(terms, [Term::Node(id)] if *id == image)
}
