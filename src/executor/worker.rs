//! One sample, from its file to its place in the batch, on one thread.

use super::Shared;
use super::fill::Seat;
use super::program::Scratch;
use super::ring::Size;
use crate::decoder::{Decoder, Pixels};
use crate::error::{Error, ErrorKind, Result};
use crate::reader::Content;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::Instant;

/// What a thread keeps from sample to sample, so that a sample allocates nothing of
/// our own (libjpeg takes and frees a pool for each image).
#[derive(Default)]
pub(super) struct Worker {
    /// Made at the first encoded image: sources of raw pixels need none.
    decoder: Option<Decoder>,
    file: Vec<u8>,
    pixels: Pixels,
    scratch: Scratch,
}

/// What a sample's bytes depend on.
#[derive(Debug, Clone, Copy)]
pub(super) struct Key {
    pub(super) seed: u64,
    pub(super) epoch: u32,
    pub(super) id: u64,
}

/// How a sample that did not fail ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Fit {
    /// Its place is filled.
    Filled,
    /// Its outputs have another size than those of the samples that came first.
    OtherSize,
}

impl Worker {
    /// Reads, decodes, resolves and augments the sample of `key` straight into `seat`, and leaves
    /// the size of each output in `sizes`. `thread` is this thread's index.
    pub(super) fn sample(
        &mut self,
        shared: &Shared,
        thread: usize,
        key: Key,
        seat: &mut Seat<'_>,
        sizes: &[AtomicU64],
    ) -> Result<Fit> {
        let counters = &shared.counters[thread].0;
        let mut lap = Lap(Instant::now());

        let content = shared.reader.read(key.id, &mut self.file)?;
        lap.end(&counters.read_ns);

        match content {
            Content::Encoded => {
                let decoder = self.decoder.get_or_insert_with(|| Decoder::new(shared.limits));
                let info = decoder.decode(&self.file, &mut self.pixels)?;
                if !info.warnings.is_empty() {
                    counters.warnings.fetch_add(info.warnings.len() as u64, Relaxed);
                }
            }
            Content::Planar { height, width } => {
                interleave(&self.file, height, width, &mut self.pixels)?;
            }
        }
        lap.end(&counters.decode_ns);

        let (width, height) = (self.pixels.width(), self.pixels.height());
        let program = &shared.program;
        program.resolve(&mut self.scratch, key.seed, key.epoch, key.id, width, height)?;
        for (output, cell) in sizes.iter().enumerate() {
            let (height, width) = program.output_size(&self.scratch, output);
            cell.store(Size { height, width }.pack(), Relaxed);
        }
        let size = |output: usize| Size::unpack(sizes[output].load(Relaxed));
        // Every sample is checked, so that which one fails does not depend on who came first.
        shared.check_memory(seat.seats(), size)?;
        let Some(mut places) = seat.lend(size) else { return Ok(Fit::OtherSize) };
        program.run(&mut self.scratch, &self.pixels, places.slices());
        lap.end(&counters.augment_ns);
        counters.samples.fetch_add(1, Relaxed);
        Ok(Fit::Filled)
    }
}

/// A stopwatch that adds each lap to a counter.
struct Lap(Instant);

impl Lap {
    fn end(&mut self, counter: &AtomicU64) {
        let now = Instant::now();
        counter.fetch_add((now - self.0).as_nanos() as u64, Relaxed);
        self.0 = now;
    }
}

/// Three planes R, G, B to RGB pixels.
fn interleave(planes: &[u8], height: u32, width: u32, out: &mut Pixels) -> Result<()> {
    let size = Size { height, width };
    if size.bytes(1, 1) != Some(planes.len()) {
        let message = format!("{} bytes are not three planes of {width}x{height}", planes.len());
        return Err(Error::new(ErrorKind::Data, message));
    }
    let (red, rest) = planes.split_at(planes.len() / 3);
    let (green, blue) = rest.split_at(rest.len() / 2);
    let pixels = out.reset(width, height).chunks_exact_mut(3);
    for (((pixel, &r), &g), &b) in pixels.zip(red).zip(green).zip(blue) {
        pixel.copy_from_slice(&[r, g, b]);
    }
    Ok(())
}
