//! From the graph of primitives to passes over the pixels.
//!
//! Each output is a chain of passes from the nearest stored image. A gather starts a pass, and
//! pointwise steps, flips and crops ride along; both branches of a choice run beside each other in
//! the same passes, since a sample takes one of them. Fusion never changes a value: between passes
//! an image is stored as u8 only where every path to it is u8.

mod encode;

use super::check::{Checked, check};
use super::op::Operator;
use super::primitive::{Build, Extent, Node, NodeId, Operand, ScalarId};
use super::program::{self, Border, MAX_MAPS, MAX_POINTS, Op};
use super::spec::Spec;
use crate::error::Result;
use crate::tensor::{DType, Layout};
use std::collections::HashMap;

/// A compiled pipeline: what the kernels run, and what people are told about it.
#[derive(Debug, Clone, PartialEq)]
pub struct Plan {
    /// The scalar program, in order.
    pub(crate) scalars: Vec<program::Scalar>,
    /// Passes, in order; an image is written before it is read.
    pub(crate) passes: Vec<program::Pass>,
    /// Steps of all passes.
    pub(crate) steps: Vec<program::Step>,
    /// Images of a sample; number 0 is the decoded one.
    pub(crate) images: Vec<ImagePlan>,
    /// What a batch holds beside labels and ids.
    pub(crate) outputs: Vec<OutputPlan>,
    /// Names of steps, by the number that a program step carries.
    pub(crate) names: Vec<String>,
    /// Draws by name, with the number that keys them.
    pub(crate) draws: Vec<(String, u16)>,
}

/// An image of a sample, in memory between passes or in the batch.
#[derive(Debug, Clone, PartialEq)]
pub struct ImagePlan {
    /// Element type.
    pub dtype: DType,
    /// Order of axes.
    pub layout: Layout,
    /// Rows and columns.
    pub extent: Extent,
}

/// An output of the graph.
#[derive(Debug, Clone, PartialEq)]
pub struct OutputPlan {
    /// Its name in the batch.
    pub name: String,
    /// The image that shows it.
    pub image: usize,
}

/// Read only: the kernels trust what a plan says of its tables.
impl Plan {
    /// The scalar program, in order.
    pub fn scalars(&self) -> &[program::Scalar] {
        &self.scalars
    }

    /// Passes, in order; an image is written before it is read.
    pub fn passes(&self) -> &[program::Pass] {
        &self.passes
    }

    /// Steps of all passes.
    pub fn steps(&self) -> &[program::Step] {
        &self.steps
    }

    /// Images of a sample; number 0 is the decoded one.
    pub fn images(&self) -> &[ImagePlan] {
        &self.images
    }

    /// What a batch holds beside labels and ids.
    pub fn outputs(&self) -> &[OutputPlan] {
        &self.outputs
    }

    /// Names of steps, by the number that a program step carries.
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Draws by name, with the number that keys them.
    pub fn draws(&self) -> &[(String, u16)] {
        &self.draws
    }

    /// Checks `spec` and compiles it.
    ///
    /// # Errors
    /// With the step's name and what was expected: unknown names, wrong arguments, branches that
    /// disagree, a plan larger than the kernels' tables.
    pub fn compile(spec: &Spec, operators: &[&dyn Operator]) -> Result<Plan> {
        lower(check(spec, operators)?, true)
    }

    /// The same with one pass a primitive: the plain meaning, which the fused plan is held against.
    pub fn compile_unfused(spec: &Spec, operators: &[&dyn Operator]) -> Result<Plan> {
        lower(check(spec, operators)?, false)
    }
}

fn lower(checked: Checked, fuse: bool) -> Result<Plan> {
    let decoded = ImagePlan { dtype: DType::U8, layout: Layout::Hwc, extent: Extent::Decoded };
    let mut lowering = Lowering {
        build: checked.build,
        fuse,
        images: vec![decoded],
        stored: HashMap::from([(NodeId(0), 0)]),
        passes: Vec::new(),
    };
    let mut outputs = Vec::new();
    for (name, node) in checked.outputs {
        let image = lowering.chain(node, lowering.build.image_type(node).layout)?;
        outputs.push(OutputPlan { name, image });
    }
    lowering.finish(outputs)
}

