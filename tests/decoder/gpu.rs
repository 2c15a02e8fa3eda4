//! The kernels that decode JPEGs on a GPU, run on the host by every way that it has: the same coefficients by
//! each, the CPU decoder's pixels, and its doubt.
#![allow(unsafe_code)]

use crate::encode::{Kind, jpeg, long_code};
use crate::own::{Draw, content, mutated, random};
use crate::shared::shared;
use forebay::decoder::gpu::{Batch, Cutting, Launch, Memory};
use forebay::decoder::{Decoder, Lane, Limits, Orientation, Pixels};
use forebay::device::Kernel;
use forebay::device::cpu::Cpu;
use std::ffi::c_void;

const ALIGN: usize = 256;

/// Bytes at a multiple of 256.
struct Aligned(Vec<u8>, usize);

impl Aligned {
    fn new(len: usize, filling: u8) -> Self {
        let bytes = vec![filling; len + ALIGN];
        let skip = bytes.as_ptr().align_offset(ALIGN);
        Aligned(bytes, skip)
    }

    fn bytes(&mut self, len: usize) -> &mut [u8] {
        &mut self.0[self.1..][..len]
    }

    fn address(&mut self) -> u64 {
        self.0[self.1..].as_mut_ptr() as u64
    }
}

/// What the kernels leave.
#[derive(PartialEq)]
struct Left {
    status: Vec<u32>,
    /// Of pictures without doubt.
    pixels: Vec<Vec<u8>>,
    /// Coefficients, and the last of each group.
    coefficients: Vec<u8>,
}

/// One way to run kernels on the host.
type Run<'a> = &'a dyn Fn(Kernel, *const c_void, u32, [u32; 2]);

fn run(batch: &Batch, files: &[(Vec<u8>, usize)], how: Run<'_>) -> Left {
    const BEHIND: usize = 16;
    let mut tables = Aligned::new(batch.tables_len(), 0xA5);
    let mut scratch = Aligned::new(batch.scratch_len() + BEHIND, 0xA5);
    scratch.bytes(batch.zeros_len()).fill(0);
    let mut status = vec![0_u32; files.len()];
    let mut pixels: Vec<_> =
        files.iter().map(|(_, pixels)| vec![0x5A_u8; pixels * 3 + BEHIND]).collect();
    let memory = Memory {
        tables: tables.address(),
        scratch: scratch.address(),
        status: status.as_mut_ptr() as u64,
    };
    let ends = files.iter().zip(&mut pixels);
    let ends = ends.map(|((file, _), out)| [file.as_ptr() as u64, out.as_mut_ptr() as u64]);
    batch.write(tables.bytes(batch.tables_len()), memory, ends);
    fn start<A>(how: Run<'_>, kernel: Kernel, launch: &Launch<A>) {
        let args = (&raw const launch.args).cast();
        how(kernel, args, launch.n, [launch.blocks, launch.threads]);
    }
    if let Some(entropy) = batch.entropy(memory) {
        start(how, Kernel::Entropy, &entropy);
    }
    for step in batch.subsequences(memory) {
        start(how, Kernel::Subsequence, &step);
    }
    start(how, Kernel::Idct, &batch.idct(memory));
    start(how, Kernel::Colour, &batch.colour(memory));
    assert!(scratch.bytes(batch.scratch_len() + BEHIND).ends_with(&[0xA5; BEHIND]));
    for (pixels, &(_, count)) in pixels.iter_mut().zip(files) {
        assert!(pixels.ends_with(&[0x5A; BEHIND]), "bytes behind a picture");
        pixels.truncate(count * 3);
    }
    for (pixels, _) in pixels.iter_mut().zip(&status).filter(|(_, status)| **status != 0) {
        pixels.clear();
    }
    // Of a batch with doubt they depend on when it shows.
    let sure = status.iter().all(|&status| status == 0);
    let coefficients = if sure { scratch.bytes(batch.zeros_len()).to_vec() } else { Vec::new() };
    Left { status, pixels, coefficients }
}

/// What is true of files that were decoded together.
#[derive(Default)]
struct Tally {
    pictures: usize,
    doubted: usize,
    /// Those that the decoder does not doubt.
    unsettled: usize,
    left_out: usize,
}

