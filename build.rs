//! Builds what is not Rust: kernels, the libjpeg shim, and the path to libtorch.

#[path = "build/kernels.rs"]
mod kernels;

fn main() {
    kernels::build_host();
}