/// What the current pass of a path holds already.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
struct Contents {
    points: usize,
    maps: usize,
    /// An affine gather, a resample, or a crop with a constant border: at most one fill value a pass.
    gather: bool,
    /// A second image is read at output places: no map may follow.
    operand: bool,
}

impl Contents {
    fn join(self, other: Contents) -> Contents {
        Contents {
            points: self.points.max(other.points),
            maps: self.maps.max(other.maps),
            gather: self.gather || other.gather,
            operand: self.operand || other.operand,
        }
    }

    fn is_empty(self) -> bool {
        self == Contents::default()
    }
}

/// Where a path stands: the pass of its chain and what that holds.
#[derive(Debug, Clone, Copy, Default)]
struct State {
    pass: usize,
    contents: Contents,
}

#[derive(Debug, Clone)]
struct GuardedStep {
    guard: Option<ScalarId>,
    node: NodeId,
    /// The image that a second operand was stored as.
    operand: Option<usize>,
}

/// A pass under construction.
#[derive(Debug)]
struct Building {
    steps: Vec<GuardedStep>,
    /// Whether some path leaves it as f32.
    float: bool,
    /// The size that its last step leaves.
    extent: Extent,
}

impl Building {
    fn new(extent: Extent) -> Building {
        Building { steps: Vec::new(), float: false, extent }
    }
}

struct Lowering {
    build: Build,
    fuse: bool,
    images: Vec<ImagePlan>,
    /// Nodes whose image is in memory.
    stored: HashMap<NodeId, usize>,
    passes: Vec<(usize, usize, Vec<GuardedStep>)>,
}

impl Lowering {
    fn node(&self, node: NodeId) -> &Node {
        &self.build.nodes[node.0 as usize].0
    }

    fn extent(&self, node: NodeId) -> Extent {
        self.build.image_type(node).extent.clone()
    }

    /// The image that `node` reads; for a choice, where its branches part.
    fn input(&self, node: NodeId) -> Option<NodeId> {
        match self.node(node) {
            Node::Decoded => None,
            Node::Point { input, .. } | Node::Flip { input, .. } | Node::Retype { input } => {
                Some(*input)
            }
            Node::Affine(affine) => Some(affine.input),
            Node::Resample(resample) => Some(resample.input),
            Node::Crop(crop) => Some(crop.input),
            Node::Select { then, otherwise, .. } => {
                // Inputs have smaller numbers than what reads them, so the larger of two that
                // differ cannot be where the paths part.
                let (mut a, mut b) = (*then, *otherwise);
                while a != b {
                    let larger = if a > b { &mut a } else { &mut b };
                    *larger = self.input(*larger).expect("the decoded image has the least number");
                }
                Some(a)
            }
        }
    }

    /// Passes that store `node`'s image; its number.
    fn chain(&mut self, node: NodeId, layout: Layout) -> Result<usize> {
        let mut start = node;
        while !self.stored.contains_key(&start) {
            start = self.input(start).expect("the decoded image is stored");
        }
        let mut passes = vec![Building::new(self.extent(start))];
        self.walk(start, node, State::default(), None, &mut passes)?;
        passes.last_mut().expect("there is one").float =
            self.build.image_type(node).dtype == DType::F32;

        let mut source = self.stored[&start];
        let last = passes.len() - 1;
        for (k, pass) in passes.into_iter().enumerate() {
            let image = ImagePlan {
                dtype: if pass.float { DType::F32 } else { DType::U8 },
                layout: if k == last { layout } else { Layout::Hwc },
                extent: pass.extent,
            };
            self.images.push(image);
            let dest = self.images.len() - 1;
            self.passes.push((source, dest, pass.steps));
            source = dest;
        }
        Ok(source)
    }

