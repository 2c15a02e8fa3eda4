//! `resolve` and `augment` on a GPU, and of small images our JPEG decoder, beside copies of as many bytes, and
//! that beside nvJPEG and the CPU. Prints one JSON object; where there is no GPU, the reason.
//!
//! ```text
//! cargo bench --bench gpu -- [--probe] [--quick]
//! ```
//! `--probe` says what GPU there is and times nothing; `--quick` takes one small batch.

mod beside;
mod clock;
mod decode;
mod kernels;

use beside::Beside;
use clock::Times;
use decode::Decode;
use forebay::device::cuda::{Cuda, Driver, Gpu};
use forebay::{Error, Result};
use kernels::{Bench, Measured};
use serde_json::{Value, json};
use std::process::ExitCode;

/// Rows and columns of an image, and samples of a batch.
const SIZES: [(u32, u32); 4] = [(32, 256), (32, 4096), (224, 256), (224, 4096)];

/// Rows and columns of an image that our JPEG decoder gets there.
const SMALL: u32 = 64;

/// Bytes that a copy moves when it has to go to memory, whatever the GPU's caches hold.
const LARGE: usize = 4 << 30;

fn main() -> ExitCode {
    let has = |option: &str| std::env::args().any(|word| word == option);
    let gpu = Driver::probe().and_then(|driver| Ok((driver.gpu(0)?, driver)));
    let answer = match gpu {
        Err(reason) => Ok(json!({ "gpu": null, "reason": reason.to_string() })),
        Ok((gpu, driver)) => {
            let gpu = describe(&gpu, &driver);
            let measured = if has("--probe") { Ok(json!({})) } else { measure(has("--quick")) };
            measured.map(|mut object| {
                object["gpu"] = gpu;
                object
            })
        }
    };
    match answer {
        Ok(object) => {
            println!("{object}");
            ExitCode::SUCCESS
        }
        Err(error) => {
            eprintln!("gpu: {error}");
            ExitCode::FAILURE
        }
    }
}

fn describe(gpu: &Gpu, driver: &Driver) -> Value {
    let (major, minor) = driver.version();
    json!({
        "name": gpu.name,
        "capability": [gpu.capability.0, gpu.capability.1],
        "memory_bytes": gpu.memory,
        "cuda": format!("{major}.{minor}"),
    })
}

fn measure(quick: bool) -> Result<Value> {
    let cuda = Cuda::open(0)?;
    let _bound = cuda.bind()?;
    let sizes = if quick { &SIZES[..1] } else { &SIZES[..] };
    let (mut kernels, mut copies, mut empty) = (Vec::new(), Vec::new(), None);
    let mut decoders = Vec::new();
    for &(side, samples) in sizes {
        let row = |kernel: &str| json!({ "kernel": kernel, "side": side, "batch": samples });
        let mut bench = match Bench::new(&cuda, side, samples) {
            Ok(bench) => bench,
            Err(error) => {
                eprintln!("gpu: {samples} images of {side}x{side}: {error}");
                continue;
            }
        };
        bench.check()?;
        if empty.is_none() {
            empty = Some(bench.empty()?);
        }
        let mut measured = vec![("resolve", bench.resolve()?), ("augment", bench.augment()?)];
        if side <= SMALL {
            let decode = Decode::new(&cuda, side, samples)?;
            decode.check()?;
            measured.extend(decode.measure()?);
            decoders.extend(beside(&decode, side, samples)?);
        }
        for (name, measured) in measured {
            let copy = bench.copy(measured.bytes)?;
            let mut row = row(name);
            add(&mut row, &measured);
            row["share_of_copy"] = json!(copy.times.median / measured.times.median);
            kernels.push(row);
            copies.push(described(copy));
        }
    }
    if !quick && let Some(copy) = kernels::large_copy(&cuda, LARGE)? {
        copies.push(described(copy));
    }
    let empty = empty.ok_or_else(|| Error::new(forebay::ErrorKind::Limit, "no batch fitted"))?;
    Ok(json!({ "kernels": kernels, "decoders": decoders, "copies": copies,
        "empty_launch_us": times(&empty) }))
}

/// Rows of those that decode the same files.
fn beside(decode: &Decode, side: u32, samples: u32) -> Result<[Value; 3]> {
    let Beside { own, nvjpeg, cpu } = Beside::measure(decode)?;
    let row = |name: &str, us: Value| json!({ "decoder": name, "side": side, "batch": samples, "us": us });
    let nvjpeg = match nvjpeg {
        Ok((us, levels)) => {
            let mut row = row("nvJPEG", times(&us));
            row["levels_from_cpu"] = json!(levels);
            row
        }
        Err(error) => {
            let mut row = row("nvJPEG", Value::Null);
            row["why"] = json!(error.to_string());
            row
        }
    };
    let own = row("forebay on the GPU", times(&own));
    Ok([own, nvjpeg, row("forebay on one thread of the CPU", times(&cpu))])
}

fn described(measured: Measured) -> Value {
    let mut row = json!({});
    add(&mut row, &measured);
    row
}

fn add(row: &mut Value, measured: &Measured) {
    row["bytes"] = json!(measured.bytes);
    row["us"] = times(&measured.times);
}

fn times(times: &Times) -> Value {
    let Times { median, least, most, n, launches } = times;
    json!({ "median": median, "least": least, "most": most, "n": n, "launches_each": launches })
}
