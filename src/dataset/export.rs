//! Writes a [`Source`] as a directory of JPEG files with a label list.
//!
//! The directory holds `0.jpg`, `1.jpg`, …, `classes.txt`, and `labels.txt`, which comes last and
//! whole: where it is, everything it names is. A file appears under its name whole or not at all.
//!
//! What is there already is compared with what would be written, byte for byte, so a second run
//! takes up an interrupted one, repairs a damaged directory, follows changed settings, and finds a
//! complete one complete. No record of progress can be wrong, because there is none; encoding
//! 60,000 images of 32x32 just to compare them takes a second.

use super::{Source, claim};
use crate::error::{Error, ErrorKind, Result};
use crate::reader::Root;
use rayon::prelude::*;
use rustix::fs::{AtFlags, Mode, OFlags};
use std::ffi::CString;
use std::fmt::Write as _;
use std::os::fd::OwnedFd;
use std::path::Path;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use turbojpeg::{Compressor, Image, PixelFormat, Subsamp};

/// How images are encoded: baseline JPEG, standard Huffman tables, accurate DCT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Jpeg {
    /// 1 to 100.
    pub quality: u8,
    /// How densely colour is kept.
    pub subsampling: Subsampling,
}

/// Pixels that share one colour sample.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Subsampling {
    /// 2x2 of them, as most cameras and programs do.
    S420,
    /// 2 side by side.
    S422,
    /// Each has its own.
    S444,
}

/// What [`export`] did.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Images written.
    pub written: u64,
    /// Images that were there already, byte for byte.
    pub kept: u64,
    /// Whether the directory is whole now; otherwise the export was stopped.
    pub complete: bool,
}

/// Images encoded by one thread with one encoder before it looks for other work.
const CHUNK: u64 = 64;

/// Writes `source` into `dir`, which is made where it is missing, on rayon's current pool.
///
/// `progress` is called with the number of images done since its last call, from any thread. When
/// `stop` becomes true the images under way are finished and the report says that it is not
/// complete. Then, as after an error, every file there is whole, and labels.txt is missing unless
/// nothing had to change.
pub fn export(
    source: &dyn Source,
    dir: &Path,
    jpeg: Jpeg,
    progress: &(dyn Fn(u64) + Sync),
    stop: &AtomicBool,
) -> Result<Report> {
    let target = Target::open(dir)?;
    let (done, written) = (AtomicU64::new(0), AtomicU64::new(0));
    let chunk = |first: u64| -> Result<()> {
        let mut encoder = Encoder::new(source.side(), jpeg)?;
        let mut found = Vec::new();
        for index in first..(first + CHUNK).min(source.len()) {
            if stop.load(Ordering::Relaxed) {
                break;
            }
            source.image(index, &mut encoder.rgb)?;
            if target.update(&format!("{index}.jpg"), encoder.encode()?, &mut found)? {
                written.fetch_add(1, Ordering::Relaxed);
            }
            done.fetch_add(1, Ordering::Relaxed);
            progress(1);
        }
        Ok(())
    };
    let chunks = source.len().div_ceil(CHUNK);
    (0..chunks).into_par_iter().map(|i| i * CHUNK).try_for_each(chunk)?;
    let (done, written) = (done.into_inner(), written.into_inner());
    let complete = done == source.len();
    if complete {
        target.finish(source)?;
    }
    Ok(Report { written, kept: done - written, complete })
}

/// The directory that is written.
struct Target<'a> {
    dir: &'a Path,
    fd: OwnedFd,
    /// The same directory for reading what is there.
    root: Root,
    /// Whether labels.txt has been taken away, since it no longer tells the truth.
    withdrawn: OnceLock<Result<()>>,
}

