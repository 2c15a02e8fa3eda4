//! Safetensors files: a JSON header that says where each tensor lies, then their bytes.

use super::{bad, shown, tensor};
use crate::error::Result;
use safetensors::{Dtype, SafeTensors};
use std::collections::BTreeMap;
use tch::{Kind, Tensor};

/// Whether `bytes` begin as a file of this kind: the header's length in 8 bytes, of which the upper
/// ones are 0, then JSON.
pub(super) fn is(bytes: &[u8]) -> bool {
    bytes.get(4..9) == Some(b"\0\0\0\0{")
}

/// The tensors of the file `bytes`, but for those with a slash in their name: forebay's checkpoints
/// keep what belongs to the run under such names.
pub(super) fn read(bytes: &[u8]) -> Result<BTreeMap<String, Tensor>> {
    let file = SafeTensors::deserialize(bytes)
        .map_err(|e| bad(format!("a damaged safetensors file: {e}")))?;
    let mut tensors = BTreeMap::new();
    for (name, view) in file.iter().filter(|(name, _)| !name.contains('/')) {
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
