//! The two kernels of our JPEG decoder: coefficients of each kind, and planes of each sampling.

use super::memory::{Case, Launch, Memory};
use forebay::device::Kernel;

/// Blocks of a group.
const LANES: usize = 16;

fn draw(state: &mut u32) -> u32 {
    *state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
    *state >> 16
}

/// Groups of which only the first value, some diagonals, or all coefficients are there; with sums that are
/// sure, and that have to be looked at. To `side` samples a block's side.
pub(crate) fn idct(side: u32, threads: u32) -> Case {
    let (mut memory, mut state) = (Memory::default(), 3);
    // With fewer frequencies read, as large a sum takes larger ones.
    let loud = match side {
        8 => 85,
        4 => 110,
        _ => 200,
    };
    // The last coefficient, how many rows and columns hold one, and the largest.
    let groups = [(0_u8, 1, 900), (9, 4, 90), (9, 3, 100), (63, 8, 20), (63, 8, loud)];
    let mut coefficients = vec![0_i16; groups.len() * 64 * LANES];
    for (group, &(_, some, most)) in groups.iter().enumerate() {
        for k in (0..64).filter(|k| k % 8 < some && k / 8 < some) {
            for lane in 0..LANES {
                let value = draw(&mut state) as i32 % (2 * most + 1) - most;
                coefficients[(group * 64 + k) * LANES + lane] = value as i16;
            }
        }
    }
    let places: Vec<i32> =
        (0..groups.len() * LANES).map(|block| block as i32 * (side * side) as i32).collect();
    let n = groups.len() as u32;
    let args = [
        memory.table(&coefficients),
        memory.table(&[1_i16; 64 * LANES]),
        memory.place(places.len() * (side * side) as usize, 0),
        memory.table(&places),
        memory.table(&groups.map(|(last, ..)| last)),
        memory.table(&[0_u32]),
        u64::from(n) | u64::from(side) << 32, // of the planes' rows
        (LANES as u64) << 32,                 // all blocks of the last group
        side.into(),
    ];
    let blocks = (n * LANES as u32).div_ceil(threads);
    let launch = Launch::new(Kernel::Idct, args, 6, n, [blocks, threads]);
    Case { label: format!("idct to {side} by {threads} threads"), memory, launches: vec![launch] }
}

/// Pictures of each sampling, of one size, and windows of them from column `left` on.
pub(crate) fn colour(width: u32, left: u32, threads: u32, tiles: u32) -> Case {
    const HEIGHT: u32 = 5;
    const STRIDE: u32 = 48;
    /// What strips may read before and behind planes.
    const TAIL: usize = 64;
    const PICTURE: usize = 88;
    const TOP: u32 = 1;
    let (mut memory, mut state) = (Memory::default(), 4);
    // As `Chroma` of colour.cuh, with the parts of a picture's columns and rows.
    let kinds = [(1, 1), (1, 1), (2, 1), (1, 2), (2, 2), (2, 1), (2, 2), (1, 2)];
    let pictures = memory.place(kinds.len() * PICTURE, 0);
    for (chroma, (h, v)) in kinds.into_iter().enumerate() {
        let at = pictures + (chroma * PICTURE) as u64;
        let numbers = [
            width.div_ceil(h),
            HEIGHT.div_ceil(v),
            STRIDE,
            STRIDE,
            0,
            0,
            0,
            0,
            left,
            width,
            TOP,
            TOP,
            HEIGHT,
            chroma as u32,
        ];
        memory.write(at + 32, bytemuck::cast_slice(&numbers));
        for plane in 0..3 {
            let len = (HEIGHT * STRIDE) as usize + 2 * TAIL;
            let samples: Vec<u8> = (0..len).map(|_| draw(&mut state) as u8).collect();
            let samples = memory.table(&samples);
            memory.link(at + plane * 8, samples + TAIL as u64);
        }
        let to = memory.place(((width - left) * (HEIGHT - TOP) * 3) as usize, chroma);
        memory.link(at + 24, to);
    }
    let n = kinds.len() as u32;
    let args = [pictures, u64::from(n) | u64::from(tiles) << 32];
    let launch = Launch::new(Kernel::Colour, args, 1, n, [n * tiles, threads]);
    let label = format!("colour, columns {left} to {width} by {threads} threads, {tiles} tiles");
    Case { label, memory, launches: vec![launch] }
}
