//! `resolve` and the passes over a batch, and the grids they run on.
//!
//! The batch lies along a grid's first dimension together with each image's blocks, since the others
//! end at 65,535.
#![allow(unsafe_code)]

use super::Engine;
use super::lay_out::LaidOut;
use super::slot::DeviceSlot;
use crate::device::Kernel;
use crate::error::Result;
use crate::executor::job::Job;
use crate::executor::ring::Size;
use crate::graph::program::{AugmentArgs, Image, ResolveArgs, Resolved};

/// Threads of a block: `augment` and `settle` give each four pixels, `resolve` a sample.
pub(super) const PIXEL_THREADS: u32 = 256;
const SAMPLE_THREADS: u32 = 64;
const THREAD_PIXELS: u64 = 4;
/// Of one image: a million pixels at a time.
const MOST_TILES: u64 = 1024;
/// The most blocks of a grid's first dimension.
const MOST_BLOCKS: u64 = (1 << 31) - 1;

/// Launches `resolve` and every pass; the address of the status words.
pub(super) fn run_passes(
    engine: &Engine,
    job: &Job,
    slot: &DeviceSlot,
    laid_out: &LaidOut,
) -> Result<u64> {
    let LaidOut { tables, work, .. } = laid_out;
    let (samples, plan, compute) = (job.len(), job.program().plan(), &engine.compute);
    let (base, memory) = (slot.device_tables.address(), slot.work.address());
    let (n_images, n_passes) = (plan.images().len() as u32, plan.passes().len() as u32);
    let resolve = ResolveArgs {
        scalars: engine.plan.scalars,
        passes: engine.plan.passes,
        steps: engine.plan.steps,
        samples: base + tables.ids as u64,
        images: base + tables.images as u64,
        resolved: memory + work.resolved as u64,
        status: memory + work.status as u64,
        seed: job.seed(),
        epoch: job.epoch(),
        n_scalars: plan.scalars().len() as u32,
        n_passes,
        n_images,
        n_samples: samples as u32,
        unused: 0,
    };
    let blocks = (samples as u32).div_ceil(SAMPLE_THREADS);
    // SAFETY: the plan's tables are consistent by construction; the batch's have one entry for each
    // sample, image and pass, and were uploaded, which the stream has waited for.
    unsafe { compute.launch(Kernel::Resolve, &resolve, blocks, SAMPLE_THREADS) }?;
    for (number, &pass) in plan.passes().iter().enumerate() {
        let dest = usize::from(pass.dest);
        let tiles = (0..samples).map(|at| blocks_of(job.size(at, dest))).max().unwrap_or(1);
        for (first, count) in chunks(samples, tiles) {
            let entries = |n: u32, size: usize| (first * n as usize * size) as u64;
            let args = AugmentArgs {
                resolved: resolve.resolved + entries(n_passes, size_of::<Resolved>()),
                images: resolve.images + entries(n_images, size_of::<Image>()),
                status: resolve.status + entries(1, 4),
                n_passes,
                n_images,
                n_samples: count,
                number: number as u32,
                pass,
                tiles,
                unused: 0,
            };
            // SAFETY: every image has room for the size that the host found for it, and `resolve`
            // finds the same: they are one source, equal to the bit.
            unsafe { compute.launch(Kernel::Augment, &args, count * tiles, PIXEL_THREADS) }?;
        }
    }
    Ok(resolve.status)
}

/// Blocks that an image of that size gets. In an image of more pixels blocks go round, so that a
/// batch with one large image does not launch as many for each small one.
pub(super) fn blocks_of(size: Size) -> u32 {
    let pixels = u64::from(size.width) * u64::from(size.height);
    let blocks = pixels.div_ceil(THREAD_PIXELS).div_ceil(u64::from(PIXEL_THREADS));
    blocks.clamp(1, MOST_TILES) as u32
}

/// Runs of samples, `tiles` blocks each, that fit into a grid: first and count.
pub(super) fn chunks(samples: usize, tiles: u32) -> impl Iterator<Item = (usize, u32)> {
    let most = (MOST_BLOCKS / u64::from(tiles)).max(1) as usize;
    (0..samples).step_by(most).map(move |first| (first, most.min(samples - first) as u32))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Batches of 1 to 100,000 images of up to 2^27 pixels fit into grids, each image once.
    #[test]
    fn grids_hold() {
        for samples in [1, 2, 255, 100_000] {
            for (width, height) in [(1, 1), (32, 32), (65_500, 1), (65_500, 2049), (8192, 16_384)] {
                let tiles = blocks_of(Size { height, width });
                let mut next = 0;
                for (first, count) in chunks(samples, tiles) {
                    assert_eq!(first, next);
                    assert!(u64::from(count) * u64::from(tiles) <= MOST_BLOCKS && count > 0);
                    next += count as usize;
                }
                assert_eq!(next, samples, "{width}x{height}");
            }
        }
    }
}
