//! Archives that others wrote, without an index.

use crate::archive::{archive, file, fit, member, pax, sample};
use crate::*;
use forebay::reader::tar::{has_shards, is_packed};
use std::process::Command;

/// A directory with one archive.
fn shard(members: &[Vec<u8>]) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.tar"), archive(members)).unwrap();
    dir
}

/// Name, label and bytes of each sample.
fn samples(tar: &Tar) -> Vec<(String, i64, Vec<u8>)> {
    let sample = |id| {
        let place = tar.place(id).into_os_string().into_string().unwrap();
        (place, tar.label(id), read(tar, id).unwrap())
    };
    (0..tar.len()).map(sample).collect()
}

#[test]
fn members_of_one_key_are_a_sample() {
    let dir = shard(&[
        member(b'5', "d/", b""),
        file("d/1.cls", b" 7\n"),
        file("d/1.json", b"{}"),
        file("d/1.JPEG", b"one"),
        file("__meta__/x.jpg", b"no sample"),
        file(".hidden.jpg", b"no sample"),
        file("README", b"no sample"),
        sample("d/2", b"two\0", "0"),
        pax(b'g', "comment", "a global header without a name"),
        sample("2", b"", "9223372036854775807"),
    ]);
    fs::write(dir.path().join("b.tar"), archive(&[sample("1", b"b", "3")])).unwrap();
    // Neither is a shard of the directory.
    fs::write(dir.path().join(".c.tar"), "hidden").unwrap();
    fs::write(dir.path().join("c.tar.gz"), "packed").unwrap();
    let tar = tar(dir.path());
    let expected = [
        ("a.tar/d/1.JPEG", 7, &b"one"[..]),
        ("a.tar/d/2.jpg", 0, b"two\0"),
        ("a.tar/2.jpg", i64::MAX, b""),
        ("b.tar/1.jpg", 3, b"b"),
    ];
    assert_eq!(samples(&tar), expected.map(|(n, l, b)| (n.to_string(), l, b.to_vec())));
    assert!(tar.disagreements().is_empty() && tar.classes().is_empty());
    let error = forebay::Error::new(forebay::ErrorKind::Decode, "x").at_offset(2);
    let error = tar.locate(3, error);
    let path = dir.path().join("b.tar");
    assert_eq!(error.to_string(), format!("{}: sample 3: 1.jpg at byte 512: x", path.display()));
    assert_eq!((error.offset(), error.sample(), tar.file(3)), (Some(514), Some(3), "b.tar".into()));

    fs::write(dir.path().join("classes.txt"), "cat\ndog\n").unwrap();
    let error = Tar::open(dir.path(), false).err().unwrap().to_string();
    assert!(error.ends_with("label 7, but classes.txt names 2"), "{error}");
}

#[test]
fn long_names_and_sizes_are_followed() {
    let long = format!("{}/17", "directory".repeat(30));
    let jpg = format!("{long}.jpg");
    let mut wide = file("cut.jpg", b"image");
    wide[124..136].copy_from_slice(b"\x80\0\0\0\0\0\0\0\0\0\0\x05");
    fit(&mut wide);
    let mut ancient = file("old.jpg", b"image");
    ancient[156] = 0;
    ancient[257..265].fill(0);
    fit(&mut ancient);
    let mut sized = file("sized.jpg", b"image");
    sized[124..136].fill(b'0');
    fit(&mut sized);
    let dir = shard(&[
        member(b'L', "././@LongLink", format!("{jpg}\0").as_bytes()),
        file(&jpg, b"gnu"),
        member(b'K', "././@LongLink", b"a link's target\0"),
        member(b'L', "././@LongLink", format!("{long}.cls\0").as_bytes()),
        file(&long, b"1"),
        pax(b'x', "path", "p/\u{e9}.jpg"),
        file("x", b"pax"),
        pax(b'x', "path", "p/\u{e9}.cls"),
        file("x", b"2"),
        wide,
        file("cut.cls", b"3"),
        ancient,
        file("old.cls", b"4"),
        pax(b'x', "size", "5"),
        sized,
        file("sized.cls", b"5"),
    ]);
    let found = samples(&tar(dir.path()));
    let expected = [
        (jpg.as_str(), 1, &b"gnu"[..]),
        ("p/\u{e9}.jpg", 2, b"pax"),
        ("cut.jpg", 3, b"image"),
        ("old.jpg", 4, b"image"),
        ("sized.jpg", 5, b"image"),
    ];
    assert_eq!(found, expected.map(|(n, l, b)| (format!("a.tar/{n}"), l, b.to_vec())));
}

