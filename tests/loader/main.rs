//! The loader's promises: which bytes arrive where, in which order, and what happens when samples
//! fail, batches are kept, or an epoch is left early.

mod cache;
mod policy;

use forebay::graph::spec::{Arg, Body, Condition, Dist, Output, Spec, Step};
use forebay::loader::{Batch, Loader, Options, Position};
use forebay::policy::LastBatch;
use forebay::reader::{Content, Reader};
use forebay::tensor::{DType, Layout};
use forebay::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

const SIDE: u32 = 8;

/// A source of raw pixels whose samples are told apart by their bytes.
struct Source {
    samples: u64,
    /// Height and width of a sample, or its failure.
    sample: Box<dyn Fn(u64) -> Result<(u32, u32)> + Send + Sync>,
    reads: AtomicU64,
}

impl Source {
    fn new(
        samples: u64,
        sample: impl Fn(u64) -> Result<(u32, u32)> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Source { samples, sample: Box::new(sample), reads: AtomicU64::new(0) })
    }

    fn plain(samples: u64) -> Arc<Self> {
        Self::new(samples, |_| Ok((SIDE, SIDE)))
    }
}

/// The value of sample `id` at `position` of the plane of `channel`.
fn value(id: u64, channel: usize, position: usize) -> u8 {
    (id as usize * 31 + channel * 7 + position * 3) as u8
}

fn pixels(id: u64, count: usize) -> Vec<u8> {
    (0..count * 3).map(|i| value(id, i % 3, i / 3)).collect()
}

impl Reader for Source {
    fn len(&self) -> u64 {
        self.samples
    }

    fn label(&self, id: u64) -> i64 {
        id as i64 % 10
    }

    fn classes(&self) -> &[String] {
        &[]
    }

    fn place(&self, id: u64) -> PathBuf {
        format!("{id}.raw").into()
    }

    fn read(&self, id: u64, buf: &mut Vec<u8>) -> Result<Content> {
        self.reads.fetch_add(1, Relaxed);
        let (height, width) = (self.sample)(id)?;
        let count = (height * width) as usize;
        buf.clear();
        buf.extend((0..count * 3).map(|i| value(id, i / count, i % count)));
        Ok(Content::Planar { height, width })
    }
}

fn output(name: &str, layout: Layout, dtype: DType) -> Output {
    Output { name: name.into(), from: None, layout: Some(layout), dtype: Some(dtype) }
}

/// Pixels as they were decoded.
fn decode_only() -> Spec {
    Spec {
        seed: 42,
        reader: Default::default(),
        decoder: Default::default(),
        draws: vec![],
        steps: vec![],
        outputs: vec![output("images", Layout::Hwc, DType::U8)],
    }
}

/// Bytes that depend on the sample's draws.
fn drawn() -> Spec {
    let shift = Arg::Draw { dist: Dist::Uniform { lo: -99.0, hi: 99.0 }, per_channel: true };
    let step = Step {
        name: None,
        from: None,
        when: Some(Condition::Probability(0.5)),
        body: Body::Op { op: "rgb_shift".into(), args: vec![("shift".into(), shift)] },
    };
    Spec { steps: vec![step], ..decode_only() }
}

fn options(batch_size: usize, threads: usize) -> Options {
    Options { batch_size, threads, ..Options::default() }
}

fn load(spec: &Spec, source: &Arc<Source>, options: &Options) -> Loader {
    Loader::with_reader(spec, source.clone(), options).unwrap()
}

/// The samples of a batch: id, and bytes of the first output.
fn samples(batch: &Batch) -> Vec<(i64, Vec<u8>)> {
    let stride = batch.images().bytes.len() / batch.len();
    let bytes = batch.images().bytes.chunks_exact(stride).map(<[u8]>::to_vec);
    batch.ids().iter().copied().zip(bytes).collect()
}

/// A small generator for choices that need no more than variety.
fn choice(state: &mut u64, below: u64) -> u64 {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
    (*state >> 33) % below
}

