//! Checkpoints: safetensors files that hold all a run needs to go on to the bit.
//!
//! Weights have torchvision's names; the optimiser's, scaler's and meter's state lies beside them
//! under names with a `/`. The rest is JSON in the file's metadata ([`Meta`]). A file appears whole or
//! not at all, and a checksum over all of it tells a file that a disk or a copy damaged.

mod conditions;
mod store;

pub use conditions::{Conditions, Identities};
pub use store::{Pick, Store, find};

use super::early_stop;
use super::resnet::Stem;
use super::schedule;
use super::state_dict::{self, safe};
use crate::error::{Error, ErrorKind, Result};
use crate::file;
use crate::loader::Position;
use safetensors::SafeTensors;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::io::Read;
use std::path::Path;
use tch::Tensor;
use xxhash_rust::xxh3::xxh3_64;

/// Tensors by name.
pub type Tensors = BTreeMap<String, Tensor>;

/// What a checkpoint tells beside its tensors; the file's metadata holds it as JSON under
/// [`Meta::KEY`]. One key, since the format keeps several in no order and the same run is to leave
/// the same bytes.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct Meta {
    /// The version of forebay that wrote it.
    pub version: String,
    /// Where the loader stood: epochs finished, and how far the next one's order is done with. To its
    /// end: its training is done and its validation is not.
    #[serde(flatten)]
    pub position: Position,
    /// Steps of the optimiser, those that a mask left without effect among them.
    pub global_step: u64,
    /// The network.
    pub model: Model,
    /// What has to be the same for the same weights to come out.
    pub conditions: Conditions,
    /// Where the schedule stands.
    pub schedule: schedule::State,
    /// Where the patience stands.
    pub early_stop: early_stop::State,
    /// The monitored metric after the last validation, with its name.
    pub score: Option<(String, f64)>,
    /// The run's settings, as the TOML text that `--config` takes.
    pub config: String,
    /// xxh3 of the file with 16 zeros in this place, in hexadecimal; filled in when it is written.
    pub checksum: String,
}

/// What tells one network from another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Model {
    /// Before the first residual block.
    pub stem: Stem,
    /// Logits.
    pub classes: i64,
    /// Names of the classes by label; empty where the data has none.
    pub names: Vec<String>,
    /// The adapters, where there are any.
    pub lora: Option<Lora>,
}

/// What low-rank adapters there are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Lora {
    /// Of each.
    pub rank: i64,
    /// The head has one, too; else it learns itself.
    pub head: bool,
}

impl Model {
    /// A head of so many classes takes 200 MB and as much for each of Adam's moments.
    pub const MOST_CLASSES: i64 = 100_000;
    /// The width of the widest layer.
    pub const MOST_RANK: i64 = 512;

    /// Whether the weights of one fit the other.
    pub fn is_like(&self, other: &Model) -> bool {
        (self.stem, self.classes, self.lora) == (other.stem, other.classes, other.lora)
    }
}

impl fmt::Display for Model {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let stem = match self.stem {
            Stem::Imagenet => "imagenet",
            Stem::Cifar => "cifar",
        };
        write!(f, "a {stem} stem, {} classes", self.classes)?;
        match self.lora {
            Some(Lora { rank, head: true }) => write!(f, ", adapters of rank {rank}"),
            Some(Lora { rank, head: false }) => {
                write!(f, ", adapters of rank {rank} but for the head")
            }
            None => Ok(()),
        }
    }
}

impl Meta {
    /// The name of the entry in the file's metadata.
    pub const KEY: &'static str = "forebay";

    /// What the file at `path` says of itself, whether or not its tensors are whole; `None` where it
    /// is no checkpoint or its beginning is damaged.
    pub fn peek(path: &Path) -> Option<Self> {
        /// Of a ResNet-18's header, without the names of classes, 50 kB are used.
        const MOST: u64 = 1 << 24;

        let mut file = file::open(path).ok()?;
        let mut length = [0; 8];
        file.read_exact(&mut length).ok()?;
        let mut header = Vec::new();
        file.take(u64::from_le_bytes(length).min(MOST)).read_to_end(&mut header).ok()?;
        let header: serde_json::Value = serde_json::from_slice(&header).ok()?;
        Self::parse(header["__metadata__"][Self::KEY].as_str()?).ok()
    }

    fn parse(story: &str) -> serde_json::Result<Self> {
        let mut story: serde_json::Value = serde_json::from_str(story)?;
        // Files from before positions were counted in samples.
        let size = story["conditions"]["batch_size"].as_u64();
        if let (Some(step), Some(size), None) = (story["step"].as_u64(), size, story.get("samples"))
        {
            story["samples"] = step.saturating_mul(size).into();
        }
        serde_json::from_value(story)
    }
}

