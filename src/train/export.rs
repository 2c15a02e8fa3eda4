//! A state dict as torchvision has it, from a checkpoint or from any file of weights.

use super::checkpoint::{self, Model};
use super::resnet::{ResNet18, Stem};
use super::state_dict::safe;
use super::{lora, torch, weights};
use crate::error::{Error, ErrorKind, Result};
use crate::file;
use std::collections::BTreeMap;
use std::io::Write;
use std::path::Path;
use tch::nn::VarStore;
use tch::{Device, Tensor};

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Exported {
    /// The model's stem.
    pub stem: Stem,
    /// The model's classes.
    pub classes: i64,
    /// Tensors in the file.
    pub tensors: usize,
}

/// Reads `from` ([`checkpoint::weights`] says what it may be) and writes to `to` a safetensors file with
/// exactly the names of torchvision's `resnet18().state_dict()`: row-major f32, and i64 counters,
/// which are 0 where `from` has none. A file at `to` is replaced.
///
/// # Errors
/// Those of reading and writing, and what is not one whole ResNet-18.
pub fn export(from: &Path, to: &Path) -> Result<Exported> {
    let tensors = checkpoint::weights(from)?;
    if !lora::layers(&tensors).is_empty() {
        let text = "has adapters beside its weights; `forebay merge-lora` merges them";
        return Err(Error::new(ErrorKind::Data, text).at_path(from));
    }
    write(&tensors, from, to)
}

/// As [`export`], of `tensors` that came from `from`.
pub fn write(tensors: &BTreeMap<String, Tensor>, from: &Path, to: &Path) -> Result<Exported> {
    let foreign = |text: String| Error::new(ErrorKind::Data, text).at_path(from);
    let size = |name: &str| {
        let tensor = tensors.get(name).ok_or_else(|| foreign(lacks(name)))?;
        Ok(tensor.size())
    };
    let stem = weights::stem(&size("conv1.weight")?)
        .ok_or_else(|| foreign("its first convolution is none of a ResNet-18's".into()))?;
    let classes = match size("fc.weight")?[..] {
        [classes @ 1..=Model::MOST_CLASSES, 512] => classes,
        _ => return Err(foreign("its head is none of a ResNet-18's".into())),
    };
    // Loaded into a model, they are held to its names and shapes and cast to its types.
    let variables = VarStore::new(Device::Cpu);
    ResNet18::new(&variables.root(), stem, classes).map_err(torch)?;
    let report = weights::load(&variables, tensors).map_err(|e| e.at_path(from))?;
    if !report.missing.is_empty() {
        return Err(foreign(lacks(&weights::some(&report.missing))));
    }
    if !report.unexpected.is_empty() {
        let names = weights::some(&report.unexpected);
        return Err(foreign(format!("a plain ResNet-18 does not have {names}")));
    }
    let variables = variables.variables();
    // What transformers and others look for before they take it for PyTorch's.
    let bytes = safe::write(variables.iter(), ("format", "pt")).map_err(|e| e.at_path(to))?;
    file::replace(to, |file| file.write_all(&bytes))?;
    Ok(Exported { stem, classes, tensors: variables.len() })
}

fn lacks(names: &str) -> String {
    format!("not a whole ResNet-18: it lacks {names}")
}
