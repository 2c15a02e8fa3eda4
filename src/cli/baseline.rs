//! What a good Rust user would write by hand for CPU augmentation, to compare with: `rayon` over
//! the files of a batch, the `image` crate to decode, one pass over the pixels per operator.
//!
//! It is meant to be fast. Scratch is kept per thread, the batch is one allocation that is used
//! again, rotate clamps no tap in rows that lie inside, and pointwise operators
//! are plain loops that the compiler vectorises. It mirrors `pipelines/cifar10-train.toml`.

use anyhow::{Context, Result, ensure};
use image::{ColorType, DynamicImage, ImageDecoder, ImageReader};
use rayon::prelude::*;
use std::cell::RefCell;
use std::fmt;
use std::fs::File;
use std::io::{Cursor, Read};
use std::path::{Path, PathBuf};
use std::time::Instant;

const MEAN: [f32; 3] = [0.4914, 0.4822, 0.4465];
const STD: [f32; 3] = [0.2023, 0.1994, 0.2010];

/// Runs `epochs` epochs over `files` with `threads` threads and returns images/s of each.
///
/// Images must be of one size, since batches are dense.
pub(crate) fn run(
    files: &[PathBuf],
    threads: usize,
    batch_size: usize,
    epochs: u32,
    seed: u64,
) -> Result<Vec<f64>> {
    let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build()?;
    let first = files.first().context("the baseline needs at least one file")?;
    let mut scratch = Scratch::default();
    let size = scratch.decode(first)?;
    let mut order: Vec<usize> = (0..files.len()).collect();
    let mut batch = vec![0.0; batch_size * 3 * size.pixels()];
    let mut rates = Vec::new();
    for epoch in 0..epochs {
        let start = Instant::now();
        let mut random = Random::new(seed, u64::from(epoch), u64::MAX);
        shuffle(&mut order, &mut random);
        for ids in order.chunks(batch_size) {
            let batch = &mut batch[..ids.len() * 3 * size.pixels()];
            pool.install(|| {
                batch.par_chunks_exact_mut(3 * size.pixels()).zip(ids).try_for_each(|(out, &id)| {
                    let random = Random::new(seed, u64::from(epoch), id as u64);
                    SCRATCH.with_borrow_mut(|s| sample(s, &files[id], size, random, out))
                })
            })?;
            std::hint::black_box(&batch);
        }
        rates.push(files.len() as f64 / start.elapsed().as_secs_f64());
    }
    Ok(rates)
}

thread_local! {
    static SCRATCH: RefCell<Scratch> = RefCell::default();
}

/// One sample from its file to its place in the batch.
fn sample(
    scratch: &mut Scratch,
    file: &Path,
    size: Size,
    random: Random,
    out: &mut [f32],
) -> Result<()> {
    let found = scratch.decode(file)?;
    ensure!(
        found == size,
        "{}: the baseline stacks images of one size; this one is {found}, the first is {size}",
        file.display(),
    );
    augment(scratch, size, random, out);
    Ok(())
}

/// Rows and columns of an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Size {
    width: usize,
    height: usize,
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}x{}", self.width, self.height)
    }
}

impl Size {
    fn pixels(self) -> usize {
        self.width * self.height
    }
}

/// Buffers of one thread: the file, its pixels, and a second image for operators that need one.
#[derive(Default)]
struct Scratch {
    file: Vec<u8>,
    pixels: Vec<u8>,
    other: Vec<u8>,
}

impl Scratch {
    /// Reads and decodes `path` to RGB.
    fn decode(&mut self, path: &Path) -> Result<Size> {
        self.file.clear();
        let place = || path.display().to_string();
        File::open(path).and_then(|mut f| f.read_to_end(&mut self.file)).with_context(place)?;
        let reader = ImageReader::new(Cursor::new(&self.file)).with_guessed_format()?;
        let decoder = reader.into_decoder().with_context(place)?;
        let (width, height) = decoder.dimensions();
        if decoder.color_type() == ColorType::Rgb8 {
            self.pixels.resize(usize::try_from(decoder.total_bytes())?, 0);
            decoder.read_image(&mut self.pixels).with_context(place)?;
        } else {
            let image = DynamicImage::from_decoder(decoder).with_context(place)?;
            self.pixels = image.into_rgb8().into_raw();
        }
        Ok(Size { width: width as usize, height: height as usize })
    }
}

/// The course's operators, each for half of the samples, then normalize into `out` (CHW).
fn augment(scratch: &mut Scratch, size: Size, mut random: Random, out: &mut [f32]) {
    if random.coin() {
        scratch.other.resize(scratch.pixels.len(), 0);
        rotate(&scratch.pixels, size, random.uniform(-15.0, 15.0), &mut scratch.other);
        std::mem::swap(&mut scratch.pixels, &mut scratch.other);
    }
    if random.coin() {
        let shift = [(); 3].map(|()| random.uniform(-15.0, 15.0));
        rgb_shift(&mut scratch.pixels, shift);
    }
    if random.coin() {
        let (brightness, contrast) = (random.uniform(0.95, 1.05), random.uniform(0.95, 1.05));
        brightness_contrast(&mut scratch.pixels, brightness, contrast);
    }
    normalize(&scratch.pixels, out);
}

