//! What keeps epochs from being faster, from what was counted.

use super::process::Usage;
use forebay::stats::Stats;
use indicatif::HumanCount;
use std::fmt;

/// Below this share of the time, waiting is what any hand-over costs.
const HARDLY: f64 = 0.1;
/// Bytes from the disk for an image from which on it is the disk that is read, not memory. Of packed
/// files it is less than a page.
const FETCHED: u64 = 400;
/// The same where the threads were off the processors for much of their time: that the disk has so little for
/// an image may be where files lie, and what they hold is in memory.
const FOUND: u64 = 40;

/// What the epochs took, in sum.
pub(super) struct Work {
    /// From each epoch's first request to its last batch.
    pub(super) seconds: f64,
    /// Delivered.
    pub(super) images: usize,
    pub(super) threads: usize,
    /// Processors that the process may use.
    pub(super) available: usize,
    pub(super) stats: Stats,
    /// By the process.
    pub(super) used: Usage,
    /// Whether all stages are the threads': on a GPU, theirs end when images lie where the upload
    /// finds them.
    pub(super) on_cpu: bool,
}

/// Part of what threads do for an image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Stage {
    pub(super) name: &'static str,
    /// In all threads.
    pub(super) ns: u64,
}

/// Of what there is too little.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Limit {
    /// Batches lie ready: it takes them no faster.
    Consumer,
    /// Threads wait for bytes.
    Disk,
    /// Threads work all the time.
    Cores,
}

impl fmt::Display for Limit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Limit::Consumer => "the consumer",
            Limit::Disk => "the disk",
            Limit::Cores => "cores",
        })
    }
}

impl Work {
    pub(super) fn stages(&self) -> [Stage; 3] {
        let Stats { read_ns, decode_ns, augment_ns, .. } = self.stats;
        let last = if self.on_cpu { "augment" } else { "hand over" };
        [("read", read_ns), ("decode", decode_ns), (last, augment_ns)]
            .map(|(name, ns)| Stage { name, ns })
    }

    /// What most of the threads' time goes to.
    pub(super) fn largest(&self) -> Stage {
        let stages = self.stages();
        stages.into_iter().max_by_key(|stage| stage.ns).expect("there are three")
    }

    /// Of the time that threads are busy, from 0 to 1.
    pub(super) fn share(&self, stage: Stage) -> f64 {
        let busy: u64 = self.stages().iter().map(|stage| stage.ns).sum();
        stage.ns as f64 / busy.max(1) as f64
    }

    /// Microseconds of a thread for an image.
    pub(super) fn us_per_image(&self, stage: Stage) -> f64 {
        stage.ns as f64 / 1e3 / self.images.max(1) as f64
    }

    /// Images/s if the threads did nothing but this.
    pub(super) fn alone(&self, stage: Stage) -> f64 {
        (self.threads * self.images) as f64 * 1e9 / stage.ns.max(1) as f64
    }

    /// What part of that was reached.
    pub(super) fn reached(&self, stage: Stage) -> f64 {
        self.images as f64 / self.seconds / self.alone(stage)
    }

    /// The share of the time that the consumer waited for a batch, from 0 to 1.
    pub(super) fn wait_share(&self) -> f64 {
        self.stats.wait_ns as f64 / 1e9 / self.seconds
    }

    /// Batches that were finished when the consumer asked for one, and those that were under way, on
    /// average. `None` where it never asked while some were.
    pub(super) fn queue(&self) -> Option<(f64, f64)> {
        let Stats { requests, under_way, ready, .. } = self.stats;
        let mean = |sum: u64| sum as f64 / requests as f64;
        (requests > 0).then(|| (mean(ready), mean(under_way)))
    }

    /// Processors that were at work, on average.
    pub(super) fn cores(&self) -> f64 {
        self.used.processor / self.seconds
    }

    /// Whether the threads had clearly less of the processors than they would have taken.
    fn stalled(&self) -> bool {
        let busy: u64 = self.stages().iter().map(|stage| stage.ns).sum();
        // In a short epoch they are idle for much of it, which is nobody's fault.
        let busy = busy as f64 / 1e9 / self.seconds;
        self.cores() < 0.8 * busy.min(self.threads.min(self.available) as f64)
    }

