//! Builds what is not Rust: kernels, the libjpeg shim, and the path to libtorch.
fn main() {}
