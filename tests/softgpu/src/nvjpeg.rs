//! A stand-in for nvJPEG: the entry points of nvjpeg.h that forebay calls, with libjpeg-turbo behind
//! them and the hazards of [`hazard`] on request.
//!
//! Images are decoded at the call, so that its status tells of damaged ones; their rows are written
//! when the stream gets there. A call that fails may have queued images before the failing one.

use crate::control::hazard;
use crate::jpeg::{self, Header};
use crate::memory::Kind;
use crate::state::{Out, State, nvjpeg};
use crate::status::Outcome;
use crate::status::nvjpeg::*;
use crate::work::{Picture, Work};
use std::collections::BTreeMap;

const BACKEND_HARDWARE: u32 = 3;
/// The last of `nvjpegBackend_t`.
const LAST_BACKEND: u32 = 6;
const OUTPUT_RGBI: u32 = 5;
/// `NVJPEG_VER_MAJOR`, `_MINOR`, `_PATCH`.
const VERSION: [i32; 3] = [13, 0, 1];

/// `nvjpegImage_t`.
#[repr(C)]
#[derive(Clone, Copy)]
pub(crate) struct Destination {
    pub(crate) channel: [*mut u8; 4],
    pub(crate) pitch: [usize; 4],
}

/// Handles, states and parsed streams that are live.
#[derive(Default)]
pub(crate) struct Codecs {
    /// Backends.
    pub(crate) handles: BTreeMap<u64, u32>,
    pub(crate) states: BTreeMap<u64, Decoding>,
    pub(crate) parsed: BTreeMap<u64, Option<Header>>,
}

/// `nvjpegJpegState_t`.
pub(crate) struct Decoding {
    handle: u64,
    /// Images of a batch, once that is said.
    batch: Option<usize>,
    /// Width and height of the first image.
    first: Option<(usize, usize)>,
    failed: bool,
}

impl State {
    fn has(&self, hazard: u32) -> bool {
        self.config.hazards & hazard != 0
    }

    /// The current device. Where no context is current the real library takes device 0; forebay must
    /// not count on that, so here it is a violation.
    fn needs_context(&mut self) -> Outcome<u32> {
        let device = self.device();
        device.map_err(|_| self.forbid(EXECUTION_FAILED, "no context is current"))
    }

    fn backend(&self, handle: u64) -> Outcome<u32> {
        self.codecs.handles.get(&handle).copied().ok_or(INVALID_PARAMETER)
    }

    /// A state of this handle that may still be used.
    fn decoding(&mut self, handle: u64, state: u64) -> Outcome<&mut Decoding> {
        self.backend(handle)?;
        let broken = self.has(hazard::BROKEN);
        match self.codecs.states.get_mut(&state) {
            Some(decoding) if decoding.handle != handle => Err(INVALID_PARAMETER),
            Some(decoding) if broken && decoding.failed => Err(INTERNAL_ERROR),
            Some(decoding) => Ok(decoding),
            None => Err(INVALID_PARAMETER),
        }
    }

    /// Decodes an image of `length` bytes at `data`, to be written to `to`.
    fn picture(
        &mut self,
        state: u64,
        data: *const u8,
        length: usize,
        to: Destination,
    ) -> Outcome<Picture> {
        if data.is_null() {
            return Err(INVALID_PARAMETER);
        }
        let encoded = match self.machine.memory.place(data as usize, length) {
            Ok(Some(Kind::Pinned)) => true,
            Ok(None) => false,
            Ok(Some(Kind::Device(_))) => {
                return Err(self.forbid(INVALID_PARAMETER, "the encoded bytes are on the device"));
            }
            Err(text) => return Err(self.forbid(INVALID_PARAMETER, text)),
        };
        // SAFETY: by the interface `data` is good for `length` bytes.
        let bytes = unsafe { std::slice::from_raw_parts(data, length) };
        let header = Header::parse(bytes).ok_or(BAD_JPEG)?;
        let pixels = jpeg::decode(bytes, &header)?;
        self.check_size(state, &header)?;
        if self.has(hazard::FAIL_IMAGES) && self.machine.random.once_in(4) {
            return Err(EXECUTION_FAILED);
        }
        let (row, pitch) = (3 * header.width, to.pitch[0]);
        if pitch < row {
            return Err(INVALID_PARAMETER);
        }
        let to = to.channel[0] as usize;
        let bytes_to = pitch * (header.height - 1) + row;
        if let Err(text) = self.machine.memory.on_device(to, bytes_to) {
            return Err(self.forbid(INVALID_PARAMETER, text));
        }
        let encoded = encoded.then(|| (data as usize, bytes.to_vec()));
        Ok(Picture { to, pitch, row, pixels, encoded })
    }

