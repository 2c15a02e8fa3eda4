//! Writes the samples of any reader of image files as tar shards with an index.
//!
//! The shards have the layout of WebDataset, so that other tools read them: sample 17 is the members
//! `000000017.jpg`, the image's bytes as they are, and `000000017.cls`, its label as digits. Names that
//! samples had are in the index. The same samples give the same bytes.
//!
//! Everything is written under hidden names first. Then the new index is put beside them, the old one
//! taken away, and every shard renamed; the index gets its name last. So there is the old packing, or
//! the new one, or, for the moment of the renaming, a hidden index without another, which readers take
//! for what it is: a packing that was not finished.

use super::claim;
use crate::decoder;
use crate::error::{Error, ErrorKind, Result};
use crate::file::{self, beside, create_beside};
use crate::reader::tar::header::{BLOCK, append};
use crate::reader::tar::table::{INDEX, Sample, Table, check, shard_name};
use crate::reader::tar::{IMAGES, is_shard};
use crate::reader::{Content, Reader};
use std::fs::{self, File};
use std::io::{self, BufWriter, Write};
use std::os::fd::OwnedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

/// What [`pack`] wrote.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Report {
    /// Samples.
    pub samples: u64,
    /// Shards.
    pub shards: usize,
    /// Bytes of all shards.
    pub bytes: u64,
    /// Whether all of them are in place now; otherwise the packing was stopped, and nothing has changed.
    pub complete: bool,
}

/// Two blocks of zeros end an archive.
const END: usize = 2 * BLOCK;

/// Bytes that go to a shard at once.
const SOME: usize = 1 << 20;

/// Writes the samples of `reader` into `dir`, which is made where it is missing, in shards of at most
/// `shard_bytes` bytes; a sample that alone needs more gets a shard of its own. An earlier packing in
/// `dir` is replaced; other tar archives in it are an error, and a list or names of classes of others.
///
/// `progress` is called with the number of samples done since its last call. When `stop` becomes true,
/// and after an error, `dir` holds what it held before; after one of the system's at the last moment, or
/// where an earlier run had been killed then, a packing that readers refuse.
pub fn pack(
    reader: &dyn Reader,
    dir: &Path,
    shard_bytes: u64,
    progress: &dyn Fn(u64),
    stop: &AtomicBool,
) -> Result<Report> {
    let claimed = claim(dir)?;
    check_target(dir)?;
    let mut writer = Writer { dir, shard_bytes, open: None, table: Table::default(), bytes: 0 };
    let written = writer.write(reader, progress, stop).and_then(|complete| {
        if complete {
            writer.finish(reader.classes(), &claimed)?;
        }
        Ok(complete)
    });
    writer.clear();
    let complete = written?;
    let (samples, shards) = (writer.table.len(), writer.table.shards().len());
    Ok(Report { samples, shards, bytes: writer.bytes, complete })
}

/// Refuses a directory with archives that another program may have written.
fn check_target(dir: &Path) -> Result<()> {
    let index = dir.join(INDEX);
    let is_ours = index.exists() || beside(&index).exists();
    for name in names(dir)? {
        if !is_ours && ["labels.txt", "classes.txt"].contains(&&*name) {
            let what = "is there already, and not of a packing; give another directory";
            return Err(Error::new(ErrorKind::Data, what).at_path(dir.join(name)));
        }
        if is_shard(name.as_bytes()) && !(is_ours && shard_number(&name).is_some()) {
            let what = "is there already, and no shard of forebay's; give another directory";
            return Err(Error::new(ErrorKind::Data, what).at_path(dir.join(name)));
        }
    }
    Ok(())
}

/// Which shard has this name.
fn shard_number(name: &str) -> Option<usize> {
    let number = name.strip_prefix("shard-")?.strip_suffix(".tar")?.parse().ok()?;
    (shard_name(number) == name).then_some(number)
}

/// Names in a directory, but for those that are no text.
fn names(dir: &Path) -> Result<Vec<String>> {
    let failed = |e| Error::io("list", dir, e);
    let mut names = Vec::new();
    for entry in dir.read_dir().map_err(failed)? {
        names.extend(entry.map_err(failed)?.file_name().into_string().ok());
    }
    Ok(names)
}

struct Writer<'a> {
    dir: &'a Path,
    shard_bytes: u64,
    /// The shard that is written, and its bytes so far.
    open: Option<(BufWriter<File>, u64)>,
    table: Table,
    /// Bytes of the shards before.
    bytes: u64,
}

