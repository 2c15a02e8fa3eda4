//! The tables of a batch, as the kernels read them.

use super::args::{Interval, Run, Scan};
use super::batch::{Batch, Entry, Memory, Placed, Tables};
use super::cut::Way;
use super::group::{Group, LANES};
use super::layout::Layout;
use super::shape::Shape;
use bytemuck::{Pod, bytes_of};

/// Writes entries of tables, and counts what was written.
struct Writer<'a> {
    to: &'a mut [u8],
    tables: Tables,
    scans: usize,
    intervals: usize,
    subsequences: usize,
    runs: usize,
    groups: usize,
}

/// Where a picture's parts are.
struct Place<'a> {
    entry: &'a Entry,
    placed: &'a Placed,
    shape: &'a Shape,
    file: u64,
    coefficients: u64,
    /// Of its groups.
    last: u64,
    planes: u64,
    pool: u64,
}

impl Batch {
    /// Writes the tables, of [`Batch::tables_len`] bytes. `ends` has of each picture in the order in which
    /// they were added where its file is, and where its pixels go: dense RGB of the size that is stored.
    ///
    /// # Panics
    /// Where `to` is shorter.
    pub fn write(&self, to: &mut [u8], memory: Memory, ends: impl Iterator<Item = [u64; 2]>) {
        let (tables, scratch) = (self.tables(), self.scratch());
        let pool = memory.tables + tables.pool as u64;
        to[tables.pool..][..self.pool.bytes.len()].copy_from_slice(&self.pool.bytes);
        let mut writer =
            Writer { to, tables, scans: 0, intervals: 0, subsequences: 0, runs: 0, groups: 0 };
        for (number, (entry, [file, pixels])) in self.entries.iter().zip(ends).enumerate() {
            let placed = &self.placed[entry.placed];
            let shape = placed.prepared.shape().expect("was there when it was added");
            let place = Place {
                entry,
                placed,
                shape,
                file,
                coefficients: memory.scratch + (entry.group * size_of::<Group>()) as u64,
                last: memory.scratch + (scratch.last + entry.group) as u64,
                planes: memory.scratch + (scratch.planes + entry.planes) as u64,
                pool,
            };
            match entry.way {
                Way::Cut => writer.intervals(self, &place),
                Way::Whole | Way::Intervals => writer.scans(self, &place),
            }
            writer.runs(&place);
            writer.put(writer.tables.pictures, number, shape.picture(place.planes, pixels));
        }
    }
}

impl Writer<'_> {
    fn put<T: Pod>(&mut self, table: usize, number: usize, entry: T) {
        self.to[table + number * size_of::<T>()..][..size_of::<T>()]
            .copy_from_slice(bytes_of(&entry));
    }

    fn scans(&mut self, batch: &Batch, place: &Place<'_>) {
        let &Place { entry, placed, shape, .. } = place;
        let whole = entry.way == Way::Whole;
        for (k, start) in batch.starts[entry.starts.clone()].iter().enumerate() {
            let scan = Scan {
                bytes: place.file + u64::from(start.at),
                coefficients: place.coefficients,
                last: if whole { place.last } else { 0 },
                length: entry.length - start.at,
                form: placed.form,
                first: k as u32,
                count: if whole { shape.form.intervals } else { 1 },
                image: entry.image,
                unused: 0,
            };
            self.put(self.tables.scans, self.scans, scan);
            self.scans += 1;
        }
    }

    fn intervals(&mut self, batch: &Batch, place: &Place<'_>) {
        let &Place { entry, placed, .. } = place;
        for (k, start) in batch.starts[entry.starts.clone()].iter().enumerate() {
            let interval = Interval {
                bytes: place.file + u64::from(start.at),
                coefficients: place.coefficients,
                length: entry.length - start.at,
                form: placed.form,
                number: k as u32,
                first: self.subsequences as u32,
                count: start.count,
                image: entry.image,
            };
            self.put(self.tables.intervals, self.intervals, interval);
            for _ in 0..start.count {
                self.put(self.tables.interval_of, self.subsequences, self.intervals as u32);
                self.subsequences += 1;
            }
            self.intervals += 1;
        }
    }

    fn runs(&mut self, place: &Place<'_>) {
        let &Place { entry, placed, shape, .. } = place;
        let Layout { band, runs, .. } = &shape.layout;
        for (run, &[factors, places]) in runs.iter().zip(&placed.runs) {
            let count = run.groups(*band).len();
            let last = match entry.way {
                Way::Whole => place.last + run.first as u64,
                Way::Intervals | Way::Cut => place.pool + u64::from(entry.unknown),
            };
            let first = (run.first * size_of::<Group>()) as u64;
            let entry = Run {
                coefficients: place.coefficients + first,
                quantisation: place.pool + u64::from(factors),
                planes: place.planes,
                places: place.pool + u64::from(places),
                last,
                first: self.groups as u32,
                groups: count as u32,
                stride: run.places.stride,
                paired: run.places.paired.into(),
                // Threads without a block would only wait for the others.
                lanes: LANES as u32,
                side: run.places.side,
                unused: 0,
                image: entry.image,
            };
            self.put(self.tables.runs, self.runs, entry);
            for _ in 0..count {
                self.put(self.tables.run_of, self.groups, self.runs as u32);
                self.groups += 1;
            }
            self.runs += 1;
        }
    }
}
