//! JPEGs of a batch for a GPU, which decodes them all in three launches: `entropy`, `idct`, `colour`.
//!
//! Here is what the kernels read: a picture's numbers, and a pool of what pictures share (codes, factors,
//! places), each content once. Whoever launches brings the memory.

use super::args::{
    ColourArgs, EntropyArgs, Form, IdctArgs, MOST_BLOCKS, Picture, Run, Scan, Slots,
};
use super::entropy::{Group, LANES};
use super::header::Frame;
use super::layout::Layout;
use super::part::Part;
use super::{Prepared, bits};
use crate::decoder::{Region, Scale};
use bytemuck::bytes_of;
use std::collections::HashMap;
use std::ops::Range;
use std::sync::Arc;
use xxhash_rust::xxh3::xxh3_64;

/// Pixels that one thread decodes, at most. It takes some 0.1 ms for a thousand, and all wait for the last.
pub(super) const SERIAL: u64 = 4096;
/// Pixels of a picture of several threads.
const LARGEST: u64 = 1 << 22;
/// Where parts of tables and of memory start.
const ALIGN: usize = 256;
/// Multiprocessors of a large GPU. Where pictures are few, each gets some of them.
const PROCESSORS: u32 = 128;
const THREADS: u32 = 256;
/// Blocks that a picture gets for its colours, at most; they go round.
const MOST_TILES: u32 = 64;

/// What pictures of one header share.
pub(super) struct Shape {
    layout: Layout,
    /// But for the codes, which lie in the pool.
    form: Form,
    /// The codes of each component.
    dc: Vec<Piece>,
    ac: Vec<Piece>,
    /// Factors and places of each run.
    runs: Vec<[Piece; 2]>,
    /// The last coefficient of each group where nobody looks for it.
    unknown: Piece,
    /// Whether each restart interval has a thread.
    many: bool,
}

/// Bytes for the pool.
struct Piece {
    bytes: Box<[u8]>,
    hash: u64,
}

impl Piece {
    fn new(bytes: &[u8]) -> Self {
        Piece { bytes: bytes.into(), hash: xxh3_64(bytes) }
    }
}

impl Shape {
    /// `None`: there is no memory for it, or it is too large.
    pub(super) fn of(frame: &Frame) -> Option<Self> {
        let fits = u64::from(frame.width) * u64::from(frame.height) <= LARGEST;
        let whole = Region::whole(frame.width, frame.height);
        let part = || Part::of(frame, whole, Scale::Full);
        let layout = fits.then(|| Layout::one_band(frame, part()))??;
        let (columns, rows) = layout.part.all;
        let mcus = u32::try_from(columns * rows).ok()?;
        let interval = layout.interval.min(mcus);
        let mut slots = [Slots::default(); MOST_BLOCKS];
        for (slot, block) in slots.iter_mut().zip(&layout.blocks) {
            *slot = Slots::of(block);
        }
        let form = Form {
            dc: [0; 3],
            ac: [0; 3],
            columns: columns as u32,
            mcus,
            interval,
            intervals: mcus.div_ceil(interval),
            blocks: layout.blocks.len() as u32,
            unused: 0,
            slots,
            places: Form::PLACES,
        };
        let parts = layout.runs.iter().zip(&layout.quantisation);
        Some(Shape {
            dc: frame.components.iter().map(|c| Piece::new(bytes_of(&c.dc.codes()))).collect(),
            ac: frame.components.iter().map(|c| Piece::new(bytes_of(&c.ac.codes()))).collect(),
            runs: parts
                .map(|(run, factors)| {
                    [Piece::new(factors), Piece::new(bytemuck::cast_slice(&run.places.at))]
                })
                .collect(),
            unknown: Piece::new(&vec![63; layout.groups]),
            many: many(&layout),
            layout,
            form,
        })
    }
}

fn pixels(layout: &Layout) -> u64 {
    let (width, height) = layout.part.size;
    width as u64 * height as u64
}

/// Whether each restart interval has a thread.
fn many(layout: &Layout) -> bool {
    let (columns, rows) = layout.part.all;
    (layout.interval as usize) < columns * rows && pixels(layout) > SERIAL
}

/// Pixels that one thread decodes.
pub(super) fn serial(layout: &Layout) -> u64 {
    let (h, v) = layout.part.halved;
    match many(layout) {
        true => u64::from(layout.interval) * (64 * h * v) as u64,
        false => pixels(layout),
    }
}

/// What is there once of each content.
#[derive(Default)]
struct Pool {
    bytes: Vec<u8>,
    known: HashMap<u64, u32>,
}

