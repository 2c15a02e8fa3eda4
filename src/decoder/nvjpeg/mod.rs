//! JPEG on the GPU, through NVIDIA's nvJPEG.
//!
//! `sys` declares the library, `result` makes its calls Rust functions, `library` finds it, `codec`
//! keeps the handles of one backend; here is the safe form, as far as a GPU allows one.
//!
//! Images that the chip's JPEG engine takes are decoded by it in one batch, the others one by one
//! with the Huffman part on the CPU or the GPU, as nvJPEG decides.
#![allow(unsafe_code)]

mod codec;
mod library;
mod result;
pub mod sys;

pub use library::Library;

use crate::error::{Error, Result};
use codec::Codec;
use result::Failure;
use std::ffi::c_void;

/// An image to decode.
#[derive(Debug, Clone, Copy)]
pub struct Item<'a> {
    /// The encoded file, one that [`super::route`] sends to nvJPEG.
    pub bytes: &'a [u8],
    /// Columns as stored.
    pub width: u32,
    /// Rows as stored.
    pub height: u32,
    /// Device address of the pixels: u8, RGB, dense, `height` x `width` x 3 bytes.
    pub dest: u64,
}

/// An engine that has failed at so many batches, one after another, is not tried again: making its
/// handle anew for each costs more than it could bring.
const MOST_FAILURES: u32 = 3;

/// What became of an image.
#[derive(Debug, Clone)]
pub enum Outcome {
    /// Submitted to the chip's JPEG engine.
    Hardware,
    /// Submitted by itself.
    Single,
    /// Refused; nothing is known of its pixels.
    Failed(Error),
}

/// nvJPEG for one thread. Handles are made when the first image comes, and kept.
///
/// Whenever it is used or dropped, the CUDA context that it is to work in must be current.
pub struct Nvjpeg {
    library: &'static Library,
    hardware: Codec,
    default: Codec,
    /// The chip has no JPEG engine that this nvJPEG drives, or one that only fails.
    no_engine: bool,
    /// Batches that have failed since the last that did not.
    failures: u32,
    /// For each item, whether it went to the engine.
    taken: Vec<bool>,
}

impl Nvjpeg {
    /// Makes nothing yet, so it cannot fail; [`Nvjpeg::start`] does.
    pub fn new(library: &'static Library) -> Self {
        Nvjpeg {
            library,
            hardware: Codec::new(library, sys::BACKEND_HARDWARE),
            default: Codec::new(library, sys::BACKEND_DEFAULT),
            no_engine: false,
            failures: 0,
            taken: Vec::new(),
        }
    }

    /// Makes the handles now, to learn whether nvJPEG works here.
    ///
    /// Errors: of kind `Device`, with nvJPEG's status, where there is no GPU or the driver is too
    /// old. That the chip has no JPEG engine is none.
    pub fn start(&mut self) -> Result<()> {
        self.engine();
        self.default.handle().map(drop).map_err(Failure::error)
    }

    /// Submits the decoding of `images` to `stream`; `outcomes` gets one value an item, in order.
    ///
    /// An item that was submitted may still be skipped by the chip without a word: whoever uses the
    /// pixels checks that they were written. Where the engine refuses the batch, its images are
    /// tried one by one.
    ///
    /// # Safety
    ///
    /// - `stream` is a stream of the current context.
    /// - Each item's `dest` is device memory of that context, writable for `width * height * 3`
    ///   bytes, and no two overlap; `width` and `height` are those of the file's header.
    /// - From this call on, and until `stream` has got past the work, the items' bytes stay and
    ///   nothing else touches the pixels. The engine does not wait for work that `stream` holds
    ///   already, so all earlier use of the pixels must have ended before this call.
    pub unsafe fn decode(
        &mut self,
        images: &[Item<'_>],
        stream: *mut c_void,
        outcomes: &mut Vec<Outcome>,
    ) {
        outcomes.clear();
        self.taken.clear();
        self.taken.resize(images.len(), false);
        if !images.is_empty() && self.engine() {
            // SAFETY: the caller's contract.
            unsafe { self.submit_batch(images, stream) };
        }
        for (item, &taken) in images.iter().zip(&self.taken) {
            outcomes.push(if taken {
                Outcome::Hardware
            } else {
                // SAFETY: the caller's contract.
                match unsafe { self.default.decode(item, stream) } {
                    Ok(()) => Outcome::Single,
                    Err(failure) => Outcome::Failed(failure.error()),
                }
            });
        }
    }

    /// Gives the engine what it takes, and marks that in `taken`; nothing if the batch fails.
    ///
    /// # Safety
    ///
    /// As for [`Nvjpeg::decode`].
    unsafe fn submit_batch(&mut self, images: &[Item<'_>], stream: *mut c_void) {
        for (item, taken) in images.iter().zip(&mut self.taken) {
            // An image whose header it cannot read is one that it does not take.
            *taken = self.hardware.takes(item.bytes).unwrap_or(false);
        }
        if !self.taken.contains(&true) {
            return;
        }
        let batch = images.iter().zip(&self.taken).filter(|(_, taken)| **taken);
        // SAFETY: the caller's contract.
        let result = unsafe { self.hardware.decode_batch(batch.map(|(item, _)| item), stream) };
        match result {
            Ok(()) => self.failures = 0,
            Err(failure) => {
                self.failures += 1;
                // Other refusals are of the images.
                let absent = failure.status == sys::ARCH_MISMATCH;
                self.no_engine = absent || self.failures >= MOST_FAILURES;
                self.taken.fill(false);
            }
        }
    }

    /// Whether there is a JPEG engine to use, as far as can be said now.
    fn engine(&mut self) -> bool {
        if self.no_engine {
            return false;
        }
        let result = self.hardware.handle();
        if let Err(failure) = result {
            self.failures += 1;
            self.no_engine = says_no_engine(failure) || self.failures >= MOST_FAILURES;
        }
        result.is_ok()
    }

    /// One line for people: version, file and the chip's JPEG engine, or why nvJPEG does not start.
    pub fn description(&mut self) -> String {
        let library = self.library;
        if let Err(error) = self.start() {
            return format!("{library}: {error}");
        }
        if !self.engine() {
            return format!("{library}, no hardware decoder");
        }
        match self.hardware.hardware_info() {
            Ok((0, _)) => format!("{library}, no hardware decoder"),
            Ok((engines, cores)) => {
                format!("{library}, hardware decoder (engines: {engines}, cores of each: {cores})")
            }
            Err(failure) => format!("{library}, hardware decoder unknown ({failure})"),
        }
    }
}

/// Whether making the hardware backend failed because the chip or the library has none.
fn says_no_engine(failure: Failure) -> bool {
    matches!(
        failure.status,
        sys::ARCH_MISMATCH | sys::IMPLEMENTATION_NOT_SUPPORTED | sys::JPEG_NOT_SUPPORTED
    )
}
