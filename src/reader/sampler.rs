//! Which samples an epoch's batches hold, on each rank.
//!
//! An epoch is an order of [0, N): a keyed permutation, or the list's own. Global batch g is its
//! positions [g·R·B, (g+1)·R·B), of which rank r takes the r-th B; so R·B alone decides what a
//! global batch holds, and any batch of any epoch is found without those before it.
//!
//! An epoch that was begun is what is left of its order, dealt the same way: other ranks, or other
//! batch sizes, go on with it where those before them stopped.

use super::permutation::Permutation;
use crate::error::{Error, Result};
use crate::policy::LastBatch;

/// What an epoch's batches follow from.
#[derive(Debug, Clone, Copy)]
pub struct SamplerConfig {
    /// N: samples in the list, 1 to 2^48.
    pub samples: u64,
    /// B: samples of a batch of one rank, from 1.
    pub batch_size: usize,
    /// r: this process's place, below `world`.
    pub rank: u32,
    /// R: processes that share an epoch, from 1.
    pub world: u32,
    /// Whether each epoch has an order of its own, or the list's.
    pub shuffle: bool,
    /// What becomes of the N mod R·B samples that fill no global batch.
    pub last_batch: LastBatch,
    /// Governs the orders.
    pub seed: u64,
}

/// One place of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Place {
    /// The sample: its number in the list.
    pub id: u64,
    /// False where the place was filled under [`LastBatch::Pad`] and repeats a sample.
    pub valid: bool,
}

/// Deals the samples of each epoch into batches.
#[derive(Debug, Clone, Copy)]
pub struct Sampler {
    config: SamplerConfig,
    /// R·B.
    global: u64,
    /// Positions of an epoch's order that were dealt before.
    first: u64,
}

impl Sampler {
    /// Checks the numbers; an epoch in which no rank would get a batch is an error too.
    pub fn new(config: SamplerConfig) -> Result<Sampler> {
        let SamplerConfig { samples, batch_size, rank, world, .. } = config;
        if samples == 0 {
            return Err(Error::spec("there are no samples"));
        }
        if samples > 1 << 48 {
            return Err(Error::spec(format!("{samples} samples are above 2^48")));
        }
        if rank >= world {
            return Err(Error::spec(format!("shard {rank} of {world}: shards count from 0")));
        }
        let global = u64::from(world).checked_mul(batch_size as u64).filter(|&g| g <= 1 << 48);
        let Some(global) = global.filter(|&g| g > 0) else {
            let what = format!("batch size {batch_size} on {world} ranks: expected 1 to 2^48");
            return Err(Error::spec(what));
        };
        if samples < global && config.last_batch == LastBatch::Drop {
            return Err(Error::spec(format!(
                "{samples} samples fill no batch of {global} ({world} x {batch_size}); \
                 last_batch = \"partial\" keeps them"
            )));
        }
        Ok(Sampler { config, global, first: 0 })
    }

    /// The batches of what is left of an epoch once the first `first` positions of its order were
    /// dealt, by whatever ranks in whatever batches.
    #[must_use]
    pub fn rest(self, first: u64) -> Sampler {
        Sampler { first, ..self }
    }

    /// Samples a whole batch of this rank.
    pub fn batch_size(&self) -> usize {
        self.config.batch_size
    }

    /// Samples a whole batch of all ranks: R·B.
    pub fn global_batch_size(&self) -> u64 {
        self.global
    }

    /// Batches an epoch on this rank; the same in every epoch. Under [`LastBatch::Partial`] a rank
    /// for which the last global batch has no sample left has one batch less than the others.
    pub fn len(&self) -> usize {
        let left = self.config.samples.saturating_sub(self.first);
        let (full, rest) = (left / self.global, left % self.global);
        let last = match self.config.last_batch {
            LastBatch::Drop => false,
            LastBatch::Partial => rest > u64::from(self.config.rank),
            LastBatch::Pad => rest > 0,
        };
        full as usize + usize::from(last)
    }