impl Pool {
    /// Where the part is. `None`: there is more than 32 bits can tell.
    fn place(&mut self, part: &Piece) -> Option<u32> {
        if let Some(&at) = self.known.get(&part.hash)
            && self.bytes[at as usize..].starts_with(&part.bytes)
        {
            return Some(at);
        }
        let at = self.bytes.len().next_multiple_of(16);
        let number = u32::try_from(at + part.bytes.len()).is_ok().then_some(at as u32)?;
        self.bytes.resize(at, 0);
        self.bytes.extend_from_slice(&part.bytes);
        self.known.insert(part.hash, number);
        Some(number)
    }
}

/// A header's parts in the pool.
struct Placed {
    prepared: Arc<Prepared>,
    form: u32,
    runs: Vec<[u32; 2]>,
    unknown: u32,
}

/// A picture.
struct Entry {
    placed: usize,
    image: u32,
    /// Of its intervals with threads of their own, where each begins in the file.
    starts: Range<usize>,
    /// Bytes of the file.
    length: u32,
    /// Its first group of all, and its first byte of all planes.
    group: usize,
    planes: usize,
}

/// Pictures that are decoded together.
#[derive(Default)]
pub struct Batch {
    pool: Pool,
    placed: Vec<Placed>,
    /// By the address of what was prepared, which `placed` keeps.
    known: HashMap<usize, usize>,
    entries: Vec<Entry>,
    starts: Vec<u32>,
    runs: usize,
    groups: usize,
    planes: usize,
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

/// Arguments of a kernel, and its grid.
#[derive(Debug, Clone, Copy)]
pub struct Launch<A> {
    /// The structure that the kernel declares.
    pub args: A,
    /// What the host's entry counts: scans, runs, pictures.
    pub n: u32,
    /// Blocks of the grid.
    pub blocks: u32,
    /// Threads of a block.
    pub threads: u32,
}

/// Offsets in the tables.
struct Tables {
    scans: usize,
    runs: usize,
    run_of: usize,
    pictures: usize,
    pool: usize,
    len: usize,
}

impl Batch {
    /// Adds a picture, whose status word is number `image`. `jpeg` is the whole file, which begins with the
    /// header of `prepared`. False: it is not for here, and nothing was added.
    pub fn add(&mut self, prepared: &Arc<Prepared>, jpeg: &[u8], image: u32) -> bool {
        self.try_add(prepared, jpeg, image).is_some()
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
        self.starts.push(scan as u32);
        let whole = !shape.many
            || bits::restarts(&jpeg[scan..], form.intervals as usize, |at| {
                self.starts.push((scan + at) as u32);
            })
            .is_some();
        let placed = if whole { self.place(prepared, shape) } else { None };
        let Some(placed) = placed else {
            self.starts.truncate(first);
            return None;
        };
        let starts = first..self.starts.len();
        let (group, planes) = (self.groups, self.planes);
        self.entries.push(Entry { placed, image, starts, length, group, planes });
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
        let unknown = if shape.many { self.pool.place(&shape.unknown)? } else { 0 };
        self.placed.push(Placed { prepared: prepared.clone(), form, runs, unknown });
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
        self.zeros_len() + self.planes
    }

    /// How many of those have to be zero before; a multiple of four.
    pub fn zeros_len(&self) -> usize {
        self.groups * size_of::<Group>() + self.groups.next_multiple_of(ALIGN)
    }

    fn tables(&self) -> Tables {
        let mut end = 0;
        let mut part = |bytes: usize| {
            let at = end;
            end = (at + bytes).next_multiple_of(ALIGN);
            at
        };
        Tables {
            scans: part(self.starts.len() * size_of::<Scan>()),
            runs: part(self.runs * size_of::<Run>()),
            run_of: part(self.groups * 4),
            pictures: part(self.entries.len() * size_of::<Picture>()),
            pool: part(self.pool.bytes.len()),
            len: end,
        }
    }

