//! What the system tells of this process: `None` where it does not.

use rustix::time::{ClockId, clock_gettime};
use std::fs;

/// The most memory that it has held, in bytes.
pub(super) fn peak_memory() -> Option<u64> {
    let status = fs::read_to_string("/proc/self/status").ok()?;
    let kib: u64 = after(&status, "VmHWM:")?.trim_end_matches(" kB").parse().ok()?;
    Some(kib * 1024)
}

/// What it has used.
#[derive(Debug, Clone, Copy)]
pub(super) struct Usage {
    /// Seconds that its threads spent on processors, in sum.
    pub(super) processor: f64,
    /// Bytes that came from a disk: not those that lay in memory already.
    pub(super) disk: Option<u64>,
}

impl Usage {
    pub(super) const NONE: Usage = Usage { processor: 0.0, disk: Some(0) };

    /// Since it was started.
    pub(super) fn now() -> Self {
        // To the nanosecond, where /proc/self/stat counts hundredths of a second.
        let spent = clock_gettime(ClockId::ProcessCPUTime);
        let io = fs::read_to_string("/proc/self/io").ok();
        let disk = io.and_then(|text| after(&text, "read_bytes:")?.parse().ok());
        Usage { processor: spent.tv_sec as f64 + spent.tv_nsec as f64 / 1e9, disk }
    }

    /// Adds what was used since `before`.
    pub(super) fn add_since(&mut self, before: Usage) {
        let now = Usage::now();
        self.processor += now.processor - before.processor;
        let disk = |sum: u64| Some(sum + now.disk? - before.disk?);
        self.disk = self.disk.and_then(disk);
    }
}

/// What stands behind `name` on its line.
fn after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let io = "rchar: 9\nread_bytes: 4096\ncancelled_write_bytes: 0\n";
        assert_eq!(after(io, "read_bytes:"), Some("4096"));
        assert!(peak_memory().is_some());
    }

    /// A few milliseconds of work are seen, as an epoch over a hundred files has.
    #[test]
    fn short_work_is_seen() {
        let mut used = Usage::NONE;
        let before = Usage::now();
        std::hint::black_box((0..1_000_000u64).fold(1, |sum, k| std::hint::black_box(sum ^ k)));
        used.add_since(before);
        assert!(used.processor > 0.0);
    }
}
