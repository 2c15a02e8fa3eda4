//! The file that a run leaves behind: a safetensors file with torchvision's names.
//!
//! It appears whole or not at all: written beside its place, synced, then renamed over it.

use super::resnet::Stem;
use super::torch;
use crate::error::{Error, ErrorKind, Result};
use safetensors::tensor::{Dtype, TensorView};
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};
use tch::{Kind, TchError, Tensor};

/// What a checkpoint tells beside its weights; the file's metadata holds it as JSON under
/// [`Meta::KEY`]. One key, since the format keeps several in no order and the same run is to leave
/// the same bytes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Meta {
    /// The version of forebay that wrote it.
    pub version: String,
    /// Epochs finished.
    pub epoch: u32,
    /// Steps done of the next one: more than 0 where the run was interrupted.
    pub step: u64,
    /// The seed of weights, order and draws.
    pub seed: u64,
    /// The model's stem.
    pub stem: Stem,
    /// The model's classes.
    pub classes: i64,
    /// Threads of libtorch, on which the last bits of the weights depend.
    pub torch_threads: i32,
}

impl Meta {
    /// The name of the entry in the file's metadata.
    pub const KEY: &'static str = "forebay";
}

/// A directory in which checkpoints are kept.
#[derive(Debug)]
pub struct Store {
    dir: PathBuf,
}

impl Store {
    /// The name of the newest checkpoint.
    pub const LAST: &'static str = "last.safetensors";

    /// Makes `dir` where it is missing, and finds out now, not after an epoch, whether files can be
    /// made in it.
    pub fn open(dir: &Path) -> Result<Self> {
        fs::create_dir_all(dir).map_err(|e| Error::io("create the directory", dir, e))?;
        let store = Store { dir: dir.to_path_buf() };
        let probe = store.temporary();
        File::create(&probe)
            .and_then(|_| fs::remove_file(&probe))
            .map_err(|e| Error::io("write to the directory", dir, e))?;
        Ok(store)
    }

    /// Makes the first of `parent`/version_0, `parent`/version_1, … that is not there yet.
    pub fn next_version(parent: &Path) -> Result<Self> {
        fs::create_dir_all(parent).map_err(|e| Error::io("create the directory", parent, e))?;
        for version in 0_u32.. {
            let dir = parent.join(format!("version_{version}"));
            match fs::create_dir(&dir) {
                Ok(()) => return Self::open(&dir),
                Err(e) if e.kind() == io::ErrorKind::AlreadyExists => {}
                Err(e) => return Err(Error::io("create the directory", dir, e)),
            }
        }
        Err(Error::new(ErrorKind::Limit, "too many versions of this run").at_path(parent))
    }

    /// Where [`Store::save`] puts its file.
    pub fn last(&self) -> PathBuf {
        self.dir.join(Self::LAST)
    }

    fn temporary(&self) -> PathBuf {
        self.dir.join(".last.safetensors.partial")
    }

    /// Replaces the last checkpoint by one of these `variables`.
    pub fn save(&self, variables: &HashMap<String, Tensor>, meta: &Meta) -> Result<()> {
        let bytes = serialize(variables, meta).map_err(|e| e.at_path(self.last()))?;
        let (temporary, last) = (self.temporary(), self.last());
        let write = || {
            let mut file = File::create(&temporary)?;
            file.write_all(&bytes)?;
            file.sync_all()?;
            fs::rename(&temporary, &last)?;
            // The rename itself is on disk only once the directory is.
            File::open(&self.dir)?.sync_all()
        };
        write().map_err(|e| {
            // What could be written of it helps nobody, and may be what filled the disk.
            let _ = fs::remove_file(&temporary);
            Error::io("write", &last, e)
        })
    }
}

fn serialize(variables: &HashMap<String, Tensor>, meta: &Meta) -> Result<Vec<u8>> {
    let parts = variables
        .iter()
        .map(|(name, tensor)| Ok((name, dense(tensor).map_err(torch)?)))
        .collect::<Result<Vec<_>>>()?;
    let views = parts
        .iter()
        .map(|(name, (dtype, shape, bytes))| {
            Ok((name, TensorView::new(*dtype, shape.clone(), bytes).map_err(format)?))
        })
        .collect::<Result<Vec<_>>>()?;
    let meta = serde_json::to_string(meta).map_err(format)?;
    let meta = HashMap::from([(Meta::KEY.to_string(), meta)]);
    safetensors::serialize(views, Some(meta)).map_err(format)
}

/// A tensor's type, shape and row-major bytes, wherever and in whatever order it lies.
fn dense(tensor: &Tensor) -> Result<(Dtype, Vec<usize>, Vec<u8>), TchError> {
    let tensor = tensor.f_to_device(tch::Device::Cpu)?.f_contiguous()?;
    let (kind, dtype) = match tensor.f_kind()? {
        Kind::Int64 => (Kind::Int64, Dtype::I64),
        _ => (Kind::Float, Dtype::F32),
    };
    let tensor = tensor.f_to_kind(kind)?;
    let mut bytes = vec![0; tensor.numel() * kind.elt_size_in_bytes()];
    tensor.f_copy_data_u8(&mut bytes, tensor.numel())?;
    Ok((dtype, tensor.size().iter().map(|size| *size as usize).collect(), bytes))
}

fn format(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Data, format!("cannot make a safetensors file: {error}"))
}
