//! A plan over a batch of samples: `resolve`, then each pass, as a device runs them.

use super::memory::{Case, Launch, Memory};
use forebay::device::Kernel;
use forebay::device::cpu::Cpu;
use forebay::graph::plan::Plan;
use forebay::graph::program::{
    AugmentArgs, FLAG_IMAGE, Image, MAX_PIXELS, Op, ResolveArgs, Resolved, STEP_POINT, Scalar,
    Step, TAIL,
};
use forebay::graph::spec::Spec;
use forebay::ops;
use std::mem::offset_of;

/// A plan, and its tables of operations as the kernels get them.
pub(crate) struct Tables {
    plan: Plan,
    scalars: Vec<Scalar>,
    steps: Vec<Step>,
}

impl Tables {
    /// `None` where the pipeline does not compile.
    pub(crate) fn of(spec: &Spec) -> Option<Tables> {
        let plan = Plan::compile(spec, ops::ALL).ok()?;
        let (scalars, steps) = (plan.scalars().to_vec(), plan.steps().to_vec());
        Some(Tables { plan, scalars, steps })
    }

    /// Another operation on numbers wherever `old` stands: kernels take what no pipeline says.
    pub(crate) fn with_scalar(mut self, old: Op, new: Op) -> Tables {
        let found = self.scalars.iter_mut().filter(|scalar| scalar.op == old as u16);
        assert!(found.map(|scalar| scalar.op = new as u16).count() > 0);
        self
    }

    /// Another operation on pixels wherever `old` stands.
    pub(crate) fn with_point(mut self, old: Op, new: Op) -> Tables {
        let points = self.steps.iter_mut().filter(|step| step.kind == STEP_POINT);
        let found = points.filter(|step| step.op == old as u8);
        assert!(found.map(|step| step.op = new as u8).count() > 0);
        self
    }
}

/// A decoded image, and whose it is.
#[derive(Clone)]
pub(crate) struct Sample {
    pub(crate) id: u64,
    pub(crate) width: u32,
    pub(crate) height: u32,
    pub(crate) pixels: Vec<u8>,
}

/// How a batch is launched.
#[derive(Clone, Copy)]
pub(crate) struct Grid {
    /// Threads of a block, of either kernel.
    pub(crate) resolve: u32,
    pub(crate) augment: u32,
    /// How often blocks go round until the largest image is done.
    pub(crate) rounds: u32,
}

const SEED: u64 = 0x1234_5678_9ABC_DEF0;
const EPOCH: u32 = 3;

/// A batch, and how many of its samples `resolve` refuses.
pub(crate) fn batch(
    label: String,
    tables: &Tables,
    samples: &[Sample],
    grid: Grid,
) -> (Case, usize) {
    let plan = &tables.plan;
    let n = samples.len();
    let (n_images, n_passes) = (plan.images().len(), plan.passes().len());
    let mut memory = Memory::default();
    let ids: Vec<u64> = samples.iter().map(|sample| sample.id).collect();
    let images = memory.place(n * n_images * size_of::<Image>(), 0);
    let image =
        |sample: usize, k: usize| images + ((sample * n_images + k) * size_of::<Image>()) as u64;
    for (s, sample) in samples.iter().enumerate() {
        let decoded = Image { data: 0, width: sample.width as i32, height: sample.height as i32 };
        memory.write(image(s, 0), bytemuck::bytes_of(&decoded));
    }
    let args = ResolveArgs {
        scalars: memory.table(&tables.scalars),
        passes: memory.table(plan.passes()),
        steps: memory.table(&tables.steps),
        samples: memory.table(&ids),
        images,
        resolved: memory.place(n * n_passes * size_of::<Resolved>(), 0),
        status: memory.place(n * size_of::<u32>(), 0),
        seed: SEED,
        epoch: EPOCH,
        n_scalars: plan.scalars().len() as u32,
        n_passes: n_passes as u32,
        n_images: n_images as u32,
        n_samples: n as u32,
        unused: 0,
    };
    let blocks = (n as u32).div_ceil(grid.resolve);
    let resolve = Launch::new(Kernel::Resolve, args, 7, n as u32, [blocks, grid.resolve]);
    let mut case = Case { label, memory, launches: vec![resolve] };

    // The sizes that it finds say how much memory each image needs.
    let resolved = case.on_host(Cpu::best().unwrap());
    let read = |at: u64| bytemuck::pod_read_unaligned::<u32>(&resolved[at as usize..][..4]);
    let (mut refused, mut largest) = (0, 1);
    for (s, sample) in samples.iter().enumerate() {
        if read(args.status + 4 * s as u64) != 0 {
            refused += 1;
            continue; // Nothing may touch its images, which stay without memory.
        }
        for (k, described) in plan.images().iter().enumerate() {
            let [width, height] = [offset_of!(Image, width), offset_of!(Image, height)]
                .map(|field| read(image(s, k) + field as u64));
            let pixels = u64::from(width) * u64::from(height);
            assert!(pixels <= MAX_PIXELS);
            let element = described.dtype.size();
            let tail = if is_source(plan, k) { TAIL } else { 0 };
            // Samples start at every address that their elements allow.
            let data = case.memory.place(pixels as usize * 3 * element + tail, s * element % 16);
            case.memory.link(image(s, k) + offset_of!(Image, data) as u64, data);
            if k == 0 {
                case.memory.write(data, &sample.pixels);
            }
            largest = largest.max(pixels as u32);
        }
    }
    let tiles = largest.div_ceil(4).div_ceil(grid.augment).div_ceil(grid.rounds);
    for (number, &pass) in plan.passes().iter().enumerate() {
        let args = AugmentArgs {
            resolved: args.resolved,
            images,
            status: args.status,
            n_passes: n_passes as u32,
            n_images: n_images as u32,
            n_samples: n as u32,
            number: number as u32,
            pass,
            tiles,
            unused: 0,
        };
        let shape = [n as u32 * tiles, grid.augment];
        case.launches.push(Launch::new(Kernel::Augment, args, 3, n as u32, shape));
    }
    (case, refused)
}

/// Whether kernels read image `k`, which then carries a tail.
fn is_source(plan: &Plan, k: usize) -> bool {
    plan.passes().iter().any(|pass| usize::from(pass.source) == k)
        || plan.steps().iter().any(|step| {
            step.kind == STEP_POINT
                && step.flags & FLAG_IMAGE != 0
                && usize::from(step.regs[0]) == k
        })
}
