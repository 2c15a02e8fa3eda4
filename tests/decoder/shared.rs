//! Comparisons with the reference data that are not part of this repository.

use crate::decode;
use std::path::{Path, PathBuf};

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
