//! CIFAR-10 in its official binary layout, mapped into memory.
//!
//! <https://www.cs.toronto.edu/~kriz/cifar.html>: files of 10,000 records, each one label byte and
//! 3,072 bytes of pixels (32x32; the red plane, then green, then blue; rows top down).
#![allow(unsafe_code)]

use super::file_list::parse_names;
use super::{Content, Reader};
use crate::error::{Error, ErrorKind, Result};
use rustix::fs::{Mode, OFlags};
use std::path::{Path, PathBuf};

/// Rows and columns of an image.
pub const SIDE: u32 = 32;
/// Bytes of an image.
pub const PIXELS: usize = 3 * (SIDE * SIDE) as usize;

const RECORD: usize = 1 + PIXELS;
const RECORDS: usize = 10_000;
const TRAIN: &[&str] = &[
    "data_batch_1.bin",
    "data_batch_2.bin",
    "data_batch_3.bin",
    "data_batch_4.bin",
    "data_batch_5.bin",
];
const VALID: &[&str] = &["test_batch.bin"];
const CLASSES: [&str; 10] =
    ["airplane", "automobile", "bird", "cat", "deer", "dog", "frog", "horse", "ship", "truck"];

/// The train or valid part of CIFAR-10; hands out pixels as they lie in the file, without decoding.
pub struct Cifar10 {
    files: Vec<memmap2::Mmap>,
    names: &'static [&'static str],
    classes: Vec<String>,
}

impl Cifar10 {
    /// Maps the binaries in `root`, or in `root/cifar-10-batches-bin` where the official archive
    /// puts them: the 50,000 training images or the 10,000 others.
    ///
    /// Errors: a missing file, one that does not hold exactly 10,000 records, a label above 9.
    pub fn open(root: &Path, train: bool) -> Result<Cifar10> {
        let names = if train { TRAIN } else { VALID };
        let inner = root.join("cifar-10-batches-bin");
        let dir = if root.join(names[0]).exists() || !inner.is_dir() { root } else { &inner };
        let files: Vec<_> = names.iter().map(|name| map(&dir.join(name))).collect::<Result<_>>()?;
        for (file, name) in files.iter().zip(names) {
            // One pass over the file now, so that no epoch meets a wrong label at its end.
            if let Some(at) = file.chunks_exact(RECORD).position(|r| r[0] > 9) {
                let what = format!("record {at} has label {}, above 9", file[at * RECORD]);
                return Err(Error::new(ErrorKind::Data, what).at_path(dir.join(name)));
            }
        }
        Ok(Cifar10 { files, names, classes: read_classes(&dir.join("batches.meta.txt"))? })
    }

    /// The label, 0 to 9, and the 3,072 bytes of pixels of image `id`: planes R, G, B of 32x32.
    pub fn image(&self, id: u64) -> (u8, &[u8]) {
        let id = id as usize;
        let record = &self.files[id / RECORDS][id % RECORDS * RECORD..][..RECORD];
        (record[0], &record[1..])
    }
}

impl Reader for Cifar10 {
    fn len(&self) -> u64 {
        (self.files.len() * RECORDS) as u64
    }

    fn label(&self, id: u64) -> i64 {
        self.image(id).0.into()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn place(&self, id: u64) -> PathBuf {
        let id = id as usize;
        format!("{} record {}", self.names[id / RECORDS], id % RECORDS).into()
    }

    fn read(&self, id: u64, buf: &mut Vec<u8>) -> Result<Content> {
        buf.clear();
        buf.extend_from_slice(self.image(id).1);
        Ok(Content::Planar { height: SIDE, width: SIDE })
    }
}

fn map(path: &Path) -> Result<memmap2::Mmap> {
    // Without NONBLOCK, opening a FIFO would wait for a writer.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let file = rustix::fs::open(path, flags, Mode::empty())
        .map_err(|e| Error::io("open", path, e.into()))?;
    let file = std::fs::File::from(file);
    let found = file.metadata().map_err(|e| Error::io("read", path, e))?;
    let expected = (RECORDS * RECORD) as u64;
    if !found.is_file() || found.len() != expected {
        let what = if !found.is_file() {
            "is not a regular file".to_string()
        } else {
            let (found, record) = (found.len(), RECORD);
            format!("has {found} bytes, expected {expected} ({RECORDS} records of {record} bytes)")
        };
        return Err(Error::new(ErrorKind::Data, what).at_path(path));
    }
    // SAFETY: the map is read-only and private to this process. What remains is another process
    // that changes the file meanwhile: bytes are only ever copied out or compared, never kept as
    // anything with invalid values, and the length was checked; cutting the file short under a
    // running program ends it with SIGBUS, as it does every program that maps files.
    unsafe { memmap2::Mmap::map(&file) }.map_err(|e| Error::io("map", path, e))
}

/// The names in `batches.meta.txt`, or the well-known ones where that file is missing.
fn read_classes(path: &Path) -> Result<Vec<String>> {
    let text = match std::fs::read(path) {
        Ok(text) => text,
        Err(e) if e.kind() == std::io::ErrorKind::NotFound => {
            return Ok(CLASSES.map(String::from).to_vec());
        }
        Err(e) => return Err(Error::io("read", path, e)),
    };
    let names = parse_names(&text).map_err(|e| e.at_path(path))?;
    if names.len() != CLASSES.len() {
        let what = format!("names {} classes, expected 10", names.len());
        return Err(Error::new(ErrorKind::Data, what).at_path(path));
    }
    Ok(names)
}
