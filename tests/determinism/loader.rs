//! How an epoch is run: on which threads, in which batches, on how many shards, in how many goes.

use crate::reference::{EPOCHS, Reference, SAMPLES, open};
use forebay::device::Choice;
use forebay::loader::{Loader, Options, Position};
use forebay::policy::Cache;

/// Runs the epoch of `reference` on every shard of `options.world`, and compares every byte.
pub(crate) fn whole_epoch(references: &[Reference], options: &Options) {
    let shard = |rank| open(&Options { rank, ..options.clone() });
    let mut loaders: Vec<Loader> = (0..options.world).map(shard).collect();
    for reference in references {
        let mut ids = Vec::new();
        for loader in &mut loaders {
            let batches = loader.epoch(reference.epoch);
            batches.for_each(|batch| ids.extend(reference.check(&batch.unwrap(), options)));
        }
        ids.sort_unstable();
        assert!(ids.into_iter().eq(0..SAMPLES), "each sample once: {options:?}");
    }
}

#[test]
fn every_way_to_run_an_epoch() {
    let references = EPOCHS.map(Reference::new);
    assert!(references[0].bytes != references[1].bytes, "the epoch counts");
    let mut runs = 0;
    for threads in 1..=8 {
        for batch_size in [1, 2, 3, 5, 8, 23, 40] {
            for prefetch in [0, 1, 2, 5] {
                for world in 1..=5 {
                    let device = Choice::Cpu;
                    let options = Options {
                        threads,
                        batch_size,
                        prefetch,
                        world,
                        device,
                        ..Options::default()
                    };
                    whole_epoch(&references, &options);
                    runs += 1;
                }
            }
        }
    }
    println!("{runs} runs of {} epochs gave the same bytes", references.len());
}

/// What an epoch left in a cache gives the next ones the same bytes, whatever found room in it.
#[test]
fn every_cache() {
    let references = [EPOCHS[0], EPOCHS[1], EPOCHS[0]].map(Reference::new);
    for cache in [Cache::Encoded, Cache::Decoded] {
        for budget in [0, 12_000, 1 << 20] {
            for (threads, batch_size, world) in [(1, 1, 1), (2, 5, 1), (4, 8, 1), (3, 4, 3)] {
                whole_epoch(
                    &references,
                    &Options {
                        cache: Some(cache),
                        cache_budget: Some(budget),
                        threads,
                        batch_size,
                        world,
                        device: Choice::Cpu,
                        ..Options::default()
                    },
                );
            }
        }
    }
}

/// What the shards deliver step by step when they take the epoch up at `position`: the samples of
/// each global batch, sorted.
pub(crate) fn rest(
    reference: &Reference,
    shards: &mut [Loader],
    position: Position,
) -> Vec<Vec<u64>> {
    let mut steps: Vec<Vec<u64>> = Vec::new();
    for loader in shards {
        for (step, batch) in loader.resume(position).enumerate() {
            steps.resize_with(steps.len().max(step + 1), Vec::new);
            steps[step].extend(reference.check(&batch.unwrap(), &position));
        }
    }
    steps.iter_mut().for_each(|ids| ids.sort_unstable());
    steps
}

/// Whatever shards and batches an epoch begins with, their positions say how far its order is done
/// with; and from each position on, whatever shards and batches take it up deliver the rest of it. So
/// any that take over from any others deliver the whole between them.
#[test]
fn every_way_to_resume_an_epoch() {
    let reference = Reference::new(EPOCHS[1]);
    let (epoch, order) = (reference.epoch, &reference.order);
    let sorted = |ids: &[u64]| {
        let mut ids = ids.to_vec();
        ids.sort_unstable();
        ids
    };
    let mut resumed = 0;
    for (world, batch_size) in (1..=5).flat_map(|w| [1, 2, 3, 7].map(|size| (w, size))) {
        let shard = |rank| {
            let device = Choice::Cpu;
            let options =
                Options { rank, world, batch_size, threads: 2, device, ..Options::default() };
            open(&options)
        };
        let mut shards: Vec<Loader> = (0..world).map(shard).collect();
        let global = world as usize * batch_size;
        for samples in 0..=SAMPLES {
            let rest = rest(&reference, &mut shards, Position { epoch, samples });
            let expected = order[samples as usize..].chunks(global).map(sorted);
            assert!(rest.into_iter().eq(expected), "{world} x {batch_size} from {samples}");
            resumed += 1;
        }
        // Begun, and left after every step: the first shard says how far all of them are.
        let steps = shards[0].len();
        for step in 0..=steps {
            let done: usize = shards
                .iter_mut()
                .flat_map(|loader| loader.epoch(epoch).take(step))
                .map(|batch| batch.unwrap().len())
                .sum();
            let expected = match step == steps {
                true => Position { epoch: epoch + 1, samples: 0 },
                false => Position { epoch, samples: (step * global) as u64 },
            };
            assert_eq!(shards[0].position(), expected);
            assert_eq!(done, (step * global).min(order.len()));
            // The same shards: by position or by step.
            let by_step =
                shards[0].epoch_from(epoch, step).map(|batch| batch.unwrap().ids().to_vec());
            let by_step: Vec<_> = by_step.collect();
            let samples = (step * global) as u64;
            let by_position = shards[0].resume(Position { epoch, samples });
            assert!(by_position.map(|batch| batch.unwrap().ids().to_vec()).eq(by_step));
        }
    }
    println!("{resumed} resumptions delivered the rest of the epoch");
}
