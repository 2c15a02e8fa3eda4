//! Samples that cannot be made: what becomes of them and of their batches.

use super::*;
use forebay::policy::{MaxBad, OnError};
use forebay::stats::BadSamples;
use std::collections::BTreeSet;

/// A source in which the samples of `bad` cannot be read.
fn damaged(samples: u64, bad: &[u64]) -> Arc<Source> {
    let bad: BTreeSet<u64> = bad.iter().copied().collect();
    Source::new(samples, move |id| match bad.contains(&id) {
        true => Err(Error::new(ErrorKind::Decode, format!("damaged {id}"))),
        false => Ok((SIDE, SIDE)),
    })
}

/// A batch: its samples, their labels, and whether each counts.
type Read = (Vec<(i64, Vec<u8>)>, Vec<i64>, Vec<bool>);

fn read(batch: &Batch) -> Read {
    (samples(batch), batch.labels().to_vec(), batch.valid().to_vec())
}

fn epoch(loader: &mut Loader, epoch: u32) -> Vec<Read> {
    loader.epoch(epoch).map(|batch| read(&batch.unwrap())).collect()
}

/// How an epoch of so many samples is dealt.
fn deals() -> impl Iterator<Item = Options> {
    let last = [LastBatch::Drop, LastBatch::Partial, LastBatch::Pad];
    let sizes = [(1, 1), (4, 1), (5, 2), (23, 1)];
    last.into_iter().flat_map(move |last| {
        sizes.into_iter().map(move |(batch_size, world)| Options {
            world,
            rank: world - 1,
            shuffle: Some(true),
            last_batch: Some(last),
            max_bad: Some(MaxBad::Share(1.0)),
            ..options(batch_size, 1)
        })
    })
}

/// Each batch is that of the sound source without the bad samples, and no sample moves; one of which
/// nothing is left is filled with others that do not count.
#[test]
fn skipped_samples_leave_their_batch_shorter() {
    let bad = [0, 1, 6, 7, 8, 9, 19, 22];
    let mut filled = 0;
    for deal in deals() {
        let expected = epoch(&mut load(&drawn(), &Source::plain(23), &deal), 2);
        let sound: BTreeMap<i64, Vec<u8>> = load(&drawn(), &Source::plain(23), &options(23, 1))
            .epoch(2)
            .flat_map(|b| samples(&b.unwrap()))
            .collect();
        for threads in 1..4 {
            let options = Options { on_error: Some(OnError::Skip), threads, ..deal.clone() };
            let mut loader = load(&drawn(), &damaged(23, &bad), &options);
            let got = epoch(&mut loader, 2);
            assert_eq!((got.len(), got.len()), (expected.len(), loader.len()));
            let (mut skipped, mut replaced, mut met) = (0, 0, BTreeSet::new());
            for (got, whole) in got.into_iter().zip(&expected) {
                let is_bad = |id: i64| bad.contains(&(id as u64));
                let kept: Vec<usize> =
                    (0..whole.0.len()).filter(|&k| !is_bad(whole.0[k].0)).collect();
                met.extend(whole.0.iter().map(|(id, _)| *id).filter(|id| is_bad(*id)));
                if kept.is_empty() {
                    assert_eq!(got.2, vec![false; whole.0.len()], "as many places, none counts");
                    assert!(got.0.iter().all(|(id, bytes)| !is_bad(*id) && sound[id] == *bytes));
                    replaced += whole.0.len() as u64;
                    continue;
                }
                skipped += (whole.0.len() - kept.len()) as u64;
                let pick = |k: &usize| (whole.0[*k].clone(), (whole.1[*k], whole.2[*k]));
                let (all, rest): (Vec<_>, Vec<_>) = kept.iter().map(pick).unzip();
                assert!(
                    got == (
                        all,
                        rest.iter().map(|r| r.0).collect(),
                        rest.iter().map(|r| r.1).collect()
                    )
                );
            }
            let samples = met.len() as u64;
            assert_eq!(loader.bad_samples(), BadSamples { samples, skipped, replaced, warned: 0 });
            filled += replaced;
        }
    }
    assert!(filled > 0, "some batch had nothing left");
}

