//! A text file of `name label` lines.

use super::beneath::{Root, as_path};
use super::{Content, DEFAULT_LIMIT, Reader, advise};
use crate::error::{Error, ErrorKind, Result};
use std::ffi::{CStr, CString};
use std::path::{Path, PathBuf};

/// Bytes of a label list, so that an entry finds its name by a 32-bit number.
const LIST_LIMIT: u64 = u32::MAX as u64;

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
        let is_too_high = |entry: &Entry| named > 0 && entry.label >= named;
        let too_high = lines.entries.iter().zip(0..).filter(|(entry, _)| is_too_high(entry));
        let too_high = too_high.map(|(entry, id)| {
            let what = format!("label {}, but classes.txt names {named}", entry.label);
            Error::new(ErrorKind::Data, what).at_line(lines.number(id))
        });
        faults.extend(too_high.take(most - faults.len()));
        let faults = faults.into_iter().map(|e| e.at_path(&path)).collect();
        Ok((FileList { root: dir, path, lines, classes, limit: DEFAULT_LIMIT }, faults))
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
        self.lines.entries.len() as u64
    }

    fn label(&self, id: u64) -> i64 {
        self.lines.entries[id as usize].label
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
        match self.root.read(self.lines.name(id), self.limit, buf) {
            Ok(()) => Ok(Content::Encoded),
            Err(e) => Err(self.locate(id, advise(e))),
        }
    }
}

/// The list's own bytes with each name ended by a NUL in place, so that a name costs no
/// allocation, no copy, and goes to the system as it lies.
struct Lines {
    text: Vec<u8>,
    entries: Vec<Entry>,
    /// Where blank or wrong lines come before a sample: its id and their count up to there. Enough to
    /// give every sample its line number; empty for most lists.
    blanks: Vec<(u64, u64)>,
}

struct Entry {
    label: i64,
    /// Where the name starts.
    start: u32,
}

impl Lines {
    /// The lines that are right, and errors of the first `most` that are not.
    fn read(mut text: Vec<u8>, most: usize) -> Result<(Lines, Vec<Error>)> {
        let mut entries = Vec::new();
        let mut faults = Vec::new();
        let mut blanks = Vec::new();
        let mut blank = 0_u64;
        let mut start = if text.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
        while start < text.len() && faults.len() < most {
            let rest = &text[start..];
            let length = rest.iter().position(|&b| b == b'\n').unwrap_or(rest.len());
            match parse_line(&rest[..length]) {
                Ok(Some((name, label))) => {
                    let id = entries.len() as u64;
                    if blank > blanks.last().map_or(0, |&(_, before)| before) {
                        blanks.push((id, blank));
                    }
                    entries.push(Entry { label, start: start as u32 });
                    text[start + name] = 0;
                }
                Ok(None) => blank += 1,
                Err(what) => {
                    let line = entries.len() as u64 + blank + 1;
                    faults.push(Error::new(ErrorKind::Data, what).at_line(line));
                    blank += 1;
                }
            }
            start += length + 1;
        }
        if entries.is_empty() && faults.is_empty() {
            return Err(Error::new(ErrorKind::Data, "the list names no sample"));
        }
        entries.shrink_to_fit();
        Ok((Lines { text, entries, blanks }, faults))
    }

    fn name(&self, id: u64) -> &CStr {
        let start = self.entries[id as usize].start as usize;
        CStr::from_bytes_until_nul(&self.text[start..]).expect("parse ended every name")
    }

    /// The line of sample `id`, from 1.
    fn number(&self, id: u64) -> u64 {
        let runs = self.blanks.partition_point(|&(first, _)| first <= id);
        let blank = runs.checked_sub(1).map_or(0, |i| self.blanks[i].1);
        id + blank + 1
    }
}

/// Length of the name at the start of `line`, and the label at its end; `None` for a blank line.
fn parse_line(line: &[u8]) -> Result<Option<(usize, i64)>, String> {
    let line = line.trim_ascii_end();
    if line.is_empty() {
        return Ok(None);
    }
    let split = line.iter().rposition(u8::is_ascii_whitespace).map_or(0, |at| at + 1);
    let (name, label) = (line[..split].trim_ascii_end(), &line[split..]);
    if name.is_empty() {
        return Err(format!("expected \"name label\", found only {}", quote(label)));
    }
    if !label.iter().all(u8::is_ascii_digit) {
        return Err(format!("the label is {}, expected an integer from 0 up", quote(label)));
    }
    let digits = std::str::from_utf8(label).expect("digits are ASCII");
    let label = digits.parse().map_err(|_| format!("the label {} is too large", quote(label)))?;
    if name.contains(&0) {
        return Err("a NUL byte in the name: the list must be UTF-8 text".into());
    }
    match leaves(name) {
        Some(what) => Err(format!("the name {} {what}", quote(name))),
        None => Ok(Some((name.len(), label))),
    }
}

/// Why a name cannot stay in the data directory, whatever is on the disk.
fn leaves(name: &[u8]) -> Option<&'static str> {
    if name.starts_with(b"/") {
        Some("is absolute; names are relative to the data directory")
    } else if name.split(|&b| b == b'/').any(|part| part == b"..") {
        Some("has a \"..\"; names stay in the data directory")
    } else {
        None
    }
}

