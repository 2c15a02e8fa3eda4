//! Panics of workers, and consumers that go away.

use crate::decode_only;
use crate::fault::ends;
use forebay::Result;
use forebay::loader::{Batch, Loader, Options};
use forebay::reader::{Content, Reader};
use std::path::PathBuf;
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

/// Samples of one pixel, before each of which something happens on the thread that reads it.
struct Source {
    samples: u64,
    before: Box<dyn Fn(u64) + Send + Sync>,
}

impl Source {
    fn new(samples: u64, before: impl Fn(u64) + Send + Sync + 'static) -> Arc<Self> {
        Arc::new(Source { samples, before: Box::new(before) })
    }
}

impl Reader for Source {
    fn len(&self) -> u64 {
        self.samples
    }

    fn label(&self, id: u64) -> i64 {
        id as i64
    }

    fn classes(&self) -> &[String] {
        &[]
    }

    fn place(&self, id: u64) -> PathBuf {
        format!("{id}.raw").into()
    }

    fn read(&self, id: u64, buf: &mut Vec<u8>) -> Result<Content> {
        (self.before)(id);
        buf.clear();
        buf.extend([id as u8; 3]);
        Ok(Content::Planar { height: 1, width: 1 })
    }
}

fn load(source: &Arc<Source>, batch_size: usize, threads: usize, prefetch: usize) -> Loader {
    let options = Options { batch_size, threads, prefetch, ..Options::default() };
    Loader::with_reader(&decode_only(), source.clone(), &options).unwrap()
}

fn is_right(batch: &Batch) -> bool {
    let pixels = batch.images().bytes.as_chunks::<3>().0;
    batch.ids().iter().zip(pixels).all(|(id, pixel)| *pixel == [*id as u8; 3])
}

#[test]
fn every_thread_may_panic_at_once() {
    const THREADS: usize = 4;

    let together = Barrier::new(THREADS);
    let source = Source::new(32, move |id| {
        if (8..12).contains(&id) {
            together.wait();
            panic!("at {id}");
        }
    });
    let mut loader = load(&source, 8, THREADS, 0);
    ends(move || {
        for _ in 0..3 {
            let mut epoch = loader.epoch(0);
            assert!(is_right(&epoch.next().unwrap().unwrap()));
            let error = epoch.next().unwrap().err().unwrap().to_string();
            let told = "8.raw: sample 8: internal error, please report it: at 8";
            assert_eq!(error, told);
            drop(epoch);
            let rest: Vec<_> = loader.epoch_from(0, 2).map(Result::unwrap).collect();
            assert!(rest.len() == 2 && rest.iter().all(is_right));
        }
    });
}

#[test]
fn an_epoch_may_be_left_on_another_thread() {
    let source = Source::new(400, |_| thread::sleep(Duration::from_micros(500)));
    let mut loader = load(&source, 4, 2, 4);
    ends(move || {
        for number in 0..20 {
            let mut epoch = loader.epoch(number);
            let held = epoch.next().unwrap().unwrap();
            // With five batches in the making.
            thread::scope(|scope| scope.spawn(move || drop(epoch)).join().unwrap());
            assert!(is_right(&held));
        }
        let next = loader.epoch(0).next().unwrap().unwrap();
        // And so may the loader, in the middle of its work.
        thread::spawn(move || {
            loader.epoch(1).next().unwrap().unwrap();
            drop(loader);
        })
        .join()
        .unwrap();
        assert!(is_right(&next));
        thread::spawn(move || drop(next)).join().unwrap();
        assert_eq!(Arc::strong_count(&source), 1, "nobody reads any more");
    });
}
