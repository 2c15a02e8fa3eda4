//! What happens when.

use super::*;
use crate::control::Temperament;
use crate::memory::POISON;
use crate::stream::Streams;
use crate::work::{Machine, Mark, Progress, Work};

const BYTES: usize = 4096;

#[test]
fn pinned_memory_is_read_when_the_copy_runs() {
    for (seed, expected) in [(EAGER, 1), (LAZY, 2)] {
        let session = seeded(seed);
        let (mut host, to, stream) = (Pinned::new(BYTES), device(BYTES), stream());
        host.bytes().fill(1);
        ok(cuMemcpyHtoDAsync_v2(to, host.address, BYTES, stream));
        host.bytes().fill(2);
        ok(cuStreamSynchronize(stream));
        assert_eq!(read(to, BYTES), [expected; BYTES]);
        ok(cuMemFree_v2(to));
        ok(cuStreamDestroy_v2(stream));
        assert!(session.violations().is_empty());
    }
}

#[test]
fn pageable_memory_is_read_at_the_call() {
    let _session = seeded(LAZY);
    let (mut host, to, stream) = (vec![1u8; BYTES], device(BYTES), stream());
    ok(cuMemcpyHtoDAsync_v2(to, host.as_ptr().cast(), BYTES, stream));
    host.fill(2);
    ok(cuStreamSynchronize(stream));
    assert_eq!(read(to, BYTES), [1; BYTES]);
    ok(cuMemFree_v2(to));
    ok(cuStreamDestroy_v2(stream));
}

/// Another stream downloads what the first uploads; what it gets, under many seeds.
fn seen(waits: bool) -> Vec<Vec<u8>> {
    let one = |seed| {
        let session = seeded(seed);
        let (first, second, event) = (stream(), stream(), event());
        let (mut up, mut down, to) = (Pinned::new(BYTES), Pinned::new(BYTES), device(BYTES));
        up.bytes().fill(1);
        ok(cuMemcpyHtoDAsync_v2(to, up.address, BYTES, first));
        ok(cuEventRecord(event, first));
        if waits {
            ok(cuStreamWaitEvent(second, event, 0));
        }
        ok(cuMemcpyDtoHAsync_v2(down.address, to, BYTES, second));
        ok(cuStreamSynchronize(second));
        let found = down.bytes().to_vec();
        ok(cuStreamSynchronize(first));
        ok(cuMemFree_v2(to));
        ok(cuEventDestroy_v2(event));
        destroy(&[first, second]);
        assert!(session.violations().is_empty());
        found
    };
    (0..96).map(one).collect()
}

#[test]
fn a_race_is_seen_under_some_seed_and_a_wait_ends_it() {
    let without = seen(false);
    assert!(without.contains(&vec![1; BYTES]), "the upload comes first under no seed");
    assert!(without.contains(&vec![POISON; BYTES]), "the download comes first under no seed");
    assert!(
        without.iter().any(|s| s.contains(&1) && s.contains(&POISON)),
        "neither is ever half done"
    );
    assert!(seen(true).iter().all(|s| *s == [1; BYTES]));
}

#[test]
fn a_wait_captures_the_latest_record_and_no_later_one() {
    for seed in 0..32 {
        let session = seeded(seed);
        let (first, second, third, event) = (stream(), stream(), stream(), event());
        let to = device(BYTES);
        fill(to, 1, BYTES, first);
        ok(cuEventRecord(event, first));
        ok(cuStreamWaitEvent(second, event, 0));
        // If the wait meant this record, the stream would wait for itself.
        ok(cuEventRecord(event, second));
        // That it is recorded elsewhere, and done there, does not end the wait either.
        ok(cuEventRecord(event, third));
        ok(cuEventSynchronize(event));
        fill(to, 2, BYTES, second);
        ok(cuStreamSynchronize(second));
        assert_eq!(read(to, BYTES), [2; BYTES]);
        ok(cuStreamSynchronize(first));
        assert_eq!(read(to, BYTES), [2; BYTES]);
        ok(cuMemFree_v2(to));
        ok(cuEventDestroy_v2(event));
        destroy(&[first, second, third]);
        assert!(session.violations().is_empty());
    }
}

#[test]
fn an_event_without_a_record_is_complete() {
    let _session = seeded(LAZY);
    let (first, second, event) = (stream(), stream(), event());
    let to = device(BYTES);
    ok(cuEventQuery(event));
    ok(cuStreamWaitEvent(second, event, 0));
    fill(to, 1, BYTES, first);
    ok(cuEventRecord(event, first));
    ok(cuStreamSynchronize(second));
    assert_eq!(read(to, BYTES), [POISON; BYTES]);
    ok(cuEventSynchronize(event));
    assert_eq!(read(to, BYTES), [1; BYTES]);
    ok(cuMemFree_v2(to));
    ok(cuEventDestroy_v2(event));
    destroy(&[first, second]);
}