/// What stands in the checksum's place while it is computed.
const NO_SUM: &str = "0000000000000000";

/// A checkpoint's file in memory, found to be whole.
#[derive(Debug)]
pub struct Checkpoint {
    /// Its story.
    pub meta: Meta,
    bytes: Vec<u8>,
}

/// The weights in a file of any kind: a whole checkpoint's, else a state dict's.
///
/// # Errors
/// Those of [`Checkpoint::read`] and [`state_dict::read`]. A checkpoint that is damaged is none of
/// another kind, though it may read as one.
pub fn weights(path: &Path) -> Result<Tensors> {
    if Meta::peek(path).is_none() {
        return state_dict::read(path);
    }
    let mut tensors = Checkpoint::read(path)?.tensors()?;
    tensors.retain(|name, _| !name.contains('/'));
    Ok(tensors)
}

impl Checkpoint {
    /// More than any ResNet-18 of [`Model::MOST_CLASSES`] takes with its optimiser.
    const MOST_BYTES: u64 = 4 << 30;

    /// Reads a checkpoint.
    ///
    /// # Errors
    /// Says whether the file cannot be read, is cut, is damaged, or is another program's.
    pub fn read(path: &Path) -> Result<Self> {
        Self::parse(file::read(path, Self::MOST_BYTES)?).map_err(|e| e.at_path(path))
    }

    fn parse(mut bytes: Vec<u8>) -> Result<Self> {
        let damaged = |what: &dyn fmt::Display| {
            Error::new(ErrorKind::Data, format!("not a whole checkpoint: {what}; take another"))
        };
        let (header, story) = SafeTensors::read_metadata(&bytes)
            .map_err(|e| damaged(&format_args!("its header is damaged or cut ({e})")))?;
        let story = story.metadata().as_ref().and_then(|all| all.get(Meta::KEY));
        let story = story.ok_or_else(|| {
            let text = "a safetensors file, but no checkpoint of forebay; --weights reads it";
            Error::new(ErrorKind::Data, text)
        })?;
        let meta = Meta::parse(story)
            .map_err(|e| damaged(&format_args!("its story is not this version's ({e})")))?;
        let header = header.saturating_add(8).min(bytes.len());
        let place = checksum_place(&bytes[..header]).ok_or_else(|| damaged(&"no checksum"))?;
        bytes[place..place + NO_SUM.len()].copy_from_slice(NO_SUM.as_bytes());
        if format!("{:016x}", xxh3_64(&bytes)) != meta.checksum {
            return Err(damaged(&"its checksum is another"));
        }
        SafeTensors::deserialize(&bytes).map_err(|e| damaged(&e))?;
        let Model { classes, lora, .. } = &meta.model;
        let rank = lora.map_or(1, |lora| lora.rank);
        if !(1..=Model::MOST_CLASSES).contains(classes) || !(1..=Model::MOST_RANK).contains(&rank) {
            return Err(damaged(&format_args!("it tells of {}", meta.model)));
        }
        Ok(Checkpoint { meta, bytes })
    }

    /// Weights and state, on the CPU.
    pub fn tensors(&self) -> Result<Tensors> {
        safe::tensors(&self.bytes, |_| true)
    }
}

/// The bytes of a checkpoint.
fn serialize(tensors: &Tensors, meta: &Meta) -> Result<Vec<u8>> {
    let meta = Meta { checksum: NO_SUM.to_string(), ..meta.clone() };
    let meta = serde_json::to_string(&meta).map_err(format)?;
    // JSON has no infinities: better no checkpoint now than one that cannot be read.
    Meta::parse(&meta).map_err(format)?;
    let mut bytes = safe::write(tensors.iter(), (Meta::KEY, &meta))?;
    let sum = format!("{:016x}", xxh3_64(&bytes));
    // Not in the tensors, which may hold anything.
    let header = u64::from_le_bytes(*bytes.first_chunk().expect("it begins with a length"));
    let place = checksum_place(&bytes[..8 + header as usize]);
    let place = place.expect("the story ends in its checksum");
    bytes[place..place + sum.len()].copy_from_slice(sum.as_bytes());
    Ok(bytes)
}

/// Where the digits of the checksum begin, as JSON within JSON shows them.
fn checksum_place(header: &[u8]) -> Option<usize> {
    const LABEL: &[u8] = br#"\"checksum\":\""#;
    let found = memchr::memmem::rfind(header, LABEL)? + LABEL.len();
    (found + NO_SUM.len() <= header.len()).then_some(found)
}

fn format(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Data, format!("cannot make a checkpoint: {error}"))
}
