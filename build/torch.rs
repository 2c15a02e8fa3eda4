//! How programs that use libtorch link to it.

use std::env;

/// Gives every program and test the folder of libtorch as its run path, so that they start from
/// any directory without environment variables.
///
/// torch-sys has found libtorch already (in `LIBTORCH`) and hands its lib folder on as metadata.
/// The run path goes to all targets because cargo has no key for a library's unit tests alone;
/// a program that calls nothing in libtorch still does not load it.
pub(crate) fn link() {
    if env::var_os("CARGO_FEATURE_TRAIN").is_none() {
        return;
    }
    let lib = env::var("DEP_TCH_LIBTORCH_LIB").expect("torch-sys names libtorch's folder");
    println!("cargo::rustc-link-arg=-Wl,-rpath,{lib}");
    println!("cargo::rustc-env=FOREBAY_LIBTORCH={lib}"); // For `forebay doctor`.
}