/// Decodes `files` in one batch by every way, and holds each against the decoder. With fewer than `ROUNDS`
/// there may be doubt that the decoder does not have.
fn check(files: &[Vec<u8>], cutting: Cutting, tally: &mut Tally) {
    let mut decoder = Decoder::new(Limits { pixels: 1 << 24, ..Limits::default() });
    let (mut batch, mut taken) = (Batch::new(cutting), Vec::new());
    for file in files {
        let Some(prepared) = decoder.prepare(file) else { continue };
        if !batch.add(&prepared, file, taken.len() as u32) {
            tally.left_out += 1;
            continue;
        }
        let (width, height) = prepared.size();
        taken.push((file.clone(), (width * height) as usize));
    }
    let best = Cpu::best().unwrap();
    // SAFETY: `run` gave every address the memory that the batch asked for; it outlives the launches.
    let left =
        run(&batch, &taken, &|kernel, args, n, _| unsafe { best.launch(kernel, args, 0..n) });
    let mut pixels = Pixels::new();
    for (k, (file, _)) in taken.iter().enumerate() {
        let decoded = decoder.decode(file, &mut pixels);
        let sure = decoder.lane() == Lane::Own;
        if left.status[k] == 0 {
            decoded.expect("no doubt of a file that cannot be decoded");
            // The decoder's are upright.
            let upright = decoder.prepare(file).unwrap().orientation() == Orientation::UPRIGHT;
            assert!(!upright || pixels.bytes() == left.pixels[k], "other pixels");
        }
        let unsettled = sure && left.status[k] != 0;
        assert!(sure || left.status[k] != 0, "picture {k}: no doubt");
        assert!(!unsettled || cutting.rounds < ROUNDS, "picture {k}: doubt");
        tally.unsettled += usize::from(unsettled);
    }
    for cpu in Cpu::levels() {
        // SAFETY: as above.
        let range =
            run(&batch, &taken, &|kernel, args, n, _| unsafe { cpu.launch(kernel, args, 0..n) });
        assert!(range == left, "{}", cpu.level());
    }
    let grid = run(&batch, &taken, &|kernel, args, _, [blocks, threads]| {
        // SAFETY: as above.
        unsafe { best.launch_grid(kernel, args, blocks, threads) }
    });
    assert!(grid == left, "the grid's is other");
    tally.pictures += taken.len();
    tally.doubted += left.status.iter().filter(|&&status| status != 0).count();
}

/// As many as there are subsequences, so that all settle.
const ROUNDS: u32 = u32::MAX;

/// As a program cuts, but that all settle; or into small pieces of so many bytes and more.
fn cutting(draw: &mut Draw, least: Option<u32>) -> Cutting {
    match least {
        None => Cutting { rounds: ROUNDS, ..Cutting::default() },
        Some(least) => Cutting {
            whole: [0, 0, 100][draw.below(3)],
            bytes: least + draw.below(3).pow(2) as u32 * draw.below(12) as u32,
            rounds: ROUNDS,
        },
    }
}

fn batches(
    draw: &mut Draw,
    count: usize,
    least: Option<u32>,
    mut file: impl FnMut(&mut Draw) -> Vec<u8>,
) -> Tally {
    let mut tally = Tally::default();
    for _ in 0..count {
        let files: Vec<_> = (0..1 + draw.below(20)).map(|_| file(draw)).collect();
        let cutting = cutting(draw, least);
        check(&files, cutting, &mut tally);
    }
    tally
}

#[test]
fn random_pictures_equal_the_decoder() {
    for least in [None, Some(1)] {
        let tally = batches(&mut Draw(11), 40, least, |draw| {
            let most = if draw.below(8) == 0 { 200 } else { 50 };
            random(draw, most).0
        });
        println!("{} pictures in doubt of {}", tally.doubted, tally.pictures);
        assert!(tally.pictures > 300 && tally.doubted * 10 < tally.pictures);
    }
}

#[test]
#[ignore = "minutes; make test-jpeg"]
fn many_random_pictures_equal_the_decoder() {
    let tally = batches(&mut Draw(14), 1_000, Some(8), |draw| random(draw, 130).0);
    println!("{} pictures in doubt of {}", tally.doubted, tally.pictures);
    assert!(tally.pictures > 9_000 && tally.doubted * 10 < tally.pictures);
}

