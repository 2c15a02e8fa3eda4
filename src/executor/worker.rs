//! One sample, from its file to its place in the batch, on one thread.

use super::cache::Cache;
use super::fill::Seat;
use super::gpu::Source;
use super::near::Approach;
use super::program::Scratch;
use super::ring::Size;
use super::{Decoding, Shared, Tally};
use crate::decoder::gpu::Prepared;
use crate::decoder::{Decoder, Frame, Info, Picture, Pixels, Reason, Route, Rule};
use crate::error::{Error, ErrorKind, Result};
use crate::reader::Content;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, OnceLock};
use std::time::Instant;

/// What a thread keeps from sample to sample, so that a sample allocates nothing of
/// our own (libjpeg takes and frees a pool for each image).
pub(super) struct Worker {
    thread: usize,
    input: Input,
    scratch: Scratch,
    lap: Lap,
}

/// The part that brings a sample's image.
#[derive(Default)]
struct Input {
    /// Made at the first encoded image: sources of raw pixels need none.
    decoder: Option<Decoder>,
    file: Vec<u8>,
    pixels: Pixels,
}

/// A sample's image before any step.
enum Image<'a> {
    Pixels(Picture<'a>),
    /// What the sample reads of it, which it is resolved for.
    Window(Picture<'a>),
    /// A file for nvJPEG.
    Encoded(&'a [u8], Frame),
    /// A file for our own kernels on a GPU.
    Own(&'a [u8], Arc<Prepared>),
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
    /// That of a thread, by the thread's index.
    pub(super) fn new(thread: usize) -> Self {
        let (input, scratch) = Default::default();
        Worker { thread, input, scratch, lap: Lap::begin() }
    }

    /// Forgets what it kept.
    pub(super) fn renew(&mut self) {
        *self = Worker::new(self.thread);
    }

    /// From now on time counts as that of the next sample.
    pub(super) fn begin(&mut self) {
        self.lap = Lap::begin();
    }

    /// Reads, decodes, resolves and augments the sample of `key` straight into `seat`, and leaves
    /// the size of each image in `sizes`, where that is to be known. Where the batch goes to a GPU the
    /// sample is put where the upload finds it, and `source` told. Between all this it has `soon` come.
    pub(super) fn sample(
        &mut self,
        shared: &Shared,
        key: Key,
        seat: &mut Seat<'_>,
        sizes: &[AtomicU64],
        source: Option<&OnceLock<Source>>,
        mut soon: Approach<'_>,
    ) -> Result<Fit> {
        let tally = &shared.counters[self.thread].0;
        let counters = &tally.stages;
        let engine = shared.submit.as_ref().map(|submit| &submit.engine);

        let Worker { input, scratch, lap, .. } = self;
        soon.step();
        let (image, info) = input.bring(shared, scratch, tally, lap, key)?;
        if !info.warnings.is_empty() {
            add(&counters.warnings, info.warnings.len() as u64);
        }
        let (width, height) = match &image {
            Image::Pixels(pixels) | Image::Window(pixels) => (pixels.width(), pixels.height()),
            Image::Encoded(_, frame) => frame.upright_size(),
            Image::Own(_, prepared) => prepared.upright_size(),
        };
        let program = &shared.program;
        // A GPU resolves for itself: the host needs the sizes alone, to lay out memory.
        let known = engine.is_some() && program.knows_sizes(scratch, width, height);
        if !known && !matches!(image, Image::Window(_)) {
            program.resolve(scratch, key.seed, key.epoch, key.id, width, height)?;
        }
        soon.step();
        let image_size = |image: usize| {
            let (height, width) = program.image_size(scratch, image);
            Size { height, width }
        };
        let leave_sizes = || {
            let cells = sizes.iter().enumerate();
            cells.for_each(|(image, cell)| cell.store(image_size(image).pack(), Relaxed));
        };
        if engine.is_some() {
            leave_sizes();
        }
        let outputs = program.plan().outputs();
        let size = |output: usize| image_size(outputs[output].image);
        if !seat.is_for(size) {
            // Every sample of another size is checked, so that which one fails does not depend on who came
            // first.
            if let Err(error) = shared.check_memory(seat.seats(), size) {
                return Ok(Fit::NoRoom(error));
            }
            match seat.agrees(size, engine) {
                Ok(true) => {}
                Ok(false) => {
                    leave_sizes();
                    return Ok(Fit::OtherSize);
                }
                Err(error) => return Ok(Fit::NoRoom(error)),
            }
        }
        match (source, image) {
            (None, Image::Pixels(pixels) | Image::Window(pixels)) => {
                program.run(scratch, pixels, seat.lend().slices())?;
            }
            (None, Image::Encoded(..) | Image::Own(..)) => {
                unreachable!("only a GPU gets images to decode")
            }
            (Some(source), image) => {
                let stage = seat.stage();
                if let Err(error) = shared.check_staging(stage) {
                    return Ok(Fit::NoRoom(error));
                }
                let staged = match image {
                    Image::Encoded(file, frame) => Source::Encoded(stage.encoded.put(file), frame),
                    Image::Own(file, prepared) => Source::Own(stage.pixels.put(file), prepared),
                    Image::Pixels(pixels) | Image::Window(pixels) => {
                        Source::Pixels(stage.pixels.put(pixels.bytes()))
                    }
                };
                source.set(staged).expect("a sample is made once");
            }
        }
        while soon.step() {}
        lap.end(&counters.augment_ns);
        add(&counters.samples, 1);
        Ok(Fit::Filled(info))
    }
}

impl Input {
    /// The image of the sample of `key`, from the cache or from its file, and what its decoder had to
    /// say. What a sample reads of its file is decoded alone, unless the image is kept or a GPU, which
    /// resolves for itself, gets it.
    ///
    /// A sample that is kept costs no look at the clock: what it takes to find it is less.
    fn bring<'a>(
        &'a mut self,
        shared: &'a Shared,
        scratch: &mut Scratch,
        tally: &Tally,
        lap: &mut Lap,
        key: Key,
    ) -> Result<(Image<'a>, Info)> {
        let Input { decoder, file, pixels } = self;
        let Key { seed, epoch, id } = key;
        let cache = shared.cache.as_ref();
        if let Some(kept) = cache.and_then(|cache| cache.decoded(id)) {
            add(&tally.hits, 1);
            return Ok((Image::Pixels(kept.picture()), kept.info()));
        }
        let (bytes, content): (&[u8], _) = match cache.and_then(|cache| cache.encoded(id)) {
            Some(kept) => {
                add(&tally.hits, 1);
                (&kept.bytes, kept.content)
            }
            None => {
                let content = shared.reader.read(id, file)?;
                if let Some(cache) = cache {
                    add(&tally.misses, 1);
                    cache.keep_encoded(id, file, content);
                }
                (file, content)
            }
        };
        lap.end(&tally.stages.read_ns);

        let mut info = Info::default();
        match content {
            Content::Encoded => {
                let engine = shared.submit.as_ref().map(|submit| &submit.engine);
                let decoder = decoder.get_or_insert_with(|| {
                    let Decoding { limits, own } = shared.decoding;
                    Decoder::with(limits, own)
                });
                let kept = cache.is_some_and(Cache::keeps_decoded);
                let route = engine.map_or(Route::Cpu(Reason::NoGpu), |engine| {
                    // What is kept is decoded once, for which it has to come by here.
                    let rule = engine.rule();
                    decoder.route(bytes, &Rule { own: rule.own && !kept, ..*rule })
                });
                match route {
                    Route::Own(prepared) => {
                        lap.end(&tally.stages.decode_ns);
                        return Ok((Image::Own(bytes, prepared), info));
                    }
                    Route::Nvjpeg(frame) => {
                        lap.end(&tally.stages.decode_ns);
                        return Ok((Image::Encoded(bytes, frame), info));
                    }
                    Route::Cpu(reason) => {
                        add(&tally.reasons[reason as usize], 1);
                        let on_gpu = engine.is_some();
                        let whole = on_gpu || kept;
                        match whole.then(|| decoder.decode(bytes, pixels)) {
                            Some(Ok(found)) => {
                                add(&tally.lanes[decoder.lane().index()], 1);
                                info = found;
                            }
                            Some(Err(error)) if on_gpu || error.kind() != ErrorKind::Decode => {
                                return Err(error);
                            }
                            // Damage that a sample does not read is no fault of it, cache or not.
                            Some(Err(_)) | None => {
                                let program = &shared.program;
                                let window = |width, height, scales| {
                                    program.resolve(scratch, seed, epoch, id, width, height)?;
                                    Ok(program.narrow(scratch, scales))
                                };
                                let info = decoder.decode_region(bytes, window, pixels)?;
                                add(&tally.lanes[decoder.lane().index()], 1);
                                lap.end(&tally.stages.decode_ns);
                                return Ok((Image::Window(pixels.picture()), info));
                            }
                        }
                    }
                }
            }
            Content::Planar { height, width } => interleave(bytes, height, width, pixels)?,
        }
        if let Some(cache) = cache {
            cache.keep_decoded(id, pixels, &info);
        }
        lap.end(&tally.stages.decode_ns);
        Ok((Image::Pixels(pixels.picture()), info))
    }
}

/// A stopwatch that adds each lap to a counter.
struct Lap(Instant);

impl Lap {
    fn begin() -> Self {
        Lap(Instant::now())
    }

    fn end(&mut self, counter: &AtomicU64) {
        let now = Instant::now();
        add(counter, (now - self.0).as_nanos() as u64);
        self.0 = now;
    }
}

/// Adds to a counter that this thread alone changes, which costs less than where others might.
fn add(counter: &AtomicU64, amount: u64) {
    counter.store(counter.load(Relaxed) + amount, Relaxed);
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
