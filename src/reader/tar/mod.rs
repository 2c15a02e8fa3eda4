//! Tar shards of the WebDataset layout: with forebay's index, or as other programs write them.
//!
//! Shards are mapped, so a sample costs no call of the system (`reader/map.rs` says what keeps a
//! shard that is cut from ending the process). With an index a sample's name is the one it had before
//! it was packed, and its bytes are compared with what was packed; nothing of a shard is looked at
//! before that. Without one, every shard is walked when the data are opened.

pub(crate) mod header;
mod members;
mod scan;
pub(crate) mod table;

use super::beneath::{Root, as_path};
use super::file_list::read_classes;
use super::map::Map;
use super::{Content, DEFAULT_LIMIT, Reader, advise};
use crate::error::{Error, ErrorKind, Result};
use crate::file;
use std::collections::HashSet;
use std::ffi::{CStr, CString};
use std::fs::{DirEntry, File};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use table::{INDEX, Sample, Table, check, shard_name};

pub(crate) use scan::IMAGES;

/// Samples in tar archives, mapped into memory.
///
/// With `index.forebay` those that it names; without, every `*.tar` of the directory that is not hidden,
/// in bytewise order. `classes.txt` beside them names the classes, a line each.
pub struct Tar {
    root: Root,
    path: PathBuf,
    shards: Vec<Shard>,
    table: Table,
    /// Whether the table is an index's.
    indexed: bool,
    classes: Vec<String>,
    limit: u64,
}

struct Shard {
    name: CString,
    map: Map,
}

/// Whether `dir` holds tar shards, or what an interrupted packing left.
pub fn has_shards(dir: &Path) -> bool {
    has_index(dir) || entries(dir).any(|entry| is_shard(entry.file_name().as_bytes()))
}

/// Whether that is all that `dir` can be meant for: archives without an index are also what class
/// folders were unpacked from, where directories lie beside them.
pub fn is_packed(dir: &Path) -> bool {
    has_index(dir) || has_shards(dir) && !entries(dir).any(|entry| entry.path().is_dir())
}

fn has_index(dir: &Path) -> bool {
    let index = dir.join(INDEX);
    [file::beside(&index), index].iter().any(|path| path.symlink_metadata().is_ok())
}

fn entries(dir: &Path) -> impl Iterator<Item = DirEntry> {
    dir.read_dir().into_iter().flatten().flatten()
}

/// Whether a file of this name is taken for a shard.
pub(crate) fn is_shard(name: &[u8]) -> bool {
    name.ends_with(b".tar") && !name.starts_with(b".")
}

impl Tar {
    /// Opens the shards in `root`. With `follow_links`, links in it may lead out of it.
    ///
    /// Errors: no shard, a packing that was not finished, an index that is damaged or names other
    /// shards than there are or other sizes. Without an index also a damaged archive and a sample
    /// without its image or label, with the shard and the byte.
    pub fn open(root: &Path, follow_links: bool) -> Result<Tar> {
        let dir = Root::open(root, follow_links)?;
        let index = root.join(INDEX);
        let indexed = index.symlink_metadata().is_ok();
        if !indexed && file::beside(&index).symlink_metadata().is_ok() {
            let what = "packing was not finished here; run `forebay pack` again";
            return Err(Error::new(ErrorKind::Data, what).at_path(root));
        }
        let names = shard_names(&dir, root)?;
        let (shards, table) = match indexed {
            true => by_index(&dir, root, &names)?,
            false => by_scan(&dir, root, names)?,
        };
        let classes = read_classes(&dir, root, INDEX)?;
        let path = root.to_path_buf();
        let tar = Tar { root: dir, path, shards, table, indexed, classes, limit: DEFAULT_LIMIT };
        let named = tar.classes.len() as i64;
        if let Some(id) = (0..tar.len()).find(|&id| named > 0 && tar.label(id) >= named) {
            let what = format!("label {}, but classes.txt names {named}", tar.label(id));
            return Err(tar.locate(id, Error::new(ErrorKind::Data, what)));
        }
        Ok(tar)
    }

