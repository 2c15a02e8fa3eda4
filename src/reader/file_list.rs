//! A text file of `name label` lines.

use super::beneath::{Root, as_path};
use super::held::Held;
use super::lines::{Lines, leaves};
use super::{Content, DEFAULT_LIMIT, Reader, Warm, advise};
use crate::error::{Error, ErrorKind, Result};
use std::ffi::CString;
use std::path::{Path, PathBuf};

/// Bytes of a label list, all of which are held: a billion names of usual length.
const LIST_LIMIT: u64 = 64 << 30;

/// Files named line by line in a label list.
///
/// A line is read from its end: blanks, a label of digits, blanks, and the rest is the name, so
/// that names may hold spaces. CRLF, a byte order mark, tabs, blank lines, and a last line without
/// its newline are fine; one file may be listed more than once. Names are relative to the data
/// directory and stay in it.
///
/// The whole list is checked at open. The files are not looked at until they are read: asking the
/// system about each would cost as much as an epoch's reading.
pub struct FileList {
    root: Root,
    path: PathBuf,
    lines: Lines,
    held: Held,
    classes: Vec<String>,
    limit: u64,
}

impl FileList {
    /// Opens the list `list`, a name relative to the data directory `root`.
    ///
    /// A file `classes.txt` beside the list names the classes, one a line. With `follow_links`,
    /// links below `root` may lead out of it. Errors name the list and the line.
    pub fn open(root: &Path, list: &str, follow_links: bool) -> Result<FileList> {
        let (list, faults) = Self::open_with_faults(root, list, follow_links, 1)?;
        faults.into_iter().next().map_or(Ok(list), Err)
    }

    /// The same, but goes on past wrong lines: they are left out of the list, and the errors of the
    /// first `most` of them come with it. Reading stops at the last of these.
    pub fn open_with_faults(
        root: &Path,
        list: &str,
        follow_links: bool,
        most: usize,
    ) -> Result<(FileList, Vec<Error>)> {
        let path = root.join(list);
        if let Some(what) = leaves(list.as_bytes()) {
            return Err(
                Error::new(ErrorKind::Data, format!("the list's name {what}")).at_path(list)
            );
        }
        let name = CString::new(list)
            .map_err(|_| Error::new(ErrorKind::Data, "the list's name holds a NUL byte"))?;
        let dir = Root::open(root, follow_links)?;
        let mut text = Vec::new();
        dir.read(&name, LIST_LIMIT, &mut text).map_err(|e| under(root, e))?;
        let (lines, mut faults) = Lines::read(text, most).map_err(|e| e.at_path(&path))?;
        let classes = read_classes(&dir, root, list)?;
        let named = classes.len() as i64;
        if named > 0 && lines.highest() >= named {
            let labels = (0..lines.len()).map(|id| (id, lines.label(id)));
            let too_high = labels.filter(|(_, label)| *label >= named).map(|(id, label)| {
                let what = format!("label {label}, but classes.txt names {named}");
                Error::new(ErrorKind::Data, what).at_line(lines.number(id))
            });
            faults.extend(too_high.take(most - faults.len()));
        }
        let faults = faults.into_iter().map(|e| e.at_path(&path)).collect();
        let held = Held::new(&dir, lines.len());
        Ok((FileList { root: dir, path, lines, held, classes, limit: DEFAULT_LIMIT }, faults))
    }

    /// Sets the largest file that is read, in bytes.
    #[must_use]
    pub fn with_limit(mut self, bytes: u64) -> Self {
        self.limit = bytes;
        self
    }
}

impl Reader for FileList {
    fn len(&self) -> u64 {
        self.lines.len()
    }

    fn label(&self, id: u64) -> i64 {
        self.lines.label(id)
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn place(&self, id: u64) -> PathBuf {
        as_path(self.lines.name(id)).to_path_buf()
    }

    /// The list, its line, and the file that the line names.
    fn locate(&self, id: u64, error: Error) -> Error {
        error
            .about(as_path(self.lines.name(id)).display())
            .at_path(&self.path)
            .at_line(self.lines.number(id))
            .at_sample(id)
    }

    fn read(&self, id: u64, buf: &mut Vec<u8>) -> Result<Content> {
        match self.held.read(&self.root, id, || self.lines.name(id), self.limit, buf) {
            Ok(()) => Ok(Content::Encoded),
            Err(e) => Err(self.locate(id, advise(e))),
        }
    }

    fn warm(&self) -> Option<&dyn Warm> {
        Some(self)
    }
}

impl Warm for FileList {
    fn fetch(&self, id: u64) -> u64 {
        self.root.warm(self.lines.name(id), self.limit)
    }
}

pub(super) fn read_classes(dir: &Root, root: &Path, list: &str) -> Result<Vec<String>> {
    let name = Path::new(list).with_file_name("classes.txt");
    let path = root.join(&name);
    // No classes.txt is the common case; anything else at that name must be readable.
    if std::fs::symlink_metadata(&path).is_err() {
        return Ok(Vec::new());
    }
    let name = CString::new(name.into_os_string().into_encoded_bytes()).expect("checked by open");
    let mut text = Vec::new();
    dir.read(&name, 1 << 24, &mut text).map_err(|e| under(root, e))?;
    parse_names(&text).map_err(|e| e.at_path(path))
}

/// Names of classes, one a line; blank lines at the end are left out.
pub(super) fn parse_names(text: &[u8]) -> Result<Vec<String>> {
    let text =
        std::str::from_utf8(text).map_err(|_| Error::new(ErrorKind::Data, "is not UTF-8 text"))?;
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text).trim_ascii_end();
    let name = |(line, name): (usize, &str)| match name.trim() {
        "" => Err(Error::new(ErrorKind::Data, "a class without a name").at_line(line as u64 + 1)),
        name => Ok(name.to_string()),
    };
    text.lines().enumerate().map(name).collect()
}

/// Puts the data directory before the name that an error of [`Root`] carries.
pub(super) fn under(root: &Path, error: Error) -> Error {
    let path = root.join(error.path().unwrap_or(Path::new("")));
    Error::new(error.kind(), error.message()).at_path(path)
}
