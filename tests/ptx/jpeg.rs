//! The kernels of our JPEG decoder: whole files, coefficients of each kind, and planes of each sampling.

use super::encode::{Kind, SUBSAMPLINGS, jpeg, long_code, picture};
use super::memory::{Case, Launch, Memory};
use forebay::decoder::gpu::{self, Batch, Cutting};
use forebay::decoder::{Decoder, Limits};
use forebay::device::Kernel;

/// Blocks of a group.
const LANES: usize = 16;

/// Bytes of a run of `idct.cu`.
const RUN: usize = 72;

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
    let bytes = (side * side) as usize;
    let places: Vec<i32> = (0..groups.len() * LANES).map(|block| (block * bytes) as i32).collect();
    // Two runs, of which the second is the last group; a row is `side` bytes behind the one before.
    let (n, split) = (groups.len() as u32, groups.len() as u32 - 1);
    let factors = memory.table(&[1_i16; 64 * LANES]);
    let coefficients = memory.table(&coefficients);
    let lasts = memory.table(&groups.map(|(last, ..)| last));
    let planes = memory.place(places.len() * bytes, 0);
    let places = memory.table(&places);
    let runs = memory.place(2 * RUN, 0);
    for (k, (first, groups)) in [(0, split), (split, 1)].into_iter().enumerate() {
        let (at, skipped) = (runs + (k * RUN) as u64, u64::from(first));
        let groups_of = skipped * 64 * LANES as u64 * 2;
        let ends =
            [coefficients + groups_of, factors, planes, places + skipped * 64, lasts + skipped];
        for (word, address) in ends.into_iter().enumerate() {
            memory.link(at + word as u64 * 8, address);
        }
        memory.write(
            at + 40,
            bytemuck::cast_slice(&[first, groups, side, 0, LANES as u32, side, k as u32, 0]),
        );
    }
    let mut run_of = vec![0_u32; split as usize];
    run_of.push(1);
    let args = [runs, memory.table(&run_of), memory.table(&[0_u32; 2]), u64::from(n)];
    let blocks = (n * LANES as u32).div_ceil(threads);
    let launch = Launch::new(Kernel::Idct, args, 3, 2, [blocks, threads]);
    Case { label: format!("idct to {side} by {threads} threads"), memory, launches: vec![launch] }
}

/// Files of each sampling, with and without restarts and tables of their own: from bytes to pixels. Damaged
/// ones to coefficients only, since of blocks beyond what is sure each way leaves something else. All are cut
/// into subsequences of so many bytes, or as a program does where that is 0.
pub(crate) fn files(damaged: bool, seed: u32, bytes: u32) -> Case {
    let (mut files, mut state) = (Vec::new(), seed);
    for (k, subsampling) in SUBSAMPLINGS.into_iter().enumerate() {
        for (optimize, restart) in [(false, 0), (true, 0), (false, 1)] {
            let (width, height) = (9 + 5 * k, 18 - 2 * k);
            let quality = [100, 30, 85][(k + files.len()) % 3];
            let kind = Kind { subsampling, optimize, restart, quality, ..Kind::COURSE };
            files.push(jpeg(&picture(width, height, 3), width, height, kind));
        }
    }
    // Threads that share a picture.
    let kind = Kind { restart: 3, quality: 20, ..Kind::COURSE };
    files.push(jpeg(&picture(66, 65, 3), 66, 65, kind));
    if damaged {
        files = files.into_iter().cycle().take(40).collect();
        for file in &mut files {
            let at = file.len() - 2 - draw(&mut state) as usize % 60;
            file[at] = [0xFF, 0, 0xD9, draw(&mut state) as u8][draw(&mut state) as usize % 4];
        }
    }
    files.push(long_code());
    let cutting = match bytes {
        0 => Cutting::default(),
        bytes => Cutting { whole: 0, bytes, rounds: 200 },
    };
    let (mut decoder, mut batch) = (Decoder::new(Limits::default()), Batch::new(cutting));
    let mut taken = Vec::new();
    for file in &files {
        if let Some(prepared) = decoder.prepare(file)
            && batch.add(&prepared, file, taken.len() as u32)
        {
            let (width, height) = prepared.size();
            taken.push((file, (width * height * 3) as usize));
        }
    }

    let mut memory = Memory::default();
    let tables = memory.place(batch.tables_len(), 0);
    let scratch = memory.place(batch.scratch_len(), 0);
    memory.write(scratch, &vec![0; batch.zeros_len()]);
    let status = memory.table(&vec![0_u32; taken.len()]);
    let ends: Vec<_> = taken
        .iter()
        .enumerate()
        .map(|(k, &(file, bytes))| [memory.table(file), memory.place(bytes, k % 3)])
        .collect();
    // Written for two places, so that words that are addresses are those that differ.
    let write = |by: u64| {
        let mut bytes = vec![0; batch.tables_len()];
        let place = gpu::Memory { tables: tables + by, scratch: scratch + by, status: status + by };
        batch.write(&mut bytes, place, ends.iter().map(|ends| ends.map(|end| end + by)));
        bytes
    };
    let (here, there) = (write(0), write(1 << 40));
    memory.write(tables, &here);
    let words = here.as_chunks::<8>().0.iter().zip(there.as_chunks().0);
    for (k, (&here, there)) in words.enumerate().filter(|(_, (here, there))| here != there) {
        assert_eq!(u64::from_le_bytes(*there) - u64::from_le_bytes(here), 1 << 40);
        memory.link(tables + k as u64 * 8, u64::from_le_bytes(here));
    }
    let place = gpu::Memory { tables, scratch, status };
    let mut launches = Vec::new();
    if let Some(it) = batch.entropy(place) {
        launches.push(Launch::new(Kernel::Entropy, it.args, 3, it.n, [it.blocks, it.threads]));
    }
    let steps = batch.subsequences(place);
    launches.extend(
        steps
            .iter()
            .map(|it| Launch::new(Kernel::Subsequence, it.args, 7, it.n, [it.blocks, it.threads])),
    );
    if damaged {
        return Case {
            label: format!("{} damaged files, cut to {bytes}", taken.len()),
            memory,
            launches,
        };
    }
    let (idct, colour) = (batch.idct(place), batch.colour(place));
    launches.extend([
        Launch::new(Kernel::Idct, idct.args, 3, idct.n, [idct.blocks, idct.threads]),
        Launch::new(Kernel::Colour, colour.args, 1, colour.n, [colour.blocks, colour.threads]),
    ]);
    Case { label: format!("{} files, cut to {bytes}", taken.len()), memory, launches }
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
