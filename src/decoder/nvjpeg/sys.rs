//! nvJPEG's types, constants and functions.
//!
//! Types and constants come from `nvjpeg-sys`, whose headers are of CUDA 11.9; what they lack is
//! declared here. Its functions are never called: the linker would then ask for the library. The
//! table below holds the library's own, looked up when it is opened.
#![allow(unsafe_code)]

use libloading::Library;
use std::ffi::{c_int, c_uchar, c_uint};
use std::path::Path;

pub use nvjpeg_sys::{
    NVJPEG_FLAGS_BITSTREAM_STRICT as FLAGS_BITSTREAM_STRICT, NVJPEG_MAX_COMPONENT as MAX_COMPONENT,
    cudaStream_t as CudaStream, libraryPropertyType as PropertyType,
    libraryPropertyType_t_MAJOR_VERSION as MAJOR_VERSION,
    libraryPropertyType_t_MINOR_VERSION as MINOR_VERSION,
    libraryPropertyType_t_PATCH_LEVEL as PATCH_LEVEL, nvjpegBackend_t as Backend,
    nvjpegBackend_t_NVJPEG_BACKEND_DEFAULT as BACKEND_DEFAULT,
    nvjpegBackend_t_NVJPEG_BACKEND_HARDWARE as BACKEND_HARDWARE,
    nvjpegDevAllocator_t as DevAllocator, nvjpegHandle_t as Handle, nvjpegImage_t as Image,
    nvjpegJpegState_t as JpegState, nvjpegJpegStream_t as JpegStream,
    nvjpegOutputFormat_t as OutputFormat, nvjpegOutputFormat_t_NVJPEG_OUTPUT_RGBI as OUTPUT_RGBI,
    nvjpegPinnedAllocator_t as PinnedAllocator, nvjpegStatus_t as Status,
    nvjpegStatus_t_NVJPEG_STATUS_ALLOCATOR_FAILURE as ALLOCATOR_FAILURE,
    nvjpegStatus_t_NVJPEG_STATUS_ARCH_MISMATCH as ARCH_MISMATCH,
    nvjpegStatus_t_NVJPEG_STATUS_BAD_JPEG as BAD_JPEG,
    nvjpegStatus_t_NVJPEG_STATUS_EXECUTION_FAILED as EXECUTION_FAILED,
    nvjpegStatus_t_NVJPEG_STATUS_IMPLEMENTATION_NOT_SUPPORTED as IMPLEMENTATION_NOT_SUPPORTED,
    nvjpegStatus_t_NVJPEG_STATUS_INCOMPLETE_BITSTREAM as INCOMPLETE_BITSTREAM,
    nvjpegStatus_t_NVJPEG_STATUS_INTERNAL_ERROR as INTERNAL_ERROR,
    nvjpegStatus_t_NVJPEG_STATUS_INVALID_PARAMETER as INVALID_PARAMETER,
    nvjpegStatus_t_NVJPEG_STATUS_JPEG_NOT_SUPPORTED as JPEG_NOT_SUPPORTED,
    nvjpegStatus_t_NVJPEG_STATUS_NOT_INITIALIZED as NOT_INITIALIZED,
    nvjpegStatus_t_NVJPEG_STATUS_SUCCESS as SUCCESS,
};

/// Chroma planes are interpolated and not repeated, as libjpeg's fancy upsampling does.
pub const FLAGS_UPSAMPLING_WITH_INTERPOLATION: c_uint = 1 << 5;

/// A status by its name in nvjpeg.h, without the prefix that all share.
pub const fn status_name(status: Status) -> Option<&'static str> {
    Some(match status {
        SUCCESS => "SUCCESS",
        NOT_INITIALIZED => "NOT_INITIALIZED",
        INVALID_PARAMETER => "INVALID_PARAMETER",
        BAD_JPEG => "BAD_JPEG",
        JPEG_NOT_SUPPORTED => "JPEG_NOT_SUPPORTED",
        ALLOCATOR_FAILURE => "ALLOCATOR_FAILURE",
        EXECUTION_FAILED => "EXECUTION_FAILED",
        ARCH_MISMATCH => "ARCH_MISMATCH",
        INTERNAL_ERROR => "INTERNAL_ERROR",
        IMPLEMENTATION_NOT_SUPPORTED => "IMPLEMENTATION_NOT_SUPPORTED",
        INCOMPLETE_BITSTREAM => "INCOMPLETE_BITSTREAM",
        _ => return None,
    })
}

/// Declares the table: a field for each function, under the function's own name.
macro_rules! functions {
    ($($name:ident($($argument:ty),*);)*) => {
        /// The library's functions.
        #[allow(non_snake_case)]
        pub struct Functions {
            $(pub(super) $name: unsafe extern "C" fn($($argument),*) -> Status,)*
        }

        impl Functions {
            /// Every function's name and its arguments' types, for comparison with nvjpeg.h.
            pub const SIGNATURES: &[(&str, &[&str])] =
                &[$((stringify!($name), &[$(stringify!($argument)),*])),*];

            /// Looks all of them up; the error names one that is missing.
            ///
            /// # Safety
            ///
            /// `library` is an nvJPEG, and stays open as long as the table is used.
            unsafe fn load(library: &Library) -> Result<Self, &'static str> {
                Ok(Functions {
                    // SAFETY: the types are those of nvjpeg.h, which keeps them from version to
                    // version; the caller keeps the library open.
                    $($name: *unsafe { library.get(stringify!($name)) }
                        .map_err(|_| stringify!($name))?,)*
                })
            }
        }
    };
}

functions! {
    nvjpegGetProperty(PropertyType, *mut c_int);
    nvjpegCreateEx(Backend, *mut DevAllocator, *mut PinnedAllocator, c_uint, *mut Handle);
    nvjpegDestroy(Handle);
    nvjpegGetHardwareDecoderInfo(Handle, *mut c_uint, *mut c_uint);
    nvjpegJpegStateCreate(Handle, *mut JpegState);
    nvjpegJpegStateDestroy(JpegState);
    nvjpegJpegStreamCreate(Handle, *mut JpegStream);
    nvjpegJpegStreamParseHeader(Handle, *const c_uchar, usize, JpegStream);
    nvjpegJpegStreamDestroy(JpegStream);
    nvjpegDecodeBatchedSupported(Handle, JpegStream, *mut c_int);
    nvjpegDecodeBatchedInitialize(Handle, JpegState, c_int, c_int, OutputFormat);
    nvjpegDecodeBatched(
        Handle, JpegState, *const *const c_uchar, *const usize, *mut Image, CudaStream
    );
    nvjpegDecode(Handle, JpegState, *const c_uchar, usize, OutputFormat, *mut Image, CudaStream);
}

/// Opens the library at `path` and looks its functions up. They are gone once it is dropped.
pub(super) fn open(path: &Path) -> Result<(Library, Functions), String> {
    // SAFETY: an nvJPEG, by its name; its initialisers only set up its own state.
    let library = unsafe { Library::new(path) }.map_err(|error| loader_text(&error))?;
    // SAFETY: as above; the caller keeps the two together.
    let functions = unsafe { Functions::load(&library) };
    let functions = functions.map_err(|name| format!("it has no {name}"))?;
    Ok((library, functions))
}

/// The loader's own words, in one line.
fn loader_text(error: &libloading::Error) -> String {
    let source = std::error::Error::source(error);
    let text = source.map_or_else(|| error.to_string(), ToString::to_string);
    text.replace(char::is_control, " ")
}

const _: () = assert!(size_of::<Image>() == 64 && MAX_COMPONENT == 4);
