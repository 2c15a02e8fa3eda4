//! The kernel sources on their own: functions against known answers, the dialect's rules, symbols,
//! sanitizers, and another architecture. Programs are compiled here as the library's kernels are.

mod common;
#[path = "decoder/encode.rs"]
#[allow(dead_code)] // A part is used.
mod encode;
#[path = "common/graphs.rs"]
mod graphs;
#[path = "ptx/jpeg.rs"]
mod jpeg;
#[path = "../build/levels.rs"]
mod levels;
#[path = "ptx/memory.rs"]
#[allow(dead_code, unsafe_code)] // The interpreter uses the rest.
mod memory;

use common::{pixels, run};
use forebay::device::Kernel;
use forebay::device::cpu::Cpu;
use forebay::executor::program::{Program, Scratch};
use forebay::graph::plan::Plan;
use forebay::ops;
use levels::{KERNELS, Level};
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use std::env::consts::ARCH;
use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;

const ROOT: &str = env!("CARGO_MANIFEST_DIR");

/// The levels that this machine can run.
fn runnable() -> Vec<&'static Level> {
    let names: Vec<_> = Cpu::levels().iter().map(|cpu| cpu.level()).collect();
    let runs = |level: &&Level| ARCH != "x86_64" || names.iter().any(|n| n.ends_with(level.name));
    levels::levels(ARCH).iter().filter(runs).collect()
}

/// The compiler that the build used, with the options of `level`.
fn compiler(level: &Level) -> Command {
    let program = std::env::var("CXX").unwrap_or_else(|_| "c++".into());
    options(&program, level)
}

fn options(program: &str, level: &Level) -> Command {
    let mut command = Command::new(program);
    command.current_dir(ROOT).args(level.options()).args(["-I", "kernels", "-Wall", "-Wextra"]);
    command.arg("-Werror");
    command
}

fn succeed(command: &mut Command) -> Output {
    let output = command.output().unwrap_or_else(|e| panic!("{command:?}: {e}"));
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, err) = (text(&output.stdout), text(&output.stderr));
    assert!(output.status.success(), "{command:?}: {}\n{out}\n{err}", output.status);
    output
}

/// Compiles a program of tests/kernels into `dir`.
fn program(mut compiler: Command, name: &str, options: &[&str], dir: &Path) -> PathBuf {
    let program = dir.join(name);
    compiler.args(options).arg(format!("tests/kernels/{name}.cpp"));
    succeed(compiler.arg("-o").arg(&program).arg("-lm"));
    program
}

fn found(program: &str) -> bool {
    Command::new(program).arg("--version").output().is_ok_and(|o| o.status.success())
}

fn files(extension: &str) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(Path::new(ROOT).join("kernels")).unwrap();
    let mut files: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
    files.retain(|path| path.extension().is_some_and(|e| e == extension));
    files.sort();
    files
}

/// Programs of tests/kernels that check functions of the kernels.
const PROGRAMS: [&str; 2] = ["known_answers", "host"];

#[test]
fn known_answers() {
    let dir = tempfile::tempdir().unwrap();
    for (level, name) in runnable().into_iter().flat_map(|l| PROGRAMS.map(|name| (l, name))) {
        let program = program(compiler(level), name, &[], dir.path());
        let output = succeed(&mut Command::new(program));
        println!("{}:\n{}", level.name, String::from_utf8_lossy(&output.stdout));
    }
}

#[test]
fn each_file_compiles_alone_without_a_warning() {
    let dir = tempfile::tempdir().unwrap();
    let source = dir.path().join("alone.cpp");
    let compiles = |level: &Level, file: &PathBuf| {
        // Included, since a compiler has other warnings for the file that it was given.
        std::fs::write(&source, format!("#include {file:?}\n")).unwrap();
        succeed(compiler(level).arg("-fsyntax-only").arg(&source));
    };
    let [headers, kernels] = ["cuh", "cu"].map(files);
    assert_eq!(kernels.len(), KERNELS.len());
    // What a header needs is the same at every level; the kernels include them all.
    let all = levels::levels(ARCH);
    headers.iter().for_each(|header| compiles(&all[0], header));
    all.iter().for_each(|level| kernels.iter().for_each(|kernel| compiles(level, kernel)));
}

