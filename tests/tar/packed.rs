//! Packing changes nothing of what is read, and never leaves half of something.

use crate::fault::{complaint, contents, finish, names};
use crate::*;
use forebay::loader::Batch;
use std::fs::create_dir;
use std::os::unix::fs::symlink;
use std::process::Command;
use std::sync::atomic::{AtomicU64, Ordering};

#[test]
fn the_same_samples_names_and_classes() {
    let dir = both(40);
    let (data, shards) = (dir.path().join("data"), dir.path().join("packed"));
    let (list, tar) = (list(&data), tar(&shards));
    assert_eq!(tar.len(), 40);
    assert_eq!(tar.classes(), list.classes());
    assert_eq!(tar.fingerprint(40), list.fingerprint(40));
    let mut files = std::collections::BTreeSet::new();
    for id in 0..40 {
        assert_eq!((tar.label(id), tar.place(id)), (list.label(id), list.place(id)));
        assert_eq!(read(&tar, id), read(&list, id));
        files.insert(tar.file(id));
    }
    assert!(files.len() > 3, "{files:?}");
    assert!(tar.disagreements().is_empty());
    for file in files {
        assert!(fs::metadata(shards.join(file)).unwrap().len() <= 8192);
    }
    // And once more, packed from the packed.
    let again = dir.path().join("again");
    pack(&tar, &again, 8192, &|_| {}, &AtomicBool::new(false)).unwrap();
    assert!(contents(&again) == contents(&shards));
}

/// A pipeline for lists finds the shards by itself, and its epochs are the same.
#[test]
fn the_same_epochs() {
    let dir = both(23);
    let options = Options { batch_size: 4, threads: 2, ..Options::default() };
    let mut loaders = ["data", "packed"].map(|name| loader(&dir.path().join(name), &options));
    assert_eq!(loaders[0].identity(), loaders[1].identity());
    let bytes = |batch: Batch| {
        let images = batch.images().bytes.to_vec();
        (images, batch.labels().to_vec(), batch.ids().to_vec())
    };
    let mut epochs = loaders.each_mut().map(|loader| loader.epoch(3));
    loop {
        let [one, other] = epochs.each_mut().map(|epoch| epoch.next().map(|b| bytes(b.unwrap())));
        assert!(one == other);
        if one.is_none() {
            break;
        }
    }
}

fn forebay(dir: &Path, args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(args.split_whitespace()).current_dir(dir);
    command
}

fn done(dir: &Path, args: &str) -> String {
    let output = finish(&mut forebay(dir, args));
    assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn commands_read_what_pack_writes() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    jpegs(&dir.join("data/train"), 30);
    jpegs(&dir.join("data/valid"), 5);
    let told = done(dir, "pack --data data --to out --shard-size 8KiB");
    let lines: Vec<&str> = told.lines().collect();
    assert!(lines[0].starts_with("out/train: 30 samples in ") && lines.len() == 2, "{told}");
    assert!(lines[1].starts_with("out/valid: 5 samples in ") && lines[1].ends_with(", 1 MiB"));
    let digests = |data: &str| {
        let args = format!("bench --data {data} --batch-size 8 --epochs 2 --threads 2 --json");
        let json: serde_json::Value = serde_json::from_str(&done(dir, &args)).unwrap();
        json["epoch_digests"].clone()
    };
    assert_eq!(digests("data"), digests("out"));
    let told = done(dir, "check --data out");
    assert!(told.contains("out/train: 30 samples, 3 classes, jpeg of 32x32, no fault"), "{told}");
    done(dir, "dump --data out --out arrays --batch-size 8");
    done(dir, "preview --data out --out sheet.png");
    done(dir, "doctor --data out");
    for (args, told) in [
        ("bench --data out --baseline", "out/train holds tar shards"),
        ("check --data out --write-list x.txt", "out/train holds tar shards"),
        ("pack --data data/train --to data/train", "is the directory that is read"),
        ("pack --data data/train --to data/valid", "is there already, and not of a packing"),
        ("pack --data data/train --to x --list none.txt", "no none.txt or .tar files here"),
        ("pack --data . --to x --pipeline decode-only --list labels.txt", "no labels.txt"),
    ] {
        let (status, line) = complaint(&finish(&mut forebay(dir, args)));
        assert!(status == Some(1) && line.contains(told), "{args}: {line}");
    }
    assert_eq!(
        finish(&mut forebay(dir, "pack --data data --to x --shard-size 3TiB")).status.code(),
        Some(2)
    );
}

#[test]
fn class_folders_and_other_lists_are_packed() {
    let dir = tempfile::tempdir().unwrap();
    let dir = dir.path();
    for (id, name) in ["data/cat/1.jpg", "data/cat/2", "data/dog/x.png"].into_iter().enumerate() {
        fs::create_dir_all(dir.join(name).parent().unwrap()).unwrap();
        fs::write(dir.join(name), jpeg(16, id)).unwrap();
    }
    done(dir, "pack --data data --to folders");
    let tar = tar(&dir.join("folders"));
    assert_eq!(tar.classes(), ["cat", "dog"]);
    let samples: Vec<_> = (0..3).map(|id| (tar.place(id), tar.label(id))).collect();
    let expected = [("cat/1.jpg", 0), ("cat/2", 0), ("dog/x.png", 1)];
    assert_eq!(samples, expected.map(|(name, label)| (name.into(), label)));
    fs::write(dir.join("data/some.txt"), "dog/x.png 5\ncat/2 7\n").unwrap();
    done(dir, "pack --data data --to some --list some.txt");
    let some = crate::tar(&dir.join("some"));
    assert_eq!((some.len(), some.label(0), some.label(1), some.classes().len()), (2, 5, 7, 0));
    // An earlier packing is replaced by another one, whole.
    done(dir, "pack --data data --to folders --list some.txt --shard-size 1");
    assert_eq!(
        names(&dir.join("folders")),
        ["index.forebay", "shard-000000.tar", "shard-000001.tar"]
    );
    done(dir, "pack --data data --to folders --list some.txt");
    assert!(contents(&dir.join("folders")) == contents(&dir.join("some")));
}

