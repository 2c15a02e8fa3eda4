//! Where kernels run: memory, order and launch, never an operator.
//!
//! A device knows kernels by name and their arguments as bytes, so that a new operator or kernel
//! structure changes nothing here. There is no trait over the two: the CPU runs a sample at once on
//! the thread that decoded it, a GPU a batch through streams, and nothing is written over both.

mod choice;
pub mod cpu;
pub mod cuda;
pub mod images;

pub use choice::Choice;

/// The kernels of `kernels/`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kernel {
    /// What a GPU's decoder left of each image: checked, and turned upright.
    Settle,
    /// Draws, predicates and matrices of each sample.
    Resolve,
    /// One pass over the pixels of each sample.
    Augment,
    /// A JPEG's entropy-coded bytes to coefficients.
    Entropy,
    /// The same of what is too long for one thread.
    Subsequence,
    /// A JPEG's coefficients to samples.
    Idct,
    /// A JPEG's samples to RGB.
    Colour,
}

impl Kernel {
    /// All of them, in the order of their numbers.
    pub const ALL: [Kernel; 7] = [
        Kernel::Settle,
        Kernel::Resolve,
        Kernel::Augment,
        Kernel::Entropy,
        Kernel::Subsequence,
        Kernel::Idct,
        Kernel::Colour,
    ];

    /// The name of its file in `kernels/`; its entry on a GPU is `forebay_<name>`.
    pub const fn name(self) -> &'static str {
        match self {
            Kernel::Settle => "settle",
            Kernel::Resolve => "resolve",
            Kernel::Augment => "augment",
            Kernel::Entropy => "entropy",
            Kernel::Subsequence => "subsequence",
            Kernel::Idct => "idct",
            Kernel::Colour => "colour",
        }
    }
}