#[test]
fn kernels_keep_to_the_dialect() {
    for file in files("cuh").into_iter().chain(files("cu")) {
        let name = file.file_name().unwrap().to_string_lossy().into_owned();
        for (k, line) in std::fs::read_to_string(&file).unwrap().lines().enumerate() {
            let code = line.split("//").next().unwrap();
            let here = format!("kernels/{name}:{}: {line}", k + 1);
            assert!(!code.contains("std::"), "{here}: std:: is not level's own code");
            if name != "wide.cuh" {
                // There in the exact division, whose result is rounded once.
                assert!(!code.contains("fma"), "{here}: products and sums are rounded one by one");
            }
            if !["portable.cuh", "wide.cuh", "shorts.cuh"].contains(&name.as_str()) {
                assert!(!code.trim_start().starts_with("#if"), "{here}: belongs in portable.cuh");
                assert!(!code.contains("#include <"), "{here}: belongs in portable.cuh");
                assert!(!code.contains("__builtin"), "{here}: belongs in portable.cuh");
                assert!(!code.contains("_mm"), "{here}: belongs in wide.cuh");
            }
        }
    }
}

/// The linker takes one of several functions of the same name: a name without its level would let
/// code of the newest level run on the oldest CPU.
#[test]
fn symbols_carry_their_level() {
    let nm = std::env::var("NM").unwrap_or_else(|_| "nm".into());
    for level in levels::levels(ARCH) {
        let archive = Path::new(env!("OUT_DIR")).join(format!("libforebay_{}.a", level.name));
        let symbols = |which: &str| {
            let output = succeed(Command::new(&nm).args(["-P", which]).arg(&archive));
            let text = String::from_utf8(output.stdout).unwrap();
            let mut names: Vec<_> =
                text.lines().filter(|line| line.contains(' ')).map(str::to_string).collect();
            names.sort();
            names
        };
        let defined = symbols("-g");
        let mut entries = 0;
        for line in &defined {
            let mut words = line.split(' ');
            let (name, kind) = (words.next().unwrap(), words.next().unwrap());
            if kind == "U" {
                // What compilers call by themselves; no libm, whose bits are another machine's.
                let known = ["memcpy", "memset", "memmove", "__stack_chk_fail"];
                let allowed = known.contains(&name) || name.starts_with("_GLOBAL_OFFSET");
                assert!(allowed, "{} calls {name}", level.name);
                continue;
            }
            let own = format!("forebay_{}_", level.name);
            let mangled = format!("{}{}", level.name.len(), level.name);
            assert!(name.contains(&own) || name.contains(&mangled), "{}: {line}", level.name);
            entries += usize::from(name.contains(&own));
        }
        assert_eq!(entries, 2 * KERNELS.len(), "{defined:?}");
    }
}

const SEED: u64 = 42;
const EPOCH: u32 = 3;
const SAMPLES: u32 = 5;

/// Random plans in the form that tests/kernels/replay.cpp reads, and the digest of what the library
/// makes of each.
fn plans() -> &'static (Vec<u8>, Vec<u64>) {
    static PLANS: OnceLock<(Vec<u8>, Vec<u64>)> = OnceLock::new();
    PLANS.get_or_init(|| {
        let mut runner = proptest::test_runner::TestRunner::deterministic();
        let count = 200u32;
        let (mut file, mut digests) = (count.to_le_bytes().to_vec(), Vec::new());
        while digests.len() < count as usize {
            let strategy = (graphs::any_spec(), graphs::size());
            let (spec, (width, height)) = strategy.new_tree(&mut runner).unwrap().current();
            let Ok(plan) = Plan::compile(&spec, ops::ALL) else { continue };
            let picture = graphs::picture(width, height);
            write(&mut file, &plan, width, height, &picture);
            digests.push(digest(plan, &pixels(width, height, &picture)));
        }
        (file, digests)
    })
}

fn write(file: &mut Vec<u8>, plan: &Plan, width: u32, height: u32, picture: &[u8]) {
    file.extend(SEED.to_le_bytes());
    let outputs: Vec<_> = plan.outputs().iter().map(|output| output.image as u32).collect();
    let counts =
        [plan.scalars().len(), plan.passes().len(), plan.steps().len(), plan.images().len()];
    let [scalars, passes, steps, images] = counts.map(|n| n as u32);
    let header = [EPOCH, SAMPLES, width, height, scalars, passes, steps, images];
    file.extend_from_slice(bytemuck::cast_slice(&header));
    file.extend_from_slice(bytemuck::cast_slice(&[outputs.len() as u32, 0]));
    file.extend_from_slice(bytemuck::cast_slice(plan.scalars()));
    file.extend_from_slice(bytemuck::cast_slice(plan.passes()));
    file.extend_from_slice(bytemuck::cast_slice(plan.steps()));
    file.extend_from_slice(bytemuck::cast_slice(&outputs));
    file.extend_from_slice(picture);
}

