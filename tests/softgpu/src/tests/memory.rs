//! Allocations and what is wrong with using them.

use super::*;
use crate::memory::POISON;
use crate::status::{INVALID_VALUE, OUT_OF_MEMORY};
use std::os::unix::process::ExitStatusExt;

#[test]
fn fresh_memory_is_poisoned_and_addresses_are_never_used_again() {
    let session = seeded(EAGER);
    let first = device(1000);
    assert_eq!(read(first, 1000), [POISON; 1000]);
    fill(first, 1, 1000, 0);
    ok(cuMemFree_v2(first));
    let second = device(1000);
    assert_ne!(first, second);
    assert_eq!(read(second, 1000), [POISON; 1000]);
    ok(cuMemFree_v2(second));
    assert_eq!(Pinned::new(100).bytes(), [POISON; 100]);
    let report = session.report();
    assert_eq!((report.device_bytes, report.pinned_bytes, report.allocations), (0, 0, 3));
    assert_eq!(report.peak_device_bytes, 1024);
}

#[test]
fn addresses_that_are_gone_cost_no_mapping() {
    let _session = seeded(EAGER);
    let mappings = || std::fs::read_to_string("/proc/self/maps").unwrap().lines().count();
    let before = mappings();
    let kept = device(5000);
    (0..1000).for_each(|i| free(&[device(1 + 97 * i)]));
    assert!(mappings() < before + 50, "{} mappings after {before}", mappings());
    free(&[kept]);
}

#[test]
fn a_device_has_so_much_memory() {
    let _session = session(Config { memory: 1 << 20, ..Config::default() });
    let info = || {
        let (mut free, mut total) = (0, 0);
        ok(cuMemGetInfo_v2(Out(&mut free), Out(&mut total)));
        (free, total)
    };
    assert_eq!(info(), (1 << 20, 1 << 20));
    let address = device((1 << 19) + 1);
    assert_eq!(info(), ((1 << 19) - 256, 1 << 20));
    let mut none = 0;
    assert_eq!(cuMemAlloc_v2(Out(&mut none), 1 << 19), OUT_OF_MEMORY);
    assert_eq!(cuMemAlloc_v2(Out(&mut none), usize::MAX), OUT_OF_MEMORY);
    assert_eq!(cuMemAlloc_v2(Out(&mut none), 0), INVALID_VALUE);
    ok(cuMemFree_v2(address));
}

#[test]
fn what_is_not_inside_one_allocation_is_refused() {
    let session = seeded(LAZY);
    let (to, mut host) = (device(100), Pinned::new(100));
    let mut pageable = [0u8; 200];
    let bad = |status| assert_eq!(status, INVALID_VALUE);
    bad(cuMemcpyHtoDAsync_v2(to, host.address, 101, 0));
    bad(cuMemcpyHtoDAsync_v2(to + 4, pageable.as_ptr().cast(), 100, 0));
    bad(cuMemcpyHtoDAsync_v2(to, host.bytes()[1..].as_ptr().cast(), 100, 0));
    bad(cuMemcpyHtoDAsync_v2(host.address as u64, pageable.as_ptr().cast(), 100, 0));
    bad(cuMemcpyHtoDAsync_v2(pageable.as_ptr() as u64, host.address, 100, 0));
    bad(cuMemcpyDtoHAsync_v2(to as *mut c_void, to, 100, 0));
    bad(cuMemcpyDtoHAsync_v2(pageable.as_mut_ptr().cast(), to, 101, 0));
    bad(cuMemsetD32Async(to, 0, 26, 0));
    bad(cuMemFree_v2(to + 1));
    bad(cuMemFree_v2(host.address as u64));
    bad(cuMemFreeHost(to as *mut c_void));
    ok(cuMemFree_v2(to));
    bad(cuMemFree_v2(to));
    bad(cuMemcpyHtoDAsync_v2(to, host.address, 100, 0));
    assert_eq!(session.violations().len(), 13);
    let first = session.report().first_violation();
    assert!(first.starts_with("cuMemcpyHtoDAsync_v2: 101 bytes at 0x"), "{first}");
    assert!(first.ends_with("byte 0 of an allocation of 100 bytes"), "{first}");
}

#[test]
fn memory_freed_before_an_operation_runs_is_a_violation() {
    let session = seeded(LAZY);
    let (to, stream) = (device(100), stream());
    fill(to, 1, 100, stream);
    // No call of CUDA frees without waiting.
    lock().machine.memory.free(to as usize, false).unwrap();
    ok(cuStreamSynchronize(stream));
    let found = session.violations();
    assert!(found[0].starts_with("a fill of memory freed before it ran"), "{found:?}");
    ok(cuStreamDestroy_v2(stream));
}

#[test]
fn what_is_written_beside_an_allocation_is_found() {
    for (offset, place) in [(0, "behind"), (-4i64, "before")] {
        let session = seeded(EAGER);
        let (module, function) = resolve();
        // A status is four bytes, of which one, or all, have no room.
        let (samples, status) = (device(8), device(3));
        ok(launch(function, samples, status.strict_add_signed(offset), 1, 0));
        ok(cuStreamSynchronize(0));
        let expected = format!("written {place} an allocation of 3 bytes at {status:#x}");
        assert_eq!(session.violations(), [expected.as_str()]);
        free(&[samples, status]);
        assert_eq!(session.violations(), [expected]);
        ok(cuModuleUnload(module));
    }
}

/// The process dies of it, and says why.
fn dies(test: &str, text: &str) {
    let output = child(test);
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.signal(), Some(libc::SIGSEGV), "{said}");
    assert!(said.contains(text), "{said}");
}

#[test]
fn nobody_gets_past_a_guard_page() {
    dies("tests::memory::a_kernel_goes_too_far", "softgpu: block 1 of forebay_resolve touched 0x");
    dies("tests::memory::the_host_reads_device_memory", "softgpu: the host touched 0x");
    dies("tests::memory::the_host_reads_freed_memory", "softgpu: the host touched 0x");
}

#[test]
#[ignore = "a child of the test above"]
fn a_kernel_goes_too_far() {
    let _session = seeded(EAGER);
    let (_, function) = resolve();
    let (samples, status) = (device(128 * 8), device(64 * 4));
    launch(function, samples, status, 128, 0);
}

#[test]
#[ignore = "a child of the test above"]
fn the_host_reads_device_memory() {
    let _session = seeded(EAGER);
    let address = device(64);
    fill(address, 1, 64, 0);
    // SAFETY: it is not safe: the page cannot be read, and the process ends.
    unsafe { (address as *const u8).read_volatile() };
}

#[test]
#[ignore = "a child of the test above"]
fn the_host_reads_freed_memory() {
    let _session = seeded(EAGER);
    let host = Pinned::new(64);
    let address = host.address;
    drop(host);
    // SAFETY: it is not safe: the page cannot be read, and the process ends.
    unsafe { address.cast::<u8>().read_volatile() };
}
