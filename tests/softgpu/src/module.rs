//! Kernels: images as the driver takes them, and the host's code that stands in for theirs.

use crate::status::{
    INVALID_IMAGE, INVALID_PTX, NO_BINARY_FOR_GPU, Outcome, UNSUPPORTED_PTX_VERSION,
};
use std::ffi::{CStr, c_char, c_void};

/// What runs for a kernel of ours.
pub(crate) struct Kernel {
    /// The entry's name in an image.
    pub(crate) name: &'static str,
    /// Runs a block of so many threads.
    pub(crate) block: unsafe extern "C" fn(args: *const c_void, block: u32, threads: u32),
    bytes: *const u64,
}

// SAFETY: `bytes` points to a constant of the C++ side.
unsafe impl Sync for Kernel {}

include!(concat!(env!("OUT_DIR"), "/kernels.rs"));

impl Kernel {
    /// The size of its one parameter.
    pub(crate) fn bytes(&self) -> usize {
        // SAFETY: a constant of the C++ side.
        unsafe { *self.bytes as usize }
    }
}

/// A device's compute capability.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Capability(pub(crate) u32, pub(crate) u32);

impl Capability {
    /// From the number in `sm_90`.
    fn of(number: u32) -> Self {
        Self(number / 10, number % 10)
    }
}

/// A loaded image.
pub(crate) struct Module {
    bytes: Vec<u8>,
    /// What it was compiled for.
    pub(crate) target: Capability,
}

impl Module {
    /// Reads an image and checks that a device can run it.
    ///
    /// # Safety
    /// `image` points to a whole cubin, or to PTX that a zero ends.
    pub(crate) unsafe fn load(
        image: *const c_void,
        device: Capability,
        driver_version: u32,
    ) -> Outcome<Self> {
        // SAFETY: the caller's promise; both formats are longer than four bytes, or end before.
        let text = unsafe { CStr::from_ptr(image.cast::<c_char>()) };
        if text.to_bytes().starts_with(b"\x7fELF") {
            // SAFETY: the caller's promise.
            let module = unsafe { Self::cubin(image.cast())? };
            let runs = module.target.0 == device.0 && module.target.1 <= device.1;
            return if runs { Ok(module) } else { Err(NO_BINARY_FOR_GPU) };
        }
        Self::ptx(text.to_bytes(), device, driver_version)
    }

    /// # Safety
    /// `image` points to a whole 64-bit ELF file.
    unsafe fn cubin(image: *const u8) -> Outcome<Self> {
        const EM_CUDA: u64 = 190;
        let field = |at: usize, bytes: usize| {
            // SAFETY: inside the header of 64 bytes, or of what it says the file has.
            let bytes = unsafe { std::slice::from_raw_parts(image.add(at), bytes) };
            bytes.iter().rev().fold(0u64, |value, &b| value << 8 | u64::from(b))
        };
        if field(4, 1) != 2 || field(18, 2) != EM_CUDA {
            return Err(INVALID_IMAGE);
        }
        let (flags, abi) = (field(48, 4), field(8, 1));
        let number = if abi >= 8 { flags >> 8 & 0xFF } else { flags & 0xFF };
        // The header tables and the sections; the last of them ends the file.
        let (programs, sections) = (field(32, 8) as usize, field(40, 8) as usize);
        let (program_count, section_count) = (field(56, 2) as usize, field(60, 2) as usize);
        let (program_size, section_size) = (field(54, 2) as usize, field(58, 2) as usize);
        let mut end = programs + program_count * program_size;
        end = end.max(sections + section_count * section_size);
        for section in 0..section_count {
            let at = sections + section * section_size;
            const SHT_NOBITS: u64 = 8;
            if field(at + 4, 4) != SHT_NOBITS {
                end = end.max((field(at + 24, 8) + field(at + 32, 8)) as usize);
            }
        }
        // SAFETY: the file is whole, so it has all that its header speaks of.
        let bytes = unsafe { std::slice::from_raw_parts(image, end) }.to_vec();
        Ok(Self { bytes, target: Capability::of(number as u32) })
    }

    fn ptx(text: &[u8], device: Capability, driver_version: u32) -> Outcome<Self> {
        let source = std::str::from_utf8(text).map_err(|_| INVALID_IMAGE)?;
        let after = |word: &str| {
            let line = source.lines().find_map(|line| line.trim_start().strip_prefix(word));
            line.and_then(|rest| rest.split_whitespace().next())
        };
        let version = after(".version ").ok_or(INVALID_IMAGE)?;
        let target =
            after(".target ").and_then(|name| name.trim_end_matches(',').strip_prefix("sm_"));
        let digits = target.map(|name| name.trim_end_matches(|c: char| c.is_ascii_lowercase()));
        let number = digits.and_then(|digits| digits.parse().ok()).ok_or(INVALID_PTX)?;
        if needs(version).ok_or(INVALID_PTX)? > driver_version {
            return Err(UNSUPPORTED_PTX_VERSION);
        }
        let target = Capability::of(number);
        if target > device {
            return Err(NO_BINARY_FOR_GPU);
        }
        Ok(Self { bytes: text.to_vec(), target })
    }

    /// The place in [`KERNELS`] of an entry, if the image has one of this name.
    pub(crate) fn function(&self, name: &str) -> Option<usize> {
        let kernel = KERNELS.iter().position(|kernel| kernel.name == name)?;
        let part = |b: Option<&u8>| b.is_some_and(|&b| b == b'_' || b.is_ascii_alphanumeric());
        let whole = |at: usize| {
            let before = at.checked_sub(1).and_then(|at| self.bytes.get(at));
            !part(before) && !part(self.bytes.get(at + name.len()))
        };
        let windows = self.bytes.windows(name.len()).enumerate();
        windows
            .filter(|(_, window)| *window == name.as_bytes())
            .any(|(at, _)| whole(at))
            .then_some(kernel)
    }
}

/// The driver that knows a PTX version, as `cuDriverGetVersion` numbers drivers.
fn needs(ptx: &str) -> Option<u32> {
    let (major, minor) = ptx.split_once('.')?;
    let (major, minor): (u32, u32) = (major.parse().ok()?, minor.parse().ok()?);
    Some(match (major, minor) {
        (0..=7, _) => 0,
        // 8.5 came with CUDA 12.5 and served 12.6 too.
        (8, 0..=5) => 12000 + 10 * minor,
        (8, _) => 12010 + 10 * minor,
        _ => 1000 * (major + 4) + 10 * minor,
    })
}
