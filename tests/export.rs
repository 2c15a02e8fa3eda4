//! Exported directories: what they hold, and that a second run finds, mends or follows.

use forebay::dataset::Source;
use forebay::dataset::export::{Jpeg, Report, Subsampling, export};
use forebay::dataset::shapes::{Part, Shapes};
use std::fs;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use xxhash_rust::xxh3::Xxh3;

const JPEG: Jpeg = Jpeg { quality: 75, subsampling: Subsampling::S420 };

fn shapes(count: u64) -> Shapes {
    Shapes::new(1, Part::Train, count, 32)
}

fn run(dir: &Path, count: u64, jpeg: Jpeg) -> Result<Report, String> {
    let counted = AtomicU64::new(0);
    let progress = |n| {
        counted.fetch_add(n, Ordering::Relaxed);
    };
    let report = export(&shapes(count), dir, jpeg, &progress, &AtomicBool::new(false));
    let report = report.map_err(|e| e.to_string())?;
    assert_eq!(counted.into_inner(), report.written + report.kept);
    Ok(report)
}

fn done(written: u64, kept: u64) -> Report {
    Report { written, kept, complete: true }
}

/// Every name in `dir` but the images'.
fn other_names(dir: &Path) -> Vec<String> {
    let names = fs::read_dir(dir).unwrap().map(|e| e.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|n| !n.ends_with(".jpg")).collect();
    names.sort();
    names
}

#[test]
fn a_directory_is_written_found_and_mended() {
    let temp = tempfile::tempdir().unwrap();
    let dir = &temp.path().join("new/train");
    assert_eq!(run(dir, 300, JPEG).unwrap(), done(300, 0));
    assert_eq!(other_names(dir), ["classes.txt", "labels.txt"]);
    let labels: String = (0..300).map(|i| format!("{i}.jpg {}\n", i % 10)).collect();
    assert_eq!(fs::read_to_string(dir.join("labels.txt")).unwrap(), labels);
    let classes = fs::read_to_string(dir.join("classes.txt")).unwrap();
    assert!(classes.starts_with("circle\nsquare\n") && classes.lines().count() == 10);

    assert_eq!(run(dir, 300, JPEG).unwrap(), done(0, 300));
    fs::remove_file(dir.join("7.jpg")).unwrap();
    fs::write(dir.join("8.jpg"), b"\xFF\xD8 cut short").unwrap();
    fs::remove_file(dir.join("labels.txt")).unwrap();
    fs::write(dir.join(".0.part"), b"left by a killed run").unwrap();
    assert_eq!(run(dir, 300, JPEG).unwrap(), done(2, 298));
    assert_eq!(other_names(dir), ["classes.txt", "labels.txt"]);

    // Another setting is not taken for done.
    let finer = Jpeg { quality: 76, ..JPEG };
    assert_eq!(run(dir, 300, finer).unwrap(), done(300, 0));
    let denser = Jpeg { subsampling: Subsampling::S444, ..finer };
    assert_eq!(run(dir, 300, denser).unwrap(), done(300, 0));
    // Fewer images: the same files, a shorter list.
    assert_eq!(run(dir, 200, denser).unwrap(), done(0, 200));
    assert_eq!(fs::read_to_string(dir.join("labels.txt")).unwrap().lines().count(), 200);
}

#[test]
fn a_stopped_export_leaves_no_list_and_goes_on() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path();
    run(dir, 500, Jpeg { quality: 10, ..JPEG }).unwrap();
    let (stop, seen) = (AtomicBool::new(false), AtomicU64::new(0));
    let progress = |n| {
        if seen.fetch_add(n, Ordering::Relaxed) == 100 {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let report = export(&shapes(500), dir, JPEG, &progress, &stop).unwrap();
    assert!(!report.complete && report.written > 100 && report.written < 500);
    assert_eq!(other_names(dir), ["classes.txt"], "the list of the old images must be gone");
    assert_eq!(run(dir, 500, JPEG).unwrap(), done(500 - report.written, report.written));
}

#[test]
fn what_cannot_be_written_is_one_error() {
    let temp = tempfile::tempdir().unwrap();
    let dir = temp.path().join("d");
    fs::create_dir_all(dir.join("5.jpg/inside")).unwrap();
    let error = run(&dir, 10, JPEG).unwrap_err();
    assert!(error.starts_with(&format!("{}/5.jpg: cannot write: ", dir.display())), "{error}");
    assert!(other_names(&dir).is_empty(), "{:?}", other_names(&dir));
    let file = temp.path().join("file");
    fs::write(&file, b"").unwrap();
    let error = run(&file.join("train"), 10, JPEG).unwrap_err();
    assert!(error.contains("cannot create directory"), "{error}");
}

/// Digest of the first images of a part.
fn pixels_digest(shapes: &Shapes) -> u64 {
    let mut digest = Xxh3::new();
    let mut rgb = vec![0; 3 * (shapes.side() * shapes.side()) as usize];
    for index in 0..shapes.len() {
        shapes.image(index, &mut rgb).unwrap();
        digest.update(&rgb);
    }
    digest.digest()
}

/// The drawing is integer arithmetic: these hold on every machine.
#[test]
fn shapes_are_the_same_everywhere() {
    let of = |seed, part, size| pixels_digest(&Shapes::new(seed, part, 100, size));
    assert_eq!(of(0, Part::Train, 32), DIGESTS[0]);
    assert_eq!(of(0, Part::Valid, 32), DIGESTS[1]);
    assert_eq!(of(u64::MAX, Part::Train, 32), DIGESTS[2]);
    assert_eq!(of(0, Part::Train, 97), DIGESTS[3]);
    assert_eq!(of(0, Part::Train, 8), DIGESTS[4]);
}

const DIGESTS: [u64; 5] = [
    0x5e53_3032_cf57_dd87,
    0x8151_1b4a_5946_b74e,
    0xb04e_8f4e_dd1d_da7f,
    0x6718_21a3_4362_274d,
    0x3171_faed_3d02_0287,
];

/// What Pillow 13 makes of the same images, saved as JPEG and read again, at three settings.
const PILLOW: [(Jpeg, u64); 3] = [
    (JPEG, 0x2e30_1b7c_5d16_14f6),
    (Jpeg { quality: 90, subsampling: Subsampling::S422 }, 0xd9bd_b265_1ad1_c9e7),
    (Jpeg { quality: 30, subsampling: Subsampling::S444 }, 0x1baa_091b_06d2_6441),
];

#[test]
fn pixels_equal_pillows() {
    for (jpeg, expected) in PILLOW {
        let temp = tempfile::tempdir().unwrap();
        run(temp.path(), 100, jpeg).unwrap();
        let mut digest = Xxh3::new();
        for index in 0..100 {
            let bytes = fs::read(temp.path().join(format!("{index}.jpg"))).unwrap();
            let image = turbojpeg::decompress(&bytes, turbojpeg::PixelFormat::RGB).unwrap();
            digest.update(&image.pixels);
        }
        assert_eq!(digest.digest(), expected, "{jpeg:?}");
    }
}
