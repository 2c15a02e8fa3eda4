//! The images, as `manifest.tsv` states them.

use crate::Row;
use crate::alone::{self, Outcome};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::path::Path;

/// A row of each image of the manifest.
pub(crate) fn rows(odd: &Path, wanted: &(dyn Fn(&str) -> bool + Sync)) -> Vec<Row> {
    let manifest = std::fs::read_to_string(odd.join("manifest.tsv")).expect("it has a manifest");
    let mut lines = manifest.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let columns = lines.next().expect("the manifest has a header");
    let images: Vec<BTreeMap<&str, &str>> =
        lines.map(|line| columns.iter().copied().zip(line).collect()).collect();
    images.par_iter().filter(|image| wanted(image["file"])).map(|image| row(odd, image)).collect()
}

fn row(odd: &Path, image: &BTreeMap<&str, &str>) -> Row {
    let name = image["file"];
    let reference = odd.join("ref").join(format!("{name}.png"));
    // Where the bytes are not stated, a picture is.
    let reference = (image["tolerance_max_abs"] != "0").then_some(&*reference);
    let found = alone::run(&odd.join(name), reference.filter(|path| path.exists()));
    let (said, fault, cost) = match &found {
        Err(how) => (how.clone(), Some(how.clone()), None),
        Ok(found) if !found.unharmed => {
            (found.said(), Some("the decoder was not itself afterwards".into()), None)
        }
        Ok(found) => (found.said(), fault(image, &found.outcome), Some((found.ms, found.peak))),
    };
    Row { name: name.into(), expected: image["expected"].into(), said, fault, cost }
}

fn fault(image: &BTreeMap<&str, &str>, outcome: &Outcome) -> Option<String> {
    let expected = image["expected"].split(' ').next().unwrap_or_default();
    let Outcome::Decoded { size, sha256, off, header_agrees, .. } = outcome else {
        return (expected == "decode").then(|| "it should decode".into());
    };
    if expected == "error" {
        return Some("it should be refused".into());
    }
    let turned = image["sha256_rgb_exif_applied"];
    let stated = if turned.is_empty() { image["sha256_rgb"] } else { turned };
    let tolerance: u64 = image["tolerance_max_abs"].parse().unwrap_or(0);
    if !header_agrees {
        return Some(format!("its header says other than {size:?}"));
    }
    match off {
        _ if sha256 == stated => None,
        Some(off) if *off <= tolerance => None,
        Some(off) => Some(format!("off by {off}, where {tolerance} is allowed")),
        None => Some(format!("other pixels: {sha256}, not {stated}")),
    }
}
