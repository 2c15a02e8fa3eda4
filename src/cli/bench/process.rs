//! What the system tells of this process: `None` where it does not.

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
    pub(super) processor: Option<f64>,
    /// Bytes that came from a disk: not those that lay in memory already.
    pub(super) disk: Option<u64>,
}

impl Usage {
    pub(super) const NONE: Usage = Usage { processor: Some(0.0), disk: Some(0) };

    /// Since it was started.
    pub(super) fn now() -> Self {
        let read = |name: &str| fs::read_to_string(name).ok();
        let ticks = read("/proc/self/stat").and_then(|text| ticks(&text));
        let second = rustix::param::clock_ticks_per_second() as f64;
        let disk = read("/proc/self/io").and_then(|text| after(&text, "read_bytes:")?.parse().ok());
        Usage { processor: ticks.map(|ticks| ticks as f64 / second), disk }
    }

    /// Adds what was used since `before`.
    pub(super) fn add_since(&mut self, before: Usage) {
        let now = Usage::now();
        let processor = |sum: f64| Some(sum + now.processor? - before.processor?);
        let disk = |sum: u64| Some(sum + now.disk? - before.disk?);
        self.processor = self.processor.and_then(processor);
        self.disk = self.disk.and_then(disk);
    }
}

/// What stands behind `name` on its line.
fn after<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

/// utime and stime of `/proc/self/stat`, the 14th field and the 15th. The second is the program's
/// name in parentheses, which may hold blanks.
fn ticks(stat: &str) -> Option<u64> {
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_ascii_whitespace().skip(11);
    let mut next = || fields.next()?.parse::<u64>().ok();
    Some(next()? + next()?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_are_found() {
        let stat = "7 (a b) c) S 1 7 7 0 -1 4194304 100 0 0 0 250 50 9 9 20 0 1 0 1 1 1";
        assert_eq!(ticks(stat), Some(300));
        assert_eq!(ticks("7 (a)"), None);
        let io = "rchar: 9\nread_bytes: 4096\ncancelled_write_bytes: 0\n";
        assert_eq!(after(io, "read_bytes:"), Some("4096"));
        assert!(peak_memory().is_some() && Usage::now().processor.is_some());
    }
}
