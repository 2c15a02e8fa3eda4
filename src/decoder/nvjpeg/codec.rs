//! One of nvJPEG's backends: its handle and what hangs on it, made when first used and remade
//! after errors.
#![allow(unsafe_code)]

use super::Item;
use super::library::Library;
use super::result::Failure;
use super::sys::{self, Backend, Handle, Image, JpegState, JpegStream};
use std::ffi::{c_int, c_uint, c_void};

/// Files are held to the standard, and chroma is interpolated as libjpeg does.
const FLAGS: c_uint = sys::FLAGS_BITSTREAM_STRICT | sys::FLAGS_UPSAMPLING_WITH_INTERPOLATION;

/// A backend. Its raw handles keep it on the thread that made it.
pub(super) struct Codec {
    library: &'static Library,
    backend: Backend,
    handle: Option<Handle>,
    state: Option<JpegState>,
    /// A parsed header.
    stream: Option<JpegStream>,
    /// The batch that `state` is ready for; 0: none.
    size: usize,
    scratch: Batch,
}

/// A batch as nvJPEG takes it.
#[derive(Default)]
struct Batch {
    jpegs: Vec<*const u8>,
    lengths: Vec<usize>,
    images: Vec<Image>,
}

impl Codec {
    /// Makes nothing yet.
    pub(super) fn new(library: &'static Library, backend: Backend) -> Self {
        let scratch = Batch::default();
        Codec { library, backend, handle: None, state: None, stream: None, size: 0, scratch }
    }

    /// The handle, made if there is none.
    pub(super) fn handle(&mut self) -> Result<Handle, Failure> {
        if let Some(handle) = self.handle {
            return Ok(handle);
        }
        let handle = self.library.functions.create(self.backend, FLAGS)?;
        Ok(*self.handle.insert(handle))
    }

    fn state(&mut self) -> Result<(Handle, JpegState), Failure> {
        let handle = self.handle()?;
        if let Some(state) = self.state {
            return Ok((handle, state));
        }
        // SAFETY: `handle` is live and this thread's.
        let state = unsafe { self.library.functions.state_create(handle) }?;
        Ok((handle, *self.state.insert(state)))
    }

    fn stream(&mut self) -> Result<(Handle, JpegStream), Failure> {
        let handle = self.handle()?;
        if let Some(stream) = self.stream {
            return Ok((handle, stream));
        }
        // SAFETY: as in `state`.
        let stream = unsafe { self.library.functions.stream_create(handle) }?;
        Ok((handle, *self.stream.insert(stream)))
    }

    /// Engines of the hardware decoder, and cores of each.
    pub(super) fn hardware_info(&mut self) -> Result<(c_uint, c_uint), Failure> {
        let handle = self.handle()?;
        // SAFETY: as in `state`.
        unsafe { self.library.functions.hardware_info(handle) }
    }

    /// Whether [`Codec::decode_batch`] takes this JPEG.
    pub(super) fn takes(&mut self, jpeg: &[u8]) -> Result<bool, Failure> {
        let result = self.stream().and_then(|(handle, stream)| {
            let functions = &self.library.functions;
            // SAFETY: both are live, of this library, and this thread's.
            unsafe { functions.parse_header(handle, jpeg, stream) }?;
            // SAFETY: as above.
            unsafe { functions.batched_supported(handle, stream) }
        });
        self.watch(result)
    }

    /// Submits all of `items` as one batch.
    ///
    /// # Safety
    ///
    /// As for [`super::Nvjpeg::decode`].
    pub(super) unsafe fn decode_batch<'a>(
        &mut self,
        items: impl Iterator<Item = &'a Item<'a>>,
        stream: *mut c_void,
    ) -> Result<(), Failure> {
        let Batch { jpegs, lengths, images } = &mut self.scratch;
        jpegs.clear();
        lengths.clear();
        images.clear();
        for item in items {
            jpegs.push(item.bytes.as_ptr());
            lengths.push(item.bytes.len());
            images.push(image(item));
        }
        let size = images.len();
        let result = self.state().and_then(|(handle, state)| {
            let functions = &self.library.functions;
            if self.size != size {
                self.size = 0;
                // SAFETY: both are live, of this library, and this thread's.
                unsafe { functions.batched_initialize(handle, state, size as c_int) }?;
                self.size = size;
            }
            let Batch { jpegs, lengths, images } = &mut self.scratch;
            // SAFETY: as above, and the caller's contract for what the items point to.
            unsafe { functions.decode_batched(handle, state, jpegs, lengths, images, stream) }
        });
        self.watch(result)
    }

    /// Submits one image.
    ///
    /// # Safety
    ///
    /// As for [`super::Nvjpeg::decode`].
    pub(super) unsafe fn decode(
        &mut self,
        item: &Item<'_>,
        stream: *mut c_void,
    ) -> Result<(), Failure> {
        let result = self.state().and_then(|(handle, state)| {
            // SAFETY: both are live, of this library, and this thread's; the caller's contract for
            // what the item points to.
            unsafe { self.library.functions.decode(handle, state, item.bytes, image(item), stream) }
        });
        self.watch(result)
    }

    /// Nothing that saw an error is used again, and not the handle either after an error that may
    /// lie deeper than one image.
    fn watch<T>(&mut self, result: Result<T, Failure>) -> Result<T, Failure> {
        if let Err(failure) = &result {
            self.discard_states();
            match failure.status {
                sys::BAD_JPEG
                | sys::INCOMPLETE_BITSTREAM
                | sys::JPEG_NOT_SUPPORTED
                | sys::INVALID_PARAMETER
                | sys::ALLOCATOR_FAILURE => {}
                _ => self.discard_handle(),
            }
        }
        result
    }

    /// Work submitted through the state may still run: its buffers are nvJPEG's own, of
    /// cudaMalloc and cudaHostAlloc, and freeing those waits for it.
    fn discard_states(&mut self) {
        self.size = 0;
        // SAFETY: each was made by this library, and is destroyed once.
        let state = self.state.take().map(|s| unsafe { self.library.functions.state_destroy(s) });
        // SAFETY: as above.
        let stream =
            self.stream.take().map(|s| unsafe { self.library.functions.stream_destroy(s) });
        if [state, stream].into_iter().flatten().any(|result| result.is_err()) {
            // What may still live belongs to the handle, which is left alone with it.
            self.handle = None;
        }
    }

    /// After [`Codec::discard_states`], since they belong to the handle.
    fn discard_handle(&mut self) {
        if let Some(handle) = self.handle.take() {
            // SAFETY: made by this library, destroyed once, and nothing hangs on it any more.
            let _ = unsafe { self.library.functions.destroy(handle) };
        }
    }
}

impl Drop for Codec {
    fn drop(&mut self) {
        self.discard_states();
        self.discard_handle();
    }
}

/// Dense interleaved RGB at the item's address.
fn image(item: &Item<'_>) -> Image {
    let mut image = Image::new();
    image.channel[0] = item.dest as *mut u8;
    image.pitch[0] = item.width as usize * 3;
    image
}
