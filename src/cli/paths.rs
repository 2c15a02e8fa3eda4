//! Which decoder took each image, and why: what a loader has counted.

use forebay::decoder::Lane;
use forebay::loader::{GpuStats, Loader};
use serde_json::{Value, json};

/// A snapshot.
pub(crate) struct Paths {
    /// Images that nvJPEG got, and what it is; `None` without a GPU.
    gpu: Option<(GpuStats, String)>,
    /// Images for the CPU: name and words of the reason, and how many.
    cpu: Vec<(&'static str, String, u64)>,
    /// Who decoded those.
    lanes: Vec<(Lane, u64)>,
    /// What nvJPEG said when it last failed.
    failure: Option<String>,
}

impl Paths {
    pub(crate) fn of(loader: &Loader) -> Self {
        let gpu = loader.gpu_stats().zip(loader.nvjpeg().map(str::to_string));
        let cpu = loader.cpu_decoded().into_iter();
        let cpu = cpu.map(|(r, count)| (r.name(), r.to_string(), count)).collect();
        Paths { gpu, cpu, lanes: loader.cpu_decoders(), failure: loader.nvjpeg_failure() }
    }

    pub(crate) fn to_json(&self) -> Value {
        let reasons = self.cpu.iter().map(|(name, _, count)| (name.to_string(), json!(count)));
        let lanes = self.lanes.iter().map(|(lane, count)| (lane.name().to_string(), json!(count)));
        let mut object = json!({
            "cpu": Value::Object(reasons.collect()),
            "cpu_by": Value::Object(lanes.collect()),
        });
        if let Some((stats, nvjpeg)) = &self.gpu {
            object["nvjpeg"] = json!({
                "library": nvjpeg,
                "hardware": stats.hardware,
                "single": stats.single,
                "failed_then_cpu": stats.retried,
                "last_failure": self.failure,
            });
            object["own"] = json!({ "images": stats.own, "doubt_then_cpu": stats.doubted });
            object["memory_grown"] = json!(stats.grown);
        }
        object
    }

    /// Nothing where nothing was decoded. Why images went to the CPU is told where there is a GPU.
    pub(crate) fn to_text(&self) -> String {
        let mut text = String::new();
        let mut line = |name: &str, count: u64, why: &str| {
            if count > 0 {
                text += &format!("{name:<14}{count:>10}  {why}\n");
            }
        };
        for (lane, count) in &self.lanes {
            line(lane.decoder(), *count, &lane.to_string());
        }
        let Some((stats, nvjpeg)) = &self.gpu else {
            return if text.is_empty() { text } else { format!("\nwho decoded\n{text}") };
        };
        line("GPU", stats.own, "by our own kernels");
        line("nvJPEG", stats.hardware, "by the chip's JPEG engine");
        line("nvJPEG", stats.single, "one by one");
        for (_, why, count) in &self.cpu {
            line("CPU", *count, why);
        }
        line("CPU", stats.doubted, "after our own kernels were left in doubt");
        let failure = self.failure.as_deref().unwrap_or("it left them unwritten");
        line("CPU", stats.retried, &format!("after nvJPEG failed at them: {failure}"));
        format!("\nwho decoded ({nvjpeg})\n{text}")
    }
}
