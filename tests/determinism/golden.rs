//! The course's pipeline on drawn shapes, as anyone can run it:
//!
//! ```text
//! forebay export shapes --to shapes --train 200 --valid 1
//! forebay dump --data shapes --out dump --epoch 0
//! ```

use crate::machines::has_gpu;
use std::path::Path;
use std::process::Command;
use xxhash_rust::xxh3::Xxh3;

/// XXH3-128 of the 200 JPEG files one after another: what drawing and encoding give.
const EXPORTED: &str = "be58e1c38f808a873909f19bccff14a9";
/// What `forebay dump` says of epochs 0, 1 and 2: what decoding and the pipeline give, too.
const DIGESTS: [&str; 3] = [
    "8d7148768faaa762e8046d282d14ee5b",
    "209446d44b8f81704aec6b532f5d6510",
    "f375eb9025515cd83107202449628447",
];

fn program() -> Command {
    Command::new(env!("CARGO_BIN_EXE_forebay"))
}

/// What `forebay` says on stdout.
fn told(mut command: Command, args: &[&str], dir: &Path) -> String {
    let output = command.args(args).current_dir(dir).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    String::from_utf8(output.stdout).unwrap()
}

fn export(forebay: &dyn Fn() -> Command, dir: &Path) -> String {
    let args = ["export", "shapes", "--to", "shapes", "--train", "200", "--valid", "1"];
    told(forebay(), &args, dir);
    let mut hash = Xxh3::new();
    for id in 0..200 {
        hash.update(&std::fs::read(dir.join(format!("shapes/train/{id}.jpg"))).unwrap());
    }
    format!("{:032x}", hash.digest128())
}

fn digests(forebay: &dyn Fn() -> Command, device: &str, dir: &Path) -> [String; 3] {
    ["0", "1", "2"].map(|epoch| {
        let args = ["dump", "--data", "shapes", "--out", "dump", "--device", device];
        let told = told(forebay(), &[&args[..], &["--epoch", epoch]].concat(), dir);
        let line = told.lines().find_map(|line| line.strip_prefix("digest "));
        line.expect("a digest").to_string()
    })
}

#[test]
fn the_courses_pipeline_on_shapes_has_the_bytes_that_it_had() {
    let with = |variable: &'static str| {
        move || {
            let mut command = program();
            command.env(variable, "1");
            command
        }
    };
    // libjpeg-turbo's own switches: what machines without AVX2, and without any SIMD, would run.
    let [sse2, none] = [with("JSIMD_FORCESSE2"), with("JSIMD_FORCENONE")];
    let machines: [(&str, &dyn Fn() -> Command); 3] =
        [("this machine", &program), ("SSE2 for JPEG", &sse2), ("no SIMD for JPEG", &none)];
    let why = "if that was meant, say why in CHANGELOG.md and put what is left here into this file";
    for (machine, forebay) in machines {
        let dir = tempfile::tempdir().unwrap();
        let exported = export(forebay, dir.path());
        assert_eq!(exported, EXPORTED, "{machine}: shapes are other files than they were; {why}");
        let found = digests(forebay, "cpu", dir.path());
        assert_eq!(found, DIGESTS, "{machine}: the pipeline gives other bytes than it did; {why}");
    }
}

#[test]
fn a_gpu() {
    if has_gpu() {
        let dir = tempfile::tempdir().unwrap();
        export(&program, dir.path());
        assert_eq!(digests(&program, "cuda:0", dir.path()), DIGESTS);
    }
}
