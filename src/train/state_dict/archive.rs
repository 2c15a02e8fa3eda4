//! Zip archives, as `torch.save` writes them since PyTorch 1.6: `NAME/data.pkl`, `NAME/byteorder` and
//! a file `NAME/data/KEY` for each storage, none of them compressed.

use super::bytes::Bytes;
use super::value::Storage;
use super::{bad, dict, pickle, shown};
use crate::error::Result;
use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{Cursor, Read};
use tch::Tensor;
use zip::{CompressionMethod, ZipArchive};

/// How a file of this kind begins.
pub(super) const MAGIC: &[u8] = b"PK\x03\x04";

/// The tensors of the archive `bytes`.
pub(super) fn read(bytes: &[u8]) -> Result<BTreeMap<String, Tensor>> {
    let mut archive = Archive::open(bytes)?;
    // Files from before PyTorch 2.0 do not say, and come from little-endian machines.
    if archive.index("byteorder").is_some() && archive.entry("byteorder")? != b"little" {
        return Err(bad("it was written on a big-endian machine; save it again on another"));
    }
    let pickled = archive.entry("data.pkl")?;
    let pickle = pickle::load(&mut Bytes(&pickled))?;
    dict::tensors(&pickle, |Storage { key, .. }| {
        archive.entry(&format!("data/{key}")).map(Cow::Owned)
    })
}

struct Archive<'a> {
    zip: ZipArchive<Cursor<&'a [u8]>>,
    /// The folder in which everything lies, with its slash.
    root: String,
    /// Bytes that may still be read: entries that overlap could otherwise multiply the file.
    budget: u64,
}

impl<'a> Archive<'a> {
    fn open(bytes: &'a [u8]) -> Result<Self> {
        let zip = ZipArchive::new(Cursor::new(bytes)).map_err(damaged)?;
        if zip.has_duplicate_names() {
            return Err(bad("damaged: two entries of the archive have one name"));
        }
        let roots = zip.file_names().filter_map(|name| {
            let root = name.ok()?.strip_suffix("data.pkl")?.to_string();
            root.strip_suffix('/').is_some_and(|folder| !folder.contains('/')).then_some(root)
        });
        let [root] = <[String; 1]>::try_from(roots.collect::<Vec<_>>()).map_err(|_| {
            bad("a zip archive, but not one of torch.save: no data.pkl in a folder")
        })?;
        Ok(Archive { zip, root, budget: bytes.len() as u64 })
    }

    fn index(&self, name: &str) -> Option<usize> {
        self.zip.index_for_name(&format!("{}{name}", self.root))
    }

    /// The bytes of an entry, held to its checksum.
    fn entry(&mut self, name: &str) -> Result<Vec<u8>> {
        let lacking = || bad(format!("damaged: the archive lacks {}", shown(name)));
        let index = self.index(name).ok_or_else(lacking)?;
        let told = self.zip.by_index_data(index).map_err(damaged)?;
        if told.compression() != CompressionMethod::Stored || told.encrypted() {
            return Err(bad(
                "an archive that was packed again: PyTorch stores without compression",
            ));
        }
        let size = told.size();
        self.budget = self
            .budget
            .checked_sub(size)
            .ok_or_else(|| bad("damaged: its entries are longer than the file"))?;
        let mut bytes = Vec::new();
        let mut entry = self.zip.by_index(index).map_err(damaged)?.take(size + 1);
        entry.read_to_end(&mut bytes).map_err(damaged)?;
        if bytes.len() as u64 != size {
            return Err(bad(format!("damaged: {} has another length than it says", shown(name))));
        }
        Ok(bytes)
    }
}

fn damaged(error: impl std::fmt::Display) -> crate::error::Error {
    bad(format!("a damaged zip archive: {error}"))
}
