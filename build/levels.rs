//! How the C++ compiler compiles the kernels: once for each instruction set level. tests/kernels.rs
//! reads this file too, so that what it tests is compiled as the library is.

/// The kernels, each a file and an entry.
pub(crate) const KERNELS: [&str; 7] =
    ["settle", "resolve", "augment", "entropy", "subsequence", "idct", "colour"];

/// An instruction set level.
#[derive(Clone, Copy)]
pub(crate) struct Level {
    /// The namespace of its code.
    pub(crate) name: &'static str,
    /// Floats in a vector register.
    lanes: u32,
    /// The compiler's name for it.
    flag: Option<&'static str>,
}

const X86: &[Level] = &[
    Level { name: "v2", lanes: 4, flag: Some("-march=x86-64-v2") },
    Level { name: "v3", lanes: 8, flag: Some("-march=x86-64-v3") },
    Level { name: "v4", lanes: 16, flag: Some("-march=x86-64-v4") },
];

/// Every aarch64 has 128-bit NEON; other machines get the same width in plain C++.
const GENERIC: &[Level] = &[Level { name: "generic", lanes: 4, flag: None }];

/// The levels of an architecture, the oldest first.
pub(crate) fn levels(arch: &str) -> &'static [Level] {
    if arch == "x86_64" { X86 } else { GENERIC }
}

impl Level {
    /// The compiler's options: language, float rules, level.
    pub(crate) fn options(&self) -> Vec<String> {
        let mut options: Vec<_> = [
            "-x",
            "c++",
            "-std=c++17",
            "-O3",
            "-ffp-contract=off",
            "-fno-math-errno",
            "-fno-exceptions",
            "-fno-rtti",
        ]
        .map(String::from)
        .into();
        options.push(format!("-DFB_LEVEL={}", self.name));
        options.push(format!("-DFB_LANES={}", self.lanes));
        options.extend(self.flag.map(String::from));
        options
    }
}
