//! What the device thread puts on the GPU for a batch, in order.
#![allow(unsafe_code)]

use super::lay_out::{LaidOut, OnGpu, bytes_of, lay_out};
use super::passes::{PIXEL_THREADS, blocks_of, chunks, run_passes};
use super::slot::DeviceSlot;
use super::tables::Layout;
use super::thread::guarded;
use super::{Engine, Source, UNWRITTEN};
use crate::decoder::nvjpeg::{Item, Nvjpeg, Outcome};
use crate::decoder::{Decoder, Pixels};
use crate::device::Kernel;
use crate::error::{Error, ErrorKind, Result};
use crate::executor::job::Job;
use crate::executor::ring::{Lease, Size};
use crate::graph::program::{Decoded, SettleArgs};
use crate::policy::OnError;
use std::sync::Arc;

/// A batch that is on its way up, and whose images are then decoded.
pub(super) struct Flight {
    job: Arc<Job>,
    lease: Lease,
    laid_out: LaidOut,
}

impl Flight {
    /// Whether some image of it is decoded on the GPU.
    pub(super) fn has_images(&self) -> bool {
        !self.laid_out.images.is_empty()
    }
}

/// What the device thread keeps.
pub(super) struct Submitter {
    engine: Arc<Engine>,
    nvjpeg: Option<Nvjpeg>,
    outcomes: Vec<Outcome>,
    /// For images that fail on the GPU.
    decoder: Decoder,
    pixels: Pixels,
}

impl Submitter {
    /// Needs the context for as long as it lives.
    pub(super) fn new(engine: Arc<Engine>, nvjpeg: Option<Nvjpeg>) -> Self {
        let decoder = Decoder::new(engine.limits);
        Submitter { engine, nvjpeg, outcomes: Vec::new(), decoder, pixels: Pixels::new() }
    }

    /// Uploads a batch. `None` where that failed, which the job was told, or where nobody wants the
    /// batch any more.
    pub(super) fn begin(&mut self, job: Arc<Job>, mut lease: Lease) -> Option<Flight> {
        if job.gone() {
            return None;
        }
        match guarded(|| upload(&self.engine, &job, &mut lease)) {
            Ok(laid_out) => Some(Flight { job, lease, laid_out }),
            Err(error) => {
                self.fail(&job, lease, error);
                None
            }
        }
    }

    /// Has the images of a batch decoded. nvJPEG has none of another batch under way: what it keeps for
    /// a batch may be in use until that is done.
    pub(super) fn decode(&mut self, mut flight: Flight) -> Option<Flight> {
        match guarded(|| self.submit_images(&mut flight)) {
            Ok(()) => Some(flight),
            Err(error) => {
                self.fail(&flight.job, flight.lease, error);
                None
            }
        }
    }

    /// Runs the kernels and hands the batch over.
    pub(super) fn finish(&mut self, mut flight: Flight) {
        match guarded(|| self.run(&mut flight)) {
            Ok(bad) if bad.is_empty() => flight.job.finish(Ok(flight.lease)),
            Ok(bad) => {
                let Flight { job, mut lease, .. } = flight;
                self.quieten(&mut lease);
                job.again(lease, job.shared().device_thread(), bad, job.on_error());
            }
            Err(error) => self.fail(&flight.job, flight.lease, error),
        }
    }

    /// The slot goes back when nothing that was put on the GPU for it is under way.
    fn fail(&mut self, job: &Job, mut lease: Lease, error: Error) {
        self.quieten(&mut lease);
        drop(lease);
        job.finish(Err(error));
    }

    /// Waits for all that was put on the GPU for a slot; where that fails the slot's memory is given up.
    fn quieten(&mut self, lease: &mut Lease) {
        let Engine { upload, decoding, compute, .. } = &*self.engine;
        let quiet = [upload, decoding, compute].map(|stream| stream.synchronize());
        if quiet.iter().any(Result::is_err) {
            lease.leak();
        } else if let Some(slot) = &mut lease.device {
            slot.flying = None;
            slot.blank = false;
        }
    }

