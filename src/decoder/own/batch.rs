//! JPEGs of a batch for a GPU, which decodes them all in a few launches: `entropy` or `subsequence`, `idct`,
//! `colour`.
//!
//! Here is what the kernels read: a picture's numbers, and a pool of what pictures share (codes, factors,
//! places), each content once. Whoever launches brings the memory.

use super::Prepared;
use super::args::{Interval, Picture, Run, Scan};
use super::cut::{Cutting, Start, Way};
use super::group::Group;
use super::pool::{Piece, Pool};
use super::shape::Shape;
use bytemuck::bytes_of;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;

/// Where parts of tables and of memory start.
const ALIGN: usize = 256;

/// A header's parts in the pool.
pub(super) struct Placed {
    pub(super) prepared: Arc<Prepared>,
    pub(super) form: u32,
    pub(super) runs: Vec<[u32; 2]>,
}

/// A picture.
pub(super) struct Entry {
    pub(super) placed: usize,
    pub(super) image: u32,
    pub(super) way: Way,
    /// Of its intervals with threads of their own, or of all.
    pub(super) starts: Range<usize>,
    /// Bytes of the file.
    pub(super) length: u32,
    /// Its first group of all, and its first byte of all planes.
    pub(super) group: usize,
    pub(super) planes: usize,
    /// Where threads share groups: what is said of their last coefficients, in the pool.
    pub(super) unknown: u32,
}

/// Pictures that are decoded together.
#[derive(Default)]
pub struct Batch {
    pub(super) cutting: Cutting,
    pub(super) pool: Pool,
    pub(super) placed: Vec<Placed>,
    /// By the address of what was prepared, which `placed` keeps.
    known: HashMap<usize, usize>,
    pub(super) entries: Vec<Entry>,
    pub(super) starts: Vec<Start>,
    pub(super) runs: usize,
    pub(super) groups: usize,
    planes: usize,
    /// Starts that are threads, and that are cut.
    pub(super) scans: usize,
    pub(super) intervals: usize,
    /// Of all intervals, and of the longest.
    pub(super) subsequences: usize,
    pub(super) longest: u32,
}

/// Addresses of a batch's memory.
#[derive(Debug, Clone, Copy)]
pub struct Memory {
    /// [`Batch::tables_len`] bytes, which [`Batch::write`] made.
    pub tables: u64,
    /// [`Batch::scratch_len`] bytes. The first [`Batch::zeros_len`] are zero before the launches.
    pub scratch: u64,
    /// A 32-bit word an image: not 0 behind the launches where there is doubt, else left.
    pub status: u64,
}

/// Offsets in the tables.
pub(super) struct Tables {
    pub(super) scans: usize,
    pub(super) intervals: usize,
    pub(super) interval_of: usize,
    pub(super) runs: usize,
    pub(super) run_of: usize,
    pub(super) pictures: usize,
    pub(super) pool: usize,
    len: usize,
}

/// Offsets in the scratch.
pub(super) struct Scratch {
    /// The last coefficient of each group, behind the groups themselves.
    pub(super) last: usize,
    pub(super) planes: usize,
    /// Of a round, and of the next.
    pub(super) links: [usize; 2],
    pub(super) tallies: usize,
    len: usize,
}

/// Lays parts out behind each other.
fn parts() -> impl FnMut(usize) -> usize {
    let mut end = 0;
    move |bytes| {
        let at = end;
        end = (at + bytes).next_multiple_of(ALIGN);
        at
    }
}

impl Batch {
    /// An empty one whose pictures are cut so.
    ///
    /// # Panics
    /// If a number is outside of what [`Cutting`] says of it.
    pub fn new(cutting: Cutting) -> Self {
        assert!((1..=Cutting::MOST_BYTES).contains(&cutting.bytes) && cutting.rounds > 0);
        Batch { cutting, ..Batch::default() }
    }

    /// Adds a picture, whose status word is number `image`. `jpeg` is the whole file, which begins with the
    /// header of `prepared`. False: it is not for here, and nothing was added.
    pub fn add(&mut self, prepared: &Arc<Prepared>, jpeg: &[u8], image: u32) -> bool {
        let first = self.starts.len();
        let added = self.try_add(prepared, jpeg, image).is_some();
        if !added {
            self.starts.truncate(first);
        }
        added
    }

