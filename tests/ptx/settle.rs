//! Images as a GPU's decoder leaves them: every turn, written and not.

use super::memory::{Case, Launch, Memory};
use forebay::device::Kernel;
use forebay::graph::program::{Decoded, SettleArgs};
use std::mem::offset_of;

const PATTERN: u32 = 0xC35A_A53C;

/// Each turn of each size, and images of which all, one spot or nothing was left unwritten.
/// tests/settle.rs has what is right; here the host's kernel says.
pub(crate) fn case(threads: u32, tiles: u32) -> Case {
    let mut memory = Memory::default();
    let mut images = Vec::new();
    for (width, height) in [(1, 1), (2, 2), (1, 9), (9, 1), (37, 23)] {
        for turn in 1..=8 {
            images.push((width, height, turn, turn % 3));
        }
    }
    let n = images.len() as u32;
    let decoded = memory.place(images.len() * size_of::<Decoded>(), 0);
    for (k, &(width, height, turn, left)) in images.iter().enumerate() {
        let bytes = (width * height * 3) as usize;
        let mut content: Vec<u8> = PATTERN.to_le_bytes().into_iter().cycle().take(bytes).collect();
        let written = match left {
            0 => bytes,
            1 => bytes.saturating_sub(16),
            _ => 0,
        };
        for (k, byte) in content[..written].iter_mut().enumerate() {
            *byte = ((k * 40503) >> 7) as u8;
        }
        let from = memory.table(&content);
        let to = if turn == 1 { from } else { memory.place(bytes, k % 16) };
        let at = decoded + (k * size_of::<Decoded>()) as u64;
        let sample = n - 1 - k as u32;
        let entry = Decoded { from: 0, to: 0, width, height, turn, sample };
        memory.write(at, bytemuck::bytes_of(&entry));
        memory.link(at + offset_of!(Decoded, from) as u64, from);
        memory.link(at + offset_of!(Decoded, to) as u64, to);
    }
    let status = memory.table(&vec![0u32; images.len()]);
    let args = SettleArgs { decoded, status, n, tiles, pattern: PATTERN, unused: 0 };
    let launch = Launch::new(Kernel::Settle, args, 2, n, [n * tiles, threads]);
    let label = format!("settle by {threads} threads, {tiles} tiles");
    Case { label, memory, launches: vec![launch] }
}
