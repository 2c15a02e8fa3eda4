//! A batch of the course's pipeline in a GPU's memory, launched as the executor does.
#![allow(unsafe_code)]

use crate::clock::{Times, time};
use cudarc::driver::sys;
use forebay::decoder::Pixels;
use forebay::device::Kernel;
use forebay::device::cuda::{Cuda, DeviceMemory, PinnedMemory, Stream};
use forebay::executor::program::{Program, Scratch};
use forebay::graph::file;
use forebay::graph::program::{AugmentArgs, Image, ResolveArgs, Resolved, TAIL};
use forebay::{Error, ErrorKind, Result};
use std::sync::Arc;

const COURSE: &str = include_str!("../../pipelines/cifar10-train.toml");
const SEED: u64 = 42;
const EPOCH: u32 = 3;

/// Threads of a block, and pixels of a thread: those of src/executor/gpu/submit.rs.
const PIXEL_THREADS: u32 = 256;
const SAMPLE_THREADS: u32 = 64;
const THREAD_PIXELS: u32 = 4;

/// Pictures that differ; a batch repeats them.
const PICTURES: usize = 16;

/// A time, and the bytes that are read and written meanwhile.
pub(crate) struct Measured {
    pub(crate) bytes: usize,
    pub(crate) times: Times,
}

/// A batch and its memory.
pub(crate) struct Bench {
    cuda: Arc<Cuda>,
    stream: Stream,
    program: Program,
    side: u32,
    resolve: ResolveArgs,
    augment: AugmentArgs,
    out: DeviceMemory,
    /// What the arguments point into.
    _memory: [DeviceMemory; 3],
}

impl Bench {
    /// Fills the memory of a batch. Needs the context.
    pub(crate) fn new(cuda: &Arc<Cuda>, side: u32, samples: u32) -> Result<Bench> {
        let stream = Stream::new(cuda)?;
        let program = Program::new(&file::parse(COURSE)?)?;
        let plan = program.plan();
        assert_eq!((plan.passes().len(), plan.images().len()), (1, 2), "one fused pass");
        let n = samples as usize;

        let picture = 3 * side as usize * side as usize;
        let pixels = device(cuda, n * picture + TAIL)?;
        let pictures: Vec<u8> = (0..PICTURES).flat_map(|k| bytes_of(k, picture)).collect();
        let repeated = pictures.iter().copied().cycle().take(n * picture);
        upload(cuda, &stream, pixels.address(), repeated)?;

        let out = device(cuda, n * picture * size_of::<f32>() + TAIL)?;
        let image = |data: u64| Image { data, width: side as i32, height: side as i32 };
        let images: Vec<Image> = (0..n)
            .flat_map(|k| {
                let at = (k * picture) as u64;
                [image(pixels.address() + at), image(out.address() + 4 * at)]
            })
            .collect();
        let ids: Vec<u64> = (0..u64::from(samples)).collect();

        let parts: [&[u8]; 5] = [
            bytemuck::cast_slice(plan.scalars()),
            bytemuck::cast_slice(plan.passes()),
            bytemuck::cast_slice(plan.steps()),
            bytemuck::cast_slice(&ids),
            bytemuck::cast_slice(&images),
        ];
        let (mut tables, mut offsets) = (Vec::new(), [0; 5]);
        for (part, offset) in parts.iter().zip(&mut offsets) {
            *offset = tables.len() as u64;
            tables.extend_from_slice(part);
            tables.resize(tables.len().next_multiple_of(256), 0);
        }
        let device_tables = device(cuda, tables.len())?;
        upload(cuda, &stream, device_tables.address(), tables.into_iter())?;
        let [scalars, passes, steps, ids, images] = offsets.map(|at| device_tables.address() + at);
        let work = device(cuda, n * (size_of::<Resolved>() + 4))?;

        let resolve = ResolveArgs {
            scalars,
            passes,
            steps,
            samples: ids,
            images,
            resolved: work.address(),
            status: work.address() + (n * size_of::<Resolved>()) as u64,
            seed: SEED,
            epoch: EPOCH,
            n_scalars: plan.scalars().len() as u32,
            n_passes: 1,
            n_images: 2,
            n_samples: samples,
            unused: 0,
        };
        let augment = AugmentArgs {
            resolved: resolve.resolved,
            images,
            status: resolve.status,
            n_passes: 1,
            n_images: 2,
            n_samples: samples,
            number: 0,
            pass: plan.passes()[0],
            tiles: (side * side).div_ceil(THREAD_PIXELS * PIXEL_THREADS),
            unused: 0,
        };
        let memory = [pixels, device_tables, work];
        Ok(Bench {
            cuda: cuda.clone(),
            stream,
            program,
            side,
            resolve,
            augment,
            out,
            _memory: memory,
        })
    }

    fn launch_resolve(&self, args: &ResolveArgs) -> Result<()> {
        let blocks = args.n_samples.div_ceil(SAMPLE_THREADS).max(1);
        // SAFETY: the arguments point into the batch's memory, which this stream alone uses.
        unsafe { self.stream.launch(Kernel::Resolve, args, blocks, SAMPLE_THREADS) }
    }

    fn launch_augment(&self) -> Result<()> {
        let blocks = self.augment.n_samples * self.augment.tiles;
        // SAFETY: as above; every image has room for its pixels, and sources carry their tail.
        unsafe { self.stream.launch(Kernel::Augment, &self.augment, blocks, PIXEL_THREADS) }
    }

