//! The library as programs find it: cudarc opens it as `libcuda.so`, a decoder as
//! `libnvjpeg.so.13`, and both talk to the same device.

#[path = "../src/control.rs"]
#[allow(dead_code)]
mod control;

use control::{Ask, Configure, Report};
use cudarc::driver::{result, sys};
use libloading::Library;
use std::ffi::{CStr, c_void};
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::process::Command;

/// The library. `cargo test` builds none, since no test links it: `make test` does before.
fn library() -> PathBuf {
    let deps = std::env::current_exe().unwrap();
    let release = deps.parent().and_then(|deps| deps.parent()).unwrap();
    let built = release.join("libsoftgpu.so");
    assert!(built.is_file(), "{} is not there: cargo build --release -p softgpu", built.display());
    built
}

/// Runs a test of this file, one that is ignored otherwise, in a process that finds the library.
fn child(test: &str, variables: &[(&str, &str)]) -> String {
    let folder = tempfile::tempdir().unwrap();
    std::fs::create_dir(folder.path().join("lib64")).unwrap();
    symlink(library(), folder.path().join("libcuda.so")).unwrap();
    symlink(library(), folder.path().join("lib64/libnvjpeg.so.13")).unwrap();
    let report = folder.path().join("report");
    let output = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", test, "--ignored", "--nocapture"])
        .env("LD_LIBRARY_PATH", folder.path())
        .env("CUDA_HOME", folder.path())
        .env("SOFTGPU_REPORT", &report)
        .envs(variables.iter().copied())
        .output()
        .unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    std::fs::read_to_string(report).unwrap()
}

#[test]
fn cudarc_runs_on_it() {
    for seed in ["0", "1", "2"] {
        let report = child("calls_of_cudarc", &[("SOFTGPU_SEED", seed)]);
        assert!(report.contains("\"device_bytes\": 0"), "{report}");
        assert!(report.contains("\"launches\": 1"), "{report}");
        assert!(report.contains("\"violations\": 0"), "{report}");
    }
}

#[test]
fn without_a_device_initialisation_fails() {
    child("no_device", &[("SOFTGPU_DEVICES", "0")]);
}

#[test]
#[ignore = "a child of the tests above"]
fn no_device() {
    assert_eq!(result::init().unwrap_err().0, sys::CUresult::CUDA_ERROR_NO_DEVICE);
}

const PTX: &CStr = c".version 8.0\n.target sm_75\n.visible .entry forebay_resolve(\n";

#[test]
#[ignore = "a child of the tests above"]
fn calls_of_cudarc() {
    // SAFETY: each call as its documentation asks; memory and handles are live where they are used.
    unsafe {
        assert!(sys::is_culib_present());
        result::init().unwrap();
        assert_eq!(result::device::get_count().unwrap(), 1);
        let device = result::device::get(0).unwrap();
        assert_eq!(result::device::get_name(device).unwrap(), "software device");
        let context = result::primary_ctx::retain(device).unwrap();
        result::ctx::set_current(context).unwrap();
        let stream = result::stream::create(result::stream::StreamKind::NonBlocking).unwrap();
        let event = result::event::create(sys::CUevent_flags::CU_EVENT_DISABLE_TIMING).unwrap();

        let samples = result::malloc_sync(8).unwrap();
        let status = result::malloc_sync(4).unwrap();
        result::memcpy_htod_async(samples, &[7u64], stream).unwrap();
        let module = result::module::load_data(PTX.as_ptr().cast()).unwrap();
        let resolve = result::module::get_function(module, c"forebay_resolve".to_owned()).unwrap();
        // ResolveArgs of one sample and no pass: what is left of it is a status of 0.
        let mut args = [0u64; 11];
        (args[3], args[6]) = (samples, status);
        args[10] = 1;
        let mut params = [args.as_mut_ptr().cast::<c_void>()];
        let (grid, block) = ((1, 1, 1), (64, 1, 1));
        result::launch_kernel(resolve, grid, block, 0, stream, &mut params).unwrap();
        result::event::record(event, stream).unwrap();
        sys::cuEventSynchronize(event).result().unwrap();
        let mut word = [1u32];
        result::memcpy_dtoh_async(&mut word, status, stream).unwrap();
        result::stream::synchronize(stream).unwrap();
        assert_eq!(word, [0]);

        same_state_through_both_names();

        result::module::unload(module).unwrap();
        result::free_sync(samples).unwrap();
        result::free_sync(status).unwrap();
        result::event::destroy(event).unwrap();
        result::stream::destroy(stream).unwrap();
        result::primary_ctx::release(device).unwrap();
    }
}

/// The loader sees by the file that both names are one library.
unsafe fn same_state_through_both_names() {
    // SAFETY: the software driver's entry points, with their types.
    unsafe {
        let home = PathBuf::from(std::env::var_os("CUDA_HOME").unwrap());
        let nvjpeg = Library::new(home.join("lib64/libnvjpeg.so.13")).unwrap();
        let cuda = Library::new("libcuda.so").unwrap();
        let one = nvjpeg.get::<Ask>(b"softgpu_report\0").unwrap();
        let other = cuda.get::<Ask>(b"softgpu_report\0").unwrap();
        assert_eq!(*one as usize, *other as usize);
        cuda.get::<Configure>(b"softgpu_configure\0").unwrap();
        let mut report = std::mem::zeroed::<Report>();
        one(&mut report);
        assert_eq!((report.streams, report.contexts, report.launches), (1, 1, 1));
    }
}
