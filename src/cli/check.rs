//! `forebay check`: every unreadable or odd file, before training.

use super::clean::{Cleaned, ListArgs};
use super::limits::LimitArgs;
use super::open::{self, PipelineArgs};
use super::progress::Progress;
use super::{Verdict, counts};
use anyhow::Result;
use forebay::decoder::{self, Decoder, Limits, Pixels};
use forebay::error::{Error, ErrorKind};
use forebay::graph::spec::ReaderKind;
use forebay::loader::kind_in;
use forebay::reader::cifar10::Cifar10;
use forebay::reader::file_list::FileList;
use forebay::reader::folders::Folders;
use forebay::reader::tar::Tar;
use forebay::reader::{Content, Reader};
use rayon::prelude::*;
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{Write, stdout};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};

/// Wrong lines of a list after which it is most likely no list.
const MAX_LINE_FAULTS: usize = 1000;

#[derive(clap::Args)]
pub(crate) struct Args {
    /// Directory that holds labels.txt or tar shards, or train/ and valid/ that do
    #[arg(long, value_name = "DIR")]
    data: PathBuf,
    /// Its reader says how samples are listed
    #[command(flatten)]
    pipeline: PipelineArgs,
    /// Let symbolic links lead out of the data directory
    #[arg(long)]
    follow_links: bool,
    #[command(flatten)]
    limits: LimitArgs,
    #[command(flatten)]
    list: ListArgs,
    /// Print one JSON object
    #[arg(long)]
    json: bool,
}

/// What was found under one root.
struct Found {
    root: PathBuf,
    samples: u64,
    classes: u64,
    /// Samples that training would stop at (or skip), in the list's order.
    faults: Vec<Error>,
    /// Samples that train, but not as their makers may think.
    odd: Vec<Error>,
    /// Images by (width, height).
    sizes: BTreeMap<(u32, u32), u64>,
    /// Images by format.
    formats: BTreeMap<&'static str, u64>,
    /// The list of those without a fault, where one was asked for.
    cleaned: Option<Cleaned>,
}

/// Reads and decodes every sample; [`Verdict::Bad`] where one is unreadable.
pub(crate) fn run(args: &Args) -> Result<Verdict> {
    let kind = args.pipeline.spec()?.reader.kind;
    let roots = open::roots(&args.data, &kind)?;
    args.list.admit(&kind, &roots)?;
    let mut found = Vec::new();
    for root in roots {
        let kind = kind_in(&kind, &root);
        found.push(check(root, &kind, args)?);
    }
    let mut out = stdout().lock();
    if args.json {
        writeln!(out, "{}", to_json(&found))?;
    } else {
        found.iter().try_for_each(|found| print(&mut out, found))?;
    }
    let good = found.iter().all(|found| found.faults.is_empty());
    Ok(if good { Verdict::Good } else { Verdict::Bad })
}

fn check(root: PathBuf, kind: &ReaderKind, args: &Args) -> Result<Found> {
    let mut found = Found {
        samples: 0,
        classes: 0,
        faults: Vec::new(),
        odd: Vec::new(),
        sizes: BTreeMap::new(),
        formats: BTreeMap::new(),
        cleaned: None,
        root,
    };
    let no_list = match open_reader(kind, args, &mut found) {
        Ok(reader) => {
            let whole = found.faults.len() < MAX_LINE_FAULTS;
            check_samples(&*reader, args.limits.limits(), &mut found);
            if whole {
                found.cleaned = args.list.write(&found.root, &*reader, &found.faults)?;
            }
            if whole { "every sample has a fault" } else { "too many of its lines are wrong" }
        }
        // A list that cannot be read is a fault like any other.
        Err(error) => {
            found.faults.push(error);
            "the samples' own list cannot be read"
        }
    };
    if args.list.is_wanted() && found.cleaned.is_none() {
        eprintln!("forebay: note: {}: no list was written: {no_list}", found.root.display());
    }
    Ok(found)
}

