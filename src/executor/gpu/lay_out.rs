//! Where a batch lies: memory for all of it, and the tables that tell the kernels.

use super::arena::gather;
use super::slot::DeviceSlot;
use super::tables::{BatchTables, Layout, Work};
use super::{Engine, Source};
use crate::decoder::gpu::{Batch, Memory};
use crate::error::{Error, ErrorKind, Result};
use crate::executor::job::Job;
use crate::executor::ring::{Size, Slot};
use crate::graph::program::{Decoded, Image, TAIL};

/// A batch with memory of its own.
pub(super) struct LaidOut {
    pub(super) tables: BatchTables,
    pub(super) work: Work,
    /// Bytes of pixels that go up.
    pub(super) pixels: usize,
    /// Bytes of `decoded` that are written there.
    pub(super) decoded: usize,
    /// The images that are decoded on the GPU, in the batch's order.
    pub(super) images: Vec<OnGpu>,
    /// Those of them that our own kernels get.
    pub(super) own: Batch,
    /// Offset in `work` of what they write between them.
    scratch: usize,
    /// Offsets in `work` of the images between passes, images innermost.
    between: Vec<usize>,
}

/// An image that is decoded on the GPU.
pub(super) struct OnGpu {
    pub(super) position: usize,
    /// Where it is written, and where `augment` reads it: the same unless it is turned.
    pub(super) from: u64,
    pub(super) place: u64,
    /// As it is stored, and upright.
    pub(super) stored: Size,
    pub(super) size: Size,
    /// EXIF's value.
    pub(super) turn: u32,
    /// Whether it goes to our own kernels, not to nvJPEG.
    pub(super) own: bool,
    /// Whether it has to be decoded on the CPU after all.
    pub(super) failed: bool,
}

/// Makes room for a batch whose samples are all staged, and writes its tables. The GPU is done with
/// the slot's last batch. Growth is counted.
pub(super) fn lay_out(engine: &Engine, job: &Job, slot: &mut Slot) -> Result<LaidOut> {
    let Slot { ids, labels, device, .. } = slot;
    let slot = device.as_deref_mut().expect("staged by the first sample");
    let laid_out = reserve(engine, job, slot)?;
    write(job, slot, &laid_out, ids, labels)?;
    Ok(laid_out)
}

fn reserve(engine: &Engine, job: &Job, slot: &mut DeviceSlot) -> Result<LaidOut> {
    let (samples, plan) = (job.len(), job.program().plan());
    let mut grown = 0;
    let mut grow = |grew: bool| grown += u64::from(grew);

    // What threads have put in.
    let pieces = |encoded: bool| {
        (0..samples).filter_map(move |position| match job.source(position) {
            Source::Pixels(piece) | Source::Own(piece, _) if !encoded => Some(piece),
            Source::Encoded(piece, _) if encoded => Some(piece),
            _ => None,
        })
    };
    let stage = job.stage();
    let pixels = stage.pixels.used();
    grow(gather(&mut slot.staging, pixels, pieces(false))?);
    grow(gather(&mut slot.encoded, stage.encoded.used(), pieces(true))?);
    grow(slot.pixels.reserve(pixels + TAIL)?);

    // What is decoded there. A place starts on a boundary, which the pattern in it does, too.
    let (mut decoded, mut upright) = (Layout::default(), Layout::default());
    let (mut images, mut batch) = (Vec::new(), Batch::default());
    for position in 0..samples {
        let (width, height, turn, own) = match job.source(position) {
            Source::Pixels(_) => continue,
            Source::Encoded(_, frame) => (frame.width, frame.height, frame.orientation, false),
            Source::Own(_, prepared) => {
                let (width, height) = prepared.size();
                (width, height, prepared.orientation(), true)
            }
        };
        let (stored, turn) = (Size { height, width }, turn.to_exif());
        let room = bytes_of(stored, 1, 1)? + TAIL;
        let from = decoded.place(room) as u64;
        let place = if turn == 1 { from } else { upright.place(room) as u64 };
        let size = job.size(position, 0);
        let failed = match job.source(position) {
            Source::Own(piece, prepared) => {
                let file = &slot.staging.bytes(pixels)[piece.offset..][..piece.len];
                !batch.add(prepared, file, position as u32)
            }
            _ => false,
        };
        images.push(OnGpu { position, from, place, stored, size, turn, own, failed });
    }
    if slot.decoded.reserve(decoded.len())? {
        grow(true);
        slot.blank = false;
    }
    if !slot.blank {
        slot.make_blank()?;
    }
    grow(slot.upright.reserve(upright.len())?);
    let (decoded_at, upright_at) = (slot.decoded.address(), slot.upright.address());
    for image in &mut images {
        image.from += decoded_at;
        image.place += if image.turn == 1 { decoded_at } else { upright_at };
    }

    // What kernels write.
    let mut work = Work::new(samples, plan.passes().len());
    let mut between = vec![0; samples * plan.images().len()];
    for (k, image) in plan.images().iter().enumerate().skip(1) {
        let element = image.dtype.size();
        match job.program().output_of(k) {
            Some(output) => {
                let bytes = bytes_of(job.size(0, k), samples, element)?;
                if bytes + TAIL > slot.outputs[output].capacity() {
                    slot.take_back()?;
                }
                grow(slot.outputs[output].reserve(bytes + TAIL)?);
                if engine.to_host {
                    grow(slot.host_outputs[output].reserve(bytes, 0)?);
                }
            }
            None => {
                for position in 0..samples {
                    let bytes = bytes_of(job.size(position, k), 1, element)?;
                    between[position * plan.images().len() + k] = work.image(bytes + TAIL);
                }
            }
        }
    }
    if samples * 8 > slot.labels.capacity() {
        slot.take_back()?;
    }
    let scratch = work.image(batch.scratch_len());
    grow(slot.labels.reserve(samples * 8)?);
    grow(slot.work.reserve(work.len())?);
    grow(slot.words.reserve(samples * 8, 0)?);
    let tables = BatchTables::new(samples, plan.images().len(), images.len(), batch.tables_len());
    grow(slot.tables.reserve(tables.len, 0)?);
    grow(slot.device_tables.reserve(tables.labels)?);
    engine.count(|counts| &counts.grown, grown);
    let (decoded, own) = (decoded.len(), batch);
    Ok(LaidOut { tables, work, pixels, decoded, images, own, scratch, between })
}

