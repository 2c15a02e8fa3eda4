//! Builds what is not Rust: kernels, the libjpeg shim, and the path to libtorch.

#[path = "build/torch.rs"]
mod torch;

fn main() {
    torch::link();
}
