//! Huffman codes as look-ups that yield a whole coefficient: how far to go on, its value, and the bits of
//! code and value together.

use super::args::{BITS, Codes};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, OnceLock};

/// What kind of values a code is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Class {
    /// Differences of a block's first coefficient.
    Dc,
    /// Runs of zeros and the coefficient behind them.
    Ac,
}

/// What one code and the value behind it mean, in 32 bits: bits to drop (6), [`Entry::RARE`],
/// [`Entry::END`], places to go on (5), value (the upper 16).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Entry(u32);

impl Entry {
    /// Nothing here: the code is longer than the index, or its value is, or there is no such code. Of the
    /// second kind there are bits, places to go on, and the value's size in the bits that are left over.
    const RARE: u32 = 1 << 6;
    /// The block's other coefficients are zero.
    const END: u32 = 1 << 7;

    fn new(bits: u32, flags: u32, advance: u32, value: i32) -> Self {
        Entry(bits | flags | advance << 8 | (value as u32) << 16)
    }

    /// For a code within the index, of which bits and advance are known.
    fn long(bits: u32, advance: u32, size: u32) -> Self {
        Entry(bits | Self::RARE | (size & 8) << 4 | advance << 8 | (size & 7) << 13)
    }

    /// The size of a value that the index is too short for; 0: nothing is known.
    fn long_size(self) -> u32 {
        (self.0 >> 4 & 8) | (self.0 >> 13 & 7)
    }

    /// Bits of code and value.
    #[inline(always)]
    pub(super) fn bits(self) -> u32 {
        self.0 & 63
    }

    #[inline(always)]
    pub(super) fn is_rare(self) -> bool {
        self.0 & Self::RARE != 0
    }

    #[inline(always)]
    pub(super) fn is_end(self) -> bool {
        self.0 & Self::END != 0
    }

    /// Whether there is a value that is not zero; then nothing else needs a look.
    #[inline(always)]
    pub(super) fn has_value(self) -> bool {
        self.0 > 0xFFFF
    }

    /// From the last coefficient to this one.
    #[inline(always)]
    pub(super) fn advance(self) -> usize {
        (self.0 >> 8 & 31) as usize
    }

    #[inline(always)]
    pub(super) fn value(self) -> i16 {
        (self.0 >> 16) as i16
    }
}

/// What up to two coefficients mean whose codes and values are within the index, in 64 bits: bits to drop
/// (6), [`Pair::NOT_VALUES`], [`Pair::END`], places to the first (5, from bit 8) and to the last (6, from bit
/// 16), both values (16 each, from bit 32).
#[derive(Clone, Copy)]
pub(super) struct Pair(u64);

impl Pair {
    /// Not one or two values and nothing else.
    const NOT_VALUES: u64 = 1 << 6;
    /// The end of the block, perhaps behind one value.
    const END: u64 = 1 << 7;
    /// What an [`Entry`] has to be looked up for.
    const SINGLE: Pair = Pair(Self::NOT_VALUES);
    const ALL_SINGLE: &Pairs = &[Self::SINGLE; 1 << BITS];

    /// The first alone is its own second, so that it is stored twice rather than asked about.
    fn values(first: Entry, second: Option<Entry>) -> Self {
        let bits = first.bits() + second.map_or(0, Entry::bits);
        let last = first.advance() + second.map_or(0, Entry::advance);
        let values = [first.value(), second.unwrap_or(first).value()].map(|v| u64::from(v as u16));
        let places = (first.advance() << 8 | last << 16) as u64;
        Pair(u64::from(bits) | places | values[0] << 32 | values[1] << 48)
    }

    fn end(first: Option<Entry>, end: Entry) -> Self {
        let values = first.map_or(Pair(0), |first| Self::values(first, None));
        Pair((values.0 + u64::from(end.bits())) | Self::NOT_VALUES | Self::END)
    }

    #[inline(always)]
    pub(super) fn bits(self) -> u32 {
        (self.0 & 63) as u32
    }

    #[inline(always)]
    pub(super) fn is_values(self) -> bool {
        self.0 & Self::NOT_VALUES == 0
    }