    /// `None`: where it cannot be told, since a GPU does part of the work.
    pub(super) fn limit(&self) -> Option<Limit> {
        let least = if self.stalled() { FOUND } else { FETCHED };
        let from_disk = self.used.disk.is_some_and(|bytes| bytes > self.images as u64 * least);
        if self.wait_share() < HARDLY {
            Some(Limit::Consumer)
        } else if !self.on_cpu {
            None
        } else if from_disk && self.largest().name == "read" {
            Some(Limit::Disk)
        } else {
            Some(Limit::Cores)
        }
    }

    /// `decode: 71%, limited by cores`, and how far from the limit that is.
    pub(super) fn verdict(&self) -> String {
        let (stage, Some(limit)) = (self.largest(), self.limit()) else { return String::new() };
        let share = 100.0 * self.share(stage);
        let mut text = format!("{}: {share:.0}%, limited by {limit}", stage.name);
        if limit == Limit::Cores && self.stalled() {
            text += ", which other work on this machine takes a part of";
        }
        text += "\n";
        // Beyond what the consumer takes, stages say nothing.
        if limit != Limit::Consumer {
            let alone = HumanCount(self.alone(stage).round() as u64);
            let reached = self.reached(stage);
            text += &format!(
                "{} alone would reach {alone}/s; you have {reached:.2} of it\n",
                stage.name
            );
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two threads, a second, of which they are busy all the time; 7 us of 10 go to decode.
    fn work() -> Work {
        let stats = Stats {
            read_ns: 400_000_000,
            decode_ns: 1_400_000_000,
            augment_ns: 200_000_000,
            wait_ns: 900_000_000,
            requests: 4,
            under_way: 16,
            ready: 2,
            ..Stats::default()
        };
        Work {
            seconds: 1.0,
            images: 200_000,
            threads: 2,
            available: 2,
            stats,
            used: Usage { processor: 1.9, disk: Some(0) },
            on_cpu: true,
        }
    }

    #[test]
    fn threads_that_work_all_the_time_are_too_few() {
        let work = work();
        assert_eq!(work.queue(), Some((0.5, 4.0)));
        assert_eq!(work.us_per_image(work.largest()), 7.0);
        assert_eq!(
            work.verdict(),
            "decode: 70%, limited by cores\n\
             decode alone would reach 285,714/s; you have 0.70 of it\n"
        );
    }

    #[test]
    fn other_work_is_told() {
        let mut work = work();
        work.used.processor = 1.2;
        let first =
            "decode: 70%, limited by cores, which other work on this machine takes a part of";
        assert_eq!(work.verdict().lines().next(), Some(first));
        work.threads = 1;
        assert!(!work.verdict().contains("other work"));
        let mut idle = self::work();
        idle.used.processor = 1.2;
        idle.stats.decode_ns /= 2;
        assert!(!idle.verdict().contains("other work"));
    }

    #[test]
    fn what_waits_is_not_at_fault() {
        let mut slow = work();
        slow.stats.wait_ns = 50_000_000;
        assert_eq!(slow.verdict(), "decode: 70%, limited by the consumer\n");

        let mut cold = work();
        cold.stats.read_ns = 10_000_000_000;
        assert_eq!(cold.limit(), Some(Limit::Cores));
        cold.used.disk = Some(4096 * 200_000);
        assert_eq!(cold.limit(), Some(Limit::Disk));
        // Names and places of files come from it, too.
        cold.used.disk = Some(180 * 200_000);
        assert_eq!(cold.limit(), Some(Limit::Cores));
        cold.used.processor = 0.3;
        assert_eq!(cold.limit(), Some(Limit::Disk));
        // A stage that waits for the disk is not the largest: threads are busy elsewhere.
        cold.stats.read_ns = 1_000_000_000;
        assert_eq!(cold.limit(), Some(Limit::Cores));
    }

    #[test]
    fn a_gpu_does_what_is_not_counted() {
        let gpu = Work { on_cpu: false, ..work() };
        assert_eq!((gpu.limit(), gpu.verdict().as_str()), (None, ""));
    }
}
