//! A keyed permutation of [0, n) that answers for one index at a time, in constant memory.

use crate::rng::{key, philox4x32};

/// The draw number of permutations; numbers below 16 are the engine's own.
const DRAW: u32 = 0;

/// Below this the numbers are shuffled outright, which is exactly uniform and fits four cache
/// lines. A cipher on so few numbers cannot reach all their orders.
const TABLE: usize = 256;

/// The order of an epoch: a bijection of [0, n) chosen by (seed, epoch).
pub struct Permutation(Kind);

enum Kind {
    Table([u8; TABLE]),
    Cipher(Cipher),
}

impl Permutation {
    /// The permutation of [0, `n`) for `seed` and `epoch`; `n` is at most 2^48.
    pub fn new(n: u64, seed: u64, epoch: u32) -> Permutation {
        let words = |i: u32| philox4x32(key(seed), [i, DRAW << 16, epoch, 0]);
        Permutation(if n <= TABLE as u64 {
            Kind::Table(shuffled(n as usize, words))
        } else {
            Kind::Cipher(Cipher::new(n, words))
        })
    }

    /// Where index `i`, below n, goes.
    pub fn at(&self, i: u64) -> u64 {
        match &self.0 {
            Kind::Table(table) => table[i as usize].into(),
            Kind::Cipher(cipher) => cipher.at(i),
        }
    }
}

/// Fisher and Yates's shuffle of 0 to n-1 in the first n places.
fn shuffled(n: usize, words: impl Fn(u32) -> [u32; 4]) -> [u8; TABLE] {
    let mut table = std::array::from_fn(|i| i as u8);
    for (i, last) in (1..n).rev().enumerate() {
        let word = u64::from(words(i as u32 / 4)[i % 4]);
        // Off uniform by less than 256 / 2^32.
        let pick = (word * (last as u64 + 1)) >> 32;
        table.swap(pick as usize, last);
    }
    table
}

/// A Feistel network on the cells of a rectangle that holds n cells and hardly more.
///
/// Each round adds to a cell's row a keyed hash of its column, or the other way round, modulo
/// their numbers; so each round is a bijection, whatever the hash (J. Black, P. Rogaway: *Ciphers
/// with arbitrary finite domains*, CT-RSA 2002). A cell past n, at most one in sqrt(n), goes round
/// again until it falls below.
struct Cipher {
    n: u64,
    rows: u64,
    columns: u64,
    keys: [u64; ROUNDS],
}

/// Over a million keys at n = 97, where a round has ten places to choose from, eight rounds can be
/// told from chance (the steps between neighbours: 12 standard deviations) and ten cannot.
const ROUNDS: usize = 10;

impl Cipher {
    fn new(n: u64, words: impl Fn(u32) -> [u32; 4]) -> Cipher {
        let rows = n.isqrt();
        let keys = std::array::from_fn(|round| {
            let [a, b, c, d] = words(round as u32 / 2);
            let [low, high] = if round % 2 == 0 { [a, b] } else { [c, d] };
            u64::from(high) << 32 | u64::from(low)
        });
        Cipher { n, rows, columns: n.div_ceil(rows), keys }
    }

    fn at(&self, mut i: u64) -> u64 {
        loop {
            let (mut row, mut column) = (i / self.columns, i % self.columns);
            for pair in self.keys.chunks_exact(2) {
                row = shift(row, column ^ pair[0], self.rows);
                column = shift(column, row ^ pair[1], self.columns);
            }
            i = row * self.columns + column;
            if i < self.n {
                return i;
            }
        }
    }
}

