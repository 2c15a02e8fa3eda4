//! Tar shards: an archive as others write it, or one with an index.

use super::{folder, refusal};
use forebay::reader::Reader;
use forebay::reader::tar::Tar;
use forebay::{Error, ErrorKind};
use std::fs;
use std::path::PathBuf;
use tempfile::TempDir;
use xxhash_rust::xxh3::xxh3_64;

/// What follows it is `index.forebay`, of the shard before it; without it there is no index.
pub const CUT: &[u8] = b"\n=index=\n";

thread_local! {
    static TREE: Tree = Tree::new();
}

/// A directory with one archive, and one with a shard and an index.
struct Tree {
    _folder: TempDir,
    plain: PathBuf,
    packed: PathBuf,
}

impl Tree {
    fn new() -> Tree {
        let folder = folder();
        let [plain, packed] = ["plain", "packed"].map(|name| folder.path().join(name));
        for dir in [&plain, &packed] {
            fs::create_dir(dir).unwrap();
        }
        Tree { _folder: folder, plain, packed }
    }
}

/// Samples whose bytes are the archive's own, or errors.
pub fn run(bytes: &[u8]) -> String {
    let mut bytes = bytes.to_vec();
    fit(&mut bytes);
    let cut = bytes.windows(CUT.len()).position(|window| window == CUT);
    TREE.with(|tree| match cut {
        None => {
            fs::write(tree.plain.join("a.tar"), &bytes).unwrap();
            told(&bytes, Tar::open(&tree.plain, false))
        }
        Some(at) => {
            let (shard, mut index) = (&bytes[..at], bytes[at + CUT.len()..].to_vec());
            // Chance seldom makes the checksum right, and the shard's size.
            if index.len() >= 64 {
                index[32..40].copy_from_slice(&(shard.len() as u64).to_le_bytes());
                let end = index.len() - 8;
                let sum = xxh3_64(&index[..end]).to_le_bytes();
                index[end..].copy_from_slice(&sum);
            }
            fs::write(tree.packed.join("shard-000000.tar"), shard).unwrap();
            fs::write(tree.packed.join("index.forebay"), index).unwrap();
            told(shard, Tar::open(&tree.packed, false))
        }
    })
}

/// Makes the checksums of headers right, which chance seldom does. The tests beside the parser have
/// wrong ones.
fn fit(archive: &mut [u8]) {
    for block in archive.chunks_exact_mut(512).filter(|block| block[257..262] == *b"ustar") {
        block[148..156].fill(b' ');
        let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
        block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    }
}

fn told(shard: &[u8], opened: Result<Tar, Error>) -> String {
    let tar = match opened {
        Ok(tar) => tar,
        Err(error) => return refusal(&error),
    };
    let mut found = Vec::new();
    let mut last = String::new();
    for id in 0..tar.len() {
        assert!(tar.label(id) >= 0);
        let error = tar.locate(id, Error::new(ErrorKind::Data, "x"));
        refusal(&error);
        let start = error.offset().expect("an image has a place") as usize;
        match tar.read(id, &mut found) {
            Ok(_) => assert_eq!(found, shard[start..start + found.len()]),
            Err(error) => last = refusal(&error),
        }
        let (place, file) = (tar.place(id), tar.file(id));
        assert!(place.starts_with(&file) || file.ends_with("shard-000000.tar"));
    }
    let disagreements: Vec<_> = tar.disagreements().iter().map(refusal).collect();
    format!("{}; {last}; {}", tar.len().min(3), disagreements.concat())
}
