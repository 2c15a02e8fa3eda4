//! One number for everything that was delivered, whatever the batch size, order or threads.

use forebay::loader::Batch;
use std::fmt;
use xxhash_rust::xxh3::Xxh3;

/// The sum, modulo 2^128, over delivered samples of XXH3-128, seeded with the epoch, of the bytes
/// of each output in order, the label and the id (i64, little endian).
///
/// A sum, so that batches and their order do not matter; places that only fill up a batch are left
/// out, since how many there are depends on the batch size.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Digest(u128);

impl Digest {
    /// Adds the samples of a batch of epoch `epoch`.
    pub(crate) fn add(&mut self, epoch: u32, batch: &Batch) {
        let images: Vec<&[u8]> =
            batch.outputs().iter().filter_map(|name| Some(batch.output(name)?.bytes)).collect();
        let n = batch.len();
        for place in (0..n).filter(|&place| batch.valid()[place]) {
            let images = images.iter().map(|bytes| {
                let len = bytes.len() / n;
                &bytes[place * len..][..len]
            });
            self.add_sample(epoch, images, batch.labels()[place], batch.ids()[place]);
        }
    }

    fn add_sample<'a>(
        &mut self,
        epoch: u32,
        images: impl Iterator<Item = &'a [u8]>,
        label: i64,
        id: i64,
    ) {
        let mut hash = Xxh3::with_seed(u64::from(epoch));
        images.for_each(|bytes| hash.update(bytes));
        hash.update(&label.to_le_bytes());
        hash.update(&id.to_le_bytes());
        self.0 = self.0.wrapping_add(hash.digest128());
    }
}

impl std::iter::Sum for Digest {
    fn sum<I: Iterator<Item = Self>>(digests: I) -> Self {
        Digest(digests.fold(0, |sum, digest| sum.wrapping_add(digest.0)))
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:032x}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(samples: &[(u32, &[u8], i64, i64)]) -> Digest {
        let mut digest = Digest::default();
        for &(epoch, bytes, label, id) in samples {
            digest.add_sample(epoch, [bytes].into_iter(), label, id);
        }
        digest
    }

    #[test]
    fn order_does_not_matter_and_everything_else_does() {
        let both = of(&[(0, b"ab", 1, 0), (0, b"cd", 2, 1)]);
        assert_eq!(both, of(&[(0, b"cd", 2, 1), (0, b"ab", 1, 0)]));
        for other in [(1, &b"ab"[..], 1, 0), (0, b"ac", 1, 0), (0, b"ab", 2, 0), (0, b"ab", 1, 2)] {
            assert_ne!(both, of(&[other, (0, b"cd", 2, 1)]));
        }
    }
}