    #[inline(always)]
    pub(super) fn is_end(self) -> bool {
        self.0 & Self::END != 0
    }

    /// From the last coefficient to the first of these; 0: there is none.
    #[inline(always)]
    pub(super) fn to_first(self) -> usize {
        (self.0 >> 8 & 31) as usize
    }

    /// From the last coefficient to the last of these.
    #[inline(always)]
    pub(super) fn to_last(self) -> usize {
        (self.0 >> 16 & 63) as usize
    }

    #[inline(always)]
    pub(super) fn first(self) -> i16 {
        (self.0 >> 32) as i16
    }

    #[inline(always)]
    pub(super) fn last(self) -> i16 {
        (self.0 >> 48) as i16
    }
}

/// By the next bits.
pub(super) type Pairs = [Pair; 1 << BITS];

/// The pair for the bits that `held` begins with.
#[inline(always)]
pub(super) fn pair(pairs: &Pairs, held: u64) -> Pair {
    pairs[(held >> (64 - BITS)) as usize]
}

/// A code, ready to decode with.
pub(super) struct Huffman {
    class: Class,
    look: Box<[Entry; 1 << BITS]>,
    /// Of AC coefficients, once they are worth their making.
    pairs: OnceLock<Box<Pairs>>,
    /// How often they were asked for.
    asked: AtomicU32,
    /// By length: the code behind the last of that length, as the upper bits of 16.
    limits: [u32; 17],
    /// By length: what turns a code into its symbol's index.
    offsets: [i32; 17],
    symbols: Box<[u8]>,
}

impl Huffman {
    /// Of `counts[i]` codes of i + 1 bits, for `symbols` in order. `None`: not a code that libjpeg takes.
    fn new(class: Class, counts: &[u8; 16], symbols: &[u8]) -> Option<Self> {
        let look = vec![Entry(Entry::RARE); 1 << BITS].into_boxed_slice().try_into().ok()?;
        let (mut limits, mut offsets) = ([0; 17], [0; 17]);
        let (mut code, mut index) = (0_u32, 0_u32);
        for (&count, length) in counts.iter().zip(1..) {
            code <<= 1;
            offsets[length as usize] = index as i32 - code as i32;
            code += u32::from(count);
            index += u32::from(count);
            // The code of all ones stays free.
            if code >= 1 << length {
                return None;
            }
            limits[length as usize] = code << (16 - length);
        }
        let known = |&symbol: &u8| class == Class::Ac || symbol < 16;
        if index as usize != symbols.len() || symbols.len() > 256 || !symbols.iter().all(known) {
            return None;
        }
        let (pairs, asked) = (OnceLock::new(), AtomicU32::new(0));
        let symbols = symbols.into();
        let mut huffman = Huffman { class, look, pairs, asked, limits, offsets, symbols };
        huffman.fill(counts);
        Some(huffman)
    }

    fn fill(&mut self, counts: &[u8; 16]) {
        let (mut code, mut symbols) = (0_usize, self.symbols.iter());
        for (&count, length) in counts.iter().zip(1..=BITS) {
            code <<= 1;
            for &symbol in symbols.by_ref().take(count.into()) {
                if let Some((size, flags, advance)) = meaning(self.class, symbol) {
                    let first = code << (BITS - length);
                    // Values of which the index has each bit.
                    let whole = if length + size <= BITS { size } else { 0 };
                    let spare = BITS - length - whole;
                    for bits in 0..1 << whole {
                        let entry = match whole == size {
                            true => Entry::new(length + size, flags, advance, extend(bits, size)),
                            false => Entry::long(length + size, advance, size),
                        };
                        let at = first + ((bits as usize) << spare);
                        self.look[at..at + (1 << spare)].fill(entry);
                    }
                }
                code += 1;
            }
        }
    }

