//! Memory that is not to be had.

use crate::fault::{alone, complaint, ends, finish};
use crate::{decode_only, jpeg, one_jpeg};
use forebay::loader::{Loader, Options};
use forebay::reader::{Content, Reader};
use forebay::{ErrorKind, Result};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::Arc;
use turbojpeg::{Image, PixelFormat, Subsamp};

/// `forebay ARGS` in `dir`, with at most so many KiB of addresses.
fn limited(kib: u32, dir: &Path, args: &str) -> Command {
    let mut command = Command::new("sh");
    command.args(["-c", &format!("ulimit -v {kib} && exec \"$@\""), "sh"]);
    command.arg(env!("CARGO_BIN_EXE_forebay")).args(args.split_whitespace()).current_dir(dir);
    // What threads reserve beside what they use is another thing on each machine.
    command.env("MALLOC_ARENA_MAX", "1").env("RAYON_NUM_THREADS", "2");
    command
}

#[test]
fn a_batch_that_memory_does_not_hold_is_an_error() {
    let dir = tempfile::tempdir().unwrap();
    // 12 MiB a sample: 192 MiB a batch of 16, of which five are begun.
    one_jpeg(dir.path(), 80, 1024);
    for command in ["bench --epochs 1", "dump --batches 5 --out out"] {
        let run = |batch_size: u32| {
            let args = format!("{command} --data . --threads 2 --batch-size {batch_size}");
            finish(&mut limited(512 << 10, dir.path(), &format!("{args} --device cpu")))
        };
        let (status, line) = complaint(&run(16));
        assert_eq!(status, Some(1), "{line}");
        let told = "out of memory for a batch of 16 images of 1024x1024";
        assert!(line.contains(told) && line.contains("lower the batch size"), "{line}");
        let output = run(1);
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
}

#[test]
fn an_image_that_memory_does_not_hold_is_a_fault_of_its_own() {
    let dir = tempfile::tempdir().unwrap();
    let side = 9000;
    let image = Image {
        pixels: &vec![7; side * side][..],
        width: side,
        pitch: side,
        height: side,
        format: PixelFormat::GRAY,
    };
    let large = turbojpeg::compress(image, 50, Subsamp::Gray).unwrap();
    std::fs::write(dir.path().join("large.jpg"), &large).unwrap();
    std::fs::write(dir.path().join("small.jpg"), jpeg(32, 0)).unwrap();
    std::fs::write(dir.path().join("labels.txt"), "small.jpg 0\nlarge.jpg 1\nsmall.jpg 2\n")
        .unwrap();
    let output = finish(&mut limited(192 << 10, dir.path(), "check --data ."));
    let text = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{text}");
    let told = "labels.txt:2: sample 1: large.jpg: out of memory for 9000 x 9000 pixels";
    assert!(
        text.contains(told) && text.contains("3 samples, ") && text.contains("1 fault"),
        "{text}"
    );
}

/// Four large samples, then small ones.
struct Sizes;

impl Sizes {
    fn side(id: u64) -> u32 {
        if id < 4 { 4096 } else { 64 }
    }
}

impl Reader for Sizes {
    fn len(&self) -> u64 {
        40
    }

    fn label(&self, _: u64) -> i64 {
        0
    }

    fn classes(&self) -> &[String] {
        &[]
    }

    fn place(&self, id: u64) -> PathBuf {
        format!("{id}.raw").into()
    }

    fn read(&self, id: u64, buf: &mut Vec<u8>) -> Result<Content> {
        let side = Self::side(id);
        buf.clear();
        buf.resize((3 * side * side) as usize, id as u8);
        Ok(Content::Planar { height: side, width: side })
    }
}

/// Bytes of addresses that this process has.
fn addresses() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmSize:")).unwrap();
    line.trim().trim_end_matches("kB").trim().parse::<u64>().unwrap() << 10
}

#[test]
fn the_loader_goes_on_with_smaller_batches() {
    alone("memory::the_loader_goes_on_with_smaller_batches", || {
        let options = Options { batch_size: 4, threads: 1, prefetch: 0, ..Options::default() };
        let mut loader = Loader::with_reader(&decode_only(), Arc::new(Sizes), &options).unwrap();
        let whole = loader.epoch_from(0, 1).map(Result::unwrap).count();
        assert_eq!(whole, 9);
        // Enough for an image of 48 MiB as it is read and decoded, not for the 192 MiB of a batch.
        let maximum = getrlimit(Resource::As).maximum;
        let current = Some(addresses() + (200 << 20));
        setrlimit(Resource::As, Rlimit { current, maximum }).unwrap();
        let (error, rest) = ends(move || {
            let error = loader.epoch(0).next().unwrap().err().unwrap();
            (error, loader.epoch_from(0, 1).map(Result::unwrap).count())
        });
        assert_eq!((error.kind(), rest), (ErrorKind::Resources, 9));
        let told = "out of memory for a batch of 4 images of 4096x4096 (width x height), 192 MiB";
        assert!(error.message().starts_with(told), "{error}");
    });
}
