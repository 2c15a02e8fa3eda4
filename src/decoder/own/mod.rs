//! JPEG without libjpeg, equal to it to the bit: the fast lane for files that leave no doubt.
//!
//! It takes 8-bit sequential Huffman-coded files in gray or YCbCr of one scan whose every byte up to the end
//! marker is as the standard has it, and decodes all of a picture or a window, also at a smaller scale. Anything
//! else, and any doubt on the way, hands the file over to libjpeg-turbo, whose verdict stands: so there are no
//! errors here but want of memory.
//!
//! ```text
//! header ──► stream ──► entropy ──► idct ──► colour
//! or one     bytes      16 blocks   planes   RGB
//! seen       unstuffed  a group     of a band
//! ```

mod args;
mod bands;
mod batch;
mod bits;
mod cut;
mod entropy;
mod group;
mod header;
mod kernels;
mod launch;
mod layout;
mod part;
mod pool;
mod shape;
mod tables;
mod write;

pub use args::{ColourArgs, EntropyArgs, IdctArgs, SubsequenceArgs};
pub use batch::{Batch, Memory};
pub use cut::Cutting;
pub use launch::Launch;

use super::{Orientation, Pixels, Region, Scale};
use crate::device::cpu::Cpu;
use crate::error::Result;
use crate::tensor::Buffer;
use bits::Stream;
use group::Group;
use header::Frame;
use kernels::Kernels;
use layout::Layout;
use part::Part;
use shape::Shape;
use std::sync::{Arc, OnceLock};
use tables::Tables;

/// A JPEG's header that was read and leaves no doubt; files with the same bytes up to the scan share it.
pub struct Prepared {
    frame: Frame,
    /// Of the whole picture as it is stored.
    layout: Layout,
    /// For a GPU, once it is asked for.
    shape: OnceLock<Option<Shape>>,
}

impl Prepared {
    /// Columns and rows as stored.
    pub fn size(&self) -> (u32, u32) {
        (self.frame.width, self.frame.height)
    }

    /// Columns and rows once it is turned.
    pub fn upright_size(&self) -> (u32, u32) {
        self.frame.orientation.upright_size(self.frame.width, self.frame.height)
    }

    /// [`Orientation::keeps_blocks`].
    pub(super) fn keeps_blocks(&self) -> bool {
        self.frame.orientation.keeps_blocks(self.frame.width, self.frame.height)
    }

    /// The turn that makes it upright.
    pub fn orientation(&self) -> Orientation {
        self.frame.orientation
    }

    /// Whether it is one for a GPU that takes at most `most` pixels, in the whole picture or between two restart
    /// markers: it has at most 4,194,304 in all.
    pub fn is_for_gpu(&self, most: u64) -> bool {
        shape::serial(&self.layout) <= most && self.shape().is_some()
    }

    fn shape(&self) -> Option<&Shape> {
        self.shape.get_or_init(|| Shape::of(&self.frame)).as_ref()
    }
}

/// Each is itself only: what is equal is shared.
impl PartialEq for Prepared {
    fn eq(&self, other: &Self) -> bool {
        std::ptr::eq(self, other)
    }
}

impl Eq for Prepared {}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Frame { width, height, .. } = self.frame;
        f.debug_struct("Prepared").field("width", &width).field("height", &height).finish()
    }
}

/// Decodes one image after another; keeps tables, headers and scratch.
pub(super) struct Own {
    kernels: Kernels,
    tables: Tables,
    headers: Headers,
    stream: Stream,
    coefficients: Buffer,
    /// Of each group: its last coefficient.
    last: Vec<u8>,
    planes: Buffer,
}

impl Own {
    /// With the kernels of one level.
    pub(super) fn new(cpu: Cpu) -> Self {
        Own {
            kernels: Kernels { cpu },
            tables: Tables::default(),
            headers: Headers::default(),
            stream: Stream::default(),
            coefficients: Buffer::new(),
            last: Vec::new(),
            planes: Buffer::new(),
        }
    }

    /// Reads the header. `None`: not for here.
    pub(super) fn prepare(&mut self, jpeg: &[u8]) -> Option<Arc<Prepared>> {
        if let Some(prepared) = self.headers.find(jpeg) {
            return Some(prepared);
        }
        let frame = header::read(jpeg, &mut self.tables)?;
        let whole = Region::whole(frame.width, frame.height);
        let layout = Layout::of(&frame, Part::of(&frame, whole, Scale::Full))?;
        let prepared = Arc::new(Prepared { frame, layout, shape: OnceLock::new() });
        self.headers.keep(&jpeg[..prepared.frame.scan], &prepared);
        Some(prepared)
    }

    /// Decodes `window`, which lies in the stored picture at `scale`, of `jpeg`, which begins with the header
    /// of `prepared`. `None`: not for here, and the content of `out` is unspecified.
    ///
    /// # Errors
    /// Where there is no memory for it.
    pub(super) fn decode(
        &mut self,
        prepared: &Prepared,
        jpeg: &[u8],
        window: Region,
        scale: Scale,
        out: &mut Pixels,
    ) -> Result<Option<()>> {
        let Prepared { frame, layout, .. } = prepared;
        let (across, down) = layout.part.all;
        let mcus = across as u64 * down as u64;
        let intervals = mcus.div_ceil(layout.interval.into());
        let scan = jpeg.get(frame.scan..).unwrap_or_default();
        if self.stream.load(scan, usize::try_from(intervals).unwrap_or(usize::MAX)).is_none() {
            return Ok(None);
        }
        // The shortest codes of a block are a bit each for its first value and its end. So a short file
        // that claims to be large takes no memory.
        if self.stream.bits() < mcus * layout.blocks.len() as u64 * 2 {
            return Ok(None);
        }
        // To lay a small picture out anew takes longer than to decode all of it.
        const SMALL: u64 = 16;
        let whole = window == Region::whole(frame.width, frame.height);
        let of_part;
        let layout = if scale == Scale::Full && (whole || mcus <= SMALL) {
            layout
        } else {
            let Some(layout) = Layout::of(frame, Part::of(frame, window, scale)) else {
                return Ok(None);
            };
            of_part = layout;
            &of_part
        };
        let rows = out.reset(window.width, window.height)?;
        self.coefficients.resize(layout.groups * size_of::<Group>())?;
        self.planes.resize(layout.memory)?;
        self.last.resize(layout.groups, 0);
        Ok(self.bands(frame, layout, window, rows))
    }
}

/// Headers that were read, by content: the files of many data sets share theirs.
#[derive(Default)]
struct Headers {
    known: Vec<(Box<[u8]>, Arc<Prepared>)>,
    /// The one to forget next.
    oldest: usize,
}

impl Headers {
    const MOST: usize = 8;
    /// Longer ones carry metadata of their own.
    const LONGEST: usize = 4096;

    fn find(&self, jpeg: &[u8]) -> Option<Arc<Prepared>> {
        let known = self.known.iter().find(|(header, _)| jpeg.starts_with(header));
        known.map(|(_, prepared)| prepared.clone())
    }

    fn keep(&mut self, header: &[u8], prepared: &Arc<Prepared>) {
        if header.len() > Self::LONGEST {
            return;
        }
        let new = (header.into(), prepared.clone());
        if self.known.len() < Self::MOST {
            self.known.push(new);
        } else {
            self.known[self.oldest] = new;
            self.oldest = (self.oldest + 1) % Self::MOST;
        }
    }
}
