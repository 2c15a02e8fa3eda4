//! One image in a process of its own: the child's side and the parent's.

use crate::encode::{Kind, jpeg, picture};
use forebay::decoder::{Decoder, Limits, Pixels, probe};
use forebay::{ErrorKind, Result};
use rustix::process::{Resource, Rlimit, setrlimit};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};
use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// Tells this program that it is the child.
pub(crate) const FLAG: &str = "--alone";
/// Bytes that the child may take, libraries and all.
const MEMORY: u64 = 2 << 30;
/// After so long the child is killed.
const TIME: Duration = Duration::from_secs(60);

/// What a child found.
pub(crate) struct Found {
    pub(crate) outcome: Outcome,
    pub(crate) ms: f64,
    /// Of the whole process, in MiB.
    pub(crate) peak: f64,
    /// What of that the decode took.
    pub(crate) took: f64,
    /// Whether the same decoder went on as if nothing had been.
    pub(crate) unharmed: bool,
}

pub(crate) enum Outcome {
    Decoded {
        size: (u64, u64),
        sha256: String,
        /// The largest difference from the reference picture.
        off: Option<u64>,
        warnings: Option<String>,
        /// Whether its header says the same of its size.
        header_agrees: bool,
    },
    Refused {
        kind: String,
        text: String,
    },
}

/// The child: decodes `file`, compares with the picture `reference`, and prints what it found.
pub(crate) fn decode(file: &Path, reference: Option<&Path>) {
    let most = Rlimit { current: Some(MEMORY), maximum: Some(MEMORY) };
    setrlimit(Resource::As, most).expect("memory can be limited");
    let bytes = std::fs::read(file).expect("the parent named a file");
    let (mut decoder, mut pixels) = (Decoder::new(Limits::default()), Pixels::new());
    let before = peak();
    let start = Instant::now();
    let result = decoder.decode(&bytes, &mut pixels);
    let ms = start.elapsed().as_secs_f64() * 1e3;
    let peak = peak();
    let outcome = match &result {
        Ok(info) => json!({
            "width": pixels.width(),
            "height": pixels.height(),
            "sha256": digest(&pixels),
            "off": reference.map(|path| difference(&pixels, path)),
            "warnings": info.warning_text(),
            "header": probe(&bytes).is_ok_and(|header| {
                header.upright_size() == (pixels.width(), pixels.height())
            }),
        }),
        Err(error) => {
            assert!(!error.to_string().contains('\n'), "{error}");
            json!({ "kind": format!("{:?}", error.kind()), "refused": error.message() })
        }
    };
    let unharmed = goes_on(&mut decoder, &bytes, &result.map(|_| digest(&pixels)));
    let found = json!({
        "ms": ms, "peak": peak, "took": peak - before, "unharmed": unharmed, "outcome": outcome,
    });
    println!("{found}");
}

/// Whether `decoder` says the same again, and decodes a good image as ever.
fn goes_on(decoder: &mut Decoder, bytes: &[u8], first: &Result<String>) -> bool {
    let mut pixels = Pixels::new();
    let again = decoder.decode(bytes, &mut pixels).map(|_| digest(&pixels));
    let same = match (first, &again) {
        (Ok(first), Ok(again)) => first == again,
        (Err(first), Err(again)) => first.to_string() == again.to_string(),
        _ => false,
    };
    let good = jpeg(&picture(40, 30, 3), 40, 30, Kind::COURSE);
    let mut digests = [decoder, &mut Decoder::new(Limits::default())]
        .map(|decoder| decoder.decode(&good, &mut pixels).map(|_| digest(&pixels)).ok());
    let fresh = digests[1].take();
    same && fresh.is_some() && digests[0] == fresh
}

fn digest(pixels: &Pixels) -> String {
    Sha256::digest(pixels.bytes()).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// The largest difference of a channel from a picture in a file; 256 where the sizes differ.
fn difference(pixels: &Pixels, path: &Path) -> u64 {
    let picture = image::open(path).expect("the reference is a picture").to_rgb8();
    if picture.dimensions() != (pixels.width(), pixels.height()) {
        return 256;
    }
    let pairs = pixels.bytes().iter().zip(picture.as_raw());
    pairs.map(|(&a, &b)| u64::from(a.abs_diff(b))).max().unwrap_or(0)
}

/// The most memory that this process has had at once, in MiB.
fn peak() -> f64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"));
    let kib = line.and_then(|line| line.trim().strip_suffix(" kB")?.parse::<f64>().ok());
    kib.expect("the system tells of memory") / 1024.0
}

/// The parent: has a child decode `file`. Errors: it died, or took too long.
pub(crate) fn run(file: &Path, reference: Option<&Path>) -> Result<Found, String> {
    let program = std::env::current_exe().expect("the program has a path");
    let mut child = Command::new(program)
        .arg(FLAG)
        .args([Some(file), reference].into_iter().flatten())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("this program starts again");
    let deadline = Instant::now() + TIME;
    let status = loop {
        match child.try_wait().expect("a child can be waited for") {
            Some(status) => break status,
            None if Instant::now() > deadline => {
                let _ = child.kill();
                let _ = child.wait();
                return Err(format!("not done after {} s", TIME.as_secs()));
            }
            None => std::thread::sleep(Duration::from_millis(1)),
        }
    };
    // Both are short, so that they fit into their pipes.
    let read = |pipe: Option<&mut dyn Read>| {
        let mut text = String::new();
        pipe.expect("it is piped").read_to_string(&mut text).map(|_| text).unwrap_or_default()
    };
    let out = read(child.stdout.as_mut().map(|pipe| pipe as &mut dyn Read));
    let complaint = read(child.stderr.as_mut().map(|pipe| pipe as &mut dyn Read));
    if !status.success() {
        return Err(format!("died: {status}; {}", complaint.replace('\n', " ")));
    }
    let found: Value = serde_json::from_str(&out).map_err(|e| format!("{e}: {out}"))?;
    Ok(parse(&found))
}

fn parse(found: &Value) -> Found {
    let outcome = &found["outcome"];
    let text = |key: &str| outcome[key].as_str().map(str::to_string);
    let number = |key: &str| found[key].as_f64().expect("the child writes numbers");
    let outcome = match text("refused") {
        Some(refused) => Outcome::Refused { kind: text("kind").unwrap_or_default(), text: refused },
        None => Outcome::Decoded {
            size: (outcome["width"].as_u64().unwrap_or(0), outcome["height"].as_u64().unwrap_or(0)),
            sha256: text("sha256").unwrap_or_default(),
            off: outcome["off"].as_u64(),
            warnings: text("warnings"),
            header_agrees: outcome["header"] == true,
        },
    };
    Found {
        outcome,
        ms: number("ms"),
        peak: number("peak"),
        took: number("took"),
        unharmed: found["unharmed"] == true,
    }
}

impl Found {
    /// What was said, in a line.
    pub(crate) fn said(&self) -> String {
        match &self.outcome {
            Outcome::Refused { text, .. } => text.clone(),
            Outcome::Decoded { size: (width, height), warnings: None, .. } => {
                format!("decoded {width}x{height}")
            }
            Outcome::Decoded { size: (width, height), warnings: Some(warnings), .. } => {
                format!("decoded {width}x{height}, with {warnings}")
            }
        }
    }

    /// Whether it was refused for a limit.
    pub(crate) fn is_over_a_limit(&self) -> bool {
        let limit = format!("{:?}", ErrorKind::Limit);
        matches!(&self.outcome, Outcome::Refused { kind, .. } if *kind == limit)
    }
}
