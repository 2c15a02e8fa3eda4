//! Where each sample lies, and the index file that keeps it, so that nothing of a shard is looked at
//! before its samples are read.
//!
//! `index.forebay` is, in little-endian order and without gaps:
//!
//! | bytes | what |
//! |---|---|
//! | 8 | `fbyindex` |
//! | 4, 4 | version: 1; number of shards S, from 1 |
//! | 8, 8 | number of samples N, from 1; bytes of names L |
//! | 24 S | a shard: its size in bytes, its first sample, where its names start; 8 each |
//! | 24 N | a sample: where its image starts, in blocks of 512 bytes (4); the image's bytes (4); label (8); XXH3 of the image, lower half (4); where its name starts, from its shard's names on (4) |
//! | L | names, each ended by a NUL |
//! | 8 | XXH3 of all before |
//!
//! Shards lie beside it: `shard-000000.tar`, and so on. Samples are in the shards' order. A name is
//! the one that the sample had in the directory that was packed.

use super::header::BLOCK;
use crate::error::{Error, ErrorKind, Result};
use std::ffi::CStr;
use std::io::{self, Read, Write};
use xxhash_rust::xxh3::{Xxh3, xxh3_64};

/// The index's name.
pub(crate) const INDEX: &str = "index.forebay";

const MAGIC: [u8; 8] = *b"fbyindex";
const VERSION: u32 = 1;
const HEAD: u64 = 32;
const SHARD: u64 = 24;
const SAMPLE: usize = 24;

/// A sample of a shard.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Sample {
    /// Where its image starts in the shard, in bytes: a multiple of [`BLOCK`].
    pub(crate) start: u64,
    /// Bytes of the image.
    pub(crate) bytes: u32,
    /// From 0.
    pub(crate) label: i64,
    /// [`check`] of the image; 0 where nobody has looked at it yet.
    pub(crate) check: u32,
}

/// What tells an image's bytes from others.
pub(crate) fn check(image: &[u8]) -> u32 {
    xxh3_64(image) as u32
}

/// The name of shard `number`.
pub(crate) fn shard_name(number: usize) -> String {
    format!("shard-{number:06}.tar")
}

/// A shard's row.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Shard {
    /// Bytes.
    pub(crate) size: u64,
    /// Its first sample.
    pub(crate) first: u64,
    /// Where its names start.
    names: u64,
}

/// Every sample of every shard: 24 bytes beside its name.
#[derive(Default)]
pub(crate) struct Table {
    shards: Vec<Shard>,
    /// As the index has them.
    samples: Vec<u8>,
    names: Vec<u8>,
}

impl Table {
    pub(crate) fn len(&self) -> u64 {
        (self.samples.len() / SAMPLE) as u64
    }

    pub(crate) fn shards(&self) -> &[Shard] {
        &self.shards
    }

    /// The shard that holds sample `id`.
    pub(crate) fn shard_of(&self, id: u64) -> usize {
        self.shards.partition_point(|shard| shard.first <= id) - 1
    }

    pub(crate) fn sample(&self, id: u64) -> Sample {
        let row = &self.samples[id as usize * SAMPLE..][..SAMPLE];
        Sample {
            start: u64::from(u32_at(row, 0)) * BLOCK as u64,
            bytes: u32_at(row, 4),
            label: u64_at(row, 8) as i64,
            check: u32_at(row, 16),
        }
    }

    pub(crate) fn name(&self, id: u64) -> &CStr {
        let names = self.shards[self.shard_of(id)].names;
        let start = names + u64::from(u32_at(&self.samples, id as usize * SAMPLE + 20));
        let name = CStr::from_bytes_until_nul(&self.names[start as usize..]);
        name.expect("every name is ended, by push or by what was checked when it was read")
    }

    /// Begins a shard.
    pub(crate) fn begin(&mut self) {
        self.shards.push(Shard { size: 0, first: self.len(), names: self.names.len() as u64 });
    }

    /// Ends it: it has `size` bytes.
    pub(crate) fn end(&mut self, size: u64) {
        self.shards.last_mut().expect("a shard was begun").size = size;
    }

    /// Adds a sample to the shard that was begun. Errors: a shard of more than 2 TiB, or with more
    /// than 4 GiB of names.
    pub(crate) fn push(&mut self, sample: Sample, name: &[u8]) -> Result<()> {
        let shard = self.shards.last().expect("a shard was begun");
        let block = u32::try_from(sample.start / BLOCK as u64);
        let block = block.map_err(|_| too_large("of more than 2 TiB"))?;
        let at = u32::try_from(self.names.len() as u64 - shard.names);
        let at = at.map_err(|_| too_large("with more than 4 GiB of names"))?;
        if name.contains(&0) {
            return Err(Error::new(ErrorKind::Data, "a NUL byte in a sample's name"));
        }
        self.samples.extend_from_slice(&block.to_le_bytes());
        self.samples.extend_from_slice(&sample.bytes.to_le_bytes());
        self.samples.extend_from_slice(&sample.label.to_le_bytes());
        self.samples.extend_from_slice(&sample.check.to_le_bytes());
        self.samples.extend_from_slice(&at.to_le_bytes());
        self.names.extend_from_slice(name);
        self.names.push(0);
        Ok(())
    }