/// Opens the reader, past wrong lines of its list.
fn open_reader(
    kind: &ReaderKind,
    args: &Args,
    found: &mut Found,
) -> Result<Box<dyn Reader>, Error> {
    let (root, max_bytes) = (&found.root, args.limits.limits().bytes);
    Ok(match kind {
        ReaderKind::File { file_list } => {
            let (list, faults) =
                FileList::open_with_faults(root, file_list, args.follow_links, MAX_LINE_FAULTS)?;
            found.faults.extend(faults);
            Box::new(list.with_limit(max_bytes))
        }
        ReaderKind::Folders => {
            let folders = Folders::open(root, args.follow_links)?;
            let odd = folders.warnings().iter().map(|what| Error::new(ErrorKind::Data, what));
            found.odd.extend(odd);
            Box::new(folders.with_limit(max_bytes))
        }
        ReaderKind::Tar => {
            let tar = Tar::open(root, args.follow_links)?;
            found.faults.extend(tar.disagreements());
            Box::new(tar.with_limit(max_bytes))
        }
        ReaderKind::Cifar10 { train } => Box::new(Cifar10::open(root, *train)?),
    })
}

fn check_samples(reader: &dyn Reader, limits: Limits, found: &mut Found) {
    found.samples = reader.len();
    found.classes = match reader.classes().len() {
        0 => {
            let mut labels: Vec<i64> = (0..reader.len()).map(|id| reader.label(id)).collect();
            labels.sort_unstable();
            labels.dedup();
            labels.len() as u64
        }
        named => named as u64,
    };
    let progress = Progress::new("checking", reader.len());
    let looks: Vec<Result<Look, Error>> = (0..reader.len())
        .into_par_iter()
        .map_init(
            || Eye::new(limits),
            |eye, id| {
                let look = catch_unwind(AssertUnwindSafe(|| eye.look(reader, id)));
                progress.add(1);
                look.unwrap_or_else(|_| {
                    // It may have left any part of it half changed.
                    *eye = Eye::new(limits);
                    let text = "internal error, please report it with this file";
                    Err(reader.locate(id, Error::new(ErrorKind::Decode, text)))
                })
            },
        )
        .collect();
    for look in looks {
        match look {
            Err(error) => found.faults.push(error),
            Ok(look) => {
                *found.sizes.entry(look.size).or_default() += 1;
                *found.formats.entry(look.format).or_default() += 1;
                found.odd.extend(look.odd);
            }
        }
    }
    // Wrong lines of the list were found first; where lines are known, they give the order.
    found.faults.sort_by_key(Error::line);
}

/// What one readable sample showed.
struct Look {
    size: (u32, u32),
    format: &'static str,
    odd: Option<Error>,
}

/// One thread's decoder and buffers.
struct Eye {
    decoder: Decoder,
    file: Vec<u8>,
    pixels: Pixels,
}

impl Eye {
    fn new(limits: Limits) -> Self {
        Eye { decoder: Decoder::new(limits), file: Vec::new(), pixels: Pixels::new() }
    }

    fn look(&mut self, reader: &dyn Reader, id: u64) -> Result<Look, Error> {
        if let Content::Planar { height, width } = reader.read(id, &mut self.file)? {
            return Ok(Look { size: (width, height), format: "raw", odd: None });
        }
        let locate = |error| reader.locate(id, error);
        let info = self.decoder.decode(&self.file, &mut self.pixels).map_err(locate)?;
        let odd = oddity(&reader.place(id), &self.file, &info);
        Ok(Look {
            size: (self.pixels.width(), self.pixels.height()),
            format: info.format,
            odd: odd.map(|what| locate(Error::new(ErrorKind::Data, what))),
        })
    }
}

