//! What holds on every device: the CPU's bytes, whatever the batch, and errors that say where.

use crate::common::{shared, spec, step, when};
use crate::source::{Consumer, Read, Sample, epoch, open, planar, read};
use crate::{Device, Test, graphs};
use forebay::device::Choice;
use forebay::graph::plan::Plan;
use forebay::graph::spec::{Arg, Condition, Dist, Spec};
use forebay::loader::{Deliver, Loader, Options};
use forebay::ops;
use forebay::policy::{Cache, LastBatch, MaxBad, OnError};
use forebay::tensor::{DType, Layout};
use forebay::{Error, ErrorKind};
use proptest::strategy::{Strategy, ValueTree};

pub(crate) const TESTS: &[Test] = &[
    ("random_graphs", random_graphs),
    ("golden_inputs", golden_inputs),
    ("batch_sizes", batch_sizes),
    ("long_images", long_images),
    ("images_of_many_sizes", images_of_many_sizes),
    ("batches_that_grow", batches_that_grow),
    ("epochs_and_resume", epochs_and_resume),
    ("bad_samples", bad_samples),
    ("skipped_and_replaced", skipped_and_replaced),
    ("held_and_abandoned_batches", held_and_abandoned_batches),
];

/// What only a device with memory of its own has.
pub(crate) const GPU: &[Test] = &[
    ("a_consumer_on_the_gpu", a_consumer_on_the_gpu),
    ("devices_that_are_not_there", devices_that_are_not_there),
];

const CPU: Device = Device { choice: Choice::Cpu, soft: false };

fn options(batch_size: usize) -> Options {
    Options { batch_size, threads: 2, ..Options::default() }
}

fn uniform(lo: f32, hi: f32) -> Arg {
    Arg::Draw { dist: Dist::Uniform { lo, hi }, per_channel: false }
}

fn half() -> Condition {
    Condition::Probability(0.5)
}

pub(crate) const KEEP: (&str, Arg) = ("keep_size", Arg::Bool(true));

/// The course's pipeline.
pub(crate) fn course() -> Spec {
    let shift = Arg::Draw { dist: Dist::Uniform { lo: -15.0, hi: 15.0 }, per_channel: true };
    let numbers = |n: [f64; 3]| Arg::Numbers(n.to_vec());
    let steps = vec![
        when(half(), step("rotate", &[("angle", uniform(-15.0, 15.0)), KEEP])),
        when(half(), step("rgb_shift", &[("shift", shift)])),
        when(
            half(),
            step(
                "brightness_contrast",
                &[("brightness", uniform(0.95, 1.05)), ("contrast", uniform(0.95, 1.05))],
            ),
        ),
        step(
            "normalize",
            &[("mean", numbers([0.4914, 0.4822, 0.4465])), ("std", numbers([0.2, 0.2, 0.2]))],
        ),
    ];
    spec(steps, Some(Layout::Chw), Some(DType::F32))
}

/// A crop to one size, so that images of any size make a batch.
pub(crate) fn cropped(size: f64) -> Spec {
    let crop = step(
        "crop",
        &[
            ("size", Arg::Numbers(vec![size, size])),
            ("padding", Arg::Number(size)),
            ("position", Arg::Text("random".into())),
        ],
    );
    let rotate = step("rotate", &[("angle", uniform(-90.0, 90.0)), KEEP]);
    spec(vec![crop, when(half(), rotate)], Some(Layout::Hwc), None)
}

/// `device` gives the bytes of the CPU for epoch 3.
fn same(device: Device, spec: &Spec, samples: &[Sample], options: &Options) {
    let outcome = same_outcome(device, spec, samples, options);
    assert!(outcome.is_ok(), "{:?}", outcome.err());
}

/// The same, or the CPU's error.
fn same_outcome(
    device: Device,
    spec: &Spec,
    samples: &[Sample],
    options: &Options,
) -> Result<Vec<Read>, String> {
    let run = |device| -> Result<Vec<Read>, String> {
        let loader = open(device, Deliver::Host, spec, samples, options);
        loader.and_then(|mut loader| epoch(&mut loader, 3)).map_err(|error| error.to_string())
    };
    let (expected, got) = (run(CPU), run(device));
    assert!(got == expected, "{:?}: {:?}", spec.steps, first_difference(&got, &expected));
    got
}

fn first_difference(
    got: &Result<Vec<Read>, String>,
    expected: &Result<Vec<Read>, String>,
) -> String {
    match (got, expected) {
        (Ok(got), Ok(expected)) => {
            let at = got.iter().zip(expected).position(|(a, b)| a != b);
            format!("batch {at:?} of {} (expected {})", got.len(), expected.len())
        }
        (got, expected) => format!("{:?}, not {:?}", got.as_ref().err(), expected.as_ref().err()),
    }
}

