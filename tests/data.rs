//! Readers on real directories: what they take, and how they refuse the rest.

use forebay::reader::cifar10::Cifar10;
use forebay::reader::file_list::FileList;
use forebay::reader::folders::Folders;
use forebay::reader::{Content, Reader};
use rustix::fs::{CWD, FileType, mknodat};
use std::fs::{File, create_dir, create_dir_all, write};
use std::os::unix::fs::{FileExt, symlink};
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// A data directory `data` with one image, and a file beside the directory.
fn data() -> (TempDir, PathBuf) {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    create_dir(&data).unwrap();
    write(data.join("a b.jpg"), b"image").unwrap();
    write(dir.path().join("outside"), b"outside").unwrap();
    (dir, data)
}

fn read(reader: &dyn Reader, id: u64) -> Result<Vec<u8>, String> {
    let mut buf = b"of an earlier sample".to_vec();
    let content = reader.read(id, &mut buf).map_err(|e| e.to_string())?;
    assert_eq!(content, Content::Encoded);
    Ok(buf)
}

fn fault<T>(result: Result<T, forebay::Error>) -> String {
    let message = result.err().expect("an error").to_string();
    assert!(!message.contains('\n'), "{message}");
    message
}

#[test]
fn file_list_errors_name_list_line_and_file() {
    let (_dir, data) = data();
    create_dir(data.join("sub")).unwrap();
    symlink("../outside", data.join("out")).unwrap();
    mknodat(CWD, data.join("fifo"), FileType::Fifo, 0o600.into(), 0).unwrap();
    write(data.join("empty"), b"").unwrap();
    let list = "a b.jpg 3\n\nnope 0\nsub 0\nout 0\nfifo 0\na b.jpg 4\r\nempty 1";
    write(data.join("labels.txt"), list).unwrap();
    let reader = FileList::open(&data, "labels.txt", false).unwrap();
    assert_eq!((reader.len(), reader.label(0), reader.label(5)), (7, 3, 4));
    assert_eq!(reader.place(5), Path::new("a b.jpg"));
    assert_eq!(read(&reader, 0).unwrap(), b"image");
    assert_eq!(read(&reader, 5).unwrap(), b"image");
    assert_eq!(read(&reader, 6).unwrap(), b"");
    let list = data.join("labels.txt");
    for (id, expected) in [
        (1, "3: sample 1: nope: cannot open: no such file or directory"),
        (2, "4: sample 2: sub: is a directory, not a regular file"),
        (4, "6: sample 4: fifo: is a FIFO, not a regular file"),
    ] {
        assert_eq!(read(&reader, id).unwrap_err(), format!("{}:{expected}", list.display()));
    }
    assert!(read(&reader, 3).unwrap_err().contains(":5: sample 3: out: "));
    let reader = FileList::open(&data, "labels.txt", true).unwrap();
    assert_eq!(read(&reader, 3).unwrap(), b"outside");
    let error = read(&reader.with_limit(4), 0).unwrap_err();
    assert!(
        error.ends_with("a b.jpg: has 5 bytes, above the limit of 4 (--max-file-bytes raises it)"),
        "{error}"
    );
}

#[test]
fn file_list_open() {
    let (_dir, data) = data();
    assert_eq!(
        fault(FileList::open(&data, "labels.txt", false)),
        format!("{}/labels.txt: cannot open: no such file or directory", data.display())
    );
    let nowhere = data.join("nowhere");
    assert_eq!(
        fault(FileList::open(&nowhere, "labels.txt", false)),
        format!("{}: cannot open directory: no such file or directory", nowhere.display())
    );
    for list in ["../outside", "/etc/hostname", "a\0b"] {
        fault(FileList::open(&data, list, false));
    }
    symlink("../outside", data.join("link.txt")).unwrap();
    fault(FileList::open(&data, "link.txt", false));
    write(data.join("labels.txt"), "a b.jpg 0\na b.jpg two\n").unwrap();
    assert_eq!(
        fault(FileList::open(&data, "labels.txt", false)),
        format!(
            "{}/labels.txt:2: the label is \"two\", expected an integer from 0 up",
            data.display()
        )
    );
}

#[test]
fn file_list_takes_class_names_from_beside_it() {
    let (_dir, data) = data();
    create_dir(data.join("lists")).unwrap();
    write(data.join("lists/l.txt"), "\na b.jpg 1\n").unwrap();
    let open = || FileList::open(&data, "lists/l.txt", false);
    assert!(open().unwrap().classes().is_empty());
    write(data.join("lists/classes.txt"), "\u{FEFF}cat\r\nbig dog\r\n\r\n").unwrap();
    assert_eq!(open().unwrap().classes(), ["cat", "big dog"]);
    write(data.join("lists/classes.txt"), "cat\n").unwrap();
    assert!(fault(open()).ends_with("l.txt:2: label 1, but classes.txt names 1"));
    write(data.join("lists/classes.txt"), "cat\n\ndog\n").unwrap();
    assert!(fault(open()).ends_with("classes.txt:2: a class without a name"));
    write(data.join("lists/classes.txt"), b"\xFF\xFE").unwrap();
    assert!(fault(open()).ends_with("classes.txt: is not UTF-8 text"));
    // Without names any label will do.
    std::fs::remove_file(data.join("lists/classes.txt")).unwrap();
    write(data.join("lists/l.txt"), "a b.jpg 9223372036854775807\n").unwrap();
    assert_eq!(open().unwrap().label(0), i64::MAX);
}

