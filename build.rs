//! Builds what is not Rust: kernels, the libjpeg shim, and the path to libtorch.

#[path = "build/kernels.rs"]
mod kernels;
#[path = "build/levels.rs"]
mod levels;
#[path = "build/nvjpeg.rs"]
mod nvjpeg;
#[path = "build/nvrtc.rs"]
mod nvrtc;
#[path = "build/torch.rs"]
mod torch;
#[path = "build/turbo.rs"]
mod turbo;

fn main() {
    kernels::build_host();
    kernels::build_gpu();
    nvjpeg::link();
    turbo::build();
    torch::link();
}
