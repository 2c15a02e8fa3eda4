//! The kernels: each `.cu` file through the C++ compiler, once for each instruction set level,
//! under names that carry the level; and through NVRTC for each GPU architecture.

use super::levels::{KERNELS, levels};
use std::path::{Path, PathBuf};
use std::{env, fs};

/// Compiles and links them for the host.
pub(crate) fn build_host() {
    println!("cargo::rerun-if-changed=kernels");
    let arch = env::var("CARGO_CFG_TARGET_ARCH").expect("set by cargo");
    for level in levels(&arch) {
        let mut build = cc::Build::new();
        build.cpp(true).cpp_link_stdlib(None).flags(level.options()).warnings_into_errors(false);
        for kernel in KERNELS {
            build.file(Path::new("kernels").join(format!("{kernel}.cu")));
        }
        build.compile(&format!("forebay_{}", level.name));
    }
}

/// Compiles the kernels for GPUs and writes `gpu_images.rs`, a table of what came out; an empty
/// one, with a warning, where NVRTC is not found.
pub(crate) fn build_gpu() {
    let out = PathBuf::from(env::var_os("OUT_DIR").expect("set by cargo"));
    let mut table = String::from("&[\n");
    match super::nvrtc::find() {
        Err(reason) => {
            println!("cargo::warning=no NVRTC, so no kernels for GPUs (`make setup` brings it)");
            println!("searched for NVRTC: {reason}");
        }
        Ok(nvrtc) => {
            let (major, minor) = nvrtc.version;
            println!("cargo::rustc-env=FOREBAY_NVRTC={major}.{minor}");
            let headers = headers();
            let headers: Vec<_> =
                headers.iter().map(|(n, text)| (n.as_str(), text.as_str())).collect();
            for kernel in KERNELS {
                let source = read(&Path::new("kernels").join(format!("{kernel}.cu")));
                for arch in super::nvrtc::ARCHITECTURES {
                    let compiled = nvrtc
                        .compile(&format!("{kernel}.cu"), &source, &headers, arch)
                        .unwrap_or_else(|reason| panic!("kernels/{kernel}.cu: {reason}"));
                    let file = out.join(format!("{kernel}.{arch}"));
                    fs::write(&file, compiled.image).expect("OUT_DIR is writable");
                    table += &format!(
                        "Image {{ kernel: {kernel:?}, arch: {arch:?}, log: {:?}, \
                         code: include_bytes!({file:?}) }},\n",
                        compiled.log
                    );
                }
            }
        }
    }
    table += "]\n";
    fs::write(out.join("gpu_images.rs"), table).expect("OUT_DIR is writable");
}

/// Names and texts of the kernels' headers.
fn headers() -> Vec<(String, String)> {
    let mut headers: Vec<_> = fs::read_dir("kernels")
        .expect("kernels/ is there")
        .map(|entry| entry.expect("kernels/ can be listed").path())
        .filter(|path| path.extension().is_some_and(|e| e == "cuh"))
        .map(|path| (path.file_name().unwrap().to_string_lossy().into_owned(), read(&path)))
        .collect();
    headers.sort();
    headers
}

fn read(path: &Path) -> String {
    fs::read_to_string(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()))
}
