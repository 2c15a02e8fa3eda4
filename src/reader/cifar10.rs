//! CIFAR-10 in its official binary layout.
//!
//! <https://www.cs.toronto.edu/~kriz/cifar.html>: files of 10,000 records, each one label byte and
//! 3,072 bytes of pixels (32x32; the red plane, then green, then blue; rows top down).
//!
//! Pixels are read when they are asked for, and not mapped: these files are for exports, where a call
//! more for each image does not count.

use super::file_list::parse_names;
use super::{Content, Reader};
use crate::error::{Error, ErrorKind, Result};
use crate::file;
use std::fs::File;
use std::io;
use std::os::unix::fs::FileExt;
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
    files: Vec<Records>,
    names: &'static [&'static str],
    classes: Vec<String>,
}

impl Cifar10 {
    /// Opens the binaries in `root`, or in `root/cifar-10-batches-bin` where the official archive
    /// puts them: the 50,000 training images or the 10,000 others.
    ///
    /// Errors: a missing file, one that does not hold exactly 10,000 records, a label above 9.
    pub fn open(root: &Path, train: bool) -> Result<Cifar10> {
        let names = if train { TRAIN } else { VALID };
        let inner = root.join("cifar-10-batches-bin");
        let dir = if root.join(names[0]).exists() || !inner.is_dir() { root } else { &inner };
        let files =
            names.iter().map(|name| Records::open(dir.join(name))).collect::<Result<_>>()?;
        Ok(Cifar10 { files, names, classes: read_classes(&dir.join("batches.meta.txt"))? })
    }

    /// The label of image `id`, 0 to 9.
    pub fn label(&self, id: u64) -> u8 {
        let id = id as usize;
        self.files[id / RECORDS].labels[id % RECORDS]
    }

    /// Puts the [`PIXELS`] bytes of image `id` into `planes`: R, G, B of 32x32.
    ///
    /// Errors name the file and the record, such as one that is no longer there.
    pub fn image(&self, id: u64, planes: &mut [u8; PIXELS]) -> Result<()> {
        let id = id as usize;
        self.files[id / RECORDS].read(id % RECORDS, 1, planes)
    }
}

impl Reader for Cifar10 {
    fn len(&self) -> u64 {
        (self.files.len() * RECORDS) as u64
    }

    fn label(&self, id: u64) -> i64 {
        Cifar10::label(self, id).into()
    }

    fn classes(&self) -> &[String] {
        &self.classes
    }

    fn place(&self, id: u64) -> PathBuf {
        let id = id as usize;
        format!("{} record {}", self.names[id / RECORDS], id % RECORDS).into()
    }

    fn read(&self, id: u64, buf: &mut Vec<u8>) -> Result<Content> {
        buf.resize(PIXELS, 0);
        let planes = buf.as_mut_slice().try_into().expect("it has that length");
        self.image(id, planes).map_err(|e| e.at_sample(id))?;
        Ok(Content::Planar { height: SIDE, width: SIDE })
    }
}

/// An open file of records, and the labels in it.
struct Records {
    file: File,
    path: PathBuf,
    labels: Vec<u8>,
}

impl Records {
    /// Reads all of the file once, so that no epoch meets a wrong label at its end.
    fn open(path: PathBuf) -> Result<Records> {
        /// Records that are read at once.
        const SOME: usize = 100;

        let file = file::open(&path)?;
        let found = file.metadata().map_err(|e| Error::io("read", &path, e))?.len();
        let expected = (RECORDS * RECORD) as u64;
        if found != expected {
            let record = RECORD;
            let what = format!(
                "has {found} bytes, expected {expected} ({RECORDS} records of {record} bytes)"
            );
            return Err(Error::new(ErrorKind::Data, what).at_path(path));
        }
        let mut records = Records { file, path, labels: Vec::with_capacity(RECORDS) };
        let mut some = vec![0; SOME * RECORD];
        for first in (0..RECORDS).step_by(SOME) {
            records.read(first, 0, &mut some)?;
            records.labels.extend(some.iter().step_by(RECORD));
        }
        if let Some(at) = records.labels.iter().position(|label| *label > 9) {
            let what = format!("record {at} has label {}, above 9", records.labels[at]);
            return Err(Error::new(ErrorKind::Data, what).at_path(records.path));
        }
        Ok(records)
    }

    /// Fills `bytes` from byte `offset` of a record on.
    fn read(&self, record: usize, offset: usize, bytes: &mut [u8]) -> Result<()> {
        let start = (record * RECORD + offset) as u64;
        self.file.read_exact_at(bytes, start).map_err(|e| match e.kind() {
            io::ErrorKind::UnexpectedEof => {
                let what = format!("has been cut short since it was opened: no record {record}");
                Error::new(ErrorKind::Io, what).at_path(&self.path)
            }
            _ => Error::io(&format!("read record {record}"), &self.path, e),
        })
    }
}

/// The names in `batches.meta.txt`, or the well-known ones where that file is missing.
fn read_classes(path: &Path) -> Result<Vec<String>> {
    if path.symlink_metadata().is_err() {
        return Ok(CLASSES.map(String::from).to_vec());
    }
    let text = file::read(path, 1 << 16)?;
    let names = parse_names(&text).map_err(|e| e.at_path(path))?;
    if names.len() != CLASSES.len() {
        let what = format!("names {} classes, expected 10", names.len());
        return Err(Error::new(ErrorKind::Data, what).at_path(path));
    }
    Ok(names)
}
