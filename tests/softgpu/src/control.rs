//! What tests say to the software driver and read from it: C layouts, beside nothing of the package,
//! so that a test elsewhere can include this file by its path.

/// What `softgpu_configure` takes.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// Of every choice that the driver makes. `seed % 3` is the [`Temperament`].
    pub seed: u64,
    /// Bytes of memory that each device has.
    pub memory: u64,
    /// The call that fails and does nothing, counted from 1 over both libraries and all threads,
    /// `cuGetErrorName` and its like included; 0 for none.
    pub fail_call: u64,
    /// What it returns if it is a call to the driver (a `CUresult`).
    pub fail_status: u32,
    /// What it returns if it is a call to nvJPEG (an `nvjpegStatus_t`).
    pub fail_nvjpeg_status: u32,
    /// How many devices there are; 0 makes `cuInit` fail.
    pub devices: u32,
    /// Compute capability: major version.
    pub major: u32,
    /// Compute capability: minor version.
    pub minor: u32,
    /// As `cuDriverGetVersion` gives it: 1000 major + 10 minor.
    pub driver_version: u32,
    /// What nvJPEG does wrong: bits of [`hazard`].
    pub hazards: u32,
}

impl Default for Config {
    /// One device of capability 9.0 with 8 GiB, driver 13.0, seed 0, nothing goes wrong.
    fn default() -> Self {
        Self {
            seed: 0,
            memory: 8 << 30,
            fail_call: 0,
            fail_status: 999,
            fail_nvjpeg_status: 6,
            devices: 1,
            major: 9,
            minor: 0,
            driver_version: 13000,
            hazards: 0,
        }
    }
}

/// How willingly queued work runs, chosen by `seed % 3`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Temperament {
    /// 0: at once.
    Eager,
    /// 1: only what somebody waits for, and what that waits for.
    Lazy,
    /// 2: a random number of steps of random streams at every call.
    Mixed,
}

impl Temperament {
    /// The temperament of a seed.
    pub fn of(seed: u64) -> Self {
        [Self::Eager, Self::Lazy, Self::Mixed][(seed % 3) as usize]
    }
}

/// What nvJPEG can do wrong. Each has been seen of the real library, or its documentation leaves
/// room for it.
pub mod hazard {
    /// A batch on the hardware backend writes rows at the call, before earlier work on its stream.
    pub const EARLY: u32 = 1 << 0;
    /// A batch reports success, but one image of it is not written.
    pub const SKIP: u32 = 1 << 1;
    /// A decode reports success, but the last rows of one image are not written.
    pub const PARTIAL: u32 = 1 << 2;
    /// A state whose first image was 1x1 fails on anything larger.
    pub const FIRST_SIZE: u32 = 1 << 3;
    /// After any error a state fails until it is destroyed and made anew.
    pub const BROKEN: u32 = 1 << 4;
    /// The chip has no decoding engine: the hardware backend cannot be made.
    pub const NO_HARDWARE: u32 = 1 << 5;
    /// Decodes fail now and then.
    pub const FAIL_IMAGES: u32 = 1 << 6;
}

/// What `softgpu_report` gives. "Live" is what was made and not yet given back.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct Report {
    /// Calls to the driver and to nvJPEG, those that failed included.
    pub calls: u64,
    /// Live bytes of device memory, each allocation rounded up to 256.
    pub device_bytes: u64,
    /// The most there have been.
    pub peak_device_bytes: u64,
    /// Live bytes of pinned host memory, rounded up likewise.
    pub pinned_bytes: u64,
    /// Allocations made, of device or pinned memory.
    pub allocations: u64,
    /// Live streams.
    pub streams: u64,
    /// Live events.
    pub events: u64,
    /// Live modules.
    pub modules: u64,
    /// Primary contexts retained and not released.
    pub contexts: u64,
    /// Live nvJPEG handles.
    pub nvjpeg_handles: u64,
    /// Live nvJPEG states.
    pub nvjpeg_states: u64,
    /// Live nvJPEG parsed streams.
    pub nvjpeg_streams: u64,
    /// Kernels launched.
    pub launches: u64,
    /// Times the host waited for a stream or an event.
    pub host_waits: u64,
    /// Things that CUDA forbids.
    pub violations: u64,
    /// The first of them: text, then zeros.
    pub first_violation: [u8; 256],
}

impl Report {
    /// The first violation in words; empty if there was none.
    pub fn first_violation(&self) -> String {
        let end = self.first_violation.iter().position(|&b| b == 0).unwrap_or(256);
        String::from_utf8_lossy(&self.first_violation[..end]).into_owned()
    }
}

/// Type of `softgpu_configure`. Runs what is queued, resets the counters, forgets violations and
/// starts over with the seed. What is live stays so; with no context retained, `cuInit` is due again.
pub type Configure = unsafe extern "C" fn(*const Config);
/// Type of `softgpu_report`.
pub type Ask = unsafe extern "C" fn(*mut Report);
/// Type of `softgpu_call_name`: the name of call `n` (from 1) into `length` bytes, cut if need be,
/// ended by a zero. Returns the name's length in bytes, 0 where there was no such call.
pub type CallName = unsafe extern "C" fn(n: u64, buffer: *mut u8, length: usize) -> usize;
