//! A compiled plan bound to the CPU: runs one sample from decoded pixels to its places in a batch.
#![allow(unsafe_code)]

use crate::decoder::Picture;
use crate::device::Kernel;
use crate::device::cpu::Cpu;
use crate::error::{Error, ErrorKind, Result};
use crate::graph::plan::Plan;
use crate::graph::primitive::Extent;
use crate::graph::program::{
    self, AugmentArgs, Fault, Image, MAX_PIXELS, MAX_SIDE, ResolveArgs, Resolved,
};
use crate::graph::spec::{DecodeScale, Spec};
use crate::tensor::{Buffer, DType, Layout};
use std::sync::atomic::{AtomicU64, Ordering};

/// What a batch needs to know of an output.
#[derive(Debug, Clone)]
pub struct OutputInfo {
    /// Its name in the batch.
    pub name: String,
    /// Order of axes.
    pub layout: Layout,
    /// Element type.
    pub dtype: DType,
    /// Rows and columns, where they are the same for all samples.
    pub fixed: Option<(u32, u32)>,
    /// What would make them so, for error messages.
    pub shape_step_hint: String,
}

/// A plan and the device that runs it. Shared by threads.
pub struct Program {
    plan: Plan,
    outputs: Vec<OutputInfo>,
    cpu: Cpu,
    /// Threads a block, where kernels run by their GPU entry.
    grid: Option<u32>,
    /// Whether a sample's sizes or faults depend on its draws.
    drawn_sizes: bool,
    /// Whether images may be decoded at a smaller scale.
    pub(super) fast: bool,
    /// Tells programs apart, so that a scratch resolved by one is not run by another.
    number: u64,
}

static PROGRAMS: AtomicU64 = AtomicU64::new(0);

/// One thread's state: what `resolve` found for the current sample, and images between passes.
#[derive(Default)]
pub struct Scratch {
    /// The program that resolved the current sample, without a fault.
    ready: Option<u64>,
    pub(super) images: Vec<Image>,
    pub(super) resolved: Vec<Resolved>,
    buffers: Vec<Buffer>,
}

impl Program {
    /// Checks and compiles `spec` for the best level of this CPU.
    pub fn new(spec: &Spec) -> Result<Program> {
        let cpu = Cpu::best().ok_or_else(|| {
            Error::new(ErrorKind::Device, "this CPU is older than x86-64-v2 (SSE4.2, POPCNT)")
        })?;
        let program = Self::with(Plan::compile(spec, crate::ops::ALL)?, cpu);
        Ok(program.fast(spec.decoder.scale == DecodeScale::Fast))
    }

    /// The same where images may, or may not, be decoded at a smaller scale.
    #[must_use]
    pub(super) fn fast(self, fast: bool) -> Program {
        Program { fast, ..self }
    }

    /// A plan on a given level.
    pub fn with(plan: Plan, cpu: Cpu) -> Program {
        let describe = |output: &crate::graph::plan::OutputPlan| {
            let image = &plan.images[output.image];
            OutputInfo {
                name: output.name.clone(),
                layout: image.layout,
                dtype: image.dtype,
                fixed: match image.extent {
                    Extent::Fixed(h, w) => Some((h, w)),
                    _ => None,
                },
                shape_step_hint: match &image.extent {
                    Extent::Grown(step) => {
                        format!("keep_size = true in step \"{step}\", or a crop")
                    }
                    Extent::Resized(step) => {
                        format!("mode = \"stretch\" in step \"{step}\", or a crop")
                    }
                    _ => "a crop or resize step".into(),
                },
            }
        };
        let number = PROGRAMS.fetch_add(1, Ordering::Relaxed);
        // A canvas grows by a drawn angle; a step that can fail, under a predicate, fails only for
        // those that take it. A gather that keeps the size fails at sides above MAX_SIDE alone.
        let drawn = |step: &program::Step| {
            let guarded = step.guard != program::NO_GUARD;
            match step.kind {
                program::STEP_AFFINE => step.flags & program::FLAG_GROW != 0,
                program::STEP_CROP => guarded || step.height.max(step.width) as u32 > MAX_SIDE,
                program::STEP_POINT => guarded && step.flags & program::FLAG_IMAGE != 0,
                program::STEP_RESAMPLE => guarded,
                _ => false,
            }
        };
        let drawn_sizes = plan.steps.iter().any(drawn);
        Program {
            outputs: plan.outputs.iter().map(describe).collect(),
            plan,
            cpu,
            grid: None,
            drawn_sizes,
            fast: false,
            number,
        }
    }

