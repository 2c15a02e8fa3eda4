//! Files that are not what they were when they were listed, and files that never end.

use crate::fault::{complaint, ends, fifo, finish, names, unprivileged};
use crate::{decode_only, forebay, jpeg, jpegs};
use forebay::dataset::export::{Jpeg, Subsampling, export};
use forebay::graph::spec::ReaderKind;
use forebay::loader::{Loader, Options};
use forebay::reader::cifar10::Cifar10;
use forebay::reader::{Content, Reader};
use std::fs::{self, File, OpenOptions, Permissions};
use std::os::unix::fs::{FileExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::atomic::AtomicBool;

/// What becomes of `path` between listing and reading, and how that is told.
type Fault = (&'static str, fn(&Path), &'static str);

const FAULTS: &[Fault] = &[
    ("deleted", |path| fs::remove_file(path).unwrap(), "cannot open: no such file or directory"),
    ("cut short", |path| cut(path, 300), "truncated JPEG: "),
    ("emptied", |path| cut(path, 0), "the file is empty"),
    ("a directory", |path| replaced(path, |path| fs::create_dir(path).unwrap()), "is a directory"),
    ("a FIFO", |path| replaced(path, fifo), "is a FIFO, not a regular file"),
    ("a device", |path| replaced(path, |path| symlink("/dev/zero", path).unwrap()), "link"),
    ("a link out", |path| replaced(path, |path| symlink("../other", path).unwrap()), "link"),
    ("a link to itself", |path| replaced(path, |path| symlink("2.jpg", path).unwrap()), "link"),
    ("another file", |path| fs::write(path, b"hello").unwrap(), "unsupported: looks like text"),
    (
        "larger",
        |path| fs::write(path, jpeg(64, 2)).unwrap(),
        "is 32x32 but sample 2 (2.jpg) is 64x64",
    ),
];

fn cut(path: &Path, length: u64) {
    OpenOptions::new().write(true).open(path).unwrap().set_len(length).unwrap();
}

fn replaced(path: &Path, by: impl Fn(&Path)) {
    fs::remove_file(path).unwrap();
    by(path);
}

#[test]
fn a_file_that_changed_is_named_and_the_rest_is_read() {
    for &(what, fault, told) in FAULTS {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().join("data");
        fs::create_dir(&data).unwrap();
        fs::write(dir.path().join("other"), jpeg(32, 2)).unwrap();
        jpegs(&data, 9, 32);
        let options = Options { batch_size: 3, threads: 2, prefetch: 0, ..Options::default() };
        let mut loader = Loader::open(&decode_only(), &data, &options).unwrap();
        fault(&data.join("2.jpg"));
        let (error, rest) = ends(move || {
            let error = loader.epoch(0).next().unwrap().err();
            (error, loader.epoch_from(0, 1).filter(Result::is_ok).count())
        });
        let error = error.unwrap_or_else(|| panic!("{what}: no error")).to_string();
        assert!(error.contains("2.jpg") && error.contains(told), "{what}: {error}");
        assert_eq!(rest, 2, "{what}");
    }
}

#[test]
fn a_right_that_was_taken_away_is_told() {
    let dir = tempfile::tempdir().unwrap();
    jpegs(dir.path(), 3, 32);
    let mode = |name: &str, mode| {
        fs::set_permissions(dir.path().join(name), Permissions::from_mode(mode)).unwrap();
    };
    let run = |args: &str| {
        let mut command = unprivileged(env!("CARGO_BIN_EXE_forebay"));
        complaint(&finish(command.args(args.split_whitespace()).current_dir(dir.path())))
    };
    mode("1.jpg", 0o000);
    let (status, line) = run("bench --data . --device cpu --epochs 1");
    let told = "labels.txt:2: sample 1: 1.jpg: cannot open: permission denied";
    assert!(status == Some(1) && line.contains(told), "{line}");
    mode("labels.txt", 0o000);
    let (_, line) = run("bench --data . --device cpu --epochs 1");
    assert!(line.contains("labels.txt: cannot open: permission denied"), "{line}");

    fs::create_dir_all(dir.path().join("out/train")).unwrap();
    mode("out/train", 0o500);
    let (status, line) = run("export shapes --to out --train 4 --valid 4");
    let told = ".jpg: cannot write: permission denied";
    assert!(status == Some(1) && line.contains("out/train/") && line.contains(told), "{line}");
    assert!(names(&dir.path().join("out/train")).is_empty());
    mode("out/train", 0o700);
}

/// Each name that leads to a FIFO nobody writes to is refused at once, with the reason.
#[test]
fn nothing_waits_for_a_fifo() {
    let dir = tempfile::tempdir().unwrap();
    let path = |name: &str| dir.path().join(name);
    for name in ["list", "classes", "image", "cifar", "meta"] {
        fs::create_dir(path(name)).unwrap();
        jpegs(&path(name), 3, 32);
    }
    fs::remove_file(path("list/labels.txt")).unwrap();
    let black = |name: &str| File::create(path(name)).unwrap().set_len(30_730_000).unwrap();
    (1..=5).for_each(|i| black(&format!("meta/data_batch_{i}.bin")));
    black("meta/test_batch.bin");
    fs::remove_file(path("image/0.jpg")).unwrap();
    for (name, args) in [
        ("list/labels.txt", "check --data list"),
        ("list/labels.txt", "bench --data list --epochs 1"),
        ("classes/classes.txt", "check --data classes"),
        ("image/0.jpg", "check --data image"),
        ("image/0.jpg", "dump --data image --out out"),
        ("pipeline.toml", "bench --data image --pipeline pipeline.toml"),
        ("pipeline.toml", "explain --pipeline ./pipeline.toml"),
        ("cifar/data_batch_1.bin", "export cifar10 --from cifar --to out"),
        ("meta/batches.meta.txt", "export cifar10 --from meta --to out"),
    ] {
        if !path(name).exists() {
            fifo(&path(name));
        }
        let output = finish(&mut forebay(dir.path(), args));
        let text = [output.stdout, output.stderr].concat();
        let text = String::from_utf8_lossy(&text);
        let file = name.rsplit('/').next().unwrap();
        let told =
            |line: &str| line.contains(file) && line.contains("is a FIFO, not a regular file");
        assert!(output.status.code() == Some(1) && text.lines().any(told), "{args}: {text}");
    }
}

/// CIFAR-10's test batch with black images of class 0, as a file with a hole.
fn black_cifar10(dir: &Path) -> File {
    let file = File::create(dir.join("test_batch.bin")).unwrap();
    file.set_len(30_730_000).unwrap();
    file
}

#[test]
fn cifar10_cut_short_under_its_reader_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    let file = black_cifar10(dir.path());
    file.write_all_at(&[200; 3072], 3073 * 7 + 1).unwrap();
    let cifar10 = Cifar10::open(dir.path(), false).unwrap();
    let mut spec = decode_only();
    spec.reader.kind = ReaderKind::Cifar10 { train: false };
    let options = Options { batch_size: 50, threads: 2, ..Options::default() };
    let mut loader = Loader::open(&spec, dir.path(), &options).unwrap();

    // In the middle of record 60.
    file.set_len(3073 * 60 + 100).unwrap();
    let mut pixels = Vec::new();
    for id in [0, 7, 59] {
        let content = cifar10.read(id, &mut pixels).unwrap();
        assert_eq!(content, Content::Planar { height: 32, width: 32 });
        assert_eq!(pixels, [if id == 7 { 200 } else { 0 }; 3072]);
    }
    let told = "test_batch.bin: sample 60: has been cut short since it was opened: no record 60";
    let error = cifar10.read(60, &mut pixels).unwrap_err().to_string();
    assert!(error.ends_with(told), "{error}");
    assert!(cifar10.read(9_999, &mut pixels).is_err());
    let error = ends(move || {
        let mut epoch = loader.epoch(0);
        assert_eq!(epoch.next().unwrap().unwrap().len(), 50);
        epoch.next().unwrap().err().unwrap().to_string()
    });
    assert!(error.ends_with(told), "{error}");

    // As a source of an export: no list, and nothing that is half.
    let to = dir.path().join("to");
    let jpeg = Jpeg { quality: 75, subsampling: Subsampling::S420 };
    let error = export(&cifar10, &to, jpeg, &|_| {}, &AtomicBool::new(false)).unwrap_err();
    assert!(error.to_string().contains("test_batch.bin: has been cut short"), "{error}");
    assert!(names(&to).iter().all(|name| name.ends_with(".jpg")), "{:?}", names(&to));
}
