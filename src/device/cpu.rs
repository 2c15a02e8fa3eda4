//! The CPU: the kernel sources compiled for the host, at the best instruction set level it has.
#![allow(unsafe_code)]

use super::Kernel;
use std::ffi::c_void;
use std::ops::Range;

type Launch = unsafe extern "C" fn(*const c_void, u32, u32);

/// The two entries of one kernel.
#[derive(Clone, Copy)]
struct Entry {
    /// A range of samples.
    range: Launch,
    /// The threads of a grid.
    grid: Launch,
}

/// One level's kernels. All levels give the same bytes; tests hold one against the other.
#[derive(Clone, Copy)]
pub struct Cpu {
    level: &'static str,
    /// In the order of [`Kernel::ALL`].
    entries: [Entry; Kernel::ALL.len()],
}

/// A kernel of one level: its symbols carry both names.
macro_rules! entry {
    ($level:literal, $kernel:literal) => {{
        unsafe extern "C" {
            #[link_name = concat!("forebay_", $level, "_", $kernel)]
            fn range(args: *const c_void, begin: u32, end: u32);
            #[link_name = concat!("forebay_", $level, "_", $kernel, "_grid")]
            fn grid(args: *const c_void, blocks: u32, threads: u32);
        }
        Entry { range, grid }
    }};
}

macro_rules! level {
    ($level:literal, $name:literal) => {
        Cpu {
            level: $name,
            entries: [
                entry!($level, "settle"),
                entry!($level, "resolve"),
                entry!($level, "augment"),
                entry!($level, "entropy"),
                entry!($level, "subsequence"),
                entry!($level, "idct"),
                entry!($level, "colour"),
            ],
        }
    };
}

impl Cpu {
    /// The levels that this machine can run, best first.
    #[cfg(target_arch = "x86_64")]
    pub fn levels() -> Vec<Cpu> {
        let v2 = is_x86_feature_detected!("sse4.2") && is_x86_feature_detected!("popcnt");
        let v3 = v2
            && is_x86_feature_detected!("avx2")
            && is_x86_feature_detected!("fma")
            && is_x86_feature_detected!("f16c")
            && is_x86_feature_detected!("bmi1")
            && is_x86_feature_detected!("bmi2")
            && is_x86_feature_detected!("lzcnt")
            && is_x86_feature_detected!("movbe");
        let v4 = v3
            && is_x86_feature_detected!("avx512f")
            && is_x86_feature_detected!("avx512bw")
            && is_x86_feature_detected!("avx512cd")
            && is_x86_feature_detected!("avx512dq")
            && is_x86_feature_detected!("avx512vl");
        let all = [
            (v4, level!("v4", "x86-64-v4")),
            (v3, level!("v3", "x86-64-v3")),
            (v2, level!("v2", "x86-64-v2")),
        ];
        all.into_iter().filter(|(has, _)| *has).map(|(_, cpu)| cpu).collect()
    }

    /// The levels that this machine can run, best first.
    #[cfg(not(target_arch = "x86_64"))]
    pub fn levels() -> Vec<Cpu> {
        vec![level!("generic", std::env::consts::ARCH)]
    }

    /// The best level; `None` on an x86-64 from before 2009.
    pub fn best() -> Option<Cpu> {
        Self::levels().first().copied()
    }

    /// The level's name: `x86-64-v3`.
    pub fn level(&self) -> &'static str {
        self.level
    }

    /// Runs the entry as a GPU would start it, thread by thread: `blocks` blocks of `threads`.
    ///
    /// # Safety
    /// As [`Cpu::launch`], for all samples that `args` holds.
    pub unsafe fn launch_grid(
        &self,
        kernel: Kernel,
        args: *const c_void,
        blocks: u32,
        threads: u32,
    ) {
        let entry = self.entries[kernel as usize].grid;
        // SAFETY: the caller's promise is the kernel's precondition.
        unsafe { entry(args, blocks, threads) }
    }

    /// For people: `cpu (x86-64-v3)`.
    pub fn name(&self) -> String {
        format!("cpu ({})", self.level)
    }

    /// Runs `kernel` for a range of samples.
    ///
    /// # Safety
    /// `args` points to the structure that the kernel declares, every pointer in it is valid for the
    /// samples of the range, and what the kernel writes is not otherwise used meanwhile.
    pub unsafe fn launch(&self, kernel: Kernel, args: *const c_void, samples: Range<u32>) {
        let entry = self.entries[kernel as usize].range;
        // SAFETY: the caller's promise is the kernel's precondition; the level was detected.
        unsafe { entry(args, samples.start, samples.end) }
    }
}
