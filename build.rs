//! Builds what is not Rust: kernels, the libjpeg shim, and the path to libtorch.

#[path = "build/kernels.rs"]
mod kernels;
#[path = "build/levels.rs"]
mod levels;
#[path = "build/nvrtc.rs"]
mod nvrtc;
#[path = "build/torch.rs"]
mod torch;
#[path = "build/turbo.rs"]
mod turbo;

fn main() {
    kernels::build_host();
    kernels::build_gpu();
    turbo::build();
    torch::link();
}
