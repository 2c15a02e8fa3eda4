//! What is kept from epoch to epoch: the same batches, fewer reads.

use super::*;
use forebay::graph::spec::DecodeScale;
use forebay::loader::CacheStats;
use forebay::policy::{Cache, MaxBad, OnError};
use forebay::reader::Warm;
use forebay::reader::file_list::FileList;
use std::sync::Mutex;

const KINDS: [Cache; 2] = [Cache::Encoded, Cache::Decoded];

fn caching(cache: Cache, budget: u64, options: Options) -> Options {
    Options { cache: Some(cache), cache_budget: Some(budget), ..options }
}

/// The samples and the labels of a batch.
type Read = (Vec<(i64, Vec<u8>)>, Vec<i64>);

/// Batches of an epoch, in order.
fn epoch(loader: &mut Loader, epoch: u32) -> Vec<Read> {
    let read = |batch: Batch| (samples(&batch), batch.labels().to_vec());
    loader.epoch(epoch).map(|batch| read(batch.unwrap())).collect()
}

/// Each sample is read once where all fit, again where they do not, and what is kept counts no more
/// than the budget.
#[test]
fn samples_are_read_once() {
    for cache in KINDS {
        for (budget, most) in [(1 << 20, 61), (9_000, 60), (0, 0)] {
            let source = Source::plain(61);
            let shuffled = Options { shuffle: Some(true), ..options(7, 3) };
            let mut plain = load(&drawn(), &Source::plain(61), &shuffled);
            let mut kept = load(&drawn(), &source, &caching(cache, budget, shuffled));
            for number in 0..4 {
                assert!(epoch(&mut kept, number) == epoch(&mut plain, number), "{cache} {budget}");
            }
            assert!(plain.cache_stats().is_none());
            let CacheStats { hits, misses, items, bytes, full, .. } = kept.cache_stats().unwrap();
            assert!(items <= most && bytes <= budget && full == (most < 61), "{items} {bytes}");
            assert!(items > 0 || budget == 0);
            assert_eq!((hits, hits + misses), (items * 3, 61 * 4));
            assert_eq!(source.reads.load(Relaxed), misses);
        }
    }
}

/// The kernels read large images where they are kept.
#[test]
fn large_images_come_from_the_cache() {
    let large = || Source::new(12, |_| Ok((80, 75)));
    let mut plain = load(&drawn(), &large(), &options(4, 2));
    let mut kept = load(&drawn(), &large(), &caching(Cache::Decoded, 1 << 20, options(4, 2)));
    for number in 0..3 {
        assert!(epoch(&mut kept, number) == epoch(&mut plain, number));
    }
    assert_eq!(kept.cache_stats().unwrap().hits, 24);
}

/// A shard keeps what it reads, which in a shuffled epoch is other samples each time.
#[test]
fn shards_keep_what_they_read() {
    let source = Source::plain(60);
    let shards: Vec<Loader> = (0..3)
        .map(|rank| {
            let options = Options { rank, world: 3, shuffle: Some(true), ..options(4, 2) };
            load(&drawn(), &source, &caching(Cache::Decoded, 1 << 20, options))
        })
        .collect();
    let mut plain = load(&drawn(), &Source::plain(60), &options(60, 1));
    let mut read = 0;
    for mut shard in shards {
        for number in 0..5 {
            let whole: BTreeMap<_, _> = epoch(&mut plain, number).remove(0).0.into_iter().collect();
            let got = epoch(&mut shard, number).into_iter().flat_map(|(samples, _)| samples);
            assert!(got.into_iter().all(|(id, bytes)| whole[&id] == bytes));
        }
        let CacheStats { hits, misses, items, .. } = shard.cache_stats().unwrap();
        assert_eq!((hits + misses, misses), (100, items));
        assert!((21..=60).contains(&items), "{items}");
        read += misses;
    }
    assert_eq!(source.reads.load(Relaxed), read);
}