    /// Writes the index.
    pub(crate) fn write(&self, out: impl Write) -> io::Result<()> {
        let mut out = Hashed { inner: out, hash: Xxh3::new() };
        out.put(&MAGIC)?;
        out.put(&VERSION.to_le_bytes())?;
        out.put(&(self.shards.len() as u32).to_le_bytes())?;
        out.put(&self.len().to_le_bytes())?;
        out.put(&(self.names.len() as u64).to_le_bytes())?;
        for shard in &self.shards {
            for number in [shard.size, shard.first, shard.names] {
                out.put(&number.to_le_bytes())?;
            }
        }
        out.put(&self.samples)?;
        out.put(&self.names)?;
        let sum = out.hash.digest();
        out.inner.write_all(&sum.to_le_bytes())
    }

    /// Reads an index of `size` bytes. Whatever it holds, what comes back is whole: every sample lies
    /// within its shard's size and has a name.
    pub(crate) fn read(file: impl Read, size: u64) -> Result<Table> {
        let mut file = Hashed { inner: file, hash: Xxh3::new() };
        let damaged = |what: String| Error::new(ErrorKind::Data, format!("{what}; pack again"));
        if size < HEAD {
            return Err(damaged(format!("has {size} bytes, and an index has more")));
        }
        let head = file.take(HEAD)?;
        if head[..8] != MAGIC {
            return Err(damaged("is no index of forebay's, or a damaged one".into()));
        }
        let (version, shards) = (u32_at(&head, 8), u64::from(u32_at(&head, 12)));
        if version != VERSION {
            let what = format!("is an index of version {version}, and this program reads 1");
            return Err(damaged(what));
        }
        let (samples, names) = (u64_at(&head, 16), u64_at(&head, 24));
        let sizes = [shards.checked_mul(SHARD), samples.checked_mul(SAMPLE as u64), Some(names)];
        let add = |sum: u64, part: Option<u64>| sum.checked_add(part?);
        if sizes.into_iter().try_fold(HEAD + 8, add) != Some(size) {
            let what = format!(
                "has {size} bytes, which is not what an index of {samples} samples has: cut off or damaged"
            );
            return Err(damaged(what));
        }
        let rows = file.take(shards * SHARD)?;
        let table = Table {
            shards: rows.chunks_exact(SHARD as usize).map(Shard::read).collect(),
            samples: file.take(samples * SAMPLE as u64)?,
            names: file.take(names)?,
        };
        let sum = file.hash.digest();
        if file.take(8)? != sum.to_le_bytes() {
            return Err(damaged("is damaged: its checksum is that of other bytes".into()));
        }
        table.verify().map_err(damaged)?;
        Ok(table)
    }

    /// Whether what it says can be, since a checksum keeps nobody from writing anything.
    fn verify(&self) -> Result<(), String> {
        let bounds = |k: usize| match self.shards.get(k) {
            Some(shard) => (shard.first, shard.names),
            None => (self.len(), self.names.len() as u64),
        };
        let grows = |k: usize| bounds(k).0 < bounds(k + 1).0 && bounds(k).1 < bounds(k + 1).1;
        if self.shards.is_empty() || bounds(0) != (0, 0) || self.names.last() != Some(&0) {
            return Err("is no index: it has no shard, no sample or no name".into());
        }
        if let Some(k) = (0..self.shards.len()).find(|&k| !grows(k)) {
            return Err(format!("is no index: {} has no sample of its own", shard_name(k)));
        }
        for (k, shard) in self.shards.iter().enumerate() {
            let (end, names) = bounds(k + 1);
            for id in shard.first..end {
                let Sample { start, bytes, label, .. } = self.sample(id);
                let name = u64::from(u32_at(&self.samples, id as usize * SAMPLE + 20));
                let inside = start + u64::from(bytes) <= shard.size;
                if !inside || label < 0 || shard.names + name >= names {
                    return Err(format!("is no index: sample {id} is not in {}", shard_name(k)));
                }
            }
        }
        Ok(())
    }
}

impl Shard {
    fn read(row: &[u8]) -> Shard {
        Shard { size: u64_at(row, 0), first: u64_at(row, 8), names: u64_at(row, 16) }
    }
}

/// A file with the hash of what went by.
struct Hashed<F> {
    inner: F,
    hash: Xxh3,
}

impl<W: Write> Hashed<W> {
    fn put(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.hash.update(bytes);
        self.inner.write_all(bytes)
    }
}