/// `x`, below `modulus`, plus a hash of `from`, modulo `modulus`.
fn shift(x: u64, from: u64, modulus: u64) -> u64 {
    // Multiply, fold, multiply: every bit of `from` reaches the high bits, which scale to the
    // range. The constants are those of the SplitMix64 generator.
    let h = from.wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let h = (h ^ h >> 32).wrapping_mul(0x94D0_49BB_1331_11EB);
    let sum = x + ((u128::from(h) * u128::from(modulus)) >> 64) as u64;
    if sum < modulus { sum } else { sum - modulus }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Chi-square of counts against their mean, as standard deviations from what is expected.
    fn deviation(counts: &[u32], freedom: f64) -> f64 {
        let mean = counts.iter().map(|&c| f64::from(c)).sum::<f64>() / counts.len() as f64;
        let chi: f64 = counts.iter().map(|&c| (f64::from(c) - mean).powi(2) / mean).sum();
        (chi - freedom) / (2.0 * freedom).sqrt()
    }

    fn order(n: u64, seed: u64, epoch: u32) -> Vec<u64> {
        let permutation = Permutation::new(n, seed, epoch);
        (0..n).map(|i| permutation.at(i)).collect()
    }

    fn is_bijection(order: impl Iterator<Item = u64>, n: u64) -> bool {
        let mut seen = vec![false; n as usize];
        let mut count = 0;
        for value in order {
            if value >= n || std::mem::replace(&mut seen[value as usize], true) {
                return false;
            }
            count += 1;
        }
        count == n
    }

    #[test]
    fn is_a_bijection() {
        for n in (0..600).chain([4095, 4096, 4097, 50_000, 65_537]) {
            for seed in 0..3 {
                assert!(is_bijection(order(n, seed, 7).into_iter(), n), "n {n}");
            }
        }
        // The cipher where the table stands in for it, and the largest n at a few places.
        for n in 1..TABLE as u64 {
            let cipher = Cipher::new(n, |i| philox4x32([1, 2], [i, 0, 0, 0]));
            assert!(is_bijection((0..n).map(|i| cipher.at(i)), n), "n {n}");
        }
        let (n, large) = (1 << 48, Permutation::new(1 << 48, 1, 1));
        let set: std::collections::HashSet<u64> = (n - 1000..n).map(|i| large.at(i)).collect();
        assert!(set.len() == 1000 && set.iter().all(|&i| i < n));
    }

    #[test]
    fn the_24_orders_of_4_are_uniform() {
        for by_epoch in [false, true] {
            let mut counts = std::collections::HashMap::new();
            for k in 0..100_000_u32 {
                let (seed, epoch) = if by_epoch { (42, k) } else { (k.into(), 0) };
                *counts.entry(order(4, seed, epoch)).or_insert(0) += 1;
            }
            let counts: Vec<u32> = counts.into_values().collect();
            assert_eq!(counts.len(), 24);
            let z = deviation(&counts, 23.0);
            assert!(z.abs() < 4.0, "{z}");
        }
    }

    /// Value by position, and value by the value before it, over many keys.
    fn check_uniform(n: usize, keys: u32, at: impl Fn(u32) -> Vec<u64>) {
        let mut places = vec![0_u32; n * n];
        let mut pairs = vec![0_u32; n * n];
        let mut steps = vec![0_u32; n];
        for k in 0..keys {
            let order = at(k);
            for (i, &value) in order.iter().enumerate() {
                places[i * n + value as usize] += 1;
            }
            for pair in order.windows(2) {
                let (a, b) = (pair[0] as usize, pair[1] as usize);
                pairs[a * n + b] += 1;
                steps[(b + n - a) % n] += 1;
            }
        }
        // A value never follows itself; each key fills a row and a column once.
        let pairs: Vec<u32> = pairs
            .iter()
            .enumerate()
            .filter(|&(at, _)| at % (n + 1) != 0)
            .map(|(_, &c)| c)
            .collect();
        let free = (n - 1) as f64;
        for (what, counts, freedom) in [
            ("position by value", &places, free * free),
            ("neighbours", &pairs, free * free - free),
            ("steps", &steps[1..].to_vec(), free - 1.0),
        ] {
            let z = deviation(counts, freedom);
            println!("n {n}: {what} {z:+.2}");
            assert!(z.abs() < 5.0, "n {n}: {what} {z}");
        }
    }

    #[test]
    fn positions_and_neighbours_are_uniform() {
        check_uniform(97, 100_000, |k| order(97, k.into(), 3));
        check_uniform(97, 20_000, |k| order(97, 3, k));
        check_uniform(257, 20_000, |k| order(257, k.into(), 0));
        check_uniform(257, 20_000, |k| order(257, 5, k));
        check_uniform(500, 20_000, |k| order(500, u64::from(k) << 32, 0));
        // The cipher at a size the table serves, which strains it more than any it serves itself.
        check_uniform(97, 20_000, |k| {
            let cipher = Cipher::new(97, |i| philox4x32([k, 0], [i, 0, 0, 0]));
            (0..97).map(|i| cipher.at(i)).collect()
        });
    }

    #[test]
    fn epochs_are_uncorrelated() {
        for n in [97, 1000, 60_000] {
            let half = (n - 1) as f64 / 2.0;
            let variance = (n as f64 * n as f64 - 1.0) / 12.0;
            for (seed, lag) in [(42, 1), (42, 2), (7, 1), (1 << 40, 1)] {
                let (mut sum, mut fixed, epochs) = (0.0, 0, 20);
                for epoch in 0..epochs {
                    let (a, b) = (order(n, seed, epoch), order(n, seed, epoch + lag));
                    let product = |(&a, &b): (&u64, &u64)| (a as f64 - half) * (b as f64 - half);
                    sum += a.iter().zip(&b).map(product).sum::<f64>() / variance;
                    fixed += a.iter().zip(&b).filter(|(a, b)| a == b).count();
                }
                let z = sum / (n as f64 * f64::from(epochs)).sqrt();
                assert!(z.abs() < 4.0, "n {n}: correlation {z}");
                // Two independent orders agree in one place on average.
                assert!((4..=48).contains(&fixed), "n {n}: {fixed} fixed points in {epochs}");
            }
        }
    }
}
