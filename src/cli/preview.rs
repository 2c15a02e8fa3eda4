//! `forebay preview`: originals beside what the pipeline makes of them.

use super::counts;
use super::open::{SourceArgs, report};
use super::sheet::{self, Row};
use anyhow::Result;
use forebay::graph::plan::Plan;
use forebay::graph::program::{FLAG_IMAGE, NO_GUARD, Op, STEP_POINT};
use forebay::graph::spec::{Output, Spec};
use forebay::loader::Options;
use forebay::ops;
use forebay::policy::OnError;
use forebay::tensor::{DType, Layout, TensorView};
use image::{Rgb, RgbImage};
use std::io::{Write, stdout};
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(flatten)]
    source: SourceArgs,
    /// The picture to write; .png, or another format by its extension
    #[arg(long, value_name = "FILE", default_value = "sheet.png")]
    out: PathBuf,
    /// Rows: so many samples, spread evenly over the list
    #[arg(long, value_name = "N", default_value = "8", value_parser = clap::value_parser!(u64).range(1..=1000))]
    samples: u64,
    /// Rows: these samples, by their number in the list, from 0
    #[arg(long, value_name = "ID,…", value_delimiter = ',', conflicts_with = "samples")]
    ids: Option<Vec<u64>>,
    /// The epoch of the first column
    #[arg(long, value_name = "N", default_value = "0")]
    epoch: u32,
    /// Columns beside the original: so many epochs
    #[arg(long, value_name = "N", default_value = "5", value_parser = clap::value_parser!(u32).range(1..=100))]
    epochs: u32,
}

/// Draws the sheet: a row a sample, the original first, then one epoch after another.
pub(crate) fn run(args: &Args) -> Result<()> {
    let spec = args.source.pipeline.spec()?;
    let ids = match &args.ids {
        Some(ids) => ids.clone(),
        None => {
            let listed = args.source.open(&spec, &args.source.options(1))?.samples();
            let samples = args.samples.min(listed);
            (0..samples).map(|row| row * listed / samples).collect()
        }
    };
    // One sample a batch, since originals need not be of one size.
    let options = Options {
        ids: Some(ids.clone()),
        // A sheet shows what was asked for.
        on_error: Some(OnError::Fail),
        ..args.source.options(1)
    };

    let mut originals = args.source.open(&decode_only(&spec), &options)?;
    let classes = originals.classes().to_vec();
    let mut rows = Vec::new();
    for batch in originals.epoch(0) {
        let batch = batch?;
        let label = batch.labels()[0];
        let class = usize::try_from(label).ok().and_then(|label| classes.get(label));
        rows.push(Row {
            text: vec![
                class.cloned().unwrap_or_else(|| format!("class {label}")),
                format!("#{}", batch.ids()[0]),
            ],
            pictures: vec![Values::of(batch.images(), Layout::Hwc).picture(&Tone::PLAIN)],
        });
    }

    let mut loader = args.source.open(&spec, &options)?;
    let layout = loader.outputs()[0].layout;
    let epochs = args.epoch..args.epoch.saturating_add(args.epochs);
    let mut values = Vec::new();
    for epoch in epochs.clone() {
        for batch in loader.epoch(epoch) {
            values.push(Values::of(batch?.images(), layout));
        }
    }
    report(&loader);
    let (tone, how) = tone(&Plan::compile(&spec, ops::ALL)?, &values);
    for (values, row) in values.iter().zip((0..rows.len()).cycle()) {
        rows[row].pictures.push(values.picture(&tone));
    }

    let columns: Vec<String> = std::iter::once("original".to_string())
        .chain(epochs.map(|epoch| format!("epoch {epoch}")))
        .collect();
    let sheet = sheet::draw(&columns, &rows);
    sheet::save(&sheet, &args.out)?;
    let (path, rows) = (args.out.display(), counts(rows.len() as u64, "sample", "samples"));
    writeln!(stdout(), "{path}: {rows} in {} columns{how}", columns.len())?;
    Ok(())
}

/// The pipeline without its steps: pixels as they were decoded.
fn decode_only(spec: &Spec) -> Spec {
    Spec {
        draws: Vec::new(),
        steps: Vec::new(),
        outputs: vec![Output {
            name: "images".into(),
            from: None,
            layout: Some(Layout::Hwc),
            dtype: Some(DType::U8),
        }],
        ..spec.clone()
    }
}

/// An image as a pipeline left it: HWC, whatever the numbers mean.
struct Values {
    width: usize,
    height: usize,
    values: Vec<f32>,
    dtype: DType,
}

impl Values {
    /// The first image of a batch.
    fn of(batch: TensorView<'_>, layout: Layout) -> Self {
        let (height, width) = match layout {
            Layout::Hwc => (batch.shape[1], batch.shape[2]),
            Layout::Chw => (batch.shape[2], batch.shape[3]),
        };
        // Large images are thinned at once: many epochs of photos would not fit into memory.
        let thin = height.max(width).div_ceil(2 * sheet::LARGE as usize);
        let plane = width * height;
        let at = |y: usize, x: usize, c: usize| match layout {
            Layout::Hwc => (y * width + x) * 3 + c,
            Layout::Chw => c * plane + y * width + x,
        };
        let value = |i: usize| match batch.as_f32() {
            Some(values) => values[i],
            None => f32::from(batch.bytes[i]),
        };
        let (rows, columns) = ((0..height).step_by(thin), (0..width).step_by(thin));
        let (height, width) = (rows.len(), columns.len());
        let places =
            rows.flat_map(|y| columns.clone().flat_map(move |x| (0..3).map(move |c| (y, x, c))));
        let values = places.map(|(y, x, c)| value(at(y, x, c))).collect();
        Values { width, height, values, dtype: batch.dtype }
    }

