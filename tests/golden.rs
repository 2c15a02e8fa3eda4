//! Outputs of DALI 2.4's CPU operators on real images: equal to the bit where no gather is
//! involved, within the stated bounds for rotate.

mod common;
#[path = "common/golden.rs"]
mod golden;

use common::{pixels, read_npy, run, shared, spec};
use forebay::executor::program::Program;
use forebay::tensor::{DType, Layout};
use golden::steps;
use serde_json::Value;

#[derive(Default)]
struct Tally {
    cases: usize,
    values: usize,
    equal: usize,
    worst: f32,
}

#[test]
fn dali_cpu_operators() {
    let Some(dir) = shared("golden") else { return };
    let manifest: Value =
        serde_json::from_slice(&std::fs::read(dir.join("manifest.json")).unwrap()).unwrap();
    let mut tallies = std::collections::BTreeMap::<String, Tally>::new();
    for case in manifest["cases"].as_array().unwrap() {
        let op = case["op"].as_str().unwrap();
        let name = case["output"].as_str().unwrap();
        let jpeg = std::fs::read(dir.join("inputs").join(case["input"].as_str().unwrap())).unwrap();
        let image = turbojpeg::decompress(&jpeg, turbojpeg::PixelFormat::RGB).unwrap();
        let source = pixels(image.width as u32, image.height as u32, &image.pixels);
        let (shape, descr, expected) = read_npy(&dir.join(name));
        let chw = shape[0] == 3;
        let spec = spec(steps(op, &case["params"]), chw.then_some(Layout::Chw), None);
        let program = Program::new(&spec).unwrap();
        let (h, w, got) = run(&program, &source, 0, 0).remove(0);
        let size = if chw { [shape[1], shape[2]] } else { [shape[0], shape[1]] };
        assert_eq!([h as usize, w as usize], size, "{name}");

        let floats = descr == "<f4";
        assert_eq!(program.outputs()[0].dtype, if floats { DType::F32 } else { DType::U8 });
        let value = |bytes: &[u8], k: usize| match floats {
            true => f32::from_le_bytes(bytes[4 * k..4 * k + 4].try_into().unwrap()),
            false => f32::from(bytes[k]),
        };
        let turned = op == "rotate" || !case["params"]["rotate"].is_null();
        let kind = if turned { format!("{op}, turned") } else { op.to_string() };
        let tally = tallies.entry(kind).or_default();
        tally.cases += 1;
        let n = expected.len() / if floats { 4 } else { 1 };
        let mut equal = 0;
        for k in 0..n {
            let (a, b) = (value(&got, k), value(&expected, k));
            equal += usize::from(a.to_bits() == b.to_bits());
            tally.worst = tally.worst.max((a - b).abs());
        }
        tally.values += n;
        tally.equal += equal;
        let share = equal as f64 / n as f64;
        let least = match (op, turned) {
            ("rotate", _) => 0.995,
            (_, true) => 0.99,
            (_, false) => 1.0,
        };
        assert!(share >= least, "{name}: {op} {}: {share:.5} equal", case["params"]);
    }
    for (kind, t) in &tallies {
        println!(
            "{kind}: {} cases, {} of {} values equal ({:.4}%), largest difference {}",
            t.cases,
            t.equal,
            t.values,
            100.0 * t.equal as f64 / t.values as f64,
            t.worst
        );
    }
    assert!(tallies["rotate, turned"].worst <= 1.0);
}