#[test]
fn every_sample_arrives_in_its_place() {
    let source = Source::plain(103);
    let mut loader = load(&decode_only(), &source, &options(10, 3));
    assert_eq!((loader.len(), loader.samples(), loader.threads()), (11, 103, 3));
    let mut next = 0;
    for batch in loader.epoch(0) {
        let batch = batch.unwrap();
        let n = batch.len();
        assert_eq!(n, if next == 100 { 3 } else { 10 });
        assert_eq!(batch.images().shape, [n, SIDE as usize, SIDE as usize, 3]);
        assert_eq!(batch.images().dtype, DType::U8);
        assert!(batch.valid().iter().all(|&v| v) && batch.valid().len() == n);
        for ((id, bytes), &label) in samples(&batch).into_iter().zip(batch.labels()) {
            assert_eq!((id, label), (next, next % 10));
            assert_eq!(bytes, pixels(id as u64, (SIDE * SIDE) as usize));
            next += 1;
        }
    }
    assert_eq!(next, 103);
    let stats = loader.stats();
    assert_eq!((stats.samples, stats.grown_slots), (103, 0));
    assert!(stats.read_ns > 0 && stats.decode_ns > 0 && stats.augment_ns > 0);
}

#[test]
fn several_outputs() {
    let mut spec = decode_only();
    spec.outputs.push(output("planes", Layout::Chw, DType::F32));
    let mut loader = load(&spec, &Source::plain(5), &options(5, 2));
    let batch = loader.epoch(0).next().unwrap().unwrap();
    assert_eq!(batch.outputs(), ["images", "planes"]);
    assert!(batch.output("masks").is_none());
    let planes = batch.output("planes").unwrap();
    let side = SIDE as usize;
    assert_eq!(planes.shape, [5, 3, side, side]);
    let area = side * side;
    for (i, &v) in planes.as_f32().unwrap().iter().enumerate() {
        let (id, channel, position) = (i / (3 * area), i / area % 3, i % area);
        assert_eq!(v, f32::from(value(id as u64, channel, position)));
    }
}

#[test]
fn a_samples_bytes_follow_from_its_identity() {
    let source = Source::plain(61);
    let run = |options: &Options, epoch| {
        let mut all = BTreeMap::new();
        for rank in 0..options.world {
            let options = Options { rank, ..options.clone() };
            for batch in load(&drawn(), &source, &options).epoch(epoch) {
                for (id, bytes) in samples(&batch.unwrap()) {
                    assert!(all.insert(id, bytes).is_none(), "sample {id} came twice");
                }
            }
        }
        assert_eq!(all.len(), 61);
        all
    };
    let plain = Options { shuffle: Some(false), prefetch: 0, ..options(1, 1) };
    let expected = run(&plain, 3);
    for (threads, batch_size, world, prefetch) in
        [(1, 32, 1, 4), (2, 7, 1, 1), (4, 7, 2, 4), (2, 16, 3, 0), (3, 61, 1, 9), (4, 1, 1, 2)]
    {
        let options = Options {
            world,
            prefetch,
            shuffle: Some(true),
            last_batch: Some(LastBatch::Partial),
            ..options(batch_size, threads)
        };
        assert!(run(&options, 3) == expected, "{options:?}");
    }
    assert!(run(&plain, 4) != expected, "the epoch counts");
    assert!(run(&Options { seed: Some(1), ..plain }, 3) != expected, "the seed counts");
}

#[test]
fn some_samples_only() {
    let source = Source::plain(50);
    let ids = vec![17, 42, 17, 3, 9];
    let all: BTreeMap<_, _> = load(&drawn(), &source, &options(50, 2))
        .epoch(2)
        .flat_map(|b| samples(&b.unwrap()))
        .collect();

    let replay = Options { ids: Some(ids.clone()), shuffle: Some(true), ..options(2, 2) };
    let mut loader = load(&drawn(), &source, &replay);
    assert_eq!((loader.len(), loader.samples()), (3, 5));
    let got: Vec<_> = loader.epoch(2).flat_map(|b| samples(&b.unwrap())).collect();
    assert_eq!(got.iter().map(|(id, _)| *id as u64).collect::<Vec<_>>(), ids);
    assert!(got.iter().all(|(id, bytes)| all[id] == *bytes));

    let limit = Options { limit: Some(7), shuffle: Some(true), ..options(3, 2) };
    let mut loader = load(&drawn(), &source, &limit);
    assert_eq!((loader.len(), loader.samples()), (3, 7));
    let got: BTreeMap<_, _> = loader.epoch(2).flat_map(|b| samples(&b.unwrap())).collect();
    assert!(got.keys().copied().eq(0..7) && got.iter().all(|(id, bytes)| all[id] == *bytes));

    let bad = Options { ids: Some(vec![3, 50]), ..options(2, 1) };
    let error = Loader::with_reader(&drawn(), source.clone(), &bad).err().unwrap();
    assert_eq!(error.to_string(), "no sample 50: the list has 50, numbered from 0");
    let none = Options { ids: Some(vec![]), ..options(2, 1) };
    assert!(Loader::with_reader(&drawn(), source, &none).is_err());
}

