//! Passes and scalars into the tables that the kernels read.

use super::{GuardedStep, Lowering, OutputPlan, Plan};
use crate::error::{Error, Result};
use crate::graph::primitive::{Build, Node, Operand, Scalar, ScalarId};
use crate::graph::program::{self, Filter, Fit, MAX_REGISTERS, NO_GUARD, Op};
use crate::tensor::{DType, Layout};
use std::collections::HashMap;

impl Lowering {
    /// The plan of what was laid into passes.
    pub(super) fn finish(self, outputs: Vec<OutputPlan>) -> Result<Plan> {
        // The tables number names and images with 16 bits, NO_GUARD's value left out.
        if self.build.names.len().max(self.images.len()) >= usize::from(u16::MAX) {
            return Err(Error::spec(
                "the pipeline has too many steps: 65534 and as many images fit",
            ));
        }
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
            Node::Resample(r) => {
                out.kind = program::STEP_RESAMPLE;
                (out.op, out.border) = (r.filter as u8, r.fit as u8);
                (out.height, out.width) = (r.size.0 as i32, r.size.1 as i32);
                let byte = self.build.image_type(step.node).dtype == DType::U8;
                if byte && r.filter != Filter::Nearest {
                    out.flags |= program::FLAG_ROUND;
                }
                if r.subpixel && r.fit != Fit::Stretch {
                    out.flags |= program::FLAG_SUBPIXEL;
                }
                if let Some(window) = &r.window {
                    out.flags |= program::FLAG_RANDOM;
                    out.draw = u32::from(window.draw);
                    out.regs[..2].copy_from_slice(&window.area.map(reg));
                    out.regs[2..4].copy_from_slice(&window.aspect.map(reg));
                }
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
                Node::Resample(r) => {
                    if let Some(window) = &r.window {
                        need(&window.area);
                        need(&window.aspect);
                    }
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