impl<'a> Target<'a> {
    fn open(dir: &'a Path) -> Result<Target<'a>> {
        let fd = claim(dir)?;
        Ok(Target { dir, fd, root: Root::open(dir, false)?, withdrawn: OnceLock::new() })
    }

    /// Makes file `name` hold `content`; false where it did already. `found` is scratch.
    fn update(&self, name: &str, content: &[u8], found: &mut Vec<u8>) -> Result<bool> {
        let c_name = CString::new(name).expect("names are made here");
        let same_length = content.len() as u64;
        if self.root.read(&c_name, same_length, found).is_ok() && found == content {
            return Ok(false);
        }
        self.withdrawn.get_or_init(|| self.remove(LABELS)).clone()?;
        self.replace(name, content)?;
        Ok(true)
    }

    /// Puts `content` under `name` in one step.
    fn replace(&self, name: &str, content: &[u8]) -> Result<()> {
        let part = part_name(rayon::current_thread_index());
        let failed = |e: rustix::io::Errno| Error::io("write", self.dir.join(name), e.into());
        let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::TRUNC;
        let flags = flags | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
        let mode = Mode::from_raw_mode(0o666);
        let file = rustix::fs::openat(&self.fd, &part, flags, mode).map_err(failed)?;
        let mut rest = content;
        let mut result = Ok(());
        while result.is_ok() && !rest.is_empty() {
            match rustix::io::write(&file, rest) {
                Ok(n) => rest = &rest[n..],
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => result = Err(failed(e)),
            }
        }
        if result.is_ok() && name == LABELS {
            result = rustix::fs::fsync(&file).map_err(failed);
        }
        drop(file);
        if result.is_ok() {
            result = rustix::fs::renameat(&self.fd, &part, &self.fd, name).map_err(failed);
        }
        if result.is_err() {
            // The first error is the one to tell.
            let _ = self.remove(&part);
        }
        result
    }

    fn remove(&self, name: &str) -> Result<()> {
        match rustix::fs::unlinkat(&self.fd, name, AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(e) => Err(Error::io("remove", self.dir.join(name), e.into())),
        }
    }

    /// Writes the lists, the label list last, and clears away what a killed run left.
    fn finish(&self, source: &dyn Source) -> Result<()> {
        for thread in (0..rayon::current_num_threads()).map(Some).chain([None]) {
            self.remove(&part_name(thread))?;
        }
        let classes: String = source.classes().iter().map(|name| format!("{name}\n")).collect();
        let mut found = Vec::new();
        self.update("classes.txt", classes.as_bytes(), &mut found)?;
        let mut labels = String::new();
        for index in 0..source.len() {
            writeln!(labels, "{index}.jpg {}", source.label(index)).expect("a string has room");
        }
        if self.withdrawn.get().is_some() {
            // labels.txt must not survive a power failure that the images do not.
            rustix::fs::syncfs(&self.fd).map_err(|e| Error::io("sync", self.dir, e.into()))?;
        }
        self.update(LABELS, labels.as_bytes(), &mut found)?;
        Ok(())
    }
}

const LABELS: &str = "labels.txt";

/// One name a thread, hidden, so that no reader takes it for a sample.
fn part_name(thread: Option<usize>) -> String {
    thread.map_or(".main.part".to_string(), |thread| format!(".{thread}.part"))
}

/// A compressor with the image it takes and the bytes it gives.
struct Encoder {
    compressor: Compressor,
    side: usize,
    rgb: Vec<u8>,
    bytes: Vec<u8>,
}

impl Encoder {
    fn new(side: u32, jpeg: Jpeg) -> Result<Encoder> {
        let side = side as usize;
        let make = || {
            let mut compressor = Compressor::new()?;
            compressor.set_quality(jpeg.quality.into())?;
            compressor.set_subsamp(match jpeg.subsampling {
                Subsampling::S420 => Subsamp::Sub2x2,
                Subsampling::S422 => Subsamp::Sub2x1,
                Subsampling::S444 => Subsamp::None,
            })?;
            let bytes = vec![0; compressor.buf_len(side, side)?];
            Ok(Encoder { compressor, side, rgb: vec![0; 3 * side * side], bytes })
        };
        make().map_err(refused)
    }

    fn encode(&mut self) -> Result<&[u8]> {
        let (width, height) = (self.side, self.side);
        let pixels = self.rgb.as_slice();
        let image = Image { pixels, width, pitch: 3 * width, height, format: PixelFormat::RGB };
        let length = self.compressor.compress_to_slice(image, &mut self.bytes).map_err(refused)?;
        Ok(&self.bytes[..length])
    }
}

fn refused(e: turbojpeg::Error) -> Error {
    Error::new(ErrorKind::Unsupported, format!("libjpeg-turbo cannot encode: {e}"))
}