fn digest(plan: Plan, image: &forebay::decoder::Pixels) -> u64 {
    let program = Program::with(plan, Cpu::best().unwrap());
    let fnv1a = |hash: u64, bytes: &[u8]| {
        bytes.iter().fold(hash, |h, &b| (h ^ u64::from(b)).wrapping_mul(0x100_0000_01B3))
    };
    (0..u64::from(SAMPLES)).fold(0xCBF2_9CE4_8422_2325, |hash, id| {
        let mut scratch = Scratch::default();
        let resolved =
            program.resolve(&mut scratch, SEED, EPOCH, id, image.width(), image.height());
        let hash = fnv1a(hash, &[resolved.is_err().into()]);
        if resolved.is_err() {
            return hash;
        }
        run(&program, image, EPOCH, id).iter().fold(hash, |hash, (h, w, bytes)| {
            let hash = fnv1a(fnv1a(hash, &w.to_le_bytes()), &h.to_le_bytes());
            fnv1a(hash, bytes)
        })
    })
}

/// Runs `replay` over the plans and compares its digests.
fn replays(mut replay: Command, dir: &Path) {
    let (file, digests) = plans();
    let path = dir.join("plans");
    std::fs::write(&path, file).unwrap();
    // The leak check traces its process, which containers may forbid.
    let output = succeed(replay.arg(path).env("ASAN_OPTIONS", "detect_leaks=0"));
    let got = String::from_utf8(output.stdout).unwrap();
    let expected: String = digests.iter().map(|digest| format!("{digest:016x}\n")).collect();
    assert!(got == expected, "other bytes than the library's\n{got}\n{expected}");
    println!("{replay:?}: {} plans for {SAMPLES} samples, all equal", digests.len());
}

const SANITIZE: [&str; 4] =
    ["-O1", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all"];

/// The same of what decodes JPEGs, over whole and damaged files.
#[test]
fn sanitize_jpeg() {
    let dir = tempfile::tempdir().unwrap();
    let kernels = [Kernel::Entropy, Kernel::Subsequence, Kernel::Idct, Kernel::Colour];
    let whole = [0, 1, 7].map(|bytes| jpeg::files(false, 0, bytes));
    let cases = whole.into_iter().chain([jpeg::idct(8, 5), jpeg::colour(38, 9, 5, 2)]);
    let damaged = (0..20).map(|seed| jpeg::files(true, seed, [0, 1, 3, 40][seed as usize % 4]));
    let cases: Vec<_> = cases.into_iter().chain(damaged).collect();
    let path = dir.path().join("launches");
    for level in runnable() {
        let program = program(compiler(level), "jpeg", &SANITIZE, dir.path());
        for case in &cases {
            std::fs::write(&path, case.file(&kernels)).unwrap();
            succeed(Command::new(&program).arg(&path).env("ASAN_OPTIONS", "detect_leaks=0"));
        }
    }
}

/// `make test-sanitize`: no byte is touched outside the images, nothing is read before it is
/// written, nothing is undefined; in the strips of each level and in the walked grid.
#[test]
fn sanitize() {
    let dir = tempfile::tempdir().unwrap();
    let options = SANITIZE;
    for level in runnable() {
        replays(Command::new(program(compiler(level), "replay", &options, dir.path())), dir.path());
    }
}

/// The same bytes on an aarch64, where an emulator is at hand; else its compiler's word.
#[test]
fn aarch64() {
    if ARCH == "aarch64" {
        return; // The other tests ran there.
    }
    let dir = tempfile::tempdir().unwrap();
    let [level] = levels::levels("aarch64") else { panic!("one level") };
    if found("aarch64-linux-gnu-g++") {
        let gcc = || options("aarch64-linux-gnu-g++", level);
        let replay = program(gcc(), "replay", &["-static"], dir.path());
        let answers = PROGRAMS.map(|name| program(gcc(), name, &["-static"], dir.path()));
        if !found("qemu-aarch64") {
            println!("compiled for aarch64; not run, since there is no qemu-aarch64");
            return;
        }
        let emulated = |program: PathBuf| {
            let mut command = Command::new("qemu-aarch64");
            command.arg(program);
            command
        };
        answers.into_iter().for_each(|answers| {
            succeed(emulated(answers).arg("sparse"));
        });
        replays(emulated(replay), dir.path());
    } else if found("clang++") {
        for kernel in files("cu") {
            let mut clang = options("clang++", level);
            clang.args(["--target=aarch64-linux-gnu", "-ffreestanding", "-fsyntax-only"]);
            succeed(clang.arg(kernel));
        }
        println!("clang++ takes the kernels for aarch64");
    } else {
        println!("skipped: needs aarch64-linux-gnu-g++ or clang++, neither of which is there");
    }
}
