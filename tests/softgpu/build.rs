//! Compiles each kernel's GPU entry for the host, under a level of its own, and writes the table of
//! what `cuModuleGetFunction` can find.

#[path = "../../build/levels.rs"]
mod levels;

use std::path::{Path, PathBuf};
use std::{env, fs};

fn main() {
    let root = Path::new(&env::var("CARGO_MANIFEST_DIR").expect("set by cargo")).join("../..");
    let kernels = root.join("kernels");
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-changed={}", root.join("build/levels.rs").display());
    println!("cargo::rerun-if-changed={}", kernels.display());

    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let mut level = levels::levels("any")[0];
    level.name = "soft";
    let mut build = cc::Build::new();
    build.cpp(true).cpp_link_stdlib(None).include(&kernels).flags(level.options());
    build.warnings(false);

    let (mut declared, mut table) = (String::new(), String::new());
    for kernel in levels::KERNELS {
        let file = out.join(format!("{kernel}.cpp"));
        fs::write(&file, wrapper(kernel)).expect("OUT_DIR is writable");
        build.file(&file);
        declared += &format!(
            "fn soft_{kernel}_block(args: *const c_void, block: u32, threads: u32);\n\
             static soft_{kernel}_bytes: u64;\n"
        );
        table += &format!(
            "Kernel {{ name: \"forebay_{kernel}\", block: soft_{kernel}_block, \
             bytes: &raw const soft_{kernel}_bytes }},\n"
        );
    }
    build.compile("softgpu_kernels");
    let text = format!(
        "unsafe extern \"C\" {{\n{declared}}}\n\
         pub(crate) static KERNELS: &[Kernel] = &[\n{table}];\n"
    );
    fs::write(out.join("kernels.rs"), text).expect("OUT_DIR is writable");
}

/// C++ that runs one block of a kernel, thread by thread, and gives the size of its parameters.
fn wrapper(kernel: &str) -> String {
    let (first, rest) = kernel.split_at(1);
    let args = format!("soft::{}{rest}Args", first.to_uppercase());
    format!(
        "#include \"{kernel}.cu\"\n\
         extern \"C\" const u64 soft_{kernel}_bytes = sizeof({args});\n\
         extern \"C\" void soft_{kernel}_block(const void* args, u32 block, u32 threads) {{\n\
         \x20 for (u32 t = 0; t < threads; ++t)\n\
         \x20   soft::{kernel}_thread(*(const {args}*)args, block, t, threads);\n\
         }}\n"
    )
}
