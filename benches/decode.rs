//! JPEGs in memory to pixels, one thread, per picture: whole ones by size and subsampling, the walk over a
//! header, and of a photo's size parts as a random resized crop takes them, and smaller scales.
//!
//! `cargo bench --bench decode`

#[path = "../tests/decoder/encode.rs"]
#[allow(dead_code)] // A part is used.
mod encode;

use divan::Bencher;
use encode::{Kind, SUBSAMPLINGS, jpeg, picture};
use forebay::decoder::{Decoder, Limits, Pixels, Region, Scale, Wanted, probe};
use turbojpeg::raw::TJSAMP;

fn main() {
    divan::main();
}

const PHOTO: (usize, usize) = (500, 375);

/// Side and subsampling.
const PICTURES: [(usize, &str); 8] = [
    (32, "4:4:4"),
    (32, "4:2:2"),
    (32, "4:2:0"),
    (32, "gray"),
    (224, "4:4:4"),
    (224, "4:2:2"),
    (224, "4:2:0"),
    (224, "gray"),
];

fn subsampling(name: &str) -> TJSAMP {
    let names = ["4:4:4", "4:2:2", "4:2:0", "gray"];
    SUBSAMPLINGS[names.iter().position(|other| *other == name).unwrap()]
}

fn decode(bencher: Bencher, bytes: &[u8], wanted: impl Fn(u32, u32) -> Wanted) {
    let (mut decoder, mut pixels) = (Decoder::new(Limits::default()), Pixels::new());
    bencher.bench_local(|| {
        let wanted = |width, height, _| Ok(wanted(width, height));
        decoder.decode_region(bytes, wanted, &mut pixels).unwrap();
    });
}

#[divan::bench(args = PICTURES)]
fn whole(bencher: Bencher, (side, name): (usize, &str)) {
    let kind = Kind { subsampling: subsampling(name), ..Kind::COURSE };
    decode(bencher, &jpeg(&picture(side, side, 3), side, side, kind), Wanted::whole);
}

#[divan::bench(args = [false, true])]
fn photo(bencher: Bencher, progressive: bool) {
    let (width, height) = PHOTO;
    let kind = Kind { progressive, ..Kind::COURSE };
    decode(bencher, &jpeg(&picture(width, height, 3), width, height, kind), Wanted::whole);
}

/// A square in the middle that has so many percent of the pixels.
#[divan::bench(args = [8, 25, 50, 90])]
fn part_of_photo(bencher: Bencher, percent: u32) {
    let (width, height) = PHOTO;
    let bytes = jpeg(&picture(width, height, 3), width, height, Kind::COURSE);
    decode(bencher, &bytes, |width, height| {
        let side = f64::from(width * height * percent / 100).sqrt() as u32;
        let (columns, rows) = (side.min(width), side.min(height));
        let (x, y) = ((width - columns) / 2, (height - rows) / 2);
        let region = Region { x, y, width: columns, height: rows };
        Wanted { region, scale: Scale::Full }
    });
}

#[divan::bench(args = Scale::ALL)]
fn photo_at(bencher: Bencher, scale: Scale) {
    let (width, height) = PHOTO;
    let bytes = jpeg(&picture(width, height, 3), width, height, Kind::COURSE);
    decode(bencher, &bytes, |width, height| {
        let region = Region::whole(scale.size(width), scale.size(height));
        Wanted { region, scale }
    });
}

#[divan::bench]
fn header(bencher: Bencher) {
    let bytes = jpeg(&picture(32, 32, 3), 32, 32, Kind::COURSE);
    bencher.bench_local(|| probe(divan::black_box(&bytes)).unwrap());
}