    fn try_add(&mut self, prepared: &Arc<Prepared>, jpeg: &[u8], image: u32) -> Option<()> {
        let shape = prepared.shape()?;
        let (form, scan) = (&shape.form, prepared.frame.scan);
        let length = u32::try_from(jpeg.len()).ok()?;
        // The shortest codes of a block are a bit each for its first value and its end. So a short file
        // that claims to be large takes no memory.
        let bits = jpeg.len().checked_sub(scan)? as u64 * 8;
        if bits < u64::from(form.mcus) * u64::from(form.blocks) * 2 {
            return None;
        }
        let first = self.starts.len();
        let way = self.cutting.starts(form, jpeg, scan, &mut self.starts)?;
        let starts = first..self.starts.len();
        let counts = || self.starts[starts.clone()].iter().map(|start| start.count);
        let subsequences = self.subsequences + counts().map(|n| n as usize).sum::<usize>();
        u32::try_from(subsequences).ok()?;
        let longest = counts().fold(self.longest, u32::max);

        let unknown = if way == Way::Whole { 0 } else { self.pool.place(&shape.unknown)? };
        let placed = self.place(prepared, shape)?;
        (self.subsequences, self.longest) = (subsequences, longest);
        match way {
            Way::Cut => self.intervals += starts.len(),
            Way::Whole | Way::Intervals => self.scans += starts.len(),
        }
        let (group, planes) = (self.groups, self.planes);
        self.entries.push(Entry { placed, image, way, starts, length, group, planes, unknown });
        self.runs += shape.runs.len();
        self.groups += shape.layout.groups;
        self.planes += shape.layout.memory.next_multiple_of(ALIGN);
        Some(())
    }

    fn place(&mut self, prepared: &Arc<Prepared>, shape: &Shape) -> Option<usize> {
        let key = Arc::as_ptr(prepared) as usize;
        if let Some(&known) = self.known.get(&key) {
            return Some(known);
        }
        let mut form = shape.form;
        for (k, (dc, ac)) in shape.dc.iter().zip(&shape.ac).enumerate() {
            (form.dc[k], form.ac[k]) = (self.pool.place(dc)?, self.pool.place(ac)?);
        }
        let form = self.pool.place(&Piece::new(bytes_of(&form)))?;
        let runs = shape
            .runs
            .iter()
            .map(|[factors, places]| Some([self.pool.place(factors)?, self.pool.place(places)?]));
        let runs = runs.collect::<Option<_>>()?;
        self.placed.push(Placed { prepared: prepared.clone(), form, runs });
        self.known.insert(key, self.placed.len() - 1);
        Some(self.placed.len() - 1)
    }

    /// Pictures.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.entries.is_empty()
    }

    /// Bytes of tables.
    pub fn tables_len(&self) -> usize {
        self.tables().len
    }

    /// Bytes that the kernels write between them.
    pub fn scratch_len(&self) -> usize {
        self.scratch().len
    }

    /// How many of those have to be zero before; a multiple of four.
    pub fn zeros_len(&self) -> usize {
        self.scratch().planes
    }

    pub(super) fn tables(&self) -> Tables {
        let mut part = parts();
        Tables {
            scans: part(self.scans * size_of::<Scan>()),
            intervals: part(self.intervals * size_of::<Interval>()),
            interval_of: part(self.subsequences * 4),
            runs: part(self.runs * size_of::<Run>()),
            run_of: part(self.groups * 4),
            pictures: part(self.entries.len() * size_of::<Picture>()),
            pool: part(self.pool.bytes.len()),
            len: part(0),
        }
    }

    pub(super) fn scratch(&self) -> Scratch {
        let mut part = parts();
        part(self.groups * size_of::<Group>());
        Scratch {
            last: part(self.groups),
            planes: part(self.planes),
            links: [part(self.subsequences * 4), part(self.subsequences * 4)],
            tallies: part(self.subsequences * 16),
            len: part(0),
        }
    }
}
