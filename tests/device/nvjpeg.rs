//! nvJPEG within batches: which images it gets, what it gives, and what happens when it does wrong.
//!
//! On the software driver nvJPEG is a stand-in that decodes through libjpeg-turbo, so bytes are
//! compared; on a GPU the real one is held to the stated bound.

use crate::common::{spec, step};
use crate::everywhere::cropped;
use crate::soft::control::{Config, hazard};
use crate::soft::{Soft, seeds};
use crate::source::{Read, Sample, epoch, open};
use crate::{Device, Test};
use forebay::decoder::Reason;
use forebay::device::Choice;
use forebay::graph::spec::{Arg, Placement, Spec};
use forebay::loader::{Deliver, GpuStats, Options};
use forebay::policy::{Cache, MaxBad, OnError};
use forebay::tensor::DType;
use turbojpeg::{Compressor, Image, PixelFormat, Subsamp};

pub(crate) const TESTS: &[Test] = &[
    ("nvjpeg_gets_what_it_should", gets_what_it_should),
    ("nvjpeg_small_large_small", small_large_small),
    ("nvjpeg_forbidden", forbidden),
    ("nvjpeg_damaged_images", damaged_images),
];

/// With hazards that only the stand-in acts out.
pub(crate) const SOFT: &[Test] = &[
    ("nvjpeg_orders_and_hazards", orders_and_hazards),
    ("nvjpeg_failing_calls", failing_calls),
    ("nvjpeg_damaged_images_left_out", damaged_images_left_out),
];

/// The largest difference between nvJPEG's pixels and the CPU decoder's, in levels of 255, and the
/// largest mean over an image: README's bound.
pub(crate) const BOUND: (u8, f64) = (8, 0.75);

fn picture(width: usize, height: usize, seed: usize) -> Vec<u8> {
    let value = |x: usize, y: usize, c: usize| {
        let wave = ((x * (3 + c) + y * 2 + seed * 40) as f32 / 9.0).sin() * 90.0 + 120.0;
        wave as u8 ^ ((x * y + seed) % 13) as u8
    };
    let rows = (0..height).flat_map(|y| (0..width).map(move |x| (x, y)));
    rows.flat_map(|(x, y)| (0..3).map(move |c| value(x, y, c))).collect()
}

pub(crate) fn jpeg(width: usize, height: usize, seed: usize, subsamp: Subsamp) -> Vec<u8> {
    let pixels = picture(width, height, seed);
    let image =
        Image { pixels: &pixels[..], width, pitch: 3 * width, height, format: PixelFormat::RGB };
    let mut compressor = Compressor::new().unwrap();
    compressor.set_quality(85).unwrap();
    compressor.set_subsamp(subsamp).unwrap();
    compressor.compress_to_vec(image).unwrap()
}

/// The file with an EXIF segment that says how to turn it.
pub(crate) fn turned(jpeg: &[u8], orientation: u8) -> Vec<u8> {
    let mut exif = b"Exif\0\0II*\0\x08\0\0\0\x01\0\x12\x01\x03\0\x01\0\0\0".to_vec();
    exif.extend([orientation, 0, 0, 0, 0, 0, 0, 0]);
    let length = (exif.len() as u16 + 2).to_be_bytes();
    [&jpeg[..2], &[0xFF, 0xE1], &length, &exif, &jpeg[2..]].concat()
}

fn mixed(split: u64) -> Spec {
    let mut spec = cropped(24.0);
    spec.decoder.device = Placement::Mixed;
    spec.decoder.split = split;
    spec
}

/// Every kind that nvJPEG gets, each turn, and what it does not get.
fn samples() -> (Vec<Sample>, u64) {
    let mut files = Vec::new();
    for (k, subsamp) in
        [Subsamp::Sub2x2, Subsamp::Sub2x1, Subsamp::None, Subsamp::Sub1x2, Subsamp::Gray]
            .into_iter()
            .enumerate()
    {
        files.push(jpeg(50 + 7 * k, 40 + 3 * k, k, subsamp));
    }
    for orientation in 1..=8 {
        files.push(turned(&jpeg(61, 35, orientation, Subsamp::Sub2x2), orientation as u8));
    }
    let for_gpu = files.len() as u64;
    files.push(jpeg(20, 20, 1, Subsamp::Sub2x2));
    files.push(jpeg(64, 64, 2, Subsamp::Sub4x1));
    // Interleaved, so that batches hold both kinds.
    let order = (0..files.len()).map(|k| k * 7 % files.len());
    (order.map(|k| Sample::Encoded(files[k].clone())).collect(), for_gpu)
}

