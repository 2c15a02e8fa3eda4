//! What is queued on streams, and how a piece of it is done.

use crate::fault::Running;
use crate::memory::Memory;
use crate::module::Kernel;
use crate::random::{Pieces, Random};
use std::ops::Range;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// What operations act upon.
pub(crate) struct Machine {
    pub(crate) memory: Memory,
    pub(crate) random: Random,
    /// Things done that CUDA forbids, in words.
    pub(crate) violations: Vec<String>,
}

impl Machine {
    pub(crate) fn violation(&mut self, text: String) {
        self.violations.push(text);
    }
}

/// How far an event or a stream has come. Shared by the object and the operations that name it, so
/// that an object may be destroyed while they are queued.
#[derive(Clone, Default)]
pub(crate) struct Progress(Arc<AtomicU64>);

impl Progress {
    pub(crate) fn reach(&self, number: u64) {
        self.0.fetch_max(number, Relaxed);
    }

    pub(crate) fn reached(&self) -> u64 {
        self.0.load(Relaxed)
    }
}

/// A moment: when `progress` comes to `number`, which an operation on `stream` sees to.
#[derive(Clone, Default)]
pub(crate) struct Mark {
    pub(crate) progress: Progress,
    pub(crate) number: u64,
    pub(crate) stream: u64,
}

impl Mark {
    pub(crate) fn passed(&self) -> bool {
        self.progress.reached() >= self.number
    }
}

/// Where an upload's bytes are.
pub(crate) enum Source {
    /// In pinned memory, read when the copy runs.
    Pinned(usize),
    /// Pageable memory is staged at the call.
    Staged(Vec<u8>),
}

/// An image that nvJPEG has decoded and not yet written.
pub(crate) struct Picture {
    pub(crate) to: usize,
    /// Bytes from row to row of the destination.
    pub(crate) pitch: usize,
    /// Bytes of a row.
    pub(crate) row: usize,
    /// Rows that are written, one behind the other.
    pub(crate) pixels: Vec<u8>,
    /// The encoded bytes where they are pinned, and what they were at the call: the library may read
    /// them until the decode is done.
    pub(crate) encoded: Option<(usize, Vec<u8>)>,
}

impl Picture {
    pub(crate) fn rows(&self) -> u64 {
        (self.pixels.len() / self.row) as u64
    }
}

pub(crate) enum Work {
    /// Units: bytes.
    Upload { to: usize, from: Source, bytes: usize },
    /// From the device, to the host or to another place there. Units: bytes.
    Download { to: usize, from: usize, bytes: usize },
    /// Units: words of four bytes.
    Fill { to: usize, value: u32, words: usize },
    /// Units: blocks. The parameters are those of the launch call, in words for their alignment.
    Launch { kernel: &'static Kernel, args: Vec<u64>, blocks: u32, threads: u32 },
    /// Units: rows of all images, one image behind the other.
    Decode(Vec<Picture>),
    /// An event's record.
    Signal(Mark),
    /// Cannot run before the mark is passed.
    Await(Mark),
}

impl Work {
    fn units(&self) -> u64 {
        match self {
            Self::Upload { bytes, .. } | Self::Download { bytes, .. } => *bytes as u64,
            Self::Fill { words, .. } => *words as u64,
            Self::Launch { blocks, .. } => u64::from(*blocks),
            Self::Decode(pictures) => pictures.iter().map(Picture::rows).sum(),
            Self::Signal(_) | Self::Await(_) => 1,
        }
    }
}

/// Work and what is left of it.
pub(crate) struct Job {
    pub(crate) work: Work,
    pieces: Pieces,
}

impl Job {
    pub(crate) fn new(work: Work) -> Self {
        let pieces = Pieces::new(work.units());
        Self { work, pieces }
    }

    /// Whether it may run, now that it is its stream's head.
    pub(crate) fn ready(&self) -> bool {
        match &self.work {
            Work::Await(mark) => mark.passed(),
            _ => true,
        }
    }

