//! Parts of photos as random resized crops take them, whole photos, smaller scales, and pictures of 32x32: our
//! JPEG decoder at this machine's best level beside libjpeg-turbo, in turn, on one thread.
//!
//! `cargo bench --bench regions -- [WORD]`: of the photos in the data folder (FOREBAY_SHARED), else of a made
//! one. WORD: only what has it in its name.

#[path = "../tests/decoder/encode.rs"]
#[allow(dead_code)] // A part is used.
mod encode;

use encode::{Kind, jpeg, picture};
use forebay::dataset::Source;
use forebay::dataset::shapes::{Part, Shapes};
use forebay::decoder::{Decoder, Lane, Limits, Pixels, Region, Scale, Wanted};
use forebay::device::cpu::Cpu;
use std::time::{Duration, Instant};

const ROUNDS: usize = 9;
/// A turn lasts so long at the least.
const LEAST: Duration = Duration::from_millis(20);

/// What is wanted of a picture of so many columns and rows; `k` is the picture's number.
type Want = fn(u32, u32, u64) -> Wanted;

const KINDS: [(&str, Want); 5] = [
    ("whole", |width, height, _| Wanted::whole(width, height)),
    ("random resized crop", crop),
    ("whole at 1/2", |width, height, _| at(width, height, Scale::Half)),
    ("whole at 1/4", |width, height, _| at(width, height, Scale::Quarter)),
    ("whole at 1/8", |width, height, _| at(width, height, Scale::Eighth)),
];

/// Small pictures; so many that a processor does not learn one by heart.
const SMALL: u64 = 500;

fn main() {
    // cargo adds --bench.
    let word = std::env::args().skip(1).find(|word| !word.starts_with("--")).unwrap_or_default();
    let Some(cpu) = Cpu::best() else { return println!("this CPU has no kernels") };
    let mut ways =
        [Some(cpu), None].map(|level| (Decoder::with(Limits::default(), level), Pixels::new()));
    println!("ours at {}; {ROUNDS} rounds in turn; microseconds a picture, median", cpu.level());
    let (photos, small) = (photos(), (0..SMALL).map(small).collect::<Vec<_>>());
    let rows =
        KINDS.map(|(name, want)| (format!("{} photos, {name}", photos.len()), &photos, want));
    let bytes = small.iter().map(Vec::len).sum::<usize>() / small.len();
    let last = (format!("{SMALL} shapes of 32x32 in {bytes} bytes, whole"), &small, KINDS[0].1);
    for (name, files, want) in rows.into_iter().chain([last]) {
        if name.contains(&word) {
            println!("{name}: {}", compare(&mut ways, files, want));
        }
    }
}

fn compare(ways: &mut [(Decoder, Pixels); 2], files: &[Vec<u8>], want: Want) -> String {
    let mut times = [(); 2].map(|()| Vec::new());
    // The first round fills caches and tables.
    for round in 0..=ROUNDS {
        for (way, times) in ways.iter_mut().zip(&mut times) {
            let time = pass(way, files, want);
            times.extend((round > 0).then_some(time));
        }
    }
    let mut ratios: Vec<f64> =
        times[0].iter().zip(&times[1]).map(|(own, turbo)| turbo / own).collect();
    ratios.sort_by(f64::total_cmp);
    let [own, turbo] = times.map(median);
    let (least, most) = (ratios[0], ratios[ROUNDS - 1]);
    let ratio = median(ratios);
    format!(
        "ours {own:.1}, libjpeg-turbo {turbo:.1}, ratio {ratio:.2} ({least:.2} to {most:.2}, n = {ROUNDS})"
    )
}

/// Mean microseconds of a picture, of as many passes as last some milliseconds.
fn pass((decoder, pixels): &mut (Decoder, Pixels), files: &[Vec<u8>], want: Want) -> f64 {
    let (begin, mut passes) = (Instant::now(), 0);
    loop {
        for (file, k) in files.iter().zip(0..) {
            let wanted = |width, height, _| Ok(want(width, height, k));
            decoder.decode_region(file, wanted, pixels).expect("a good picture");
            assert!(matches!(decoder.lane(), Lane::Own | Lane::Asked), "left to libjpeg-turbo");
        }
        passes += 1;
        let time = begin.elapsed();
        if time > LEAST {
            return time.as_secs_f64() * 1e6 / f64::from(passes) / files.len() as f64;
        }
    }
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

/// As the course's export stores them. An image of CIFAR-10 has some 930 bytes there.
fn small(number: u64) -> Vec<u8> {
    let shapes = Shapes::new(1, Part::Train, SMALL, 32);
    let mut rgb = vec![0; 3 * 32 * 32];
    shapes.image(number, &mut rgb).expect("a shape");
    jpeg(&rgb, 32, 32, Kind::COURSE)
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
