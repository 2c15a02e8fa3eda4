//! Which nodes become steps, which fold into the expression of another, which draws are shared.
//!
//! Nodes that lead to no output are left out. Arithmetic on images that one other piece of
//! arithmetic alone reads is folded into it, so that a chain becomes one `expr` step. A draw that
//! one step alone reads stands in that step; one that several read, or that has a name, becomes a
//! `[[draw]]`.

use super::{Given, Id, Kind, State, Term};
use crate::error::{Error, Result};
use crate::graph::spec::Dist;
use std::collections::{BTreeSet, HashMap, HashSet};

/// The builder's nodes seen from the outputs.
pub(super) struct Fold<'a> {
    pub(super) state: &'a State,
    /// For each node that leads to an output, the nodes that read it, as often as they do.
    readers: Vec<Vec<Id>>,
    /// For each scope, the nodes that become its steps.
    pub(super) sequences: Vec<Vec<Id>>,
    /// Names of the draws that become `[[draw]]`s.
    pub(super) draws: HashMap<Id, String>,
}

/// What a piece of arithmetic reads, without what is folded into it.
#[derive(Default)]
pub(super) struct Leaves {
    pub(super) draws: BTreeSet<Id>,
    /// In the order of the expression.
    pub(super) images: Vec<Id>,
}

impl<'a> Fold<'a> {
    pub(super) fn new(state: &'a State) -> Result<Self> {
        let count = state.nodes.len();
        let delivered: HashSet<Id> = state.outputs.iter().map(|&(_, id)| id).collect();
        let mut readers: Vec<Vec<Id>> = vec![Vec::new(); count];
        let mut reached = Vec::new();
        // What a node reads has a lower id, so a walk down meets every reader before the node.
        for id in (0..count).rev() {
            if delivered.contains(&id) || !readers[id].is_empty() {
                reached.push(id);
                reads(&state.nodes[id].kind).into_iter().for_each(|read| readers[read].push(id));
            }
        }
        // An output is read from outside, so that nothing folds it away.
        delivered.iter().for_each(|&id| readers[id].push(id));

        let mut fold = Fold {
            state,
            readers,
            sequences: vec![Vec::new(); state.scopes.len()],
            draws: HashMap::new(),
        };
        reached.retain(|&id| fold.is_step(id));
        for id in reached.into_iter().rev() {
            fold.sequences[state.nodes[id].scope].push(id);
        }
        fold.name_draws()?;
        Ok(fold)
    }

    pub(super) fn kind(&self, id: Id) -> &'a Kind {
        &self.state.nodes[id].kind
    }

    fn is_step(&self, id: Id) -> bool {
        match self.kind(id) {
            Kind::Decode | Kind::Draw { .. } => false,
            Kind::Math { image, .. } => *image && !self.is_folded(id),
            Kind::Op { .. } | Kind::When { .. } => true,
        }
    }

    /// Whether arithmetic stands inside the expression that reads it.
    fn is_folded(&self, id: Id) -> bool {
        let node = &self.state.nodes[id];
        match (&node.kind, self.readers[id].as_slice()) {
            (Kind::Math { image: false, .. }, _) => true,
            (Kind::Math { .. }, &[reader]) if reader != id && node.name.is_none() => {
                let reader = &self.state.nodes[reader];
                matches!(reader.kind, Kind::Math { .. }) && reader.scope == node.scope
            }
            _ => false,
        }
    }

    /// What the arithmetic at `root` reads.
    pub(super) fn leaves(&self, root: Id) -> Leaves {
        let mut leaves = Leaves::default();
        let mut seen = HashSet::new();
        let mut pending = vec![root];
        while let Some(id) = pending.pop() {
            match self.kind(id) {
                Kind::Draw { .. } => {
                    leaves.draws.insert(id);
                }
                Kind::Math { terms, .. } if id == root || self.is_folded(id) => {
                    if seen.insert(id) {
                        pending.extend(nodes(terms).rev());
                    }
                }
                _ if leaves.images.contains(&id) => {}
                _ => leaves.images.push(id),
            }
        }
        leaves
    }

    /// Decides which draws become `[[draw]]`s, and names them.
    fn name_draws(&mut self) -> Result<()> {
        // For each draw, how many places read it; a place that cannot hold a draw counts as two.
        let mut places: HashMap<Id, usize> = HashMap::new();
        for id in self.sequences.iter().flatten().copied() {
            let scalars: Vec<(Id, bool)> = match self.kind(id) {
                Kind::Op { args, .. } => scalars(args).map(|scalar| (scalar, true)).collect(),
                Kind::When { predicate, .. } => {
                    vec![(*predicate, self.probability(*predicate).is_some())]
                }
                Kind::Math { .. } => {
                    self.leaves(id).draws.into_iter().map(|draw| (draw, true)).collect()
                }
                Kind::Decode | Kind::Draw { .. } => Vec::new(),
            };
            for (scalar, holds_draw) in scalars {
                let alone = holds_draw && matches!(self.kind(scalar), Kind::Draw { .. });
                for draw in self.leaves(scalar).draws {
                    *places.entry(draw).or_default() += if alone { 1 } else { 2 };
                }
            }
        }
        let mut names = HashSet::new();
        for node in &self.state.nodes {
            names.extend(node.name.as_deref());
        }
        let mut shared: Vec<Id> = places.keys().copied().collect();
        shared.retain(|id| places[id] > 1 || self.state.nodes[*id].name.is_some());
        shared.sort_unstable();
        let mut generated = (1..).map(|n| format!("draw_{n}")).filter(|n| !names.contains(&**n));
        let mut taken = HashSet::new();
        for id in shared {
            let name = match &self.state.nodes[id].name {
                Some(name) => name.clone(),
                None => generated.next().unwrap_or_default(),
            };
            if !taken.insert(name.clone()) {
                return Err(Error::spec(format!("two draws are called {name:?}")));
            }
            self.draws.insert(id, name);
        }
        Ok(())
    }

    /// The probability that a predicate's draw stands for when it can stand in the step.
    pub(super) fn probability(&self, predicate: Id) -> Option<f32> {
        match *self.kind(predicate) {
            Kind::Draw { dist: Dist::Bernoulli { p }, per_channel: false } => Some(p),
            _ => None,
        }
    }
}

fn nodes(terms: &[Term]) -> impl DoubleEndedIterator<Item = Id> {
    terms.iter().filter_map(|term| match term {
        Term::Node(id) => Some(*id),
        Term::Number(_) | Term::Channels(_) => None,
    })
}

fn scalars(args: &[(String, Given)]) -> impl Iterator<Item = Id> {
    args.iter().filter_map(|(_, given)| match given {
        Given::Scalar(id) => Some(*id),
        Given::Plain(_) => None,
    })
}

/// The nodes that a node reads.
fn reads(kind: &Kind) -> Vec<Id> {
    match kind {
        Kind::Decode | Kind::Draw { .. } => Vec::new(),
        Kind::Math { terms, .. } => nodes(terms).collect(),
        Kind::Op { input, args, .. } => std::iter::once(*input).chain(scalars(args)).collect(),
        Kind::When { predicate, input, then, otherwise } => {
            vec![*predicate, *input, then.result, otherwise.result]
        }
    }
}
