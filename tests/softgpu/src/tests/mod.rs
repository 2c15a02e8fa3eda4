//! The exported functions, called as a program calls them.

mod calls;
mod memory;
mod nvjpeg;
mod order;

use crate::control::{Config, Report};
use crate::driver::*;
use crate::state::{Out, lock};
use std::ffi::c_void;
use std::process::{Command, Output};
use std::sync::{Mutex, MutexGuard, PoisonError};

const EAGER: u64 = 0;
const LAZY: u64 = 1;

/// The driver, all of it, for one test at a time: initialised, with the context current.
struct Session(#[allow(dead_code)] MutexGuard<'static, ()>);

/// Nothing is set up but the configuration.
fn bare(config: Config) -> Session {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let guard = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    lock().configure(config);
    Session(guard)
}

fn session(config: Config) -> Session {
    let session = bare(config);
    ok(cuInit(0));
    ok(cuCtxSetCurrent(made(|context| cuDevicePrimaryCtxRetain(context, 0))));
    session
}

fn seeded(seed: u64) -> Session {
    session(Config { seed, ..Config::default() })
}

impl Drop for Session {
    fn drop(&mut self) {
        cuCtxSetCurrent(0);
        cuDevicePrimaryCtxRelease_v2(0);
    }
}

impl Session {
    fn violations(&self) -> Vec<String> {
        lock().violations()
    }

    /// Runs all that is queued.
    fn drain(&self) {
        let _ = lock().drain(0);
    }

    fn report(&self) -> Report {
        lock().report()
    }
}

fn ok(status: u32) {
    assert_eq!(status, 0);
}

/// What a call makes.
fn made<T: Default>(call: impl FnOnce(Out<T>) -> u32) -> T {
    let mut value = T::default();
    ok(call(Out(&mut value)));
    value
}

/// A non-blocking stream.
fn stream() -> u64 {
    made(|stream| cuStreamCreate(stream, 1))
}

fn event() -> u64 {
    made(|event| cuEventCreate(event, 2))
}

fn device(bytes: usize) -> u64 {
    made(|address| cuMemAlloc_v2(address, bytes))
}

fn free(addresses: &[u64]) {
    addresses.iter().for_each(|&address| ok(cuMemFree_v2(address)));
}

fn destroy(streams: &[u64]) {
    streams.iter().for_each(|&stream| ok(cuStreamDestroy_v2(stream)));
}

/// Pinned memory of the host, given back at the end.
struct Pinned {
    address: *mut c_void,
    bytes: usize,
}

impl Pinned {
    fn new(bytes: usize) -> Self {
        let mut address = std::ptr::null_mut();
        ok(cuMemHostAlloc(Out(&mut address), bytes, 0));
        Self { address, bytes }
    }

    fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: live pinned memory of that size; no call runs while the slice is in use.
        unsafe { std::slice::from_raw_parts_mut(self.address.cast(), self.bytes) }
    }
}

impl Drop for Pinned {
    fn drop(&mut self) {
        cuMemFreeHost(self.address);
    }
}

/// What is on the device, by way of a stream of its own that waits for no other.
fn read(address: u64, bytes: usize) -> Vec<u8> {
    let stream = stream();
    let mut found = vec![0; bytes];
    ok(cuMemcpyDtoHAsync_v2(found.as_mut_ptr().cast(), address, bytes, stream));
    ok(cuStreamDestroy_v2(stream));
    found
}

fn fill(address: u64, byte: u8, bytes: usize, stream: u64) {
    ok(cuMemsetD32Async(address, u32::from_ne_bytes([byte; 4]), bytes / 4, stream));
}

/// Runs a test, one that is ignored otherwise, in a process of its own.
fn child(test: &str) -> Output {
    let program = std::env::current_exe().unwrap();
    Command::new(program).args(["--exact", test, "--ignored", "--nocapture"]).output().unwrap()
}

const PTX: &str = ".version 8.0\n.target sm_90\n.visible .entry forebay_resolve(\n";

/// The kernel `resolve`, from a module made for it.
fn resolve() -> (u64, u64) {
    let image = format!("{PTX}\0");
    let module = made(|module| cuModuleLoadData(module, image.as_ptr().cast()));
    let name = c"forebay_resolve".as_ptr();
    (module, made(|function| cuModuleGetFunction(function, module, name)))
}

/// Launches `resolve` for so many samples without a pass: it writes a status of 0 for each.
fn launch(function: u64, samples: u64, status: u64, count: u32, stream: u64) -> u32 {
    let mut args = [0u64; 11];
    (args[3], args[6]) = (samples, status);
    args[10] = u64::from(count);
    let params = [args.as_ptr().cast::<c_void>()];
    let blocks = count.div_ceil(64);
    let none = std::ptr::null();
    cuLaunchKernel(function, blocks, 1, 1, 64, 1, 1, 0, stream, params.as_ptr(), none)
}
