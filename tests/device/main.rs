//! The same tests on each device: the CPU, the software driver of tests/softgpu, and a GPU.
//!
//! A test without libtest's harness, since the devices need processes of their own: the software
//! driver is found through the loader's path. Prints how many tests ran where, and what was skipped.
//!
//! ```text
//! device [--device cpu|soft|cuda:N] [--list] [FILTER]
//! ```

#[path = "../common/mod.rs"]
mod common;
#[path = "../decoder/encode.rs"]
#[allow(dead_code)] // A part is used.
mod encode;
#[path = "../common/graphs.rs"]
#[allow(dead_code)] // Each binary uses a part.
mod graphs;

mod everywhere;
mod nvjpeg;
mod own;
mod program;
mod soft;
mod source;

use forebay::device::Choice;
use forebay::device::cuda::Driver;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::{Command, ExitCode};
use std::time::Instant;

/// What a test runs on.
#[derive(Clone, Copy)]
struct Device {
    choice: Choice,
    /// Whether the driver is the software driver.
    soft: bool,
}

impl Device {
    fn named(name: &str) -> Device {
        match name {
            "soft" => Device { choice: Choice::Cuda(0), soft: true },
            name => Device { choice: name.parse().expect("cpu, soft or cuda:N"), soft: false },
        }
    }

    fn is_gpu(self) -> bool {
        self.choice != Choice::Cpu
    }
}

/// A name and a body that panics where something is wrong.
type Test = (&'static str, fn(Device));

fn tests(device: Device) -> Vec<Test> {
    let mut tests = [everywhere::TESTS, program::TESTS].concat();
    if device.is_gpu() {
        tests.extend(everywhere::GPU);
        tests.extend(nvjpeg::TESTS);
        tests.extend(own::TESTS);
    }
    if device.soft {
        tests.extend(soft::TESTS);
        tests.extend(nvjpeg::SOFT);
        tests.extend(own::SOFT);
        tests.extend(program::SOFT);
    }
    tests
}

/// What of libtest's command line makes sense here.
#[derive(Default)]
struct Arguments {
    device: Option<String>,
    filter: Option<String>,
    list: bool,
}

fn arguments() -> Arguments {
    let mut arguments = Arguments::default();
    let mut words = std::env::args().skip(1);
    while let Some(word) = words.next() {
        match word.as_str() {
            "--device" => arguments.device = words.next(),
            "--list" => arguments.list = true,
            // Values of options that cargo's users give to every test.
            "--test-threads" | "--format" | "--color" => drop(words.next()),
            word if word.starts_with('-') => {}
            word => arguments.filter = Some(word.to_string()),
        }
    }
    arguments
}

fn main() -> ExitCode {
    let arguments = arguments();
    let wanted = |(name, _): &Test| arguments.filter.as_ref().is_none_or(|f| name.contains(f));
    if let Some(name) = &arguments.device {
        let device = Device::named(name);
        let chosen: Vec<Test> = tests(device).into_iter().filter(wanted).collect();
        return if run(name, device, &chosen) { ExitCode::SUCCESS } else { ExitCode::FAILURE };
    }
    if arguments.list {
        for (name, _) in tests(Device::named("soft")).iter().filter(|t| wanted(t)) {
            println!("{name}: test");
        }
        return ExitCode::SUCCESS;
    }

    let count = |name| tests(Device::named(name)).iter().filter(|test| wanted(test)).count();
    let mut green = run_child(Command::new(this_program()), "cpu", &arguments);
    let mut lines = vec![format!("{} on the CPU", count("cpu"))];
    match soft::command(&this_program()) {
        Ok(command) => {
            green &= run_child(command, "soft", &arguments);
            lines.push(format!("{} on the software driver", count("soft")));
        }
        Err(reason) => {
            println!("FAILED: no software driver: {reason}");
            green = false;
        }
    }
    match Driver::probe() {
        Ok(_) => {
            green &= run_child(Command::new(this_program()), "cuda:0", &arguments);
            lines.push(format!("{} on cuda:0", count("cuda:0")));
        }
        Err(reason) => {
            let required = std::env::var_os("FOREBAY_REQUIRE_GPU").is_some_and(|v| v == "1");
            green &= !required;
            let what = if required { "MISSING, though FOREBAY_REQUIRE_GPU=1" } else { "skipped" };
            lines.push(format!("{} {what} for want of a GPU ({reason})", count("cuda:0")));
        }
    }
    println!("device tests: {}", lines.join(", "));
    if green { ExitCode::SUCCESS } else { ExitCode::FAILURE }
}

fn this_program() -> std::path::PathBuf {
    std::env::current_exe().expect("the program has a path")
}

fn run_child(mut command: Command, device: &str, arguments: &Arguments) -> bool {
    command.args(["--device", device]).args(&arguments.filter);
    let status = command.status().expect("this program starts again");
    if !status.success() {
        println!("FAILED on {device}: {status}");
    }
    status.success()
}

/// Runs `tests` one after another; whether all passed.
fn run(name: &str, device: Device, tests: &[Test]) -> bool {
    let mut failed = 0;
    for (test, body) in tests {
        let start = Instant::now();
        let outcome = catch_unwind(AssertUnwindSafe(|| body(device)));
        let word = if outcome.is_ok() { "ok" } else { "FAILED" };
        failed += usize::from(outcome.is_err());
        println!("{name} {test} ... {word} ({:.1} s)", start.elapsed().as_secs_f64());
    }
    println!("{name}: {} passed, {failed} failed", tests.len() - failed);
    failed == 0
}
