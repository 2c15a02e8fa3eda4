//! `forebay doctor`: what this machine and this build can do, and why.

use super::decodes::{self, Missing};
use super::open::{PipelineArgs, roots};
use anyhow::Result;
use forebay::decoder::nvjpeg::{Library, Nvjpeg};
use forebay::decoder::{Decoder, Lane, Limits, Reason, Route, Rule};
use forebay::device::Kernel;
use forebay::device::cpu::Cpu;
use forebay::device::cuda::{Cuda, Driver, Gpu, architectures};
use forebay::device::images::{IMAGES, Image, NVRTC, Resources};
use forebay::graph::spec::{Backend, DecoderSpec, Placement, Spec};
use forebay::loader::open_reader;
use forebay::reader::Content;
use serde_json::{Map, Value, json};
use std::fs;
use std::io::{Write, stdout};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::thread::available_parallelism;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Also count who would decode the images of this directory, on a GPU and without one, and why
    #[arg(long, value_name = "DIR")]
    data: Option<PathBuf>,
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// The first GPU, or what keeps it from being used.
type GpuResult = forebay::Result<Arc<Cuda>>;

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
    let spec = args.pipeline.spec()?;
    let images = args.data.as_deref().map(|data| images(data, &spec)).transpose()?;
    // Opened once, since that takes a while.
    let gpu = Cuda::open(0);
    let findings = [
        forebay(),
        cpu(),
        kernels(),
        jpeg(&spec.decoder),
        formats(),
        driver(),
        gpus(&gpu),
        nvrtc(),
        gpu_kernels(),
        nvjpeg(&gpu),
        mixed(&gpu, &spec.decoder),
        trainer(),
        libtorch(),
    ];
    let mut out = stdout().lock();
    if args.json {
        let mut object: Map<String, Value> = findings
            .into_iter()
            .map(|f| (f.name.to_string(), json!({ "value": f.value, "why": f.why })))
            .collect();
        object.insert("gpu_kernels".into(), resources());
        if let Some(images) = images {
            object.insert("images".into(), images.to_json());
        }
        writeln!(out, "{}", Value::Object(object))?;
    } else {
        for Finding { name, value, why } in findings {
            writeln!(out, "{name:<9} {value}\n{:<10}{why}", "")?;
        }
        if let Some(images) = images {
            write!(out, "{}", images.to_text())?;
        }
    }
    Ok(())
}

/// Who would decode the images of a directory.
struct Images {
    own: u64,
    nvjpeg: u64,
    /// On a GPU, for the CPU beside it.
    cpu: Vec<(Reason, u64)>,
    /// Where there is no GPU, as far as headers tell.
    lanes: Vec<(Lane, u64)>,
}

impl Images {
    fn to_json(&self) -> Value {
        let cpu = self.cpu.iter().map(|(reason, count)| (reason.name().to_string(), json!(count)));
        let lanes = self.lanes.iter().map(|(lane, count)| (lane.name().to_string(), json!(count)));
        let (cpu, lanes): (Map<_, _>, Map<_, _>) = (cpu.collect(), lanes.collect());
        json!({ "own": self.own, "nvjpeg": self.nvjpeg, "cpu": cpu, "without_gpu": lanes })
    }

    fn to_text(&self) -> String {
        let mut text = format!("images    {} for our own kernels on a GPU\n", self.own);
        let mut line = |line: String| text += &format!("{:<10}{line}\n", "");
        line(format!("{} for nvJPEG on a GPU", self.nvjpeg));
        for (reason, count) in &self.cpu {
            line(format!("{count} for the CPU beside it: {reason}"));
        }
        for (lane, count) in &self.lanes {
            line(format!("{count} for {} without a GPU: {lane}", lane.decoder()));
        }
        text
    }
}

