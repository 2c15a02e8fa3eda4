//! The fast lane: libjpeg-turbo's pixels, and left to it whatever leaves doubt.
//!
//! `make test-jpeg` runs the long forms.

use crate::encode::*;
use crate::shared::shared;
use forebay::decoder::{Decoder, Lane, Limits, Pixels, Region, Scale, Wanted};
use forebay::device::cpu::Cpu;
use std::path::Path;
use turbojpeg::raw::*;

/// Numbers that look drawn.
pub(crate) struct Draw(pub(crate) u64);

impl Draw {
    pub(crate) fn below(&mut self, n: usize) -> usize {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) as usize % n
    }
}

/// Decoders of each level with the fast lane, and one without.
struct Pair {
    own: Vec<Decoder>,
    turbo: Decoder,
    turn: usize,
    pixels: [Pixels; 2],
    /// Files that did without libjpeg-turbo, and all.
    taken: usize,
    all: usize,
}

impl Pair {
    fn new() -> Self {
        let with = |cpu| Decoder::with(Limits { pixels: 1 << 24, ..Limits::default() }, cpu);
        Pair {
            own: Cpu::levels().into_iter().map(|cpu| with(Some(cpu))).collect(),
            turbo: with(None),
            turn: 0,
            pixels: [Pixels::new(), Pixels::new()],
            taken: 0,
            all: 0,
        }
    }

    /// Whether the fast lane took `bytes`; the verdict must be the same in any case.
    fn holds(&mut self, bytes: &[u8], what: impl Fn() -> String) -> bool {
        self.holds_as(bytes, |width, height, _| Wanted::whole(width, height), what)
    }

    /// The same of a part, which is drawn once the picture's size is known.
    fn holds_part(&mut self, bytes: &[u8], draw: &mut Draw, what: impl Fn() -> String) -> bool {
        let seed = draw.below(1 << 30) as u64;
        let wanted = |width, height, scales| part(&mut Draw(seed), width, height, scales);
        self.holds_as(bytes, wanted, || format!("{}, part {seed}", what()))
    }

    fn holds_as(
        &mut self,
        bytes: &[u8],
        wanted: impl Fn(u32, u32, bool) -> Wanted,
        what: impl Fn() -> String,
    ) -> bool {
        let Pair { own, turbo, pixels: [ours, theirs], .. } = self;
        let count = own.len();
        let own = &mut own[self.turn % count];
        (self.turn, self.all) = (self.turn + 1, self.all + 1);
        let wanted = |width, height, scales| Ok(wanted(width, height, scales));
        let got = own.decode_region(bytes, wanted, ours).map_err(|error| error.to_string());
        let expected = turbo.decode_region(bytes, wanted, theirs).map_err(|e| e.to_string());
        assert_eq!(got, expected, "{}", what());
        if got.is_ok() {
            let size = |pixels: &Pixels| (pixels.width(), pixels.height());
            assert_eq!(size(ours), size(theirs), "{}", what());
            assert!(ours.bytes() == theirs.bytes(), "other pixels: {}", what());
        }
        let taken = got.is_ok() && own.lane() == Lane::Own;
        self.taken += usize::from(taken);
        taken
    }
}

/// A window at a scale, often with an edge in common with the picture.
fn part(draw: &mut Draw, width: u32, height: u32, scales: bool) -> Wanted {
    let scale = if scales { Scale::ALL[draw.below(4)] } else { Scale::Full };
    let mut interval = |all: u32| {
        let first = draw.below(3).min(1) as u32 * draw.below(all as usize) as u32;
        let length = 1 + draw.below((all - first) as usize) as u32;
        (first, if draw.below(3) == 0 { all - first } else { length })
    };
    let (x, width) = interval(scale.size(width));
    let (y, height) = interval(scale.size(height));
    Wanted { region: Region { x, y, width, height }, scale }
}

/// Smooth, flat, hard-edged or noisy.
pub(crate) fn content(draw: &mut Draw, width: usize, height: usize) -> Vec<u8> {
    let (kind, level, noise) = (draw.below(5), draw.below(256), 1 + draw.below(4) * draw.below(60));
    let (a, b) = (draw.below(12), 1 + draw.below(12));
    let mut pixels = Vec::with_capacity(width * height * 3);
    for y in 0..height {
        for x in 0..width {
            for c in 0..3 {
                let value = match kind {
                    0 => level,
                    1 => ((x * a + y * b * (c + 1)) % 512).abs_diff(256),
                    2 => (x / (a + 1) + y / b + c) % 2 * 255,
                    3 => draw.below(256),
                    _ => (x * x + y * y + level * c) % 256,
                };
                pixels.push((value + draw.below(noise)).min(255) as u8);
            }
        }
    }
    pixels
}