    /// Whether this rank gets no batch: fewer samples than ranks, under [`LastBatch::Partial`].
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Replaces `out` by the places of batch `step` of epoch `epoch`; past the end there are none.
    ///
    /// Costs the same for every step, so an epoch can be taken up anywhere.
    pub fn batch(&self, epoch: u32, step: usize, out: &mut Vec<Place>) {
        out.clear();
        if step >= self.len() {
            return;
        }
        let SamplerConfig { samples, batch_size, rank, world, shuffle, seed, .. } = self.config;
        let order = shuffle.then(|| Permutation::new(samples, seed, epoch));
        let place = |position: u64| {
            let index = position % samples;
            let id = order.as_ref().map_or(index, |order| order.at(index));
            Place { id, valid: position < samples }
        };
        let start = self.first + step as u64 * self.global;
        let rank = u64::from(rank);
        if self.config.last_batch == LastBatch::Partial && start + self.global > samples {
            // Dealt one by one, so that the ranks' last batches differ by at most one sample.
            out.extend((start + rank..samples).step_by(world as usize).map(place));
        } else {
            let start = start + rank * batch_size as u64;
            out.extend((start..start + batch_size as u64).map(place));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn config(samples: u64, batch_size: usize, world: u32, last_batch: LastBatch) -> SamplerConfig {
        SamplerConfig { samples, batch_size, rank: 0, world, shuffle: true, last_batch, seed: 42 }
    }

    fn at_rank(config: SamplerConfig, rank: u32) -> Sampler {
        Sampler::new(SamplerConfig { rank, ..config }).unwrap()
    }

    /// The batches that one rank gets in an epoch, asked for until none comes.
    fn batches(sampler: &Sampler, epoch: u32) -> Vec<Vec<Place>> {
        let mut out = Vec::new();
        let mut all = Vec::new();
        loop {
            sampler.batch(epoch, all.len(), &mut out);
            if out.is_empty() {
                return all;
            }
            all.push(out.clone());
        }
    }

    /// The content of each global batch, sorted, whoever got it.
    fn global_batches(config: SamplerConfig, epoch: u32) -> Vec<Vec<u64>> {
        let ranks: Vec<_> =
            (0..config.world).map(|r| batches(&at_rank(config, r), epoch)).collect();
        let steps = ranks.iter().map(Vec::len).max().unwrap_or(0);
        let content = |step: usize| {
            let places = ranks.iter().filter_map(|r| r.get(step)).flatten();
            let mut ids: Vec<u64> = places.map(|p| p.id).collect();
            ids.sort_unstable();
            ids
        };
        (0..steps).map(content).collect()
    }

    fn check(config: SamplerConfig, epoch: u32) {
        let SamplerConfig { samples: n, batch_size, world, last_batch, .. } = config;
        let global = u64::from(world) * batch_size as u64;
        if last_batch == LastBatch::Drop && n < global {
            Sampler::new(config).unwrap_err();
            return;
        }
        let mut times = vec![0_u64; n as usize];
        let mut lengths = Vec::new();
        for rank in 0..world {
            let sampler = at_rank(config, rank);
            let batches = batches(&sampler, epoch);
            assert_eq!(batches.len(), sampler.len());
            lengths.push(batches.len() as u64);
            for (step, batch) in batches.iter().enumerate() {
                let short = last_batch == LastBatch::Partial && step as u64 == n / global;
                assert!(if short { batch.len() <= batch_size } else { batch.len() == batch_size });
                for place in batch {
                    assert!(place.valid || last_batch == LastBatch::Pad);
                    times[place.id as usize] += u64::from(place.valid);
                }
            }
        }
        let delivered: u64 = times.iter().sum();
        assert!(times.iter().all(|&t| t <= 1));
        let (full, rest) = (n / global, n % global);
        match last_batch {
            LastBatch::Drop => {
                assert_eq!(delivered, full * global);
                assert!(lengths.iter().all(|&l| l == full));
            }
            LastBatch::Partial => {
                assert_eq!(delivered, n);
                for (rank, &length) in lengths.iter().enumerate() {
                    assert_eq!(length, full + u64::from((rank as u64) < rest));
                }
            }
            LastBatch::Pad => {
                assert_eq!(delivered, n);
                assert!(lengths.iter().all(|&l| l == n.div_ceil(global)));
            }
        }
        // Other splits of the same R·B hold the same in each global batch.
        let all = global_batches(config, epoch);
        for world in (1..=global).filter(|w| global.is_multiple_of(*w) && *w <= 16) {
            let batch_size = (global / world) as usize;
            let other = SamplerConfig { world: world as u32, batch_size, ..config };
            assert_eq!(global_batches(other, epoch), all);
        }
    }

    const POLICIES: [LastBatch; 3] = [LastBatch::Drop, LastBatch::Partial, LastBatch::Pad];

    #[test]
    fn every_small_epoch_is_exact() {
        for n in 1..200 {
            for (world, batch_size) in [(1, 1), (1, 7), (1, 64), (2, 8), (3, 5), (4, 6), (8, 32)] {
                for last_batch in POLICIES {
                    check(config(n, batch_size, world, last_batch), n as u32);
                }
            }
        }
    }

    proptest! {
        #[test]
        fn epochs_are_exact(
            n in 1..2000_u64, batch_size in 1..70_usize, world in 1..10_u32, policy in 0..3_usize,
            shuffle: bool, seed: u64, epoch: u32,
        ) {
            let config = config(n, batch_size, world, POLICIES[policy]);
            check(SamplerConfig { shuffle, seed, ..config }, epoch);
        }
    }

    /// The positions that each step of all ranks takes, as far as they are positions.
    fn positions(config: SamplerConfig, first: u64) -> Vec<Vec<u64>> {
        let config = SamplerConfig { shuffle: false, ..config };
        let ranks: Vec<_> =
            (0..config.world).map(|rank| batches(&at_rank(config, rank).rest(first), 0)).collect();
        let steps = ranks.iter().map(Vec::len).max().unwrap_or(0);
        let content = |step: usize| {
            let places = ranks.iter().filter_map(|rank| rank.get(step)).flatten();
            let mut content: Vec<u64> = places.filter(|p| p.valid).map(|p| p.id).collect();
            content.sort_unstable();
            content
        };
        (0..steps).map(content).collect()
    }

    /// Every epoch of few samples, left at every step by few ranks with small batches, and gone on
    /// with by as many others: what both were dealt is the epoch's order from its beginning, each
    /// position once, to its end; under `drop` until less than a global batch is left.
    #[test]
    fn an_epoch_goes_on_with_other_ranks_and_batch_sizes() {
        let splits = || (1..=3).flat_map(|world| (1..=4).map(move |size| (world, size)));
        let mut taken_up = 0;
        for (n, last_batch) in (1..=14).flat_map(|n| POLICIES.map(|policy| (n, policy))) {
            let fits = |config: &SamplerConfig| Sampler::new(*config).is_ok();
            let config = |(world, size)| config(n, size, world, last_batch);
            for before in splits().map(config).filter(fits) {
                let global = u64::from(before.world) * before.batch_size as u64;
                let dealt = positions(before, 0);
                for steps in 0..=dealt.len() {
                    let first = n.min(steps as u64 * global);
                    assert!(dealt[..steps].iter().flatten().copied().eq(0..first));
                    for after in splits().map(config).filter(fits) {
                        let global = u64::from(after.world) * after.batch_size as u64;
                        let rest = positions(after, first);
                        let expected = match last_batch {
                            LastBatch::Drop => first + (n - first) / global * global,
                            _ => n,
                        };
                        assert!(rest.iter().flatten().copied().eq(first..expected), "{after:?}");
                        for rank in 0..after.world {
                            let sampler = at_rank(after, rank).rest(first);
                            let batches = batches(&sampler, 0);
                            assert_eq!(batches.len(), sampler.len());
                            let of_all = rest.len() - batches.len();
                            assert!(of_all <= usize::from(last_batch == LastBatch::Partial));
                            let whole = |batch: &Vec<Place>| batch.len() == after.batch_size;
                            let full = ((n - first) / global) as usize;
                            assert!(batches.iter().take(full).all(whole));
                            assert!(last_batch != LastBatch::Pad || batches.iter().all(whole));
                        }
                        taken_up += 1;
                    }
                }
            }
        }
        assert_eq!(taken_up, 20_000);
    }

    #[test]
    fn the_rest_of_an_epoch_is_its_end() {
        for last_batch in POLICIES {
            for rank in 0..3 {
                let sampler = at_rank(config(50, 4, 3, last_batch), rank);
                let whole = batches(&sampler, 7);
                for step in 0..=whole.len() {
                    let rest = sampler.rest(step as u64 * sampler.global_batch_size());
                    assert_eq!(batches(&rest, 7), whole[step..]);
                }
                assert!(sampler.rest(u64::MAX).is_empty());
            }
        }
    }

    #[test]
    fn without_shuffle_the_order_is_the_lists() {
        let config = SamplerConfig { shuffle: false, ..config(10, 4, 1, LastBatch::Pad) };
        let ids: Vec<_> = batches(&at_rank(config, 0), 5).concat();
        let expected: Vec<_> = (0..12).map(|i| Place { id: i % 10, valid: i < 10 }).collect();
        assert_eq!(ids, expected);
        // The last global batch of two ranks is dealt: 8 and 9 to one each, not both to the first.
        let config = SamplerConfig { last_batch: LastBatch::Partial, ..config };
        let config = SamplerConfig { batch_size: 2, world: 2, ..config };
        let last = |rank| batches(&at_rank(config, rank), 0).pop().unwrap()[0].id;
        assert_eq!([last(0), last(1)], [8, 9]);
    }

    #[test]
    fn epochs_and_seeds_differ_and_drop_drops_others() {
        let drop = config(50, 16, 1, LastBatch::Drop);
        let ids = |config, epoch| -> Vec<u64> {
            batches(&at_rank(config, 0), epoch).concat().iter().map(|p| p.id).collect()
        };
        assert_eq!(ids(drop, 3), ids(drop, 3));
        assert_ne!(ids(drop, 3), ids(drop, 4));
        assert_ne!(ids(drop, 3), ids(SamplerConfig { seed: 43, ..drop }, 3));
        let dropped = |epoch| -> Vec<u64> {
            let kept = ids(drop, epoch);
            (0..50).filter(|id| !kept.contains(id)).collect()
        };
        assert_eq!(dropped(0).len(), 2);
        assert_ne!(dropped(0), dropped(1));
    }

    /// An order is computed and not held, however long it is.
    #[test]
    fn epochs_take_the_same_memory() {
        assert!(size_of::<Sampler>() <= 64 && size_of::<Permutation>() <= 272);
        let config = SamplerConfig { samples: 1 << 48, ..config(1, 5, 1, LastBatch::Drop) };
        let mut out = Vec::new();
        at_rank(config, 0).batch(7, 1 << 40, &mut out);
        assert!(out.len() == 5 && out.capacity() < 50 && out.iter().all(|p| p.id < 1 << 48));
    }

    #[test]
    fn wrong_numbers_are_refused() {
        let good = config(10, 2, 2, LastBatch::Partial);
        for bad in [
            SamplerConfig { samples: 0, ..good },
            SamplerConfig { samples: (1 << 48) + 1, ..good },
            SamplerConfig { batch_size: 0, ..good },
            SamplerConfig { batch_size: usize::MAX, ..good },
            SamplerConfig { world: 0, ..good },
            SamplerConfig { rank: 2, ..good },
        ] {
            Sampler::new(bad).unwrap_err();
        }
    }
}
