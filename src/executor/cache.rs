//! Samples that are kept in memory from epoch to epoch: files as they were read, or decoded pixels.
//!
//! An epoch asks for each sample once. So where memory does not hold all of them nothing is ever
//! thrown out: whatever a newcomer replaced would be asked for before the newcomer is again, and a
//! cache that keeps the latest would be asked for none that it holds. And since nothing leaves, what
//! was found may be used where it lies, and finding it takes no lock.

use super::memory;
use super::near::{self, Approach};
use crate::decoder::{Info, KeptPixels, Picture, Pixels};
use crate::error::{Error, ErrorKind, Result};
use crate::pages::{Piece, Slabs};
use crate::policy;
use crate::reader::Content;
use std::fmt;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering::Relaxed};

/// Bytes of a small image, at most.
const SMALL: usize = 16 << 10;

/// What is kept of samples.
pub struct Cache {
    kept: Kept,
    slabs: Slabs,
}

enum Kept {
    Encoded(Shelf<Encoded>),
    Decoded(Shelf<Decoded>),
}

/// What was read of a sample.
pub(super) struct Encoded {
    pub(super) bytes: Piece,
    pub(super) content: Content,
}

/// What was decoded of a sample.
pub(super) struct Decoded {
    pixels: KeptPixels,
    /// What its decoder said, where that was more than the format.
    info: Option<Box<Info>>,
}

/// What a cache holds and has done; a snapshot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CacheStats {
    /// What is kept.
    pub cache: policy::Cache,
    /// Samples that came from it, in all epochs.
    pub hits: u64,
    /// Samples that were read, in all epochs.
    pub misses: u64,
    /// Samples that it holds.
    pub items: u64,
    /// Bytes that they take, with what finds them.
    pub bytes: u64,
    /// Bytes that they may take.
    pub budget: u64,
    /// Whether some sample found no room.
    pub full: bool,
}

impl Cache {
    /// Bytes of memory that nobody uses, or for files that can be read again.
    pub fn free_memory() -> u64 {
        memory::free() as u64
    }

    /// An empty cache for the samples below `samples`, of at most `budget` bytes; none where nothing
    /// is to be kept.
    ///
    /// # Errors
    /// Where there is no memory for what finds them.
    pub fn new(cache: policy::Cache, samples: u64, budget: u64) -> Result<Option<Cache>> {
        let kept = match cache {
            policy::Cache::None => return Ok(None),
            policy::Cache::Encoded => Kept::Encoded(Shelf::new(samples, budget)?),
            policy::Cache::Decoded => Kept::Decoded(Shelf::new(samples, budget)?),
        };
        Ok(Some(Cache { kept, slabs: Slabs::default() }))
    }

    /// What was read of sample `id`.
    pub(super) fn encoded(&self, id: u64) -> Option<&Encoded> {
        match &self.kept {
            Kept::Encoded(shelf) => shelf.get(id),
            Kept::Decoded(_) => None,
        }
    }

    /// What was decoded of sample `id`.
    pub(super) fn decoded(&self, id: u64) -> Option<&Decoded> {
        match &self.kept {
            Kept::Encoded(_) => None,
            Kept::Decoded(shelf) => shelf.get(id),
        }
    }