    /// The same through the kernels' GPU entries, walked thread by thread over the grid that a
    /// launch with blocks of `threads` would have: how tests see on the host what a GPU runs.
    #[must_use]
    pub fn on_grid(self, threads: u32) -> Program {
        Program { grid: Some(threads), ..self }
    }

    /// The plan.
    pub fn plan(&self) -> &Plan {
        &self.plan
    }

    /// The device's name.
    pub fn device(&self) -> String {
        self.cpu.name()
    }

    /// The outputs in order.
    pub fn outputs(&self) -> &[OutputInfo] {
        &self.outputs
    }

    /// The output that image `image` of the plan is, if it is one.
    pub fn output_of(&self, image: usize) -> Option<usize> {
        self.plan.outputs.iter().position(|output| output.image == image)
    }

    /// Evaluates draws, predicates, matrices and the size of every image of sample `id`, whose
    /// decoded image has `width` columns and `height` rows.
    ///
    /// # Errors
    /// When a step cannot work on an image of that size, with its name.
    pub fn resolve(
        &self,
        scratch: &mut Scratch,
        seed: u64,
        epoch: u32,
        id: u64,
        width: u32,
        height: u32,
    ) -> Result<()> {
        let pixels = u64::from(width) * u64::from(height);
        if pixels > MAX_PIXELS || pixels == 0 {
            return Err(Error::new(
                ErrorKind::Limit,
                format!("an image of {width}x{height} pixels is beyond the limit of {MAX_PIXELS}"),
            ));
        }
        let plan = &self.plan;
        scratch.ready = None;
        scratch.images.resize(plan.images.len(), Image::default());
        scratch.resolved.resize(plan.passes.len(), bytemuck::Zeroable::zeroed());
        scratch.images[0] = Image { data: 0, width: width as i32, height: height as i32 };
        let mut status = 0;
        let args = ResolveArgs {
            scalars: plan.scalars.as_ptr() as u64,
            passes: plan.passes.as_ptr() as u64,
            steps: plan.steps.as_ptr() as u64,
            samples: &raw const id as u64,
            images: scratch.images.as_mut_ptr() as u64,
            resolved: scratch.resolved.as_mut_ptr() as u64,
            status: &raw mut status as u64,
            seed,
            epoch,
            n_scalars: plan.scalars.len() as u32,
            n_passes: plan.passes.len() as u32,
            n_images: plan.images.len() as u32,
            n_samples: 1,
            unused: 0,
        };
        // SAFETY: the plan's tables are consistent by construction (registers below
        // MAX_REGISTERS, points and maps below their maxima, images and steps in range), and the
        // two tables written have one entry for each image and pass of the one sample.
        unsafe { self.launch(Kernel::Resolve, (&raw const args).cast(), 1) };
        match Fault::of(status) {
            None => {
                scratch.ready = Some(self.number);
                Ok(())
            }
            Some((fault, name)) => Err(self.fault(fault, name, width, height)),
        }
    }

    /// What a status word says of an image of that decoded size; `name` is the step's number.
    fn fault(&self, fault: Fault, name: usize, width: u32, height: u32) -> Error {
        let text = match fault {
            Fault::Crop => "the crop is larger than the image with its padding; give it padding \
                            or a smaller size"
                .to_string(),
            Fault::Operand => "its two images have different sizes".to_string(),
            Fault::Size => format!(
                "its result would have no pixels or more than {MAX_PIXELS}, or a side above {MAX_SIDE}"
            ),
            // No step's doing.
            Fault::Unwritten => {
                let text = "the GPU's decoder reported success for an image that it did not write";
                return Error::new(ErrorKind::Decode, text);
            }
        };
        let text = format!("{text} (decoded size {width}x{height})");
        Error::new(ErrorKind::Shape, text).at_step(&self.plan.names[name])
    }

