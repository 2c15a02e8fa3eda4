//! Tar archives, as others write them and with an index.

use crate::archive::{archive, file, member, pax, sample};
use crate::bodies::tar::CUT;
use forebay::dataset::pack::pack;
use forebay::reader::tar::Tar;
use std::fs;
use std::sync::atomic::AtomicBool;

pub(crate) fn tars() -> Vec<Vec<u8>> {
    let long = format!("{}/3", "d".repeat(150));
    let plain = archive(&[
        sample("a/1", b"one", "1"),
        file("a/1.json", b"{}"),
        sample("2", b"two\0", " 22\n"),
    ]);
    let extended = archive(&[
        member(b'5', "a/", b""),
        pax(b'g', "comment", "none"),
        member(b'L', "././@LongLink", format!("{long}.jpg\0").as_bytes()),
        file("x", b"three"),
        member(b'K', "././@LongLink", b"x\0"),
        pax(b'x', "path", &format!("{long}.cls")),
        file("x", b"3"),
        pax(b'x', "size", "1"),
        file("4.jpg", b"4"),
        file("4.cls", b"4"),
    ]);
    let refused = [b'1', b'2', b'3', b'S', b'M', b'?'];
    let mut seeds = vec![plain.clone(), extended, archive(&[]), Vec::new()];
    seeds.extend(refused.map(|kind| archive(&[member(kind, "1.jpg", b"")])));
    seeds.push([&plain[..], &plain].concat());
    seeds.push(indexed(&plain));
    seeds
}

/// The samples of `plain`, packed.
fn indexed(plain: &[u8]) -> Vec<u8> {
    let dir = tempfile::tempdir().expect("the temporary directory is writable");
    let to = dir.path().join("packed");
    fs::write(dir.path().join("a.tar"), plain).unwrap();
    let tar = Tar::open(dir.path(), false).unwrap();
    pack(&tar, &to, 1 << 20, &|_| {}, &AtomicBool::new(false)).unwrap();
    let read = |name: &str| fs::read(to.join(name)).unwrap();
    [&read("shard-000000.tar")[..], CUT, &read("index.forebay")].concat()
}
