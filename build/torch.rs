//! How programs that use libtorch link to it, and what the trainer adds to tch in C++.

use std::env;
use std::path::Path;

/// Compiles the trainer's shim over libtorch's headers, and gives `forebay-train` the folder of libtorch as its run path, so that it starts from any
/// directory without environment variables; tests of the trainer get it too.
///
/// torch-sys has found libtorch already (in `LIBTORCH`) and hands its lib folder on as metadata.
pub(crate) fn link() {
    if env::var_os("CARGO_FEATURE_TRAIN").is_none() {
        return;
    }
    let lib = env::var("DEP_TCH_LIBTORCH_LIB").expect("torch-sys names libtorch's folder");
    for target in ["bin=forebay-train", "tests"] {
        println!("cargo::rustc-link-arg-{target}=-Wl,-rpath,{lib}");
    }
    // Where `forebay doctor` looks for it, and `forebay train` for its CUDA part.
    println!("cargo::rustc-env=FOREBAY_LIBTORCH={lib}");
    build_shim(&Path::new(&lib).with_file_name("include"));
}

/// Only who calls it links it, and with it libtorch; its warnings are for our code, not for the
/// headers.
fn build_shim(headers: &Path) {
    println!("cargo::rerun-if-changed=src/train/shim.cpp");
    cc::Build::new()
        .cpp(true)
        .std("c++17")
        .file("src/train/shim.cpp")
        .flag("-isystem")
        .flag(headers)
        .warnings(true)
        .extra_warnings(true)
        .cpp_link_stdlib(None) // torch-sys links it.
        .compile("forebay_train");
}
