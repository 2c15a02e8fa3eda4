//! A batch of the loader as tensors, without a copy.
#![allow(unsafe_code)]

use super::torch;
use crate::error::{Error, ErrorKind, Result};
use crate::loader::Batch;
use crate::tensor::{DType, TensorView};
use tch::{Device, Kind, Tensor};

/// Calls `f` with the batch's images, (N, 3, H, W) f32, and its N labels, all below `classes`.
///
/// The tensors lie in the batch's own memory. `f` leaves behind nothing that refers to them: no
/// clone and no graph in which they are saved. Places that were filled (`last_batch = "pad"`) are
/// left out, which takes a copy; `f` is not called where none is left.
pub(super) fn lend(
    batch: &Batch,
    classes: i64,
    f: impl FnOnce(&Tensor, &Tensor) -> Result<()>,
) -> Result<()> {
    check_labels(batch, classes)?;
    let view = batch.images();
    let shape = image_shape(&view)?;
    // SAFETY: `view.bytes` holds shape's product of f32 (checked by `image_shape`), on a 64-byte
    // boundary, and `labels` as many i64 as it is long. Both outlive the tensors: those drop at the
    // end of this call, `batch` is borrowed for all of it, and `f` keeps nothing. Nobody writes
    // through the tensors: a model only reads its input.
    let (images, labels) = unsafe {
        (
            blob(view.bytes.as_ptr(), &shape, Kind::Float)?,
            blob(batch.labels().as_ptr().cast(), &[batch.labels().len() as i64], Kind::Int64)?,
        )
    };
    if batch.valid().iter().all(|valid| *valid) {
        return f(&images, &labels);
    }
    let kept: Vec<i64> = (0..).zip(batch.valid()).filter(|(_, v)| **v).map(|(i, _)| i).collect();
    if kept.is_empty() {
        return Ok(());
    }
    let kept = Tensor::f_from_slice(&kept).map_err(torch)?;
    let select = |tensor: &Tensor| tensor.f_index_select(0, &kept).map_err(torch);
    f(&select(&images)?, &select(&labels)?)
}

/// # Safety
/// As for `Tensor::f_from_blob`: the tensor and what is made from it by view must not outlive `data`.
unsafe fn blob(data: *const u8, shape: &[i64], kind: Kind) -> Result<Tensor> {
    // SAFETY: the caller's promise; no strides means dense rows, as batches have.
    unsafe { Tensor::f_from_blob(data, shape, &[], kind, Device::Cpu) }.map_err(torch)
}

fn image_shape(view: &TensorView<'_>) -> Result<[i64; 4]> {
    match *view.shape {
        [n, 3, height, width]
            if view.as_f32().is_some_and(|v| v.len() == n * 3 * height * width) =>
        {
            Ok([n, 3, height, width].map(|size| size as i64))
        }
        _ => Err(Error::spec(format!(
            "the trainer takes batches of (N, 3, H, W) f32, and this pipeline gives {:?} {}; \
             end it with normalize, layout = \"{}\" and dtype = \"{}\"",
            view.shape,
            view.dtype,
            crate::tensor::Layout::Chw.name(),
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
