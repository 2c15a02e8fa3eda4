//! How programs that use libtorch link to it.

use std::env;

/// Gives `forebay-train` the folder of libtorch as its run path, so that it starts from any
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
    println!("cargo::rustc-env=FOREBAY_LIBTORCH={lib}"); // For `forebay doctor`.
}