/// The samplings that are taken.
const TAKEN: [TJSAMP; 5] = [
    TJSAMP_TJSAMP_444,
    TJSAMP_TJSAMP_422,
    TJSAMP_TJSAMP_420,
    TJSAMP_TJSAMP_GRAY,
    TJSAMP_TJSAMP_440,
];

pub(crate) fn random(draw: &mut Draw, most: usize) -> (Vec<u8>, String) {
    let (width, height) = (1 + draw.below(most), 1 + draw.below(most));
    let kind = Kind {
        subsampling: TAKEN[draw.below(5)],
        quality: 1 + draw.below(100) as i32,
        optimize: draw.below(3) == 0,
        restart: [0, 0, 1 + draw.below(9) as i32][draw.below(3)],
        ..Kind::COURSE
    };
    let bytes = jpeg(&content(draw, width, height), width, height, kind);
    let Kind { subsampling, quality, optimize, restart, .. } = kind;
    let what = format!(
        "{width} x {height}, sampling {subsampling}, quality {quality}, {optimize}, restart {restart}"
    );
    (bytes, what)
}

fn random_pictures(count: usize) {
    let (mut pair, mut draw) = (Pair::new(), Draw(1));
    for k in 0..count {
        // Some of several bands.
        let (bytes, what) = random(&mut draw, if k % 20 == 0 { 400 } else { 130 });
        pair.holds(&bytes, || what.clone());
    }
    println!("{} of {} random pictures taken, all equal", pair.taken, pair.all);
    assert!(pair.taken * 100 >= pair.all * 95, "{} of {}", pair.taken, pair.all);
}

#[test]
fn random_pictures_equal_libjpeg_turbo() {
    random_pictures(600);
}

#[test]
#[ignore = "minutes; make test-jpeg"]
fn many_random_pictures_equal_libjpeg_turbo() {
    random_pictures(20_000);
}

/// One of `seeds` with up to three bytes that are others.
pub(crate) fn mutated(draw: &mut Draw, seeds: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = seeds[draw.below(seeds.len())].clone();
    let scan = segments(&bytes, 0xDA)[0].end;
    for _ in 0..1 + draw.below(3) {
        // The header and the data apart, though their lengths differ.
        let first = [0, scan, scan][draw.below(3)].min(bytes.len() - 1);
        let at = first + draw.below(bytes.len() - first);
        match draw.below(8) {
            0..=2 => bytes[at] ^= 1 << draw.below(8),
            3 => bytes[at] = draw.below(256) as u8,
            4 => bytes[at] = [0x00, 0xFF, 0xD0, 0xD9, 0x7F, 0x11][draw.below(6)],
            5 => drop(bytes.remove(at)),
            6 => bytes.insert(at, draw.below(256) as u8),
            _ => bytes.insert(at, 0xFF),
        }
    }
    bytes
}

fn random_parts(count: usize) {
    let (mut pair, mut draw) = (Pair::new(), Draw(4));
    for k in 0..count / 4 {
        let (mut bytes, mut what) = random(&mut draw, if k % 10 == 0 { 500 } else { 160 });
        if k % 5 == 0 {
            let turn = 1 + draw.below(8) as u16;
            bytes = with_orientation(&bytes, turn, true);
            what += &format!(", turn {turn}");
        }
        for _ in 0..4 {
            pair.holds_part(&bytes, &mut draw, || what.clone());
        }
    }
    println!("{} of {} parts of random pictures taken, all equal", pair.taken, pair.all);
    assert!(pair.taken * 100 >= pair.all * 95, "{} of {}", pair.taken, pair.all);
}

#[test]
fn random_parts_equal_libjpeg_turbo() {
    random_parts(1200);
}

#[test]
#[ignore = "minutes; make test-jpeg"]
fn many_random_parts_equal_libjpeg_turbo() {
    random_parts(20_000);
}