#[test]
fn asking_for_an_event_brings_it_about() {
    for seed in [LAZY, 2] {
        let _session = seeded(seed);
        let (first, second, early, late) = (stream(), stream(), event(), event());
        let to = device(BYTES);
        fill(to, 1, BYTES, first);
        ok(cuEventRecord(early, first));
        ok(cuStreamWaitEvent(second, early, 0));
        ok(cuEventRecord(late, second));
        let asked = (1..1000).find(|_| cuEventQuery(late) == 0);
        assert!(asked.is_some_and(|n| seed != LAZY || n > 3), "{asked:?}");
        ok(cuMemFree_v2(to));
        [early, late].into_iter().for_each(|event| ok(cuEventDestroy_v2(event)));
        destroy(&[first, second]);
    }
}

#[test]
fn the_default_stream_knows_blocking_streams_only() {
    const BLOCKING: u32 = 0;
    const NON_BLOCKING: u32 = 1;
    for (flags, expected) in [(BLOCKING, 1), (NON_BLOCKING, POISON)] {
        let _session = seeded(LAZY);
        let other = made(|stream| cuStreamCreate(stream, flags));
        let (to, mark) = (device(BYTES), device(4));
        fill(to, 1, BYTES, other);
        fill(mark, 1, 4, 0);
        ok(cuStreamSynchronize(0));
        assert_eq!(read(to, BYTES), [expected; BYTES], "flags {flags}");
        // And the other way round.
        fill(mark, 2, 4, 0);
        fill(to, 3, BYTES, other);
        ok(cuStreamSynchronize(other));
        assert_eq!(read(mark, 4), [if flags == BLOCKING { 2 } else { 1 }; 4]);
        free(&[to, mark]);
        ok(cuStreamDestroy_v2(other));
    }
}

#[test]
fn work_outlives_its_stream_but_not_its_memory() {
    let session = seeded(LAZY);
    let (stream, mut host, from) = (stream(), Pinned::new(BYTES), device(BYTES));
    fill(from, 7, BYTES, stream);
    ok(cuMemcpyDtoHAsync_v2(host.address, from, BYTES, stream));
    ok(cuStreamDestroy_v2(stream));
    assert_eq!(session.report().streams, 0);
    assert_eq!(host.bytes(), [POISON; BYTES]);
    ok(cuMemFree_v2(from));
    session.drain();
    assert_eq!(session.violations().len(), 2, "a fill and a copy of memory that is gone");
}

#[test]
fn what_can_never_happen_is_a_deadlock() {
    for temperament in [Temperament::Eager, Temperament::Lazy, Temperament::Mixed] {
        let memory = crate::memory::Memory::default();
        let random = crate::random::Random::new(1);
        let mut machine = Machine { memory, random, violations: Vec::new() };
        let mut streams = Streams::new(temperament);
        streams.create(100, 0, false);
        let never = Mark { progress: Progress::default(), number: 1, stream: 100 };
        streams.enqueue(100, Work::Await(never));
        assert!(streams.wait(&streams.end(100), &mut machine).is_err());
        assert!(streams.drain(0, &mut machine).is_err());
    }
}

#[test]
fn blocks_of_a_kernel_mix_with_other_streams() {
    const SAMPLES: u32 = 64 * 64;
    let mut torn = false;
    for seed in 0..64 {
        let session = seeded(seed);
        let (module, function) = resolve();
        let (first, second) = (stream(), stream());
        let (samples, status) = (device(8 * SAMPLES as usize), device(4 * SAMPLES as usize));
        let mut host = Pinned::new(4 * SAMPLES as usize);
        ok(launch(function, samples, status, SAMPLES, first));
        ok(cuMemcpyDtoHAsync_v2(host.address, status, host.bytes, second));
        ok(cuStreamSynchronize(second));
        torn |= host.bytes().contains(&0) && host.bytes().contains(&POISON);
        ok(cuStreamSynchronize(first));
        assert_eq!(read(status, host.bytes), vec![0; host.bytes]);
        assert_eq!(session.report().launches, 1);
        ok(cuModuleUnload(module));
        free(&[samples, status]);
        destroy(&[first, second]);
    }
    assert!(torn, "a kernel is never seen half done");
}

#[test]
fn threads_share_a_device() {
    for seed in [EAGER, LAZY, 2] {
        let session = seeded(seed);
        std::thread::scope(|scope| {
            for byte in 1..5 {
                scope.spawn(move || {
                    ok(cuCtxSetCurrent(crate::state::State::context_of(0)));
                    let (stream, to) = (stream(), device(BYTES));
                    for round in 0..20 {
                        fill(to, 16 * byte + round % 16, BYTES, stream);
                        ok(cuStreamSynchronize(stream));
                        assert_eq!(read(to, BYTES), [16 * byte + round % 16; BYTES]);
                    }
                    free(&[to]);
                    destroy(&[stream]);
                });
            }
        });
        assert!(session.violations().is_empty());
    }
}

#[test]
fn a_copy_on_the_device_takes_its_turn() {
    let session = seeded(LAZY);
    let (stream, from, to) = (stream(), device(BYTES), device(BYTES));
    fill(from, 7, BYTES, stream);
    ok(cuMemcpyDtoDAsync_v2(to, from, BYTES, stream));
    fill(from, 8, BYTES, stream);
    ok(cuStreamSynchronize(stream));
    assert_eq!((read(from, BYTES), read(to, BYTES)), (vec![8; BYTES], vec![7; BYTES]));
    free(&[from, to]);
    destroy(&[stream]);
    assert!(session.violations().is_empty());
}
