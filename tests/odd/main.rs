//! Every odd image and label list against what its manifest states, and files that declare more than
//! they may.
//!
//! A test without libtest's harness: each image is decoded by this program started anew, under a limit
//! on memory and time, so that one that crashes, hangs or eats memory is one wrong row and no more.
//!
//! ```text
//! odd [--nocapture] [FILTER]     --nocapture: the table, file by file
//! ```

mod alone;
#[path = "../common/mod.rs"]
mod common;
#[path = "../decoder/encode.rs"]
#[allow(dead_code)] // Each binary uses a part.
mod encode;
#[path = "../decoder/files.rs"]
#[allow(dead_code)]
mod files;
mod huge;
mod images;
mod lists;

use std::path::Path;
use std::process::ExitCode;

/// What came of one file.
struct Row {
    name: String,
    /// What the manifest states.
    expected: String,
    /// What was said.
    said: String,
    /// Why that is wrong, if it is.
    fault: Option<String>,
    /// Milliseconds, and MiB at the peak, of the process that decoded it.
    cost: Option<(f64, f64)>,
}

fn main() -> ExitCode {
    let words: Vec<String> = std::env::args().skip(1).collect();
    if let [alone, file, rest @ ..] = &words[..]
        && alone == alone::FLAG
    {
        alone::decode(Path::new(file), rest.first().map(Path::new));
        return ExitCode::SUCCESS;
    }
    let has = |flag: &str| words.iter().any(|word| word == flag);
    if has("--list") {
        println!("odd: test");
        return ExitCode::SUCCESS;
    }
    let filter = words.iter().find(|word| !word.starts_with('-'));
    let wanted = |name: &str| filter.is_none_or(|filter| name.contains(filter.as_str()));

    let mut rows = huge::rows(&wanted);
    if let Some(odd) = common::shared("odd-images") {
        rows.extend(images::rows(&odd, &wanted));
        rows.extend(lists::rows(&odd.join("lists"), &wanted));
    }
    for row in rows.iter().filter(|row| has("--nocapture") || row.fault.is_some()) {
        print(row);
    }
    let right = rows.iter().filter(|row| row.fault.is_none()).count();
    let widest = |of: fn(&(f64, f64)) -> f64| {
        rows.iter().filter_map(|row| row.cost.as_ref()).map(of).fold(0.0, f64::max)
    };
    let (time, memory) = (widest(|cost| cost.0), widest(|cost| cost.1));
    println!("odd files: the slowest {time:.0} ms, the largest {memory:.0} MiB");
    println!("odd files as stated: {right} of {}", rows.len());
    if right == rows.len() { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn print(row: &Row) {
    let verdict = if row.fault.is_none() { "ok" } else { "WRONG" };
    let cost = row.cost.map(|(ms, mib)| format!("{ms:8.1} ms {mib:6.1} MiB"));
    let cost = cost.unwrap_or_else(|| format!("{:22}", ""));
    println!("{verdict:5} {cost}  {:44} {:22} {}", row.name, row.expected, row.said);
    if let Some(fault) = &row.fault {
        println!("      {fault}");
    }
}
