//! Memory of devices and pinned memory of the host: each allocation alone between pages that nobody
//! may touch, poisoned, and never at an address that was used before.
//!
//! Device memory is out of the host's reach as well: it opens when an operation runs and closes when
//! the call returns, so a host that reads through a device address is stopped by the same fault that
//! stops a kernel outside its allocations.

use std::collections::BTreeMap;
use std::ops::Range;

/// Fresh memory. As an f32 it is -2.9e13.
pub(crate) const POISON: u8 = 0xD5;
/// What lies between an allocation and the pages around it.
const SLACK: u8 = 0x5A;
/// Addresses and sizes are multiples of it, as the driver's are.
const ROUND: usize = 256;
const PAGE: usize = 4096;
/// Addresses are reserved this many bytes at a time.
const ARENA: usize = 64 << 30;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// On a device of this number.
    Device(u32),
    Pinned,
}

struct Allocation {
    bytes: usize,
    kind: Kind,
}

impl Allocation {
    fn rounded(&self) -> usize {
        self.bytes.next_multiple_of(ROUND)
    }
}

/// The whole pages that hold an allocation at `base`, which ends where they end.
fn pages(base: usize, rounded: usize) -> Range<usize> {
    base / PAGE * PAGE..base + rounded
}

#[derive(Default)]
pub(crate) struct Memory {
    live: BTreeMap<usize, Allocation>,
    /// Every address ever reserved.
    arenas: Vec<Range<usize>>,
    /// What is left of the last arena.
    fresh: Range<usize>,
    /// Device memory can be touched.
    open: bool,
    pub(crate) peak_device_bytes: u64,
    pub(crate) allocations: u64,
}

impl Memory {
    /// Live bytes of a kind, each allocation rounded up.
    pub(crate) fn live_bytes(&self, which: impl Fn(Kind) -> bool) -> u64 {
        self.live.values().filter(|a| which(a.kind)).map(|a| a.rounded() as u64).sum()
    }

    pub(crate) fn device_bytes(&self) -> u64 {
        self.live_bytes(|kind| kind != Kind::Pinned)
    }

    /// Starts the counters anew.
    pub(crate) fn reset_counters(&mut self) {
        self.peak_device_bytes = self.device_bytes();
        self.allocations = 0;
    }

    /// The address of `bytes` fresh bytes, or `None` where the machine itself has no more.
    pub(crate) fn allocate(&mut self, bytes: usize, kind: Kind) -> Option<usize> {
        let allocation = Allocation { bytes, kind };
        let rounded = bytes.checked_next_multiple_of(ROUND)?;
        let span = rounded.checked_next_multiple_of(PAGE)?;
        let needed = span.checked_add(2 * PAGE)?;
        if self.fresh.len() < needed {
            self.fresh = reserve(needed.max(ARENA))?;
            self.arenas.push(self.fresh.clone());
        }
        let end = self.fresh.start + PAGE + span;
        self.fresh.start = end + PAGE;
        let base = end - rounded;
        self.set_open(true);
        if !protect(pages(base, rounded), libc::PROT_READ | libc::PROT_WRITE) {
            return None;
        }
        // SAFETY: these pages were just made writable and nobody else has their address.
        unsafe {
            std::ptr::write_bytes((end - span) as *mut u8, SLACK, span);
            std::ptr::write_bytes(base as *mut u8, POISON, bytes);
        }
        self.live.insert(base, allocation);
        self.allocations += 1;
        self.peak_device_bytes = self.peak_device_bytes.max(self.device_bytes());
        Some(base)
    }

    /// Gives an allocation back; its addresses are out of bounds from now on. The error says why it
    /// could not be, or what was written beside it.
    pub(crate) fn free(&mut self, base: usize, pinned: bool) -> Result<(), FreeError> {
        let found = self.live.get(&base).filter(|a| (a.kind == Kind::Pinned) == pinned);
        let Some(allocation) = found else {
            return Err(FreeError::Unknown);
        };
        let range = pages(base, allocation.rounded());
        self.set_open(true);
        let spoilt = self.spoilt(base);
        self.live.remove(&base);
        close_for_ever(range);
        spoilt.map_or(Ok(()), |text| Err(FreeError::Spoilt(text)))
    }

