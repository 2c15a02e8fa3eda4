//! The lines of a label list in memory, compact enough for a hundred million of them.
//!
//! The list's own bytes are held, with each name ended by a NUL in place, so that a name costs no
//! allocation, no copy, and goes to the system as it lies. Beside them a line takes six bytes for where
//! it starts, and as few for its label as the highest asks for: labels are asked for by the batch, and to
//! find the digits of each would be a wait for memory.

use crate::error::{Error, ErrorKind, Result};
use memchr::{memchr, memchr_iter};
use std::ffi::CStr;

/// The lines that name a sample.
pub(super) struct Lines {
    text: Vec<u8>,
    starts: Vec<Start>,
    labels: Labels,
    /// Where blank or wrong lines come before a sample: its id and their count up to there. Enough to
    /// give every sample its line number; empty for most lists.
    blanks: Vec<(u64, u64)>,
}

/// Where a line starts, in 48 bits.
#[derive(Clone, Copy)]
struct Start([u8; 6]);

impl Start {
    fn new(at: usize) -> Self {
        let [a, b, c, d, e, f, ..] = (at as u64).to_le_bytes();
        Start([a, b, c, d, e, f])
    }

    fn at(self) -> usize {
        let [a, b, c, d, e, f] = self.0;
        u64::from_le_bytes([a, b, c, d, e, f, 0, 0]) as usize
    }
}

/// Labels from 0 up, in 1, 2, 4 or 8 bytes each: as many as the highest so far asks for.
struct Labels {
    width: usize,
    bytes: Vec<u8>,
    highest: i64,
}

impl Labels {
    const NONE: Labels = Labels { width: 1, bytes: Vec::new(), highest: 0 };

    /// False where there is no memory for it.
    fn push(&mut self, label: i64) -> bool {
        while self.width < 8 && label >> (8 * self.width) != 0 {
            let mut wider = Vec::new();
            if wider.try_reserve(2 * self.bytes.len()).is_err() {
                return false;
            }
            for label in self.bytes.chunks(self.width) {
                wider.extend_from_slice(label);
                wider.resize(wider.len() + self.width, 0);
            }
            (self.width, self.bytes) = (2 * self.width, wider);
        }
        if self.bytes.try_reserve(self.width).is_err() {
            return false;
        }
        self.bytes.extend_from_slice(&label.to_le_bytes()[..self.width]);
        self.highest = label.max(self.highest);
        true
    }

    fn get(&self, id: usize) -> i64 {
        let mut label = [0; 8];
        label[..self.width].copy_from_slice(&self.bytes[id * self.width..][..self.width]);
        i64::from_le_bytes(label)
    }
}

impl Lines {
    /// The lines that are right, and errors of the first `most` that are not.
    pub(super) fn read(mut text: Vec<u8>, most: usize) -> Result<(Lines, Vec<Error>)> {
        let mut starts: Vec<Start> = Vec::new();
        let mut faults = Vec::new();
        let mut blanks = Vec::new();
        let (mut blank, mut labels) = (0_u64, Labels::NONE);
        let mut start = if text.starts_with(b"\xEF\xBB\xBF") { 3 } else { 0 };
        while start < text.len() && faults.len() < most {
            let rest = &text[start..];
            let length = memchr(b'\n', rest).unwrap_or(rest.len());
            match parse_line(&rest[..length]) {
                Ok(Some((name, label))) => {
                    let id = starts.len() as u64;
                    if blank > blanks.last().map_or(0, |&(_, before)| before) {
                        blanks.push((id, blank));
                    }
                    if starts.try_reserve(1).is_err() || !labels.push(label) {
                        let text = format!("out of memory for more than {id} lines");
                        return Err(Error::new(ErrorKind::Resources, text));
                    }
                    starts.push(Start::new(start));
                    text[start + name] = 0;
                }
                Ok(None) => blank += 1,
                Err(what) => {
                    let line = starts.len() as u64 + blank + 1;
                    faults.push(Error::new(ErrorKind::Data, what).at_line(line));
                    blank += 1;
                }
            }
            start += length + 1;
        }
        if starts.is_empty() && faults.is_empty() {
            return Err(Error::new(ErrorKind::Data, "the list names no sample"));
        }
        starts.shrink_to_fit();
        labels.bytes.shrink_to_fit();
        Ok((Lines { text, starts, labels, blanks }, faults))
    }