/// Routes every image as a loader would, from its bytes and the pipeline's `[decoder]`.
fn images(data: &Path, spec: &Spec) -> Result<Images> {
    let roots = roots(data, &spec.reader.kind)?;
    let limits = Limits::default();
    let reader = open_reader(&spec.reader.kind, &roots[0], false, limits.bytes)?;
    let decoder = &spec.decoder;
    let gpu = if decoder.device == Placement::Cpu { Err(Reason::Pipeline) } else { Ok(()) };
    let (split, exact, own) = (decoder.least(), decoder.is_exact(), decoder.own_on_gpu());
    let rule = Rule { split, exact, own, gpu, limits };
    let level = Cpu::best().filter(|_| decoder.backend != Backend::Turbo);
    let (mut decoder, mut file) = (Decoder::with(limits, level), Vec::new());
    let (mut own, mut nvjpeg) = (0, 0);
    let (mut reasons, mut lanes) = ([0; Reason::COUNT], [0; Lane::ALL.len()]);
    for id in 0..reader.len() {
        if let Content::Encoded = reader.read(id, &mut file)? {
            match decoder.route(&file, &rule) {
                Route::Own(_) => own += 1,
                Route::Nvjpeg(_) => nvjpeg += 1,
                Route::Cpu(reason) => reasons[reason.index()] += 1,
            }
            lanes[decoder.lane_of(&file).index()] += 1;
        }
    }
    let cpu = Reason::ALL.into_iter().zip(reasons).filter(|(_, count)| *count > 0).collect();
    let lanes = Lane::ALL.into_iter().zip(lanes).filter(|(_, count)| *count > 0).collect();
    Ok(Images { own, nvjpeg, cpu, lanes })
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

fn jpeg(decoder: &DecoderSpec) -> Finding {
    let turbo = concat!("libjpeg-turbo ", env!("FOREBAY_LIBJPEG_TURBO"));
    let pixels = "accurate IDCT and fancy upsampling, Pillow's pixels, whoever decodes";
    match decodes::lane(decoder) {
        Lane::Own => finding(
            "jpeg",
            format!("forebay, else {turbo}"),
            format!(
                "baseline files by our own kernels, what is rare or damaged by libjpeg-turbo; {pixels}"
            ),
        ),
        lane => finding("jpeg", turbo, format!("{lane}; {pixels}")),
    }
}

fn formats() -> Finding {
    finding(
        "formats",
        "png, webp, gif, tiff, bmp, pnm",
        "the image crate; a file's content decides",
    )
}

fn driver() -> Finding {
    match Driver::probe() {
        Err(error) => {
            let absent = error.to_string().contains("libcuda.so.1 is not");
            finding("driver", if absent { "absent" } else { "unusable" }, error.to_string())
        }
        Ok(driver) => {
            let (major, minor) = driver.version();
            let why = match driver.check_version() {
                Ok(()) => "new enough for the kernels of this build".to_string(),
                Err(error) => error.to_string(),
            };
            finding("driver", format!("CUDA {major}.{minor}"), why)
        }
    }
}

fn gpus(gpu: &GpuResult) -> Finding {
    let Ok(driver) = Driver::probe() else {
        return finding("gpus", "none", "without a driver none can be seen");
    };
    let describe = |ordinal| match driver.gpu(ordinal) {
        Err(error) => error.to_string(),
        Ok(Gpu { ordinal, name, capability: (major, minor), memory }) => {
            format!("cuda:{ordinal} {name}, {major}.{minor}, {} MiB", memory >> 20)
        }
    };
    let gpus: Vec<String> = (0..driver.devices()).map(describe).collect();
    let chosen = match gpu {
        Ok(cuda) => {
            let images =
                Kernel::ALL.map(|kernel| format!("{} {}", kernel.name(), cuda.image(kernel)));
            format!("--device auto takes cuda:0 ({})", images.join(", "))
        }
        Err(error) => format!("--device auto takes the CPU: {error}"),
    };
    finding("gpus", gpus.join("; "), chosen)
}

fn nvrtc() -> Finding {
    match NVRTC {
        Some(version) => finding("nvrtc", version, "compiled the kernels for GPUs in this program"),
        None => finding(
            "nvrtc",
            "not found",
            "the build found none, so there are no kernels for GPUs; `make build` brings it, or \
             set CUDA_HOME",
        ),
    }
}

fn gpu_kernels() -> Finding {
    let archs: Vec<&str> = architectures().collect();
    if archs.is_empty() {
        return finding("cubins", "none", "without NVRTC there are none");
    }
    let most = |of: fn(&Resources) -> u32| {
        IMAGES.iter().filter_map(Image::resources).map(|r| of(&r)).max().unwrap_or(0)
    };
    let why = format!(
        "machine code, and PTX that newer GPUs compile; at most {} registers a thread, no spills: \
         --json has each",
        most(|r| r.registers)
    );
    let spills = most(|r| r.spill_stores + r.spill_loads);
    let why = if spills == 0 { why } else { why.replace("no spills", "some spills") };
    finding("cubins", archs.join(", "), why)
}

fn nvjpeg(gpu: &GpuResult) -> Finding {
    let library = match Library::open() {
        Err(error) => return finding("nvjpeg", "not found", error.to_string()),
        Ok(library) => library,
    };
    let [major, minor, patch] = library.version();
    let why = match gpu {
        Ok(cuda) => match cuda.bind() {
            Ok(_bound) => Nvjpeg::new(library).description(),
            Err(error) => error.to_string(),
        },
        Err(_) => format!("{}; without a GPU it is not used", library.path().display()),
    };
    finding("nvjpeg", format!("{major}.{minor}.{patch}"), why)
}

/// Who decodes here, by the pipeline's `[decoder]`.
fn mixed(gpu: &GpuResult, decoder: &DecoderSpec) -> Finding {
    let missing = match gpu {
        Err(error) => Some(Missing::Gpu(error.to_string())),
        Ok(cuda) => {
            let started = cuda.bind().and_then(|_bound| Nvjpeg::new(Library::open()?).start());
            started.err().map(|error| Missing::Nvjpeg(error.to_string()))
        }
    };
    let (who, why) = decodes::here(decoder, missing);
    finding("mixed", who, why)
}

/// Every kernel for every architecture, as NVRTC's log tells of it.
fn resources() -> Value {
    let row = |image: &Image| {
        let r = image.resources();
        json!({
            "kernel": image.kernel,
            "arch": image.arch,
            "bytes": image.code.len(),
            "registers": r.map(|r| r.registers),
            "stack": r.map(|r| r.stack),
            "spill_stores": r.map(|r| r.spill_stores),
            "spill_loads": r.map(|r| r.spill_loads),
        })
    };
    IMAGES.iter().map(row).collect()
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
