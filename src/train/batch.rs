//! A batch of the loader as tensors, without a copy.
#![allow(unsafe_code)]

use super::{shim, torch};
use crate::error::{Error, ErrorKind, Result};
use crate::loader::{Batch, ForeignStream};
use crate::tensor::{DType, Layout};
use std::sync::Arc;
use tch::{Device, Kind, Tensor};

/// The samples of a batch as tensors over its own memory, on the device where it lies. The memory is
/// the loader's again when nothing refers to it any more: no tensor and no graph.
#[derive(Debug)]
pub struct Samples {
    /// (N, 3, H, W) f32; N is at least 1.
    pub images: Tensor,
    /// N labels, i64, below the model's classes.
    pub labels: Tensor,
    /// Their numbers in the list.
    pub ids: Vec<i64>,
}

impl Samples {
    /// Takes `batch` apart. Places that were filled ([`Batch::valid`]) are left out; `None` where
    /// no other is left.
    ///
    /// # Errors
    /// Refuses images that are not (N, 3, H, W) f32, and labels that are not below `classes`.
    pub fn of(batch: Batch, classes: i64) -> Result<Option<Self>> {
        check_labels(&batch, classes)?;
        // libtorch puts its work on the legacy default stream, where nobody has told it otherwise.
        batch.lend(ForeignStream::LEGACY)?;
        // The places at the end of an epoch are filled, or all of a batch, so those to keep come first.
        let kept = batch.valid().iter().take_while(|valid| **valid).count();
        if kept == 0 {
            return Ok(None);
        }
        let ids = batch.ids()[..kept].to_vec();
        let memory = Memory::of(&batch)?;
        let samples = batch.labels().len() as i64;
        let batch = Arc::new(batch);
        // SAFETY: `memory.images` holds shape's product of f32 (`Memory::of`), and `memory.labels` as
        // many i64 as there are samples, both on boundaries of their types and on `memory.device`,
        // and at one place for as long as `batch`, which both own, is held. Nobody writes through
        // them: a model only reads its input.
        //
        // On a GPU, kernels may read the memory after the last tensor is gone. They are on the
        // stream that the batch was lent to, behind its wait for the batch, and when the batch is
        // dropped its slot records `released` behind them there: nothing writes or frees the memory
        // before that has happened. What libtorch puts on streams of its own it joins with this one.
        let (images, labels) = unsafe {
            let Memory { device, images, shape, labels } = memory;
            let whole = [samples];
            (
                shim::blob(images, &shape, Kind::Float, device, Arc::clone(&batch)),
                shim::blob(labels, &whole, Kind::Int64, device, batch),
            )
        };
        let first = |tensor: Tensor| tensor.f_narrow(0, 0, kept as i64);
        let (images, labels) =
            (images.and_then(first).map_err(torch)?, labels.and_then(first).map_err(torch)?);
        Ok(Some(Samples { images, labels, ids }))
    }

    /// The same samples in the same memory.
    pub fn again(&self) -> Self {
        let (images, labels) = (self.images.shallow_clone(), self.labels.shallow_clone());
        Samples { images, labels, ids: self.ids.clone() }
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