    fn picture(&self, tone: &Tone) -> RgbImage {
        RgbImage::from_fn(self.width as u32, self.height as u32, |x, y| {
            let at = 3 * (y as usize * self.width + x as usize);
            // `as` saturates, and turns NaN to black.
            Rgb([0, 1, 2].map(|c| tone.level(c, self.values[at + c]).round() as u8))
        })
    }
}

/// How values become colours: `value * scale + offset` is 0 to 255.
struct Tone {
    scale: [f32; 3],
    offset: [f32; 3],
}

impl Tone {
    const PLAIN: Tone = Tone { scale: [1.0; 3], offset: [0.0; 3] };

    fn level(&self, channel: usize, value: f32) -> f32 {
        value * self.scale[channel] + self.offset[channel]
    }

    /// Whether every finite value of `image` becomes a level of 0 to 255, but for rounding.
    fn fits(&self, image: &Values) -> bool {
        let levels = image.values.iter().enumerate().map(|(i, &value)| self.level(i % 3, value));
        levels.filter(|level| level.is_finite()).all(|level| (-0.5..=255.5).contains(&level))
    }
}

/// How to show these values, and a word on it for where it is a guess.
fn tone(plan: &Plan, values: &[Values]) -> (Tone, String) {
    if values.iter().all(|image| image.dtype == DType::U8) {
        return (Tone::PLAIN, String::new());
    }
    let undone = undo(plan);
    if values.iter().all(|image| undone.fits(image)) {
        return (undone, String::new());
    }
    let finite = || values.iter().flat_map(|image| &image.values).filter(|v| v.is_finite());
    let low = finite().copied().fold(f32::INFINITY, f32::min);
    let high = finite().copied().fold(f32::NEG_INFINITY, f32::max);
    let scale = 255.0 / (high - low).max(f32::MIN_POSITIVE);
    let how = format!("; colours are stretched from {low} to {high}");
    (Tone { scale: [scale; 3], offset: [-low * scale; 3] }, how)
}

/// Undoes the arithmetic with constants at the end of the first output: a `normalize`, or the same
/// written out.
fn undo(plan: &Plan) -> Tone {
    let mut tone = Tone::PLAIN;
    let shown = plan.outputs()[0].image;
    let Some(pass) = plan.passes().iter().find(|pass| usize::from(pass.dest) == shown) else {
        return tone;
    };
    let constant = |register: u16| {
        let scalar = plan.scalars().iter().find(|scalar| scalar.dst == register)?;
        (scalar.op == Op::Const as u16).then(|| f32::from_bits(scalar.value))
    };
    let steps = &plan.steps()[pass.first_step as usize..][..pass.steps as usize];
    for step in steps.iter().rev() {
        let operand = |c: usize| constant(step.regs[c]);
        let plain =
            step.kind == STEP_POINT && step.guard == NO_GUARD && step.flags & FLAG_IMAGE == 0;
        let (true, Some(r), Some(g), Some(b)) = (plain, operand(0), operand(1), operand(2)) else {
            break;
        };
        let (times, plus) = match step.op {
            op if op == Op::Div as u8 => ([r, g, b], [0.0; 3]),
            op if op == Op::Mul as u8 => ([r, g, b].map(f32::recip), [0.0; 3]),
            op if op == Op::Sub as u8 => ([1.0; 3], [r, g, b]),
            op if op == Op::Add as u8 => ([1.0; 3], [-r, -g, -b]),
            _ => break,
        };
        for c in 0..3 {
            tone.scale[c] *= times[c];
            tone.offset[c] = tone.offset[c] * times[c] + plus[c];
        }
    }
    tone
}

#[cfg(test)]
mod tests {
    use super::*;
    use forebay::graph::file;

    #[test]
    fn planes_become_pixels() {
        let bytes: Vec<u8> = (0..12).collect();
        let view = |shape| TensorView { shape, dtype: DType::U8, bytes: &bytes };
        let chw = Values::of(view(&[1, 3, 2, 2]), Layout::Chw);
        assert_eq!(chw.values[..6], [0.0, 4.0, 8.0, 1.0, 5.0, 9.0]);
        let hwc = Values::of(view(&[1, 1, 4, 3]), Layout::Hwc);
        assert_eq!((hwc.width, hwc.height), (4, 1));
        assert_eq!(hwc.picture(&Tone::PLAIN).get_pixel(1, 0), &Rgb([3, 4, 5]));
    }

    /// However it is written; and what is not undone is stretched.
    #[test]
    fn normalize_is_undone_for_viewing() {
        let plan = |steps: &str| {
            let spec = file::parse(&format!("{steps}\n[output]\ndtype = \"f32\"")).unwrap();
            Plan::compile(&spec, ops::ALL).unwrap()
        };
        let shown = |steps: &str, value| {
            let image = Values { width: 1, height: 1, values: vec![value; 3], dtype: DType::F32 };
            let (tone, how) = tone(&plan(steps), std::slice::from_ref(&image));
            (image.picture(&tone).get_pixel(0, 0).0, how.is_empty())
        };
        let value = (100.0 / 255.0 - 0.5) / 0.25;
        let normalize = "[[step]]\nop = \"normalize\"\nmean = 0.5\nstd = 0.25";
        assert_eq!(shown(normalize, value), ([100; 3], true));
        let written = "[[step]]\nop = \"expr\"\nexpr = \"(x / 255 - 0.5) / 0.25\"";
        assert_eq!(shown(written, value), ([100; 3], true));
        assert!(!shown(written, 1e6).1);
    }
}
