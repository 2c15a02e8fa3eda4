//! The software driver of tests/softgpu under programs that look for a real one.

use std::path::{Path, PathBuf};
use std::process::Command;

/// Builds the software driver and gives a command that runs `program` on it.
pub(crate) fn command(program: &Path) -> Result<Command, String> {
    let library = library()?;
    let place = std::env::temp_dir().join(format!("forebay-softgpu-{}", std::process::id()));
    let lib = place.join("lib64");
    std::fs::create_dir_all(&lib).map_err(|e| format!("{}: {e}", lib.display()))?;
    // One library under the names that programs look for.
    for link in [place.join("libcuda.so"), place.join("libcuda.so.1"), lib.join("libnvjpeg.so.13")]
    {
        let _ = std::fs::remove_file(&link);
        std::os::unix::fs::symlink(&library, &link).map_err(|e| e.to_string())?;
    }
    let mut command = Command::new(program);
    let old = std::env::var("LD_LIBRARY_PATH").unwrap_or_default();
    command.env("LD_LIBRARY_PATH", format!("{}:{old}", place.display()));
    command.env("CUDA_HOME", &place);
    Ok(command)
}

/// The library, made anew where cargo is at hand: `make test` and `cargo test` set its path.
fn library() -> Result<PathBuf, String> {
    // Tests lie in target/release/deps, and in a bundle beside the library.
    let this = std::env::current_exe().map_err(|e| e.to_string())?;
    let release = this.parent().and_then(Path::parent).expect("a program lies in a folder");
    if let Some(cargo) = std::env::var_os("CARGO") {
        let mut build = Command::new(cargo);
        build.current_dir(env!("CARGO_MANIFEST_DIR"));
        let target = release.parent().expect("target/release");
        build.args(["build", "--release", "--quiet", "-p", "softgpu", "--target-dir"]).arg(target);
        let status = build.status().map_err(|e| e.to_string())?;
        if !status.success() {
            return Err(format!("{build:?}: {status}"));
        }
    }
    let beside = this.with_file_name("libsoftgpu.so");
    [release.join("libsoftgpu.so"), beside]
        .into_iter()
        .find(|path| path.exists())
        .ok_or_else(|| "libsoftgpu.so is not there; build it with cargo build -p softgpu".into())
}