    /// What was written beside live allocations.
    pub(crate) fn all_spoilt(&mut self) -> Vec<String> {
        self.set_open(true);
        self.live.keys().filter_map(|&base| self.spoilt(base)).collect()
    }

    fn spoilt(&self, base: usize) -> Option<String> {
        let allocation = &self.live[&base];
        let range = pages(base, allocation.rounded());
        let slack = |range: Range<usize>| {
            // SAFETY: the pages of a live allocation, which are open.
            let bytes =
                unsafe { std::slice::from_raw_parts(range.start as *const u8, range.len()) };
            bytes.iter().all(|&b| b == SLACK)
        };
        let place = if !slack(range.start..base) {
            "before"
        } else if !slack(base + allocation.bytes..range.end) {
            "behind"
        } else {
            return None;
        };
        Some(format!("written {place} an allocation of {} bytes at {base:#x}", allocation.bytes))
    }

    /// Whose memory `bytes` bytes at `address` are; `None` for what the driver did not allocate. An
    /// error says in words why they are not the inside of one live allocation.
    pub(crate) fn place(&self, address: usize, bytes: usize) -> Result<Option<Kind>, String> {
        if !self.arenas.iter().any(|arena| arena.contains(&address)) {
            return Ok(None);
        }
        let below = self.live.range(..=address).next_back();
        match below.map(|(base, a)| (address - base, a)) {
            Some((at, a)) if at <= a.bytes && bytes <= a.bytes - at => Ok(Some(a.kind)),
            Some((at, a)) if at < a.rounded() => Err(format!(
                "{bytes} bytes at {address:#x}, byte {at} of an allocation of {} bytes",
                a.bytes
            )),
            _ => Err(format!("{bytes} bytes at {address:#x}, where nothing is allocated")),
        }
    }

    /// As [`Memory::place`], for what must lie on a device.
    pub(crate) fn on_device(&self, address: usize, bytes: usize) -> Result<(), String> {
        match self.place(address, bytes)? {
            Some(Kind::Device(_)) => Ok(()),
            _ => Err(format!("{bytes} bytes at {address:#x}, which are not on a device")),
        }
    }

    /// Lets operations at device memory, or nobody.
    pub(crate) fn set_open(&mut self, open: bool) {
        if self.open == open {
            return;
        }
        self.open = open;
        let mode = if open { libc::PROT_READ | libc::PROT_WRITE } else { libc::PROT_NONE };
        for (&base, allocation) in &self.live {
            if allocation.kind != Kind::Pinned {
                let done = protect(pages(base, allocation.rounded()), mode);
                assert!(done, "mprotect failed on live memory");
            }
        }
    }
}

/// Why memory was not given back cleanly.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum FreeError {
    /// There is no such allocation.
    Unknown,
    /// It is gone, but somebody had written beside it.
    Spoilt(String),
}

fn reserve(bytes: usize) -> Option<Range<usize>> {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    // SAFETY: a new mapping, at a place of the kernel's choice.
    let at = unsafe { libc::mmap(std::ptr::null_mut(), bytes, libc::PROT_NONE, flags, -1, 0) };
    (at != libc::MAP_FAILED).then(|| at as usize..at as usize + bytes)
}

fn protect(range: Range<usize>, mode: i32) -> bool {
    // SAFETY: whole pages of an arena of ours.
    unsafe { libc::mprotect(range.start as *mut _, range.len(), mode) == 0 }
}

/// Returns the pages to the kernel and keeps their addresses.
fn close_for_ever(range: Range<usize>) {
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE | libc::MAP_FIXED;
    // SAFETY: pages of an allocation that nobody may use any more.
    let at =
        unsafe { libc::mmap(range.start as *mut _, range.len(), libc::PROT_NONE, flags, -1, 0) };
    assert!(at != libc::MAP_FAILED, "mmap failed on memory being freed");
}
