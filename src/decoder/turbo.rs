//! JPEG through libjpeg-turbo: the Rust side of turbo.c.
#![allow(unsafe_code)]

use super::{Limits, Pixels, Region, Scale};
use crate::error::{Error, ErrorKind, Result};
use std::ffi::{CStr, c_char, c_int};
use std::ptr::NonNull;
use turbojpeg_sys as _; // Links the static libjpeg that turbo.c calls.

const MAX_WARNINGS: usize = 16;
const JMSG_LENGTH_MAX: usize = 200;

/// What a call ended with; the numbers of turbo.c.
mod status {
    use std::ffi::c_int;
    pub(super) const OK: c_int = 0;
    pub(super) const DAMAGED: c_int = 1;
    pub(super) const TRUNCATED: c_int = 2;
    pub(super) const INCOMPLETE: c_int = 3;
    pub(super) const UNSUPPORTED: c_int = 4;
    pub(super) const TOO_MANY_SCANS: c_int = 5;
    pub(super) const TOO_MUCH_WORK: c_int = 6;
}

/// `report_t` of turbo.c.
#[repr(C)]
struct Report {
    width: u32,
    height: u32,
    components: u32,
    precision: u32,
    lossless: u32,
    row: u32,
    rows: u32,
    warning_count: u32,
    warnings: [i32; MAX_WARNINGS],
    offset: usize,
    message: [c_char; JMSG_LENGTH_MAX],
}

const _: () = assert!(size_of::<Report>() == 96 + size_of::<usize>() + 200);

/// `window_t` of turbo.c.
#[repr(C)]
struct Window {
    x: u32,
    y: u32,
    width: u32,
    height: u32,
    shrink: u32,
}

#[repr(C)]
struct Raw {
    _private: [u8; 0],
}

unsafe extern "C" {
    fn forebay_jpeg_new(max_memory: usize, max_scans: u32, max_work: u64) -> *mut Raw;
    fn forebay_jpeg_free(handle: *mut Raw);
    fn forebay_jpeg_header(handle: *mut Raw, bytes: *const u8, length: usize) -> c_int;
    fn forebay_jpeg_rows(handle: *mut Raw, window: *const Window, rows: *mut u8) -> c_int;
    fn forebay_jpeg_report(handle: *const Raw) -> *const Report;
}

/// A libjpeg decompressor that decodes one image after another. An image's result never depends
/// on those before it.
pub(super) struct Turbo {
    raw: NonNull<Raw>,
    limits: Limits,
}

// SAFETY: the handle is plain memory that only its owner touches; libjpeg ties nothing to a thread.
unsafe impl Send for Turbo {}

impl Drop for Turbo {
    fn drop(&mut self) {
        // SAFETY: `raw` came from forebay_jpeg_new and is freed once.
        unsafe { forebay_jpeg_free(self.raw.as_ptr()) }
    }
}

impl Turbo {
    pub(super) fn new(limits: Limits) -> Result<Self> {
        // A progressive image holds a 2-byte coefficient a sample: 8 bytes a pixel for four
        // components, before padding to whole blocks. The rest is small.
        let memory = limits.pixels.saturating_mul(12).saturating_add(16 << 20);
        let memory = usize::try_from(memory).unwrap_or(usize::MAX).min(isize::MAX as usize);
        // SAFETY: takes numbers only.
        let raw = unsafe { forebay_jpeg_new(memory, limits.scans, limits.work) };
        let raw = NonNull::new(raw)
            .ok_or_else(|| Error::new(ErrorKind::Resources, "out of memory for a JPEG decoder"))?;
        Ok(Turbo { raw, limits })
    }