    /// Brings near what small images that are soon asked for lie in: of the last of these samples what finds
    /// it, of the one before the first pixel, which has the page's address looked up; and gives the pixels of
    /// the first, to be brought near. Kernels fetch pixels out of order and would wait for each that is far. Of
    /// a large image a step may need a part only.
    pub(super) fn approach(&self, soon: [Option<u64>; 3]) -> Approach<'_> {
        let Kept::Decoded(shelf) = &self.kept else { return Approach::NOTHING };
        let [first, second, last] = soon;
        if let Some(place) = last.and_then(|id| shelf.places.get(id as usize)) {
            near::bring(std::slice::from_ref(place));
        }
        if let Some(kept) = second.and_then(|id| shelf.get(id)) {
            near::bring(kept.picture().bytes().get(..1).unwrap_or_default());
        }
        let bytes = first.and_then(|id| shelf.get(id)).map(|kept| kept.picture().bytes());
        bytes.filter(|bytes| bytes.len() <= SMALL).map_or(Approach::NOTHING, Approach::to)
    }

    /// Whether decoded images are kept.
    pub(super) fn keeps_decoded(&self) -> bool {
        matches!(self.kept, Kept::Decoded(_))
    }

    /// Whether sample `id` needs no reading.
    pub(super) fn holds(&self, id: u64) -> bool {
        self.encoded(id).is_some() || self.decoded(id).is_some()
    }

    /// Keeps what was read of sample `id`, if it is files that are kept and there is room.
    pub(super) fn keep_encoded(&self, id: u64, read: &[u8], content: Content) {
        let Kept::Encoded(shelf) = &self.kept else { return };
        shelf.keep(id, read.len(), || {
            let bytes = self.slabs.piece(read.len(), |memory| memory.copy_from_slice(read))?;
            Some(Encoded { bytes, content })
        });
    }

    /// Keeps what was decoded of sample `id`, if it is images that are kept and there is room.
    pub(super) fn keep_decoded(&self, id: u64, pixels: &Pixels, info: &Info) {
        let Kept::Decoded(shelf) = &self.kept else { return };
        shelf.keep(id, KeptPixels::memory(pixels), || {
            let info = (!info.warnings.is_empty()).then(|| Box::new(info.clone()));
            Some(Decoded { pixels: KeptPixels::new(pixels, &self.slabs)?, info })
        });
    }

    /// What it holds, and what the counts say.
    pub(super) fn stats(&self, hits: u64, misses: u64) -> CacheStats {
        fn stats<T>(shelf: &Shelf<T>, cache: policy::Cache) -> CacheStats {
            CacheStats {
                cache,
                hits: 0,
                misses: 0,
                items: shelf.items.load(Relaxed),
                // For a moment it may count what it then refuses.
                bytes: shelf.used.load(Relaxed).min(shelf.budget) as u64,
                budget: shelf.budget as u64,
                full: shelf.full.load(Relaxed),
            }
        }
        let stats = match &self.kept {
            Kept::Encoded(shelf) => stats(shelf, policy::Cache::Encoded),
            Kept::Decoded(shelf) => stats(shelf, policy::Cache::Decoded),
        };
        CacheStats { hits, misses, ..stats }
    }
}

impl Decoded {
    /// The image.
    pub(super) fn picture(&self) -> Picture<'_> {
        self.pixels.picture()
    }

    /// What its decoder said.
    pub(super) fn info(&self) -> Info {
        self.info.as_deref().cloned().unwrap_or_default()
    }
}

/// Items by the number of their sample.
struct Shelf<T> {
    places: Vec<OnceLock<T>>,
    budget: usize,
    used: AtomicUsize,
    items: AtomicU64,
    full: AtomicBool,
}

impl<T> Shelf<T> {
    /// A place for each sample costs as much as a small item. Where there are more samples than items
    /// of this size fit into the budget, the last of them have none.
    const SMALL: u64 = 512;
    /// What an item takes beside its bytes: up to the next multiple of [`Slabs::ALIGN`].
    const BESIDE: usize = Slabs::ALIGN;

    fn new(samples: u64, budget: u64) -> Result<Self> {
        let budget = budget.min(isize::MAX as u64);
        let count = samples.min(budget / Self::SMALL) as usize;
        let mut places = Vec::new();
        places.try_reserve_exact(count).map_err(|_| {
            let text = format!("out of memory for a cache of {count} samples: lower its budget");
            Error::new(ErrorKind::Resources, text)
        })?;
        places.resize_with(count, OnceLock::new);
        Ok(Shelf {
            places,
            budget: budget as usize,
            used: AtomicUsize::new(count * size_of::<OnceLock<T>>()),
            items: AtomicU64::new(0),
            full: AtomicBool::new(false),
        })
    }

    fn get(&self, id: u64) -> Option<&T> {
        self.places.get(id as usize)?.get()
    }

    /// Keeps what `make` gives for sample `id`, of `bytes` bytes, unless it is there already, does not
    /// fit, or `make` finds no memory.
    fn keep(&self, id: u64, bytes: usize, make: impl FnOnce() -> Option<T>) {
        let room = bytes.saturating_add(Self::BESIDE);
        let Some(place) = self.places.get(id as usize).filter(|_| room <= self.budget) else {
            return self.full.store(true, Relaxed);
        };
        // Taken first, so that threads together do not take too much. It cannot wrap: each thread adds
        // at most the budget, which is half of the addresses at most.
        let fits = self.used.fetch_add(room, Relaxed) <= self.budget - room;
        match fits.then(make).flatten().map(|item| place.set(item)) {
            Some(Ok(())) => {
                self.items.fetch_add(1, Relaxed);
                return;
            }
            // Another thread was at the same sample.
            Some(Err(_)) => {}
            None => self.full.store(true, Relaxed),
        }
        self.used.fetch_sub(room, Relaxed);
    }
}