    /// The hazard of a state whose buffers have the size that the first image needed.
    fn check_size(&mut self, state: u64, header: &Header) -> Outcome {
        let size = (header.width, header.height);
        let stuck = self.has(hazard::FIRST_SIZE);
        let first =
            self.codecs.states.get_mut(&state).expect("looked up").first.get_or_insert(size);
        if stuck && *first == (1, 1) && size != (1, 1) { Err(EXECUTION_FAILED) } else { Ok(()) }
    }

    /// Notes in the state that a decode failed; a batch has to be initialised again.
    fn note(&mut self, state: u64, outcome: Outcome) -> Outcome {
        if outcome.is_err()
            && let Some(decoding) = self.codecs.states.get_mut(&state)
        {
            decoding.failed = true;
            decoding.batch = None;
        }
        outcome
    }

    /// The hazard of an image that lacks its last rows.
    fn cut(&mut self, picture: &mut Picture) {
        let rows = picture.rows();
        let left = self.machine.random.below(rows) as usize;
        picture.pixels.truncate(left * picture.row);
    }
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvjpegGetProperty(property: u32, value: Out<i32>) -> u32 {
    nvjpeg("nvjpegGetProperty", |_| {
        let number = VERSION.get(property as usize).copied().ok_or(INVALID_PARAMETER)?;
        value.put(number, INVALID_PARAMETER)
    })
}

/// Without a device the real library (13.0.1) answers with EXECUTION_FAILED.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvjpegCreateEx(
    backend: u32,
    device_allocator: *const u8,
    pinned_allocator: *const u8,
    flags: u32,
    handle: Out<u64>,
) -> u32 {
    nvjpeg("nvjpegCreateEx", |state| {
        if backend > LAST_BACKEND || flags > 63 {
            return Err(INVALID_PARAMETER);
        }
        if state.check_initialised().is_err() {
            return Err(EXECUTION_FAILED);
        }
        state.needs_context()?;
        if !device_allocator.is_null() || !pinned_allocator.is_null() {
            return Err(state.forbid(INVALID_PARAMETER, "allocators are not known here"));
        }
        if backend == BACKEND_HARDWARE && state.has(hazard::NO_HARDWARE) {
            return Err(ARCH_MISMATCH);
        }
        let made = state.handle();
        handle.put(made, INVALID_PARAMETER)?;
        state.codecs.handles.insert(made, backend);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvjpegDestroy(handle: u64) -> u32 {
    nvjpeg("nvjpegDestroy", |state| {
        state.backend(handle)?;
        if state.codecs.states.values().any(|decoding| decoding.handle == handle) {
            state.forbid(0, "a state of this handle is live");
        }
        state.codecs.handles.remove(&handle);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvjpegGetHardwareDecoderInfo(
    handle: u64,
    engines: Out<u32>,
    cores: Out<u32>,
) -> u32 {
    nvjpeg("nvjpegGetHardwareDecoderInfo", |state| {
        state.backend(handle)?;
        let there = !state.has(hazard::NO_HARDWARE);
        engines.put(u32::from(there), INVALID_PARAMETER)?;
        cores.put(if there { 4 } else { 0 }, INVALID_PARAMETER)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvjpegJpegStateCreate(handle: u64, made: Out<u64>) -> u32 {
    nvjpeg("nvjpegJpegStateCreate", |state| {
        state.backend(handle)?;
        let number = state.handle();
        made.put(number, INVALID_PARAMETER)?;
        let decoding = Decoding { handle, batch: None, first: None, failed: false };
        state.codecs.states.insert(number, decoding);
        Ok(())
    })
}

/// Frees device memory in the real library, and so waits for the device.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvjpegJpegStateDestroy(decoding: u64) -> u32 {
    nvjpeg("nvjpegJpegStateDestroy", |state| {
        let device = state.needs_context()?;
        state.codecs.states.remove(&decoding).ok_or(INVALID_PARAMETER)?;
        state.drain(device).map_err(|_| EXECUTION_FAILED)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvjpegJpegStreamCreate(handle: u64, made: Out<u64>) -> u32 {
    nvjpeg("nvjpegJpegStreamCreate", |state| {
        state.backend(handle)?;
        let number = state.handle();
        made.put(number, INVALID_PARAMETER)?;
        state.codecs.parsed.insert(number, None);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvjpegJpegStreamDestroy(parsed: u64) -> u32 {
    nvjpeg("nvjpegJpegStreamDestroy", |state| {
        state.codecs.parsed.remove(&parsed).map(drop).ok_or(INVALID_PARAMETER)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvjpegJpegStreamParseHeader(
    handle: u64,
    data: *const u8,
    length: usize,
    parsed: u64,
) -> u32 {
    nvjpeg("nvjpegJpegStreamParseHeader", |state| {
        state.backend(handle)?;
        let slot = state.codecs.parsed.get_mut(&parsed).ok_or(INVALID_PARAMETER)?;
        if data.is_null() {
            return Err(INVALID_PARAMETER);
        }
        // SAFETY: by the interface `data` is good for `length` bytes.
        *slot = Header::parse(unsafe { std::slice::from_raw_parts(data, length) });
        if slot.is_some() { Ok(()) } else { Err(BAD_JPEG) }
    })
}

/// 0 says that the batched decode takes the image.
#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvjpegDecodeBatchedSupported(
    handle: u64,
    parsed: u64,
    answer: Out<i32>,
) -> u32 {
    nvjpeg("nvjpegDecodeBatchedSupported", |state| {
        state.backend(handle)?;
        let header = state.codecs.parsed.get(&parsed).and_then(Option::as_ref);
        let header = header.ok_or(INVALID_PARAMETER)?;
        answer.put(i32::from(!header.hardware()), INVALID_PARAMETER)
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvjpegDecodeBatchedInitialize(
    handle: u64,
    decoding: u64,
    batch_size: i32,
    _max_cpu_threads: i32,
    format: u32,
) -> u32 {
    nvjpeg("nvjpegDecodeBatchedInitialize", |state| {
        let size = usize::try_from(batch_size).ok().filter(|&n| n > 0 && format == OUTPUT_RGBI);
        state.decoding(handle, decoding)?.batch = Some(size.ok_or(INVALID_PARAMETER)?);
        Ok(())
    })
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvjpegDecodeBatched(
    handle: u64,
    decoding: u64,
    data: *const *const u8,
    lengths: *const usize,
    destinations: *const Destination,
    stream: u64,
) -> u32 {
    nvjpeg("nvjpegDecodeBatched", |state| {
        let size = state.decoding(handle, decoding)?.batch.ok_or(INVALID_PARAMETER)?;
        let hardware = state.backend(handle)? == BACKEND_HARDWARE;
        let stream = state.stream(stream).map_err(|_| INVALID_PARAMETER)?;
        if data.is_null() || lengths.is_null() || destinations.is_null() {
            return Err(INVALID_PARAMETER);
        }
        // SAFETY: by the interface all three are arrays of the size that the state was told.
        let (data, lengths, destinations) = unsafe {
            (
                std::slice::from_raw_parts(data, size),
                std::slice::from_raw_parts(lengths, size),
                std::slice::from_raw_parts(destinations, size),
            )
        };
        let mut pictures = Vec::new();
        let mut outcome = Ok(());
        for ((&data, &length), &to) in data.iter().zip(lengths).zip(destinations) {
            match state.picture(decoding, data, length, to) {
                Ok(picture) => pictures.push(picture),
                Err(status) => {
                    outcome = Err(status);
                    break;
                }
            }
        }
        if outcome.is_ok() {
            let chosen = state.machine.random.below(size as u64) as usize;
            if state.has(hazard::PARTIAL) {
                state.cut(&mut pictures[chosen]);
            }
            if state.has(hazard::SKIP) {
                pictures.remove(chosen);
            }
        }
        if hardware && state.has(hazard::EARLY) {
            early(state, &pictures)?;
        }
        state.enqueue(stream, Work::Decode(pictures));
        state.note(decoding, outcome)
    })
}

/// The hazard of a batch that begins to write at the call.
fn early(state: &mut State, pictures: &[Picture]) -> Outcome {
    state.machine.memory.set_open(true);
    for picture in pictures {
        let rows = picture.rows();
        for row in 0..rows.min(1 + state.machine.random.below(rows + 1)) {
            let written = picture.write(row as usize, &state.machine.memory);
            written.map_err(|text| state.forbid(EXECUTION_FAILED, text))?;
        }
    }
    Ok(())
}

#[unsafe(no_mangle)]
pub(crate) extern "C" fn nvjpegDecode(
    handle: u64,
    decoding: u64,
    data: *const u8,
    length: usize,
    format: u32,
    destination: *const Destination,
    stream: u64,
) -> u32 {
    nvjpeg("nvjpegDecode", |state| {
        state.decoding(handle, decoding)?;
        let stream = state.stream(stream).map_err(|_| INVALID_PARAMETER)?;
        if format != OUTPUT_RGBI || destination.is_null() {
            return Err(INVALID_PARAMETER);
        }
        // SAFETY: by the interface, if not null, an image's description.
        let decoded = state.picture(decoding, data, length, unsafe { *destination });
        let outcome = decoded.map(|mut picture| {
            if state.has(hazard::PARTIAL) {
                state.cut(&mut picture);
            }
            state.enqueue(stream, Work::Decode(vec![picture]));
        });
        state.note(decoding, outcome)
    })
}
