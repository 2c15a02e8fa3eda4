//! `forebay doctor`: what this machine and this build can do, and why.

use anyhow::Result;
use forebay::device::cpu::Cpu;
use forebay::device::images::IMAGES;
use serde_json::{Map, Value, json};
use std::fs;
use std::io::{Write, stdout};
use std::path::Path;
use std::thread::available_parallelism;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// One thing looked at.
struct Finding {
    name: &'static str,
    /// What is there.
    value: String,
    /// Why it is so, or what to do about it.
    why: String,
}

/// Looks at everything. That something is missing is an answer, not a failure.
pub(crate) fn run(args: &Args) -> Result<()> {
    let findings = [
        forebay(),
        cpu(),
        kernels(),
        jpeg(),
        formats(),
        gpu(),
        gpu_kernels(),
        trainer(),
        libtorch(),
    ];
    let mut out = stdout().lock();
    if args.json {
        let object: Map<String, Value> = findings
            .into_iter()
            .map(|f| (f.name.to_string(), json!({ "value": f.value, "why": f.why })))
            .collect();
        writeln!(out, "{}", Value::Object(object))?;
    } else {
        for Finding { name, value, why } in findings {
            writeln!(out, "{name:<9} {value}\n{:<10}{why}", "")?;
        }
    }
    Ok(())
}

fn finding(name: &'static str, value: impl Into<String>, why: impl Into<String>) -> Finding {
    Finding { name, value: value.into(), why: why.into() }
}

fn forebay() -> Finding {
    let place = std::env::current_exe()
        .map_or_else(|_| "its own place is unknown".into(), |path| path.display().to_string());
    finding("forebay", env!("CARGO_PKG_VERSION"), place)
}

fn cpu() -> Finding {
    let info = fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info.lines().find_map(|line| line.strip_prefix("model name")?.split(": ").nth(1));
    let cores = available_parallelism().map_or(1, usize::from);
    let value = format!("{}, {cores} cores", model.unwrap_or(std::env::consts::ARCH));
    finding("cpu", value, "a loader starts one thread a core, unless --threads says otherwise")
}

fn kernels() -> Finding {
    let levels: Vec<&str> = Cpu::levels().iter().map(Cpu::level).collect();
    match levels.split_first() {
        Some((best, others)) => {
            let others = match others {
                [] => "the only one built for this kind of CPU".to_string(),
                others => format!("the best that this CPU runs (also {})", others.join(", ")),
            };
            finding("kernels", *best, format!("{others}; every level gives the same bytes"))
        }
        None => finding("kernels", "none", "this CPU is older than x86-64-v2 (SSE4.2, POPCNT)"),
    }
}

fn jpeg() -> Finding {
    let value = concat!("libjpeg-turbo ", env!("FOREBAY_LIBJPEG_TURBO"));
    finding(
        "jpeg",
        value,
        "with its SIMD code, accurate IDCT and fancy upsampling: Pillow's pixels",
    )
}

fn formats() -> Finding {
    finding(
        "formats",
        "png, webp, gif, tiff, bmp, pnm",
        "the image crate; a file's content decides",
    )
}

fn gpu() -> Finding {
    let driver = Path::new("/proc/driver/nvidia/version").exists();
    let seen = if driver { "an NVIDIA driver is there, but " } else { "" };
    let why = format!(
        "{seen}this version has no GPU device yet: \"mixed\" pipelines run on the CPU, with the same bytes"
    );
    finding("gpu", "not used", why)
}

fn gpu_kernels() -> Finding {
    let mut archs: Vec<&str> = IMAGES.iter().map(|image| image.arch).collect();
    archs.dedup();
    if archs.is_empty() {
        let why = "the build found no NVRTC; `make build` brings it, or set CUDA_HOME";
        return finding("cubins", "none", why);
    }
    let why =
        "GPU kernels compiled by NVRTC at build time, kept in this program for its GPU device";
    finding("cubins", archs.join(", "), why)
}

fn trainer() -> Finding {
    let beside = std::env::current_exe().ok().map(|path| path.with_file_name("forebay-train"));
    match beside.filter(|path| path.is_file()) {
        Some(path) => finding("trainer", path.display().to_string(), "`forebay train` starts it"),
        None => finding(
            "trainer",
            "not found",
            "forebay-train does not lie beside this program; `make build` makes it",
        ),
    }
}

/// The libtorch that a build with the trainer was linked to.
fn libtorch() -> Finding {
    match option_env!("FOREBAY_LIBTORCH") {
        None => finding(
            "libtorch",
            "not used",
            "this build has no trainer; `make build` brings PyTorch and builds it",
        ),
        Some(lib) if Path::new(lib).join("libtorch_cpu.so").exists() => {
            finding("libtorch", lib, "found where the trainer was linked to it")
        }
        Some(lib) => finding(
            "libtorch",
            "not found",
            format!("the trainer was linked to {lib}, which is gone; run `make build` again"),
        ),
    }
}