    /// How many there are.
    pub(super) fn len(&self) -> u64 {
        self.starts.len() as u64
    }

    /// The name of sample `id`.
    pub(super) fn name(&self, id: u64) -> &CStr {
        CStr::from_bytes_until_nul(self.rest(id)).expect("reading ended every name")
    }

    /// The label of sample `id`.
    pub(super) fn label(&self, id: u64) -> i64 {
        self.labels.get(id as usize)
    }

    /// The highest label.
    pub(super) fn highest(&self) -> i64 {
        self.labels.highest
    }

    /// The line of sample `id`, from 1.
    pub(super) fn number(&self, id: u64) -> u64 {
        let runs = self.blanks.partition_point(|&(first, _)| first <= id);
        let blank = runs.checked_sub(1).map_or(0, |i| self.blanks[i].1);
        id + blank + 1
    }

    /// The text from the line of sample `id` on.
    fn rest(&self, id: u64) -> &[u8] {
        &self.text[self.starts[id as usize].at()..]
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
    if memchr(0, name).is_some() {
        return Err("a NUL byte in the name: the list must be UTF-8 text".into());
    }
    match leaves(name) {
        Some(what) => Err(format!("the name {} {what}", quote(name))),
        None => Ok(Some((name.len(), label))),
    }
}

/// Why a name cannot stay in the data directory, whatever is on the disk.
pub(super) fn leaves(name: &[u8]) -> Option<&'static str> {
    // Few names have two dots in a row, and the others are not looked at part by part.
    let dots = memchr_iter(b'.', name).any(|at| name.get(at + 1) == Some(&b'.'));
    if name.starts_with(b"/") {
        Some("is absolute; names are relative to the data directory")
    } else if dots && name.split(|&b| b == b'/').any(|part| part == b"..") {
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

#[cfg(test)]
mod tests {
    use super::*;

    fn parsed(text: &[u8]) -> Vec<(String, i64, u64)> {
        let lines = Lines::read(text.to_vec(), 1).unwrap().0;
        let each = |id| {
            let name = lines.name(id).to_string_lossy().into_owned();
            (name, lines.label(id), lines.number(id))
        };
        (0..lines.len()).map(each).collect()
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
        assert_eq!((lines.len(), lines.number(1)), (2, 5));
    }

    /// What a list of a hundred million lines costs beside its text, and how far its text may reach.
    #[test]
    fn a_line_takes_seven_bytes() {
        assert_eq!(size_of::<Start>(), 6);
        let far = (1 << 48) - 1;
        assert_eq!([0, 1 << 32, far].map(|at| Start::new(at).at()), [0, 1 << 32, far]);
        let lines = Lines::read(b"a 1\n".repeat(1000), 1).unwrap().0;
        assert!(lines.starts.capacity() < 1010 && lines.blanks.is_empty());
        assert!(lines.labels.bytes.capacity() < 1010);
    }

    #[test]
    fn labels_get_wider_as_they_come() {
        let labels = [0, 255, 7, 256, 65_535, 65_536, u32::MAX.into(), 1 << 32, 3, i64::MAX, 0];
        for count in 1..=labels.len() {
            let text: String = labels[..count].iter().map(|label| format!("a {label}\n")).collect();
            let lines = Lines::read(text.into(), 1).unwrap().0;
            let read: Vec<_> = (0..lines.len()).map(|id| lines.label(id)).collect();
            assert_eq!(read, labels[..count]);
            assert_eq!(Some(lines.highest()), read.into_iter().max());
        }
    }

    proptest::proptest! {
        /// Any bytes are a list or an error, and every name of a list is what its line says.
        #[test]
        fn any_bytes(text in proptest::collection::vec(proptest::prelude::any::<u8>(), 0..200)) {
            if let Ok((lines, _)) = Lines::read(text.clone(), usize::MAX) {
                let text: Vec<&[u8]> = text.split(|&b| b == b'\n').collect();
                for id in 0..lines.len() {
                    let line = text[lines.number(id) as usize - 1];
                    let line = line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line);
                    assert!(line.starts_with(lines.name(id).to_bytes()));
                    let label = lines.label(id).to_string();
                    assert!(line.trim_ascii_end().ends_with(label.as_bytes()));
                    assert!(lines.label(id) <= lines.highest());
                }
            }
        }
    }
}