#[test]
fn what_is_no_sample_is_refused_with_its_byte() {
    let good = || sample("0", b"image", "0");
    let named = |kind| vec![good(), member(kind, "1.jpg", b"")];
    let cases: Vec<(Vec<Vec<u8>>, u64, &str)> = vec![
        (vec![good(), file("1.jpg", b"x")], 2560, "sample \"1\" has no .cls member"),
        (vec![good(), file("1.cls", b"1")], 2560, "sample \"1\" has no image"),
        (
            vec![file("1.jpg", b"x"), good(), file("1.cls", b"1")],
            512,
            "has no .cls member with its label (.json and .txt are not read); its members must follow",
        ),
        (vec![sample("1", b"x", "1"), file("1.png", b"x")], 2560, "has several images"),
        (vec![sample("1", b"x", "1"), file("1.cls", b"x")], 2560, "has two labels"),
        (vec![sample("1", b"x", "-1")], 1536, "is \"-1\", expected an integer from 0 up"),
        (vec![sample("1", b"x", "")], 1536, "is \"\", expected"),
        (vec![sample("1", b"x", "9223372036854775808")], 1536, "expected an integer"),
        (vec![sample("1", b"x", &"1".repeat(65))], 1536, "is 65 bytes long"),
        (named(b'1'), 2048, "a link"),
        (named(b'2'), 2048, "a link"),
        (named(b'6'), 2048, "a device or FIFO"),
        (named(b'S'), 2048, "a sparse file"),
        (named(b'V'), 2048, "several volumes"),
        (named(b'?'), 2048, "of a kind that is not known"),
        (vec![pax(b'x', "GNU.sparse.major", "1")], 0, "a sparse file"),
        (vec![pax(b'g', "path", "x")], 0, "gives all files one name"),
        (vec![pax(b'x', "size", "x")], 0, "records are none"),
        (vec![member(b'x', "x", b"8 path=x\n")], 0, "records are none"),
        (vec![member(b'x', "x", b"99 path=x\n")], 0, "records are none"),
        (vec![member(b'x', "x", b"10 path=\0\n")], 0, "a NUL byte"),
        (vec![good(), pax(b'x', "path", "x")], 3072, "where a file is announced"),
        (vec![good(), vec![7; 512]], 2048, "no header of a tar archive"),
        (vec![good(), vec![0; 1024], good()], 3072, "bytes behind the archive's end"),
    ];
    for (members, at, told) in cases {
        let dir = shard(&members);
        let error = Tar::open(dir.path(), false).err().unwrap_or_else(|| panic!("{told}"));
        let text = error.to_string();
        assert!(text.contains(told), "{told}: {text}");
        assert!(text.starts_with(&format!("{}: at byte ", dir.path().join("a.tar").display())));
        assert_eq!(error.offset(), Some(at), "{text}");
    }
    for (members, told) in
        [(vec![], "no sample in its 1 .tar files"), (vec![file("x", b"")], "no sample")]
    {
        let dir = shard(&members);
        let error = Tar::open(dir.path(), false).err().unwrap().to_string();
        assert!(error.contains(told), "{error}");
    }
    let dir = tempfile::tempdir().unwrap();
    assert!(
        Tar::open(dir.path(), false).err().unwrap().to_string().ends_with("no .tar file in it")
    );
    fs::write(dir.path().join("a.tar"), "").unwrap();
    let error = Tar::open(dir.path(), false).err().unwrap().to_string();
    assert!(error.ends_with("a.tar: the file is empty"), "{error}");
}

#[test]
fn an_image_above_the_limit_is_refused() {
    let dir = shard(&[sample("1", b"image", "1")]);
    let error = read(&tar(dir.path()).with_limit(4), 0).unwrap_err();
    let told = "1.jpg at byte 512: has 5 bytes, above the limit of 4 (--max-file-bytes raises it)";
    assert!(error.ends_with(told), "{error}");
    assert_eq!(read(&tar(dir.path()).with_limit(5), 0).unwrap(), b"image");
}

/// Every format that GNU tar writes, with names that no header has room for.
#[test]
fn gnu_tars_archives() {
    let dir = tempfile::tempdir().unwrap();
    let data = dir.path().join("data");
    let long = format!("{}/{}", "d".repeat(90), "f".repeat(95));
    for (key, label) in [("1", "3"), (long.as_str(), "4")] {
        let path = data.join(key);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path.with_extension("jpg"), format!("image {key}")).unwrap();
        fs::write(path.with_extension("cls"), label).unwrap();
    }
    for format in ["v7", "oldgnu", "gnu", "ustar", "posix"] {
        let shards = dir.path().join(format);
        fs::create_dir(&shards).unwrap();
        let mut command = Command::new("tar");
        command.args(["--sort=name", "--format", format, "-cf"]).arg(shards.join("0.tar"));
        // The oldest has no room for the long name.
        let names: &[&str] = if format == "v7" { &["1.cls", "1.jpg"] } else { &["."] };
        let Ok(output) = command.args(names).current_dir(&data).output() else {
            return eprintln!("skipped: this system has no tar");
        };
        assert!(output.status.success(), "{format}: {output:?}");
        let tar = tar(&shards);
        let mut found = samples(&tar);
        found.sort();
        let mut labels: Vec<i64> = found.iter().map(|(_, label, _)| *label).collect();
        labels.sort_unstable();
        assert_eq!(labels, if format == "v7" { vec![3] } else { vec![3, 4] }, "{format}");
        for (name, label, bytes) in found {
            let key = if label == 3 { "1" } else { long.as_str() };
            assert!(name.ends_with(&format!("{key}.jpg")), "{format}: {name}");
            assert_eq!(bytes, format!("image {key}").into_bytes());
        }
    }
}

/// What class folders were unpacked from may lie beside them; asked for by name it is read.
#[test]
fn an_archive_beside_directories_is_no_data_set() {
    let dir = shard(&[sample("1", b"one", "0")]);
    assert!(is_packed(dir.path()) && has_shards(dir.path()));
    fs::create_dir(dir.path().join("cats")).unwrap();
    assert!(!is_packed(dir.path()) && has_shards(dir.path()));
    assert_eq!(samples(&Tar::open(dir.path(), false).unwrap()).len(), 1);
}
