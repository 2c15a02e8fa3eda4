//! Small JPEGs in a GPU's memory, decoded by our own kernels as the executor does.
#![allow(unsafe_code)]

use crate::clock::{Times, time};
use crate::kernels::{Measured, device, upload};
use forebay::decoder::gpu::{Batch, Memory};
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
    stream: Stream,
    batch: Batch,
    memory: Memory,
    files: Vec<Vec<u8>>,
    pixels: DeviceMemory,
    /// Bytes of a picture.
    picture: usize,
    /// What `memory` points into, and the files.
    _parts: [DeviceMemory; 4],
}

impl Decode {
    /// Fills the memory of a batch. Needs the context.
    pub(crate) fn new(cuda: &Arc<Cuda>, side: u32, samples: u32) -> Result<Decode> {
        let stream = Stream::new(cuda)?;
        let mut decoder = Decoder::new(Limits::default());
        let files: Vec<_> = (0..PICTURES).map(|k| jpeg(side as usize, k)).collect();
        let mut batch = Batch::default();
        let mut offsets = vec![0];
        for k in 0..samples {
            let file = &files[k as usize % PICTURES];
            let taken = decoder.prepare(file).is_some_and(|it| batch.add(&it, file, k));
            assert!(taken, "our own JPEGs leave no doubt");
            offsets.push(offsets[k as usize] + file.len() as u64);
        }
        let n = samples as usize;
        let picture = 3 * side as usize * side as usize;
        let encoded = device(cuda, offsets[n] as usize)?;
        let all = files.iter().flatten().copied().cycle().take(offsets[n] as usize);
        upload(cuda, &stream, encoded.address(), all)?;
        let tables = device(cuda, batch.tables_len())?;
        let (scratch, status) = (device(cuda, batch.scratch_len())?, device(cuda, 4 * n)?);
        let pixels = device(cuda, n * picture)?;
        let memory = Memory {
            tables: tables.address(),
            scratch: scratch.address(),
            status: status.address(),
        };
        let mut bytes = vec![0; batch.tables_len()];
        let place = |k: usize| pixels.address() + (k * picture) as u64;
        let ends = (0..n).map(|k| [encoded.address() + offsets[k], place(k)]);
        batch.write(&mut bytes, memory, ends);
        upload(cuda, &stream, tables.address(), bytes.into_iter())?;
        let parts = [encoded, tables, scratch, status];
        let cuda = cuda.clone();
        Ok(Decode { cuda, stream, batch, memory, files, pixels, picture, _parts: parts })
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

    /// From files to pixels.
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
        let count = PICTURES.min(self.batch.len());
        let mut got = PinnedMemory::new(&self.cuda);
        got.reserve(count * self.picture, 0)?;
        // SAFETY: there is room, and the copy is waited for before it is read.
        unsafe {
            self.stream.download(got.start(), self.pixels.address(), count * self.picture)?;
        }
        self.stream.synchronize()?;
        let (mut decoder, mut pixels) = (Decoder::new(Limits::default()), Pixels::new());
        for (file, got) in
            self.files.iter().zip(got.bytes(count * self.picture).chunks(self.picture))
        {
            decoder.decode(file, &mut pixels)?;
            if pixels.bytes() != got {
                let text = "a JPEG has other pixels than on the CPU";
                return Err(Error::new(ErrorKind::Device, text));
            }
        }
        Ok(())
    }

    /// Each kernel by itself, and all with the memory made zero; the bytes are those of files, coefficients,
    /// planes and pixels, each as often as it is read or written.
    pub(crate) fn measure(&self) -> Result<Vec<(&'static str, Measured)>> {
        let n = self.batch.len();
        let files = self.files.iter().map(Vec::len).sum::<usize>() * n / PICTURES;
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