#[test]
fn an_epoch_goes_on_where_it_stood() {
    let source = Source::plain(40);
    let options = Options { shuffle: Some(true), ..options(6, 2) };
    let whole: Vec<_> =
        load(&drawn(), &source, &options).epoch(5).map(|b| samples(&b.unwrap())).collect();
    assert_eq!(whole.len(), 7);
    for step in 0..=7 {
        let mut loader = load(&drawn(), &source, &options);
        let begun: Vec<_> = loader.epoch(5).take(step).map(|b| samples(&b.unwrap())).collect();
        assert!(begun == whole[..step]);
        let position = loader.position();
        let next = if step == 7 { (6, 0) } else { (5, 6 * step as u64) };
        assert_eq!(position, Position { epoch: next.0, samples: next.1 });

        let mut other = load(&drawn(), &source, &options);
        let mut rest = other.epoch_from(5, step);
        assert_eq!(rest.remaining(), 7 - step);
        let rest: Vec<_> = rest.by_ref().map(|b| samples(&b.unwrap())).collect();
        assert!(rest == whole[step..]);
    }
    assert_eq!(load(&drawn(), &source, &options).epoch_from(0, 8).count(), 0);
    // An epoch of which nothing is left is over.
    let mut loader = load(&drawn(), &source, &options);
    assert_eq!(loader.resume(Position { epoch: 5, samples: 40 }).count(), 0);
    assert_eq!(loader.position(), Position { epoch: 6, samples: 0 });
}

/// Whatever the threads do, the error is that of the first bad sample; what came before it is
/// delivered, and the loader goes on with another epoch.
#[test]
fn the_first_error_ends_the_epoch() {
    let bad = |id: u64| [27, 33, 35, 38, 55].contains(&id);
    let source = Source::new(60, move |id| {
        if id == 33 {
            // The first one of its batch takes longest to be found.
            std::thread::sleep(Duration::from_millis(2));
        }
        match bad(id) && id != 27 {
            true => Err(Error::new(ErrorKind::Decode, format!("damaged {id}"))),
            false => Ok((SIDE, SIDE)),
        }
    });
    for round in 0..20 {
        let mut loader = load(&decode_only(), &source, &options(10, 1 + round % 4));
        for _ in 0..2 {
            let mut epoch = loader.epoch(0);
            for step in 0..3 {
                assert_eq!(epoch.next().unwrap().unwrap().ids()[0], step * 10);
            }
            let error = epoch.next().unwrap().err().unwrap();
            assert_eq!(error.to_string(), "33.raw: sample 33: damaged 33");
            assert!(epoch.next().is_none() && epoch.remaining() == 0);
        }
        assert_eq!(loader.position(), Position { epoch: 0, samples: 30 });
        assert_eq!(loader.epoch_from(0, 4).next().unwrap().unwrap().ids()[0], 40);
    }
}

