//! Our own kernels for JPEGs within batches: the CPU's bytes on every device, and its verdict where they are
//! left in doubt.

use crate::common::{spec, step};
use crate::encode::{Kind, SUBSAMPLINGS, jpeg, picture, segments};
use crate::everywhere::cropped;
use crate::nvjpeg::{on_cpu, turned};
use crate::soft::control::Config;
use crate::soft::{Soft, seeds};
use crate::source::{Sample, epoch, open};
use crate::{Device, Test};
use forebay::graph::spec::{Arg, Backend, Placement, Spec};
use forebay::loader::{Deliver, Options};
use forebay::policy::{Cache, MaxBad, OnError};
use forebay::tensor::DType;

pub(crate) const TESTS: &[Test] = &[
    ("own_batches", batches),
    ("own_large_images", large_images),
    ("own_doubt", doubt),
    ("own_damaged_images", damaged_images),
];

pub(crate) const SOFT: &[Test] = &[("own_orders", orders)];

fn options(batch_size: usize) -> Options {
    Options { batch_size, threads: 2, prefetch: 1, ..Options::default() }
}

fn mixed(mut spec: Spec) -> Spec {
    spec.decoder.device = Placement::Mixed;
    spec
}

fn file(width: usize, height: usize, kind: Kind) -> Vec<u8> {
    jpeg(&picture(width, height, 3), width, height, kind)
}

/// Files for our kernels: each sampling, with tables of their own, restarts, turns; and one of many threads.
fn files() -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for (k, subsampling) in SUBSAMPLINGS[..5].iter().copied().enumerate() {
        for (optimize, restart) in [(false, 0), (true, 0), (false, 1)] {
            let kind = Kind { subsampling, optimize, restart, ..Kind::COURSE };
            files.push(file(30 + 3 * k, 41 - 2 * k, kind));
        }
    }
    for orientation in 1..=8 {
        files.push(turned(&file(35, 22, Kind::COURSE), orientation));
    }
    files.extend((0..20).map(|_| file(32, 32, Kind::COURSE)));
    files.push(file(130, 90, Kind { restart: 8, ..Kind::COURSE }));
    files
}

/// Files that are cut into subsequences: each sampling, with tables of their own and long restart intervals.
fn large() -> Vec<Vec<u8>> {
    let mut files = Vec::new();
    for (k, subsampling) in SUBSAMPLINGS[..5].iter().copied().enumerate() {
        for (optimize, restart) in [(false, 0), (true, 0), (false, 70)] {
            let kind = Kind { subsampling, optimize, restart, ..Kind::COURSE };
            files.push(file(210 + 13 * k, 190 - 9 * k, kind));
        }
    }
    files
}

/// Not for them: too large, or not a JPEG that leaves no doubt.
fn others() -> Vec<Vec<u8>> {
    let rare = Kind { subsampling: SUBSAMPLINGS[5], ..Kind::COURSE };
    let progressive = Kind { progressive: true, ..Kind::COURSE };
    vec![file(32, 32, rare), file(32, 32, progressive)]
}

fn samples(files: &[Vec<u8>]) -> Vec<Sample> {
    files.iter().cloned().map(Sample::Encoded).collect()
}

fn batches(device: Device) {
    let own = files();
    let all = [own.clone(), others()].concat();
    let order: Vec<_> = (0..all.len()).map(|k| all[k * 7 % all.len()].clone()).collect();
    let samples = samples(&order);
    let spec = mixed(cropped(24.0));
    for batch_size in [1, 5, 64] {
        let expected = on_cpu(&spec, &samples, &options(batch_size)).unwrap();
        let mut loader =
            open(device, Deliver::Host, &spec, &samples, &options(batch_size)).unwrap();
        for _ in 0..2 {
            assert!(epoch(&mut loader, 0).unwrap() == expected, "batches of {batch_size}");
        }
        let stats = loader.gpu_stats().unwrap();
        assert_eq!((stats.own, stats.doubted, stats.retried), (2 * own.len() as u64, 0, 0));
    }
    // What is kept as pixels is decoded by the CPU; a kept file is not.
    let expected = on_cpu(&spec, &samples, &options(8)).unwrap();
    for (cache, on_gpu) in [(Cache::Encoded, 2 * own.len() as u64), (Cache::Decoded, 0)] {
        let options = Options { cache: Some(cache), ..options(8) };
        let mut loader = open(device, Deliver::Host, &spec, &samples, &options).unwrap();
        for _ in 0..2 {
            assert!(epoch(&mut loader, 0).unwrap() == expected, "{cache:?}");
        }
        assert_eq!(loader.gpu_stats().unwrap().own, on_gpu);
    }
}

