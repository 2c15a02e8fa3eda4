//! From the graph of primitives to passes over the pixels.
//!
//! Each output is a chain of passes from the nearest stored image. A gather starts a pass, and
//! pointwise steps, flips and crops ride along; both branches of a choice run beside each other in
//! the same passes, since a sample takes one of them. Fusion never changes a value: between passes
//! an image is stored as u8 only where every path to it is u8.

use super::check::{Checked, check};
use super::op::Operator;
use super::primitive::{Build, Extent, Node, NodeId, Operand, Scalar, ScalarId};
use super::program::{self, Border, MAX_MAPS, MAX_POINTS, MAX_REGISTERS, NO_GUARD, Op};
use super::spec::Spec;
use crate::error::{Error, Result};
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
    /// An affine gather, or a crop with a constant border: at most one fill value a pass.
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

    fn finish(self, outputs: Vec<OutputPlan>) -> Result<Plan> {
        let registers = Registers::of(&self)?;
        let mut plan = Plan {
            scalars: registers.program(&self.build),
            passes: Vec::new(),
            steps: Vec::new(),
            outputs,
            names: self.build.names.clone(),
            draws: self.build.draw_names(),
            images: self.images.clone(),
        };
        for (source, dest, steps) in &self.passes {
            let (from, to) = (&self.images[*source], &self.images[*dest]);
            plan.passes.push(program::Pass {
                source: *source as u16,
                dest: *dest as u16,
                source_type: u8::from(from.dtype == DType::F32),
                dest_type: u8::from(to.dtype == DType::F32),
                dest_layout: u8::from(to.layout == Layout::Chw),
                unused: 0,
                first_step: plan.steps.len() as u32,
                steps: steps.len() as u32,
            });
            plan.steps.extend(steps.iter().map(|step| self.encode(step, &registers)));
        }
        Ok(plan)
    }

    fn encode(&self, step: &GuardedStep, registers: &Registers) -> program::Step {
        let (node, _, name) = &self.build.nodes[step.node.0 as usize];
        let reg = |scalar: ScalarId| registers.number[&scalar];
        let mut out =
            program::Step { guard: NO_GUARD, name: *name, ..bytemuck::Zeroable::zeroed() };
        if let Some(guard) = step.guard {
            out.guard = reg(guard);
        }
        match node {
            Node::Point { op, operand, .. } => {
                (out.kind, out.op) = (program::STEP_POINT, *op as u8);
                match operand {
                    Operand::Nothing => {}
                    Operand::Scalars(channels) => {
                        out.regs[..3].copy_from_slice(&channels.map(reg));
                    }
                    Operand::Image(_) => {
                        let image = step.operand.expect("stored by place");
                        out.flags = program::FLAG_IMAGE;
                        if self.images[image].dtype == DType::F32 {
                            out.flags |= program::FLAG_F32;
                        }
                        out.regs[0] = image as u16;
                    }
                }
            }
            Node::Affine(a) => {
                out.kind = program::STEP_AFFINE;
                out.border = a.border as u8;
                let [tx, ty] = a.translate;
                let [sx, sy] = a.shear;
                out.regs[..7].copy_from_slice(&[a.angle, tx, ty, a.scale, sx, sy, a.fill].map(reg));
                let byte = self.build.image_type(step.node).dtype == DType::U8;
                out.flags = if a.linear { program::FLAG_LINEAR } else { 0 }
                    | if a.grow { program::FLAG_GROW } else { 0 }
                    | if a.linear && byte { program::FLAG_ROUND } else { 0 };
            }
            Node::Crop(c) => {
                out.kind = program::STEP_CROP;
                out.border = c.border as u8;
                (out.height, out.width) = (c.size.0 as i32, c.size.1 as i32);
                out.padding = c.padding as i32;
                out.regs[6] = reg(c.fill);
                if let Some(draw) = c.draw {
                    out.flags = program::FLAG_RANDOM;
                    out.draw = u32::from(draw);
                }
            }
            Node::Flip { horizontal, vertical, .. } => {
                out.kind = program::STEP_FLIP;
                out.flags = if *horizontal { program::FLAG_HORIZONTAL } else { 0 }
                    | if *vertical { program::FLAG_VERTICAL } else { 0 };
            }
            Node::Decoded | Node::Retype { .. } | Node::Select { .. } => {
                unreachable!("no step is made for these")
            }
        }
        out
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

/// Numbers of the scalars that some step needs, in the order in which steps first need them, so that
/// equal steps are equal programs however their operators came by them.
#[derive(Default)]
struct Registers {
    number: HashMap<ScalarId, u16>,
    order: Vec<ScalarId>,
}

impl Registers {
    fn of(lowering: &Lowering) -> Result<Registers> {
        let build = &lowering.build;
        let mut registers = Registers::default();
        let mut need = |scalars: &[ScalarId]| {
            scalars.iter().for_each(|&scalar| registers.need(build, scalar));
        };
        for step in lowering.passes.iter().flat_map(|(_, _, steps)| steps) {
            need(step.guard.as_slice());
            match &build.nodes[step.node.0 as usize].0 {
                Node::Point { operand: Operand::Scalars(channels), .. } => need(channels),
                Node::Affine(a) => {
                    need(&[a.angle, a.scale, a.fill]);
                    need(&a.translate);
                    need(&a.shear);
                }
                Node::Crop(c) => need(&[c.fill]),
                _ => {}
            }
        }
        if registers.order.len() > MAX_REGISTERS {
            return Err(Error::spec(format!(
                "the pipeline computes {} draws, arguments and predicates a sample; {MAX_REGISTERS} \
                 fit: use fewer steps or share draws",
                registers.order.len()
            )));
        }
        Ok(registers)
    }

    /// Numbers `scalar`, and before it what it is computed from.
    fn need(&mut self, build: &Build, scalar: ScalarId) {
        if self.number.contains_key(&scalar) {
            return;
        }
        if let Scalar::Apply(_, a, b) = build.scalars[scalar.0 as usize] {
            self.need(build, a);
            self.need(build, b);
        }
        self.number.insert(scalar, self.order.len() as u16);
        self.order.push(scalar);
    }

    fn program(&self, build: &Build) -> Vec<program::Scalar> {
        let encode = |(dst, &scalar): (usize, &ScalarId)| {
            let mut out = program::Scalar { dst: dst as u16, ..bytemuck::Zeroable::zeroed() };
            let draw = |out: &mut program::Scalar, op, draw, element| {
                (out.op, out.value, out.element) = (op as u16, u32::from(draw), element);
            };
            match build.scalars[scalar.0 as usize] {
                Scalar::Const(bits) => (out.op, out.value) = (Op::Const as u16, bits),
                Scalar::Unit { draw: d, element } => draw(&mut out, Op::Unit, d, element),
                Scalar::Normal { draw: d, element } => draw(&mut out, Op::Normal, d, element),
                Scalar::Apply(op, a, b) => {
                    (out.op, out.a, out.b) = (op as u16, self.number[&a], self.number[&b]);
                }
            }
            out
        };
        self.order.iter().enumerate().map(encode).collect()
    }
}