    /// Runs a piece; true when nothing is left.
    pub(crate) fn advance(&mut self, machine: &mut Machine) -> bool {
        if self.pieces.is_empty() {
            return true;
        }
        machine.memory.set_open(true);
        let piece = self.pieces.take(&mut machine.random);
        if let Err(text) = self.work.run(piece, &machine.memory) {
            machine.violation(text);
            return true;
        }
        self.pieces.is_empty()
    }
}

impl Work {
    /// Does some of the units. The error is a violation.
    pub(crate) fn run(&self, units: Range<u64>, memory: &Memory) -> Result<(), String> {
        let (start, count) = (units.start as usize, (units.end - units.start) as usize);
        match self {
            Self::Upload { to, from, .. } => {
                let to = to + start;
                let late = |text| format!("an upload to memory freed before it ran: {text}");
                memory.on_device(to, count).map_err(late)?;
                let from = match from {
                    Source::Staged(bytes) => bytes[start..start + count].as_ptr(),
                    Source::Pinned(from) => {
                        let late =
                            |text| format!("an upload from memory freed before it ran: {text}");
                        memory.place(from + start, count).map_err(late)?;
                        (from + start) as *const u8
                    }
                };
                copy(from, to as *mut u8, count);
            }
            Self::Download { to, from, .. } => {
                let late = |text| format!("a download with memory freed before it ran: {text}");
                memory.on_device(from + start, count).map_err(late)?;
                memory.place(to + start, count).map_err(late)?;
                copy((from + start) as *const u8, (to + start) as *mut u8, count);
            }
            Self::Fill { to, value, .. } => {
                let to = to + 4 * start;
                let late = |text| format!("a fill of memory freed before it ran: {text}");
                memory.on_device(to, 4 * count).map_err(late)?;
                // SAFETY: the inside of a live allocation, open, at a multiple of four.
                unsafe { std::slice::from_raw_parts_mut(to as *mut u32, count) }.fill(*value);
            }
            Self::Launch { kernel, args, threads, .. } => {
                let running = Running::new(kernel);
                for block in units {
                    running.block(block as u32);
                    // SAFETY: the arguments are a copy of the kernel's struct. What they point to is
                    // the caller's affair, as on a device; guard pages stop what is outside.
                    unsafe { (kernel.block)(args.as_ptr().cast(), block as u32, *threads) };
                }
            }
            Self::Decode(pictures) => {
                let mut first = 0;
                for picture in pictures {
                    let last = first + picture.rows();
                    let rows = units.start.max(first)..units.end.min(last);
                    for row in rows {
                        picture.write((row - first) as usize, memory)?;
                    }
                    first = last;
                }
            }
            Self::Signal(mark) => mark.progress.reach(mark.number),
            Self::Await(_) => {}
        }
        Ok(())
    }
}

impl Picture {
    pub(crate) fn write(&self, row: usize, memory: &Memory) -> Result<(), String> {
        let late = |text| format!("a decode with memory freed before it ran: {text}");
        if let Some((address, bytes)) = &self.encoded {
            memory.place(*address, bytes.len()).map_err(late)?;
            // SAFETY: the inside of a live pinned allocation.
            let now = unsafe { std::slice::from_raw_parts(*address as *const u8, bytes.len()) };
            if now != bytes {
                return Err("the encoded bytes of an image changed before it was decoded".into());
            }
        }
        let to = self.to + row * self.pitch;
        memory.on_device(to, self.row).map_err(late)?;
        copy(self.pixels[row * self.row..].as_ptr(), to as *mut u8, self.row);
        Ok(())
    }
}

/// Between places that the caller has looked up.
fn copy(from: *const u8, to: *mut u8, bytes: usize) {
    // SAFETY: both are inside live, open allocations, or host memory that the application gave to
    // the driver for this copy. The application may write pinned memory meanwhile; then it gets what
    // a device would give it.
    unsafe { std::ptr::copy(from, to, bytes) };
}