    /// Gives nvJPEG its images.
    fn submit_to_nvjpeg(&mut self, job: &Job, slot: &mut DeviceSlot, images: &mut [OnGpu]) {
        let encoded = slot.encoded.bytes(job.stage().encoded.used());
        let item = |image: &OnGpu| {
            let Source::Encoded(piece, _) = job.source(image.position) else { unreachable!() };
            let bytes = &encoded[piece.offset..][..piece.len];
            let Size { height, width } = image.stored;
            Item { bytes, width, height, dest: image.from }
        };
        let items: Vec<_> = images.iter().filter(|image| !image.own).map(item).collect();
        if items.is_empty() {
            return;
        }
        let nvjpeg = self.nvjpeg.as_mut().expect("images were routed to it");
        let stream = &self.engine.decoding;
        // SAFETY: each place is the image's own part of the slot's memory, whose last readers are
        // done; the encoded bytes stay until `ready` has happened.
        unsafe { nvjpeg.decode(&items, stream.raw(), &mut self.outcomes) };
        for (image, outcome) in images.iter_mut().filter(|image| !image.own).zip(&self.outcomes) {
            match outcome {
                Outcome::Hardware => self.engine.count(|counts| &counts.hardware, 1),
                Outcome::Single => self.engine.count(|counts| &counts.single, 1),
                Outcome::Failed(error) => {
                    self.engine.tell_failure(error);
                    image.failed = true;
                }
            }
        }
    }

    /// Has our own kernels decode their images. The stream has waited for the upload.
    fn submit_to_own(&self, slot: &DeviceSlot, laid_out: &LaidOut) -> Result<()> {
        let (stream, own) = (&self.engine.decoding, &laid_out.own);
        if own.is_empty() {
            return Ok(());
        }
        self.engine.count(|counts| &counts.own, own.len() as u64);
        let memory = laid_out.own_memory(slot);
        let (idct, colour) = (own.idct(memory), own.colour(memory));
        // SAFETY: the tables were made for this memory, which has the lengths that the batch asked for and
        // is the slot's own, with no other work on it under way; files were uploaded, and each image's
        // place has room for it.
        unsafe {
            stream.fill(memory.scratch, 0, own.zeros_len())?;
            if let Some(entropy) = own.entropy(memory) {
                stream.launch(Kernel::Entropy, &entropy.args, entropy.blocks, entropy.threads)?;
            }
            for step in own.subsequences(memory) {
                stream.launch(Kernel::Subsequence, &step.args, step.blocks, step.threads)?;
            }
            stream.launch(Kernel::Idct, &idct.args, idct.blocks, idct.threads)?;
            stream.launch(Kernel::Colour, &colour.args, colour.blocks, colour.threads)
        }
    }

    /// Has images decoded, and `settle` look at what was left of them.
    fn submit_images(&mut self, flight: &mut Flight) -> Result<()> {
        let Flight { job, lease, laid_out } = flight;
        let slot = lease.device.as_deref_mut().expect("laid out");
        slot.blank = false;
        self.submit_to_nvjpeg(job, slot, &mut laid_out.images);
        let stream = &self.engine.decoding;
        stream.wait(&slot.uploaded)?;
        self.submit_to_own(slot, laid_out)?;
        let LaidOut { tables, images, .. } = laid_out;
        let base = slot.device_tables.address();
        let (entries, checks) = (base + tables.decoded as u64, base + tables.checks as u64);
        // Upright images are only looked at, which takes one block.
        let blocks = |image: &OnGpu| if image.turn == 1 { 1 } else { blocks_of(image.size) };
        let tiles = images.iter().map(blocks).max().unwrap_or(1);
        for (first, count) in chunks(images.len(), tiles) {
            let args = SettleArgs {
                decoded: entries + (first * size_of::<Decoded>()) as u64,
                status: checks,
                n: count,
                tiles,
                pattern: UNWRITTEN,
                unused: 0,
            };
            // SAFETY: the tables were uploaded, which the stream waits for; every place in them is
            // as large as the size beside it.
            unsafe { stream.launch(Kernel::Settle, &args, count * tiles, PIXEL_THREADS) }?;
        }
        // SAFETY: there is room for two words a sample, which are read after `settled`.
        unsafe { stream.download(slot.words.start(), checks, job.len() * 4) }?;
        stream.record(&slot.settled)
    }