fn options(batch_size: usize) -> Options {
    Options { batch_size, threads: 2, prefetch: 1, ..Options::default() }
}

pub(crate) fn on_cpu(
    spec: &Spec,
    samples: &[Sample],
    options: &Options,
) -> Result<Vec<Read>, String> {
    let cpu = Device { choice: Choice::Cpu, soft: false };
    let mut loader = open(cpu, Deliver::Host, spec, samples, options).unwrap();
    epoch(&mut loader, 0).map_err(|error| error.to_string())
}

/// The stand-in's bytes are the CPU's; those of nvJPEG itself are within the bound.
fn assert_close(device: Device, got: &[Read], expected: &[Read], what: &str) {
    if device.soft {
        assert!(got == expected, "{what}: other bytes than the CPU's");
        return;
    }
    assert_eq!(got.len(), expected.len());
    let (mut worst, mut sum, mut count) = (0, 0.0, 0.0);
    for (got, expected) in got.iter().zip(expected) {
        assert_eq!(got.ids, expected.ids);
        for ((_, got), (_, expected)) in got.outputs.iter().zip(&expected.outputs) {
            for (a, b) in got.iter().zip(expected) {
                worst = worst.max(a.abs_diff(*b));
                sum += f64::from(a.abs_diff(*b));
                count += 1.0;
            }
        }
    }
    println!("    {what}: nvJPEG differs by {worst} at most, {:.4} on average", sum / count);
    assert!(worst <= BOUND.0 && sum / count <= BOUND.1, "{what}: beyond the bound {BOUND:?}");
}

fn gets_what_it_should(device: Device) {
    let (samples, for_gpu) = samples();
    // No gather behind the decode: turning a picture would mix its pixels' differences.
    let mut spec = mixed(400);
    spec.steps.truncate(1);
    let expected = on_cpu(&spec, &samples, &options(4)).unwrap();
    let mut loader = open(device, Deliver::Host, &spec, &samples, &options(4)).unwrap();
    let got = epoch(&mut loader, 0).unwrap();
    assert_close(device, &got, &expected, "every kind");
    let GpuStats { hardware, single, retried, .. } = loader.gpu_stats().unwrap();
    println!("    {hardware} by the engine, {single} one by one, {retried} again on the CPU");
    assert_eq!(hardware + single, for_gpu, "{}", loader.nvjpeg().unwrap());
    assert_eq!(retried, 0);
    let mut on_cpu = loader.cpu_decoded();
    on_cpu.sort_by_key(|(reason, _)| reason.index());
    assert_eq!(on_cpu, [(Reason::Subsampling, 1)]);
    assert_eq!(loader.gpu_stats().unwrap().own, 1, "the small one");

    // What is kept: files for either decoder, or pixels of those images that the CPU decodes.
    for (cache, kept) in [(Cache::Encoded, for_gpu + 2), (Cache::Decoded, 2)] {
        let options = Options { cache: Some(cache), ..options(4) };
        let mut loader = open(device, Deliver::Host, &spec, &samples, &options).unwrap();
        for _ in 0..2 {
            assert_close(device, &epoch(&mut loader, 0).unwrap(), &expected, "of a cache");
        }
        assert_eq!(loader.cache_stats().unwrap().hits, kept);
    }
}

