//! Pipeline files: read, printed, compiled and run.

use super::refusal;
use forebay::decoder::Pixels;
use forebay::device::cpu::Cpu;
use forebay::executor::program::{Program, Scratch};
use forebay::graph::file::{parse, print};
use forebay::graph::plan::Plan;
use forebay::ops;

const SIZE: (u32, u32) = (7, 5);
/// A pipeline may ask for images of any size that fits; those beyond this are not run here.
const MOST_PIXELS: u64 = 1 << 14;
const SAMPLES: u64 = 3;

/// A spec that prints as a file of the same spec and whose plan has the meaning of its steps one by
/// one, or an error.
pub fn run(bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else { return "not text".into() };
    let spec = match parse(text) {
        Ok(spec) => spec,
        Err(error) => {
            assert!(error.line().is_some(), "an error without its line: {error}");
            return refusal(&error);
        }
    };
    let printed = print(&spec);
    match parse(&printed) {
        Ok(again) => assert_eq!(again, spec, "another spec than the one it was printed from"),
        Err(error) => panic!("what was printed is refused: {error}\n{printed}"),
    }
    let plans =
        [Plan::compile(&spec, ops::ALL), Plan::compile_unfused(&spec, ops::ALL)].map(|plan| {
            plan.map(|plan| Program::with(plan, Cpu::best().expect("a CPU that is supported")))
        });
    match &plans {
        [Ok(fused), Ok(plain)] => compare(fused, plain, spec.seed),
        // One pass a primitive reaches other limits.
        [Ok(_), Err(error)] | [Err(error), _] => refusal(error),
    }
}

fn compare(fused: &Program, plain: &Program, seed: u64) -> String {
    let mut picture = Pixels::new();
    let bytes = picture.reset(SIZE.0, SIZE.1).expect("memory for a small picture");
    bytes.iter_mut().zip(0_u32..).for_each(|(byte, k)| *byte = (k * 37 % 256) as u8);
    let passes = fused.plan().passes().len();
    for id in 0..SAMPLES {
        match [fused, plain].map(|program| output(program, seed, id, &picture)) {
            [Ok(Some(fused)), Ok(Some(plain))] => assert!(fused == plain, "fusion changed a byte"),
            [Ok(_), Ok(_)] => return "large".into(),
            [Err(error), Err(_)] => return error,
            [Ok(_), Err(error)] | [Err(error), Ok(_)] => {
                panic!("only one of two forms of one plan fails: {error}")
            }
        }
    }
    format!("{passes} passes")
}

/// The bytes of all outputs; `None` where they would be large.
fn output(
    program: &Program,
    seed: u64,
    id: u64,
    picture: &Pixels,
) -> Result<Option<Vec<Vec<u64>>>, String> {
    let mut scratch = Scratch::default();
    let (width, height) = SIZE;
    program.resolve(&mut scratch, seed, 0, id, width, height).map_err(|e| refusal(&e))?;
    let pixels = |(h, w): (u32, u32)| u64::from(h) * u64::from(w);
    let images = 0..program.plan().images().len();
    if images.map(|k| pixels(program.image_size(&scratch, k))).sum::<u64>() > MOST_PIXELS {
        return Ok(None);
    }
    let bytes = |k: usize| {
        let size = pixels(program.output_size(&scratch, k)) as usize;
        size * 3 * program.outputs()[k].dtype.size()
    };
    let lengths: Vec<usize> = (0..program.outputs().len()).map(bytes).collect();
    // Whole words, since a place is aligned to its elements.
    let mut outputs: Vec<_> = lengths.iter().map(|n| vec![0_u64; n.div_ceil(8)]).collect();
    let mut places: Vec<&mut [u8]> = outputs
        .iter_mut()
        .zip(&lengths)
        .map(|(words, n)| &mut bytemuck::cast_slice_mut(words)[..*n])
        .collect();
    program.run(&mut scratch, picture.picture(), &mut places).expect("memory for a small picture");
    Ok(Some(outputs))
}
