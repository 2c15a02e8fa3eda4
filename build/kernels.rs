//! The kernels for the host: each `.cu` file through the C++ compiler, once for each instruction
//! set level, under names that carry the level.

use std::path::Path;

/// Level, floats in a vector register, compiler's name for it.
const X86: [(&str, u32, &str); 3] =
    [("v2", 4, "-march=x86-64-v2"), ("v3", 8, "-march=x86-64-v3"), ("v4", 16, "-march=x86-64-v4")];

/// The kernels, each a file and an entry.
const KERNELS: [&str; 2] = ["resolve", "augment"];

/// Compiles and links them.
pub(crate) fn build_host() {
    println!("cargo::rerun-if-changed=kernels");
    let arch = std::env::var("CARGO_CFG_TARGET_ARCH").expect("set by cargo");
    match arch.as_str() {
        "x86_64" => X86.iter().for_each(|&(level, lanes, flag)| compile(level, lanes, Some(flag))),
        // Every aarch64 has 128-bit NEON; other machines get the same width in plain C++.
        _ => compile("generic", 4, None),
    }
}

fn compile(level: &str, lanes: u32, march: Option<&str>) {
    let mut build = cc::Build::new();
    build
        .cpp(true)
        .cpp_link_stdlib(None)
        .std("c++17")
        .opt_level(3)
        .flags(["-x", "c++", "-ffp-contract=off", "-fno-math-errno", "-fno-exceptions", "-fno-rtti"])
        .define("FB_LEVEL", level)
        .define("FB_LANES", lanes.to_string().as_str())
        .warnings(true)
        .warnings_into_errors(false);
    if let Some(march) = march {
        build.flag(march);
    }
    for kernel in KERNELS {
        build.file(Path::new("kernels").join(format!("{kernel}.cu")));
    }
    build.compile(&format!("forebay_{level}"));
}