/// Buffers that the first image sizes must grow and stay right.
fn small_large_small(device: Device) {
    let sizes = [(1, 1), (700, 500), (1, 1), (16, 900), (64, 64), (1, 1)];
    let file = |(k, &(w, h)): (usize, &(usize, usize))| jpeg(w, h, k, Subsamp::None);
    let samples: Vec<_> = sizes.iter().enumerate().map(file).map(Sample::Encoded).collect();
    let mut spec = mixed(0);
    spec.steps.truncate(1);
    let expected = on_cpu(&spec, &samples, &options(1)).unwrap();
    let mut loader = open(device, Deliver::Host, &spec, &samples, &options(1)).unwrap();
    assert_close(device, &epoch(&mut loader, 0).unwrap(), &expected, "small, large, small");
    let stats = loader.gpu_stats().unwrap();
    assert_eq!(stats.hardware + stats.single, sizes.len() as u64);
}

/// `exact`, `device = "cpu"` and a large split keep everything off nvJPEG: the CPU's very bytes.
fn forbidden(device: Device) {
    let (samples, _) = samples();
    let mut exact = mixed(0);
    exact.decoder.exact = true;
    let mut cpu = mixed(0);
    cpu.decoder.device = Placement::Cpu;
    let all = samples.len() as u64;
    // Our own kernels get what is no rarity, under a split that large or where nvJPEG is out of the question.
    for (spec, reason, on_cpu_then) in [
        (exact, Reason::Exact, 1),
        (cpu, Reason::Pipeline, all),
        (mixed(1 << 20), Reason::Small, 1),
    ] {
        let expected = on_cpu(&spec, &samples, &options(5)).unwrap();
        let mut loader = open(device, Deliver::Host, &spec, &samples, &options(5)).unwrap();
        assert!(epoch(&mut loader, 0).unwrap() == expected);
        assert_eq!(loader.cpu_decoded(), [(reason, on_cpu_then)]);
        let stats = loader.gpu_stats().unwrap();
        assert_eq!((stats.hardware, stats.single, stats.own), (0, 0, all - on_cpu_then));
    }
}

/// A file whose damage only decoding shows: the CPU's verdict stands.
fn damaged_images(device: Device) {
    let mut bad = jpeg(80, 60, 3, Subsamp::Sub2x2);
    // Bits that end the picture's data early.
    let middle = bad.len() / 2;
    bad.drain(middle..bad.len() - 2);
    let good = jpeg(80, 60, 4, Subsamp::Sub2x2);
    let samples = vec![Sample::Encoded(good.clone()), Sample::Encoded(bad), Sample::Encoded(good)];
    let spec = {
        let mut spec = spec(vec![step("flip", &[])], None, Some(DType::U8));
        spec.decoder.device = Placement::Mixed;
        spec.decoder.split = 0;
        spec
    };
    let expected = on_cpu(&spec, &samples, &options(1)).unwrap_err();
    let mut loader = open(device, Deliver::Host, &spec, &samples, &options(1)).unwrap();
    match epoch(&mut loader, 0) {
        Err(error) => assert_eq!(error.to_string(), expected),
        // nvJPEG may fill such a picture up without a word: README says so.
        Ok(_) => assert!(!device.soft, "the stand-in refuses damaged files"),
    }
}

/// Where nvJPEG and then the CPU fail at images, the batch is made again without them.
fn damaged_images_left_out(device: Device) {
    let mut bad = jpeg(80, 60, 3, Subsamp::Sub2x2);
    let middle = bad.len() / 2;
    bad.drain(middle..bad.len() - 2);
    let samples: Vec<Sample> = (0..12)
        .map(|id| match id {
            1 | 4..=7 => Sample::Encoded(bad.clone()),
            _ => Sample::Encoded(jpeg(70 + id, 60, id, Subsamp::Sub2x2)),
        })
        .collect();
    // All of an image, since the CPU decodes no more than a sample reads.
    let size = ("size", Arg::Number(40.0));
    let spec = Spec {
        decoder: mixed(0).decoder,
        ..spec(vec![step("resize", &[size])], None, Some(DType::U8))
    };
    for on_error in [OnError::Skip, OnError::Replace] {
        let options =
            Options { on_error: Some(on_error), max_bad: Some(MaxBad::Count(5)), ..options(4) };
        let expected = on_cpu(&spec, &samples, &options).unwrap();
        let mut loader = open(device, Deliver::Host, &spec, &samples, &options).unwrap();
        for _ in 0..2 {
            assert!(epoch(&mut loader, 0).unwrap() == expected, "{on_error}");
        }
        assert_eq!(loader.bad_samples().samples, 5);
    }
}

