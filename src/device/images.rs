//! The kernels as compiled for GPUs when this program was built.

/// One kernel for one architecture.
#[derive(Debug, Clone, Copy)]
pub struct Image {
    /// `settle`, `resolve` or `augment`.
    pub kernel: &'static str,
    /// `sm_90` for machine code, `compute_120` for PTX that newer GPUs compile.
    pub arch: &'static str,
    /// The compiler's words: registers, stack and spills.
    pub log: &'static str,
    /// A cubin, or PTX text.
    pub code: &'static [u8],
}

/// All of them; empty where the build found no NVRTC.
pub static IMAGES: &[Image] = include!(concat!(env!("OUT_DIR"), "/gpu_images.rs"));

/// The NVRTC that compiled them, `13.0`; `None` where the build found none.
pub const NVRTC: Option<&str> = option_env!("FOREBAY_NVRTC");

#[cfg(test)]
mod tests {
    use super::*;

    /// With NVRTC a build that misses one fails; so all are there or none.
    #[test]
    fn every_architecture() {
        if IMAGES.is_empty() {
            eprintln!("skipped: built without NVRTC, so there are no kernels for GPUs");
            return;
        }
        for kernel in ["settle", "resolve", "augment"] {
            for arch in ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120", "compute_120"] {
                let image = IMAGES.iter().find(|i| i.kernel == kernel && i.arch == arch).unwrap();
                let magic: &[u8] = if arch.starts_with("sm") { b"\x7fELF" } else { b"//" };
                assert!(image.code.starts_with(magic), "{kernel} {arch}");
                // `augment` keeps its strip in registers.
                if kernel == "augment" && arch.starts_with("sm") {
                    assert!(image.log.contains("0 bytes spill stores"), "{arch}: {}", image.log);
                    assert!(image.log.contains("0 bytes stack frame"), "{arch}: {}", image.log);
                }
            }
        }
    }
}
