//! The tags of a TIFF directory: what EXIF metadata are, and TIFF files themselves.

use super::Orientation;

/// The orientation that EXIF metadata state, with or without the name in front that JPEG gives
/// them. `None` where they are damaged: metadata never cost a picture.
pub(super) fn orientation(exif: &[u8]) -> Option<Orientation> {
    let tiff = exif.strip_prefix(b"Exif\0\0").unwrap_or(exif);
    Directory::of(tiff)?.orientation()
}

/// The first directory of a TIFF structure. No other is looked at, so no chain of offsets can loop.
pub(super) struct Directory<'a> {
    tiff: &'a [u8],
    little_endian: bool,
    /// BigTIFF: offsets and counts of 64 bits.
    big: bool,
}

impl<'a> Directory<'a> {
    pub(super) fn of(tiff: &'a [u8]) -> Option<Self> {
        let (little_endian, big) = match tiff.get(..4)? {
            b"II*\0" => (true, false),
            b"MM\0*" => (false, false),
            b"II+\0" => (true, true),
            b"MM\0+" => (false, true),
            _ => return None,
        };
        Some(Directory { tiff, little_endian, big })
    }

    pub(super) fn orientation(&self) -> Option<Orientation> {
        let value = self.value(0x0112)?;
        Some(Orientation::from_exif(u32::try_from(value).unwrap_or(0)))
    }

    /// The number that `tag` holds; of two such tags the last, as decoders of TIFF read them.
    pub(super) fn value(&self, tag: u16) -> Option<u64> {
        let (start, word, count, entry) = if self.big { (8, 8, 8, 20) } else { (4, 4, 2, 12) };
        let directory = usize::try_from(self.number(start, word)?).ok()?;
        let entries = self.number(directory, count)?;
        let mut at = directory + count;
        let mut found = None;
        for _ in 0..entries {
            let Some(this) = self.number(at, 2) else { break };
            if this == u64::from(tag) {
                let value = at + 4 + word;
                found = match self.number(at + 2, 2)? {
                    1 => self.number(value, 1), // BYTE
                    3 => self.number(value, 2), // SHORT
                    4 => self.number(value, 4), // LONG
                    16 if self.big => self.number(value, 8),
                    _ => None,
                };
            }
            at += entry;
        }
        found
    }

    /// `len` bytes from `at` on as one number.
    fn number(&self, at: usize, len: usize) -> Option<u64> {
        let bytes = self.tiff.get(at..at.checked_add(len)?)?;
        let push = |number: u64, byte: &u8| number << 8 | u64::from(*byte);
        Some(match self.little_endian {
            true => bytes.iter().rev().fold(0, push),
            false => bytes.iter().fold(0, push),
        })
    }
}