    /// Sets the largest image that is read, in bytes.
    #[must_use]
    pub fn with_limit(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    /// Walks every shard and holds the index to what is found: one error at most a shard. Without an
    /// index there is nothing that could disagree.
    pub fn disagreements(&self) -> Vec<Error> {
        if !self.indexed {
            return Vec::new();
        }
        (0..self.shards.len()).filter_map(|k| self.disagreement(k)).collect()
    }

    fn disagreement(&self, number: usize) -> Option<Error> {
        let shard = &self.shards[number];
        let mut found = Table::default();
        found.begin();
        if let Err(error) = scan::scan(&shard.map, &mut found) {
            return Some(error.at_path(self.path_of(number)));
        }
        let rows = self.table.shards();
        let first = rows[number].first;
        let count = rows.get(number + 1).map_or(self.len(), |next| next.first) - first;
        for id in 0..found.len().min(count) {
            let told = self.table.sample(first + id);
            let (is, says) = (found.sample(id), Sample { check: 0, ..told });
            if is != says {
                let text = |s: Sample| {
                    format!("{} bytes at byte {} with label {}", s.bytes, s.start, s.label)
                };
                let what = format!("the shard has {}, {INDEX} says {}", text(is), text(says));
                let error = Error::new(ErrorKind::Data, format!("{what}; pack again"));
                return Some(self.locate(first + id, error));
            }
        }
        (found.len() != count).then(|| {
            let what = format!("has {} samples, {INDEX} says {count}; pack again", found.len());
            Error::new(ErrorKind::Data, what).at_path(self.path_of(number))
        })
    }

    fn path_of(&self, shard: usize) -> PathBuf {
        self.path.join(as_path(&self.shards[shard].name))
    }

    /// Puts the image of `sample`, which is in `shard`, into `buf`.
    fn fill(&self, sample: Sample, shard: &Shard, buf: &mut Vec<u8>) -> Result<()> {
        let end = sample.start + u64::from(sample.bytes);
        let bytes = sample.bytes as usize;
        if u64::from(sample.bytes) > self.limit {
            let what = format!("has {bytes} bytes, above the limit of {}", self.limit);
            return Err(advise(Error::new(ErrorKind::Limit, what)));
        }
        if buf.try_reserve(bytes.saturating_sub(buf.len())).is_err() {
            let what = format!("out of memory for its {bytes} bytes");
            return Err(Error::new(ErrorKind::Resources, what));
        }
        buf.resize(bytes, 0);
        let now = || self.shortened(shard, end);
        if shard.map.copy(sample.start, buf).is_err() {
            let what = "cannot be read: its disk failed, or it was cut short and grew again";
            return Err(now().unwrap_or_else(|| Error::new(ErrorKind::Io, what)));
        }
        if self.indexed && check(buf) != sample.check {
            let what = "holds other bytes than were packed: damaged, or of another packing; run `forebay pack` again";
            return Err(now().unwrap_or_else(|| Error::new(ErrorKind::Data, what)));
        }
        // What was cut off within a page is zeros, and raised no signal.
        if !self.indexed
            && buf.last() == Some(&0)
            && let Some(error) = now()
        {
            return Err(error);
        }
        Ok(())
    }

    /// That `shard` ends before byte `end` by now, or is not there.
    fn shortened(&self, shard: &Shard, end: u64) -> Option<Error> {
        match self.root.file(&shard.name) {
            Ok((_, size)) if size < end => {
                let what = format!(
                    "cut short since it was opened: the shard has {size} bytes, the image ends at {end}"
                );
                Some(Error::new(ErrorKind::Io, what))
            }
            Ok(_) => None,
            Err(error) => Some(error),
        }
    }
}

impl Reader for Tar {
    fn len(&self) -> u64 {
        self.table.len()
    }

