//! Sources of samples and the order they come in. Knows files, no images and no graph.

mod beneath;
pub mod cifar10;
mod fault;
pub mod file_list;
pub mod folders;
mod held;
mod lines;
mod map;
pub mod permutation;
pub mod sampler;
pub mod tar;

use crate::error::{Error, ErrorKind, Result};
use xxhash_rust::xxh3::Xxh3;

pub(crate) use beneath::Root;

/// Bytes of one file above which readers refuse it, where nothing else is asked for.
pub const DEFAULT_LIMIT: u64 = 256 << 20;

/// Tells of a sample's file that is too large which flag raises the limit.
fn advise(error: Error) -> Error {
    if error.kind() != ErrorKind::Limit {
        return error;
    }
    let text = format!("{} (--max-file-bytes raises it)", error.message());
    let advised = Error::new(ErrorKind::Limit, text);
    match error.path() {
        Some(path) => advised.at_path(path),
        None => advised,
    }
}

/// What [`Reader::read`] left in the buffer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Content {
    /// A whole encoded image file.
    Encoded,
    /// Raw pixels, u8, three planes R, G, B of `height` rows of `width`.
    Planar {
        /// Rows.
        height: u32,
        /// Columns.
        width: u32,
    },
}

/// A source of samples, numbered from 0. Used from many threads at once.
pub trait Reader: Send + Sync {
    /// Number of samples.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The label of sample `id`, which is below [`Reader::len`].
    fn label(&self, id: u64) -> i64;

    /// Names of the classes by label; empty where the source has no names.
    fn classes(&self) -> &[String];

    /// What is odd about the source but no error, a line each.
    fn warnings(&self) -> &[String] {
        &[]
    }

    /// Where sample `id` comes from, for people: its path under the data directory.
    fn place(&self, id: u64) -> std::path::PathBuf;

    /// The file that sample `id` lies in, under the data directory: its own, or one that it shares
    /// with others, in which an error's offset counts.
    fn file(&self, id: u64) -> std::path::PathBuf {
        self.place(id)
    }

    /// What tells the first `samples` samples from others: XXH3 of each one's place and label. Does not
    /// look at what they hold.
    fn fingerprint(&self, samples: u64) -> u64 {
        let mut hash = Xxh3::new();
        for id in 0..samples {
            hash.update(self.place(id).as_os_str().as_encoded_bytes());
            // No place holds a NUL, so that no two lists run together to the same bytes.
            hash.update(&[0]);
            hash.update(&self.label(id).to_le_bytes());
        }
        hash.digest()
    }

    /// Gives an error about sample `id` its place: file, line where there is a list, and sample.
    ///
    /// Errors of [`Reader::read`] have theirs; this is for what is found in the bytes later.
    fn locate(&self, id: u64, error: Error) -> Error {
        error.at_path(self.place(id)).at_sample(id)
    }

    /// Reads sample `id` into `buf`, replacing what it held. Errors name the file.
    fn read(&self, id: u64, buf: &mut Vec<u8>) -> Result<Content>;

    /// How to have the system get samples from their disk before they are read; `None` where they lie
    /// in memory, or as good as that.
    fn warm(&self) -> Option<&dyn Warm> {
        None
    }
}

/// A source whose samples lie where to get them may take long.
pub trait Warm {
    /// Gets sample `id` into the system's memory, as [`Reader::read`] would, and leaves it there; how
    /// many bytes that was. What is wrong with a sample is for the reader to tell.
    fn fetch(&self, id: u64) -> u64;
}