/// A sample that cannot be made is tried anew each time, and one may be good the next time.
#[test]
fn errors_are_not_kept() {
    for cache in KINDS {
        let broken = Arc::new(AtomicU64::new(1));
        let until = broken.clone();
        let source = Source::new(10, move |id| match id == 4 && until.load(Relaxed) > 0 {
            true => Err(Error::new(ErrorKind::Io, "not yet")),
            false => Ok((SIDE, SIDE)),
        });
        let bearing = Options {
            on_error: Some(OnError::Skip),
            max_bad: Some(MaxBad::Count(1)),
            ..options(10, 2)
        };
        let mut loader = load(&drawn(), &source, &caching(cache, 1 << 20, bearing));
        for number in 0..2 {
            assert_eq!(epoch(&mut loader, number)[0].0.len(), 9);
        }
        broken.store(0, Relaxed);
        for number in 2..4 {
            assert_eq!(epoch(&mut loader, number)[0].0.len(), 10);
        }
        let CacheStats { hits, misses, items, .. } = loader.cache_stats().unwrap();
        assert_eq!((hits, misses, items), (9 * 3 + 1, 9 + 1, 10));
    }
}

/// What a decoder said of an image that is kept is said each time it is delivered.
#[test]
fn warnings_are_kept() {
    let dir = tempfile::tempdir().unwrap();
    let format = turbojpeg::PixelFormat::RGB;
    let image = turbojpeg::Image { pixels: &[9; 192][..], width: 8, pitch: 24, height: 8, format };
    let good = turbojpeg::compress(image, 75, turbojpeg::Subsamp::Sub2x2).unwrap().to_vec();
    let mut odd = good.clone();
    odd.splice(good.len() - 2..good.len() - 2, [0; 500]);
    std::fs::write(dir.path().join("good.jpg"), good).unwrap();
    std::fs::write(dir.path().join("odd.jpg"), odd).unwrap();
    std::fs::write(dir.path().join("labels.txt"), "good.jpg 0\nodd.jpg 1\n").unwrap();
    for cache in [Cache::None, Cache::Encoded, Cache::Decoded] {
        let options = caching(cache, 1 << 20, options(2, 1));
        let mut loader = Loader::open(&decode_only(), dir.path(), &options).unwrap();
        (0..3).for_each(|number| assert_eq!(epoch(&mut loader, number).len(), 1));
        assert_eq!((loader.stats().warnings, loader.bad_samples().warned), (3, 1), "{cache}");
    }
}

/// Damage below what a sample reads is no fault of it, whatever is kept; and half an image is not.
#[test]
fn half_an_image_serves_who_reads_no_more() {
    let dir = tempfile::tempdir().unwrap();
    let pixels: Vec<u8> = (0..64 * 64 * 3).map(|k| (k % 251) as u8).collect();
    let format = turbojpeg::PixelFormat::RGB;
    let image = turbojpeg::Image { pixels: &pixels[..], width: 64, pitch: 192, height: 64, format };
    let jpeg = turbojpeg::compress(image, 90, turbojpeg::Subsamp::Sub2x2).unwrap();
    std::fs::write(dir.path().join("cut.jpg"), &jpeg[..jpeg.len() * 15 / 16]).unwrap();
    std::fs::write(dir.path().join("whole.jpg"), &jpeg).unwrap();
    std::fs::write(dir.path().join("labels.txt"), "cut.jpg 0\nwhole.jpg 1\n").unwrap();
    let crop =
        "[[step]]\nop = \"crop\"\nsize = [16, 64]\n[output]\ndtype = \"u8\"\nlayout = \"HWC\"";
    let spec = forebay::graph::file::parse(crop).unwrap();
    for cache in [Cache::None, Cache::Encoded, Cache::Decoded] {
        let options = caching(cache, 1 << 20, options(1, 1));
        let mut loader = Loader::open(&spec, dir.path(), &options).unwrap();
        for number in 0..2 {
            let read = epoch(&mut loader, number);
            assert!(read[0].0[0].1 == read[1].0[0].1, "{cache}");
        }
        let kept = loader.cache_stats().map_or(0, |stats| stats.items);
        assert_eq!(kept, [0, 2, 1][cache as usize], "{cache}");
    }
}

/// A source whose samples take long to get, and what was got ahead of them.
struct Far {
    near: Arc<Source>,
    fetched: Mutex<Vec<u64>>,
}

