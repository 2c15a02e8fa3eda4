//! Who may use whom: modules of lower rows never see higher ones, foreign libraries stay where they
//! belong, and unsafe code stays in its files.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Row of each top module, and what it may use beside lower rows. ARCHITECTURE.md has the table.
const ROWS: &[(&str, &[&str])] = &[
    ("error", &["tensor", "rng", "stats", "policy"]),
    ("pages", &[]),
    ("tensor", &["error", "pages"]),
    ("file", &["error"]),
    ("rng", &["error"]),
    ("stats", &["error"]),
    ("letters", &["error"]),
    ("policy", &["error"]),
    ("graph", &["error", "file", "tensor", "rng", "policy"]),
    ("reader", &["error", "file", "tensor", "rng", "policy"]),
    ("device", &["error", "tensor", "stats"]),
    ("decoder", &["error", "pages", "tensor", "device"]),
    ("ops", &["error", "tensor", "graph"]),
    (
        "executor",
        &[
            "error", "file", "pages", "tensor", "rng", "stats", "policy", "graph", "reader",
            "device", "decoder", "ops",
        ],
    ),
    (
        "loader",
        &[
            "error", "tensor", "rng", "stats", "policy", "graph", "reader", "device", "decoder",
            "ops", "executor",
        ],
    ),
    (
        "dataset",
        &["error", "file", "tensor", "rng", "stats", "policy", "reader", "decoder", "executor"],
    ),
    ("train", &["error", "file", "tensor", "stats", "letters", "loader"]),
];

fn sources(dir: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
    found.sort();
}

/// Every source file of `src/`, as its path under it and its text.
fn all() -> Vec<(String, String)> {
    let src = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut found = Vec::new();
    sources(&src, &mut found);
    let name = |path: &Path| path.strip_prefix(&src).unwrap().display().to_string();
    found.iter().map(|path| (name(path), std::fs::read_to_string(path).unwrap())).collect()
}

/// The top modules that `text` names through `crate::`.
fn uses(text: &str) -> BTreeSet<String> {
    let word = |rest: &str| -> String {
        rest.chars().take_while(|c| c.is_ascii_alphanumeric() || *c == '_').collect()
    };
    let code = text.lines().filter(|line| !line.trim_start().starts_with("//"));
    let code = code.collect::<Vec<_>>().join("\n");
    code.match_indices("crate::").map(|(at, name)| word(&code[at + name.len()..])).collect()
}

#[test]
fn lower_rows_never_see_higher_ones() {
    let rows: BTreeMap<_, _> = ROWS.iter().copied().collect();
    let mut seen = BTreeSet::new();
    for (file, text) in all() {
        let module = file.split(['/', '.']).next().unwrap();
        let Some(&allowed) = rows.get(module) else {
            let top = ["lib", "main", "bin", "cli"];
            assert!(top.contains(&module), "src/{file}: give module {module} its row");
            continue;
        };
        seen.insert(module.to_string());
        for used in uses(&text) {
            // Re-exports of lib.rs: the error types.
            let known = used == module || ["Error", "ErrorKind", "Result"].contains(&used.as_str());
            assert!(
                known || allowed.contains(&used.as_str()),
                "src/{file} uses crate::{used}, which its row does not allow"
            );
        }
    }
    assert_eq!(seen.len(), ROWS.len(), "a module of the table has no file");
}

/// Files that may hold unsafe code; each says why at its blocks.
const UNSAFE: &[&str] = &[
    "decoder/nvjpeg/codec.rs",
    "decoder/nvjpeg/mod.rs",
    "decoder/nvjpeg/result.rs",
    "decoder/nvjpeg/sys.rs",
    "decoder/own/kernels.rs",
    "decoder/turbo.rs",
    "device/cpu.rs",
    "device/cuda/driver.rs",
    "device/cuda/memory.rs",
    "device/cuda/mod.rs",
    "device/cuda/order.rs",
    "executor/fill.rs",
    "executor/gpu/arena.rs",
    "executor/gpu/passes.rs",
    "executor/gpu/slot.rs",
    "executor/gpu/submit.rs",
    "executor/gpu/tables.rs",
    "executor/near.rs",
    "executor/program.rs",
    "pages.rs",
    "reader/fault.rs",
    "reader/held.rs",
    "reader/map.rs",
    "train/batch.rs",
    "train/device.rs",
    "train/shim.rs",
];

#[test]
fn unsafe_code_stays_in_its_files() {
    for (file, text) in all() {
        let allowed =
            text.contains("#![allow(unsafe_code)]") || text.contains("allow(unsafe_code)");
        assert_eq!(
            allowed,
            UNSAFE.contains(&file.as_str()),
            "src/{file}: see the list in this test"
        );
    }
}

#[test]
fn foreign_libraries_stay_where_they_belong() {
    for (file, text) in all() {
        let only = |name: &str, homes: &[&str]| {
            let code = text.split("#[cfg(test)]").next().unwrap();
            let named = code.lines().any(|line| {
                let line = line.trim_start();
                !line.starts_with("//") && line.contains(name)
            });
            let home = homes.iter().any(|home| file.starts_with(home));
            assert!(!named || home, "src/{file} names {name}; it belongs to {homes:?}");
        };
        only(" tch::", &["train/", "bin/forebay-train"]);
        only("anyhow", &["cli/", "main.rs", "bin/"]);
        only("nvjpeg_sys", &["decoder/nvjpeg/"]);
        only("turbojpeg_sys", &["decoder/turbo.rs"]);
        only("cudarc", &["device/cuda/", "decoder/nvjpeg/"]);
        only("nvjpeg_sys", &["decoder/nvjpeg/"]);
        only("memmap2", &["pages.rs", "reader/map.rs", "tensor.rs"]);
        only("libc::", &["reader/fault.rs"]);
        only("println!", &["cli/", "main.rs", "bin/"]);
        only("process::exit", &["cli/", "main.rs", "bin/"]);
    }
}