/// Each hazard on its own and all at once, in many orders: the CPU's bytes come out.
fn orders_and_hazards(device: Device) {
    let soft = Soft::get();
    let before = soft.live();
    let (samples, for_gpu) = samples();
    let spec = mixed(400);
    let expected = on_cpu(&spec, &samples, &options(4)).unwrap();
    let all = (1 << 7) - 1;
    let hazards = [
        0,
        hazard::EARLY,
        hazard::SKIP,
        hazard::PARTIAL,
        hazard::FIRST_SIZE,
        hazard::BROKEN | hazard::FAIL_IMAGES,
        hazard::NO_HARDWARE,
        hazard::EARLY | hazard::SKIP,
        all,
        all & !hazard::NO_HARDWARE,
    ];
    let mut retried = vec![0; hazards.len()];
    for seed in 0..seeds(400) {
        let which = seed as usize % hazards.len();
        // The temperament goes by the seed, too.
        let config = Config { seed: seed / 3, hazards: hazards[which], ..Config::default() };
        soft.configure(config);
        let mut loader = open(device, Deliver::Host, &spec, &samples, &options(4)).unwrap();
        // The second time finds slots that were used.
        for _ in 0..2 {
            let got = epoch(&mut loader, 0).unwrap();
            assert!(got == expected, "other bytes: seed {seed}, hazards {:#x}", hazards[which]);
        }
        let stats = loader.gpu_stats().unwrap();
        retried[which] += stats.retried;
        if hazards[which] == 0 {
            assert_eq!((stats.hardware + stats.single, stats.retried), (2 * for_gpu, 0));
        }
        if hazards[which] == hazard::NO_HARDWARE {
            assert_eq!(stats.hardware, 0);
        }
        drop(loader);
        soft.assert_as(before, &format!("seed {seed}, hazards {:#x}", hazards[which]));
    }
    println!(
        "    images decoded again on the CPU, by hazard: {:x?}",
        hazards.iter().zip(&retried).collect::<Vec<_>>()
    );
    let happened = |bits: u32| hazards.iter().zip(&retried).any(|(h, n)| h & bits != 0 && *n > 0);
    assert!(happened(hazard::SKIP) && happened(hazard::PARTIAL) && happened(hazard::FAIL_IMAGES));
    soft.configure(Config::default());
}

/// Each call of nvJPEG and of the driver fails once: the batch comes out right, decoded on the CPU
/// where need be, or its error names the call.
fn failing_calls(device: Device) {
    let soft = Soft::get();
    let (samples, _) = samples();
    let spec = mixed(400);
    let expected = on_cpu(&spec, &samples, &options(8)).unwrap();
    let (mut n, mut nvjpeg, mut saved) = (1, 0, 0);
    loop {
        soft.configure(Config { seed: 2, fail_call: n, ..Config::default() });
        let outcome = open(device, Deliver::Host, &spec, &samples, &options(8))
            .and_then(|mut loader| epoch(&mut loader, 0));
        let report = soft.assert_clean(&format!("call {n} fails"));
        if report.calls < n {
            break;
        }
        let call = soft.call_name(n);
        match outcome {
            Ok(got) => {
                assert!(got == expected, "{call} failed, and the bytes are others");
                saved += u64::from(call.starts_with("nvjpeg"));
            }
            Err(error) => {
                let text = error.to_string();
                assert!(text.contains(call.trim_end_matches("_v2")), "{call}: {text}");
                assert!(!call.starts_with("nvjpeg"), "the CPU was not tried: {text}");
            }
        }
        nvjpeg += u64::from(call.starts_with("nvjpeg"));
        n += 1;
    }
    assert_eq!(nvjpeg, saved);
    println!("    {} calls failed once each, {nvjpeg} of them nvJPEG's", n - 1);
    soft.configure(Config::default());
}
