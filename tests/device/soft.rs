//! What only the software driver can show: every order that CUDA allows, every call failing in turn,
//! nothing leaked, nothing in the steady state that should not be there.
#![allow(unsafe_code)]

#[path = "../softgpu/src/control.rs"]
#[allow(dead_code, unreachable_pub)] // The package has its part, too.
pub(crate) mod control;
#[path = "../common/softgpu.rs"]
mod softgpu;

use crate::everywhere::{KEEP, course, cropped};
use crate::source::{Consumer, Read, Sample, epoch, open, planar, read};
use crate::{Device, Test, common};
use common::{spec, step, when};
use control::{Config, Report};
use forebay::device::Choice;
use forebay::device::cuda::Cuda;
use forebay::graph::spec::{Arg, Condition, Spec};
use forebay::loader::{Deliver, Options};
use forebay::{ErrorKind, Result};
use libloading::Library;
use std::panic::{catch_unwind, resume_unwind};
use std::sync::OnceLock;

pub(crate) use softgpu::command;

pub(crate) const TESTS: &[Test] = &[
    ("every_order_gives_the_same_bytes", every_order_gives_the_same_bytes),
    ("every_failure_reaches_the_consumer", every_failure_reaches_the_consumer),
    ("leaving_early", leaving_early),
    ("the_steady_state", the_steady_state),
    ("out_of_memory", out_of_memory),
    ("drivers_and_gpus_that_do_not_suit", drivers_and_gpus_that_do_not_suit),
];

/// The driver's control calls, of the library that the loader has opened for forebay.
pub(crate) struct Soft {
    configure: control::Configure,
    report: control::Ask,
    call_name: control::CallName,
}

impl Soft {
    pub(crate) fn get() -> &'static Soft {
        static SOFT: OnceLock<Soft> = OnceLock::new();
        SOFT.get_or_init(|| {
            // SAFETY: the software driver, whose control calls have the types of control.rs; it is
            // never unloaded.
            unsafe {
                let library = Box::leak(Box::new(Library::new("libcuda.so").unwrap()));
                Soft {
                    configure: *library.get(b"softgpu_configure").unwrap(),
                    report: *library.get(b"softgpu_report").unwrap(),
                    call_name: *library.get(b"softgpu_call_name").unwrap(),
                }
            }
        })
    }

    pub(crate) fn configure(&self, config: Config) {
        // SAFETY: a valid configuration.
        unsafe { (self.configure)(&config) }
    }

    pub(crate) fn report(&self) -> Report {
        let mut report = std::mem::MaybeUninit::<Report>::zeroed();
        // SAFETY: room for a report, all of whose bits may be zero.
        unsafe {
            (self.report)(report.as_mut_ptr());
            report.assume_init()
        }
    }

    pub(crate) fn call_name(&self, n: u64) -> String {
        let mut name = [0u8; 128];
        // SAFETY: room for so many bytes.
        let len = unsafe { (self.call_name)(n, name.as_mut_ptr(), name.len()) };
        String::from_utf8_lossy(&name[..len.min(127)]).into_owned()
    }

    /// Nothing was done that CUDA forbids.
    pub(crate) fn assert_clean(&self, what: &str) -> Report {
        let report = self.report();
        assert_eq!(report.violations, 0, "{what}: {}", report.first_violation());
        report
    }

    /// What is live: bytes on the GPU, pinned bytes, streams, events, modules, contexts, nvJPEG's
    /// handles, states and streams.
    pub(crate) fn live(&self) -> [u64; 9] {
        let r = self.report();
        let nvjpeg = [r.nvjpeg_handles, r.nvjpeg_states, r.nvjpeg_streams];
        let cuda = [r.device_bytes, r.pinned_bytes, r.streams, r.events, r.modules, r.contexts];
        [&cuda[..], &nvjpeg].concat().try_into().expect("nine")
    }

    /// And nothing is live that was not so `before`.
    pub(crate) fn assert_as(&self, before: [u64; 9], what: &str) {
        self.assert_clean(what);
        assert_eq!(self.live(), before, "leaked: {what}");
    }
}

/// Two passes, an image between them, two outputs, sizes as drawn: all kinds of memory there are.
fn rich() -> Spec {
    let angle = |a| ("angle", Arg::Number(a));
    let turn = when(Condition::Probability(0.5), step("rotate", &[angle(20.0), KEEP]));
    let float = step("cast", &[("dtype", Arg::Text("f32".into()))]);
    let steps = vec![turn, step("rotate", &[angle(-35.0)]), float];
    let mut spec = spec(steps, None, None);
    let mut second = spec.outputs[0].clone();
    second.name = "second".into();
    second.from = Some("decode".into());
    spec.outputs.push(second);
    spec
}

fn options(prefetch: usize) -> Options {
    Options { batch_size: 3, threads: 2, prefetch, ..Options::default() }
}

