//! `forebay predict`: what a network sees on pictures.

use crate::Verdict;
use crate::data::VALID;
use crate::limits::LimitArgs;
use crate::network;
use crate::pictures::class;
use crate::pipelines;
use crate::place;
use crate::status::report;
use crate::train::precision::Precision;
use anyhow::Result;
use forebay::device::Choice;
use forebay::file;
use forebay::loader::{self, Loader};
use forebay::reader::{Content, Reader};
use std::io::{self, Write, stdout};
use std::path::PathBuf;
use std::sync::Arc;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// A checkpoint, or a state dict of a ResNet-18
    #[arg(long, value_name = "FILE")]
    checkpoint: PathBuf,
    /// Pictures
    #[arg(value_name = "IMAGE", required = true)]
    images: Vec<PathBuf>,
    /// A pipeline file, or a built-in one [default: the checkpoint's for validation]
    #[arg(long, value_name = "FILE")]
    pipeline: Option<String>,
    /// So many classes a picture, the likeliest first
    #[arg(long, value_name = "K", default_value_t = 3, value_parser = clap::value_parser!(u16).range(1..))]
    top: u16,
    /// Where to compute: auto, cpu, or cuda:N
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    device: Choice,
    /// Look at each image and its mirror image [default: as the checkpoint's run did]
    #[arg(long)]
    test_flip: bool,
    #[command(flatten)]
    limits: LimitArgs,
    /// Print a JSON object a picture
    #[arg(long)]
    json: bool,
}

/// Tells of each picture; one that cannot be read is told and passed over.
pub(crate) fn run(args: &Args) -> Result<Verdict> {
    let place = place::open(args.device, false)?;
    let (learner, meta) =
        network::open(&args.checkpoint, &place.torch, Precision::F32, args.test_flip)?;
    let settings = network::settings(meta.as_ref())?;
    let named = settings.get("valid_pipeline").and_then(|name| Some(name.as_str()?.to_string()));
    let pipeline = args.pipeline.clone().or(named).unwrap_or_else(|| VALID.to_string());
    let names = meta.map(|meta| meta.model.names).unwrap_or_default();
    // One a batch: pictures need not be of one size, and one that is broken harms no other.
    let limits = args.limits.limits();
    let options = loader::Options {
        batch_size: 1,
        shuffle: Some(false),
        limits,
        device: Choice::Cpu,
        ..loader::Options::default()
    };
    let pictures = Arc::new(Pictures { paths: args.images.clone(), limit: limits.bytes });
    let mut loader = Loader::with_reader(&pipelines::named(&pipeline)?, pictures, &options)
        .map_err(|e| e.in_pipeline(&pipeline))?;
    let mut verdict = Verdict::Done;
    let mut next = 0;
    while next < args.images.len() {
        for batch in loader.epoch_from(0, next) {
            next += 1;
            match batch {
                Ok(batch) => {
                    let likely = learner.likely(batch, args.top.into())?;
                    tell(args, next - 1, &likely, &names)?;
                }
                Err(error) => {
                    report(&error.to_string());
                    verdict = Verdict::Part;
                }
            }
        }
    }
    Ok(verdict)
}

fn tell(args: &Args, image: usize, likely: &[(i64, f64)], names: &[String]) -> io::Result<()> {
    let path = args.images[image].display().to_string();
    if args.json {
        let classes = likely.iter().map(|(label, p)| {
            serde_json::json!({ "label": label, "name": class(names, *label), "p": p })
        });
        let classes = classes.collect::<Vec<_>>();
        return writeln!(stdout(), "{}", serde_json::json!({ "path": path, "classes": classes }));
    }
    let classes = likely.iter().map(|(label, p)| format!("{} {p:.3}", class(names, *label)));
    writeln!(stdout(), "{path}: {}", classes.collect::<Vec<_>>().join(", "))
}

/// The files that were named, wherever they lie.
struct Pictures {
    paths: Vec<PathBuf>,
    /// Bytes of the largest file that is read.
    limit: u64,
}

impl Reader for Pictures {
    fn len(&self) -> u64 {
        self.paths.len() as u64
    }

    fn label(&self, _: u64) -> i64 {
        0
    }

    fn classes(&self) -> &[String] {
        &[]
    }

    fn place(&self, id: u64) -> PathBuf {
        self.paths[id as usize].clone()
    }

    fn read(&self, id: u64, buf: &mut Vec<u8>) -> forebay::Result<Content> {
        *buf = file::read(&self.paths[id as usize], self.limit)?;
        Ok(Content::Encoded)
    }
}
