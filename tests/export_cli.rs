//! `forebay export` as it is typed.

use std::path::Path;
use std::process::{Command, Output};

fn forebay(arguments: &[&str], dir: &Path) -> Output {
    Command::new(env!("CARGO_BIN_EXE_forebay")).args(arguments).current_dir(dir).output().unwrap()
}

fn text(bytes: &[u8]) -> &str {
    std::str::from_utf8(bytes).unwrap()
}

#[test]
fn shapes_are_written_once() {
    let dir = tempfile::tempdir().unwrap();
    let run =
        || forebay(&["export", "shapes", "--to", "s", "--train", "70", "--valid", "5"], dir.path());
    let out = run();
    assert_eq!(text(&out.stdout), "s/train: 70 images written\ns/valid: 5 images written\n");
    assert!(out.status.success());
    let out = run();
    assert_eq!(
        text(&out.stdout),
        "s/train: 70 images, all there already\ns/valid: 5 images, all there already\n"
    );
    std::fs::remove_file(dir.path().join("s/train/3.jpg")).unwrap();
    assert!(text(&run().stdout).starts_with("s/train: 1 images written, 69 there already\n"));
}

#[test]
fn bad_input_is_one_line_and_writes_nothing() {
    let dir = tempfile::tempdir().unwrap();
    for i in 1..=5 {
        let batch = std::fs::File::create(dir.path().join(format!("data_batch_{i}.bin"))).unwrap();
        batch.set_len(30_730_000).unwrap();
    }
    std::fs::write(dir.path().join("test_batch.bin"), b"short").unwrap();
    let out = forebay(&["export", "cifar10", "--from", ".", "--to", "out"], dir.path());
    assert_eq!(out.status.code(), Some(1));
    assert_eq!(
        text(&out.stderr),
        "forebay: error: ./test_batch.bin: has 5 bytes, expected 30730000 \
         (10000 records of 3073 bytes)\n"
    );
    assert!(!dir.path().join("out").exists());
    let out = forebay(&["export", "shapes", "--to", "s", "--quality", "0"], dir.path());
    assert_eq!(out.status.code(), Some(2));
}