#[test]
fn sizes_that_differ_are_named() {
    let source = Source::new(20, |id| {
        std::thread::sleep(Duration::from_micros(id * 37 % 200));
        Ok(match id {
            13 | 15.. => (4, 6),
            _ => (5, 7),
        })
    });
    for round in 0..20 {
        let mut loader = load(&decode_only(), &source, &options(20, 1 + round % 4));
        let error = loader.epoch(0).next().unwrap().err().unwrap();
        assert_eq!(error.kind(), ErrorKind::Shape);
        let text = error.to_string();
        let expected = "sample 0 (0.raw) is 7x5 but sample 13 (13.raw) is 6x4 (width x height) \
                        at output \"images\": fix the size with ";
        assert!(text.starts_with(expected) && text.contains("crop"), "{text}");
    }
    // One size a batch is fine.
    let mut loader = load(&decode_only(), &source, &Options { limit: Some(13), ..options(13, 2) });
    assert_eq!(loader.epoch(0).next().unwrap().unwrap().images().shape, [13, 5, 7, 3]);
}

#[test]
fn a_batch_larger_than_memory_is_refused() {
    let source = Source::new(1_000_000, |_| Ok((2048, 2048)));
    let mut loader =
        load(&decode_only(), &source, &Options { prefetch: 0, ..options(1_000_000, 2) });
    let error = loader.epoch(0).next().unwrap().err().unwrap();
    assert_eq!((error.kind(), error.sample()), (ErrorKind::Limit, Some(0)));
    assert!(error.to_string().contains("lower the batch size"), "{error}");
    assert!(source.reads.load(Relaxed) < 100, "the rest of the batch was given up");
}

#[test]
fn a_panic_is_an_error() {
    let source = Source::new(30, |id| {
        assert!(id != 17, "seventeen\nis too much");
        Ok((SIDE, SIDE))
    });
    let mut loader = load(&decode_only(), &source, &options(10, 2));
    for _ in 0..3 {
        let mut epoch = loader.epoch(0);
        assert!(epoch.next().unwrap().is_ok());
        let error = epoch.next().unwrap().err().unwrap().to_string();
        assert_eq!(
            error,
            "17.raw: sample 17: internal error, please report it: seventeen is too much"
        );
        drop(epoch);
        assert_eq!(loader.epoch_from(0, 2).count(), 1);
    }
}

/// Leaving an epoch costs at most the samples that threads are at, not those that were ahead.
#[test]
fn leaving_early_waits_for_no_one() {
    let source = Source::new(4000, |id| {
        std::thread::sleep(Duration::from_millis(if id < 100 { 0 } else { 5 }));
        Ok((SIDE, SIDE))
    });
    let mut loader = load(&decode_only(), &source, &options(100, 2));
    let start = Instant::now();
    for _ in 0..20 {
        drop(loader.epoch(0));
        loader.epoch(0).next().unwrap().unwrap();
    }
    drop(loader);
    // What was ahead, 20 times 400 samples of 5 ms on two threads, would take 20 seconds.
    assert!(start.elapsed() < Duration::from_secs(10), "{:?}", start.elapsed());
    assert!(source.reads.load(Relaxed) < 20 * 200);
    assert_eq!(Arc::strong_count(&source), 1, "its threads are gone");
}

/// Batches that are kept: never overwritten, never waited for, alive after their loader.
#[test]
fn batches_may_be_kept() {
    let source = Source::plain(200);
    let mut loader = load(&drawn(), &source, &options(4, 2));
    let kept: Vec<Batch> = loader.epoch(1).map(Result::unwrap).collect();
    let expected: Vec<_> = kept.iter().map(samples).collect();
    assert_eq!(loader.stats().grown_slots, 50 - 6);
    for batch in loader.epoch(2) {
        batch.unwrap();
    }
    drop(loader);
    assert!(kept.iter().map(samples).eq(expected));
    std::thread::spawn(move || drop(kept)).join().unwrap();
}