/// Reads two epochs on the GPU as a trainer does.
fn consume(
    device: Device,
    spec: &Spec,
    samples: &[Sample],
    prefetch: usize,
    (batch_size, first): (usize, usize),
) -> Result<Vec<Read>> {
    let options = Options { batch_size, ..options(prefetch) };
    let mut loader = open(device, Deliver::Device, spec, samples, &options)?;
    let cuda = Cuda::open(0)?;
    let _bound = cuda.bind()?;
    let mut consumer = Consumer::new(&cuda)?;
    for (number, first) in [(0, first), (1, 0)] {
        for batch in loader.epoch_from(number, first) {
            consumer.queue(batch?)?;
        }
    }
    drop(loader);
    consumer.finish()
}

fn expected(spec: &Spec, samples: &[Sample], (batch_size, first): (usize, usize)) -> Vec<Read> {
    let cpu = Device { choice: Choice::Cpu, soft: false };
    let options = Options { batch_size, ..options(2) };
    let mut loader = open(cpu, Deliver::Host, spec, samples, &options).unwrap();
    let mut from = |number, first| -> Vec<Read> {
        loader.epoch_from(number, first).map(|batch| read(&batch.unwrap())).collect()
    };
    [from(0, first), from(1, 0)].concat()
}

pub(crate) fn seeds(default: u64) -> u64 {
    std::env::var("FOREBAY_SEEDS").ok().and_then(|n| n.parse().ok()).unwrap_or(default)
}

fn every_order_gives_the_same_bytes(device: Device) {
    let soft = Soft::get();
    let before = soft.live();
    let cases = [
        (course(), planar(20, 5, 7)),
        (rich(), planar(17, 6, 4)),
        (cropped(6.0), [planar(5, 3, 9), planar(9, 8, 2), planar(6, 4, 4)].concat()),
        // Outputs that grow while the consumer is at those of earlier batches.
        (course(), (1..9).flat_map(|side| planar(3, side, side)).collect()),
        // A slot whose first batch is the short one at an epoch's end: its labels grow, and its outputs
        // do not.
        (course(), [planar(40, 2, 2), planar(1, 30, 30)].concat()),
    ];
    // Samples of a batch, and the first batch of the first epoch.
    const RUNS: [(usize, usize); 5] = [(3, 0), (3, 0), (3, 0), (3, 0), (40, 1)];
    let expected: Vec<_> =
        cases.iter().zip(RUNS).map(|((spec, samples), run)| expected(spec, samples, run)).collect();
    for seed in 0..seeds(2000) {
        let case = seed as usize / 3 % cases.len();
        let (spec, samples) = &cases[case];
        soft.configure(Config { seed, ..Config::default() });
        let got = consume(device, spec, samples, seed as usize % 4, RUNS[case]).unwrap();
        assert!(got == expected[case], "other bytes under seed {seed}");
        soft.assert_as(before, &format!("seed {seed}"));
    }
    soft.configure(Config::default());
}

fn every_failure_reaches_the_consumer(device: Device) {
    let soft = Soft::get();
    let (spec, samples) = (rich(), planar(9, 4, 5));
    let expected = expected(&spec, &samples, (3, 0));
    for (seed, status) in [(0, 999), (1, 700)] {
        let config = Config { seed, fail_status: status, ..Config::default() };
        let mut n = 1;
        loop {
            let before = soft.live();
            soft.configure(Config { fail_call: n, ..config });
            let outcome = catch_unwind(|| consume(device, &spec, &samples, 1, (3, 0)));
            let outcome = outcome.unwrap_or_else(|panic| {
                println!("    call {n} under seed {seed}, {}, failed", soft.call_name(n));
                resume_unwind(panic)
            });
            let report = soft.assert_clean(&format!("call {n} fails"));
            let after = soft.live();
            if report.calls < n {
                assert!(outcome.unwrap() == expected);
                break;
            }
            let call = soft.call_name(n);
            match outcome {
                // As the driver's documentation spells it: without the suffix of the version.
                Err(error) => {
                    let text = error.to_string();
                    let name = call.trim_end_matches("_v2");
                    assert!(text.contains(name), "{call} failed, and the error is: {text}");
                    assert!(!text.contains('\n'), "{text}");
                }
                Ok(got) => assert!(got == expected, "{call} failed, and the bytes are others"),
            }
            // Only what could not be given back, or not be waited for, is still there.
            let gives_back = ["Free", "Destroy", "Unload", "Release", "Synchronize"];
            if !gives_back.iter().any(|word| call.contains(word)) {
                assert_eq!(after, before, "{call} failed, and something leaked");
            }
            // Whatever failed, the next loader works.
            if seed == 0 {
                soft.configure(Config::default());
                assert!(
                    consume(device, &spec, &samples, 1, (3, 0)).unwrap() == expected,
                    "after {call}"
                );
            }
            n += 1;
        }
        println!("    seed {seed}: each of {} calls failed once with status {status}", n - 1);
    }
    soft.configure(Config::default());
}

