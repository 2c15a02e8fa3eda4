//! Builds what is not Rust: kernels, the libjpeg shim, and the path to libtorch.

#[path = "build/turbo.rs"]
mod turbo;

fn main() {
    turbo::build();
}