/// `cache of decoded images: 66.7% of 150000 samples came from it; 50000 images in 157 of 4096 MiB`.
impl fmt::Display for CacheStats {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let what = match self.cache {
            policy::Cache::Decoded => "decoded images",
            _ => "files",
        };
        let asked = self.hits + self.misses;
        let share = 100.0 * self.hits as f64 / asked.max(1) as f64;
        write!(
            f,
            "cache of {what}: {share:.1}% of {asked} samples came from it; it holds {} in {} of {} MiB",
            self.items,
            self.bytes.div_ceil(1 << 20),
            self.budget >> 20
        )?;
        if self.full {
            f.write_str(", and has no room for the others")?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Barrier;

    fn image(side: u32, value: u8) -> Pixels {
        let mut pixels = Pixels::new();
        pixels.reset(side, side).unwrap().fill(value);
        pixels
    }

    fn decoded(samples: u64, budget: u64) -> Cache {
        Cache::new(policy::Cache::Decoded, samples, budget).unwrap().unwrap()
    }

    #[test]
    fn what_is_kept_comes_back() {
        let cache = decoded(3, 1 << 20);
        let info = Info { format: "jpeg", warnings: vec![116] };
        cache.keep_decoded(1, &image(4, 7), &info);
        cache.keep_decoded(1, &image(4, 8), &Info::default());
        cache.keep_encoded(2, b"of the other kind", Content::Encoded);
        let kept = cache.decoded(1).unwrap();
        assert_eq!((kept.picture().width(), kept.picture().bytes()), (4, [7; 48].as_slice()));
        assert_eq!(kept.info(), info);
        let outside = [0, 2, 3, u64::MAX];
        assert!(cache.holds(1) && outside.iter().all(|id| !cache.holds(*id)));
        assert_eq!((cache.stats(1, 2).items, cache.stats(1, 2).full), (1, false));

        let cache = Cache::new(policy::Cache::Encoded, 3, 1 << 20).unwrap().unwrap();
        let content = Content::Planar { height: 1, width: 2 };
        cache.keep_encoded(0, b"planes", content);
        let kept = cache.encoded(0).unwrap();
        assert_eq!((&*kept.bytes, kept.content), (b"planes".as_slice(), content));
        assert!(Cache::new(policy::Cache::None, 3, 1 << 20).unwrap().is_none());
    }

    /// Whatever threads do, the budget holds, what there is no room for is not kept, and what was
    /// refused leaves its room to smaller ones.
    #[test]
    fn the_budget_holds() {
        for budget in [0, 511, 512, 100_000, 300_000] {
            let cache = decoded(200, budget);
            let start = Barrier::new(4);
            std::thread::scope(|scope| {
                for thread in 0..4 {
                    let (cache, start) = (&cache, &start);
                    scope.spawn(move || {
                        start.wait();
                        for id in 0..200 {
                            let side = 1 + (id as u32 * 7 + thread) % 40;
                            cache.keep_decoded(id, &image(side, id as u8), &Info::default());
                        }
                    });
                }
            });
            let stats = cache.stats(0, 0);
            assert!(stats.bytes <= budget && stats.full, "{stats:?}");
            let kept: Vec<_> = (0..200).filter_map(|id| Some((id, cache.decoded(id)?))).collect();
            assert_eq!(kept.len() as u64, stats.items);
            let held: usize = kept.iter().map(|(_, it)| it.picture().bytes().len()).sum();
            assert!(held as u64 <= budget && (budget < 100_000 || held as u64 > budget / 2));
            assert!(
                kept.iter().all(|(id, it)| it.picture().bytes().iter().all(|b| *b == *id as u8))
            );
        }
    }

    #[test]
    fn places_stay_small_beside_the_budget() {
        assert_eq!((size_of::<OnceLock<Encoded>>(), size_of::<OnceLock<Decoded>>()), (40, 40));
        let cache = decoded(1 << 40, 1 << 20);
        assert!(cache.stats(0, 0).bytes < (1 << 20) / 8);
        cache.keep_decoded(1 << 39, &image(1, 1), &Info::default());
        assert!(cache.stats(0, 0).full && !cache.holds(1 << 39));
    }

    #[test]
    fn words() {
        let mut stats = decoded(2, 3 << 20).stats(2, 1);
        let told =
            "cache of decoded images: 66.7% of 3 samples came from it; it holds 0 in 1 of 3 MiB";
        assert_eq!(stats.to_string(), told);
        stats.full = true;
        assert_eq!(stats.to_string(), format!("{told}, and has no room for the others"));
    }
}
