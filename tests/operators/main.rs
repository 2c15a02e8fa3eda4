//! What each operator computes: values that DALI publishes or was measured to give, plain loops,
//! formulas in double; and what a plan refuses.

#[path = "../common/mod.rs"]
mod common;
mod gather;
mod map;
mod plan;
mod point;
mod resample;

use forebay::executor::program::Program;
use forebay::graph::file;
use forebay::tensor::DType;

/// Values of one channel, row by row; u8 values as floats.
#[derive(Debug, Clone, PartialEq)]
struct Picture {
    width: usize,
    height: usize,
    values: Vec<f32>,
}

impl Picture {
    fn new(width: usize, height: usize, value: impl Fn(usize, usize) -> f32) -> Picture {
        let values = (0..width * height).map(|k| value(k % width, k / width)).collect();
        Picture { width, height, values }
    }

    fn rows<const W: usize>(rows: &[[f32; W]]) -> Picture {
        Picture::new(W, rows.len(), |x, y| rows[y][x])
    }

    /// Levels without a pattern.
    fn noise(width: usize, height: usize) -> Picture {
        Picture::new(width, height, |x, y| ((x * 7919 + y * 104_729) * 31 / 7 % 256) as f32)
    }

    fn at(&self, x: usize, y: usize) -> f32 {
        self.values[y * self.width + x]
    }
}

/// The steps of a pipeline file, compiled.
fn program(steps: &str) -> Program {
    Program::new(&file::parse(steps).unwrap()).unwrap_or_else(|e| panic!("{steps}\n{e}"))
}

/// The output for sample `id`, channel by channel; the input has the picture in every channel.
fn channels(steps: &str, input: &Picture, id: u64) -> [Picture; 3] {
    let program = program(steps);
    let bytes: Vec<u8> = input.values.iter().flat_map(|&v| [v as u8; 3]).collect();
    let source = common::pixels(input.width as u32, input.height as u32, &bytes);
    let (height, width, bytes) = common::run(&program, &source, 0, id).remove(0);
    let (height, width) = (height as usize, width as usize);
    let output = &program.outputs()[0];
    let values: Vec<f32> = match output.dtype {
        DType::U8 => bytes.iter().copied().map(f32::from).collect(),
        _ => bytes.chunks(4).map(|b| f32::from_le_bytes(b.try_into().unwrap())).collect(),
    };
    let place = |c: usize, k: usize| match output.layout.name() {
        "CHW" => c * width * height + k,
        _ => k * 3 + c,
    };
    std::array::from_fn(|c| {
        let values = (0..width * height).map(|k| values[place(c, k)]).collect();
        Picture { width, height, values }
    })
}

/// The output of a pipeline that treats all channels alike.
fn apply(steps: &str, input: &Picture) -> Picture {
    let [r, g, b] = channels(steps, input, 0);
    assert_eq!([&r, &r], [&g, &b]);
    r
}

/// `[[step]]` with these lines.
fn step(lines: &str) -> String {
    format!("[[step]]\n{lines}\n")
}