impl<R: Read> Hashed<R> {
    /// The next `count` bytes, as many as the file's size has room for.
    fn take(&mut self, count: u64) -> Result<Vec<u8>> {
        let mut bytes = Vec::new();
        let room = usize::try_from(count).ok().and_then(|room| bytes.try_reserve_exact(room).ok());
        if room.is_none() {
            let what = format!("out of memory for {count} bytes of it");
            return Err(Error::new(ErrorKind::Resources, what));
        }
        let read = self.inner.by_ref().take(count).read_to_end(&mut bytes);
        read.map_err(|e| Error::io("read", INDEX, e))?;
        if bytes.len() as u64 != count {
            return Err(Error::new(ErrorKind::Io, "its size changed while it was read"));
        }
        self.hash.update(&bytes);
        Ok(bytes)
    }
}

fn too_large(what: &str) -> Error {
    Error::new(ErrorKind::Limit, format!("a shard {what}"))
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(bytes[at..at + 4].try_into().expect("four bytes"))
}

fn u64_at(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(bytes[at..at + 8].try_into().expect("eight bytes"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::default();
        for (shard, samples) in [(0, 0..3_u32), (1, 3..5)] {
            table.begin();
            for id in samples {
                let start = u64::from(id + 1) * 512;
                let sample =
                    Sample { start, bytes: 100 + id, label: i64::from(id) << 40, check: id };
                table.push(sample, format!("class {shard}/{id}.jpg").as_bytes()).unwrap();
            }
            table.end(4096);
        }
        table
    }

    fn written(table: &Table) -> Vec<u8> {
        let mut bytes = Vec::new();
        table.write(&mut bytes).unwrap();
        bytes
    }

    fn read(bytes: &[u8]) -> Result<Table> {
        Table::read(bytes, bytes.len() as u64)
    }

    /// With the checksum that fits.
    fn fitting(mut bytes: Vec<u8>) -> Vec<u8> {
        let end = bytes.len() - 8;
        let sum = xxh3_64(&bytes[..end]).to_le_bytes();
        bytes[end..].copy_from_slice(&sum);
        bytes
    }

    #[test]
    fn what_is_written_is_read() {
        let (table, again) = (table(), read(&written(&table())).unwrap());
        assert_eq!((again.len(), again.shards().len()), (5, 2));
        for id in 0..5 {
            assert_eq!(again.sample(id), table.sample(id));
            assert_eq!(again.name(id), table.name(id));
            assert_eq!(again.shard_of(id), usize::from(id > 2));
        }
        assert_eq!(again.name(4).to_bytes(), b"class 1/4.jpg");
        assert_eq!(again.sample(4), Sample { start: 2560, bytes: 104, label: 4 << 40, check: 4 });
        assert_eq!(again.shards()[1].size, 4096);
        assert_eq!(written(&again), written(&table));
        assert_eq!(shard_name(12), "shard-000012.tar");
    }

    #[test]
    fn damage_shows() {
        let whole = written(&table());
        for length in 0..whole.len() {
            let error = read(&whole[..length]).err().expect("cut off").to_string();
            assert!(error.ends_with("; pack again"), "{length}: {error}");
        }
        for at in 0..whole.len() {
            let mut bytes = whole.clone();
            bytes[at] ^= 1 << (at % 8);
            assert!(read(&bytes).is_err(), "{at}");
        }
        let error = Table::read(&whole[..40], whole.len() as u64).err().unwrap();
        assert_eq!(error.message(), "its size changed while it was read");
    }

    /// Whatever is written with a fitting checksum, every sample that is read has a name and a place.
    #[test]
    fn a_fitting_checksum_proves_nothing() {
        let whole = written(&table());
        let mut read_all_the_same = 0;
        for at in 0..whole.len() - 8 {
            for value in [0, 1, 0x7F, 0x80, 0xFF] {
                let mut bytes = whole.clone();
                bytes[at] = value;
                let Ok(table) = read(&fitting(bytes)) else { continue };
                read_all_the_same += 1;
                for id in 0..table.len() {
                    let Sample { start, bytes, label, .. } = table.sample(id);
                    let shard = &table.shards()[table.shard_of(id)];
                    assert!(start + u64::from(bytes) <= shard.size && label >= 0);
                    table.name(id);
                }
            }
        }
        assert!(read_all_the_same > 100);
        let mut huge = whole.clone();
        huge[16..24].fill(0xFF);
        assert!(read(&fitting(huge)).is_err());
    }

    #[test]
    fn what_no_row_can_hold_is_refused() {
        let mut table = table();
        let sample = Sample { start: 0, bytes: 0, label: 0, check: 0 };
        table.push(sample, b"a\0b").unwrap_err();
        let far = Sample { start: 512 << 32, ..sample };
        assert_eq!(table.push(far, b"a").unwrap_err().message(), "a shard of more than 2 TiB");
        assert_eq!(table.len(), 5);
    }
}
