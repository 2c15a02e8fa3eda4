//! Small JPEGs in a GPU's memory, decoded by our own kernels as the executor does.
#![allow(unsafe_code)]

use crate::clock::{Times, time};
use crate::kernels::{Measured, device};
use forebay::decoder::gpu::{Batch, Memory};
use forebay::decoder::nvjpeg::Item;
use forebay::decoder::{Decoder, Limits, Pixels};
use forebay::device::Kernel;
use forebay::device::cuda::{Cuda, DeviceMemory, PinnedMemory, Stream};
use forebay::{Error, ErrorKind, Result};
use std::sync::Arc;
use turbojpeg::{Compressor, Image, PixelFormat, Subsamp};

/// Pictures that differ; a batch repeats them.
const PICTURES: usize = 16;

/// A batch and its memory.
pub(crate) struct Decode {
    cuda: Arc<Cuda>,
    pub(crate) stream: Stream,
    batch: Batch,
    memory: Memory,
    /// The batch's files one after another, and the tables.
    host: PinnedMemory,
    /// Where each file starts in it, and behind them all.
    starts: Vec<usize>,
    encoded: DeviceMemory,
    pixels: DeviceMemory,
    side: u32,
    /// Bytes of a picture.
    picture: usize,
    /// What `memory` points into.
    _parts: [DeviceMemory; 3],
}

impl Decode {
    /// Fills the memory of a batch. Needs the context.
    pub(crate) fn new(cuda: &Arc<Cuda>, side: u32, samples: u32) -> Result<Decode> {
        let stream = Stream::new(cuda)?;
        let mut decoder = Decoder::new(Limits::default());
        let files: Vec<_> = (0..PICTURES).map(|k| jpeg(side as usize, k)).collect();
        let mut batch = Batch::default();
        let mut starts = vec![0];
        for k in 0..samples {
            let file = &files[k as usize % PICTURES];
            let taken = decoder.prepare(file).is_some_and(|it| batch.add(&it, file, k));
            assert!(taken, "our own JPEGs leave no doubt");
            starts.push(starts[k as usize] + file.len());
        }
        let n = samples as usize;
        let picture = 3 * side as usize * side as usize;
        let encoded = device(cuda, starts[n])?;
        let tables = device(cuda, batch.tables_len())?;
        let (scratch, status) = (device(cuda, batch.scratch_len())?, device(cuda, 4 * n)?);
        let pixels = device(cuda, n * picture)?;
        let memory = Memory {
            tables: tables.address(),
            scratch: scratch.address(),
            status: status.address(),
        };
        let mut host = PinnedMemory::new(cuda);
        host.reserve(starts[n] + batch.tables_len(), 0)?;
        let (all, bytes) = host.bytes_mut(starts[n] + batch.tables_len()).split_at_mut(starts[n]);
        let each = files.iter().flatten().cycle();
        all.iter_mut().zip(each).for_each(|(place, byte)| *place = *byte);
        let place = |k: usize| pixels.address() + (k * picture) as u64;
        let ends = (0..n).map(|k| [encoded.address() + starts[k] as u64, place(k)]);
        batch.write(bytes, memory, ends);
        let (cuda, parts) = (cuda.clone(), [tables, scratch, status]);
        let decode = Decode {
            cuda,
            stream,
            batch,
            memory,
            host,
            starts,
            encoded,
            pixels,
            side,
            picture,
            _parts: parts,
        };
        decode.upload()?;
        decode.stream.synchronize()?;
        Ok(decode)
    }

    /// Files and tables.
    fn upload(&self) -> Result<()> {
        let files = self.starts[self.len()];
        let (files, tables) = self.host.bytes(files + self.batch.tables_len()).split_at(files);
        // SAFETY: pinned memory that is not written any more and lives as long as the stream; both places have
        // room, and this stream alone uses them.
        unsafe {
            self.stream.upload(self.encoded.address(), files)?;
            self.stream.upload(self.memory.tables, tables)
        }
    }

    /// Pictures of a batch.
    pub(crate) fn len(&self) -> usize {
        self.batch.len()
    }

    /// The file of picture `k`.
    pub(crate) fn file(&self, k: usize) -> &[u8] {
        &self.host.bytes(self.starts[k + 1])[self.starts[k]..]
    }

