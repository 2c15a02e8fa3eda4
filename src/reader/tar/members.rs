//! The regular files in a tar archive, one after another.
//!
//! Long names of GNU tar and of PAX headers are followed, and PAX sizes. What is no regular file and no
//! directory is refused: what it stands for is not in the archive. So is an archive without the block
//! of zeros at its end, since nothing else tells one that was cut between two files.

use super::header::{self, BLOCK};
use crate::error::{Error, ErrorKind, Result};
use crate::reader::fault::Gone;
use crate::reader::map::Map;

/// Bytes of a long name, or of a PAX header.
const LIMIT: u64 = 1 << 20;

/// A regular file.
pub(super) struct Member {
    /// Its path in the archive: any bytes but NUL.
    pub(super) name: Vec<u8>,
    /// Where its content starts, in bytes.
    pub(super) start: u64,
    /// Bytes of its content, which is within the archive.
    pub(super) size: u64,
}

/// Walks an archive.
pub(super) struct Members<'a> {
    map: &'a Map,
    /// Where the next header is.
    at: u64,
}

/// What headers in front of a member say about it.
#[derive(Default)]
struct Extended {
    name: Option<Vec<u8>>,
    size: Option<u64>,
}

/// An error at byte `at` of the archive.
pub(super) fn fault(at: u64, what: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Data, format!("at byte {at}: {what}")).at_offset(at)
}

/// The same where the bytes could not be read.
pub(super) fn gone(at: u64) -> impl Fn(Gone) -> Error {
    move |Gone| {
        let what = format!("at byte {at}: cannot be read: cut short meanwhile, or the disk failed");
        Error::new(ErrorKind::Io, what).at_offset(at)
    }
}

impl<'a> Members<'a> {
    pub(super) fn new(map: &'a Map) -> Self {
        Members { map, at: 0 }
    }

    /// The next regular file; `None` at the archive's end. Errors say at which byte.
    pub(super) fn next(&mut self) -> Result<Option<Member>> {
        let mut extended = Extended::default();
        loop {
            let at = self.at;
            let mut block = [0; BLOCK];
            if self.map.len() - at < BLOCK as u64 {
                return Err(fault(at, "cut off: no header and no end of the archive"));
            }
            self.map.copy(at, &mut block).map_err(gone(at))?;
            let Some(header) = header::parse(&block).map_err(|what| fault(at, what))? else {
                if extended.name.is_some() || extended.size.is_some() {
                    return Err(fault(at, "the archive ends where a file is announced"));
                }
                return self.check_end(at + BLOCK as u64).map(|()| None);
            };
            let is_file = matches!(header.kind, 0 | b'0' | b'7');
            let size = extended.size.filter(|_| is_file).unwrap_or(header.size);
            let start = at + BLOCK as u64;
            let left = self.map.len() - start;
            if size > left {
                let what = format!("cut off: a file of {size} bytes, of which {left} are there");
                return Err(fault(at, what));
            }
            // The last one may lack its padding; that the archive's end is missing is found then.
            self.at = (start + size).next_multiple_of(BLOCK as u64).min(self.map.len());
            match header.kind {
                _ if is_file => {
                    let name = extended.name.unwrap_or(header.name);
                    // So the oldest tar marks directories.
                    if name.ends_with(b"/") {
                        extended = Extended::default();
                        continue;
                    }
                    return Ok(Some(Member { name, start, size }));
                }
                b'5' => extended = Extended::default(),
                b'L' => {
                    let name = self.content(at, start, size)?;
                    let end = name.iter().position(|&byte| byte == 0).unwrap_or(name.len());
                    extended.name = Some(name[..end].to_vec());
                }
                // Where a link leads to, which is refused when it comes.
                b'K' => {}
                b'x' => {
                    let records = self.content(at, start, size)?;
                    extended.read(&records).map_err(|what| fault(at, what))?;
                }
                b'g' => {
                    let records = self.content(at, start, size)?;
                    let mut all = Extended::default();
                    all.read(&records).map_err(|what| fault(at, what))?;
                    if all.name.is_some() || all.size.is_some() {
                        return Err(fault(
                            at,
                            "a PAX header that gives all files one name or size",
                        ));
                    }
                }
                kind => return Err(fault(at, refusal(kind))),
            }
        }
    }

    /// The content of a header in front of a member.
    fn content(&self, at: u64, start: u64, size: u64) -> Result<Vec<u8>> {
        if size > LIMIT {
            return Err(fault(at, format!("a long name or PAX header of {size} bytes")));
        }
        let mut bytes = vec![0; size as usize];
        self.map.copy(start, &mut bytes).map_err(gone(start))?;
        Ok(bytes)
    }

    /// Nothing comes behind the archive's end but padding. Another archive would go unread.
    fn check_end(&self, from: u64) -> Result<()> {
        let mut some = vec![0; 1 << 16];
        let mut at = from;
        while at < self.map.len() {
            let count = (self.map.len() - at).min(some.len() as u64);
            let bytes = &mut some[..count as usize];
            self.map.copy(at, bytes).map_err(gone(at))?;
            if let Some(first) = bytes.iter().position(|&byte| byte != 0) {
                let what =
                    "bytes behind the archive's end: damaged, or several archives in one file";
                return Err(fault(at + first as u64, what));
            }
            at += count;
        }
        Ok(())
    }
}

impl Extended {
    /// Takes what the records of a PAX header say: `LENGTH KEY=VALUE`, each ended by a newline.
    fn read(&mut self, mut records: &[u8]) -> Result<(), &'static str> {
        const WRONG: &str = "a PAX header whose records are none";
        while !records.is_empty() {
            let blank = records.iter().position(|&byte| byte == b' ').ok_or(WRONG)?;
            let length = decimal(&records[..blank]).ok_or(WRONG)?;
            let length = usize::try_from(length).map_err(|_| WRONG)?;
            if length > records.len() || length < blank + 2 {
                return Err(WRONG);
            }
            let (record, rest) = records.split_at(length);
            let record = record[blank + 1..].strip_suffix(b"\n").ok_or(WRONG)?;
            let equals = record.iter().position(|&byte| byte == b'=').ok_or(WRONG)?;
            let (key, value) = (&record[..equals], &record[equals + 1..]);
            match key {
                b"path" if value.contains(&0) => return Err("a NUL byte in a name"),
                b"path" => self.name = Some(value.to_vec()),
                b"size" => self.size = Some(decimal(value).ok_or(WRONG)?),
                _ if key.starts_with(b"GNU.sparse.") => return Err(refusal(b'S')),
                _ => {}
            }
            records = rest;
        }
        Ok(())
    }
}

fn decimal(digits: &[u8]) -> Option<u64> {
    let digits = std::str::from_utf8(digits).ok()?;
    digits.bytes().all(|digit| digit.is_ascii_digit()).then(|| digits.parse().ok())?
}

/// Why a member of this kind is no file to read.
fn refusal(kind: u8) -> &'static str {
    match kind {
        b'1' | b'2' => {
            "a link, where a shard has files: pack with --dereference --hard-dereference"
        }
        b'3' | b'4' | b'6' => "a device or FIFO, where a shard has files",
        b'S' => "a sparse file, which is not read",
        b'M' | b'V' => "a part of an archive of several volumes",
        _ => "a member of a kind that is not known",
    }
}
