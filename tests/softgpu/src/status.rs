//! Statuses of both libraries, by their numbers in cuda.h and nvjpeg.h.

use std::ffi::CStr;

/// What a call comes to: nothing, or its status.
pub(crate) type Outcome<T = ()> = Result<T, u32>;

macro_rules! cuda {
    ($($name:ident = $code:literal, $c_name:literal, $text:literal;)*) => {
        $(
            // Some are here for their words alone.
            #[allow(dead_code)]
            pub(crate) const $name: u32 = $code;
        )*

        /// Name and description of a `CUresult`.
        pub(crate) fn describe(code: u32) -> Option<(&'static CStr, &'static CStr)> {
            match code {
                $($code => Some(($c_name, $text)),)*
                _ => None,
            }
        }
    };
}

cuda! {
    SUCCESS = 0, c"CUDA_SUCCESS", c"no error";
    INVALID_VALUE = 1, c"CUDA_ERROR_INVALID_VALUE", c"invalid argument";
    OUT_OF_MEMORY = 2, c"CUDA_ERROR_OUT_OF_MEMORY", c"out of memory";
    NOT_INITIALIZED = 3, c"CUDA_ERROR_NOT_INITIALIZED", c"initialization error";
    NO_DEVICE = 100, c"CUDA_ERROR_NO_DEVICE", c"no CUDA-capable device is detected";
    INVALID_DEVICE = 101, c"CUDA_ERROR_INVALID_DEVICE", c"invalid device ordinal";
    INVALID_IMAGE = 200, c"CUDA_ERROR_INVALID_IMAGE", c"device kernel image is invalid";
    INVALID_CONTEXT = 201, c"CUDA_ERROR_INVALID_CONTEXT", c"invalid device context";
    NO_BINARY_FOR_GPU = 209, c"CUDA_ERROR_NO_BINARY_FOR_GPU",
        c"no kernel image is available for execution on the device";
    INVALID_PTX = 218, c"CUDA_ERROR_INVALID_PTX", c"a PTX JIT compilation failed";
    UNSUPPORTED_PTX_VERSION = 222, c"CUDA_ERROR_UNSUPPORTED_PTX_VERSION",
        c"the provided PTX was compiled with an unsupported toolchain.";
    INVALID_HANDLE = 400, c"CUDA_ERROR_INVALID_HANDLE", c"invalid resource handle";
    NOT_FOUND = 500, c"CUDA_ERROR_NOT_FOUND", c"named symbol not found";
    NOT_READY = 600, c"CUDA_ERROR_NOT_READY", c"device not ready";
    ILLEGAL_ADDRESS = 700, c"CUDA_ERROR_ILLEGAL_ADDRESS", c"an illegal memory access was encountered";
    LAUNCH_TIMEOUT = 702, c"CUDA_ERROR_LAUNCH_TIMEOUT", c"the launch timed out and was terminated";
    LAUNCH_FAILED = 719, c"CUDA_ERROR_LAUNCH_FAILED", c"unspecified launch failure";
    NOT_SUPPORTED = 801, c"CUDA_ERROR_NOT_SUPPORTED", c"operation not supported";
    UNKNOWN = 999, c"CUDA_ERROR_UNKNOWN", c"unknown error";
}

/// `nvjpegStatus_t`.
pub(crate) mod nvjpeg {
    pub(crate) const INVALID_PARAMETER: u32 = 2;
    pub(crate) const BAD_JPEG: u32 = 3;
    pub(crate) const JPEG_NOT_SUPPORTED: u32 = 4;
    pub(crate) const EXECUTION_FAILED: u32 = 6;
    pub(crate) const ARCH_MISMATCH: u32 = 7;
    pub(crate) const INTERNAL_ERROR: u32 = 8;
}
