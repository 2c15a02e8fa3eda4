//! What the programs load when they start.

use std::path::Path;
use std::process::Command;

/// The libraries that `program` is linked with, by readelf of the C++ compiler's tools.
fn needed(program: &Path) -> Vec<String> {
    let output = Command::new("readelf").arg("-d").arg(program).output().unwrap();
    assert!(output.status.success(), "{output:?}");
    let text = String::from_utf8(output.stdout).unwrap();
    let lines = text.lines().filter(|line| line.contains("(NEEDED)"));
    lines.filter_map(|line| Some(line.split_once('[')?.1.trim_end_matches(']').into())).collect()
}

/// It runs from another directory without environment variables, and loads none of `unwanted`.
fn check(program: &str, unwanted: &[&str]) {
    let libraries = needed(Path::new(program));
    assert!(libraries.iter().any(|library| library.starts_with("libc.")), "{libraries:?}");
    for unwanted in unwanted {
        let loaded = libraries.iter().find(|library| library.contains(unwanted));
        assert_eq!(loaded, None, "{program}");
    }
    let output = Command::new(program).arg("--help").current_dir("/").env_clear().output().unwrap();
    assert!(output.status.success(), "{output:?}");
}

#[test]
fn forebay_loads_neither_torch_nor_cuda() {
    check(env!("CARGO_BIN_EXE_forebay"), &["torch", "c10", "cuda", "nvjpeg", "nvrtc", "jpeg"]);
}

#[test]
#[cfg(feature = "train")]
fn forebay_train_loads_torch_but_not_cuda() {
    // libtorch.so itself asks for libtorch_cuda.so.
    let unwanted = ["libtorch.so", "torch_cuda", "c10_cuda", "libcuda", "nvjpeg", "nvrtc", "jpeg"];
    check(env!("CARGO_BIN_EXE_forebay-train"), &unwanted);
}