    fn label(&self, id: u64) -> i64 {
        self.table.sample(id).label
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    /// With an index, the name under the directory that was packed, so that packing changes no
    /// [`Reader::fingerprint`]; without, the shard and the member in it.
    fn place(&self, id: u64) -> PathBuf {
        let name = as_path(self.table.name(id));
        match self.indexed {
            true => name.to_path_buf(),
            // Not joined, which a name that begins with a slash would end by itself.
            false => {
                let mut place = self.file(id).into_os_string();
                place.push("/");
                place.push(name);
                place.into()
            }
        }
    }

    fn file(&self, id: u64) -> PathBuf {
        as_path(&self.shards[self.table.shard_of(id)].name).to_path_buf()
    }

    /// The shard, and where in it the sample's name and image are.
    fn locate(&self, id: u64, error: Error) -> Error {
        let start = self.table.sample(id).start;
        let name = as_path(self.table.name(id)).display();
        error
            .from_offset(start)
            .about(format!("{name} at byte {start}"))
            .at_path(self.path_of(self.table.shard_of(id)))
            .at_sample(id)
    }

    fn read(&self, id: u64, buf: &mut Vec<u8>) -> Result<Content> {
        let shard = &self.shards[self.table.shard_of(id)];
        match self.fill(self.table.sample(id), shard, buf) {
            Ok(()) => Ok(Content::Encoded),
            Err(error) => Err(self.locate(id, error)),
        }
    }
}

/// The shards in a directory, in bytewise order.
fn shard_names(dir: &Root, root: &Path) -> Result<Vec<CString>> {
    let mut names = Vec::new();
    for entry in dir.list(c".").map_err(|e| e.with_path(root))? {
        let entry = entry.map_err(|e| Error::io("list", root, e.into()))?;
        if is_shard(entry.file_name().to_bytes()) {
            names.push(entry.file_name().to_owned());
        }
    }
    names.sort_unstable();
    Ok(names)
}

fn by_index(dir: &Root, root: &Path, names: &[CString]) -> Result<(Vec<Shard>, Table)> {
    let path = root.join(INDEX);
    let name = CString::new(INDEX).expect("it holds no NUL");
    let (file, size) = dir.file(&name).map_err(|e| e.with_path(&path))?;
    let table = Table::read(File::from(file), size).map_err(|e| e.with_path(&path))?;
    let mut shards = Vec::with_capacity(table.shards().len());
    for (number, row) in table.shards().iter().enumerate() {
        let name = CString::new(shard_name(number)).expect("it holds no NUL");
        let shard = open_shard(dir, root, name)?;
        if shard.map.len() != row.size {
            let (found, told) = (shard.map.len(), row.size);
            let what =
                format!("has {found} bytes, {INDEX} says {told}: cut off, or of another packing");
            return Err(Error::new(ErrorKind::Data, what).at_path(root.join(as_path(&shard.name))));
        }
        shards.push(shard);
    }
    let named: HashSet<&CStr> = shards.iter().map(|shard| &*shard.name).collect();
    if let Some(other) = names.iter().find(|name| !named.contains(name.as_c_str())) {
        let what = format!("is not in {INDEX}: pack again, or move it away");
        return Err(Error::new(ErrorKind::Data, what).at_path(root.join(as_path(other))));
    }
    Ok((shards, table))
}

fn by_scan(dir: &Root, root: &Path, names: Vec<CString>) -> Result<(Vec<Shard>, Table)> {
    if names.is_empty() {
        return Err(Error::new(ErrorKind::Data, "no .tar file in it").at_path(root));
    }
    let (mut shards, mut table) = (Vec::with_capacity(names.len()), Table::default());
    for name in names {
        let shard = open_shard(dir, root, name)?;
        table.begin();
        scan::scan(&shard.map, &mut table)
            .map_err(|e| e.at_path(root.join(as_path(&shard.name))))?;
        table.end(shard.map.len());
        shards.push(shard);
    }
    if table.len() == 0 {
        let what = format!("no sample in its {} .tar files", shards.len());
        return Err(Error::new(ErrorKind::Data, what).at_path(root));
    }
    Ok((shards, table))
}

fn open_shard(dir: &Root, root: &Path, name: CString) -> Result<Shard> {
    let path = root.join(as_path(&name));
    let (file, size) = dir.file(&name).map_err(|e| e.with_path(&path))?;
    if size == 0 {
        return Err(Error::new(ErrorKind::Data, "the file is empty").at_path(path));
    }
    let map = Map::new(&file, size).map_err(|e| {
        let error = Error::io("map", &path, e);
        // What the system says of a process that has as many mappings as it may.
        let full = error.kind() == ErrorKind::Resources;
        if full { error.adding("larger shards are fewer (`forebay pack`)") } else { error }
    })?;
    Ok(Shard { name, map })
}