#[test]
fn folders() {
    let (dir, data) = data();
    for class in ["b", "a", "a10", "a2", ".hidden", "empty", "é"] {
        create_dir(data.join(class)).unwrap();
        if class != "empty" {
            write(data.join(class).join("2"), class).unwrap();
            write(data.join(class).join("10"), class).unwrap();
            write(data.join(class).join(".DS_Store"), class).unwrap();
        }
    }
    create_dir(data.join("b/deeper")).unwrap();
    let reader = Folders::open(&data, false).unwrap();
    assert_eq!(reader.classes(), ["a", "a10", "a2", "b", "empty", "é"]);
    assert_eq!(
        reader.warnings(),
        ["class \"b\": the directory \"deeper\" in it is not read", "class \"empty\" has no file"]
    );
    assert_eq!(reader.len(), 10);
    let places = ["a/10", "a/2", "a10/10", "a10/2", "a2/10", "a2/2", "b/10", "b/2", "é/10", "é/2"];
    for (id, place) in places.iter().enumerate() {
        let id = id as u64;
        assert_eq!(reader.place(id), Path::new(place));
        let class = &reader.classes()[reader.label(id) as usize];
        assert_eq!(&read(&reader, id).unwrap(), class.as_bytes());
    }

    // Links to directories are classes as long as they stay; others are found at open.
    symlink("b", data.join("c")).unwrap();
    assert_eq!(Folders::open(&data, false).unwrap().classes().len(), 7);
    create_dir(dir.path().join("other")).unwrap();
    write(dir.path().join("other/1"), b"other").unwrap();
    symlink("../other", data.join("d")).unwrap();
    assert!(fault(Folders::open(&data, false)).starts_with(&format!("{}/d: ", data.display())));
    assert_eq!(Folders::open(&data, true).unwrap().classes().len(), 8);

    let error = reader.locate(1, forebay::Error::new(forebay::ErrorKind::Decode, "broken"));
    assert_eq!(error.to_string(), format!("{}/a/2: sample 1: broken", data.display()));
}

#[test]
fn folders_without_samples() {
    let (_dir, data) = data();
    assert!(
        fault(Folders::open(&data, false)).ends_with("no directory in it; expected one a class")
    );
    create_dir(data.join("a")).unwrap();
    assert!(
        fault(Folders::open(&data, false)).ends_with("no file in any of its 1 class directories")
    );
}

/// The valid part of CIFAR-10 with black images of class 0: a file of the right size with a hole.
fn black_cifar10(dir: &Path) -> File {
    create_dir_all(dir).unwrap();
    let file = File::create(dir.join("test_batch.bin")).unwrap();
    file.set_len(30_730_000).unwrap();
    file
}

#[test]
fn cifar10() {
    let (_dir, data) = data();
    let inner = data.join("cifar-10-batches-bin");
    let file = black_cifar10(&inner);
    let record: Vec<u8> =
        [7].into_iter().chain((0..3072).map(|i| (i / 1024 * 100) as u8)).collect();
    file.write_all_at(&record, 3073 * 9_999).unwrap();
    for dir in [&data, &inner] {
        let reader = Cifar10::open(dir, false).unwrap();
        assert_eq!((reader.len(), reader.label(0), reader.label(9_999)), (10_000, 0, 7));
        assert_eq!(reader.classes()[7], "horse");
        let mut buf = Vec::new();
        let content = reader.read(9_999, &mut buf).unwrap();
        assert_eq!(content, Content::Planar { height: 32, width: 32 });
        assert_eq!(buf, &record[1..]);
    }
    let names = "0\n1\n2\n3\n4\n5\n6\n7\n8\n9\n\n";
    write(inner.join("batches.meta.txt"), names).unwrap();
    assert_eq!(Cifar10::open(&data, false).unwrap().classes()[7], "7");
    write(inner.join("batches.meta.txt"), &names[2..]).unwrap();
    assert!(fault(Cifar10::open(&data, false)).ends_with("names 9 classes, expected 10"));
    write(inner.join("batches.meta.txt"), names).unwrap();

    let missing = fault(Cifar10::open(&data, true));
    assert!(
        missing.ends_with("data_batch_1.bin: cannot read: no such file or directory"),
        "{missing}"
    );
    file.write_all_at(&[10], 3073 * 17).unwrap();
    assert!(fault(Cifar10::open(&data, false)).ends_with("record 17 has label 10, above 9"));
    for length in [0, 1, 30_729_999, 30_730_001, 30_730_000 + 3073] {
        file.set_len(length).unwrap();
        let error = fault(Cifar10::open(&data, false));
        assert!(error.contains(&format!("has {length} bytes, expected 30730000")), "{error}");
    }
}
