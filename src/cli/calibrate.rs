//! `forebay bench --calibrate`: from which size on nvJPEG beats what else decodes on this machine: the CPU, and
//! of small pictures our own kernels on the GPU.

use super::progress::Progress;
use anyhow::{Context, Result, bail};
use forebay::dataset::Source;
use forebay::dataset::shapes::{Part, Shapes};
use forebay::device::Choice;
use forebay::device::cuda::Cuda;
use forebay::graph::file;
use forebay::loader::{Deliver, Loader, Options};
use forebay::reader::{Content, Reader};
use serde_json::json;
use std::io::{Write, stdout};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

/// Sides of the pictures, in pixels.
const SIDES: [u32; 10] = [16, 32, 48, 64, 96, 128, 192, 256, 512, 1024];
/// Different pictures of a size.
const PICTURES: u64 = 16;
/// Turns that each decoder gets at each size; the median counts.
const ROUNDS: usize = 5;
/// The least that a turn lasts.
const TURN: Duration = Duration::from_millis(100);

/// Pictures in memory, over and over.
struct Pictures(Vec<Vec<u8>>);

impl Reader for Pictures {
    fn len(&self) -> u64 {
        1 << 40
    }

    fn label(&self, _id: u64) -> i64 {
        0
    }

    fn classes(&self) -> &[String] {
        &[]
    }

    fn place(&self, id: u64) -> PathBuf {
        format!("picture {id}").into()
    }

    fn read(&self, id: u64, buf: &mut Vec<u8>) -> forebay::Result<Content> {
        buf.clear();
        buf.extend_from_slice(&self.0[(id % self.0.len() as u64) as usize]);
        Ok(Content::Encoded)
    }
}

/// What a size came to.
struct Row {
    side: u32,
    /// Images a second by the CPU.
    cpu: f64,
    /// By our own kernels on the GPU, where they take such pictures.
    own: Option<f64>,
    /// By nvJPEG.
    nvjpeg: f64,
}

impl Row {
    /// Images a second without nvJPEG, as a pipeline with a `split` above this size has them.
    fn without(&self) -> f64 {
        self.own.unwrap_or(self.cpu)
    }
}

/// The pipelines' `[decoder]` tables: the CPU's, our own kernels', nvJPEG's.
const DECODERS: [&str; 3] = [
    "device = \"cpu\"",
    "device = \"mixed\"\nbackend = \"own\"\nsplit = 16777216",
    "device = \"mixed\"\nbackend = \"nvjpeg\"",
];

/// Measures, and prints the line for the pipeline file. All decoders feed the same GPU.
pub(crate) fn run(device: Choice, threads: usize, json: bool) -> Result<()> {
    let ordinal = match device {
        Choice::Cpu => bail!("--calibrate compares nvJPEG with the CPU, which takes a GPU"),
        Choice::Auto => 0,
        Choice::Cuda(ordinal) => ordinal,
    };
    let gpu = Cuda::open(ordinal).context("--calibrate compares nvJPEG with the CPU")?;
    let device = Choice::Cuda(ordinal);
    let progress = Progress::new("calibrating", (SIDES.len() * ROUNDS * DECODERS.len()) as u64);
    let mut rows = Vec::new();
    for side in SIDES {
        let pictures = Arc::new(pictures(side)?);
        let open = |decoder: &str| open(device, threads, decoder, pictures.clone(), side);
        let mut loaders = Vec::new();
        for decoder in DECODERS {
            let mut loader = open(decoder)?;
            warm(&mut loader)?;
            loaders.push(loader);
        }
        let nvjpeg = &loaders[2];
        if let Some((reason, _)) = nvjpeg.cpu_decoded().first() {
            let words = nvjpeg.nvjpeg().unwrap_or_default();
            bail!("nvJPEG does not take pictures of {side}x{side}: {reason} ({words})");
        }
        let own = loaders[1].cpu_decoded().is_empty();
        let mut rates = [const { Vec::new() }; DECODERS.len()];
        for _ in 0..ROUNDS {
            for (decoder, (loader, rates)) in loaders.iter_mut().zip(&mut rates).enumerate() {
                // The CPU has decoded what our own kernels do not take.
                if own || decoder != 1 {
                    rates.push(turn(loader)?);
                }
                progress.add(1);
            }
        }
        if loaders[2].gpu_stats().is_some_and(|stats| stats.retried > 0) {
            let failure = loaders[2].nvjpeg_failure().unwrap_or("it left them unwritten".into());
            bail!("nvJPEG fails at pictures of {side}x{side}: {failure}");
        }
        let [cpu, kernels, nvjpeg] = rates;
        let own = own.then(|| median(kernels));
        rows.push(Row { side, cpu: median(cpu), own, nvjpeg: median(nvjpeg) });
    }
    drop(progress);
    print(&rows, &gpu.to_string(), json)
}