/// Every batch is whole; the place of a bad sample holds another one as that is itself in this epoch,
/// the same one however the epoch is dealt.
#[test]
fn replaced_samples_have_one_stand_in_each() {
    let bad = [3, 4, 5, 17];
    let everything = Options { shuffle: Some(false), ..options(23, 1) };
    for number in 0..3 {
        let mut all = load(&drawn(), &Source::plain(23), &everything);
        let sound: BTreeMap<i64, Vec<u8>> =
            epoch(&mut all, number).remove(0).0.into_iter().collect();
        let mut stand_ins: BTreeMap<i64, i64> = BTreeMap::new();
        for (threads, deal) in deals().enumerate() {
            let deal = Options { threads: 1 + threads % 3, ..deal };
            let expected = epoch(&mut load(&drawn(), &Source::plain(23), &deal), number);
            let options = Options { on_error: Some(OnError::Replace), ..deal };
            let mut loader = load(&drawn(), &damaged(23, &bad), &options);
            let got = epoch(&mut loader, number);
            assert_eq!(got.len(), expected.len());
            let mut replaced = 0;
            for (got, whole) in got.iter().zip(&expected) {
                assert_eq!((got.0.len(), &got.2), (whole.0.len(), &whole.2));
                for (((id, bytes), label), (asked, _)) in got.0.iter().zip(&got.1).zip(&whole.0) {
                    assert!(sound[id] == *bytes && *label == id % 10);
                    if bad.contains(&(*asked as u64)) {
                        assert!(!bad.contains(&(*id as u64)));
                        assert_eq!(*stand_ins.entry(*asked).or_insert(*id), *id, "for {asked}");
                        replaced += 1;
                    } else {
                        assert_eq!(id, asked);
                    }
                }
            }
            assert_eq!(
                (loader.bad_samples().replaced, loader.bad_samples().skipped),
                (replaced, 0)
            );
        }
        assert_eq!(stand_ins.len(), bad.len());
    }
}

/// Only what could have come anyway stands in.
#[test]
fn stand_ins_are_of_the_samples_asked_for() {
    let replace = Options {
        on_error: Some(OnError::Replace),
        max_bad: Some(MaxBad::Share(1.0)),
        ..options(4, 2)
    };
    let source = damaged(50, &[5, 6]);
    let limit = Options { limit: Some(8), ..replace.clone() };
    let few = Options { ids: Some(vec![40, 5, 6, 41]), ..replace };
    for (options, among) in [(limit, (0..8).collect::<Vec<_>>()), (few, vec![40, 41])] {
        for number in 0..20 {
            let got = epoch(&mut load(&drawn(), &source, &options), number);
            let ids = got.iter().flat_map(|batch| &batch.0).map(|(id, _)| *id);
            assert!(ids.clone().all(|id| among.contains(&id)), "{:?}", ids.collect::<Vec<_>>());
        }
    }
}

/// The sample that is one too many ends the epoch, the same one whatever threads do; each counts once,
/// and the loader goes on.
#[test]
fn too_many_bad_samples_fail() {
    let source = damaged(40, &[3, 11, 12, 30]);
    for (most, first) in [
        (MaxBad::Count(0), Some(3)),
        (MaxBad::Count(2), Some(12)),
        (MaxBad::Share(0.05), Some(12)),
        (MaxBad::Share(0.1), None),
        (MaxBad::Count(4), None),
    ] {
        for threads in 1..4 {
            let options = Options {
                on_error: Some(OnError::Skip),
                max_bad: Some(most),
                ..options(10, threads)
            };
            let mut loader = load(&drawn(), &source, &options);
            let error = loader.epoch(0).find_map(Result::err);
            assert_eq!(error.as_ref().and_then(Error::sample), first, "{error:?}");
            if let Some(error) = error.filter(|_| first == Some(12)) {
                assert_eq!(
                    error.to_string(),
                    "12.raw: sample 12: damaged 12; that makes 3 bad of 40 samples, more than \
                     the 2 that max_bad allows (--max-bad)"
                );
            }
            // From then on each bad sample does.
            let again = loader.epoch(1).find_map(Result::err);
            assert_eq!(again.and_then(|error| error.sample()), first.map(|_| 3));
            assert_eq!(loader.epoch_from(2, 2).next().unwrap().unwrap().len(), 10);
        }
    }
}

/// A source with nothing good in it ends with the reason instead of a search without end.
#[test]
fn nothing_to_stand_in() {
    let bad: Vec<u64> = (0..12).collect();
    for on_error in [OnError::Skip, OnError::Replace] {
        let options = Options {
            on_error: Some(on_error),
            max_bad: Some(MaxBad::Share(1.0)),
            ..options(4, 2)
        };
        let mut loader = load(&drawn(), &damaged(12, &bad), &options);
        let error = loader.epoch(0).next().unwrap().err().unwrap();
        let expected =
            "0.raw: sample 0: damaged 0; 32 samples drawn to take its place are no better";
        assert_eq!(error.to_string(), expected, "{on_error}");
    }
}

/// A panic counts as its sample's fault, and sizes are compared among the samples that are there.
#[test]
fn panics_are_skipped_and_sizes_still_differ() {
    let source = Source::new(30, |id| {
        assert!(id != 17, "seventeen");
        Ok(if id == 29 { (4, 4) } else { (SIDE, SIDE) })
    });
    let options = Options { on_error: Some(OnError::Skip), ..options(10, 2) };
    let mut loader = load(&decode_only(), &source, &options);
    let mut batches = loader.epoch(0);
    let lengths = [10, 9].map(|_| batches.next().unwrap().unwrap().len());
    assert_eq!(lengths, [10, 9]);
    let error = batches.next().unwrap().err().unwrap();
    assert_eq!(error.kind(), ErrorKind::Shape);
    assert!(error.to_string().starts_with("sample 20 (20.raw) is 8x8 but sample 29"), "{error}");
}

