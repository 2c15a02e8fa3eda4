//! The program on each device, as people start it.

use crate::{Device, Test};
use serde_json::Value;
use std::path::PathBuf;
use std::process::Command;

pub(crate) const TESTS: &[Test] =
    &[("the_program_gives_the_same_batches", same_batches), ("doctor_tells_of_the_gpu", doctor)];

/// Where another nvJPEG than the software driver's is found, if any.
pub(crate) const SOFT: &[Test] = &[("without_nvjpeg", without_nvjpeg)];

/// Where cargo has built it, else beside this test, as in a bundle.
fn program() -> PathBuf {
    let built = PathBuf::from(env!("CARGO_BIN_EXE_forebay"));
    if built.exists() { built } else { crate::this_program().with_file_name("forebay") }
}

fn json(args: &[&str]) -> Value {
    let output = Command::new(program()).args(args).output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{args:?}: {stderr}");
    serde_json::from_slice(&output.stdout).unwrap()
}

fn same_batches(device: Device) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let export = ["export", "shapes", "--to", data, "--train", "300", "--valid", "10"];
    assert!(Command::new(program()).args(export).output().unwrap().status.success());
    let bench = |device: &str| {
        json(&["bench", "--json", "--data", data, "--epochs", "2", "--device", device])
    };
    let (cpu, other) = (bench("cpu"), bench(&device.choice.to_string()));
    assert_eq!(cpu["epoch_digests"], other["epoch_digests"]);
    assert_eq!(cpu["device"], "cpu");
    if device.is_gpu() {
        assert!(other["device"].as_str().unwrap().starts_with("cuda:0 ("), "{other}");
        // Pictures of 32x32 are our own kernels' to decode.
        assert_eq!(other["decoded"]["own"]["images"], 600);
        assert_eq!(other["decoded"]["own"]["doubt_then_cpu"], 0);
        assert_eq!(other["decoded"]["nvjpeg"]["hardware"], 0);
    }
}

/// A GPU without an nvJPEG that starts: our own kernels get its images, too, and the run says why.
fn without_nvjpeg(_: Device) {
    let folder = tempfile::tempdir().unwrap();
    let data = folder.path().to_str().unwrap();
    let export =
        ["export", "shapes", "--to", data, "--train", "60", "--valid", "5", "--size", "80"];
    assert!(Command::new(program()).args(export).output().unwrap().status.success());
    let args = ["bench", "--json", "--data", data, "--epochs", "1"];
    // What is left is the real library where one lies beside libtorch, and it finds no GPU.
    let output = Command::new(program()).args(args).env_remove("CUDA_HOME").output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    let found: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert!(found["device"].as_str().unwrap().starts_with("cuda:0"), "{found}");
    assert_eq!(found["decoded"]["own"]["images"], 60, "{found}");
    let why = found["decoded"]["nvjpeg"]["library"].as_str().unwrap();
    assert!(why.contains("nvidia-nvjpeg") || why.contains("nvjpegCreateEx"), "{why}");
}

fn doctor(device: Device) {
    let found = json(&["doctor", "--json"]);
    for key in ["driver", "gpus", "nvrtc", "cubins", "nvjpeg", "mixed"] {
        assert!(found[key]["value"].is_string() && found[key]["why"].is_string(), "{key}: {found}");
    }
    let kernels = found["gpu_kernels"].as_array().unwrap();
    if found["nvrtc"]["value"] == "not found" {
        assert!(kernels.is_empty());
        return;
    }
    let hopper = |k: &&Value| k["kernel"] == "augment" && k["arch"] == "sm_90";
    let augment = kernels.iter().find(hopper).unwrap();
    assert_eq!((&augment["stack"], &augment["spill_stores"]), (&Value::from(0), &Value::from(0)));
    assert!(augment["registers"].as_u64().unwrap() <= 64);
    let driver = found["driver"]["value"].as_str().unwrap();
    if device.is_gpu() {
        assert!(driver.starts_with("CUDA "), "{driver}");
        assert!(found["gpus"]["why"].as_str().unwrap().contains("takes cuda:0"), "{found}");
    }
    if driver == "absent" {
        assert!(found["driver"]["why"].as_str().unwrap().contains("install the driver"), "{found}");
    }
}