    /// Pairs of AC coefficients for a scan of `bytes` bytes. To make them takes as long as to decode a small
    /// picture or two, so they are made for a large one, and for a code that comes again.
    pub(super) fn pairs(&self, bytes: usize) -> &Pairs {
        const LARGE: usize = 4096;
        const OFTEN: u32 = 6;
        if let Some(pairs) = self.pairs.get() {
            return pairs;
        }
        let asked = self.asked.load(Ordering::Relaxed);
        self.asked.store(asked.saturating_add(1), Ordering::Relaxed);
        if bytes < LARGE && asked < OFTEN {
            return Pair::ALL_SINGLE;
        }
        self.pairs.get_or_init(|| self.make_pairs())
    }

    fn make_pairs(&self) -> Box<Pairs> {
        let mut pairs = Box::new(*Pair::ALL_SINGLE);
        for (index, pair) in pairs.iter_mut().enumerate() {
            let first = self.look[index];
            if first.is_rare() {
                continue;
            }
            if first.is_end() {
                *pair = Pair::end(None, first);
            } else if first.has_value() {
                let next = self.look[(index << first.bits()) & ((1 << BITS) - 1)];
                let fits = !next.is_rare() && first.bits() + next.bits() <= BITS;
                *pair = match fits {
                    true if next.is_end() => Pair::end(Some(first), next),
                    true if next.has_value() => Pair::values(first, Some(next)),
                    _ => Pair::values(first, None),
                };
            }
        }
        pairs
    }

    /// What a GPU decodes with.
    pub(super) fn codes(&self) -> Codes {
        let mut symbols = [0; 256];
        symbols[..self.symbols.len()].copy_from_slice(&self.symbols);
        let look = std::array::from_fn(|k| self.look[k].0);
        Codes { look, limits: self.limits, offsets: self.offsets, symbols }
    }

    /// The entry for the bits that `held` begins with.
    #[inline(always)]
    pub(super) fn look(&self, held: u64) -> Entry {
        self.look[(held >> (64 - BITS)) as usize]
    }

    /// The entry that a rare one stands for, from at least 27 bits that `held` begins with. `None`: no code
    /// begins so, or it means nothing in a picture of 8 bits.
    #[inline(always)]
    pub(super) fn resolve(&self, rare: Entry, held: u64) -> Option<Entry> {
        let size = rare.long_size();
        if size == 0 {
            return self.search(held);
        }
        let value = value(held << (rare.bits() - size), size);
        Some(Entry::new(rare.bits(), 0, rare.advance() as u32, value))
    }

    /// The entry for any code.
    #[cold]
    #[inline(never)]
    fn search(&self, held: u64) -> Option<Entry> {
        let bits = (held >> 48) as u32;
        let length = (1..17).find(|&length| bits < self.limits[length])?;
        let code = (bits >> (16 - length)) as i32;
        let symbol = *self.symbols.get((code + self.offsets[length]) as usize)?;
        let (size, flags, advance) = meaning(self.class, symbol)?;
        let value = value(held << length, size);
        Some(Entry::new(length as u32 + size, flags, advance, value))
    }
}

/// The value of the first `size` bits, at most 31.
fn value(held: u64, size: u32) -> i32 {
    // In two steps, since `size` may be 0.
    extend((held >> 32 >> (32 - size)) as i32, size)
}

/// Bits of the value behind a symbol, flags of its entry, and the way to the coefficient.
fn meaning(class: Class, symbol: u8) -> Option<(u32, u32, u32)> {
    let (run, size) = (u32::from(symbol >> 4), u32::from(symbol & 15));
    match class {
        // A difference of two values of 11 bits has 12 with its sign.
        Class::Dc => (symbol <= 11).then_some((symbol.into(), 0, 0)),
        Class::Ac => match (run, size) {
            (0, 0) => Some((0, Entry::END, 0)),
            (15, 0) => Some((0, 0, 16)),
            (_, 1..=10) => Some((size, 0, run + 1)),
            _ => None,
        },
    }
}

/// The value that `size` bits stand for: those that begin with 0 are negative.
fn extend(bits: i32, size: u32) -> i32 {
    if size > 0 && bits >> (size - 1) == 0 { bits + 1 - (1 << size) } else { bits }
}

/// Codes that were seen, by content: most files of a data set have the same.
#[derive(Default)]
pub(super) struct Tables {
    seen: Vec<(Class, [u8; 16], Arc<Huffman>)>,
    /// The one to forget next.
    oldest: usize,
}