/// What `tar` itself makes of a shard.
#[test]
fn other_programs_read_the_shards() {
    let dir = both(9);
    let out = dir.path().join("out");
    create_dir(&out).unwrap();
    let shards = dir.path().join("packed");
    for name in names(&shards).iter().filter(|name| name.ends_with(".tar")) {
        let mut tar = Command::new("tar");
        let Ok(output) = tar.arg("-xf").arg(shards.join(name)).current_dir(&out).output() else {
            return eprintln!("skipped: this system has no tar");
        };
        assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
    }
    let list = list(&dir.path().join("data"));
    let expected: Vec<_> = (0..9)
        .flat_map(|id| {
            let label = list.label(id).to_string().into_bytes();
            [(format!("{id:09}.cls"), label), (format!("{id:09}.jpg"), read(&list, id).unwrap())]
        })
        .collect();
    assert!(contents(&out) == expected);
}

#[test]
fn what_stops_packing_leaves_what_was_there() {
    let dir = both(20);
    let (data, shards) = (dir.path().join("data"), dir.path().join("packed"));
    let whole = contents(&shards);
    // Of a killed run, with more shards than there will be.
    fs::write(shards.join(".shard-000099.tar.partial"), "half").unwrap();
    let (stop, count) = (AtomicBool::new(false), AtomicU64::new(0));
    let progress = |n| {
        if count.fetch_add(n, Ordering::Relaxed) == 9 {
            stop.store(true, Ordering::Relaxed);
        }
    };
    let report = pack(&list(&data), &shards, 1 << 20, &progress, &stop).unwrap();
    assert!(!report.complete && contents(&shards) == whole, "{report:?}");

    fs::remove_file(data.join(list(&data).place(13))).unwrap();
    let failed = |to: &Path| {
        let result = pack(&list(&data), to, 1 << 20, &|_| {}, &AtomicBool::new(false));
        result.unwrap_err().to_string()
    };
    assert!(failed(&shards).contains("labels.txt:14: sample 13: part 1/13.JPG: cannot open"));
    assert!(contents(&shards) == whole);
    failed(&dir.path().join("new"));
    assert!(names(&dir.path().join("new")).is_empty());
}

/// Killed while names are changed: nobody takes the shards for a whole data set.
#[test]
fn an_unfinished_packing_is_told() {
    let dir = both(20);
    let (data, shards) = (dir.path().join("data"), dir.path().join("packed"));
    let whole = contents(&shards);
    let index = shards.join("index.forebay");
    fs::rename(&index, shards.join(".index.forebay.partial")).unwrap();
    fs::remove_file(shards.join("shard-000001.tar")).unwrap();
    let error = Loader::open(&shuffled(), &shards, &Options::default()).err().unwrap().to_string();
    assert!(
        error.ends_with("packed: packing was not finished here; run `forebay pack` again"),
        "{error}"
    );
    packed(&data, &shards, 8192);
    assert!(contents(&shards) == whole);
}

#[test]
fn archives_of_others_stay() {
    let dir = both(3);
    let (data, shards) = (dir.path().join("data"), dir.path().join("packed"));
    let refused = |to: &Path, told: &str| {
        let result = pack(&list(&data), to, 1 << 20, &|_| {}, &AtomicBool::new(false));
        let error = result.unwrap_err().to_string();
        assert!(error.contains(told), "{error}");
    };
    let other = dir.path().join("other");
    create_dir(&other).unwrap();
    fs::write(other.join("shard-000000.tar"), "theirs").unwrap();
    refused(&other, "other/shard-000000.tar: is there already, and no shard of forebay's");
    assert_eq!(fs::read(other.join("shard-000000.tar")).unwrap(), b"theirs");
    fs::copy(shards.join("shard-000000.tar"), shards.join("x.tar")).unwrap();
    refused(&shards, "packed/x.tar: is there already");
    let error = Tar::open(&shards, false).err().unwrap().to_string();
    assert!(
        error.ends_with("x.tar: is not in index.forebay: pack again, or move it away"),
        "{error}"
    );
}

/// Shards stay in their directory, whatever links lie there.
#[test]
fn links_do_not_lead_out() {
    let dir = both(3);
    let (shards, moved) = (dir.path().join("packed"), dir.path().join("moved.tar"));
    fs::rename(shards.join("shard-000000.tar"), &moved).unwrap();
    symlink("../moved.tar", shards.join("shard-000000.tar")).unwrap();
    let error = Tar::open(&shards, false).err().unwrap().to_string();
    assert!(error.contains("shard-000000.tar: ") && error.contains("link"), "{error}");
    assert_eq!(Tar::open(&shards, true).unwrap().len(), 3);
}
