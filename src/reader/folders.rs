//! A directory a class.

use super::beneath::{Root, as_path};
use super::file_list::under;
use super::held::Held;
use super::{Content, DEFAULT_LIMIT, Reader, Warm, advise};
use crate::error::{Error, ErrorKind, Result};
use rustix::fs::FileType;
use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};

/// Images sorted into one directory a class: `root/cat/1.jpg`.
///
/// Classes are the directories of the root and samples the files in them, both sorted bytewise, so
/// that labels and ids are the same everywhere. Hidden entries are skipped, and so are files that
/// lie in the root itself. One level deep.
pub struct Folders {
    root: Root,
    path: PathBuf,
    /// `class/file` names one after another, each ended by a NUL.
    names: Vec<u8>,
    /// Where each sample's name starts.
    starts: Vec<u64>,
    /// The first id of each class.
    firsts: Vec<u64>,
    classes: Vec<String>,
    warnings: Vec<String>,
    held: Held,
    limit: u64,
}

impl Folders {
    /// Lists the classes and samples under `root`; with `follow_links`, links may lead out of it.
    ///
    /// Errors: no class, no sample, a directory that cannot be read.
    pub fn open(root: &Path, follow_links: bool) -> Result<Folders> {
        let dir = Root::open(root, follow_links)?;
        let mut folders = Folders {
            root: dir,
            path: root.to_path_buf(),
            names: Vec::new(),
            starts: Vec::new(),
            firsts: Vec::new(),
            classes: Vec::new(),
            warnings: Vec::new(),
            held: Held::default(),
            limit: DEFAULT_LIMIT,
        };
        folders.fill().map_err(|e| under(root, e))?;
        folders.held = Held::new(&folders.root, folders.len());
        Ok(folders)
    }

    /// Sets the largest file that is read, in bytes.
    #[must_use]
    pub fn with_limit(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }

    fn fill(&mut self) -> Result<()> {
        for (class, kind) in self.entries(c".")? {
            let entries = match kind {
                FileType::Directory => self.entries(&class)?,
                // A link, or a file system that does not say. What is no directory is no class.
                FileType::Symlink | FileType::Unknown if self.is_directory(&class)? => {
                    self.entries(&class)?
                }
                _ => continue,
            };
            self.firsts.push(self.starts.len() as u64);
            let name = class.to_string_lossy().into_owned();
            for (file, kind) in entries {
                if kind == FileType::Directory {
                    let inner = file.to_string_lossy();
                    let what = format!("class {name:?}: the directory {inner:?} in it is not read");
                    self.warnings.push(what);
                    continue;
                }
                self.starts.push(self.names.len() as u64);
                self.names.extend_from_slice(class.to_bytes());
                self.names.push(b'/');
                self.names.extend_from_slice(file.to_bytes_with_nul());
            }
            if self.firsts.last() == Some(&(self.starts.len() as u64)) {
                self.warnings.push(format!("class {name:?} has no file"));
            }
            self.classes.push(name);
        }
        if self.classes.is_empty() {
            let what = "no directory in it; expected one a class";
            return Err(Error::new(ErrorKind::Data, what));
        }
        if self.starts.is_empty() {
            let what = format!("no file in any of its {} class directories", self.classes.len());
            return Err(Error::new(ErrorKind::Data, what));
        }
        Ok(())
    }

    /// The entries of a directory that are not hidden, sorted bytewise.
    fn entries(&self, dir: &CStr) -> Result<Vec<(CString, FileType)>> {
        let mut entries = Vec::new();
        for entry in self.root.list(dir)? {
            let entry = entry.map_err(|e| Error::io("list", as_path(dir), e.into()))?;
            if !entry.file_name().to_bytes().starts_with(b".") {
                entries.push((entry.file_name().to_owned(), entry.file_type()));
            }
        }
        entries.sort_unstable_by(|a, b| a.0.cmp(&b.0));
        Ok(entries)
    }

    fn is_directory(&self, name: &CStr) -> Result<bool> {
        match self.root.list(name) {
            Ok(_) => Ok(true),
            Err(_)
                if std::fs::metadata(self.path.join(as_path(name))).is_ok_and(|m| !m.is_dir()) =>
            {
                Ok(false)
            }
            Err(e) => Err(e),
        }
    }

    fn name(&self, id: u64) -> &CStr {
        let start = self.starts[id as usize] as usize;
        CStr::from_bytes_until_nul(&self.names[start..]).expect("fill ended every name")
    }
}

impl Reader for Folders {
    fn len(&self) -> u64 {
        self.starts.len() as u64
    }

    fn label(&self, id: u64) -> i64 {
        self.firsts.partition_point(|&first| first <= id) as i64 - 1
    }

    /// Classes without a sample, and directories inside a class, which are not read.
    fn warnings(&self) -> &[String] {
        &self.warnings
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn place(&self, id: u64) -> PathBuf {
        as_path(self.name(id)).to_path_buf()
    }

    fn locate(&self, id: u64, error: Error) -> Error {
        error.with_path(self.path.join(self.place(id))).at_sample(id)
    }

    fn read(&self, id: u64, buf: &mut Vec<u8>) -> Result<Content> {
        match self.held.read(&self.root, id, || self.name(id), self.limit, buf) {
            Ok(()) => Ok(Content::Encoded),
            Err(e) => Err(self.locate(id, advise(e))),
        }
    }

    fn warm(&self) -> Option<&dyn Warm> {
        Some(self)
    }
}

impl Warm for Folders {
    fn fetch(&self, id: u64) -> u64 {
        self.root.warm(self.name(id), self.limit)
    }
}
