//! Comparisons with the reference data that are not part of this repository.

use crate::decode;
use forebay::decoder::{Decoder, Limits, Pixels, probe};
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::time::Instant;

/// A folder under `FOREBAY_SHARED` (default: `../shared`), or a printed skip.
pub(crate) fn shared(folder: &str) -> Option<PathBuf> {
    let root = std::env::var_os("FOREBAY_SHARED").map(PathBuf::from);
    let root = root.unwrap_or_else(|| Path::new(env!("CARGO_MANIFEST_DIR")).join("../shared"));
    let path = root.join(folder);
    if !path.is_dir() {
        println!("skipped: {} is not there (set FOREBAY_SHARED)", path.display());
        return None;
    }
    Some(path)
}

#[test]
fn golden_decodes() {
    let Some(golden) = shared("data/golden") else { return };
    let manifest = std::fs::read_to_string(golden.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_str(&manifest).unwrap();
    let mut compared = 0;
    for case in manifest["cases"].as_array().unwrap().iter().filter(|c| c["op"] == "decode") {
        let file = |key: &str| case[key].as_str().unwrap();
        let bytes = std::fs::read(golden.join("inputs").join(file("input"))).unwrap();
        let npy = std::fs::read(golden.join(file("output"))).unwrap();
        let data = 10 + usize::from(u16::from_le_bytes([npy[8], npy[9]]));
        let (pixels, _) = decode(&bytes).unwrap();
        let shape = [u64::from(pixels.height()), u64::from(pixels.width()), 3];
        assert_eq!(case["shape"], serde_json::json!(shape));
        assert!(pixels.bytes() == &npy[data..], "{}", file("input"));
        compared += 1;
    }
    println!("golden decodes equal to the bit: {compared}");
    assert!(compared >= 6);
}

/// Every odd file: the stated pixels within the stated tolerance, or an error where one is
/// stated or allowed.
#[test]
fn odd_images() {
    let Some(odd) = shared("data/odd-images") else { return };
    let manifest = std::fs::read_to_string(odd.join("manifest.tsv")).unwrap();
    let mut lines = manifest.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let columns = lines.next().unwrap();
    let column = |name: &str| columns.iter().position(|c| *c == name).unwrap();
    let (file, kind, expected) = (column("file"), column("kind"), column("expected"));
    let tolerance = column("tolerance_max_abs");

    let mut decoder = Decoder::new(Limits::default());
    let mut pixels = Pixels::new();
    let mut kinds = BTreeMap::<&str, (u32, u32)>::new();
    let mut wrong = Vec::new();
    let rows: Vec<_> = lines.collect();
    for row in &rows {
        let name = row[file];
        let bytes = std::fs::read(odd.join(name)).unwrap();
        let start = Instant::now();
        let result = decoder.decode(&bytes, &mut pixels);
        let seconds = start.elapsed().as_secs_f64();
        let verdict = match (row[expected].split(' ').next().unwrap(), &result) {
            ("error", Ok(_)) => Err("decoded".to_owned()),
            ("decode", Err(e)) => Err(format!("refused: {}", e.message())),
            (_, Err(_)) => Ok(()),
            (_, Ok(_)) => compare(&pixels, &bytes, &odd, name, row[tolerance]),
        };
        let verdict = verdict.and(if seconds < 5.0 { Ok(()) } else { Err("slow".to_owned()) });
        if std::env::var_os("FOREBAY_ODD_TABLE").is_some() {
            let found = result.map_or_else(|e| e.message().to_owned(), |i| format!("{i:?}"));
            println!("{name}\t{}\t{verdict:?}\t{found}", row[expected]);
        }
        let count = kinds.entry(row[kind]).or_default();
        count.1 += 1;
        match verdict {
            Ok(()) => count.0 += 1,
            Err(why) => wrong.push((name, why)),
        }
    }
    for (kind, (right, all)) in &kinds {
        println!("{kind}: {right} of {all}");
    }
    println!("odd images as stated: {} of {}", rows.len() - wrong.len(), rows.len());
    assert!(wrong.is_empty(), "{wrong:#?}");
}

/// Compares with `ref/NAME.png`, which holds the picture before EXIF's turn.
fn compare(
    pixels: &Pixels,
    bytes: &[u8],
    odd: &Path,
    name: &str,
    tolerance: &str,
) -> Result<(), String> {
    let path = odd.join("ref").join(format!("{name}.png"));
    let mut expected = image::open(&path).map_err(|e| format!("{}: {e}", path.display()))?;
    if bytes.starts_with(b"\xFF\xD8") {
        let exif =
            image::ImageReader::with_format(std::io::Cursor::new(bytes), image::ImageFormat::Jpeg);
        if let Ok(mut decoder) = exif.into_decoder() {
            let turn = image::ImageDecoder::orientation(&mut decoder);
            expected.apply_orientation(turn.unwrap_or(image::metadata::Orientation::NoTransforms));
        }
    }
    let expected = expected.to_rgb8();
    if (pixels.width(), pixels.height()) != expected.dimensions() {
        return Err(format!("{} x {}", pixels.width(), pixels.height()));
    }
    let header = probe(bytes).map_err(|e| format!("probe: {e}"))?;
    if header.upright_size() != expected.dimensions() {
        return Err("probe disagrees".to_owned());
    }
    let differences = pixels.bytes().iter().zip(expected.as_raw()).map(|(&a, &b)| a.abs_diff(b));
    let most = differences.max().unwrap_or(0);
    let allowed: u8 = tolerance.parse().map_err(|_| format!("tolerance {tolerance:?}"))?;
    if most > allowed { Err(format!("off by {most}, allowed {allowed}")) } else { Ok(()) }
}
