//! What an epoch's samples follow from is in a loader's identity, and nothing else is.

use crate::reference::{SOURCE, open, spec};
use forebay::device::Choice;
use forebay::graph::file;
use forebay::graph::spec::ReaderKind;
use forebay::loader::{Identity, Loader, Options};
use forebay::policy::{Cache, LastBatch};
use forebay::reader::Reader;
use forebay::reader::file_list::FileList;
use forebay::reader::folders::Folders;
use std::fs;

fn plain() -> Options {
    Options { batch_size: 4, threads: 1, device: Choice::Cpu, ..Options::default() }
}

/// The identity of the matrix's pipeline after a change of its text.
fn of(text: &str) -> Identity {
    let spec = file::parse(text).unwrap();
    Loader::with_reader(&spec, SOURCE.clone(), &plain()).unwrap().identity()
}

#[test]
fn what_runs_an_epoch_is_no_part_of_it() {
    let identity = open(&plain()).identity();
    for options in [
        Options { batch_size: 3, ..plain() },
        Options { threads: 4, ..plain() },
        Options { prefetch: 0, ..plain() },
        Options { rank: 2, world: 3, ..plain() },
        Options { cache: Some(Cache::Decoded), read_ahead: 0, ..plain() },
        Options { seed: Some(42), limit: Some(99), shuffle: Some(true), ..plain() },
    ] {
        assert_eq!(open(&options).identity(), identity, "{options:?}");
    }
    // However the file is written, and wherever its samples come from.
    assert_eq!(of(&file::print(&spec())), identity);
    assert_eq!(of(&format!("# A comment.\n{}", include_str!("pipeline.toml"))), identity);
    let mut folders = spec();
    folders.reader.kind = ReaderKind::Folders;
    folders.reader.cache = Cache::Encoded;
    assert_eq!(of(&file::print(&folders)), identity);
    // Nor is who decodes, where the pixels are the same.
    for decoder in [
        "device = \"cpu\"\nsplit = 4095",
        "device = \"cpu\"\nbackend = \"turbo\"",
        "device = \"mixed\"\nbackend = \"own\"",
        "device = \"mixed\"\nexact = true",
    ] {
        let text = include_str!("pipeline.toml").replacen("device = \"cpu\"", decoder, 1);
        assert_eq!(of(&text), identity, "{decoder}");
    }
    // And the same the next day: checkpoints keep it.
    let known = Identity {
        pipeline: 10_945_639_396_354_480_890,
        data: 5_428_637_166_449_504_090,
        seed: 42,
    };
    assert_eq!(
        identity, known,
        "say in CHANGELOG.md that runs before go on with --force-resume only"
    );
}

#[test]
fn what_changes_an_epoch_changes_one_part() {
    let text = include_str!("pipeline.toml");
    let identity = of(text);
    for (old, new) in [
        ("device = \"cpu\"", "device = \"mixed\""),
        ("device = \"cpu\"", "device = \"mixed\"\nsplit = 4095"),
        ("device = \"cpu\"", "device = \"mixed\"\nbackend = \"nvjpeg\""),
        ("device = \"cpu\"", "device = \"cpu\"\nscale = \"fast\""),
        ("shuffle = true", "shuffle = false"),
        ("shuffle = true", "shuffle = true\nlast_batch = \"drop\""),
        ("bernoulli = 0.5", "bernoulli = 0.25"),
        ("tilt * 2", "tilt * 3"),
        ("{ op = \"flip\" },", ""),
        ("op = \"crop\"", "op = \"crop\"\nfill = 1"),
        ("layout = \"CHW\"", "layout = \"HWC\""),
    ] {
        let other = of(&text.replacen(old, new, 1));
        assert_ne!(other.pipeline, identity.pipeline, "{new}");
        assert_eq!((other.data, other.seed), (identity.data, identity.seed));
    }
    let other = of(&text.replace("seed = 42", "seed = 43"));
    assert_eq!(other, Identity { seed: 43, ..identity });
    let with = |options: Options| open(&options).identity();
    assert_eq!(with(Options { seed: Some(43), ..plain() }), other);
    let drop = with(Options { last_batch: Some(LastBatch::Drop), ..plain() });
    assert_eq!(drop, of(&text.replace("shuffle = true", "shuffle = true\nlast_batch = \"drop\"")));
    let few = with(Options { limit: Some(20), ..plain() });
    assert_eq!(few, Identity { data: few.data, ..identity });
    assert_ne!(few, identity);
    let ids = |ids: &[u64]| with(Options { ids: Some(ids.to_vec()), ..plain() }).data;
    assert!(ids(&[1, 2]) != ids(&[2, 1]) && ids(&[1]) != identity.data);
}

#[test]
fn lists_are_told_apart_by_names_labels_and_length() {
    let dir = tempfile::tempdir().unwrap();
    for name in ["cat/1.jpg", "cat/2.jpg", "dog/1.jpg"] {
        let path = dir.path().join(name);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, "").unwrap();
    }
    let list = |text: &str| {
        fs::write(dir.path().join("labels.txt"), text).unwrap();
        let list = FileList::open(dir.path(), "labels.txt", false).unwrap();
        list.fingerprint(list.len())
    };
    let folders = Folders::open(dir.path(), false).unwrap();
    let whole = folders.fingerprint(3);
    assert_eq!(list("cat/1.jpg 0\n\ncat/2.jpg\t0\r\ndog/1.jpg 1\n"), whole);
    let others = [
        "cat/1.jpg 0\ncat/2.jpg 0\ndog/1.jpg 2\n",
        "cat/1.jpg 0\ncat/2.jpg 0\ndog/2.jpg 1\n",
        "cat/2.jpg 0\ncat/1.jpg 0\ndog/1.jpg 1\n",
        "cat/1.jpg 0\ncat/2.jpg 0\n",
        "cat/1.jpg 0\ncat/2.jpg 0\ndog/1.jpg 1\ndog/1.jpg 1\n",
    ];
    let mut all: Vec<u64> = others.map(list).to_vec();
    assert_eq!(folders.fingerprint(2), all[3]);
    all.push(whole);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), 6);
}