fn verdicts(count: usize) {
    let (mut pair, mut draw) = (Pair::new(), Draw(2));
    let seeds: Vec<_> = (0..100).map(|_| random(&mut draw, 60).0).collect();
    for k in 0..count {
        let bytes = mutated(&mut draw, &seeds);
        if k % 2 == 0 {
            pair.holds(&bytes, || format!("mutation {k}"));
        } else {
            pair.holds_part(&bytes, &mut draw, || format!("mutation {k}"));
        }
    }
    println!("{} of {} mutated files taken, every verdict the same", pair.taken, pair.all);
    assert!(pair.taken * 20 > pair.all && pair.taken * 2 < pair.all);
}

#[test]
fn mutated_files_get_the_same_verdict() {
    verdicts(4_000);
}

#[test]
#[ignore = "minutes; make test-jpeg"]
fn many_mutated_files_get_the_same_verdict() {
    verdicts(200_000);
}

/// A part may end where bits are missing that a code would still have to have.
#[test]
fn an_end_that_comes_too_soon() {
    let (mut pair, mut draw) = (Pair::new(), Draw(8));
    let plain = jpeg(&picture(60, 90, 3), 60, 90, Kind::COURSE);
    let scan = segments(&plain, 0xDA)[0].end;
    for at in (scan..plain.len() - 2).step_by(7).filter(|&at| plain[at - 1] != 0xFF) {
        let bytes = [&plain[..at], &[0xFF, 0xD9]].concat();
        for _ in 0..3 {
            pair.holds_part(&bytes, &mut draw, || format!("end at {at}"));
        }
    }
    assert!(pair.taken > 60, "{} of {}", pair.taken, pair.all);
}

/// Every JPEG below `folder`, whole and in part.
fn all_below(pair: &mut Pair, draw: &mut Draw, folder: &Path) {
    let mut entries: Vec<_> =
        folder.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            all_below(pair, draw, &path);
        } else if let Ok(bytes) = std::fs::read(&path)
            && bytes.starts_with(&[0xFF, 0xD8])
        {
            pair.holds(&bytes, || path.display().to_string());
            for _ in 0..2 {
                pair.holds_part(&bytes, draw, || path.display().to_string());
            }
        }
    }
}

#[test]
fn photos_and_odd_images_equal_libjpeg_turbo() {
    for folder in ["data/photos", "data/odd-images"] {
        let Some(path) = shared(folder) else { return };
        let mut pair = Pair::new();
        all_below(&mut pair, &mut Draw(5), &path);
        println!("{folder}: {} of {} files and parts taken, all equal", pair.taken, pair.all);
        assert!(pair.taken > 0);
    }
}

#[test]
#[ignore = "of a folder that FOREBAY_JPEGS names; make test-jpeg"]
fn a_folder_equals_libjpeg_turbo() {
    let folder = std::env::var_os("FOREBAY_JPEGS").filter(|folder| !folder.is_empty());
    let Some(folder) = folder else {
        println!("skipped: FOREBAY_JPEGS names no folder");
        return;
    };
    let mut pair = Pair::new();
    all_below(&mut pair, &mut Draw(6), folder.as_ref());
    println!("{} of {} files and parts taken, all equal", pair.taken, pair.all);
}

