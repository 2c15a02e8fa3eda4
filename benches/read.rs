//! Reading small files that the system has in memory: what a reader does for one, and each of its calls.
//!
//! `cargo bench --bench read`

use divan::Bencher;
use forebay::reader::Reader;
use forebay::reader::file_list::FileList;
use rustix::fs::{Mode, OFlags, ResolveFlags, fstat, open, openat, openat2};
use std::cell::Cell;
use std::ffi::CString;
use std::os::fd::OwnedFd;
use std::sync::LazyLock;

fn main() {
    divan::main();
}

const COUNT: usize = 4096;
/// The mean of CIFAR-10 as JPEG.
const BYTES: usize = 928;
const READ: OFlags =
    OFlags::RDONLY.union(OFlags::CLOEXEC).union(OFlags::NONBLOCK).union(OFlags::NOCTTY);
const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_MAGICLINKS);

/// The same files in the root and in a directory below it.
struct Files {
    list: FileList,
    root: OwnedFd,
    class: OwnedFd,
    names: Vec<CString>,
    deep: Vec<CString>,
    _dir: tempfile::TempDir,
}

static FILES: LazyLock<Files> = LazyLock::new(|| {
    let dir = tempfile::tempdir().unwrap();
    let class = dir.path().join("n01440764");
    std::fs::create_dir(&class).unwrap();
    let mut text = String::new();
    let mut names = Vec::new();
    for id in 0..COUNT {
        let name = format!("{id:06}.jpg");
        std::fs::write(dir.path().join(&name), [7; BYTES]).unwrap();
        std::fs::write(class.join(&name), [7; BYTES]).unwrap();
        text += &format!("{name} 0\n");
        names.push(name);
    }
    std::fs::write(dir.path().join("labels.txt"), text).unwrap();
    let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let c = |name: String| CString::new(name).unwrap();
    Files {
        list: FileList::open(dir.path(), "labels.txt", false).unwrap(),
        root: open(dir.path(), flags, Mode::empty()).unwrap(),
        class: open(&class, flags, Mode::empty()).unwrap(),
        deep: names.iter().map(|name| c(format!("n01440764/{name}"))).collect(),
        names: names.into_iter().map(c).collect(),
        _dir: dir,
    }
});

/// Times `body` for one file after another, in an order that no cache line foresees.
fn each(bencher: Bencher, body: impl Fn(&Files, usize)) {
    let files = &*FILES;
    let next = Cell::new(0);
    bencher.bench_local(|| {
        next.set((next.get() + 1597) % COUNT);
        body(files, next.get());
    });
}

#[divan::bench]
fn file_list(bencher: Bencher) {
    let buf = Cell::new(Vec::new());
    each(bencher, |files, file| {
        let mut bytes = buf.take();
        files.list.read(file as u64, &mut bytes).unwrap();
        buf.set(bytes);
    });
}

/// Open and close, the name resolved in one way or another.
#[divan::bench(args = ["openat", "openat2 beneath", "deep", "deep by its directory"])]
fn open_close(bencher: Bencher, way: &str) {
    each(bencher, |files, file| {
        let Files { root, class, names, deep, .. } = files;
        let beneath = |at, name| openat2(at, name, READ, Mode::empty(), BENEATH).unwrap();
        drop(match way {
            "openat" => openat(root, &names[file], READ, Mode::empty()).unwrap(),
            "openat2 beneath" => beneath(root, &names[file]),
            "deep" => beneath(root, &deep[file]),
            _ => beneath(class, &names[file]),
        });
    });
}

/// Of an open file.
#[divan::bench(args = ["fstat", "read", "read to the end"])]
fn opened(bencher: Bencher, call: &str) {
    let files = &*FILES;
    let file = openat(&files.root, &files.names[0], READ, Mode::empty()).unwrap();
    let mut bytes = [0_u8; 4096];
    bencher.bench_local(|| match call {
        "fstat" => fstat(&file).unwrap().st_size as usize,
        "read" => rustix::io::pread(&file, &mut bytes, 0).unwrap(),
        _ => rustix::io::pread(&file, &mut bytes, BYTES as u64).unwrap(),
    });
}