impl Writer<'_> {
    /// Writes every sample into hidden shards; false where it was stopped.
    fn write(
        &mut self,
        reader: &dyn Reader,
        progress: &dyn Fn(u64),
        stop: &AtomicBool,
    ) -> Result<bool> {
        let (mut image, mut members) = (Vec::new(), Vec::new());
        for id in 0..reader.len() {
            if stop.load(Ordering::Relaxed) {
                return Ok(false);
            }
            if reader.read(id, &mut image)? != Content::Encoded {
                let what =
                    "raw pixels, where tar shards hold image files; `forebay export` makes such";
                return Err(reader.locate(id, Error::new(ErrorKind::Data, what)));
            }
            self.sample(reader, id, &image, &mut members)?;
            progress(1);
        }
        self.end_shard()?;
        Ok(true)
    }

    fn sample(
        &mut self,
        reader: &dyn Reader,
        id: u64,
        image: &[u8],
        members: &mut Vec<u8>,
    ) -> Result<()> {
        let bytes = u32::try_from(image.len()).map_err(|_| {
            let what = format!("has {} bytes, and a shard's samples less than 4 GiB", image.len());
            reader.locate(id, Error::new(ErrorKind::Limit, what))
        })?;
        let (place, label) = (reader.place(id), reader.label(id));
        members.clear();
        append(members, &format!("{id:09}.{}", extension(&place, image)), image);
        append(members, &format!("{id:09}.cls"), label.to_string().as_bytes());
        let needed = (members.len() + END) as u64;
        if self.open.as_ref().is_some_and(|(_, at)| at + needed > self.shard_bytes) {
            self.end_shard()?;
        }
        if self.open.is_none() {
            self.table.begin();
            let path = self.path();
            let file = create_beside(&path).map_err(|e| Error::io("write", path, e))?;
            self.open = Some((BufWriter::with_capacity(SOME, file), 0));
        }
        let path = self.path();
        let (file, at) = self.open.as_mut().expect("just opened, or open");
        let start = *at + BLOCK as u64;
        let sample = Sample { start, bytes, label, check: check(image) };
        self.table
            .push(sample, place.as_os_str().as_bytes())
            .map_err(|error| reader.locate(id, error))?;
        file.write_all(members).map_err(|e| Error::io("write", path, e))?;
        *at += members.len() as u64;
        Ok(())
    }

    /// Where the shard that is written will lie.
    fn path(&self) -> PathBuf {
        self.dir.join(shard_name(self.table.shards().len() - 1))
    }

    fn end_shard(&mut self) -> Result<()> {
        let Some((mut file, at)) = self.open.take() else { return Ok(()) };
        let end = file.write_all(&[0; END]).and_then(|()| file.flush());
        end.map_err(|e| Error::io("write", self.path(), e))?;
        let size = at + END as u64;
        self.table.end(size);
        self.bytes += size;
        Ok(())
    }

    /// Puts everything in place.
    fn finish(&self, classes: &[String], dir: &OwnedFd) -> Result<()> {
        let index = self.dir.join(INDEX);
        let write = || -> io::Result<()> {
            let mut out = BufWriter::with_capacity(SOME, create_beside(&index)?);
            self.table.write(&mut out)?;
            out.flush()
        };
        write().map_err(|e| {
            // Beside no other index it would stand for a packing that was not finished.
            let _ = fs::remove_file(beside(&index));
            Error::io("write", &index, e)
        })?;
        // No name may outlive a power failure that the bytes under it do not.
        let sync = || rustix::fs::syncfs(dir).map_err(|e| Error::io("sync", self.dir, e.into()));
        sync()?;
        remove(&index)?;
        let count = self.table.shards().len();
        for number in 0..count {
            put(&self.dir.join(shard_name(number)))?;
        }
        // Of an earlier packing that had more.
        for name in names(self.dir)? {
            if shard_number(&name).is_some_and(|number| number >= count) {
                remove(&self.dir.join(name))?;
            }
        }
        let path = self.dir.join("classes.txt");
        if classes.is_empty() {
            remove(&path)?;
        } else {
            let text: String = classes.iter().map(|name| format!("{name}\n")).collect();
            file::put(&path, |file| file.write_all(text.as_bytes()))?;
        }
        sync()?;
        put(&index)?;
        sync()
    }

    /// Takes away what was written under hidden names. Those of a killed run have the same names, but
    /// there may be more of them.
    fn clear(&mut self) {
        self.open = None;
        // The error that led here is the one to tell.
        for name in names(self.dir).unwrap_or_default() {
            let hidden = name.strip_prefix('.').and_then(|name| name.strip_suffix(".partial"));
            if hidden.and_then(shard_number).is_some() {
                let _ = fs::remove_file(self.dir.join(name));
            }
        }
    }
}

/// Gives the file that lies hidden beside `path` its name.
fn put(path: &Path) -> Result<()> {
    fs::rename(beside(path), path).map_err(|e| Error::io("write", path, e))
}

fn remove(path: &Path) -> Result<()> {
    match fs::remove_file(path) {
        Err(e) if e.kind() != io::ErrorKind::NotFound => Err(Error::io("remove", path, e)),
        _ => Ok(()),
    }
}

/// What tells other tools that a member is an image: the extension of the sample's name, else what its
/// content looks like.
fn extension(place: &Path, image: &[u8]) -> String {
    let named = place.extension().map(|name| name.to_string_lossy().to_ascii_lowercase());
    if let Some(named) = named.filter(|named| IMAGES.contains(&named.as_str())) {
        return named;
    }
    let format = decoder::probe(image).map_or("jpeg", |header| header.format);
    match format {
        "jpeg" => "jpg".into(),
        "pnm" => "ppm".into(),
        other => other.into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extensions_are_images() {
        let png = b"\x89PNG\r\n\x1A\n";
        for (name, bytes, expected) in [
            ("a/b.JPG", &png[..], "jpg"),
            ("a.jpeg", b"", "jpeg"),
            ("a.0f3c", b"\xFF\xD8\xFF", "jpg"),
            ("no name", b"text", "jpg"),
        ] {
            assert_eq!(extension(Path::new(name), bytes), expected);
        }
        let mut gray = Vec::new();
        image::GrayImage::new(2, 2)
            .write_to(&mut io::Cursor::new(&mut gray), image::ImageFormat::Png)
            .unwrap();
        assert_eq!(extension(Path::new("a"), &gray), "png");
    }

    #[test]
    fn names_of_shards() {
        for name in ["shard-000000.tar", "shard-999999.tar", "shard-1000000.tar"] {
            assert!(shard_number(name).is_some(), "{name}");
        }
        for name in ["shard-0.tar", "shard-0000001.tar", "shard-00000a.tar", "x.tar", "shard-.tar"]
        {
            assert_eq!(shard_number(name), None, "{name}");
        }
    }
}