/// Of each kind of file, whether the fast lane takes it.
#[test]
fn what_is_taken() {
    let base = Kind::COURSE;
    let source = picture(41, 27, 3);
    let file = |kind| jpeg(&source, 41, 27, kind);
    let plain = file(base);
    let scan = segments(&plain, 0xDA)[0].clone();
    let adobe = |transform| {
        let adobe = segment(0xEE, &[b"Adobe\0\x64\0\0\0\0", &[transform][..]].concat());
        insert(&without(&plain, 0xE0), 2, &adobe)
    };
    let mut extended = plain.clone();
    extended[segments(&plain, 0xC0)[0].start + 1] = 0xC1;
    let (mut spectrum, mut version) = (plain.clone(), plain.clone());
    spectrum[scan.end - 2] = 62;
    version[11] = 2;
    let mut pair = Pair::new();
    let mut check = |what: &str, bytes: &[u8], expected| {
        assert_eq!(pair.holds(bytes, || what.into()), expected, "{what}");
    };
    check("plain", &plain, true);
    for subsampling in TAKEN {
        for (optimize, restart) in [(false, 0), (true, 0), (false, 2)] {
            let kind = Kind { subsampling, optimize, restart, ..base };
            check("a sampling", &file(kind), true);
        }
    }
    for subsampling in [TJSAMP_TJSAMP_411, TJSAMP_TJSAMP_441] {
        check("a rare sampling", &file(Kind { subsampling, ..base }), false);
    }
    check("extended", &extended, true);
    check("turned", &with_orientation(&plain, 6, true), true);
    check("YCbCr by Adobe's segment", &adobe(1), true);
    check("RGB by Adobe's segment", &adobe(0), false);
    check("an unknown transform", &adobe(7), false);
    check("another JFIF version", &version, false);
    check("a comment", &insert(&plain, 2, &segment(0xFE, b"hello")), true);
    check("bytes behind the end", &[&plain[..], &[1, 2, 3]].concat(), true);
    check("a fill byte", &insert(&plain, 2, &[0xFF]), false);
    check("a stray byte before the end", &insert(&plain, plain.len() - 2, &[7]), false);
    check("without Huffman tables", &without(&plain, 0xC4), false);
    check("without quantisation", &without(&plain, 0xDB), false);
    check("part of the spectrum", &spectrum, false);
    check("progressive", &file(Kind { progressive: true, ..base }), false);
    check("arithmetic", &file(Kind { arithmetic: true, ..base }), false);
    check("CMYK", &cmyk_jpeg(&picture(9, 7, 4), 9, 7, false), false);
    check("cut", &plain[..plain.len() - 1], false);
    // Whichever came last counts.
    let interval = |mcus| segment(0xDD, &[0, mcus]);
    let restarts = file(Kind { restart: 2, ..base });
    check("two intervals", &insert(&restarts, 2, &interval(9)), true);
    check("the interval twice", &insert(&plain, 2, &[interval(2), interval(0)].concat()), true);
    let tables: Vec<u8> =
        segments(&plain, 0xC4).iter().flat_map(|at| plain[at.start..at.end].to_vec()).collect();
    check("codes twice", &insert(&plain, 2, &tables), true);
    let mut other = tables;
    *other.last_mut().unwrap() ^= 1;
    check("codes that nobody uses", &insert(&plain, 2, &other), true);
}

/// A gray file may say that several rows of blocks belong together, and is then read further.
#[test]
fn rows_that_are_read_together() {
    let (mut pair, mut draw) = (Pair::new(), Draw(7));
    let kind = Kind { subsampling: TJSAMP_TJSAMP_GRAY, ..Kind::COURSE };
    let plain = jpeg(&picture(70, 90, 3), 70, 90, kind);
    let (frame, scan) = (segments(&plain, 0xC0)[0].start, segments(&plain, 0xDA)[0].end);
    for k in 0..400_u32 {
        let mut bytes = plain.clone();
        bytes[frame + 11] = 0x11 + (k % 4) as u8;
        let at = scan + draw.below(bytes.len() - scan - 2);
        bytes[at] ^= 1 << draw.below(8);
        pair.holds_part(&bytes, &mut draw, || format!("{k}"));
    }
    assert!(pair.taken > 40, "{} of {}", pair.taken, pair.all);
}

/// Blocks beyond what is sure to be the same in libjpeg's C and SIMD code.
#[test]
fn magnitudes() {
    let mut draw = Draw(3);
    let mut noise = |values: usize| -> Vec<u8> {
        (0..64 * 48 * 3).map(|_| (draw.below(values) * 255 / (values - 1)) as u8).collect()
    };
    let kind = Kind { quality: 100, subsampling: TJSAMP_TJSAMP_444, ..Kind::COURSE };
    let mut pair = Pair::new();
    // Some 3,800 a block, and no sample far outside of what a byte holds.
    let gray = jpeg(&noise(256), 64, 48, kind);
    assert!(pair.holds(&gray, || "noise".into()));
    let mut loud = gray.clone();
    for table in segments(&gray, 0xDB) {
        loud[table.start + 5..table.start + 69].fill(3);
    }
    assert!(!pair.holds(&loud, || "noise, three times as loud".into()));
    for table in segments(&gray, 0xDB) {
        loud[table.start + 5..table.start + 69].fill(255);
    }
    assert!(!pair.holds(&loud, || "noise, 255 times as loud".into()));
}