/// Why a file that decodes deserves a look, if it does.
fn oddity(name: &Path, bytes: &[u8], info: &decoder::Info) -> Option<String> {
    let extension = name.extension().map(|e| e.to_string_lossy().to_lowercase());
    let promised = extension.as_deref().and_then(|extension| match extension {
        "jpg" | "jpeg" => Some("jpeg"),
        "tif" | "tiff" => Some("tiff"),
        "pbm" | "pgm" | "ppm" => Some("pnm"),
        "png" | "webp" | "gif" | "bmp" => Some(extension),
        _ => None,
    });
    let mut what = Vec::new();
    if let Some(promised) = promised.filter(|promised| *promised != info.format) {
        what.push(format!("named as {promised}, is {}", info.format));
    }
    if let Some(warnings) = info.warning_text() {
        what.push(format!("decodes, but has {warnings}"));
    }
    if let Ok(header) = decoder::probe(bytes) {
        if header.format == "jpeg" && header.components == 4 {
            what.push("CMYK, turned to RGB without a colour profile".into());
        }
        if header.precision > 8 {
            what.push(format!("{} bits a channel, cut to 8", header.precision));
        }
    }
    (!what.is_empty()).then(|| what.join("; "))
}

fn print(out: &mut impl Write, found: &Found) -> Result<()> {
    for error in &found.faults {
        writeln!(out, "fault: {error}")?;
    }
    for error in &found.odd {
        writeln!(out, "odd: {error}")?;
    }
    let Found { samples, classes, .. } = found;
    writeln!(
        out,
        "{}: {}, {}, {}, {}, {}",
        found.root.display(),
        counts(*samples, "sample", "samples"),
        counts(*classes, "class", "classes"),
        describe(found),
        counts(found.faults.len() as u64, "fault", "faults"),
        counts(found.odd.len() as u64, "odd file", "odd files"),
    )?;
    if let Some(Cleaned { path, samples, left_out }) = &found.cleaned {
        let (path, samples) = (path.display(), counts(*samples, "sample", "samples"));
        writeln!(out, "{path}: {samples}, {left_out} left out")?;
    }
    Ok(())
}

/// Formats and sizes, in a few words.
fn describe(found: &Found) -> String {
    let formats: Vec<&str> = found.formats.keys().copied().collect();
    let side = |pick: fn(&(u32, u32)) -> u32| {
        let sides = found.sizes.keys().map(pick);
        (sides.clone().min().unwrap_or(0), sides.max().unwrap_or(0))
    };
    let ((least_w, most_w), (least_h, most_h)) = (side(|s| s.0), side(|s| s.1));
    match found.sizes.len() {
        0 => "nothing readable".into(),
        1 => format!("{} of {least_w}x{least_h}", formats.join("+")),
        n => format!(
            "{} of {n} sizes from {least_w} to {most_w} wide and {least_h} to {most_h} high",
            formats.join("+")
        ),
    }
}

fn to_json(found: &[Found]) -> serde_json::Value {
    let errors = |errors: &[Error]| -> Vec<serde_json::Value> {
        let each = |e: &Error| {
            json!({
                "file": e.path().map(|path| path.to_string_lossy()),
                "line": e.line(),
                "sample": e.sample(),
                "reason": e.message(),
            })
        };
        errors.iter().map(each).collect()
    };
    let each = |found: &Found| {
        let size = |(&(width, height), &images): (&(u32, u32), &u64)| json!({ "width": width, "height": height, "images": images });
        let cleaned = found.cleaned.as_ref().map(|cleaned| {
            json!({
                "file": cleaned.path.to_string_lossy(),
                "samples": cleaned.samples,
                "left_out": cleaned.left_out,
            })
        });
        json!({
            "data": found.root.to_string_lossy(),
            "samples": found.samples,
            "classes": found.classes,
            "formats": found.formats,
            "sizes": found.sizes.iter().map(size).collect::<Vec<_>>(),
            "faults": errors(&found.faults),
            "odd": errors(&found.odd),
            "list": cleaned,
        })
    };
    json!({ "roots": found.iter().map(each).collect::<Vec<_>>() })
}
