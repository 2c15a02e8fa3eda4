//! What goes wrong around a program, made to happen: files that change, full disks, no memory,
//! signals, panics. After each there is an error that says what happened, no hang, no half of a file
//! under its name, and a way to go on.

mod disk;
#[path = "../common/fault.rs"]
mod fault;
mod files;
mod memory;
mod signals;
mod threads;

use forebay::graph::file::parse;
use forebay::graph::spec::Spec;
use std::path::Path;
use std::process::Command;
use turbojpeg::{Image, PixelFormat, Subsamp};

/// `forebay ARGS` in the directory `dir`.
fn forebay(dir: &Path, args: &str) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_forebay"));
    command.args(args.split_whitespace()).current_dir(dir);
    command
}

/// A JPEG file of `side` x `side` pixels, another one for each `id`.
fn jpeg(side: usize, id: usize) -> Vec<u8> {
    let pixels: Vec<u8> =
        (0..3 * side * side).map(|i| ((i * (id + 3)) ^ (i / side)) as u8).collect();
    let format = PixelFormat::RGB;
    let image = Image { pixels: &pixels[..], width: side, pitch: 3 * side, height: side, format };
    turbojpeg::compress(image, 75, Subsamp::Sub2x2).unwrap().to_vec()
}

/// Puts `n` JPEG files of `side` x `side` pixels into `dir`, and their list.
fn jpegs(dir: &Path, n: usize, side: usize) {
    let mut list = String::new();
    for id in 0..n {
        std::fs::write(dir.join(format!("{id}.jpg")), jpeg(side, id)).unwrap();
        list += &format!("{id}.jpg {}\n", id % 3);
    }
    std::fs::write(dir.join("labels.txt"), list).unwrap();
}

/// Puts one JPEG file of `side` x `side` pixels into `dir`, and a list that names it `n` times.
fn one_jpeg(dir: &Path, n: usize, side: usize) {
    std::fs::write(dir.join("0.jpg"), jpeg(side, 0)).unwrap();
    std::fs::write(dir.join("labels.txt"), "0.jpg 0\n".repeat(n)).unwrap();
}

/// Pixels as they were decoded.
fn decode_only() -> Spec {
    parse("[output]\nlayout = \"HWC\"\ndtype = \"u8\"\n").unwrap()
}
