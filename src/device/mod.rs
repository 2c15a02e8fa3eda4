//! Where kernels run: memory, order and launch, never an operator.
//!
//! A device knows kernels by name and their arguments as bytes, so that a new operator or kernel
//! structure changes nothing here.

#![allow(unsafe_code)] // `launch` is an unsafe method; nothing here calls it.

mod choice;
pub mod cpu;
pub mod cuda;
pub mod images;

pub use choice::Choice;

use std::ffi::c_void;
use std::ops::Range;

/// The kernels of `kernels/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// What a GPU's decoder left of each image: checked, and turned upright.
    Settle,
    /// Draws, predicates and matrices of each sample.
    Resolve,
    /// One pass over the pixels of each sample.
    Augment,
}

impl Kernel {
    /// All of them, in the order of their numbers.
    pub const ALL: [Kernel; 3] = [Kernel::Settle, Kernel::Resolve, Kernel::Augment];

    /// The name of its file in `kernels/`; its entry on a GPU is `forebay_<name>`.
    pub const fn name(self) -> &'static str {
        match self {
            Kernel::Settle => "settle",
            Kernel::Resolve => "resolve",
            Kernel::Augment => "augment",
        }
    }
}

/// A place where kernels run.
pub trait Device: Send + Sync {
    /// For people: `cpu (x86-64-v3)`.
    fn name(&self) -> String;

    /// Runs `kernel` for a range of samples.
    ///
    /// # Safety
    /// `args` points to the structure that the kernel declares, every pointer in it is valid on
    /// this device for the samples of the range until the launch has run, and what the kernel
    /// writes is not otherwise used meanwhile.
    unsafe fn launch(&self, kernel: Kernel, args: *const c_void, samples: Range<u32>);
}
