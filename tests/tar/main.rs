//! Packed data: tar shards with an index and without, whole, damaged and cut while they are read.

#[path = "../common/archive.rs"]
mod archive;
mod cut;
mod damage;
#[path = "../common/fault.rs"]
mod fault;
mod foreign;
mod packed;

use forebay::dataset::pack::{Report, pack};
use forebay::graph::file::parse;
use forebay::graph::spec::Spec;
use forebay::loader::{Loader, Options};
use forebay::reader::file_list::FileList;
use forebay::reader::tar::Tar;
use forebay::reader::{Content, Reader};
use std::fs;
use std::path::Path;
use std::sync::atomic::AtomicBool;
use turbojpeg::{Image, PixelFormat, Subsamp};

/// A JPEG file of `side` x `side` pixels, another one for each `id`.
fn jpeg(side: usize, id: usize) -> Vec<u8> {
    let pixels: Vec<u8> =
        (0..3 * side * side).map(|i| ((i * (id + 3)) ^ (i / side)) as u8).collect();
    let format = PixelFormat::RGB;
    let image = Image { pixels: &pixels[..], width: side, pitch: 3 * side, height: side, format };
    turbojpeg::compress(image, 75, Subsamp::Sub2x2).unwrap().to_vec()
}

/// Puts `n` JPEG files into `dir`, in two directories, and their list.
fn jpegs(dir: &Path, n: usize) {
    let mut list = String::new();
    for id in 0..n {
        let name = format!("part {}/{id}.JPG", id % 2);
        fs::create_dir_all(dir.join(&name).parent().unwrap()).unwrap();
        fs::write(dir.join(&name), jpeg(32, id)).unwrap();
        list += &format!("{name} {}\n", id * 7 % 3);
    }
    fs::write(dir.join("labels.txt"), list).unwrap();
    fs::write(dir.join("classes.txt"), "cat\ndog\nfox\n").unwrap();
}

fn list(dir: &Path) -> FileList {
    FileList::open(dir, "labels.txt", false).unwrap()
}

/// Packs what is listed in `from`.
fn packed(from: &Path, to: &Path, shard_bytes: u64) -> Report {
    pack(&list(from), to, shard_bytes, &|_| {}, &AtomicBool::new(false)).unwrap()
}

/// A directory `data` of `n` images and its packing `packed`, in shards of some 8 KiB.
fn both(n: usize) -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    jpegs(&dir.path().join("data"), n);
    packed(&dir.path().join("data"), &dir.path().join("packed"), 8192);
    dir
}

fn tar(dir: &Path) -> Tar {
    Tar::open(dir, false).unwrap()
}

fn read(reader: &dyn Reader, id: u64) -> Result<Vec<u8>, String> {
    let mut buf = b"of an earlier sample".to_vec();
    let content = reader.read(id, &mut buf).map_err(|e| e.to_string())?;
    assert_eq!(content, Content::Encoded);
    Ok(buf)
}

/// Pixels as they were decoded, shuffled.
fn shuffled() -> Spec {
    parse("[reader]\nshuffle = true\n[output]\nlayout = \"HWC\"\ndtype = \"u8\"\n").unwrap()
}

fn loader(dir: &Path, options: &Options) -> Loader {
    Loader::open(&shuffled(), dir, options).unwrap()
}
