//! Safetensors files, read and written: a JSON header that says where each tensor lies, then their bytes.

use super::super::torch;
use super::{bad, shown, tensor};
use crate::error::{Error, ErrorKind, Result};
use safetensors::tensor::View;
use safetensors::{Dtype, SafeTensors};
use std::borrow::Cow;
use std::collections::{BTreeMap, HashMap};
use tch::{Device, Kind, TchError, Tensor};

/// Whether `bytes` begin as a file of this kind: the header's length in 8 bytes, of which the upper
/// ones are 0, then JSON.
pub(super) fn is(bytes: &[u8]) -> bool {
    bytes.get(4..9) == Some(b"\0\0\0\0{")
}

/// The weights of the file `bytes`: tensors without a slash in their name. forebay's checkpoints keep
/// what belongs to the run under such names.
pub(super) fn read(bytes: &[u8]) -> Result<BTreeMap<String, Tensor>> {
    tensors(bytes, |name| !name.contains('/'))
}

/// The tensors of the file `bytes` for whose name `wanted` holds.
pub(in super::super) fn tensors(
    bytes: &[u8],
    wanted: impl Fn(&str) -> bool,
) -> Result<BTreeMap<String, Tensor>> {
    let file = SafeTensors::deserialize(bytes)
        .map_err(|e| bad(format!("a damaged safetensors file: {e}")))?;
    let mut tensors = BTreeMap::new();
    for (name, view) in file.iter().filter(|(name, _)| wanted(name)) {
        let values = kind(view.dtype()).and_then(|kind| {
            let axis = |size: &usize| i64::try_from(*size).unwrap_or(i64::MAX);
            tensor(kind, &view.shape().iter().map(axis).collect::<Vec<_>>(), view.data())
        });
        tensors.insert(name.to_string(), values.map_err(|e| e.about(shown(name)))?);
    }
    Ok(tensors)
}

fn kind(dtype: Dtype) -> Result<Kind> {
    Ok(match dtype {
        Dtype::F64 => Kind::Double,
        Dtype::F32 => Kind::Float,
        Dtype::F16 => Kind::Half,
        Dtype::BF16 => Kind::BFloat16,
        Dtype::I64 => Kind::Int64,
        Dtype::I32 => Kind::Int,
        Dtype::I16 => Kind::Int16,
        Dtype::I8 => Kind::Int8,
        Dtype::U8 => Kind::Uint8,
        Dtype::BOOL => Kind::Bool,
        other => return Err(bad(format!("values of type {other:?}, which weights do not have"))),
    })
}

/// The bytes of a file with these `tensors`, wherever and in whatever order they lie, row-major: i64,
/// i32 and f64 as they are, the rest as f32. `note` is the file's metadata, of one entry, since the
/// format keeps several in no order.
pub(in super::super) fn write<'a>(
    tensors: impl Iterator<Item = (&'a String, &'a Tensor)>,
    note: (&str, &str),
) -> Result<Vec<u8>> {
    let dense = tensors.map(|(name, tensor)| Ok((name, Dense::of(tensor)?)));
    let dense = dense.collect::<Result<Vec<_>, _>>().map_err(torch)?;
    let note = HashMap::from([(note.0.to_string(), note.1.to_string())]);
    safetensors::serialize(dense, Some(note))
        .map_err(|e| Error::new(ErrorKind::Data, format!("cannot make a safetensors file: {e}")))
}

/// A tensor's type, shape and row-major bytes.
struct Dense {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl Dense {
    fn of(tensor: &Tensor) -> Result<Self, TchError> {
        let tensor = tensor.f_to_device(Device::Cpu)?.f_contiguous()?;
        let (kind, dtype) = match tensor.f_kind()? {
            Kind::Int64 => (Kind::Int64, Dtype::I64),
            Kind::Int => (Kind::Int, Dtype::I32),
            Kind::Double => (Kind::Double, Dtype::F64),
            _ => (Kind::Float, Dtype::F32),
        };
        let tensor = tensor.f_to_kind(kind)?;
        let mut bytes = vec![0; tensor.numel() * kind.elt_size_in_bytes()];
        tensor.f_copy_data_u8(&mut bytes, tensor.numel())?;
        let shape = tensor.size().iter().map(|size| *size as usize).collect();
        Ok(Dense { dtype, shape, bytes })
    }
}

impl View for Dense {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> Cow<'_, [u8]> {
        Cow::Borrowed(&self.bytes)
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}
