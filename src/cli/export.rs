//! `forebay export`: data sets as directories of JPEG files.

use super::Verdict;
use super::interrupt::Interrupt;
use super::progress::Progress;
use super::status;
use anyhow::Result;
use clap::{Subcommand, ValueEnum, value_parser};
use forebay::dataset::Source;
use forebay::dataset::export::{Jpeg, Subsampling, export};
use forebay::dataset::shapes::{Part, Shapes};
use forebay::reader::cifar10::Cifar10;
use std::io::Write;
use std::path::PathBuf;

#[derive(clap::Args)]
pub(crate) struct Args {
    #[command(subcommand)]
    what: What,
}

#[derive(Subcommand)]
enum What {
    /// CIFAR-10 from its official binaries: 50,000 images in train/, 10,000 in valid/
    Cifar10 {
        /// Directory that holds data_batch_1.bin and the others, or cifar-10-batches-bin
        #[arg(long, value_name = "DIR")]
        from: PathBuf,
        #[command(flatten)]
        target: Target,
        /// JPEG quality
        #[arg(long, default_value_t = 75, value_parser = value_parser!(u8).range(1..=100))]
        quality: u8,
    },
    /// Ten classes of shapes, drawn by the program: works offline
    Shapes {
        #[command(flatten)]
        target: Target,
        /// Images to learn from
        #[arg(long, value_name = "N", default_value_t = 10_000)]
        #[arg(value_parser = value_parser!(u64).range(1..))]
        train: u64,
        /// Images to check with
        #[arg(long, value_name = "N", default_value_t = 2_000)]
        #[arg(value_parser = value_parser!(u64).range(1..))]
        valid: u64,
        /// Rows and columns of an image
        #[arg(long, value_name = "PIXELS", default_value_t = 32)]
        #[arg(value_parser = value_parser!(u32).range(8..=1024))]
        size: u32,
        /// Another seed gives other images
        #[arg(long, value_name = "N", default_value_t = 0)]
        seed: u64,
        /// JPEG quality
        #[arg(long, default_value_t = 90, value_parser = value_parser!(u8).range(1..=100))]
        quality: u8,
    },
}

#[derive(clap::Args)]
struct Target {
    /// Directory to write train/ and valid/ into
    #[arg(long, value_name = "DIR")]
    to: PathBuf,
    /// How densely colour is kept
    #[arg(long, value_enum, default_value = "420")]
    subsampling: Density,
}

#[derive(Clone, Copy, ValueEnum)]
enum Density {
    #[value(name = "420")]
    S420,
    #[value(name = "422")]
    S422,
    #[value(name = "444")]
    S444,
}

/// Writes both parts; a part that is there already costs a comparison.
pub(crate) fn run(args: &Args) -> Result<Verdict> {
    match &args.what {
        What::Cifar10 { from, target, quality } => {
            // Both are checked before anything is written.
            let (train, valid) = (Cifar10::open(from, true)?, Cifar10::open(from, false)?);
            target.write(&train, &valid, *quality)
        }
        What::Shapes { target, train, valid, size, seed, quality } => {
            let part = |part, count| Shapes::new(*seed, part, count, *size);
            target.write(&part(Part::Train, *train), &part(Part::Valid, *valid), *quality)
        }
    }
}

impl Target {
    fn write(&self, train: &dyn Source, valid: &dyn Source, quality: u8) -> Result<Verdict> {
        let subsampling = match self.subsampling {
            Density::S420 => Subsampling::S420,
            Density::S422 => Subsampling::S422,
            Density::S444 => Subsampling::S444,
        };
        let jpeg = Jpeg { quality, subsampling };
        let interrupt = Interrupt::catch(|| {})?;
        for (name, doing, source) in
            [("train", "writing train", train), ("valid", "writing valid", valid)]
        {
            let (dir, total) = (self.to.join(name), source.len());
            let progress = Progress::new(doing, total);
            let report = export(source, &dir, jpeg, &|n| progress.add(n), interrupt.stop());
            drop(progress);
            let report = report?;
            let (written, kept) = (report.written, report.kept);
            if !report.complete {
                let done = written + kept;
                let text =
                    format!("stopped at {done} of {total} {name} images; run it again to go on");
                status::report(&text);
                return Ok(Verdict::Interrupted(interrupt.status()));
            }
            let dir = dir.display();
            let mut out = std::io::stdout().lock();
            match (written, kept) {
                (0, _) => writeln!(out, "{dir}: {total} images, all there already")?,
                (_, 0) => writeln!(out, "{dir}: {total} images written")?,
                _ => writeln!(out, "{dir}: {written} images written, {kept} there already")?,
            }
        }
        Ok(Verdict::Good)
    }
}