/// At most 60 characters of a list's text, on one line.
fn quote(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let short: String = text.chars().take(60).collect();
    if short.len() < text.len() { format!("{short:?}…") } else { format!("{short:?}") }
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &[u8]) -> Vec<(String, i64, u64)> {
        let lines = Lines::read(text.to_vec(), 1).unwrap().0;
        let each = |id| {
            let name = lines.name(id).to_string_lossy().into_owned();
            (name, lines.entries[id as usize].label, lines.number(id))
        };
        (0..lines.entries.len() as u64).map(each).collect()
    }

    fn fault(text: &[u8]) -> String {
        let error = match Lines::read(text.to_vec(), 1) {
            Ok((_, faults)) => faults.into_iter().next().unwrap(),
            Err(error) => error,
        };
        error.at_path("labels.txt").to_string()
    }

    #[test]
    fn lines_are_read_from_their_end() {
        let one = |name: &str, label| vec![(name.to_string(), label, 1)];
        for text in ["a.jpg 3", "a.jpg 3\n", "a.jpg 3\r\n", "a.jpg\t3 \t\n", "\u{FEFF}a.jpg 3"] {
            assert_eq!(parsed(text.as_bytes()), one("a.jpg", 3), "{text:?}");
        }
        assert_eq!(parsed(b"b c.jpg  3"), one("b c.jpg", 3));
        assert_eq!(parsed(b"img 12 5"), one("img 12", 5));
        assert_eq!(parsed(b" a 007"), one(" a", 7));
        assert_eq!(parsed(b"a..b/c 0"), one("a..b/c", 0));
        assert_eq!(parsed(b"a 9223372036854775807"), one("a", i64::MAX));
        assert_eq!(parsed("\u{e9}\u{3000}.jpg 1".as_bytes()), one("\u{e9}\u{3000}.jpg", 1));
    }

    #[test]
    fn blank_lines_count_as_lines() {
        let expected =
            [("a", 0, 3), ("b", 1, 4), ("b", 2, 6)].map(|(n, l, i)| (n.to_string(), l, i));
        assert_eq!(parsed(b"\n \t\r\na 0\nb 1\n\nb 2\n\n"), expected);
    }

    #[test]
    fn faults_name_the_line() {
        let ok = "a 0\n\n";
        let cases = [
            ("a.jpg", "labels.txt:3: expected \"name label\", found only \"a.jpg\""),
            ("a.jpg ", "labels.txt:3: expected \"name label\", found only \"a.jpg\""),
            (" 7", "labels.txt:3: expected \"name label\", found only \"7\""),
            ("a cat", "labels.txt:3: the label is \"cat\", expected an integer from 0 up"),
            ("a -1", "labels.txt:3: the label is \"-1\", expected an integer from 0 up"),
            ("a +1", "labels.txt:3: the label is \"+1\", expected an integer from 0 up"),
            ("a 1.5", "labels.txt:3: the label is \"1.5\", expected an integer from 0 up"),
            (
                "a 9223372036854775808",
                "labels.txt:3: the label \"9223372036854775808\" is too large",
            ),
            (
                "/etc/passwd 0",
                "labels.txt:3: the name \"/etc/passwd\" is absolute; names are relative to the data directory",
            ),
            (
                "a/../../b 0",
                "labels.txt:3: the name \"a/../../b\" has a \"..\"; names stay in the data directory",
            ),
            (
                ".. 0",
                "labels.txt:3: the name \"..\" has a \"..\"; names stay in the data directory",
            ),
            ("a\0b 0", "labels.txt:3: a NUL byte in the name: the list must be UTF-8 text"),
        ];
        for (line, expected) in cases {
            assert_eq!(fault(format!("{ok}{line}\nz 1\n").as_bytes()), expected);
        }
        for text in ["", "\n\n", " \r\n", "\u{FEFF}"] {
            assert_eq!(fault(text.as_bytes()), "labels.txt: the list names no sample");
        }
    }

    #[test]
    fn a_check_goes_on_past_wrong_lines() {
        let (lines, faults) = Lines::read(b"a 0\nb\n\nc -1\nd 1\n".to_vec(), 9).unwrap();
        let found: Vec<_> = faults.iter().map(Error::line).collect();
        assert_eq!(found, [Some(2), Some(4)]);
        assert_eq!((lines.entries.len(), lines.number(1)), (2, 5));
    }

    proptest::proptest! {
        /// Any bytes are a list or an error, and every name of a list is what its line says.
        #[test]
        fn any_bytes(text in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            if let Ok((lines, _)) = Lines::read(text.clone(), usize::MAX) {
                let text: Vec<&[u8]> = text.split(|&b| b == b'\n').collect();
                for id in 0..lines.entries.len() as u64 {
                    let line = text[lines.number(id) as usize - 1];
                    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
                    assert!(line.starts_with(lines.name(id).to_bytes()));
                }
            }
        }
    }
}
