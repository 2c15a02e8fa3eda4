//! Counters of where the time goes.

use std::fmt;
use std::sync::atomic::{AtomicU64, Ordering};

/// Busy time of each stage, summed over threads, and counts; a snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Stats {
    /// Samples finished.
    pub samples: u64,
    /// Nanoseconds spent reading files.
    pub read_ns: u64,
    /// Nanoseconds spent decoding.
    pub decode_ns: u64,
    /// Nanoseconds spent in resolve and the passes.
    pub augment_ns: u64,
    /// Nanoseconds the consumer waited for a batch.
    pub wait_ns: u64,
    /// Warnings of decoders on images that were kept.
    pub warnings: u64,
    /// Slots made because every one was held.
    pub grown_slots: u64,
    /// Times that the consumer asked for a batch while some were under way: all but an epoch's first.
    pub requests: u64,
    /// Batches under way at those times, in sum.
    pub under_way: u64,
    /// Those of them that were finished: over `requests` it is how full the queue was.
    pub ready: u64,
}

impl std::ops::AddAssign for Stats {
    fn add_assign(&mut self, other: Stats) {
        self.samples += other.samples;
        self.read_ns += other.read_ns;
        self.decode_ns += other.decode_ns;
        self.augment_ns += other.augment_ns;
        self.wait_ns += other.wait_ns;
        self.warnings += other.warnings;
        self.grown_slots += other.grown_slots;
        self.requests += other.requests;
        self.under_way += other.under_way;
        self.ready += other.ready;
    }
}

impl std::ops::Sub for Stats {
    type Output = Self;
    /// What was counted since the earlier snapshot `before`.
    fn sub(self, before: Self) -> Self {
        Stats {
            samples: self.samples - before.samples,
            read_ns: self.read_ns - before.read_ns,
            decode_ns: self.decode_ns - before.decode_ns,
            augment_ns: self.augment_ns - before.augment_ns,
            wait_ns: self.wait_ns - before.wait_ns,
            warnings: self.warnings - before.warnings,
            grown_slots: self.grown_slots - before.grown_slots,
            requests: self.requests - before.requests,
            under_way: self.under_way - before.under_way,
            ready: self.ready - before.ready,
        }
    }
}

/// Samples that could not be made as they are, among those of delivered batches; a snapshot.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct BadSamples {
    /// Different samples that cannot be read or decoded.
    pub samples: u64,
    /// Places of batches left out because of them, in all epochs.
    pub skipped: u64,
    /// Places of batches that another sample took, in all epochs.
    pub replaced: u64,
    /// Different samples that were kept in spite of a decoder's warning.
    pub warned: u64,
}

impl BadSamples {
    /// Whether every sample was made without a word.
    pub fn is_none(&self) -> bool {
        *self == Self::default()
    }
}

impl std::ops::Add for BadSamples {
    type Output = Self;
    /// Of two lists together.
    fn add(self, other: Self) -> Self {
        BadSamples {
            samples: self.samples + other.samples,
            skipped: self.skipped + other.skipped,
            replaced: self.replaced + other.replaced,
            warned: self.warned + other.warned,
        }
    }
}

/// `3 samples are bad: 5 places left out; 1 image kept in spite of a decoder's warning`.
impl fmt::Display for BadSamples {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fn count(n: u64, what: &str) -> String {
            format!("{n} {what}{}", if n == 1 { "" } else { "s" })
        }
        let BadSamples { samples, skipped, replaced, warned } = *self;
        let be = if samples == 1 { "is" } else { "are" };
        write!(f, "{} {be} bad", count(samples, "sample"))?;
        let done = [(skipped, "left out"), (replaced, "taken by others")];
        let done = done.iter().filter(|(places, _)| *places > 0);
        for ((places, what), before) in done.zip([": ", ", "]) {
            write!(f, "{before}{} {what}", count(*places, "place"))?;
        }
        if warned > 0 {
            write!(f, "; {} kept in spite of a decoder's warning", count(warned, "image"))?;
        }
        Ok(())
    }
}

/// The counters behind [`Stats`], shared by threads.
///
/// Relaxed order suffices: each is a sum that nothing else is ordered by.
#[derive(Debug, Default)]
pub struct Counters {
    /// See [`Stats::samples`].
    pub samples: AtomicU64,
    /// See [`Stats::read_ns`].
    pub read_ns: AtomicU64,
    /// See [`Stats::decode_ns`].
    pub decode_ns: AtomicU64,
    /// See [`Stats::augment_ns`].
    pub augment_ns: AtomicU64,
    /// See [`Stats::wait_ns`].
    pub wait_ns: AtomicU64,
    /// See [`Stats::warnings`].
    pub warnings: AtomicU64,
    /// See [`Stats::grown_slots`].
    pub grown_slots: AtomicU64,
    /// See [`Stats::requests`].
    pub requests: AtomicU64,
    /// See [`Stats::under_way`].
    pub under_way: AtomicU64,
    /// See [`Stats::ready`].
    pub ready: AtomicU64,
}

impl Counters {
    /// The counts so far.
    pub fn snapshot(&self) -> Stats {
        let get = |c: &AtomicU64| c.load(Ordering::Relaxed);
        Stats {
            samples: get(&self.samples),
            read_ns: get(&self.read_ns),
            decode_ns: get(&self.decode_ns),
            augment_ns: get(&self.augment_ns),
            wait_ns: get(&self.wait_ns),
            warnings: get(&self.warnings),
            grown_slots: get(&self.grown_slots),
            requests: get(&self.requests),
            under_way: get(&self.under_way),
            ready: get(&self.ready),
        }
    }
}
