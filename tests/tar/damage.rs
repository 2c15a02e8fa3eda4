//! Damaged archives and indexes that disagree: an error with shard and byte, or the bytes that were
//! packed, and never others.

use crate::archive::{archive, sample};
use crate::*;
use forebay::ErrorKind;
use proptest::prelude::*;
use std::path::PathBuf;
use xxhash_rust::xxh3::xxh3_64;

/// An archive of three samples, and the directory that it lies in.
fn small() -> (tempfile::TempDir, Vec<u8>) {
    let bytes = archive(&[
        sample("0", &[1; 700], "0"),
        sample("1", b"one", "1"),
        sample("2", &[2; 512], "2"),
    ]);
    let dir = tempfile::tempdir().unwrap();
    fs::write(dir.path().join("a.tar"), &bytes).unwrap();
    (dir, bytes)
}

#[test]
fn an_archive_that_is_cut_is_refused() {
    let (dir, whole) = small();
    let path = dir.path().join("a.tar");
    let cuts = (0..whole.len()).filter(|cut| cut % 512 == 0 || cut % 512 == 7);
    for cut in cuts.filter(|&cut| cut > 0) {
        fs::write(&path, &whole[..cut]).unwrap();
        match Tar::open(dir.path(), false) {
            // Of the archive's end one of its two blocks is enough.
            Ok(tar) => assert!(cut >= whole.len() - 512 && tar.len() == 3, "{cut}"),
            Err(error) => {
                assert!(cut < whole.len() - 512, "{cut}: {error}");
                let text = error.to_string();
                assert!(text.starts_with(&format!("{}: at byte ", path.display())), "{text}");
                assert!(text.contains("cut off"), "{text}");
                assert!(error.offset().unwrap() <= cut as u64 && error.kind() == ErrorKind::Data);
            }
        }
    }
}

/// Without an index nobody knows an image's bytes beforehand, and padding says nothing; any other byte
/// shows.
#[test]
fn bytes_of_headers_and_labels_show() {
    let (dir, whole) = small();
    let path = dir.path().join("a.tar");
    let headers = [0, 1536, 2560, 3584, 4608, 5632];
    let (labels, end) = ([2048, 4096, 6144], 6656);
    for at in (0..whole.len()).step_by(13).chain(labels) {
        let mut bytes = whole.clone();
        bytes[at] ^= 0x41;
        fs::write(&path, &bytes).unwrap();
        let shows = headers.contains(&(at / 512 * 512)) || labels.contains(&at) || at >= end;
        match Tar::open(dir.path(), false) {
            Err(error) => {
                assert!(shows && error.to_string().contains("at byte "), "{at}: {error}");
            }
            Ok(tar) => {
                assert!(!shows && tar.len() == 3, "{at}");
                for (id, image) in [(0, 512..1212), (1, 3072..3075), (2, 5120..5632)] {
                    assert_eq!(read(&tar, id).unwrap(), bytes[image], "{at}");
                }
            }
        }
    }
}

/// A packing to damage, and what was packed.
struct Packed {
    _dir: tempfile::TempDir,
    path: PathBuf,
    images: Vec<Vec<u8>>,
    labels: Vec<i64>,
}

impl Packed {
    fn new(n: usize) -> Packed {
        let dir = both(n);
        let list = list(&dir.path().join("data"));
        let images = (0..n as u64).map(|id| crate::read(&list, id).unwrap()).collect();
        let labels = (0..n as u64).map(|id| list.label(id)).collect();
        Packed { path: dir.path().join("packed"), _dir: dir, images, labels }
    }

    /// What is read is what was packed, or the error names shard, byte and sample. Whether all was
    /// read without one, and whether `check` finds nothing.
    fn is_whole(&self) -> (bool, bool) {
        let tar = match Tar::open(&self.path, false) {
            Ok(tar) => tar,
            Err(error) => {
                assert!(error.path().is_some(), "{error}");
                return (false, false);
            }
        };
        let mut whole = tar.len() == self.images.len() as u64;
        for id in 0..tar.len() {
            let mut found = Vec::new();
            match tar.read(id, &mut found) {
                Ok(_) => assert!(self.images.contains(&found), "sample {id} has bytes of no image"),
                Err(error) => {
                    let text = error.to_string();
                    assert!(text.contains(".tar: sample ") && text.contains(" at byte "), "{text}");
                    assert!(error.offset().is_some() && error.sample() == Some(id), "{text}");
                    whole = false;
                }
            }
            whole &= self.images.get(id as usize) == Some(&found)
                && self.labels.get(id as usize) == Some(&tar.label(id));
        }
        (whole, tar.disagreements().is_empty())
    }
}