fn random_graphs(device: Device) {
    let cases = std::env::var("FOREBAY_GRAPHS").ok().and_then(|n| n.parse().ok()).unwrap_or(150);
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let mut run = 0;
    while run < cases {
        let strategy = (graphs::any_spec(), graphs::size(), 1..9usize);
        let (spec, (width, height), batch) = strategy.new_tree(&mut runner).unwrap().current();
        if Plan::compile(&spec, ops::ALL).is_err() {
            continue;
        }
        // A crop may be larger than the picture.
        let samples = planar(11, height, width);
        run += usize::from(same_outcome(device, &spec, &samples, &options(batch)).is_ok());
    }
}

/// DALI's inputs through the steps that DALI's outputs are of. What the CPU makes of them is held
/// against those in tests/golden.rs.
fn golden_inputs(device: Device) {
    let Some(dir) = shared("golden") else { return };
    let manifest = std::fs::read(dir.join("manifest.json")).unwrap();
    let manifest: serde_json::Value = serde_json::from_slice(&manifest).unwrap();
    let inputs = manifest["cases"].as_array().unwrap().iter();
    let mut inputs: Vec<&str> = inputs.map(|case| case["input"].as_str().unwrap()).collect();
    inputs.sort_unstable();
    inputs.dedup();
    for name in inputs {
        let file = Sample::Encoded(std::fs::read(dir.join("inputs").join(name)).unwrap());
        let exact = |mut spec: Spec| {
            spec.decoder.exact = true;
            spec
        };
        same(device, &exact(course()), &vec![file.clone(); 12], &options(5));
        let turn = vec![step("rotate", &[("angle", Arg::Number(33.0))])];
        same(device, &exact(spec(turn, None, None)), &[file], &options(1));
    }
}

fn batch_sizes(device: Device) {
    for (samples, batch) in [(1, 1), (5, 2), (257, 256), (1000, 1000)] {
        let partial = Options { last_batch: Some(LastBatch::Partial), ..options(batch) };
        same(device, &course(), &planar(samples, 4, 5), &partial);
    }
    same(device, &course(), &planar(100_000, 1, 1), &options(100_000));
}

/// As long as an image gets. Sides beyond 2^16 would be cut by 16-bit grid dimensions.
fn long_images(device: Device) {
    for (height, width) in [(2, 65_500), (65_500, 2), (1, 70_000)] {
        same(device, &course(), &planar(2, height, width), &options(2));
    }
}

fn images_of_many_sizes(device: Device) {
    let sizes = [(1, 1), (300, 2), (7, 90), (64, 64), (3, 3), (1, 200)];
    let samples: Vec<Sample> =
        sizes.iter().cycle().take(40).flat_map(|&(h, w)| planar(1, h, w)).collect();
    same(device, &cropped(17.0), &samples, &options(7));
}

/// The first batch is the smallest.
fn batches_that_grow(device: Device) {
    let samples: Vec<Sample> = (1..40).flat_map(|side| planar(4, side, side)).collect();
    let mut same_size = options(4);
    same_size.shuffle = Some(false);
    same(device, &course(), &samples, &same_size);
}

fn epochs_and_resume(device: Device) {
    let samples = planar(23, 6, 6);
    let mut spec = course();
    spec.reader.shuffle = true;
    let open = |device, cache| {
        let options = Options { cache: Some(cache), ..options(4) };
        open(device, Deliver::Host, &spec, &samples, &options).unwrap()
    };
    let (mut cpu, mut other) = (open(CPU, Cache::None), open(device, Cache::None));
    let mut caching = [Cache::Encoded, Cache::Decoded].map(|cache| open(device, cache));
    for number in [0, 1, 7] {
        let expected = epoch(&mut cpu, number).unwrap();
        assert!(epoch(&mut other, number).unwrap() == expected);
        assert!(caching.iter_mut().all(|it| epoch(it, number).unwrap() == expected));
    }
    assert!(caching.iter().all(|it| it.cache_stats().unwrap().hits == 46));
    let rest = |loader: &mut Loader| -> Vec<Read> {
        loader.epoch_from(2, 3).map(|batch| read(&batch.unwrap())).collect()
    };
    assert!(rest(&mut other) == rest(&mut cpu));
}