/// With few rounds some starts do not settle: then there is doubt, and never other pixels.
#[test]
fn what_does_not_settle_is_doubt() {
    let mut tally = Tally::default();
    for rounds in 1..8 {
        let mut draw = Draw(15);
        let files: Vec<_> = (0..20).map(|_| random(&mut draw, 60).0).collect();
        check(&files, Cutting { whole: 0, bytes: 24, rounds }, &mut tally);
    }
    println!("{} of {} pictures not settled", tally.unsettled, tally.pictures);
    assert!(tally.unsettled * 10 > tally.pictures && tally.unsettled * 10 < tally.pictures * 9);
}

#[test]
fn photos_settle() {
    let Some(folder) = shared("data/photos") else { return };
    let mut files: Vec<_> = folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    files.sort();
    let mut tally = Tally::default();
    for some in files.chunks(25) {
        let some: Vec<_> = some.iter().map(|path| std::fs::read(path).unwrap()).collect();
        check(&some, Cutting::default(), &mut tally);
    }
    println!("{} photos, {} not settled", tally.pictures, tally.unsettled);
    assert!(tally.pictures > 100 && tally.doubted == 0);
}

/// With no doubt anywhere, all coefficients are compared.
#[test]
fn pictures_of_one_header() {
    let pixels: Vec<_> = (0..200).map(|k| content(&mut Draw(k), 32, 32)).collect();
    let files: Vec<_> = pixels.iter().map(|it| jpeg(it, 32, 32, Kind::COURSE)).collect();
    let mut tally = Tally::default();
    check(&files, Cutting::default(), &mut tally);
    println!("{} bytes a file", files.iter().map(Vec::len).sum::<usize>() / files.len());
    assert_eq!((tally.pictures, tally.doubted), (200, 0));
}

#[test]
fn codes_longer_than_the_look_up() {
    let mut tally = Tally::default();
    for bytes in 1..5 {
        check(&[long_code()], Cutting { whole: 0, bytes, rounds: ROUNDS }, &mut tally);
    }
    check(&[long_code()], Cutting::default(), &mut tally);
    assert_eq!((tally.pictures, tally.doubted), (5, 0));
}

fn damaged(count: usize, least: Option<u32>) {
    let seeds: Vec<_> = {
        let mut draw = Draw(12);
        (0..60).map(|k| random(&mut draw, if k % 6 == 0 { 110 } else { 40 }).0).collect()
    };
    let tally = batches(&mut Draw(13), count, least, |draw| mutated(draw, &seeds));
    println!(
        "{} of {} mutated files in doubt, and {} before",
        tally.doubted, tally.pictures, tally.left_out
    );
    assert!(tally.doubted * 4 > tally.pictures && tally.doubted * 10 < tally.pictures * 9);
    assert!(tally.left_out > 0);
}

#[test]
fn mutated_files_leave_the_decoders_doubt() {
    damaged(150, None);
    damaged(150, Some(1));
}

#[test]
#[ignore = "minutes; make test-jpeg"]
fn many_mutated_files_leave_the_decoders_doubt() {
    damaged(10_000, None);
    damaged(10_000, Some(1));
}

#[test]
#[ignore = "of a folder that FOREBAY_JPEGS names; make test-jpeg"]
fn a_folder_equals_the_decoder() {
    let folder = std::env::var_os("FOREBAY_JPEGS").filter(|folder| !folder.is_empty());
    let Some(folder) = folder else {
        println!("skipped: FOREBAY_JPEGS names no folder");
        return;
    };
    let (mut folders, mut files) = (vec![folder.into()], Vec::new());
    while let Some(folder) = folders.pop() {
        let folder: std::path::PathBuf = folder;
        for entry in folder.read_dir().unwrap() {
            let path = entry.unwrap().path();
            if path.is_dir() {
                folders.push(path);
            } else {
                files.push(path);
            }
        }
    }
    let mut tally = Tally::default();
    for some in files.chunks(256) {
        let some: Vec<_> = some.iter().map(|path| std::fs::read(path).unwrap()).collect();
        check(&some, Cutting::default(), &mut tally);
    }
    let Tally { pictures, doubted, unsettled, .. } = tally;
    println!(
        "{pictures} pictures of {} files, {doubted} in doubt, {unsettled} not settled",
        files.len()
    );
    assert!(tally.pictures > 0);
}