    /// Writes the tables, of [`Batch::tables_len`] bytes. `ends` has of each picture in the order in which
    /// they were added where its file is, and where its pixels go: dense RGB of the size that is stored.
    ///
    /// # Panics
    /// Where `to` is shorter.
    pub fn write(&self, to: &mut [u8], memory: Memory, ends: impl Iterator<Item = [u64; 2]>) {
        let tables = self.tables();
        let last_of = memory.scratch + (self.groups * size_of::<Group>()) as u64;
        let planes = memory.scratch + self.zeros_len() as u64;
        let pool = memory.tables + tables.pool as u64;
        to[tables.pool..][..self.pool.bytes.len()].copy_from_slice(&self.pool.bytes);
        let mut table = |start: usize, number: usize, entry: &[u8]| {
            to[start + number * entry.len()..][..entry.len()].copy_from_slice(entry);
        };
        let (mut scans, mut runs, mut groups) = (0, 0, 0);
        for (number, (entry, [file, pixels])) in self.entries.iter().zip(ends).enumerate() {
            let placed = &self.placed[entry.placed];
            let shape = placed.prepared.shape().expect("was there when it was added");
            let coefficients = memory.scratch + (entry.group * size_of::<Group>()) as u64;
            let last = last_of + entry.group as u64;
            for (k, &start) in self.starts[entry.starts.clone()].iter().enumerate() {
                let scan = Scan {
                    bytes: file + u64::from(start),
                    coefficients,
                    last: if shape.many { 0 } else { last },
                    length: entry.length - start,
                    form: placed.form,
                    first: k as u32,
                    count: if shape.many { 1 } else { shape.form.intervals },
                    image: entry.image,
                    unused: 0,
                };
                table(tables.scans, scans, bytes_of(&scan));
                scans += 1;
            }
            let base = planes + entry.planes as u64;
            let Layout { band, runs: layouts, .. } = &shape.layout;
            for (run, &[factors, places]) in layouts.iter().zip(&placed.runs) {
                let count = run.groups(*band).len();
                let first = (run.first * size_of::<Group>()) as u64;
                let run_last = match shape.many {
                    true => pool + u64::from(placed.unknown),
                    false => last + run.first as u64,
                };
                let entry = Run {
                    coefficients: coefficients + first,
                    quantisation: pool + u64::from(factors),
                    planes: base,
                    places: pool + u64::from(places),
                    last: run_last,
                    first: groups as u32,
                    groups: count as u32,
                    stride: run.places.stride,
                    paired: run.places.paired.into(),
                    // Threads without a block would only wait for the others.
                    lanes: LANES as u32,
                    side: run.places.side,
                    unused: 0,
                    image: entry.image,
                };
                table(tables.runs, runs, bytes_of(&entry));
                for group in groups..groups + count {
                    table(tables.run_of, group, bytes_of(&(runs as u32)));
                }
                (runs, groups) = (runs + 1, groups + count);
            }
            table(tables.pictures, number, bytes_of(&picture(&shape.layout, base, pixels)));
        }
    }

    /// The first launch.
    pub fn entropy(&self, memory: Memory) -> Launch<EntropyArgs> {
        let (tables, n) = (self.tables(), self.starts.len() as u32);
        // A warp takes as long as all of its threads' ways together: while there is room, they have fewer.
        let threads = n.div_ceil(PROCESSORS).next_power_of_two().min(32);
        let args = EntropyArgs {
            scans: memory.tables + tables.scans as u64,
            pool: memory.tables + tables.pool as u64,
            status: memory.status,
            n,
            unused: 0,
        };
        Launch { args, n, blocks: n.div_ceil(threads), threads }
    }

    /// The second.
    pub fn idct(&self, memory: Memory) -> Launch<IdctArgs> {
        let tables = self.tables();
        let args = IdctArgs {
            runs: memory.tables + tables.runs as u64,
            run_of: memory.tables + tables.run_of as u64,
            status: memory.status,
            n: self.groups as u32,
            unused: 0,
        };
        let blocks = (self.groups * LANES).div_ceil(THREADS as usize) as u32;
        Launch { args, n: self.runs as u32, blocks, threads: THREADS }
    }

    /// The third.
    pub fn colour(&self, memory: Memory) -> Launch<ColourArgs> {
        let pairs = |entry: &Entry| {
            let (width, height) = self.placed[entry.placed].prepared.size();
            u64::from(width.div_ceil(2)) * u64::from(height)
        };
        let most = self.entries.iter().map(pairs).max().unwrap_or(0);
        let tiles = most.div_ceil(u64::from(THREADS)).clamp(1, MOST_TILES.into()) as u32;
        let n = self.entries.len() as u32;
        let pictures = memory.tables + self.tables().pictures as u64;
        let args = ColourArgs { pictures, n, tiles };
        Launch { args, n, blocks: n * tiles, threads: THREADS }
    }
}

/// All of a picture, whose planes begin at `base`.
fn picture(layout: &Layout, base: u64, pixels: u64) -> Picture {
    let &Part { size: (width, height), halved: (h, v), chroma, .. } = &layout.part;
    let luma = &layout.planes[0];
    let [cb, cr] = if let [_, cb, cr] = &layout.planes[..] { [cb, cr] } else { [luma, luma] };
    let number = |n: usize| n as i32;
    Picture {
        planes: [luma, cb, cr].map(|plane| base + plane.at as u64),
        to: pixels,
        chroma_size: [width.div_ceil(h), height.div_ceil(v)].map(number),
        strides: [luma.stride, cb.stride].map(number),
        firsts: [0; 2],
        lefts: [0; 2],
        columns: [0, number(width)],
        top: 0,
        rows: [0, number(height)],
        chroma: chroma as u32,
    }
}