/// Beside small ones, with bytes that are others: the CPU's verdict on each.
fn large_images(device: Device) {
    let mut all = [large(), files()].concat();
    let whole = all.len() as u64;
    let size = ("size", Arg::Number(60.0));
    // All of an image, since the CPU decodes no more than a sample reads.
    let mut spec = mixed(spec(vec![step("resize", &[size])], None, Some(DType::U8)));
    spec.decoder.backend = Backend::Own;
    for damaged in [false, true] {
        if damaged {
            for (k, file) in all.iter_mut().enumerate().filter(|(k, _)| k % 3 != 0) {
                let scan = segments(file, 0xDA)[0].end;
                let at = scan + (k * 7919 + 13) % (file.len() - 2 - scan);
                file[at] ^= 1 << (k % 8);
            }
        }
        let order: Vec<_> = (0..all.len()).map(|k| all[k * 7 % all.len()].clone()).collect();
        let samples = samples(&order);
        for batch_size in [1, 9, 64] {
            let options = Options {
                on_error: Some(OnError::Skip),
                max_bad: Some(MaxBad::Count(60)),
                ..options(batch_size)
            };
            let expected = on_cpu(&spec, &samples, &options).unwrap();
            let mut loader = open(device, Deliver::Host, &spec, &samples, &options).unwrap();
            assert!(epoch(&mut loader, 0).unwrap() == expected, "batches of {batch_size}");
            let stats = loader.gpu_stats().unwrap();
            assert!(stats.own >= whole && (stats.doubted > 5) == damaged, "{stats:?}");
        }
    }
}

/// Files that libjpeg-turbo decodes and our kernels leave alone: its pixels come out.
fn doubt(device: Device) {
    let good = file(32, 32, Kind::COURSE);
    let end = good.len() - 2;
    let fill = [&good[..end], &[0xFF], &good[end..]].concat();
    let restarts = file(130, 90, Kind { restart: 8, ..Kind::COURSE });
    let end = restarts.len() - 2;
    let fill_behind_restarts = [&restarts[..end], &[0xFF], &restarts[end..]].concat();
    // A fill byte before a restart marker, which shows before anything goes up.
    let marker = restarts.windows(2).position(|pair| pair == [0xFF, 0xD0]).unwrap();
    let fill_before = [&restarts[..marker], &[0xFF], &restarts[marker..]].concat();
    let samples = samples(&[good.clone(), fill, good, fill_behind_restarts, fill_before]);
    let spec = mixed(cropped(24.0));
    let expected = on_cpu(&spec, &samples, &options(3)).unwrap();
    let mut loader = open(device, Deliver::Host, &spec, &samples, &options(3)).unwrap();
    assert!(epoch(&mut loader, 0).unwrap() == expected);
    let stats = loader.gpu_stats().unwrap();
    assert_eq!((stats.own, stats.doubted), (4, 3));
}

/// The CPU's error, or the batch without them.
fn damaged_images(device: Device) {
    let good = file(40, 30, Kind::COURSE);
    let mut bad = good.clone();
    let middle = bad.len() - 60;
    bad.drain(middle..bad.len() - 2);
    let damaged = [1, 4, 5, 6, 7];
    let samples: Vec<Sample> = (0..12)
        .map(|id| Sample::Encoded(if damaged.contains(&id) { bad.clone() } else { good.clone() }))
        .collect();
    // All of an image, since the CPU decodes no more than a sample reads.
    let size = ("size", Arg::Number(40.0));
    let spec = mixed(spec(vec![step("resize", &[size])], None, Some(DType::U8)));
    for on_error in [OnError::Fail, OnError::Skip, OnError::Replace] {
        let options =
            Options { on_error: Some(on_error), max_bad: Some(MaxBad::Count(5)), ..options(4) };
        let expected = on_cpu(&spec, &samples, &options);
        assert_eq!(expected.is_err(), on_error == OnError::Fail);
        let mut loader = open(device, Deliver::Host, &spec, &samples, &options).unwrap();
        for _ in 0..2 {
            let got = epoch(&mut loader, 0).map_err(|error| error.to_string());
            assert!(got == expected, "{on_error}");
        }
    }
}

/// In many orders, with slots that were used.
fn orders(device: Device) {
    let soft = Soft::get();
    let before = soft.live();
    let mut all = files();
    all.truncate(26);
    all[5] = file(130, 90, Kind::COURSE);
    let good = file(32, 32, Kind::COURSE);
    all[3] = [&good[..good.len() - 2], &[0xFF, 0xFF, 0xD9]].concat();
    let samples = samples(&all);
    let mut spec = mixed(cropped(24.0));
    spec.decoder.backend = Backend::Own;
    let expected = on_cpu(&spec, &samples, &options(4)).unwrap();
    for seed in 0..seeds(150) {
        soft.configure(Config { seed, ..Config::default() });
        let mut loader = open(device, Deliver::Host, &spec, &samples, &options(4)).unwrap();
        for _ in 0..2 {
            assert!(epoch(&mut loader, 0).unwrap() == expected, "other bytes: seed {seed}");
        }
        assert_eq!(loader.gpu_stats().unwrap().doubted, 2);
        drop(loader);
        soft.assert_as(before, &format!("seed {seed}"));
    }
    soft.configure(Config::default());
}
