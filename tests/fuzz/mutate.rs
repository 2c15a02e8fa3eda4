//! Random changes of an input.

/// Inputs grow no longer.
const MOST: usize = 1 << 16;

/// SplitMix64.
pub(crate) struct Rng(pub(crate) u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }

    /// A number below `count`, or 0.
    pub(crate) fn below(&mut self, count: usize) -> usize {
        ((u128::from(self.next()) * count as u128) >> 64) as usize
    }

    fn byte(&mut self) -> u8 {
        self.next() as u8
    }

    fn bytes(&mut self, count: usize) -> Vec<u8> {
        (0..count).map(|_| self.byte()).collect()
    }

    /// A part of `bytes` of at most `most`.
    fn part<'a>(&mut self, bytes: &'a [u8], most: usize) -> &'a [u8] {
        let start = self.below(bytes.len() + 1);
        let count = self.below((bytes.len() - start).min(most) + 1);
        &bytes[start..start + count]
    }
}

/// Bytes alone, of any length up to a few hundred.
pub(crate) fn noise(rng: &mut Rng) -> Vec<u8> {
    let count = rng.below(400);
    rng.bytes(count)
}

/// Changes `input` in a few places: bits, bytes, numbers at their limits, parts moved, taken out or put
/// in from `other`, and `words` of its language.
pub(crate) fn mutate(input: &mut Vec<u8>, other: &[u8], words: &[&[u8]], rng: &mut Rng) {
    for _ in 0..1 << rng.below(5) {
        once(input, other, words, rng);
    }
    input.truncate(MOST);
}

fn once(input: &mut Vec<u8>, other: &[u8], words: &[&[u8]], rng: &mut Rng) {
    const LONG: usize = 256;
    let at = rng.below(input.len());
    let word = |rng: &mut Rng| match words.len() {
        0 => Vec::new(),
        count => words[rng.below(count)].to_vec(),
    };
    match rng.below(14) {
        _ if input.is_empty() => *input = if rng.below(2) == 0 { noise(rng) } else { word(rng) },
        0 => input[at] ^= 1 << rng.below(8),
        1 => input[at] = rng.byte(),
        2 => input[at] = input[at].wrapping_add(rng.below(17) as u8).wrapping_sub(8),
        3 => {
            let number = limit(rng);
            overwrite(input, at, &number);
        }
        4 => {
            let number = digits(rng);
            let end = at + input[at..].iter().take_while(|b| b.is_ascii_digit()).count();
            input.splice(at..end, number.into_bytes());
        }
        5 => {
            let count = 1 + rng.below(8);
            let new = rng.bytes(count);
            insert(input, at, &new);
        }
        6 => {
            let new = vec![rng.byte(); rng.below(LONG)];
            insert(input, at, &new);
        }
        7 => {
            let count = rng.below((input.len() - at).min(LONG) + 1);
            input.drain(at..at + count);
        }
        8 => input.truncate(at),
        9 => {
            let part = rng.part(input, LONG).to_vec();
            if rng.below(2) == 0 { insert(input, at, &part) } else { overwrite(input, at, &part) }
        }
        10 => {
            let word = word(rng);
            insert(input, at, &word);
        }
        11 => {
            let word = word(rng);
            overwrite(input, at, &word);
        }
        12 => insert(input, at, rng.part(other, LONG)),
        _ => {
            let from = rng.below(other.len() + 1);
            input.truncate(at);
            input.extend(&other[from..]);
        }
    }
}

fn insert(input: &mut Vec<u8>, at: usize, part: &[u8]) {
    input.splice(at..at, part.iter().copied());
}

fn overwrite(input: &mut [u8], at: usize, part: &[u8]) {
    let count = part.len().min(input.len() - at);
    input[at..at + count].copy_from_slice(&part[..count]);
}

/// A number at a limit, of 1 to 8 bytes in either order.
fn limit(rng: &mut Rng) -> Vec<u8> {
    let width = 1 << rng.below(4);
    let number = near_a_power(rng).to_le_bytes();
    let mut bytes = number[..width].to_vec();
    if rng.below(2) == 0 {
        bytes.reverse();
    }
    bytes
}

/// The same as text.
fn digits(rng: &mut Rng) -> String {
    let number = near_a_power(rng);
    match rng.below(4) {
        0 => format!("{}", number as i64),
        1 => format!("{}", f64::from_bits(number)),
        2 => ["nan", "inf", "-0.0", "1e39", "1e-46", "0.5", "007"][rng.below(7)].to_string(),
        _ => format!("{number}"),
    }
}

/// A power of two, or beside one.
fn near_a_power(rng: &mut Rng) -> u64 {
    (1_u64 << rng.below(64)).wrapping_add(rng.below(5) as u64).wrapping_sub(2)
}