#[test]
fn a_packed_image_is_its_own_bytes_or_an_error() {
    let packed = Packed::new(4);
    let path = packed.path.join("shard-000000.tar");
    let whole = fs::read(&path).unwrap();
    assert_eq!(packed.is_whole(), (true, true));
    for at in (0..whole.len()).step_by(7) {
        let mut bytes = whole.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(&path, &bytes).unwrap();
        let (read, agrees) = packed.is_whole();
        // What is neither an image nor said of one is padding; and a number's first zero may be a blank.
        assert!(!read || !agrees || whole[at] == 0 || bytes[at] == b' ', "{at}");
    }
    for cut in [0, 1, 512, 5000, whole.len() - 1] {
        fs::write(&path, &whole[..cut]).unwrap();
        let error = Tar::open(&packed.path, false).err().unwrap().to_string();
        let told = format!("has {cut} bytes, index.forebay says {}", whole.len());
        assert!(error.contains(&told) || cut == 0, "{error}");
    }
    fs::remove_file(&path).unwrap();
    let error = Tar::open(&packed.path, false).err().unwrap().to_string();
    assert!(error.ends_with("shard-000000.tar: cannot open: no such file or directory"), "{error}");
}

/// Each field of an index that says otherwise than the shards, with a checksum that fits.
#[test]
fn an_index_that_disagrees_is_found() {
    let packed = Packed::new(12);
    let path = packed.path.join("index.forebay");
    let whole = fs::read(&path).unwrap();
    let number = |at: usize| u64::from_le_bytes(whole[at..at + 8].try_into().unwrap()) as usize;
    let shards = u32::from_le_bytes(whole[12..16].try_into().unwrap()) as usize;
    let (samples, names) = (number(16), number(24));
    assert!(shards > 1 && samples == 12);
    let first = 32 + 24 * shards;
    let names = whole.len() - 8 - names..whole.len() - 8;
    for at in 0..whole.len() - 8 {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        let sum = xxh3_64(&bytes[..whole.len() - 8]).to_le_bytes();
        bytes[whole.len() - 8..].copy_from_slice(&sum);
        fs::write(&path, &bytes).unwrap();
        let (read, agrees) = packed.is_whole();
        // Names of the directory that was packed are in the index alone; so is where they start.
        let is_name = names.contains(&at)
            || (32..first).contains(&at) && (at - 32) % 24 >= 16
            || (first..names.start).contains(&at) && (at - first) % 24 >= 20;
        assert!(!(read && agrees) || is_name, "byte {at} of the index");
    }
    fs::write(&path, &whole[..whole.len() - 1]).unwrap();
    let error = Tar::open(&packed.path, false).err().unwrap().to_string();
    assert!(error.contains("index.forebay: has ") && error.ends_with("; pack again"), "{error}");
    // Of another packing, of the same shape.
    fs::write(&path, &whole).unwrap();
    assert_eq!(packed.is_whole(), (true, true));
    let other = Packed::new(12);
    let data = other.path.with_file_name("data");
    let list = fs::read_to_string(data.join("labels.txt")).unwrap();
    fs::write(data.join("labels.txt"), list.replace(" 1\n", " 2\n")).unwrap();
    crate::packed(&data, &other.path, 8192);
    fs::copy(other.path.join("shard-000000.tar"), packed.path.join("shard-000000.tar")).unwrap();
    let (read, agrees) = packed.is_whole();
    assert!(read && !agrees, "the labels differ");
    let error = tar(&packed.path).disagreements()[0].to_string();
    assert!(
        error.contains("with label 2, index.forebay says") && error.contains("with label 1"),
        "{error}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]
    /// Anything else: samples whose bytes are the archive's, or an error.
    #[test]
    fn changed_archives(changes in prop::collection::vec((0..6656_usize, any::<u8>()), 1..20)) {
        let (dir, mut bytes) = small();
        for (at, byte) in changes {
            let at = at % bytes.len();
            bytes[at] = byte;
            // As often as not the header is one.
            if byte % 2 == 0 {
                crate::archive::fit(&mut bytes[at / 512 * 512..][..512]);
            }
        }
        fs::write(dir.path().join("a.tar"), &bytes).unwrap();
        if let Ok(tar) = Tar::open(dir.path(), false) {
            for id in 0..tar.len() {
                let start = tar.locate(id, forebay::Error::spec("x")).offset().unwrap() as usize;
                let found = read(&tar, id).unwrap();
                prop_assert_eq!(&found[..], &bytes[start..start + found.len()]);
            }
        }
    }
}
