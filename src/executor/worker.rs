//! One sample, from its file to its place in the batch, on one thread.

use super::Shared;
use super::fill::Seat;
use super::gpu::Source;
use super::program::Scratch;
use super::ring::Size;
use crate::decoder::{Decoder, Frame, Info, Pixels, Reason, Route, route};
use crate::error::{Error, ErrorKind, Result};
use crate::reader::Content;
use crate::stats::Counters;
use std::sync::OnceLock;
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
#[derive(Debug)]
pub(super) enum Fit {
    /// Its place is filled. What its decoder had to say comes with it.
    Filled(Info),
    /// Its outputs have another size than those of the samples that came first.
    OtherSize,
    /// There is no room for the batch, which is no fault of the sample.
    NoRoom(Error),
}

impl Worker {
    /// Reads, decodes, resolves and augments the sample of `key` straight into `seat`, and leaves
    /// the size of each image in `sizes`. `thread` is this thread's index. Where the batch goes to a
    /// GPU the sample is put where the upload finds it, and `source` told.
    pub(super) fn sample(
        &mut self,
        shared: &Shared,
        thread: usize,
        key: Key,
        seat: &mut Seat<'_>,
        sizes: &[AtomicU64],
        source: Option<&OnceLock<Source>>,
    ) -> Result<Fit> {
        let tally = &shared.counters[thread].0;
        let counters = &tally.stages;
        let engine = shared.submit.as_ref().map(|submit| &submit.engine);
        let mut lap = Lap(Instant::now());

        let content = shared.reader.read(key.id, &mut self.file)?;
        lap.end(&counters.read_ns);

        let mut frame: Option<Frame> = None;
        let mut info = Info::default();
        let mut resolved = false;
        match content {
            Content::Encoded => {
                let way = engine
                    .map_or(Route::Cpu(Reason::NoGpu), |engine| route(&self.file, engine.rule()));
                match way {
                    Route::Nvjpeg(found) => frame = Some(found),
                    Route::Cpu(reason) => {
                        tally.reasons[reason as usize].fetch_add(1, Relaxed);
                        // A GPU resolves for itself, over the whole image.
                        resolved = engine.is_none();
                        info = self.decode(shared, resolved.then_some(key), counters)?;
                    }
                }
            }
            Content::Planar { height, width } => {
                interleave(&self.file, height, width, &mut self.pixels)?;
            }
        }
        lap.end(&counters.decode_ns);

        let (width, height) = match &frame {
            Some(frame) => frame.upright_size(),
            None => (self.pixels.width(), self.pixels.height()),
        };
        let program = &shared.program;
        // A GPU resolves for itself: the host needs the sizes alone, to lay out memory.
        let known = || engine.is_some() && program.knows_sizes(&self.scratch, width, height);
        if !resolved && !known() {
            program.resolve(&mut self.scratch, key.seed, key.epoch, key.id, width, height)?;
        }
        for (image, cell) in sizes.iter().enumerate() {
            let (height, width) = program.image_size(&self.scratch, image);
            cell.store(Size { height, width }.pack(), Relaxed);
        }
        let outputs = program.plan().outputs();
        let size = |output: usize| Size::unpack(sizes[outputs[output].image].load(Relaxed));
        // Every sample is checked, so that which one fails does not depend on who came first.
        if let Err(error) = shared.check_memory(seat.seats(), size) {
            return Ok(Fit::NoRoom(error));
        }
        match seat.agrees(size, engine) {
            Ok(true) => {}
            Ok(false) => return Ok(Fit::OtherSize),
            Err(error) => return Ok(Fit::NoRoom(error)),
        }
        match source {
            None => program.run(&mut self.scratch, &self.pixels, seat.lend().slices())?,
            Some(source) => {
                let stage = seat.stage();
                if let Err(error) = shared.check_staging(stage) {
                    return Ok(Fit::NoRoom(error));
                }
                let staged = match frame {
                    Some(frame) => Source::Encoded(stage.encoded.put(&self.file), frame),
                    None => Source::Pixels(stage.pixels.put(self.pixels.bytes())),
                };
                source.set(staged).expect("a sample is made once");
            }
        }
        lap.end(&counters.augment_ns);
        counters.samples.fetch_add(1, Relaxed);
        Ok(Fit::Filled(info))
    }

    /// Decodes the file; for the sample of `key`, what it reads of it, which it is resolved for.
    fn decode(&mut self, shared: &Shared, key: Option<Key>, counters: &Counters) -> Result<Info> {
        let Worker { decoder, file, pixels, scratch } = self;
        let decoder = decoder.get_or_insert_with(|| Decoder::new(shared.limits));
        let program = &shared.program;
        let info = match key {
            None => decoder.decode(file, pixels)?,
            Some(Key { seed, epoch, id }) => decoder.decode_region(
                file,
                |width, height, scales| {
                    program.resolve(scratch, seed, epoch, id, width, height)?;
                    Ok(program.narrow(scratch, scales))
                },
                pixels,
            )?,
        };
        if !info.warnings.is_empty() {
            counters.warnings.fetch_add(info.warnings.len() as u64, Relaxed);
        }
        Ok(info)
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
    let pixels = out.reset(width, height)?.chunks_exact_mut(3);
    for (((pixel, &r), &g), &b) in pixels.zip(red).zip(green).zip(blue) {
        pixel.copy_from_slice(&[r, g, b]);
    }
    Ok(())
}