impl Tables {
    const MOST: usize = 16;

    /// The code, built or found. `None` as [`Huffman::new`].
    pub(super) fn get(
        &mut self,
        class: Class,
        counts: &[u8; 16],
        symbols: &[u8],
    ) -> Option<Arc<Huffman>> {
        let same = |(c, n, huffman): &&(Class, [u8; 16], Arc<Huffman>)| {
            *c == class && n == counts && *huffman.symbols == *symbols
        };
        if let Some((.., huffman)) = self.seen.iter().find(same) {
            return Some(huffman.clone());
        }
        let huffman = Arc::new(Huffman::new(class, counts, symbols)?);
        let new = (class, *counts, huffman.clone());
        if self.seen.len() < Self::MOST {
            self.seen.push(new);
        } else {
            self.seen[self.oldest] = new;
            self.oldest = (self.oldest + 1) % Self::MOST;
        }
        Some(huffman)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every index yields what the code yields bit by bit.
    #[test]
    fn look_ups_are_what_codes_resolve_to() {
        // Lengths 2 to 16 with a code each but one, and symbols of every kind.
        let counts = [0, 1, 1, 1, 2, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1];
        let symbols: [u8; 16] = [
            0x01, 0x00, 0xF0, 0x11, 0x5A, 0x02, 0x03, 0xA1, 0x04, 0x31, 0x0A, 0x12, 0x07, 0x22,
            0x91, 0x08,
        ];
        let ac = Tables::default().get(Class::Ac, &counts, &symbols).unwrap();
        let mut direct = 0;
        for bits in 0..1_u64 << BITS {
            // What follows the index must not matter.
            for rest in [0, u64::MAX >> BITS] {
                let held = bits << (64 - BITS) | rest;
                let entry = ac.look(held);
                if !entry.is_rare() {
                    assert_eq!(Some(entry), ac.search(held), "{bits:b}");
                    direct += 1;
                } else {
                    assert_eq!(ac.resolve(entry, held), ac.search(held), "{bits:b}");
                }
            }
        }
        assert!(direct > 1 << (BITS - 2), "{direct}");
        for bits in 0..1_u64 << BITS {
            let held = bits << (64 - BITS);
            let (pair, first) = (pair(ac.pairs(1 << 20), held), ac.look(held));
            if pair.to_first() > 0 {
                assert_eq!((pair.to_first(), pair.first()), (first.advance(), first.value()));
                let next = ac.search(held << first.bits());
                let both = first.bits() + next.map_or(0, Entry::bits);
                match pair.bits() == first.bits() {
                    true => {
                        assert_eq!((pair.to_last(), pair.last()), (first.advance(), first.value()))
                    }
                    false if pair.is_end() => {
                        assert!(next.unwrap().is_end() && pair.bits() == both)
                    }
                    false => {
                        let next = next.unwrap();
                        assert_eq!(pair.to_last() - pair.to_first(), next.advance());
                        assert_eq!((pair.last(), pair.bits()), (next.value(), both));
                    }
                }
            } else {
                assert!(!first.has_value() && !pair.is_values());
            }
        }
        // The second code, 010, ends a block; 001 is the first code, 00, and the value 1.
        assert!(ac.look(0b010 << 61).is_end());
        let one = ac.look(0b001 << 61);
        assert_eq!((one.bits(), one.advance(), one.value()), (3, 1, 1));
        assert_eq!(ac.look(0).value(), -1);
    }

    #[test]
    fn codes_that_libjpeg_refuses() {
        let mut tables = Tables::default();
        let mut counts = [0; 16];
        counts[0] = 2; // Both one-bit codes: all ones is taken.
        assert!(tables.get(Class::Dc, &counts, &[0, 1]).is_none());
        counts[0] = 1;
        assert!(tables.get(Class::Dc, &counts, &[0, 1]).is_none(), "more symbols than codes");
        assert!(tables.get(Class::Dc, &counts, &[16]).is_none(), "no number of bits");
        assert!(tables.get(Class::Dc, &counts, &[0]).is_some());
    }
}
