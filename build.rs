//! Builds what is not Rust: kernels, the libjpeg shim, and the path to libtorch.

#[path = "build/kernels.rs"]
mod kernels;
#[path = "build/torch.rs"]
mod torch;
#[path = "build/turbo.rs"]
mod turbo;

fn main() {
    kernels::build_host();
    turbo::build();
    torch::link();
}