    /// Whether `scratch` holds the sizes, and the absence of faults, of every sample whose decoded
    /// image has `width` columns and `height` rows: a sample of that size was resolved last, and
    /// no draw decides about a size.
    pub fn knows_sizes(&self, scratch: &Scratch, width: u32, height: u32) -> bool {
        let same = |image: &Image| (image.width as u32, image.height as u32) == (width, height);
        !self.drawn_sizes
            && width.max(height) <= MAX_SIDE
            && scratch.ready == Some(self.number)
            && scratch.images.first().is_some_and(same)
    }

    /// Rows and columns of an output of the resolved sample.
    pub fn output_size(&self, scratch: &Scratch, output: usize) -> (u32, u32) {
        self.image_size(scratch, self.plan.outputs[output].image)
    }

    /// The same of an image of the plan.
    pub fn image_size(&self, scratch: &Scratch, image: usize) -> (u32, u32) {
        let image = scratch.images[image];
        (image.height as u32, image.width as u32)
    }

    /// Runs the passes of the resolved sample over `picture`. `outs[k]` is output k's place:
    /// rows x columns x 3 elements, aligned to the element.
    ///
    /// # Errors
    /// Where there is no memory for what lies between two passes.
    ///
    /// # Panics
    /// When [`Program::resolve`] has not succeeded before, or `picture` or a place has not the size
    /// that it found.
    pub fn run(
        &self,
        scratch: &mut Scratch,
        picture: Picture<'_>,
        outs: &mut [&mut [u8]],
    ) -> Result<()> {
        let plan = &self.plan;
        assert_eq!(scratch.ready, Some(self.number), "not resolved, or by another program");
        let decoded = &mut scratch.images[0];
        assert_eq!(
            (decoded.width as u32, decoded.height as u32),
            (picture.width(), picture.height()),
            "resolved for another image"
        );
        // Pixels carry the tail of readable bytes that kernels ask of a source.
        decoded.data = picture.bytes().as_ptr() as u64;
        scratch.buffers.resize_with(plan.images.len(), Buffer::new);
        for (k, image) in plan.images.iter().enumerate().skip(1) {
            let size = scratch.images[k];
            let bytes = size.width as usize * size.height as usize * 3 * image.dtype.size();
            let data = match self.output_of(k) {
                Some(output) => {
                    let out = &mut *outs[output];
                    assert_eq!(out.len(), bytes, "a place of another size");
                    let address = out.as_ptr() as usize;
                    assert!(address.is_multiple_of(image.dtype.size()), "unaligned place");
                    out.as_mut_ptr()
                }
                None => {
                    let buffer = &mut scratch.buffers[k];
                    buffer.resize(bytes + program::TAIL)?;
                    buffer.as_mut_ptr()
                }
            };
            scratch.images[k].data = data as u64;
        }
        // `resolve` has found no fault.
        let status = 0u32;
        for (number, &pass) in plan.passes.iter().enumerate() {
            let args = AugmentArgs {
                resolved: scratch.resolved.as_ptr() as u64,
                images: scratch.images.as_ptr() as u64,
                status: &raw const status as u64,
                n_passes: plan.passes.len() as u32,
                n_images: plan.images.len() as u32,
                n_samples: 1,
                number: number as u32,
                pass,
                tiles: self.tiles(scratch.images[usize::from(pass.dest)]),
                unused: 0,
            };
            // SAFETY: every image has the size that `resolve` wrote beside its pointer, checked
            // above for pixels and outputs and made so for buffers; sources are decoded pixels or
            // buffers, which carry a tail; a pass writes an image that nothing else uses.
            unsafe { self.launch(Kernel::Augment, (&raw const args).cast(), args.tiles) };
        }
        Ok(())
    }

    /// Blocks that the grid has for one image: `augment` gives a thread four pixels.
    fn tiles(&self, image: Image) -> u32 {
        let strips = (image.width as u32 * image.height as u32).div_ceil(4);
        strips.div_ceil(self.grid.unwrap_or(256))
    }

    /// # Safety
    /// As [`Cpu::launch`], for one sample.
    unsafe fn launch(&self, kernel: Kernel, args: *const std::ffi::c_void, blocks: u32) {
        match self.grid {
            // SAFETY: the caller's promise.
            None => unsafe { self.cpu.launch(kernel, args, 0..1) },
            // SAFETY: the caller's promise; entries check the grid's rounding.
            Some(threads) => unsafe { self.cpu.launch_grid(kernel, args, blocks, threads) },
        }
    }
}