impl LaidOut {
    /// Addresses of what our own kernels read and write.
    pub(super) fn own_memory(&self, slot: &DeviceSlot) -> Memory {
        let tables = slot.device_tables.address();
        Memory {
            tables: tables + self.tables.own as u64,
            scratch: slot.work.address() + self.scratch as u64,
            status: tables + self.tables.checks as u64,
        }
    }
}

/// Writes the tables to pinned memory.
fn write(
    job: &Job,
    slot: &mut DeviceSlot,
    laid_out: &LaidOut,
    ids: &[i64],
    labels: &[i64],
) -> Result<()> {
    let LaidOut { tables, images, own, between, .. } = laid_out;
    let memory = laid_out.own_memory(slot);
    let ends = images.iter().filter(|image| image.own && !image.failed).map(|image| {
        let Source::Own(piece, _) = job.source(image.position) else { unreachable!() };
        [slot.pixels.address() + piece.offset as u64, image.from]
    });
    let (samples, plan) = (job.len(), job.program().plan());
    let bytes = slot.tables.bytes_mut(tables.len);
    bytes[tables.checks..][..samples * 4].fill(0);
    own.write(&mut bytes[tables.own..tables.checks], memory, ends);
    let mut put = |at: usize, entry: &[u8]| bytes[at..][..entry.len()].copy_from_slice(entry);
    put(tables.ids, bytemuck::cast_slice(ids));
    put(tables.labels, bytemuck::cast_slice(labels));
    for (number, image) in images.iter().enumerate() {
        let &OnGpu { from, place: to, stored, turn, position, .. } = image;
        let (width, height) = (stored.width as i32, stored.height as i32);
        let entry = Decoded { from, to, width, height, turn, sample: position as u32 };
        put(tables.decoded + number * size_of::<Decoded>(), bytemuck::bytes_of(&entry));
    }
    let mut on_gpu = images.iter();
    for position in 0..samples {
        for (k, image) in plan.images().iter().enumerate() {
            let size = job.size(position, k);
            let data = match (k, job.program().output_of(k)) {
                (0, _) => match job.source(position) {
                    Source::Pixels(piece) => slot.pixels.address() + piece.offset as u64,
                    Source::Encoded(..) | Source::Own(..) => on_gpu.next().expect("one each").place,
                },
                (_, Some(output)) => {
                    let stride = bytes_of(size, 1, image.dtype.size())?;
                    slot.outputs[output].address() + (position * stride) as u64
                }
                (_, None) => {
                    slot.work.address() + between[position * plan.images().len() + k] as u64
                }
            };
            // `resolve` finds the sizes of all but the first again.
            let entry = Image { data, width: size.width as i32, height: size.height as i32 };
            let at = position * plan.images().len() + k;
            put(tables.images + at * size_of::<Image>(), bytemuck::bytes_of(&entry));
        }
    }
    Ok(())
}

/// Bytes of `samples` images of one size.
pub(super) fn bytes_of(size: Size, samples: usize, element: usize) -> Result<usize> {
    size.bytes(samples, element).ok_or_else(|| {
        Error::new(ErrorKind::Limit, "a batch of more bytes than a machine can address")
    })
}