/// Turns by `degrees`, counter-clockwise, about the centre; linear, edges repeated.
fn rotate(source: &[u8], size: Size, degrees: f32, out: &mut [u8]) {
    let (sin, cos) = degrees.to_radians().sin_cos();
    let (centre_x, centre_y) = (size.width as f32 / 2.0, size.height as f32 / 2.0);
    let (last_x, last_y) = (size.width as i32 - 1, size.height as i32 - 1);
    let stride = 3 * size.width;
    for (y, row) in out.chunks_exact_mut(3 * size.width).enumerate() {
        let dy = y as f32 + 0.5 - centre_y;
        let place = |x: usize| {
            let dx = x as f32 + 0.5 - centre_x;
            let source_x = cos * dx - sin * dy + centre_x - 0.5;
            (source_x, sin * dx + cos * dy + centre_y - 0.5)
        };
        // Places of a row lie on a line: where both ends are inside, all are.
        let inside = [place(0), place(size.width - 1)]
            .iter()
            .all(|&(x, y)| x >= 0.0 && y >= 0.0 && x < last_x as f32 && y < last_y as f32);
        for (x, pixel) in row.as_chunks_mut::<3>().0.iter_mut().enumerate() {
            let (source_x, source_y) = place(x);
            if inside {
                // Towards zero is the floor of what is not negative.
                let (x0, y0) = (source_x as usize, source_y as usize);
                let (right, down) = (source_x - x0 as f32, source_y - y0 as f32);
                let at = y0 * stride + x0 * 3;
                *pixel = blend(source, [at, at + 3, at + stride, at + stride + 3], right, down);
                continue;
            }
            let (floor_x, floor_y) = (source_x.floor(), source_y.floor());
            let column = |x: i32| x.clamp(0, last_x) as usize * 3;
            let line = |y: i32| y.clamp(0, last_y) as usize * stride;
            let (x0, x1) = (column(floor_x as i32), column(floor_x as i32 + 1));
            let (y0, y1) = (line(floor_y as i32), line(floor_y as i32 + 1));
            let taps = [y0 + x0, y0 + x1, y1 + x0, y1 + x1];
            *pixel = blend(source, taps, source_x - floor_x, source_y - floor_y);
        }
    }
}

/// The pixel between four taps, given by where they start.
fn blend(source: &[u8], taps: [usize; 4], right: f32, down: f32) -> [u8; 3] {
    let taps = taps.map(|at| {
        let [r, g, b] = *source[at..].first_chunk().expect("a tap is a whole pixel");
        [f32::from(r), f32::from(g), f32::from(b)]
    });
    [0, 1, 2].map(|c| {
        let upper = taps[0][c] + (taps[1][c] - taps[0][c]) * right;
        let lower = taps[2][c] + (taps[3][c] - taps[2][c]) * right;
        (upper + (lower - upper) * down + 0.5) as u8
    })
}

/// Adds a value to each channel.
fn rgb_shift(pixels: &mut [u8], shift: [f32; 3]) {
    for pixel in pixels.as_chunks_mut::<3>().0 {
        for (value, shift) in pixel.iter_mut().zip(shift) {
            *value = (f32::from(*value) + shift + 0.5) as u8;
        }
    }
}

/// Scales by `brightness` and, about the middle gray, by `contrast`.
fn brightness_contrast(pixels: &mut [u8], brightness: f32, contrast: f32) {
    let (scale, offset) = (brightness * contrast, brightness * (128.0 - contrast * 128.0));
    for value in pixels {
        *value = (f32::from(*value) * scale + offset + 0.5) as u8;
    }
}

/// `(x / 255 - mean) / std`, from interleaved bytes to planes.
fn normalize(pixels: &[u8], out: &mut [f32]) {
    let scale = STD.map(|std| 1.0 / (255.0 * std));
    let offset = [0, 1, 2].map(|c| -MEAN[c] / STD[c]);
    for (c, plane) in out.chunks_exact_mut(pixels.len() / 3).enumerate() {
        for (value, pixel) in plane.iter_mut().zip(pixels.as_chunks::<3>().0) {
            *value = f32::from(pixel[c]) * scale[c] + offset[c];
        }
    }
}

/// SplitMix64: fast, and good enough for augmentation.
struct Random(u64);

impl Random {
    fn new(seed: u64, epoch: u64, sample: u64) -> Self {
        let mut random = Random(seed);
        random.0 = random.next() ^ epoch;
        random.0 = random.next() ^ sample;
        random
    }

    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    fn coin(&mut self) -> bool {
        self.next() & 1 == 1
    }

    fn uniform(&mut self, low: f32, high: f32) -> f32 {
        low + (high - low) * (self.next() >> 40) as f32 / (1 << 24) as f32
    }
}

fn shuffle(order: &mut [usize], random: &mut Random) {
    for last in (1..order.len()).rev() {
        order.swap(last, (random.next() % (last as u64 + 1)) as usize);
    }
}
