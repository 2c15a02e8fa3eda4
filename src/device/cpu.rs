//! The CPU: the kernel sources compiled for the host, at the best instruction set level it has.
#![allow(unsafe_code)]

use super::Kernel;
use std::ffi::c_void;
use std::ops::Range;

type Launch = unsafe extern "C" fn(*const c_void, u32, u32);

/// One level's kernels. All levels give the same bytes; tests hold one against the other.
#[derive(Clone, Copy)]
pub struct Cpu {
    level: &'static str,
    settle: Launch,
    resolve: Launch,
    augment: Launch,
    settle_grid: Launch,
    resolve_grid: Launch,
    augment_grid: Launch,
}

/// The kernels of one level: their symbols carry its name.
macro_rules! level {
    ($level:literal, $name:literal) => {{
        unsafe extern "C" {
            #[link_name = concat!("forebay_", $level, "_settle")]
            fn settle(args: *const c_void, begin: u32, end: u32);
            #[link_name = concat!("forebay_", $level, "_resolve")]
            fn resolve(args: *const c_void, begin: u32, end: u32);
            #[link_name = concat!("forebay_", $level, "_augment")]
            fn augment(args: *const c_void, begin: u32, end: u32);
            #[link_name = concat!("forebay_", $level, "_settle_grid")]
            fn settle_grid(args: *const c_void, blocks: u32, threads: u32);
            #[link_name = concat!("forebay_", $level, "_resolve_grid")]
            fn resolve_grid(args: *const c_void, blocks: u32, threads: u32);
            #[link_name = concat!("forebay_", $level, "_augment_grid")]
            fn augment_grid(args: *const c_void, blocks: u32, threads: u32);
        }
        Cpu { level: $name, settle, resolve, augment, settle_grid, resolve_grid, augment_grid }
    }};
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
        let entry = match kernel {
            Kernel::Settle => self.settle_grid,
            Kernel::Resolve => self.resolve_grid,
            Kernel::Augment => self.augment_grid,
        };
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
        let entry = match kernel {
            Kernel::Settle => self.settle,
            Kernel::Resolve => self.resolve,
            Kernel::Augment => self.augment,
        };
        // SAFETY: the caller's promise is the kernel's precondition; the level was detected.
        unsafe { entry(args, samples.start, samples.end) }
    }
}
