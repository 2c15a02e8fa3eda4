//! Initialisation, contexts, images, errors, and calls that fail on request.

use super::*;
use crate::state::State;
use crate::status::*;
use std::cell::Cell;
use std::ffi::CStr;

#[test]
fn a_call_needs_initialisation_and_a_context() {
    let _session = bare(Config::default());
    assert_eq!(cuDeviceGetCount(Out(&mut 0)), NOT_INITIALIZED);
    assert_eq!(cuMemAlloc_v2(Out(&mut 0), 1), NOT_INITIALIZED);
    assert_eq!(made(|value| cuDriverGetVersion(value)), 13000);
    ok(cuInit(0));
    assert_eq!(cuMemAlloc_v2(Out(&mut 0), 1), INVALID_CONTEXT);
    let context = made(|context| cuDevicePrimaryCtxRetain(context, 0));
    assert_eq!(cuMemAlloc_v2(Out(&mut 0), 1), INVALID_CONTEXT);
    ok(cuCtxSetCurrent(context));
    assert_eq!(made(|value| cuCtxGetCurrent(value)), context);
    ok(cuMemFree_v2(device(1)));
    std::thread::spawn(|| assert_eq!(cuMemAlloc_v2(Out(&mut 0), 1), INVALID_CONTEXT))
        .join()
        .unwrap();
    ok(cuDevicePrimaryCtxRelease_v2(0));
    assert_eq!(cuMemAlloc_v2(Out(&mut 0), 1), INVALID_CONTEXT);
    assert_eq!(cuCtxSetCurrent(context), INVALID_CONTEXT);
}

#[test]
fn devices_are_as_configured() {
    let (devices, major, minor) = (2, 8, 6);
    let session = session(Config { devices, major, minor, ..Config::default() });
    assert_eq!(made(|value| cuDeviceGetCount(value)), 2);
    assert_eq!(cuDeviceGet(Out(&mut 0), 2), INVALID_DEVICE);
    let capability = [75, 76].map(|what| made(|value| cuDeviceGetAttribute(value, what, 1)));
    assert_eq!(capability, [8, 6]);
    // Each has streams of its own.
    let first = stream();
    let other = made(|context| cuDevicePrimaryCtxRetain(context, 1));
    ok(cuCtxSetCurrent(other));
    assert_eq!(cuStreamSynchronize(first), INVALID_HANDLE);
    ok(cuStreamSynchronize(0));
    ok(cuDevicePrimaryCtxRelease_v2(1));
    ok(cuCtxSetCurrent(made(|context| cuDevicePrimaryCtxRetain(context, 0))));
    ok(cuStreamDestroy_v2(first));
    ok(cuDevicePrimaryCtxRelease_v2(0));
    assert_eq!(session.report().contexts, 1);
}

/// What remains of a cubin: its header and a name.
fn cubin(number: u32, abi: u8) -> Vec<u8> {
    let mut bytes = vec![0; 64];
    bytes[..7].copy_from_slice(b"\x7fELF\x02\x01\x01");
    bytes[8] = abi;
    bytes[18] = 190;
    let flags = if abi >= 8 { 0x0600_0004 | number << 8 } else { number << 16 | number };
    bytes[48..52].copy_from_slice(&flags.to_le_bytes());
    // One section: a string behind the section's header.
    let text = b".text.forebay_augment\0";
    bytes[40] = 64;
    (bytes[58], bytes[60]) = (64, 1);
    let mut section = [0; 64];
    (section[24], section[32]) = (128, text.len() as u8);
    bytes.extend(section);
    bytes.extend(text);
    bytes
}

#[test]
fn an_image_runs_on_its_architecture() {
    let load = |image: &[u8], major, minor, driver_version| {
        let _session = session(Config { major, minor, driver_version, ..Config::default() });
        let mut module = 0;
        let status = cuModuleLoadData(Out(&mut module), image.as_ptr().cast());
        if status == 0 {
            ok(cuModuleUnload(module));
        }
        status
    };
    for abi in [7, 8] {
        assert_eq!(load(&cubin(90, abi), 9, 0, 13000), SUCCESS);
        assert_eq!(load(&cubin(80, abi), 8, 6, 13000), SUCCESS);
        assert_eq!(load(&cubin(86, abi), 8, 0, 13000), NO_BINARY_FOR_GPU);
        assert_eq!(load(&cubin(80, abi), 9, 0, 13000), NO_BINARY_FOR_GPU);
        assert_eq!(load(&cubin(120, abi), 12, 1, 13000), SUCCESS);
    }
    let ptx =
        |version, target| format!("// made\n.version {version}\n.target {target}\n\0").into_bytes();
    assert_eq!(load(&ptx("9.0", "sm_120"), 12, 1, 13000), SUCCESS);
    assert_eq!(load(&ptx("9.0", "sm_120"), 10, 0, 13000), NO_BINARY_FOR_GPU);
    assert_eq!(load(&ptx("9.0", "sm_75"), 9, 0, 12090), UNSUPPORTED_PTX_VERSION);
    assert_eq!(load(&ptx("8.7", "sm_75"), 9, 0, 12080), SUCCESS);
    assert_eq!(load(&ptx("8.7", "compute"), 9, 0, 12080), INVALID_PTX);
    assert_eq!(load(b"nothing\0", 9, 0, 13000), INVALID_IMAGE);
}