    /// Each picture's file, and where its pixels go.
    pub(crate) fn items(&self) -> Vec<Item<'_>> {
        let item = |k: usize| Item {
            bytes: self.file(k),
            width: self.side,
            height: self.side,
            dest: self.pixels.address() + (k * self.picture) as u64,
        };
        (0..self.len()).map(item).collect()
    }

    /// Makes the pixels zero, so that what is not written shows.
    pub(crate) fn blank(&self) -> Result<()> {
        // SAFETY: memory of the batch, which this stream alone uses.
        unsafe { self.stream.fill(self.pixels.address(), 0, self.len() * self.picture) }?;
        self.stream.synchronize()
    }

    fn zero(&self) -> Result<()> {
        // SAFETY: memory of the batch, which this stream alone uses.
        unsafe { self.stream.fill(self.memory.scratch, 0, self.batch.zeros_len()) }
    }

    fn launch(&self, kernel: Kernel) -> Result<()> {
        let (stream, batch, memory) = (&self.stream, &self.batch, self.memory);
        // SAFETY: the arguments point into the batch's memory, which has the lengths that it asked for.
        unsafe {
            match kernel {
                Kernel::Entropy => {
                    if let Some(it) = batch.entropy(memory) {
                        stream.launch(kernel, &it.args, it.blocks, it.threads)?;
                    }
                    batch.subsequences(memory).iter().try_for_each(|it| {
                        stream.launch(Kernel::Subsequence, &it.args, it.blocks, it.threads)
                    })
                }
                Kernel::Idct => {
                    let it = batch.idct(memory);
                    stream.launch(kernel, &it.args, it.blocks, it.threads)
                }
                _ => {
                    let it = batch.colour(memory);
                    stream.launch(Kernel::Colour, &it.args, it.blocks, it.threads)
                }
            }
        }
    }

    /// From files in the host's memory to pixels on the GPU.
    pub(crate) fn whole(&self) -> Result<()> {
        self.upload()?;
        self.all()
    }

    /// From files on the GPU to pixels.
    fn all(&self) -> Result<()> {
        self.zero()?;
        [Kernel::Entropy, Kernel::Idct, Kernel::Colour].into_iter().try_for_each(|k| self.launch(k))
    }

    /// What is timed below does its work: the first pictures come out as on the CPU.
    ///
    /// # Errors
    /// When they do not.
    pub(crate) fn check(&self) -> Result<()> {
        self.all()?;
        match self.furthest()? {
            0 => Ok(()),
            _ => Err(Error::new(ErrorKind::Device, "a JPEG has other pixels than on the CPU")),
        }
    }

    /// How far the pixels of the first pictures are from the CPU's, in levels of 255, at most.
    pub(crate) fn furthest(&self) -> Result<u8> {
        let count = PICTURES.min(self.batch.len());
        let mut got = PinnedMemory::new(&self.cuda);
        got.reserve(count * self.picture, 0)?;
        // SAFETY: there is room, and the copy is waited for before it is read.
        unsafe {
            self.stream.download(got.start(), self.pixels.address(), count * self.picture)?;
        }
        self.stream.synchronize()?;
        let (mut decoder, mut pixels) = (Decoder::new(Limits::default()), Pixels::new());
        let mut furthest = 0;
        for (k, got) in got.bytes(count * self.picture).chunks(self.picture).enumerate() {
            decoder.decode(self.file(k), &mut pixels)?;
            let apart = pixels.bytes().iter().zip(got).map(|(one, other)| one.abs_diff(*other));
            furthest = furthest.max(apart.max().unwrap_or(0));
        }
        Ok(furthest)
    }

    /// Each kernel by itself, and all with the memory made zero; the bytes are those of files, coefficients,
    /// planes and pixels, each as often as it is read or written.
    pub(crate) fn measure(&self) -> Result<Vec<(&'static str, Measured)>> {
        let n = self.batch.len();
        let files = self.starts[n];
        let (coefficients, pixels) = (self.batch.zeros_len(), n * self.picture);
        let planes = self.batch.scratch_len() - coefficients;
        let measured = |bytes: usize, times: Times| Measured { bytes, times };
        let time_of = |kernel| time(&self.stream, || self.launch(kernel));
        Ok(vec![
            // Once more over the same memory gives the same coefficients.
            ("entropy", measured(files + coefficients, time_of(Kernel::Entropy)?)),
            ("idct", measured(coefficients + planes, time_of(Kernel::Idct)?)),
            ("colour", measured(planes + pixels, time_of(Kernel::Colour)?)),
            (
                "jpeg, all",
                measured(
                    files + 3 * coefficients + 2 * planes + pixels,
                    time(&self.stream, || self.all())?,
                ),
            ),
        ])
    }
}

/// A picture of quality 75 in 4:2:0, with as much detail as a photo that was made small.
fn jpeg(side: usize, number: usize) -> Vec<u8> {
    let mut pixels = Vec::with_capacity(3 * side * side);
    for (y, x) in (0..side).flat_map(|y| (0..side).map(move |x| (y, x))) {
        for c in 0..3 {
            let wave = ((x * (c + 2) + number * 9) as f32 / 7.0).sin() * 40.0
                + ((y * 3 + number * 5) as f32 / 8.0).cos() * 50.0;
            pixels.push((wave + 120.0) as u8 ^ ((x * y * (number + 1)) >> 3 & 31) as u8);
        }
    }
    let image = Image {
        pixels: &pixels[..],
        width: side,
        pitch: 3 * side,
        height: side,
        format: PixelFormat::RGB,
    };
    let mut compressor = Compressor::new().expect("memory for a compressor");
    compressor.set_quality(75).expect("a quality");
    compressor.set_subsamp(Subsamp::Sub2x2).expect("a sampling");
    compressor.compress_to_vec(image).expect("a small picture")
}
