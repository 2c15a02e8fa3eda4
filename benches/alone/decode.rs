//! Files to pixels as fast as libjpeg-turbo goes: three system calls a file, a decompressor that is
//! kept, no second look at the header, and pixels 16 bytes off a 32-byte boundary, where its stores do
//! not go around the cache.
#![allow(unsafe_code)]

use super::{Options, SHOWN, names, time};
use anyhow::{Context, Result, ensure};
use forebay::decoder::{Header, probe};
use rustix::fs::{Mode, OFlags, open, openat};
use std::ffi::{CStr, c_int};
use std::io::Write;
use std::os::fd::OwnedFd;
use turbojpeg_sys as raw;

/// Where the pixels start behind a multiple of 32.
const OFFSET: usize = 16;

pub(super) fn run(options: &Options) -> Result<()> {
    let names = names(&options.data)?;
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let root = open(&options.data, flags, Mode::empty()).context("the data directory")?;
    if let Some(out) = &options.out {
        let (mut worker, mut out) = (Worker::new()?, std::fs::File::create(out)?);
        for name in &names[..SHOWN.min(names.len())] {
            out.write_all(worker.decode(&root, name)?)?;
        }
        return Ok(());
    }
    let order = shuffled(names.len());
    time(options, names.len(), Worker::new, |worker, _, image| {
        let name = &names[order[image]];
        let pixels = worker.decode(&root, name);
        std::hint::black_box(pixels.with_context(|| name.to_string_lossy().into_owned())?);
        Ok(())
    })
}

/// The same order in every run: a multiplicative generator's, since any will do.
fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = 1_u64;
    for last in (1..count).rev() {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        order.swap(last, (state >> 33) as usize % (last + 1));
    }
    order
}

/// One thread's decompressor and buffers.
struct Worker {
    handle: raw::tjhandle,
    file: Vec<u8>,
    pixels: Vec<u8>,
}

impl Worker {
    fn new() -> Result<Self> {
        // SAFETY: takes a number only.
        let handle = unsafe { raw::tj3Init(raw::TJINIT_TJINIT_DECOMPRESS as c_int) };
        ensure!(!handle.is_null(), "no decompressor");
        Ok(Worker { handle, file: vec![0; 1 << 16], pixels: Vec::new() })
    }

    fn decode(&mut self, root: &OwnedFd, name: &CStr) -> Result<&[u8]> {
        let length = self.read(root, name)?;
        let jpeg = &self.file[..length];
        let Header { width, height, .. } = probe(jpeg)?;
        let size = width as usize * height as usize * 3;
        if self.pixels.len() < size + 32 + OFFSET {
            self.pixels.resize(size + 32 + OFFSET, 0);
        }
        let from = self.pixels.as_ptr().align_offset(32) + OFFSET;
        let pixels = &mut self.pixels[from..from + size];
        // SAFETY: the handle is live; `jpeg` is readable for `length`; the header says so many rows of
        // so many pixels of three bytes, without gaps, and `pixels` has room for them.
        let status = unsafe {
            raw::tj3Decompress8(
                self.handle,
                jpeg.as_ptr(),
                length as raw::size_t,
                pixels.as_mut_ptr(),
                0,
                raw::TJPF_TJPF_RGB,
            )
        };
        ensure!(status == 0, "libjpeg-turbo refuses it");
        Ok(pixels)
    }

    /// Reads a whole file; its length. One read that ends short says that the file ends there.
    fn read(&mut self, root: &OwnedFd, name: &CStr) -> Result<usize> {
        let file = openat(root, name, OFlags::RDONLY | OFlags::CLOEXEC, Mode::empty())?;
        let mut length = rustix::io::read(&file, &mut self.file[..])?;
        while length == self.file.len() {
            self.file.resize(2 * length, 0);
            length += rustix::io::read(&file, &mut self.file[length..])?;
        }
        Ok(length)
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        // SAFETY: the handle is live and not used again.
        unsafe { raw::tj3Destroy(self.handle) }
    }
}