/// The first bad sample of a batch is what its consumer is told, and the loader goes on.
fn bad_samples(device: Device) {
    let mut samples = planar(12, 8, 8);
    samples[6] = Sample::Broken(Error::new(ErrorKind::Io, "no such luck").at_path("6.img"));
    samples[9] = Sample::Encoded(b"\xff\xd8\xff\xe0 not much of a picture".to_vec());
    samples[10] = planar(1, 9, 8).remove(0);
    let mut loader = open(device, Deliver::Host, &course(), &samples, &options(3)).unwrap();
    for (first, words) in [(6, "no such luck"), (9, "9.img"), (0, "")] {
        let outcome: Vec<_> = loader.epoch_from(0, first / 3).take(1).collect();
        match &outcome[0] {
            Ok(batch) => assert!(words.is_empty() && batch.ids()[0] == first as i64),
            Err(error) => assert!(error.to_string().contains(words), "{error}"),
        }
    }
    samples[9] = planar(1, 8, 8).remove(0);
    let mut loader = open(device, Deliver::Host, &course(), &samples, &options(3)).unwrap();
    let error = loader.epoch_from(0, 3).next().unwrap().err().expect("two sizes in a batch");
    assert!(error.to_string().contains("8x9"), "{error}");
    // A step that cannot work on the image is named.
    let crop = step("crop", &[("size", Arg::Numbers(vec![9.0, 9.0]))]);
    let spec = spec(vec![crop], None, None);
    let mut loader = open(device, Deliver::Host, &spec, &samples, &options(3)).unwrap();
    let error = loader.epoch(0).next().unwrap().err().expect("8x8 has no crop of 9x9");
    assert!(error.to_string().contains("step \"crop\""), "{error}");
}

/// Samples left out and stand-ins, in batches of which some, most and all samples are bad.
fn skipped_and_replaced(device: Device) {
    let mut samples = planar(24, 7, 9);
    for bad in [0, 5, 8, 9, 10, 11, 13, 14, 15] {
        samples[bad] = match bad % 2 {
            0 => Sample::Encoded(b"\xff\xd8\xff\xe0 not much of a picture".to_vec()),
            _ => Sample::Broken(Error::new(ErrorKind::Io, "no such luck").at_path("n.img")),
        };
    }
    for on_error in [OnError::Skip, OnError::Replace] {
        for batch in [1, 4, 24] {
            let max_bad = Some(MaxBad::Count(9));
            let options = Options { on_error: Some(on_error), max_bad, ..options(batch) };
            same(device, &course(), &samples, &options);
            same(device, &cropped(8.0), &samples, &options);
        }
    }
}

/// A consumer may keep batches, drop them in any order, or leave: the ring never waits for it.
fn held_and_abandoned_batches(device: Device) {
    let samples = planar(60, 5, 5);
    let mut loader = open(device, Deliver::Host, &course(), &samples, &options(3)).unwrap();
    let mut cpu = open(CPU, Deliver::Host, &course(), &samples, &options(3)).unwrap();
    let expected = epoch(&mut cpu, 0).unwrap();
    let held: Vec<_> = loader.epoch(0).collect::<Result<_, _>>().unwrap();
    for round in 0..5 {
        drop(loader.epoch(round).take(round as usize).collect::<Vec<_>>());
    }
    assert!(held.iter().map(read).collect::<Vec<_>>() == expected);
    let stats = loader.stats();
    assert!(stats.grown_slots > 0, "twenty batches were held at once");
    drop(loader);
    assert!(held.iter().rev().map(read).eq(expected.into_iter().rev()), "without their loader");
}

/// Batches that stay on the GPU, read there while later ones are made in the same slots.
fn a_consumer_on_the_gpu(device: Device) {
    let samples = planar(90, 12, 10);
    let options = Options { prefetch: 1, ..options(4) };
    let mut cpu = open(CPU, Deliver::Host, &course(), &samples, &options).unwrap();
    let mut loader = open(device, Deliver::Device, &course(), &samples, &options).unwrap();
    let cuda = forebay::device::cuda::Cuda::open(0).unwrap();
    let bound = cuda.bind().unwrap();
    let mut consumer = Consumer::new(&cuda).unwrap();
    let mut expected = Vec::new();
    for number in 0..3 {
        for batch in loader.epoch(number) {
            consumer.queue(batch.unwrap()).unwrap();
        }
        expected.extend(epoch(&mut cpu, number).unwrap());
    }
    assert!(consumer.finish().unwrap() == expected);
    drop(bound);
}

fn devices_that_are_not_there(_: Device) {
    let error = Choice::Cuda(99).open().err().expect("nobody has so many").to_string();
    assert!(error.starts_with("--device cuda:99: no GPU cuda:99: this machine has "), "{error}");
    assert!(error.contains("cuda:0") && error.contains("--device cpu"), "{error}");
}