/// Random thread counts, depths, early ends and kept batches: whatever arrives is right.
#[test]
fn stress() {
    let source = Source::new(97, |id| {
        if id % 13 == 0 {
            std::thread::yield_now();
        }
        Ok((SIDE, SIDE))
    });
    let all: BTreeMap<_, _> = load(&drawn(), &source, &options(97, 1))
        .epoch(7)
        .flat_map(|b| samples(&b.unwrap()))
        .collect();
    let state = &mut 1;
    for _ in 0..60 {
        let threads = 1 + choice(state, 5) as usize;
        let options = Options {
            prefetch: choice(state, 6) as usize,
            shuffle: Some(choice(state, 2) == 0),
            ..options(1 + choice(state, 30) as usize, threads)
        };
        let mut loader = load(&drawn(), &source, &options);
        let mut kept = Vec::new();
        for _ in 0..8 {
            let stop = choice(state, loader.len() as u64 + 2) as usize;
            for batch in loader.epoch(7).take(stop) {
                let batch = batch.unwrap();
                assert!(samples(&batch).iter().all(|(id, bytes)| all[id] == *bytes));
                if choice(state, 4) == 0 {
                    kept.push(batch);
                }
            }
            kept.truncate(5);
        }
        drop(loader);
        assert!(kept.iter().flat_map(samples).all(|(id, bytes)| all[&id] == bytes));
    }
}

/// Resident memory in KiB.
fn resident() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|l| l.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse().unwrap()
}

#[test]
fn memory_stays_flat() {
    // 6 slots of 32 images of 256x256: 36 MiB.
    let source = Source::new(128, |_| Ok((256, 256)));
    let mut loader = load(&decode_only(), &source, &options(32, 2));
    let mut run = |epoch| loader.epoch(epoch).for_each(|batch| assert!(batch.is_ok()));
    (0..3).for_each(&mut run);
    let before = resident();
    (3..20).for_each(&mut run);
    let grown = resident().saturating_sub(before);
    assert_eq!(loader.stats().grown_slots, 0);
    // Other tests of this process allocate too; a slot or buffer a batch would be 400 MiB.
    assert!(grown < 200 << 10, "{grown} KiB more after 17 epochs");
}

/// The whole way: JPEG files on a disk, a list, the decoder.
#[test]
fn a_directory_of_jpegs() {
    let dir = tempfile::tempdir().unwrap();
    let mut list = String::new();
    let mut decoded = Vec::new();
    for id in 0..60 {
        let image = turbojpeg::Image {
            pixels: pixels(id, 32 * 24),
            width: 32,
            pitch: 96,
            height: 24,
            format: turbojpeg::PixelFormat::RGB,
        };
        let jpeg = turbojpeg::compress(image.as_deref(), 75, turbojpeg::Subsamp::Sub2x2).unwrap();
        std::fs::write(dir.path().join(format!("{id}.jpg")), &jpeg).unwrap();
        list += &format!("{id}.jpg {}\n", id % 10);
        let back = turbojpeg::decompress(&jpeg, turbojpeg::PixelFormat::RGB).unwrap();
        decoded.push(back.pixels);
    }
    std::fs::write(dir.path().join("labels.txt"), &list).unwrap();

    let mut loader = Loader::open(&decode_only(), dir.path(), &options(16, 2)).unwrap();
    assert_eq!((loader.len(), loader.label(12)), (4, 2));
    assert_eq!(loader.place(12), PathBuf::from("12.jpg"));
    for batch in loader.epoch(0) {
        let batch = batch.unwrap();
        assert_eq!(batch.images().shape[1..], [24, 32, 3]);
        assert!(samples(&batch).iter().all(|(id, bytes)| decoded[*id as usize] == *bytes));
    }

    std::fs::write(dir.path().join("40.jpg"), b"no image at all").unwrap();
    std::fs::remove_file(dir.path().join("50.jpg")).unwrap();
    let mut epoch = loader.epoch(1);
    assert!(epoch.next().unwrap().is_ok() && epoch.next().unwrap().is_ok());
    let error = epoch.next().unwrap().err().unwrap();
    assert_eq!(error.sample(), Some(40));
    assert!(error.path().unwrap().ends_with("labels.txt") && error.message().contains("40.jpg"));
    drop(epoch);
    // Those who read a small file before may have it open still.
    let mut loader = Loader::open(&decode_only(), dir.path(), &options(16, 2)).unwrap();
    let error = loader.epoch_from(1, 3).next().unwrap().err().unwrap();
    assert_eq!((error.kind(), error.sample()), (ErrorKind::Io, Some(50)));
}

#[test]
fn types_cross_threads() {
    fn send<T: Send + 'static>() {}
    fn sync<T: Sync>() {}
    send::<Batch>();
    send::<Loader>();
    sync::<Batch>();
}
