//! The kernel `settle` against the CPU decoder's turns, and what it takes for unwritten: in the
//! range entry of each level and in the GPU entry walked over grids.
#![allow(unsafe_code)]

mod common;

use common::pixels;
use forebay::decoder::{Orientation, Pixels};
use forebay::device::Kernel;
use forebay::device::cpu::Cpu;
use forebay::graph::program::{Decoded, Fault, SettleArgs};

const PATTERN: u32 = 0xC35A_A53C;
/// What `settle` must leave in the words of images that are as they should be.
const LEFT: u32 = 7 << 16 | 9;

/// Images in memory as a GPU's decoder leaves them.
#[derive(Default)]
struct Images {
    /// The stored pixels, in words, since places are multiples of 4.
    from: Vec<Vec<u32>>,
    to: Vec<Vec<u8>>,
    decoded: Vec<Decoded>,
}

impl Images {
    fn add(&mut self, width: u32, height: u32, turn: u32, bytes: &[u8]) {
        let mut from = vec![0; bytes.len().div_ceil(4)];
        bytemuck::cast_slice_mut(&mut from)[..bytes.len()].copy_from_slice(bytes);
        let mut to = vec![0xEE; bytes.len()];
        let at = from.as_ptr() as u64;
        self.decoded.push(Decoded {
            from: at,
            to: if turn == 1 { at } else { to.as_mut_ptr() as u64 },
            width: width as i32,
            height: height as i32,
            turn,
            // Words in reverse, so that image and sample are different numbers.
            sample: 0,
        });
        self.from.push(from);
        self.to.push(to);
    }

    /// The status words after `run`, in the images' order.
    fn settle(&mut self, tiles: u32, run: impl Fn(*const std::ffi::c_void, u32)) -> Vec<u32> {
        let n = self.decoded.len() as u32;
        let mut status = vec![LEFT; n as usize];
        for (k, decoded) in self.decoded.iter_mut().enumerate() {
            decoded.sample = n - 1 - k as u32;
        }
        let args = SettleArgs {
            decoded: self.decoded.as_ptr() as u64,
            status: status.as_mut_ptr() as u64,
            n,
            tiles,
            pattern: PATTERN,
            unused: 0,
        };
        run((&raw const args).cast(), n);
        status.reverse();
        status
    }

    /// The same by every way that a host has.
    fn everywhere(&mut self, check: impl Fn(&Images, &[u32], &str)) {
        for cpu in Cpu::levels() {
            // SAFETY: every image is as large as its `Decoded` says, and nothing else is running.
            let status =
                self.settle(1, |args, n| unsafe { cpu.launch(Kernel::Settle, args, 0..n) });
            check(self, &status, cpu.level());
        }
        // Blocks that are shorter than the spots, and grids in which blocks go round.
        for (threads, tiles) in [(5, 1), (32, 3), (256, 1), (256, 40)] {
            let cpu = Cpu::best().unwrap();
            self.to.iter_mut().for_each(|to| to.fill(0xEE));
            let status = self.settle(tiles, |args, n| {
                // SAFETY: as above.
                unsafe { cpu.launch_grid(Kernel::Settle, args, n * tiles, threads) }
            });
            check(self, &status, &format!("{threads} threads, {tiles} tiles"));
        }
    }
}

fn picture(width: u32, height: u32) -> Vec<u8> {
    (0..width * height * 3).map(|k| ((k * 40503) >> 7) as u8).collect()
}

#[test]
fn turns_as_the_cpu_decoder_does() {
    let sizes = [(1, 1), (1, 9), (9, 1), (4, 4), (37, 23), (64, 50)];
    let cases: Vec<_> = sizes.iter().flat_map(|&size| (1..=8).map(move |t| (size, t))).collect();
    let mut images = Images::default();
    let mut expected = Vec::new();
    for &((width, height), turn) in &cases {
        let bytes = picture(width, height);
        images.add(width, height, turn, &bytes);
        let mut out = Pixels::new();
        Orientation::from_exif(turn).apply(&pixels(width, height, &bytes), &mut out).unwrap();
        // Where nothing is turned, the place beside is left alone.
        expected.push(if turn == 1 { vec![0xEE; bytes.len()] } else { out.bytes().to_vec() });
    }
    images.everywhere(|images, status, way| {
        assert!(status.iter().all(|&word| word == LEFT), "{way}: {status:x?}");
        for ((case, got), expected) in cases.iter().zip(&images.to).zip(&expected) {
            assert!(got == expected, "{way}: {case:?}");
        }
    });
}

/// The first and the last byte of each of an image's 16 spots.
fn spots(bytes: usize) -> Vec<(usize, usize)> {
    let length = bytes.min(16);
    (0..16).map(|k| (bytes - length) * k / 15).map(|start| (start, start + length - 1)).collect()
}

#[test]
fn tells_what_was_not_written() {
    let pattern = |bytes: usize| -> Vec<u8> {
        PATTERN.to_le_bytes().into_iter().cycle().take(bytes).collect()
    };
    let mut images = Images::default();
    let mut expected = Vec::new();
    for (width, height) in [(1, 1), (2, 2), (5, 1), (3, 2), (17, 5), (64, 64)] {
        let bytes = (width * height * 3) as usize;
        let mut add = |content: &[u8], written: bool| {
            images.add(width, height, 1, content);
            expected.push(written);
        };
        // Nothing written; all of it; each spot alone left over, but for its first or last byte.
        add(&pattern(bytes), false);
        add(&picture(width, height), true);
        for (first, last) in spots(bytes) {
            let mut content: Vec<u8> = pattern(bytes).iter().map(|b| !b).collect();
            content[first..=last].copy_from_slice(&pattern(bytes)[first..=last]);
            add(&content, false);
            for byte in [first, last] {
                let mut content = content.clone();
                content[byte] ^= 1;
                add(&content, true);
            }
        }
    }
    images.everywhere(|_, status, way| {
        for (k, (&word, &written)) in status.iter().zip(&expected).enumerate() {
            let found =
                if written { word == LEFT } else { Fault::of(word) == Some((Fault::Unwritten, 0)) };
            assert!(found, "{way}: image {k}: {word:x}");
        }
    });
}
