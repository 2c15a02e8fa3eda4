//! A name for nvjpeg-sys to link.
//!
//! The crate asks the linker for `-lnvjpeg`, though only its types and constants are used here: the
//! library itself is opened at run time, if there is one. An archive without members satisfies the
//! linker everywhere and leaves no trace in the programs.

use std::path::PathBuf;
use std::{env, fs};

/// Writes the archive and tells the linker where it lies.
pub(crate) fn link() {
    let dir = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo")).join("nvjpeg");
    fs::create_dir_all(&dir).expect("OUT_DIR is writable");
    fs::write(dir.join("libnvjpeg.a"), "!<arch>\n").expect("OUT_DIR is writable");
    println!("cargo::rustc-link-search=native={}", dir.display());
}
