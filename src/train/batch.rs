//! A batch of the loader as tensors, without a copy.
#![allow(unsafe_code)]

use super::torch;
use crate::error::{Error, ErrorKind, Result};
use crate::loader::{Batch, ForeignStream};
use crate::tensor::{DType, Layout};
use tch::{Device, Kind, Tensor};

/// Calls `f` with the batch's images, (N, 3, H, W) f32, and its N labels, all below `classes`, on
/// the device where the batch lies.
///
/// The tensors lie in the batch's own memory. `f` leaves behind nothing that refers to them: no
/// clone and no graph in which they are saved. On a GPU the work that reads them may still be under
/// way when this returns; the batch may be dropped all the same. Places that were filled
/// (`last_batch = "pad"`) are left out; `f` is not called where none is left.
pub(super) fn lend(
    batch: &Batch,
    classes: i64,
    f: impl FnOnce(&Tensor, &Tensor) -> Result<()>,
) -> Result<()> {
    check_labels(batch, classes)?;
    // libtorch puts its work on the legacy default stream, where nobody has told it otherwise.
    batch.lend(ForeignStream::LEGACY)?;
    let memory = Memory::of(batch)?;
    let samples = batch.labels().len() as i64;
    // SAFETY: `memory.images` holds shape's product of f32 (`Memory::of`), and `memory.labels` as
    // many i64 as there are samples, both on boundaries of
    // their types and on `memory.device`. The tensors
    // drop at the end of this call, for all of which `batch` is borrowed, and `f` keeps nothing.
    // Nobody writes through them: a model only reads its input.
    //
    // On a GPU, kernels that `f` queued may read the memory after that. They are on the stream that
    // the batch was lent to, behind its wait for the batch, and when the batch is dropped its slot
    // records `released` behind them there: nothing writes or frees the memory before that has
    // happened. What libtorch puts on streams of its own it joins with this one.
    let (images, labels) = unsafe {
        (
            blob(memory.images, &memory.shape, Kind::Float, memory.device)?,
            blob(memory.labels, &[samples], Kind::Int64, memory.device)?,
        )
    };
    // The sampler fills the places at the end of an epoch, so that those to keep come first.
    let kept = batch.valid().iter().take_while(|valid| **valid).count() as i64;
    let first = |tensor: &Tensor| tensor.f_narrow(0, 0, kept).map_err(torch);
    match kept {
        0 => Ok(()),
        _ => f(&first(&images)?, &first(&labels)?),
    }
}

/// Where a batch lies.
struct Memory {
    device: Device,
    images: *const u8,
    /// N, 3, H and W.
    shape: [i64; 4],
    labels: *const u8,
}

impl Memory {
    /// Refuses images that are not (N, 3, H, W) f32.
    fn of(batch: &Batch) -> Result<Self> {
        let (Some(images), Some(labels)) = (batch.device_images(), batch.device_labels()) else {
            let view = batch.images();
            return Ok(Memory {
                device: Device::Cpu,
                images: view.bytes.as_ptr(),
                shape: image_shape(view.shape, view.dtype)?,
                labels: batch.labels().as_ptr().cast(),
            });
        };
        Ok(Memory {
            device: Device::Cuda(images.ordinal as usize),
            images: images.address as *const u8,
            shape: image_shape(images.shape, images.dtype)?,
            labels: labels as *const u8,
        })
    }
}

/// # Safety
/// As for `Tensor::f_from_blob`: the tensor and what is made from it by view must not outlive `data`.
unsafe fn blob(data: *const u8, shape: &[i64], kind: Kind, device: Device) -> Result<Tensor> {
    // SAFETY: the caller's promise; no strides means dense rows, as batches have.
    unsafe { Tensor::f_from_blob(data, shape, &[], kind, device) }.map_err(torch)
}

fn image_shape(shape: &[usize], dtype: DType) -> Result<[i64; 4]> {
    match *shape {
        [n, 3, height, width] if dtype == DType::F32 => {
            Ok([n, 3, height, width].map(|size| size as i64))
        }
        _ => Err(Error::spec(format!(
            "the trainer takes batches of (N, 3, H, W) f32, and this pipeline gives {shape:?} \
             {dtype}; end it with normalize, layout = \"{}\" and dtype = \"{}\"",
            Layout::Chw.name(),
            DType::F32,
        ))),
    }
}

fn check_labels(batch: &Batch, classes: i64) -> Result<()> {
    let wrong = batch.labels().iter().zip(batch.ids()).find(|(l, _)| !(0..classes).contains(*l));
    match wrong {
        None => Ok(()),
        Some((label, id)) => {
            let message = format!("label {label}, but the model has {classes} classes");
            Err(Error::new(ErrorKind::Data, message).at_sample(*id as u64))
        }
    }
}
