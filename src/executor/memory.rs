//! How much memory there is.

use std::fs::read_to_string;

/// Bytes of memory that the machine has, or less where the process's control group is given less.
pub(super) fn whole() -> usize {
    let machine = machine("MemTotal:").unwrap_or(8 << 30);
    group_limit().map_or(machine, |limit| machine.min(limit))
}

/// Bytes that nobody uses, or for files that can be read again.
pub(super) fn free() -> usize {
    let machine = machine("MemAvailable:").unwrap_or(1 << 30);
    group_free().map_or(machine, |group| machine.min(group))
}

/// A line of the machine's account.
fn machine(name: &str) -> Option<usize> {
    let text = read_to_string("/proc/meminfo").ok()?;
    let kib: usize = number(&text, name)?.strip_suffix("kB")?.trim().parse().ok()?;
    kib.checked_mul(1024)
}

/// In a container the group's own files are at the root. Without a limit the file says "max".
fn group_limit() -> Option<usize> {
    read_to_string("/sys/fs/cgroup/memory.max").ok()?.trim().parse().ok()
}

fn group_free() -> Option<usize> {
    let used = read_to_string("/sys/fs/cgroup/memory.current").ok()?;
    let used: usize = used.trim().parse().ok()?;
    let account = read_to_string("/sys/fs/cgroup/memory.stat").ok()?;
    let bytes = |name| number(&account, name)?.parse::<usize>().ok();
    let files: usize = ["inactive_file ", "active_file "].into_iter().filter_map(bytes).sum();
    Some(group_limit()?.saturating_sub(used.saturating_sub(files)))
}

/// What stands behind `name` at the beginning of a line.
fn number<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    text.lines().find_map(|line| line.strip_prefix(name)).map(str::trim)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn some_of_all_is_free() {
        assert!(free() > 0 && free() <= whole());
        let text = "file 1\ninactive_file 20\nactive_file 3\n";
        assert_eq!(number(text, "active_file "), Some("3"));
        assert_eq!(number("MemTotal:   16 kB\n", "MemTotal:"), Some("16 kB"));
    }
}