/// A consumer that goes while batches are under way that nobody will read: their memory is given back
/// when the GPU is done with it.
fn leaving_early(device: Device) {
    let soft = Soft::get();
    let before = soft.live();
    let (spec, samples) = (rich(), planar(30, 6, 5));
    for seed in 0..seeds(150) {
        soft.configure(Config { seed, ..Config::default() });
        let mut loader = open(device, Deliver::Device, &spec, &samples, &options(4)).unwrap();
        for batch in loader.epoch(0).take(seed as usize % 4) {
            batch.unwrap();
        }
        drop(loader);
        soft.assert_as(before, &format!("leaving early under seed {seed}"));
    }
    soft.configure(Config::default());
}

/// Once the largest batch was seen nothing is allocated, and the host waits once a batch: where a
/// slot comes round.
fn the_steady_state(device: Device) {
    let soft = Soft::get();
    let before = soft.live();
    for seed in 0..12 {
        soft.configure(Config { seed, ..Config::default() });
        let samples = [planar(8, 12, 12), planar(40, 4, 4)].concat();
        let spec = cropped(5.0);
        let mut loader = open(device, Deliver::Device, &spec, &samples, &options(2)).unwrap();
        let cuda = Cuda::open(0).unwrap();
        let bound = cuda.bind().unwrap();
        let mut consumer = Consumer::new(&cuda).unwrap();
        let mut epoch = |number: u32| {
            let before = soft.report();
            let batches = loader.epoch(number).map(|b| consumer.queue(b.unwrap()).unwrap()).count();
            let after = soft.report();
            (
                batches as u64,
                after.allocations - before.allocations,
                after.host_waits - before.host_waits,
            )
        };
        // Which slot gets the largest batch differs from epoch to epoch.
        for number in 0..8 {
            epoch(number);
        }
        let (mut batches, mut allocations, mut waits) = (0, 0, 0);
        for number in 0..4 {
            let (b, a, w) = epoch(number);
            (batches, allocations, waits) = (batches + b, allocations + a, waits + w);
        }
        assert_eq!(allocations, 0, "allocations in the steady state");
        assert!(waits <= batches, "{waits} waits of the host for {batches} batches");
        let grown = loader.gpu_stats().unwrap().grown;
        assert!(grown > 0 && grown < 100, "{grown}");
        consumer.finish().unwrap();
        drop((loader, bound, cuda));
        soft.assert_as(before, "the steady state");
    }
    soft.configure(Config::default());
}

fn out_of_memory(device: Device) {
    let soft = Soft::get();
    let before = soft.live();
    let samples = planar(64, 64, 64);
    let options = Options { batch_size: 64, threads: 1, ..Options::default() };
    soft.configure(Config { memory: 8 << 20, ..Config::default() });
    let outcome = open(device, Deliver::Host, &course(), &samples, &options)
        .and_then(|mut loader| epoch(&mut loader, 0));
    let error = outcome.expect_err("a batch of 3 MiB, four of them at once");
    assert_eq!(error.kind(), ErrorKind::Limit);
    assert!(error.to_string().contains("batch size"), "{error}");
    soft.assert_as(before, "out of memory");
    // A smaller batch fits.
    let options = Options { batch_size: 4, ..options };
    let mut loader = open(device, Deliver::Host, &course(), &samples, &options).unwrap();
    assert_eq!(epoch(&mut loader, 0).unwrap().len(), 16);
    drop(loader);
    soft.assert_as(before, "a smaller batch");
    soft.configure(Config::default());
}

fn drivers_and_gpus_that_do_not_suit(_: Device) {
    let soft = Soft::get();
    let before = soft.live();
    let refusal = |config| {
        soft.configure(config);
        let error = Choice::Cuda(0).open().err().expect("it does not suit").to_string();
        let (gpu, note) = Choice::Auto.open().unwrap();
        assert!(gpu.is_none(), "auto takes the CPU");
        // A GPU that is passed over is told of; that there is none is not.
        assert_eq!(note.is_some(), !error.contains("finds no GPU"), "{note:?}");
        assert!(error.contains("--device cpu"), "{error}");
        soft.assert_as(before, &error);
        error
    };
    let old = refusal(Config { driver_version: 12040, ..Config::default() });
    assert!(old.contains("CUDA 12.4") && old.contains("580"), "{old}");
    let older = refusal(Config { major: 6, minor: 1, ..Config::default() });
    assert!(older.contains("6.1") && older.contains("sm_75"), "{older}");
    let none = refusal(Config { devices: 0, ..Config::default() });
    assert!(none.contains("finds no GPU"), "{none}");
    // Newer GPUs than there were when the kernels were compiled take PTX.
    for (major, minor, image) in [(7, 5, "sm_75"), (8, 9, "sm_80"), (13, 0, "compute_120")] {
        soft.configure(Config { major, minor, ..Config::default() });
        let cuda = Cuda::open(0).unwrap();
        assert_eq!(cuda.image(forebay::device::Kernel::Augment), image);
    }
    soft.configure(Config::default());
}