    /// Waits for the images and decodes on the CPU what failed or left doubt, once each. Gives the samples
    /// that are bad there, too, and what is wrong with them, unless the first of them is to end the batch.
    fn retry(
        &mut self,
        job: &Job,
        slot: &mut DeviceSlot,
        images: &mut [OnGpu],
    ) -> Result<Vec<(u64, Error)>> {
        slot.settled.synchronize()?;
        let words: &[u32] = bytemuck::cast_slice(slot.words.bytes(job.len() * 4));
        images.iter_mut().for_each(|image| image.failed |= words[image.position] != 0);
        let failed = || images.iter().filter(|image| image.failed);
        let mut layout = Layout::default();
        for image in failed() {
            layout.place(bytes_of(image.size, 1, 1)?);
        }
        let grew = slot.retried.reserve(layout.len(), 0)?;
        self.engine.count(|counts| &counts.grown, u64::from(grew));
        let mut layout = Layout::default();
        let mut bad = Vec::new();
        for image in failed() {
            self.engine.count(|it| if image.own { &it.doubted } else { &it.retried }, 1);
            let encoded = match job.source(image.position) {
                Source::Encoded(piece, _) => (piece, &slot.encoded, job.stage().encoded.used()),
                Source::Own(piece, _) => (piece, &slot.staging, job.stage().pixels.used()),
                Source::Pixels(_) => unreachable!("it has no file"),
            };
            let (piece, memory, used) = encoded;
            let encoded = &memory.bytes(used)[piece.offset..];
            let decoded = self.decoder.decode(&encoded[..piece.len], &mut self.pixels);
            let size = Size { height: self.pixels.height(), width: self.pixels.width() };
            let error = match decoded {
                Err(error) => Some(error),
                Ok(_) if size != image.size => {
                    let text = "its header gives another size than its picture has";
                    Some(Error::new(ErrorKind::Decode, text))
                }
                Ok(info) => {
                    job.warned(image.position, &info);
                    None
                }
            };
            if let Some(error) = error {
                let error = job.locate(image.position, error);
                if job.on_error() == OnError::Fail {
                    return Err(error);
                }
                bad.push((job.id(image.position), error));
                continue;
            }
            let pixels = self.pixels.bytes();
            let at = layout.place(pixels.len());
            slot.retried.bytes_mut(layout.len())[at..][..pixels.len()].copy_from_slice(pixels);
            let pinned = &slot.retried.bytes(layout.len())[at..][..pixels.len()];
            // SAFETY: pinned memory of the slot, each image its own part, which stays until `ready`
            // has happened; the place is the image's own, and who decoded is done with it.
            unsafe { self.engine.compute.upload(image.place, pinned) }?;
        }
        Ok(bad)
    }

    /// Queues what is left to do, unless some samples turn out to be bad: then gives those.
    fn run(&mut self, flight: &mut Flight) -> Result<Vec<(u64, Error)>> {
        let engine = self.engine.clone();
        let Flight { job, lease, laid_out } = flight;
        let slot = lease.device.as_deref_mut().expect("laid out");
        if laid_out.images.is_empty() {
            engine.compute.wait(&slot.uploaded)?;
        } else {
            // The host waits for the images, which have waited for the upload.
            let bad = self.retry(job, slot, &mut laid_out.images)?;
            if !bad.is_empty() {
                return Ok(bad);
            }
        }
        if slot.in_use {
            engine.compute.wait(&slot.released)?;
            slot.in_use = false;
        }
        let (samples, plan) = (job.len(), job.program().plan());
        let labels = &slot.tables.bytes(laid_out.tables.len)[laid_out.tables.labels..];
        // SAFETY: pinned memory as above. The labels' place is the consumer's until now.
        unsafe { engine.compute.upload(slot.labels.address(), &labels[..samples * 8]) }?;
        let status = run_passes(&engine, job, slot, laid_out)?;
        // SAFETY: there is room for two words a sample and, on the host, for each output; both are
        // read after `ready`. What is filled is the slot's own.
        unsafe {
            let compute = &engine.compute;
            compute.download(slot.words.start().add(samples * 4), status, samples * 4)?;
            if engine.to_host {
                for (k, output) in plan.outputs().iter().enumerate() {
                    let element = plan.images()[output.image].dtype.size();
                    let bytes = bytes_of(job.size(0, output.image), samples, element)?;
                    let to = slot.host_outputs[k].start();
                    compute.download(to, slot.outputs[k].address(), bytes)?;
                }
            }
            compute.fill(slot.decoded.address(), UNWRITTEN, laid_out.decoded)?;
        }
        engine.compute.record(&slot.ready)?;
        slot.flying = Some(samples);
        slot.blank = true;
        Ok(Vec::new())
    }
}

/// Lays a batch out and copies up what the host has of it.
fn upload(engine: &Engine, job: &Job, lease: &mut Lease) -> Result<LaidOut> {
    let laid_out = lay_out(engine, job, lease)?;
    let slot = lease.device.as_deref_mut().expect("laid out");
    let (tables, pixels) = (laid_out.tables.labels, laid_out.pixels);
    // SAFETY: both sources are pinned memory of the slot, which nobody writes before `ready` has
    // happened; both places are the slot's own, and the last work on them is done.
    unsafe {
        engine.upload.upload(slot.device_tables.address(), slot.tables.bytes(tables))?;
        engine.upload.upload(slot.pixels.address(), slot.staging.bytes(pixels))?;
    }
    engine.upload.record(&slot.uploaded)?;
    Ok(laid_out)
}
