//! What was measured, for people and for programs.

use super::bottleneck::{Stage, Work};
use crate::cli::counts;
use crate::cli::digest::Digest;
use crate::cli::paths::Paths;
use forebay::stats::BadSamples;
use indicatif::HumanBytes;
use serde_json::{Value, json};

/// What was measured.
pub(super) struct Report {
    pub(super) pipeline: String,
    pub(super) batch_size: usize,
    /// Samples an epoch.
    pub(super) samples: usize,
    /// By epoch.
    pub(super) images_per_s: Vec<f64>,
    /// By epoch; none where the batches were not looked at.
    pub(super) digests: Vec<Digest>,
    /// The first epoch that counts to `work` and to medians: not 0 where a cache fills in that.
    pub(super) first_counted: usize,
    /// Of those epochs.
    pub(super) work: Work,
    /// Of decoders, on images that were kept.
    pub(super) warnings: u64,
    pub(super) grown_slots: u64,
    pub(super) bad: BadSamples,
    /// Where the pipeline ran.
    pub(super) device: String,
    /// Whether each epoch began without its files in memory.
    pub(super) cold: bool,
    pub(super) paths: Paths,
    pub(super) peak_memory: Option<u64>,
    pub(super) baseline: Option<Vec<f64>>,
}

impl Report {
    /// Images/s of the epochs that count.
    fn median(&self) -> f64 {
        median(&self.images_per_s[self.first_counted..])
    }

    pub(super) fn to_json(&self) -> Value {
        let rates = |rates: &[f64]| -> Vec<f64> { rates.iter().map(|r| rounded(*r, 1)).collect() };
        let digest = self.digests.iter().copied().sum::<Digest>().to_string();
        let Work { stats, threads, .. } = &self.work;
        let mut object = json!({
            "forebay": env!("CARGO_PKG_VERSION"),
            "pipeline": self.pipeline,
            "device": self.device,
            "threads": threads,
            "batch_size": self.batch_size,
            "samples": self.samples,
            "cold": self.cold,
            "images_per_s": rates(&self.images_per_s),
            "digest": (!self.digests.is_empty()).then_some(digest),
            "epoch_digests": self.digests.iter().map(Digest::to_string).collect::<Vec<_>>(),
            "first_counted_epoch": self.first_counted,
            "stages_s": {
                "read": seconds(stats.read_ns),
                "decode": seconds(stats.decode_ns),
                "augment": seconds(stats.augment_ns),
                "wait": seconds(stats.wait_ns),
            },
            "decoder_warnings": self.warnings,
            "bad_samples": self.bad.samples,
            "skipped": self.bad.skipped,
            "replaced": self.bad.replaced,
            "peak_memory_bytes": self.peak_memory,
        });
        object["where"] = self.work.to_json();
        object["decoded"] = self.paths.to_json();
        if let Some(baseline) = &self.baseline {
            let ratio = self.median() / median(baseline);
            object["baseline"] =
                json!({ "images_per_s": rates(baseline), "ratio": rounded(ratio, 2) });
        }
        object
    }

    pub(super) fn to_text(&self) -> String {
        let Report { batch_size, samples, images_per_s, device, .. } = self;
        let threads = counts(self.work.threads as u64, "thread", "threads");
        let cold = if self.cold { ", none of the files in memory at first" } else { "" };
        let mut text = format!(
            "{samples} samples an epoch, batches of {batch_size}, on {device} with \
             {threads}{cold}\n\n"
        );
        let mut line = |name: &str, value: &str| text += &format!("{name:<12}{value:>12}\n");
        line("", "images/s");
        for (epoch, rate) in images_per_s.iter().enumerate() {
            line(&format!("epoch {epoch}"), &format!("{rate:.0}"));
        }
        line("median", &format!("{:.0}", self.median()));
        if let Some(rates) = &self.baseline {
            line("baseline", &format!("{:.0}", median(rates)));
            line("ratio", &format!("{:.2}", self.median() / median(rates)));
        }
        if self.first_counted > 0 {
            text += "\nwithout epoch 0, in which the cache fills: the median and what follows\n";
        }
        text += &self.work.to_text();
        text += &self.paths.to_text();
        if self.grown_slots > 0 {
            let grown = self.grown_slots;
            text += &format!("{grown} batch slots were made beside the usual ones\n");
        }
        if let Some(bytes) = self.peak_memory {
            text += &format!("\npeak memory {:.0} MiB\n", bytes as f64 / f64::from(1 << 20));
        }
        for (epoch, digest) in self.digests.iter().enumerate() {
            text += &format!("digest of epoch {epoch} {digest}\n");
        }
        text
    }
}

impl Work {
    fn to_json(&self) -> Value {
        let [read, decode, augment] = self.stages();
        let each = |value: &dyn Fn(Stage) -> f64| json!({ "read": value(read), "decode": value(decode), "augment": value(augment) });
        let largest = self.largest();
        json!({
            "us_per_image": each(&|stage| rounded(self.us_per_image(stage), 3)),
            "share": each(&|stage| rounded(self.share(stage), 4)),
            "queue": self.queue().map(|(ready, under_way)| {
                json!({ "ready": rounded(ready, 2), "under_way": rounded(under_way, 2) })
            }),
            "wait_share": rounded(self.wait_share(), 4),
            "cores": rounded(self.cores(), 4),
            "disk_bytes": self.used.disk,
            "largest": largest.name,
            "limited_by": self.limit().map(|limit| limit.to_string()),
            "alone_images_per_s": rounded(self.alone(largest), 1),
            "reached": rounded(self.reached(largest), 4),
        })
    }

    fn to_text(&self) -> String {
        let mut text = format!("\n{:<12}{:>12}{:>12}\n", "threads", "us/image", "share");
        for stage in self.stages() {
            let (us, share) = (self.us_per_image(stage), 100.0 * self.share(stage));
            text += &format!("{:<12}{us:>12.2}{share:>10.1} %\n", stage.name);
        }
        text += "\n";
        let mut line = |name: &str, value: String, what: &str| {
            text += &format!("{name:<12}{value:>12}  {what}\n");
        };
        if let Some((ready, under_way)) = self.queue() {
            let value = format!("{ready:.1} of {under_way:.1}");
            line("queue", value, "batches were ready when the consumer asked for one");
        }
        let waited = format!("{:.1} %", 100.0 * self.wait_share());
        line("wait", waited, "of the time the consumer waited for a batch");
        // So that little work is not none.
        let digits = if self.cores() < 0.1 { 4 } else { 2 };
        let cores = format!("{:.digits$} of {}", self.cores(), self.available);
        line("cores", cores, "were at work for this process");
        if let Some(bytes) = self.used.disk {
            line("disk", HumanBytes(bytes).to_string(), "read from it");
        }
        let verdict = self.verdict();
        if verdict.is_empty() { text } else { format!("{text}\n{verdict}") }
    }
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    if sorted.len() % 2 == 1 { sorted[middle] } else { (sorted[middle - 1] + sorted[middle]) / 2.0 }
}

fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10_f64.powi(digits);
    (value * scale).round() / scale
}

fn seconds(ns: u64) -> f64 {
    ns as f64 / 1e9
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_in_the_middle() {
        assert_eq!(median(&[3.0]), 3.0);
        assert_eq!(median(&[9.0, 1.0, 3.0]), 3.0);
        assert_eq!(median(&[9.0, 1.0, 3.0, 4.0]), 3.5);
    }
}
