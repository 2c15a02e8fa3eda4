//! What several test binaries share.
#![allow(dead_code)] // Each binary uses a part.

use forebay::decoder::Pixels;
use forebay::executor::program::{Program, Scratch};
use forebay::graph::spec::{Arg, Body, Condition, Output, Spec, Step};
use forebay::tensor::{DType, Layout};
use std::path::PathBuf;

/// The folder of real data beside the project, where there is one; else says so and gives `None`.
pub(crate) fn shared(what: &str) -> Option<PathBuf> {
    let root = std::env::var_os("FOREBAY_SHARED")
        .map(PathBuf::from)
        .unwrap_or_else(|| PathBuf::from(concat!(env!("CARGO_MANIFEST_DIR"), "/../shared")));
    let path = root.join("data").join(what);
    if path.exists() {
        return Some(path);
    }
    eprintln!("skipped: needs data/{what} of FOREBAY_SHARED, which is not there");
    None
}

/// A NumPy file's shape, descriptor and bytes.
pub(crate) fn read_npy(path: &std::path::Path) -> (Vec<usize>, String, Vec<u8>) {
    let bytes = std::fs::read(path).unwrap();
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00", "{}", path.display());
    let len = u16::from_le_bytes([bytes[8], bytes[9]]) as usize;
    let header = std::str::from_utf8(&bytes[10..10 + len]).unwrap();
    let after = |key: &str| header.split_once(key).unwrap().1;
    let descr = after("'descr': '").split('\'').next().unwrap().to_string();
    let shape = after("'shape': (").split(')').next().unwrap();
    let shape = shape.split(',').filter_map(|n| n.trim().parse().ok()).collect();
    (shape, descr, bytes[10 + len..].to_vec())
}

/// RGB pixels as a decoder would leave them.
pub(crate) fn pixels(width: u32, height: u32, bytes: &[u8]) -> Pixels {
    let mut pixels = Pixels::new();
    pixels.reset(width, height).unwrap().copy_from_slice(bytes);
    pixels
}

/// A step without name, place or predicate.
pub(crate) fn step(op: &str, args: &[(&str, Arg)]) -> Step {
    let args = args.iter().map(|(name, arg)| (name.to_string(), arg.clone())).collect();
    Step { name: None, from: None, when: None, body: Body::Op { op: op.into(), args } }
}

/// `step` under a predicate.
pub(crate) fn when(condition: Condition, step: Step) -> Step {
    Step { when: Some(condition), ..step }
}

/// A pipeline of `steps` with one output.
pub(crate) fn spec(steps: Vec<Step>, layout: Option<Layout>, dtype: Option<DType>) -> Spec {
    let output = Output { name: "images".into(), from: None, layout, dtype };
    Spec {
        seed: 42,
        reader: Default::default(),
        decoder: Default::default(),
        draws: Vec::new(),
        steps,
        outputs: vec![output],
    }
}

/// Runs one sample; the outputs' rows, columns and bytes.
pub(crate) fn run(
    program: &Program,
    pixels: &Pixels,
    epoch: u32,
    id: u64,
) -> Vec<(u32, u32, Vec<u8>)> {
    let mut scratch = Scratch::default();
    program.resolve(&mut scratch, 42, epoch, id, pixels.width(), pixels.height()).unwrap();
    run_resolved(program, &mut scratch, pixels)
}

/// The same of a sample that is resolved.
pub(crate) fn run_resolved(
    program: &Program,
    scratch: &mut Scratch,
    pixels: &Pixels,
) -> Vec<(u32, u32, Vec<u8>)> {
    let mut outs: Vec<_> = (0..program.outputs().len())
        .map(|k| {
            let (h, w) = program.output_size(scratch, k);
            let bytes = h as usize * w as usize * 3 * program.outputs()[k].dtype.size();
            // Vec<u64> gives the alignment that f32 places need.
            (h, w, vec![0u64; bytes.div_ceil(8)], bytes)
        })
        .collect();
    let mut places: Vec<&mut [u8]> = outs
        .iter_mut()
        .map(|(_, _, words, bytes)| &mut bytemuck::cast_slice_mut(words)[..*bytes])
        .collect();
    program.run(scratch, pixels.picture(), &mut places).unwrap();
    outs.into_iter()
        .map(|(h, w, words, bytes)| (h, w, bytemuck::cast_slice(&words)[..bytes].to_vec()))
        .collect()
}
