//! Shards that are cut short while they are mapped: an error, and never the process's end.

use crate::archive::{archive, sample};
use crate::fault::{complaint, ends, until, wait};
use crate::*;
use forebay::policy::{MaxBad, OnError};
use rustix::process::{Pid, Signal, kill_process};
use std::collections::BTreeMap;
use std::process::{Command, Stdio};
use std::thread;
use std::time::Duration;

fn cut(path: &Path, length: u64) {
    fs::OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

/// The images that come of an epoch, by id.
fn images(loader: &mut Loader, epoch: u32) -> BTreeMap<i64, Vec<u8>> {
    let batches = loader.epoch(epoch).map(|batch| batch.unwrap());
    let each = |batch: forebay::loader::Batch| {
        let size = batch.images().bytes.len() / batch.len();
        let images: Vec<_> = batch.images().bytes.chunks(size).map(<[u8]>::to_vec).collect();
        let ids = batch.ids().to_vec();
        ids.into_iter().zip(images).collect::<Vec<_>>()
    };
    batches.flat_map(each).collect()
}

/// Wherever the shard is cut: the samples before the cut are all there, and all others are told.
#[test]
fn a_loader_goes_on_without_what_was_cut_off() {
    let dir = both(60);
    let shards = dir.path().join("packed");
    let options = Options {
        batch_size: 4,
        threads: 4,
        on_error: Some(OnError::Skip),
        max_bad: Some(MaxBad::Share(1.0)),
        ..Options::default()
    };
    let whole = images(&mut loader(&shards, &options), 0);
    let tar = tar(&shards);
    let of_shard_2: Vec<u64> =
        (0..60).filter(|&id| tar.file(id) == Path::new("shard-000002.tar")).collect();
    let ends_at = |id: u64| {
        let start = tar.locate(id, forebay::Error::spec("x")).offset().unwrap();
        start + read(&tar, id).unwrap().len() as u64
    };
    let path = shards.join("shard-000002.tar");
    let bytes = fs::read(&path).unwrap();
    let full = bytes.len() as u64;
    // At pages, within them, at an image's last byte, and before everything.
    let last = ends_at(of_shard_2[1]);
    for length in [4096, 5000, 4095, last, last - 1, 1, 0] {
        fs::write(&path, &bytes).unwrap();
        let mut loader = loader(&shards, &options);
        let (path, lost) = (path.clone(), of_shard_2.iter().filter(|&&id| ends_at(id) > length));
        let lost: Vec<i64> = lost.map(|&id| id as i64).collect();
        let (first, rest, bad) = ends(move || {
            let first = loader.epoch(0).next().unwrap().unwrap().len();
            cut(&path, length);
            let rest = images(&mut loader, 1);
            // The file may grow again, but its pages are gone.
            cut(&path, full);
            let again = images(&mut loader, 2);
            assert!(rest.keys().eq(again.keys()));
            (first, rest, loader.bad_samples())
        });
        assert_eq!(first, 4);
        assert_eq!(bad.samples, lost.len() as u64, "{length}");
        assert_eq!(rest.len() + lost.len(), 60);
        for (id, image) in rest {
            assert!(!lost.contains(&id) && whole[&id] == image, "{length}: sample {id}");
        }
    }
}

#[test]
fn the_error_names_shard_and_byte() {
    let dir = both(20);
    let shards = dir.path().join("packed");
    let (tar, mut loader) = (tar(&shards), loader(&shards, &Options::default()));
    cut(&shards.join("shard-000000.tar"), 100);
    let error = ends(move || loader.epoch(0).find_map(Result::err).unwrap());
    let id = error.sample().unwrap();
    let start = tar.locate(id, forebay::Error::spec("x")).offset().unwrap();
    let told = format!(
        "shard-000000.tar: sample {id}: part {}/{id}.JPG at byte {start}: cut short",
        id % 2
    );
    assert!(error.to_string().contains(&told), "{error}");
    assert!(error.to_string().contains("the shard has 100 bytes"), "{error}");
    assert_eq!(error.offset(), Some(start));
    fs::remove_file(shards.join("shard-000000.tar")).unwrap();
    let error = read(&tar, id).unwrap_err();
    assert!(error.contains("cannot open: no such file or directory"), "{error}");
}

/// Without an index there is no checksum, but an image that ends in zeros raises the question.
#[test]
fn what_is_cut_within_a_page_shows_without_an_index() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("0.tar");
    let bytes = archive(&[sample("0", &[1; 700], "0"), sample("1", &[2; 700], "1")]);
    fs::write(&path, &bytes).unwrap();
    let tar = tar(dir.path());
    // The second image is from 3072 on.
    cut(&path, 3072 + 699);
    assert_eq!(read(&tar, 0).unwrap(), [1; 700]);
    let error = read(&tar, 1).unwrap_err();
    assert!(error.contains("0.tar: sample 1: 1.jpg at byte 3072: cut short"), "{error}");
    fs::write(&path, &bytes).unwrap();
    assert_eq!(read(&tar, 1).unwrap(), [2; 700]);
}

/// The same in a program of its own, which says what happened and exits as after any error; also in
/// one that was started to ignore SIGBUS, which goes on to ignore those that are sent.
#[test]
fn a_bench_ends_with_an_error() {
    for ignoring in [false, true] {
        let dir = both(40);
        let mut command = Command::new("sh");
        let start = if ignoring { "trap '' BUS && exec \"$@\"" } else { "exec \"$@\"" };
        command.args(["-c", start, "sh", env!("CARGO_BIN_EXE_forebay")]);
        let args = "bench --data packed --epochs 100000000 --batch-size 8 --threads 4 --device cpu";
        command.args(args.split(' ')).current_dir(dir.path());
        let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        // Until it has them all.
        let maps = format!("/proc/{}/maps", child.id());
        let shards = fault::names(&dir.path().join("packed")).len() - 2;
        until(|| {
            let maps = fs::read_to_string(&maps).unwrap_or_default();
            maps.matches("/packed/shard-").count() >= shards
        });
        if ignoring {
            kill_process(Pid::from_child(&child), Signal::BUS).unwrap();
        }
        thread::sleep(Duration::from_millis(50));
        cut(&dir.path().join("packed/shard-000003.tar"), 0);
        let (status, line) = complaint(&wait(child));
        assert_eq!(status, Some(1), "{line}");
        let told = "packed/shard-000003.tar: sample ";
        assert!(line.contains(told) && line.contains("cut short"), "{line}");
    }
}
