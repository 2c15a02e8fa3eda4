//! The kernels as compiled for GPUs when this program was built.

/// One kernel for one architecture.
#[derive(Debug, Clone, Copy)]
pub struct Image {
    /// [`Kernel::name`](super::Kernel::name).
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

/// What a kernel takes of a chip. Registers are a thread's; the rest are bytes of a thread.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Resources {
    /// 32-bit registers.
    pub registers: u32,
    /// Local memory for arrays and spilled registers.
    pub stack: u32,
    /// Written to local memory for want of registers.
    pub spill_stores: u32,
    /// Read back from there.
    pub spill_loads: u32,
}

impl Image {
    /// What the compiler's log tells; `None` for PTX, of which a GPU's driver decides.
    pub fn resources(&self) -> Option<Resources> {
        let before = |words: &str| {
            let (number, _) = self.log.split_once(words)?;
            number.rsplit(|c: char| !c.is_ascii_digit()).next()?.parse().ok()
        };
        Some(Resources {
            registers: before(" registers")?,
            stack: before(" bytes stack frame")?,
            spill_stores: before(" bytes spill stores")?,
            spill_loads: before(" bytes spill loads")?,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::super::Kernel;
    use super::*;

    const MACHINE_CODE: [&str; 5] = ["sm_75", "sm_80", "sm_90", "sm_100", "sm_120"];

    /// `None`, said aloud, where the build had no NVRTC. One that misses an image fails, so that
    /// all are there or none.
    fn image(kernel: &str, arch: &str) -> Option<&'static Image> {
        if IMAGES.is_empty() {
            eprintln!("skipped: built without NVRTC, so there are no kernels for GPUs");
            return None;
        }
        IMAGES.iter().find(|image| image.kernel == kernel && image.arch == arch).or_else(|| {
            panic!("no {kernel} for {arch}");
        })
    }

    #[test]
    fn every_architecture() {
        for kernel in Kernel::ALL.map(Kernel::name) {
            for arch in MACHINE_CODE {
                let Some(image) = image(kernel, arch) else { return };
                assert!(image.code.starts_with(b"\x7fELF"), "{kernel} {arch}");
                assert!(image.resources().is_some(), "{kernel} {arch}: {}", image.log);
            }
            let Some(ptx) = image(kernel, "compute_120") else { return };
            assert!(ptx.code.starts_with(b"//"), "{kernel}");
            assert_eq!(ptx.resources(), None);
        }
    }

    /// A strip stays in registers, and enough threads fit beside each other to hide a load's time.
    #[test]
    fn augment_keeps_its_strip_in_registers() {
        for arch in MACHINE_CODE {
            let Some(image) = image("augment", arch) else { return };
            let found = image.resources().unwrap();
            let Resources { registers, stack, spill_stores, spill_loads } = found;
            assert!(registers <= 64, "{arch}: {found:?}");
            assert_eq!([stack, spill_stores, spill_loads], [0; 3], "{arch}: {found:?}");
        }
    }

    /// kernels/RESOURCES.md as this build's images make it.
    fn table(nvrtc: &str) -> String {
        let mut table = format!(
            "# What the kernels take of a chip\n\nFrom the log of NVRTC {nvrtc}, per thread; stack and \
             spills in bytes. A test of `src/device/images.rs`\ncompares; \
             `UPDATE=1 cargo test --release --lib resources` writes this page anew.\n\n\
             | kernel | architecture | registers | stack | spill stores | spill loads |\n\
             |---|---|---|---|---|---|\n"
        );
        for image in IMAGES {
            let Some(r) = image.resources() else { continue };
            table += &format!(
                "| {} | {} | {} | {} | {} | {} |\n",
                image.kernel, image.arch, r.registers, r.stack, r.spill_stores, r.spill_loads
            );
        }
        table
    }

    #[test]
    fn resources_are_as_committed() {
        let Some(nvrtc) = NVRTC else {
            eprintln!("skipped: built without NVRTC, so there are no kernels for GPUs");
            return;
        };
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/kernels/RESOURCES.md");
        let table = table(nvrtc);
        if std::env::var_os("UPDATE").is_some() {
            std::fs::write(path, &table).unwrap();
        }
        let committed = std::fs::read_to_string(path).unwrap();
        if !committed.contains(&format!("NVRTC {nvrtc},")) {
            eprintln!("skipped: kernels/RESOURCES.md is of another NVRTC than {nvrtc}");
            return;
        }
        assert!(
            table == committed,
            "kernels/RESOURCES.md differs (UPDATE=1 writes it anew); these images take:\n{table}"
        );
    }
}