    /// What is timed below does its work: the first pictures come out as on the CPU.
    ///
    /// # Errors
    /// When they do not.
    pub(crate) fn check(&self) -> Result<()> {
        self.launch_resolve(&self.resolve)?;
        self.launch_augment()?;
        let picture = 3 * self.side as usize * self.side as usize;
        let bytes = picture * size_of::<f32>();
        let count = PICTURES.min(self.augment.n_samples as usize);
        let mut got = PinnedMemory::new(&self.cuda);
        got.reserve(count * bytes, 0)?;
        // SAFETY: there is room, and the copy is waited for before it is read.
        unsafe { self.stream.download(got.start(), self.out.address(), count * bytes) }?;
        self.stream.synchronize()?;
        let (mut scratch, mut pixels) = (Scratch::default(), Pixels::new());
        let mut expected = vec![0f32; picture];
        for (k, got) in got.bytes(count * bytes).chunks(bytes).enumerate() {
            pixels.reset(self.side, self.side)?.copy_from_slice(&bytes_of(k, picture));
            self.program.resolve(&mut scratch, SEED, EPOCH, k as u64, self.side, self.side)?;
            let place = bytemuck::cast_slice_mut(&mut expected);
            self.program.run(&mut scratch, pixels.picture(), &mut [place])?;
            if bytemuck::cast_slice::<f32, u8>(&expected) != got {
                let text =
                    format!("picture {k} of {0}x{0} has other bytes than on the CPU", self.side);
                return Err(Error::new(ErrorKind::Device, text));
            }
        }
        Ok(())
    }

    /// A launch that finds nothing to do: what each launch costs at least.
    pub(crate) fn empty(&self) -> Result<Times> {
        let nothing = ResolveArgs { n_samples: 0, ..self.resolve };
        time(&self.stream, || self.launch_resolve(&nothing))
    }

    /// Reads ids, sizes and the plan; writes a sample's program, sizes and status word. The program
    /// counts whole, though `resolve` writes only the operations that are taken.
    pub(crate) fn resolve(&self) -> Result<Measured> {
        let sample = size_of::<u64>() + 2 * 2 * size_of::<Image>() + size_of::<Resolved>() + 4;
        let times = time(&self.stream, || self.launch_resolve(&self.resolve))?;
        Ok(Measured { bytes: self.resolve.n_samples as usize * sample, times })
    }

    /// Reads a sample's program and pixels, each pixel once however many taps it has, and writes
    /// three floats a pixel.
    pub(crate) fn augment(&self) -> Result<Measured> {
        let picture = 3 * self.side as usize * self.side as usize;
        let sample = size_of::<Resolved>() + 2 * size_of::<Image>() + 4 + picture * (1 + 4);
        let times = time(&self.stream, || self.launch_augment())?;
        Ok(Measured { bytes: self.augment.n_samples as usize * sample, times })
    }

    /// A copy within the GPU that reads and writes `bytes` together. Loses the output.
    pub(crate) fn copy(&mut self, bytes: usize) -> Result<Measured> {
        // The output is four fifths of what `augment` moves.
        copy(&self.cuda, &self.stream, &self.out, bytes)
    }
}

/// A copy of `bytes`, read and written together, beside nothing else; `None` where they do not fit.
pub(crate) fn large_copy(cuda: &Arc<Cuda>, bytes: usize) -> Result<Option<Measured>> {
    match device(cuda, bytes / 2) {
        Ok(from) => copy(cuda, &Stream::new(cuda)?, &from, bytes).map(Some),
        Err(error) if error.kind() == ErrorKind::Limit => Ok(None),
        Err(error) => Err(error),
    }
}

fn copy(cuda: &Arc<Cuda>, stream: &Stream, from: &DeviceMemory, bytes: usize) -> Result<Measured> {
    let half = bytes / 2;
    assert!(half <= from.capacity(), "{half} of {} bytes", from.capacity());
    let to = device(cuda, half)?;
    let times = time(stream, || {
        let raw = stream.raw().cast();
        // SAFETY: both places have that many bytes, and only this stream uses them.
        let status = unsafe { sys::cuMemcpyDtoDAsync_v2(to.address(), from.address(), half, raw) };
        status
            .result()
            .map_err(|error| Error::new(ErrorKind::Device, format!("cuMemcpyDtoDAsync: {error:?}")))
    })?;
    Ok(Measured { bytes: 2 * half, times })
}

/// Memory of `bytes`.
pub(crate) fn device(cuda: &Arc<Cuda>, bytes: usize) -> Result<DeviceMemory> {
    let mut memory = DeviceMemory::new(cuda);
    memory.reserve(bytes)?;
    Ok(memory)
}

/// Copies bytes up through a piece of pinned memory, and waits.
pub(crate) fn upload(
    cuda: &Arc<Cuda>,
    stream: &Stream,
    mut to: u64,
    mut bytes: impl Iterator<Item = u8>,
) -> Result<()> {
    const PIECE: usize = 64 << 20;
    let mut pinned = PinnedMemory::new(cuda);
    pinned.reserve(PIECE, 0)?;
    loop {
        let place = pinned.bytes_mut(PIECE);
        let len = place.iter_mut().zip(&mut bytes).map(|(place, byte)| *place = byte).count();
        if len == 0 {
            return Ok(());
        }
        // SAFETY: pinned memory, waited for before it is written again; the places have room.
        unsafe { stream.upload(to, pinned.bytes(len)) }?;
        stream.synchronize()?;
        to += len as u64;
    }
}

/// Picture `number`, `len` bytes of noise.
fn bytes_of(number: usize, len: usize) -> Vec<u8> {
    (0..len).map(|k| (k.wrapping_mul(40_503).wrapping_add(number * 7_919) >> 7) as u8).collect()
}
