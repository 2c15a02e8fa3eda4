//! Philox4x32-10 and the keys of draws: a draw is a function of (seed, epoch, sample, draw,
//! element) and of nothing else.
//!
//! J. Salmon, M. Moraes, R. Dror, D. Shaw: *Parallel random numbers: as easy as 1, 2, 3* (SC 2011).
//! `kernels/random.cuh` holds the same function for the kernels; tests hold one against the other.

const MULTIPLIERS: [u32; 2] = [0xD251_1F53, 0xCD9E_8D57];
const WEYL: [u32; 2] = [0x9E37_79B9, 0xBB67_AE85];

/// Ten rounds of Philox4x32 of `counter` under `key`: 128 random bits.
pub fn philox4x32(key: [u32; 2], counter: [u32; 4]) -> [u32; 4] {
    let [mut k0, mut k1] = key;
    let [mut c0, mut c1, mut c2, mut c3] = counter;
    for _ in 0..10 {
        let a = u64::from(MULTIPLIERS[0]) * u64::from(c0);
        let b = u64::from(MULTIPLIERS[1]) * u64::from(c2);
        (c0, c1, c2, c3) =
            ((b >> 32) as u32 ^ c1 ^ k0, b as u32, (a >> 32) as u32 ^ c3 ^ k1, a as u32);
        k0 = k0.wrapping_add(WEYL[0]);
        k1 = k1.wrapping_add(WEYL[1]);
    }
    [c0, c1, c2, c3]
}

/// The key that `seed` stands for.
pub const fn key(seed: u64) -> [u32; 2] {
    [seed as u32, (seed >> 32) as u32]
}

/// The random word of one element of one draw. `sample` counts below 2^48.
pub fn draw_word(seed: u64, epoch: u32, sample: u64, draw: u16, element: u32) -> u32 {
    let counter =
        [sample as u32, (sample >> 32) as u32 & 0xFFFF | u32::from(draw) << 16, epoch, element];
    philox4x32(key(seed), counter)[0]
}

/// The draw number of stand-ins.
const STAND_IN: u16 = 1;

/// A number below `count`: the sample that takes the place of `sample`, where all `tries` before it
/// could not.
pub fn stand_in(seed: u64, epoch: u32, sample: u64, tries: u32, count: u64) -> u64 {
    let word = |half| draw_word(seed, epoch, sample, STAND_IN, 2 * tries + half);
    let wide = u64::from(word(0)) << 32 | u64::from(word(1));
    // Uniform but for one part in 2^64 / count.
    ((u128::from(wide) * u128::from(count)) >> 64) as u64
}

/// The 16-bit number of the draw called `name`: FNV-1a of its bytes, folded.
///
/// Numbers below 16 are kept for the engine's own draws (the sampler's permutation, stand-ins).
pub fn draw_number(name: &str) -> u16 {
    let hash =
        name.bytes().fold(0x811C_9DC5_u32, |h, b| (h ^ u32::from(b)).wrapping_mul(0x0100_0193));
    let folded = (hash >> 16) as u16 ^ hash as u16;
    if folded < 16 { folded + 16 } else { folded }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The vectors published with Random123 (kat_vectors, philox4x32 10).
    #[test]
    fn known_answers() {
        let pi = [0x243f_6a88, 0x85a3_08d3, 0x1319_8a2e, 0x0370_7344];
        let pi_key = [0xa409_3822, 0x299f_31d0];
        assert_eq!(
            philox4x32([0; 2], [0; 4]),
            [0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8]
        );
        assert_eq!(
            philox4x32([!0; 2], [!0; 4]),
            [0x408f_276d, 0x41c8_3b0e, 0xa20b_c7c6, 0x6d54_51fd]
        );
        assert_eq!(philox4x32(pi_key, pi), [0xd16c_fe09, 0x94fd_cceb, 0x5001_e420, 0x2412_6ea1]);
    }
}
