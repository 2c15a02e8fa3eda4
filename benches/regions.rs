//! Parts of photos as random resized crops take them, whole photos, and smaller scales: our JPEG decoder beside
//! libjpeg-turbo, in turn, on one thread.
//!
//! `cargo bench --bench regions`: of the photos in the data folder (FOREBAY_SHARED), else of a made one.

#[path = "../tests/decoder/encode.rs"]
#[allow(dead_code)] // A part is used.
mod encode;

use encode::{Kind, jpeg, picture};
use forebay::decoder::{Decoder, Lane, Limits, Pixels, Region, Scale, Wanted};
use forebay::device::cpu::Cpu;
use std::time::{Duration, Instant};

const ROUNDS: usize = 9;

/// What is wanted of a picture of so many columns and rows; `k` is the picture's number.
type Want = fn(u32, u32, u64) -> Wanted;

const KINDS: [(&str, Want); 5] = [
    ("whole", |width, height, _| Wanted::whole(width, height)),
    ("random resized crop", crop),
    ("whole at 1/2", |width, height, _| at(width, height, Scale::Half)),
    ("whole at 1/4", |width, height, _| at(width, height, Scale::Quarter)),
    ("whole at 1/8", |width, height, _| at(width, height, Scale::Eighth)),
];

fn main() {
    let photos = photos();
    let mut ways =
        [Cpu::best(), None].map(|level| (Decoder::with(Limits::default(), level), Pixels::new()));
    println!(
        "{} photos, {ROUNDS} rounds in turn; microseconds a photo, and the ratio",
        photos.len()
    );
    for (name, want) in KINDS {
        let mut times = [(); 2].map(|()| Vec::new());
        for _ in 0..ROUNDS {
            for (way, times) in ways.iter_mut().zip(&mut times) {
                times.push(pass(way, &photos, want));
            }
        }
        let ratios = times[0].iter().zip(&times[1]).map(|(own, turbo)| turbo / own).collect();
        let [own, turbo] = times.map(median);
        println!("{name}: ours {own:.0}, libjpeg-turbo {turbo:.0}, ratio {:.2}", median(ratios));
    }
}

/// Mean microseconds of a photo.
fn pass((decoder, pixels): &mut (Decoder, Pixels), photos: &[Vec<u8>], want: Want) -> f64 {
    let mut time = Duration::ZERO;
    for (photo, k) in photos.iter().zip(0..) {
        let begin = Instant::now();
        let wanted = |width, height, _| Ok(want(width, height, k));
        decoder.decode_region(photo, wanted, pixels).expect("a good photo");
        time += begin.elapsed();
        assert!(matches!(decoder.lane(), Lane::Own | Lane::Asked), "left to libjpeg-turbo");
    }
    time.as_secs_f64() * 1e6 / photos.len() as f64
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

fn at(width: u32, height: u32, scale: Scale) -> Wanted {
    Wanted { region: Region::whole(scale.size(width), scale.size(height)), scale }
}

/// 8% to 100% of the pixels, 3:4 to 4:3.
fn crop(width: u32, height: u32, k: u64) -> Wanted {
    let mut state = k;
    let mut draw = || {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (state >> 40) as f64 / (1 << 24) as f64
    };
    loop {
        let area = f64::from(width * height) * (0.08 + 0.92 * draw());
        let aspect = (0.75_f64.ln() * (1.0 - 2.0 * draw())).exp();
        let (columns, rows) = ((area * aspect).sqrt() as u32, (area / aspect).sqrt() as u32);
        if (1..=width).contains(&columns) && (1..=height).contains(&rows) {
            let place = |all: u32, draw: f64| (f64::from(all + 1) * draw) as u32;
            let (x, y) = (place(width - columns, draw()), place(height - rows, draw()));
            let region = Region { x, y, width: columns, height: rows };
            return Wanted { region, scale: Scale::Full };
        }
    }
}

/// Baseline ones.
fn photos() -> Vec<Vec<u8>> {
    let shared = std::env::var("FOREBAY_SHARED").unwrap_or_else(|_| "../shared".into());
    let Ok(folder) = std::fs::read_dir(std::path::Path::new(&shared).join("data/photos")) else {
        return vec![jpeg(&picture(500, 375, 3), 500, 375, Kind::COURSE)];
    };
    let files = folder.map(|entry| std::fs::read(entry.unwrap().path()).unwrap());
    let baseline = |file: &Vec<u8>| {
        forebay::decoder::probe(file)
            .is_ok_and(|header| header.format == "jpeg" && !header.progressive)
    };
    files.filter(baseline).collect()
}
