//! The hand-over of batches: what an epoch costs beside reading, decoding and augmenting. Samples are
//! one pixel that is made in memory, so that nearly all of the time is the executor's own.
//!
//! `cargo bench --bench executor`

use divan::Bencher;
use divan::counter::ItemsCount;
use forebay::device::Choice;
use forebay::graph::file;
use forebay::loader::{Loader, Options};
use forebay::reader::{Content, Reader};
use std::path::PathBuf;
use std::sync::Arc;

fn main() {
    divan::main();
}

/// More samples than any bench takes.
struct Dots;

impl Reader for Dots {
    fn len(&self) -> u64 {
        1 << 40
    }

    fn label(&self, id: u64) -> i64 {
        id as i64
    }

    fn classes(&self) -> &[String] {
        &[]
    }

    fn place(&self, id: u64) -> PathBuf {
        format!("dot {id}").into()
    }

    fn read(&self, id: u64, buf: &mut Vec<u8>) -> forebay::Result<Content> {
        buf.clear();
        buf.extend([id as u8; 3]);
        Ok(Content::Planar { height: 1, width: 1 })
    }
}

/// Batches that are taken one after another: some lie ready, which a single one may be.
const BATCHES: usize = 64;

/// Batches of so many samples, as a consumer takes them.
#[divan::bench(args = [1, 16, 256], consts = [1, 2])]
fn batches<const THREADS: usize>(bencher: Bencher, samples: usize) {
    let spec = file::parse(include_str!("../pipelines/decode-only.toml")).unwrap();
    let options = Options {
        batch_size: samples,
        threads: THREADS,
        device: Choice::Cpu,
        ..Options::default()
    };
    let mut loader = Loader::with_reader(&spec, Arc::new(Dots), &options).unwrap();
    let mut epoch = loader.epoch(0);
    bencher.counter(ItemsCount::new(BATCHES * samples)).bench_local(|| {
        for _ in 0..BATCHES {
            // Dropped here, since slots that are held are not used again.
            drop(epoch.next().unwrap().unwrap());
        }
    });
}