#[test]
fn an_image_has_the_functions_that_it_names() {
    let _session = seeded(EAGER);
    let module = made(|module| cuModuleLoadData(module, cubin(90, 8).as_ptr().cast()));
    let get = |name: &CStr| cuModuleGetFunction(Out(&mut 0), module, name.as_ptr());
    ok(get(c"forebay_augment"));
    assert_eq!(get(c"forebay_resolve"), NOT_FOUND);
    assert_eq!(get(c"forebay_aug"), NOT_FOUND);
    ok(cuModuleUnload(module));
    assert_eq!(get(c"forebay_augment"), INVALID_HANDLE);
}

#[test]
fn launches_are_checked() {
    let session = seeded(EAGER);
    let (module, function) = resolve();
    let args = [0u64; 11];
    let params = [args.as_ptr().cast::<c_void>()];
    let launch = |blocks, rows, threads| {
        let (params, none) = (params.as_ptr(), std::ptr::null());
        cuLaunchKernel(function, blocks, rows, 1, threads, 1, 1, 0, 0, params, none)
    };
    ok(launch(3, 1, 64));
    assert_eq!(launch(0, 1, 64), INVALID_VALUE);
    assert_eq!(launch(1 << 31, 1, 64), INVALID_VALUE);
    assert_eq!(launch(1, 1, 1025), INVALID_VALUE);
    assert!(session.violations().is_empty());
    assert_eq!(launch(1, 2, 64), NOT_SUPPORTED);
    ok(cuModuleUnload(module));
    assert_eq!(launch(1, 1, 64), INVALID_HANDLE);
    assert_eq!(session.violations().len(), 2);
}

#[test]
fn errors_have_names() {
    let name = |status| {
        let mut text = std::ptr::null();
        let found = cuGetErrorName(status, Out(&mut text)) == 0;
        // SAFETY: a string that a zero ends, where there is one.
        found.then(|| unsafe { CStr::from_ptr(text) }.to_str().unwrap())
    };
    let _session = bare(Config::default());
    assert_eq!(name(2), Some("CUDA_ERROR_OUT_OF_MEMORY"));
    assert_eq!(name(12345), None);
}

#[test]
fn each_call_fails_in_turn() {
    let (stream, address) = (Cell::new(0), Cell::new(0));
    let calls: [(&str, &dyn Fn() -> u32); 7] = [
        ("cuInit", &|| cuInit(0)),
        ("cuDevicePrimaryCtxRetain", &|| cuDevicePrimaryCtxRetain(Out(&mut 0), 0)),
        ("cuCtxSetCurrent", &|| cuCtxSetCurrent(State::context_of(0))),
        ("cuStreamCreate", &|| cuStreamCreate(Out(stream.as_ptr()), 1)),
        ("cuMemAlloc_v2", &|| cuMemAlloc_v2(Out(address.as_ptr()), 16)),
        ("cuMemsetD32Async", &|| cuMemsetD32Async(address.get(), 0, 4, stream.get())),
        ("cuStreamSynchronize", &|| cuStreamSynchronize(stream.get())),
    ];
    for n in 0..=calls.len() {
        let session = bare(Config { fail_call: n as u64, fail_status: 777, ..Config::default() });
        stream.set(0);
        address.set(0);
        let statuses: Vec<u32> =
            calls.iter().map(|(_, call)| call()).take_while(|&s| s == 0).collect();
        assert_eq!(statuses.len(), n.checked_sub(1).unwrap_or(calls.len()));
        let names: Vec<_> = (1..).map_while(|n| lock().call_name(n)).collect();
        let expected = if n == 0 { &calls[..] } else { &calls[..n] };
        assert!(names.iter().eq(expected.iter().map(|(name, _)| name)), "{names:?}");
        // What the failing call would have made is not there.
        let report = session.report();
        assert_eq!(report.streams, u64::from(!(1..=4).contains(&n)));
        assert_eq!(report.device_bytes, if (1..=5).contains(&n) { 0 } else { 256 });

        lock().configure(Config::default());
        ok(cuInit(0));
        ok(cuCtxSetCurrent(made(|context| cuDevicePrimaryCtxRetain(context, 0))));
        if stream.get() != 0 {
            ok(cuStreamDestroy_v2(stream.get()));
        }
        if address.get() != 0 {
            ok(cuMemFree_v2(address.get()));
        }
        ok(cuDevicePrimaryCtxRelease_v2(0));
    }
}
