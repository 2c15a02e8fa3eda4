//! What pictures of a batch share, once of each content.

use std::collections::HashMap;
use xxhash_rust::xxh3::xxh3_64;

/// Bytes for the pool.
pub(super) struct Piece {
    bytes: Box<[u8]>,
    hash: u64,
}

impl Piece {
    pub(super) fn new(bytes: &[u8]) -> Self {
        Piece { bytes: bytes.into(), hash: xxh3_64(bytes) }
    }
}

/// Pieces behind each other.
#[derive(Default)]
pub(super) struct Pool {
    pub(super) bytes: Vec<u8>,
    known: HashMap<u64, u32>,
}

impl Pool {
    /// Where the part is. `None`: there is more than 32 bits can tell.
    pub(super) fn place(&mut self, part: &Piece) -> Option<u32> {
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
