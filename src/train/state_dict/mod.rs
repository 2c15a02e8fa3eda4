//! Files of weights: safetensors, and what `torch.save(model.state_dict(), …)` writes, read without
//! running what a pickle asks for.
//!
//! Nothing in a file is trusted: lengths are held to the bytes that are there before anything is
//! allocated or read, and what a file describes is bounded.

mod archive;
mod bytes;
mod dict;
mod legacy;
mod machine;
mod pickle;
pub(super) mod safe;
mod value;

use super::torch;
use crate::error::{Error, ErrorKind, Result};
use crate::file;
use std::collections::BTreeMap;
use std::path::Path;
use tch::{Kind, Tensor};

/// Bytes of a file, and of its tensors written out: strides of 0 can describe more than there is.
/// A ResNet-18 has 45 MB.
const MAX_BYTES: u64 = 2 << 30;

/// A ResNet-18 has 122.
const MAX_TENSORS: usize = 10_000;

/// What training puts before every name: Lightning's, DataParallel's, torch.compile's.
const PREFIXES: [&str; 4] = ["model.", "module.", "net.", "_orig_mod."];

/// The tensors of the file at `path` by name, on the CPU, in the types and shapes that it has. They
/// may be views of one memory, in any layout.
///
/// The content decides how it is read: safetensors, or the zip archive or the older format of
/// `torch.save`. The state dict may be the whole of it or lie under `state_dict`, `model` or
/// `model_state_dict`; a prefix that all names share, such as `module.`, is dropped. Entries that are
/// no tensors, and in safetensors names with a slash, are left out.
///
/// # Errors
/// A file of another kind, a damaged one, one that asks for anything beyond tensors, one that holds
/// none, and one beyond 2 GiB or 10,000 tensors.
pub fn read(path: &Path) -> Result<BTreeMap<String, Tensor>> {
    parse(&file::read(path, MAX_BYTES)?).map_err(|e| e.at_path(path))
}

fn parse(bytes: &[u8]) -> Result<BTreeMap<String, Tensor>> {
    let tensors = match bytes {
        _ if bytes.starts_with(archive::MAGIC) => archive::read(bytes)?,
        _ if legacy::is(bytes) => legacy::read(bytes)?,
        _ if safe::is(bytes) => safe::read(bytes)?,
        [] => return Err(bad("it is empty")),
        _ => return Err(bad("neither safetensors nor a file of torch.save")),
    };
    if tensors.is_empty() {
        return Err(bad("it holds no tensors by name"));
    }
    let size = |tensor: &Tensor| (tensor.numel() * tensor.kind().elt_size_in_bytes()) as u64;
    let total = tensors.values().try_fold(0_u64, |total, tensor| total.checked_add(size(tensor)));
    if tensors.len() > MAX_TENSORS || total.is_none_or(|total| total > MAX_BYTES) {
        let text = "more than 10,000 tensors or 2 GiB: not the weights of a ResNet-18";
        return Err(Error::new(ErrorKind::Limit, text));
    }
    Ok(without_prefix(tensors))
}

fn without_prefix(tensors: BTreeMap<String, Tensor>) -> BTreeMap<String, Tensor> {
    let mut names: Vec<&str> = tensors.keys().map(String::as_str).collect();
    let mut dropped = 0;
    while let Some(prefix) =
        PREFIXES.iter().find(|prefix| names.iter().all(|name| name.starts_with(**prefix)))
    {
        names.iter_mut().for_each(|name| *name = &name[prefix.len()..]);
        dropped += prefix.len();
    }
    tensors.into_iter().map(|(name, tensor)| (name[dropped..].to_string(), tensor)).collect()
}

/// A dense tensor of `bytes`, which it copies.
fn tensor(kind: Kind, size: &[i64], bytes: &[u8]) -> Result<Tensor> {
    // tch reads as many bytes as the size says, whatever their slice holds.
    if elements(size)?.checked_mul(kind.elt_size_in_bytes()) != Some(bytes.len()) {
        return Err(bad(format!("damaged: {} bytes for {size:?} values", bytes.len())));
    }
    match kind {
        // Bytes other than 0 and 1 are no bool to C++.
        Kind::Bool => Tensor::f_from_data_size(bytes, size, Kind::Uint8)
            .and_then(|tensor| tensor.f_to_kind(Kind::Bool)),
        _ => Tensor::f_from_data_size(bytes, size, kind),
    }
    .map_err(torch)
}

/// The product of `size`. What is beside an axis of length 0 is bounded, too: libtorch multiplies it.
fn elements(size: &[i64]) -> Result<usize> {
    let product = size.iter().try_fold(1_i64, |product, axis| {
        let axis = (*axis >= 0).then_some((*axis).max(1))?;
        product.checked_mul(axis).filter(|product| *product <= MAX_BYTES as i64)
    });
    match product {
        Some(_) if size.contains(&0) => Ok(0),
        Some(product) => Ok(product as usize),
        None => Err(bad(format!("an impossible size: {size:?}"))),
    }
}

/// A name from a file, fit for a line of a terminal.
pub fn shown(name: &str) -> String {
    let mut shown: String = name.chars().take(80).flat_map(char::escape_debug).collect();
    if name.chars().nth(80).is_some() {
        shown.push('…');
    }
    shown
}

fn bad(text: impl Into<String>) -> Error {
    Error::new(ErrorKind::Data, text)
}