    /// Reads the header of `bytes` and holds it to the limits.
    pub(super) fn open<'a>(&'a mut self, bytes: &'a [u8]) -> Result<Opened<'a>> {
        let raw = self.raw.as_ptr();
        // SAFETY: `bytes` is readable for its length. libjpeg keeps the pointer, which is used
        // again by `Opened::rows` alone, before which `bytes` cannot end; every other use starts
        // with another header.
        let status = unsafe { forebay_jpeg_header(raw, bytes.as_ptr(), bytes.len()) };
        if status != status::OK {
            return Err(self.error(status, bytes.len()));
        }
        let &Report { width, height, precision, lossless, .. } = self.report();
        if precision != 8 {
            let text = format!("unsupported JPEG: {precision}-bit samples; only 8-bit are decoded");
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
        self.limits.check_pixels(width, height)?;
        Ok(Opened { turbo: self, bytes, width, height, scales: lossless == 0 })
    }

    fn report(&self) -> &Report {
        // SAFETY: points into the live handle, which only calls through `&mut self` change.
        unsafe { &*forebay_jpeg_report(self.raw.as_ptr()) }
    }

    fn error(&self, status: c_int, len: usize) -> Error {
        let report = self.report();
        // SAFETY: libjpeg's format_message ends its text with a NUL within the array.
        let text = unsafe { CStr::from_ptr(report.message.as_ptr()) }.to_string_lossy();
        let text = text.trim_start_matches("Corrupt JPEG data: ");
        let &Report { row, rows, offset, .. } = report;
        match status {
            status::TRUNCATED => {
                let text = match row {
                    0 => format!("truncated JPEG: the data end after {len} bytes"),
                    row if row == rows => "truncated JPEG: the end marker is missing".into(),
                    row => format!("truncated JPEG: {len} bytes end near row {row} of {rows}"),
                };
                Error::new(ErrorKind::Decode, text).at_offset(len as u64)
            }
            status::DAMAGED => {
                let text = format!("damaged JPEG: {text} (near byte {offset} of {len})");
                Error::new(ErrorKind::Decode, text).at_offset(offset as u64)
            }
            status::INCOMPLETE => {
                let text = "incomplete JPEG: its scans do not hold every bit of every coefficient";
                Error::new(ErrorKind::Decode, text)
            }
            status::UNSUPPORTED => {
                Error::new(ErrorKind::Unsupported, format!("unsupported JPEG: {text}"))
            }
            status::TOO_MANY_SCANS => {
                let most = self.limits.scans;
                let text =
                    format!("a JPEG of more than {most} scans (--max-scans raises the limit)");
                Error::new(ErrorKind::Limit, text)
            }
            status::TOO_MUCH_WORK => {
                let most = self.limits.work;
                let text = format!(
                    "a JPEG of more than {most} pixels times scans (--max-work raises the limit)"
                );
                Error::new(ErrorKind::Limit, text)
            }
            _ => Error::new(ErrorKind::Limit, format!("JPEG over the memory limit: {text}")),
        }
    }
}

/// A JPEG whose header was read.
pub(super) struct Opened<'a> {
    turbo: &'a mut Turbo,
    bytes: &'a [u8],
    /// Columns as stored.
    pub(super) width: u32,
    /// Rows as stored.
    pub(super) height: u32,
    /// Whether it can be decoded at another scale than [`Scale::Full`].
    pub(super) scales: bool,
}

impl Opened<'_> {
    /// Decodes `window`, which lies in the stored picture at `scale` (EXIF orientation not
    /// applied); gives the codes of warnings.
    pub(super) fn rows(self, window: Region, scale: Scale, out: &mut Pixels) -> Result<Vec<i32>> {
        let Region { x, y, width, height } = window;
        let rows = out.reset(width, height)?;
        let window = Window { x, y, width, height, shrink: scale.divisor() };
        // SAFETY: `rows` is writable for height * width * 3 bytes, and the window is within the
        // picture of the header that was read last, whose bytes still live.
        let status =
            unsafe { forebay_jpeg_rows(self.turbo.raw.as_ptr(), &window, rows.as_mut_ptr()) };
        if status != status::OK {
            return Err(self.turbo.error(status, self.bytes.len()));
        }
        let report = self.turbo.report();
        Ok(report.warnings[..report.warning_count as usize].to_vec())
    }
}

/// What a code of [`Info::warnings`](super::Info::warnings) means, for people.
pub fn warning_text(code: i32) -> String {
    // The numbers of jerror.h, which turbo.c compares.
    match code {
        114 => "an unknown colour transform in its Adobe segment".into(),
        116 => "stray bytes before a marker".into(),
        119 => "an unknown JFIF version".into(),
        122 => "scan parameters that a baseline file cannot have".into(),
        code => format!("libjpeg's warning {code}"),
    }
}