impl Reader for Far {
    fn len(&self) -> u64 {
        self.near.len()
    }

    fn label(&self, id: u64) -> i64 {
        self.near.label(id)
    }

    fn classes(&self) -> &[String] {
        &[]
    }

    fn place(&self, id: u64) -> PathBuf {
        self.near.place(id)
    }

    fn read(&self, id: u64, buf: &mut Vec<u8>) -> Result<Content> {
        std::thread::sleep(Duration::from_millis(1));
        self.near.read(id, buf)
    }

    fn warm(&self) -> Option<&dyn Warm> {
        Some(self)
    }
}

impl Warm for Far {
    fn fetch(&self, id: u64) -> u64 {
        std::thread::sleep(Duration::from_millis(1));
        self.fetched.lock().unwrap().push(id);
        // It is the reader that tells what is wrong.
        assert_ne!(id % 50, 49, "of a source");
        1
    }
}

/// Samples that take long are got ahead of the workers, each once an epoch and none that is kept; and
/// the threads that do so go with the loader.
#[test]
fn what_takes_long_is_read_ahead() {
    let far = Arc::new(Far { near: Source::plain(200), fetched: Mutex::default() });
    let some = Options { read_ahead: 3, ..options(20, 1) };
    let some = caching(Cache::Decoded, 1 << 20, some);
    let mut loader = Loader::with_reader(&drawn(), far.clone(), &some).unwrap();
    let mut plain = load(&drawn(), &Source::plain(200), &options(20, 1));
    assert!(epoch(&mut loader, 0) == epoch(&mut plain, 0));
    let first = std::mem::take(&mut *far.fetched.lock().unwrap());
    let once: std::collections::BTreeSet<u64> = first.iter().copied().collect();
    assert!(!first.is_empty() && once.len() == first.len(), "{first:?}");
    assert!(epoch(&mut loader, 1) == epoch(&mut plain, 1));
    // Left in the middle of what is ahead.
    loader.epoch(2).next().unwrap().unwrap();
    drop(loader);
    assert_eq!(Arc::strong_count(&far), 1, "its threads are gone");
    // At most what a thread was at when the first epoch ended.
    assert!(far.fetched.lock().unwrap().len() <= 3);
}

/// Files that are there at once are as well read with threads that read ahead as without.
#[test]
fn files_are_read_ahead() {
    let dir = tempfile::tempdir().unwrap();
    let mut list = String::new();
    for id in 0..50_u8 {
        let file = [&b"P6 1 1 255 "[..], &[id, 1, 2]].concat();
        std::fs::write(dir.path().join(format!("{id}")), file).unwrap();
        list += &format!("{id} {id}\n");
    }
    std::fs::write(dir.path().join("labels.txt"), list).unwrap();
    let files = FileList::open(dir.path(), "labels.txt", false).unwrap();
    let fetched = files.warm().unwrap().fetch(7);
    assert_eq!(fetched, 14);
    std::fs::remove_file(dir.path().join("7")).unwrap();
    assert_eq!(files.warm().unwrap().fetch(7), 0);
    let mut loader = Loader::with_reader(&decode_only(), Arc::new(files), &options(5, 2)).unwrap();
    let ids = |loader: &mut Loader| loader.epoch(0).map(|it| it.map(|it| it.ids()[0])).collect();
    let got: Vec<Result<i64>> = ids(&mut loader);
    assert!(got[0].is_ok() && got[1].as_ref().is_err_and(|e| e.to_string().contains("sample 7")));
}

/// Whole images are kept at full scale, which "fast" would not have decoded.
#[test]
fn decoded_images_are_not_kept_at_another_scale() {
    let mut spec = drawn();
    spec.decoder.scale = DecodeScale::Fast;
    let open = |cache| {
        let options = caching(cache, 1 << 20, options(7, 1));
        Loader::with_reader(&spec, Source::plain(7), &options)
    };
    assert!(open(Cache::Encoded).is_ok());
    let error = open(Cache::Decoded).err().unwrap();
    assert!(error.message().contains("take one of the two"), "{error}");
}
