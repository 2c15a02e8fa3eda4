//! `--device` and `--tf32` of `forebay-train`, with a GPU, without, and with one of no use to libtorch.

use crate::program::{complaint, good, run, shapes, told};
use crate::train::shim::{allow_tf32, is_tf32};
use crate::{seeded, softgpu};
use assert_cmd::cargo::cargo_bin;
use forebay::device::cuda::Driver;
use forebay::device::images::IMAGES;
use std::path::Path;
use std::process::Output;

/// Lines of stderr that hold `text`.
fn lines<'a>(stderr: &'a str, text: &str) -> Vec<&'a str> {
    stderr.lines().filter(|line| line.contains(text)).collect()
}

#[test]
fn libtorch_takes_the_choice_of_tf32() {
    let _turn = seeded(0);
    for allow in [true, false] {
        allow_tf32(allow);
        assert_eq!(is_tf32(), allow);
    }
}

#[test]
fn without_a_gpu() {
    if Driver::probe().is_ok() {
        println!("skipped: this machine has a GPU");
        return;
    }
    let data = shapes(4, 2);
    let output = run(&data, "--device auto --tf32 --batch-size 4 --torch-threads 1 --out out");
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(good(output).contains(" s on the CPU: "));
    assert_eq!(lines(&stderr, " classes, on the CPU; ").len(), 1, "{stderr}");
    // A machine without a GPU is nothing to tell about; a flag without effect is.
    assert_eq!(lines(&stderr, "note:"), ["forebay: note: --tf32 has no effect on the CPU"]);

    let (status, line) = complaint(run(&data, "--device cuda:0"));
    assert_eq!(status, Some(1));
    assert!(line.starts_with("forebay: error: --device cuda:0: "), "{line}");
    assert!(line.contains("driver") && line.ends_with("; or use --device cpu"), "{line}");
    assert!(!data.path().join("runs").exists(), "a run that cannot start leaves nothing behind");
}

/// The software driver has a GPU on which forebay's loader runs, and no CUDA for libtorch.
#[test]
fn with_a_gpu_that_libtorch_cannot_use() {
    if Path::new(env!("FOREBAY_LIBTORCH")).join("../../nvidia/cudnn").exists() {
        println!("skipped: this PyTorch has its CUDA libraries, which want a real driver");
        return;
    }
    if IMAGES.is_empty() {
        println!("skipped: built without NVRTC, so there are no kernels for GPUs");
        return;
    }
    let data = shapes(4, 2);
    let soft = |args: &str| -> Output {
        let mut command = softgpu::command(&cargo_bin("forebay-train")).unwrap();
        command.arg("train").arg("--data").arg(data.path()).args(args.split_whitespace());
        command.args(["--batch-size", "4", "--torch-threads", "1"]).current_dir(data.path());
        command.output().unwrap()
    };
    let why = "this PyTorch lies in an environment without its CUDA libraries (lib";

    let output = soft("--device auto");
    let stderr = String::from_utf8(output.stderr.clone()).unwrap();
    assert!(good(output).contains(" s on the CPU: "));
    let notes = lines(&stderr, "note:");
    assert_eq!(notes.len(), 1, "{stderr}");
    let note = format!("forebay: note: computing on the CPU, not on cuda:0: {why}");
    assert!(notes[0].starts_with(&note), "{stderr}");

    let (status, line) = complaint(soft("--device cuda:0"));
    assert_eq!(status, Some(1));
    assert!(line.starts_with(&format!("forebay: error: --device cuda:0: {why}")), "{line}");
    let way_out = "`make build` on a machine with a GPU brings them; or use --device cpu";
    assert!(line.ends_with(way_out), "{line}");
    let (_, line) = complaint(soft("--device cuda:9"));
    assert!(line.contains("--device cuda:9: no GPU cuda:9"), "{line}");
}

#[test]
fn a_gpu_gives_the_losses_of_the_cpu() {
    if let Err(reason) = Driver::probe() {
        let required = std::env::var_os("FOREBAY_REQUIRE_GPU").is_some_and(|value| value == "1");
        assert!(!required, "FOREBAY_REQUIRE_GPU=1: {reason}");
        println!("skipped: {reason}");
        return;
    }
    let data = shapes(33, 13);
    // A learning rate of 0 keeps the weights, so that every batch is compared, and each one's places.
    let losses = |args: &str| {
        let args = format!("--lr 0 --batch-size 8 --torch-threads 1 {args}");
        let stdout = good(run(&data, &args));
        ["train_loss", "valid_loss"].map(|key| told(stdout.lines().next().unwrap(), key))
    };
    let (cpu, gpu) = (losses("--device cpu"), losses("--device cuda:0"));
    for (cpu, gpu) in cpu.iter().zip(gpu) {
        assert!((cpu - gpu).abs() < 2e-3, "{cpu} {gpu}");
    }
    losses("--device cuda:0 --tf32");
}