    /// Adds the steps from `start` (not included) to `end`, each under `guard`.
    fn walk(
        &mut self,
        start: NodeId,
        end: NodeId,
        mut state: State,
        guard: Option<ScalarId>,
        passes: &mut Vec<Building>,
    ) -> Result<State> {
        let mut path = Vec::new();
        let mut node = end;
        while node != start {
            path.push(node);
            node = self.input(node).expect("start lies on the path");
        }
        let mut before = start;
        for node in path.into_iter().rev() {
            state = match *self.node(node) {
                Node::Decoded => unreachable!("the decoded image is always stored"),
                Node::Retype { .. } => state,
                Node::Select { predicate, then, otherwise } => {
                    let not = self.build.apply(Op::Not, predicate, predicate);
                    let yes = self.both(guard, predicate);
                    let no = self.both(guard, not);
                    let a = self.walk(before, then, state, Some(yes), passes)?;
                    let b = self.walk(before, otherwise, state, Some(no), passes)?;
                    let float = |image| self.build.image_type(image).dtype == DType::F32;
                    join(passes, a, float(then), b, float(otherwise))
                }
                _ => self.place(node, before, state, guard, passes)?,
            };
            before = node;
        }
        Ok(state)
    }

    fn both(&mut self, guard: Option<ScalarId>, predicate: ScalarId) -> ScalarId {
        match guard {
            None => predicate,
            Some(guard) => self.build.apply(Op::And, guard, predicate),
        }
    }

    /// Puts one primitive into the path's pass, or into the next.
    fn place(
        &mut self,
        node: NodeId,
        before: NodeId,
        state: State,
        guard: Option<ScalarId>,
        passes: &mut Vec<Building>,
    ) -> Result<State> {
        let now = state.contents;
        let mut add = Contents::default();
        let mut operand = None;
        let starts_pass = match self.node(node).clone() {
            Node::Point { operand: with, .. } => {
                add.points = 1;
                if let Operand::Image(other) = with {
                    operand = Some(self.operand(other)?);
                    add.operand = true;
                }
                now.points == MAX_POINTS
            }
            Node::Affine(_) => {
                add = Contents { points: 1, gather: true, ..add };
                now.points > 0 || now.gather
            }
            Node::Resample(resample) => {
                // A drawn window is a map before the gather.
                let maps = usize::from(resample.window.is_some());
                add = Contents { points: 1, maps, gather: true, ..add };
                now.points > 0 || now.gather || now.maps + maps > MAX_MAPS
            }
            Node::Crop(crop) if crop.padding > 0 && crop.border == Border::Constant => {
                add = Contents { maps: 1, gather: true, ..add };
                now.points > 0 || now.gather || now.maps == MAX_MAPS
            }
            Node::Crop(_) | Node::Flip { .. } => {
                add.maps = 1;
                now.operand || now.maps == MAX_MAPS
            }
            _ => unreachable!("handled by walk"),
        };
        let mut next = state;
        if starts_pass || !(self.fuse || now.is_empty()) {
            passes[state.pass].float |= self.build.image_type(before).dtype == DType::F32;
            next = State { pass: state.pass + 1, contents: Contents::default() };
            if next.pass == passes.len() {
                passes.push(Building::new(self.extent(before)));
            }
        }
        next.contents.points += add.points;
        next.contents.maps += add.maps;
        next.contents.gather |= add.gather;
        next.contents.operand |= add.operand;
        passes[next.pass].extent = self.extent(node);
        passes[next.pass].steps.push(GuardedStep { guard, node, operand });
        Ok(next)
    }

    /// The stored image of a second operand, in the order of axes that kernels read.
    fn operand(&mut self, node: NodeId) -> Result<usize> {
        if let Some(&image) = self.stored.get(&node) {
            return Ok(image);
        }
        let image = self.chain(node, Layout::Hwc)?;
        self.stored.insert(node, image);
        Ok(image)
    }
}

/// Both paths behind a choice: the one that is passes behind carries its image through unchanged.
fn join(passes: &mut [Building], a: State, a_float: bool, b: State, b_float: bool) -> State {
    let (ahead, behind, float) = if a.pass >= b.pass { (a, b, b_float) } else { (b, a, a_float) };
    for pass in &mut passes[behind.pass..ahead.pass] {
        pass.float |= float;
    }
    let contents = if ahead.pass == behind.pass {
        ahead.contents.join(behind.contents)
    } else {
        ahead.contents
    };
    State { pass: ahead.pass, contents }
}
