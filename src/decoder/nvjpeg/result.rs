//! nvJPEG's calls as Rust functions: out parameters as values, a status as `Result`.
#![allow(unsafe_code)]

use super::sys::{self, Functions, Handle, Image, JpegState, JpegStream, Status};
use crate::error::{Error, ErrorKind};
use std::ffi::{c_int, c_uint, c_void};
use std::fmt;
use std::ptr::{from_mut, null_mut};

/// A call that did not succeed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Failure {
    /// The function.
    pub(super) call: &'static str,
    /// What it returned.
    pub(super) status: Status,
}

/// `nvjpegDecodeBatched: EXECUTION_FAILED`.
impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match sys::status_name(self.status) {
            Some(name) => write!(f, "{}: {name}", self.call),
            None => write!(f, "{}: status {}", self.call, self.status),
        }
    }
}

impl Failure {
    /// As forebay's error: whose fault it is, and for a handle that cannot be made what that means.
    pub(super) fn error(self) -> Error {
        let starting = self.call == "nvjpegCreateEx";
        let kind = match self.status {
            _ if starting => ErrorKind::Device,
            sys::BAD_JPEG | sys::INCOMPLETE_BITSTREAM => ErrorKind::Decode,
            sys::JPEG_NOT_SUPPORTED => ErrorKind::Unsupported,
            _ => ErrorKind::Device,
        };
        let mut text = self.to_string();
        if starting {
            text += ": nvJPEG does not start; it needs an NVIDIA GPU and a driver as new as itself";
        }
        Error::new(kind, text)
    }
}

/// Calls a function of the table by its name and turns its status into a `Result`.
macro_rules! call {
    ($functions:expr, $name:ident($($argument:expr),* $(,)?)) => {
        // SAFETY: out parameters are locals of the caller; for the rest the caller's own contract.
        match unsafe { ($functions.$name)($($argument),*) } {
            sys::SUCCESS => Ok(()),
            status => Err(Failure { call: stringify!($name), status }),
        }
    };
}

/// # Safety
///
/// For every function that takes them: handles, states and streams came from this library and are
/// not destroyed yet, a state or stream belongs to the handle beside it, and one thread uses them.
/// The CUDA context that the handle was made in is current.
impl Functions {
    /// Major, minor and patch version.
    pub(super) fn version(&self) -> Result<[c_int; 3], Failure> {
        let mut version = [0; 3];
        let kinds = [sys::MAJOR_VERSION, sys::MINOR_VERSION, sys::PATCH_LEVEL];
        for (kind, value) in kinds.into_iter().zip(&mut version) {
            call!(self, nvjpegGetProperty(kind, from_mut(value)))?;
        }
        Ok(version)
    }

    /// A handle with nvJPEG's own allocators.
    pub(super) fn create(&self, backend: sys::Backend, flags: c_uint) -> Result<Handle, Failure> {
        let mut handle = null_mut();
        call!(self, nvjpegCreateEx(backend, null_mut(), null_mut(), flags, &mut handle))?;
        Ok(handle)
    }

    pub(super) unsafe fn destroy(&self, handle: Handle) -> Result<(), Failure> {
        call!(self, nvjpegDestroy(handle))
    }

    /// Engines of the hardware decoder, and cores of each.
    pub(super) unsafe fn hardware_info(&self, handle: Handle) -> Result<(c_uint, c_uint), Failure> {
        let mut info = (0, 0);
        call!(self, nvjpegGetHardwareDecoderInfo(handle, &mut info.0, &mut info.1))?;
        Ok(info)
    }

    pub(super) unsafe fn state_create(&self, handle: Handle) -> Result<JpegState, Failure> {
        let mut state = null_mut();
        call!(self, nvjpegJpegStateCreate(handle, &mut state))?;
        Ok(state)
    }

    pub(super) unsafe fn state_destroy(&self, state: JpegState) -> Result<(), Failure> {
        call!(self, nvjpegJpegStateDestroy(state))
    }

    pub(super) unsafe fn stream_create(&self, handle: Handle) -> Result<JpegStream, Failure> {
        let mut stream = null_mut();
        call!(self, nvjpegJpegStreamCreate(handle, &mut stream))?;
        Ok(stream)
    }

    pub(super) unsafe fn stream_destroy(&self, stream: JpegStream) -> Result<(), Failure> {
        call!(self, nvjpegJpegStreamDestroy(stream))
    }

    /// Reads a JPEG's header into `stream`.
    pub(super) unsafe fn parse_header(
        &self,
        handle: Handle,
        jpeg: &[u8],
        stream: JpegStream,
    ) -> Result<(), Failure> {
        call!(self, nvjpegJpegStreamParseHeader(handle, jpeg.as_ptr(), jpeg.len(), stream))
    }

    /// Whether [`Functions::decode_batched`] takes the JPEG that was parsed into `stream`.
    pub(super) unsafe fn batched_supported(
        &self,
        handle: Handle,
        stream: JpegStream,
    ) -> Result<bool, Failure> {
        let mut unsupported = 1;
        call!(self, nvjpegDecodeBatchedSupported(handle, stream, &mut unsupported))?;
        Ok(unsupported == 0)
    }

    /// Readies `state` for batches of `size` images with interleaved RGB output.
    pub(super) unsafe fn batched_initialize(
        &self,
        handle: Handle,
        state: JpegState,
        size: c_int,
    ) -> Result<(), Failure> {
        let format = sys::OUTPUT_RGBI;
        call!(self, nvjpegDecodeBatchedInitialize(handle, state, size, 1, format))
    }

    /// Submits a batch of the size that `state` was readied for. Besides the above: each pointer
    /// of `jpegs` is readable for its length and each image writable for its picture, until
    /// `stream` has got past this work; the three slices are equally long.
    pub(super) unsafe fn decode_batched(
        &self,
        handle: Handle,
        state: JpegState,
        jpegs: &[*const u8],
        lengths: &[usize],
        images: &mut [Image],
        stream: *mut c_void,
    ) -> Result<(), Failure> {
        let (jpegs, lengths, images) = (jpegs.as_ptr(), lengths.as_ptr(), images.as_mut_ptr());
        call!(self, nvjpegDecodeBatched(handle, state, jpegs, lengths, images, stream.cast()))
    }

    /// Submits one image as interleaved RGB; the contract of [`Functions::decode_batched`].
    pub(super) unsafe fn decode(
        &self,
        handle: Handle,
        state: JpegState,
        jpeg: &[u8],
        mut image: Image,
        stream: *mut c_void,
    ) -> Result<(), Failure> {
        let (data, len, format) = (jpeg.as_ptr(), jpeg.len(), sys::OUTPUT_RGBI);
        call!(self, nvjpegDecode(handle, state, data, len, format, &mut image, stream.cast()))
    }
}