/// What the machine had no room for is no bad sample: nothing is left out because of it.
#[test]
fn a_lack_of_memory_is_nobodys_fault() {
    let source = Source::new(30, |id| match id {
        17 => Err(Error::io("read", "17.raw", std::io::Error::from_raw_os_error(24))),
        _ => Ok((SIDE, SIDE)),
    });
    for on_error in [OnError::Skip, OnError::Replace] {
        let options = Options { on_error: Some(on_error), ..options(10, 2) };
        let mut loader = load(&drawn(), &source, &options);
        let error = loader.epoch(0).find_map(Result::err).unwrap();
        assert_eq!(error.kind(), ErrorKind::Resources, "{error}");
        assert_eq!(loader.epoch_from(0, 2).next().unwrap().unwrap().len(), 10);
        assert_eq!(loader.bad_samples().skipped + loader.bad_samples().replaced, 0);
    }
}

/// The log has each bad sample once, in the order of delivery, with what was done.
#[test]
fn the_quarantine_log() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("quarantine.jsonl");
    // What a process left that was killed while it wrote.
    std::fs::write(&path, b"{\"path\":\"torn").unwrap();
    let source = damaged(20, &[2, 9, 13]);
    let run = |on_error, epochs: u32| {
        let options = Options {
            on_error: Some(on_error),
            max_bad: Some(MaxBad::Count(3)),
            shuffle: Some(true),
            ..options(6, 3)
        };
        let mut loader = load(&drawn(), &source, &options);
        loader.quarantine(&path).unwrap();
        let mut order = Vec::new();
        for number in 0..epochs {
            let mut batch_ids = Vec::new();
            for batch in loader.epoch(number) {
                let Ok(batch) = batch else { break };
                batch_ids.extend_from_slice(batch.ids());
            }
            order.push(batch_ids);
        }
        assert!(loader.quarantine_failure().is_none());
        order
    };
    run(OnError::Skip, 3);
    run(OnError::Replace, 2);
    run(OnError::Fail, 1);
    let text = std::fs::read_to_string(&path).unwrap();
    let mut lines = text.lines();
    assert_eq!(lines.next(), Some("{\"path\":\"torn"));
    let entries: Vec<serde_json::Value> =
        lines.map(|line| serde_json::from_str(line).unwrap()).collect();
    let done: Vec<&str> = entries.iter().map(|entry| entry["done"].as_str().unwrap()).collect();
    assert_eq!(
        done,
        ["skipped", "skipped", "skipped", "replaced", "replaced", "replaced", "failed"]
    );
    for entry in &entries {
        let id = entry["sample"].as_u64().unwrap();
        assert_eq!(entry["path"], format!("{id}.raw"));
        assert_eq!(entry["reason"], format!("damaged {id}"));
        assert_eq!(entry["epoch"], 0);
        assert_eq!(entry["by"].is_u64(), entry["done"] == "replaced");
    }
    let ids = |range: std::ops::Range<usize>| {
        entries[range].iter().map(|entry| entry["sample"].as_u64().unwrap()).collect::<Vec<_>>()
    };
    assert_eq!((ids(0..3), entries[6]["sample"].as_u64().unwrap()), (ids(3..6), ids(0..1)[0]));

    let mut loader = load(&drawn(), &source, &options(6, 1));
    let error = loader.quarantine(&dir.path().join("no/such/file")).unwrap_err();
    assert!(error.to_string().contains("no/such"), "{error}");
    std::fs::write(dir.path().join("0.raw"), b"pixels").unwrap();
    for (path, text) in [
        (dir.path().join("0.raw"), "is no log of bad samples"),
        (dir.path().to_path_buf(), "is a directory"),
        ("/dev/full".into(), "is a device"),
    ] {
        let error = loader.quarantine(&path).unwrap_err();
        assert!(error.to_string().contains(text), "{error}");
    }
    // A log that cannot be written any more ends, and the epoch does not.
    let options =
        Options { on_error: Some(OnError::Skip), max_bad: Some(MaxBad::Count(3)), ..options(6, 1) };
    let mut loader = load(&drawn(), &source, &options);
    let gone = tempfile::tempdir().unwrap();
    loader.quarantine(&gone.path().join("bad.jsonl")).unwrap();
    drop(gone);
    assert_eq!(loader.epoch(0).map(Result::unwrap).count(), 4);
    assert!(loader.quarantine_failure().is_some());
}