fn pictures(side: u32) -> Result<Pictures> {
    let shapes = Shapes::new(1, Part::Train, PICTURES, side);
    let side = shapes.side() as usize;
    let mut rgb = vec![0; side * side * 3];
    let encode = |index| -> Result<Vec<u8>> {
        shapes.image(index, &mut rgb)?;
        let image = turbojpeg::Image {
            pixels: &rgb[..],
            width: side,
            pitch: side * 3,
            height: side,
            format: turbojpeg::PixelFormat::RGB,
        };
        Ok(turbojpeg::compress(image, 85, turbojpeg::Subsamp::Sub2x2)?.to_vec())
    };
    Ok(Pictures((0..PICTURES).map(encode).collect::<Result<_>>()?))
}

/// A pipeline that only decodes, into the GPU's memory.
fn open(
    device: Choice,
    threads: usize,
    decoder: &str,
    pictures: Arc<Pictures>,
    side: u32,
) -> Result<Loader> {
    let text = format!("[decoder]\n{decoder}\n[output]\nlayout = \"HWC\"\ndtype = \"u8\"\n");
    let spec = file::parse(&text)?;
    // Batches of about the same bytes, within what people use.
    let batch_size = (1 << 24) / (side as usize * side as usize);
    let options = Options {
        batch_size: batch_size.clamp(32, 1024),
        threads,
        device,
        deliver: Deliver::Device,
        ..Options::default()
    };
    Ok(Loader::with_reader(&spec, pictures, &options)?)
}

/// A few batches that do not count.
fn warm(loader: &mut Loader) -> Result<()> {
    for batch in loader.epoch(0).take(8) {
        batch?;
    }
    Ok(())
}

/// Images a second over a few batches.
fn turn(loader: &mut Loader) -> Result<f64> {
    let mut images = 0;
    let start = Instant::now();
    // A batch is handed over when its work is queued; with the ring full, as fast as it is done.
    for batch in loader.epoch(0) {
        images += batch?.len();
        if start.elapsed() > TURN {
            break;
        }
    }
    Ok(images as f64 / start.elapsed().as_secs_f64())
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values[values.len() / 2]
}

/// The largest picture, in pixels, up to which nvJPEG is not the fastest.
fn split(rows: &[Row]) -> u64 {
    let faster = rows.iter().rposition(|row| row.without() >= row.nvjpeg);
    faster.map_or(0, |at| u64::from(rows[at].side) * u64::from(rows[at].side))
}

fn print(rows: &[Row], gpu: &str, json: bool) -> Result<()> {
    let mut out = stdout().lock();
    let split = split(rows);
    if json {
        let sizes = rows.iter().map(|row| {
            json!({ "side": row.side, "cpu_images_per_s": row.cpu.round(),
                "own_images_per_s": row.own.map(f64::round), "nvjpeg_images_per_s": row.nvjpeg.round() })
        });
        let sizes: Vec<_> = sizes.collect();
        writeln!(out, "{}", json!({ "device": gpu, "split": split, "sizes": sizes }))?;
        return Ok(());
    }
    writeln!(out, "decoding into the memory of {gpu}, images/s\n")?;
    let head = ["size", "CPU", "own on GPU", "nvJPEG"].map(|name| format!("{name:>12}")).concat();
    writeln!(out, "{head}{:>8}", "ratio")?;
    for row in rows {
        let Row { side, cpu, own, nvjpeg } = row;
        let (size, ratio) = (format!("{side}x{side}"), nvjpeg / row.without());
        let own = own.map_or("-".into(), |own| format!("{own:.0}"));
        writeln!(out, "{size:>12}{cpu:>12.0}{own:>12}{nvjpeg:>12.0}{ratio:>8.2}")?;
    }
    writeln!(
        out,
        "\nratio: nvJPEG's rate over that of our own kernels, where they take such pictures, or the CPU's"
    )?;
    writeln!(out, "\nfor the pipeline file:\n\n[decoder]\ndevice = \"mixed\"\nsplit = {split}")?;
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_split_is_where_nvjpeg_last_loses() {
        let rows = |ratios: &[f64]| -> Vec<Row> {
            let row = |(side, ratio): (&u32, &f64)| Row {
                side: *side,
                cpu: 1.0,
                own: None,
                nvjpeg: *ratio,
            };
            SIDES.iter().zip(ratios).map(row).collect()
        };
        assert_eq!(split(&rows(&[0.1, 0.5, 0.9, 1.1, 3.0])), 48 * 48);
        assert_eq!(split(&rows(&[2.0, 3.0])), 0);
        assert_eq!(split(&rows(&[0.1, 1.2, 0.9, 2.0])), 48 * 48);
        // Where our own kernels take them, nvJPEG has to beat those.
        let mut small = rows(&[2.0, 2.0, 2.0]);
        small[1].own = Some(3.0);
        assert_eq!(split(&small), 32 * 32);
    }
}
