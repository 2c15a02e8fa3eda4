//! The frozen description of a pipeline. A pipeline file ([`super::file`]) and the fluent builder
//! ([`super::builder`]) both yield it; [`super::plan`] compiles it.

use super::expr::{Expr, is_name};
use super::nearest::quote;
use super::number::{Shortest, widen};
use crate::error::{Error, Result};
use crate::policy::{Cache, LastBatch, MaxBad, OnError};
use crate::tensor::{DType, Layout};

/// A whole pipeline.
#[derive(Debug, Clone, PartialEq)]
pub struct Spec {
    /// Governs the sampler and every draw.
    pub seed: u64,
    /// Where samples come from and in which order.
    pub reader: ReaderSpec,
    /// How encoded images become pixels.
    pub decoder: DecoderSpec,
    /// Draws that several steps share, by name.
    pub draws: Vec<DrawSpec>,
    /// The steps, each reading the one before unless `from` says otherwise.
    pub steps: Vec<Step>,
    /// What a batch holds beside labels and ids. Never empty.
    pub outputs: Vec<Output>,
}

/// The `[reader]` table.
#[derive(Debug, Clone, PartialEq)]
pub struct ReaderSpec {
    /// The kind of source.
    pub kind: ReaderKind,
    /// Whether each epoch has an order of its own.
    pub shuffle: bool,
    /// What becomes of an incomplete global batch.
    pub last_batch: LastBatch,
    /// What becomes of a sample that cannot be read or decoded.
    pub on_error: OnError,
    /// How many of those are borne.
    pub max_bad: MaxBad,
    /// What is kept in memory from epoch to epoch.
    pub cache: Cache,
}

/// Where samples come from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReaderKind {
    /// `kind = "file"`: "name label" lines of `file_list`, relative to the data directory.
    File {
        /// The list's name, relative to the data directory.
        file_list: String,
    },
    /// `kind = "folders"`: one directory a class.
    Folders,
    /// `kind = "tar"`: tar shards in the data directory, with or without an index.
    Tar,
    /// `kind = "cifar10"`: the official binaries, `split` = `"train"` or `"test"`.
    Cifar10 {
        /// Whether to read the five training files or the test file.
        train: bool,
    },
}

/// The `[decoder]` table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DecoderSpec {
    /// Where images are decoded.
    pub device: Placement,
    /// What decodes JPEGs.
    pub backend: Backend,
    /// Forbids decoders that are not exact (nvJPEG).
    pub exact: bool,
    /// Images up to this many pixels do not go to nvJPEG under [`Placement::Mixed`].
    pub split: u64,
    /// Whether JPEGs may be decoded at a smaller scale than they are stored in.
    pub scale: DecodeScale,
}

/// What decodes JPEGs. Our own decoder gives libjpeg-turbo's pixels, and leaves to it what it does not take;
/// so of these only nvJPEG makes a difference to a pixel.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Backend {
    /// `backend = "auto"`: our own, where there is a GPU there for what is small, and nvJPEG where
    /// [`Placement::Mixed`] sends images there.
    #[default]
    Auto,
    /// `backend = "own"`: our own, wherever an image is decoded.
    Own,
    /// `backend = "turbo"`: libjpeg-turbo, on the CPU.
    Turbo,
    /// `backend = "nvjpeg"`: nvJPEG for all that it takes, whatever their size, where there is a GPU; the
    /// rest as by `auto`.
    Nvjpeg,
}

impl Backend {
    /// Every value by its word in a pipeline file.
    pub const NAMES: [(&str, Backend); 4] = [
        ("auto", Backend::Auto),
        ("own", Backend::Own),
        ("turbo", Backend::Turbo),
        ("nvjpeg", Backend::Nvjpeg),
    ];

    /// Its word in a pipeline file.
    pub const fn name(self) -> &'static str {
        match self {
            Backend::Auto => "auto",
            Backend::Own => "own",
            Backend::Turbo => "turbo",
            Backend::Nvjpeg => "nvjpeg",
        }
    }
}

impl DecoderSpec {
    /// Checks that its settings agree.
    ///
    /// # Errors
    /// Where nvJPEG is asked for by one and forbidden by another.
    pub fn check(&self) -> Result<()> {
        let text = match self {
            DecoderSpec { backend: Backend::Nvjpeg, exact: true, .. } => {
                "\"nvjpeg\" is not exact: leave out backend or exact"
            }
            DecoderSpec { backend: Backend::Nvjpeg, device: Placement::Cpu, .. } => {
                "\"nvjpeg\" needs device = \"mixed\""
            }
            _ => return Ok(()),
        };
        Err(Error::spec(text))
    }

    /// Whether nvJPEG may not be used.
    pub fn is_exact(&self) -> bool {
        self.exact || matches!(self.backend, Backend::Own | Backend::Turbo)
    }

    /// Whether our own decoder runs on a GPU, too.
    pub fn own_on_gpu(&self) -> bool {
        self.device == Placement::Mixed && matches!(self.backend, Backend::Auto | Backend::Own)
    }

    /// Images of at most so many pixels are not nvJPEG's.
    pub fn least(&self) -> u64 {
        if self.backend == Backend::Nvjpeg { 0 } else { self.split }
    }
}

/// At which scale JPEGs are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum DecodeScale {
    /// `scale = "exact"`: as they are stored.
    #[default]
    Exact,
    /// `scale = "fast"`: at 1/2, 1/4 or 1/8 where the first step of every path, behind crops and flips,
    /// is an antialiased resize that shrinks what it reads at least that much. Pixels are then others than by "exact", the same on every CPU.
    Fast,
}

impl DecodeScale {
    /// Every value by its word in a pipeline file.
    pub const NAMES: [(&str, DecodeScale); 2] =
        [("exact", DecodeScale::Exact), ("fast", DecodeScale::Fast)];

    /// Its word in a pipeline file.
    pub const fn name(self) -> &'static str {
        match self {
            DecodeScale::Exact => "exact",
            DecodeScale::Fast => "fast",
        }
    }
}

/// Where images are decoded.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Placement {
    /// On the CPU.
    Cpu,
    /// By nvJPEG where there is a GPU and the image is large enough, else on the CPU.
    Mixed,
}

/// The distribution of a draw; values are f32.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Dist {
    /// `uniform = [lo, hi]`, lo <= value <= hi (hi only by rounding).
    Uniform {
        /// Least value.
        lo: f32,
        /// Upper end.
        hi: f32,
    },
    /// `bernoulli = p`: true with probability p.
    Bernoulli {
        /// Probability of true, 0 to 1.
        p: f32,
    },
    /// `normal = [mean, std]`.
    Normal {
        /// Mean.
        mean: f32,
        /// Standard deviation, not negative.
        std: f32,
    },
}

/// A `[[draw]]` table: a draw with a name of its own.
#[derive(Debug, Clone, PartialEq)]
pub struct DrawSpec {
    /// The name that steps and expressions refer to.
    pub name: String,
    /// Its distribution.
    pub dist: Dist,
    /// `per = "channel"`: three independent values instead of one.
    pub per_channel: bool,
}

/// A `[[step]]` table.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// Name given by the user; the default is the op and its ordinal among the same op.
    pub name: Option<String>,
    /// The step (or `"decode"`) whose image this one reads; the default is the step before.
    pub from: Option<String>,
    /// The predicate under which the step acts; without it the step always acts.
    pub when: Option<Condition>,
    /// What the step does.
    pub body: Body,
}

/// What a step does.
#[derive(Debug, Clone, PartialEq)]
pub enum Body {
    /// `op = "rotate"` and its arguments, in file order.
    Op {
        /// The operator's name.
        op: String,
        /// Its arguments by name.
        args: Vec<(String, Arg)>,
    },
    /// `then = [..]`, `else = [..]` under the step's `when`.
    Branch {
        /// Steps where the predicate is true.
        then: Vec<Step>,
        /// Steps where it is false.
        otherwise: Vec<Step>,
    },
}

/// A predicate per sample.
#[derive(Debug, Clone, PartialEq)]
pub enum Condition {
    /// `when = { probability = p }`: a draw of the step's own.
    Probability(f32),
    /// `when = "coin"`: a shared draw.
    Draw(String),
    /// `when = { expr = "u < 0.3 and not coin" }`.
    Expr(Expr),
}

/// An argument of an operator.
#[derive(Debug, Clone, PartialEq)]
pub enum Arg {
    /// `true` or `false`.
    Bool(bool),
    /// A number. Integers of a file are kept exactly up to 2^53.
    Number(f64),
    /// An array of numbers.
    Numbers(Vec<f64>),
    /// A choice such as `"clamp"`, or the name of a shared draw.
    Text(String),
    /// `{ uniform = [..] }`, `{ bernoulli = p }`, `{ normal = [..] }`: a draw of the step's own.
    Draw {
        /// Its distribution.
        dist: Dist,
        /// `per = "channel"`.
        per_channel: bool,
    },
    /// `{ expr = "u * 30 - 15" }` on shared draws; also the body of `op = "expr"`.
    Expr(Expr),
}

/// An `[output]` or `[[output]]` table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    /// Its name in the batch; the first output's default is `images`.
    pub name: String,
    /// The step it shows; the default is the last.
    pub from: Option<String>,
    /// Order of axes; `None`: as the graph left it (HWC unless a `transpose` step changed it).
    pub layout: Option<Layout>,
    /// Element type; `None`: as the graph left it.
    pub dtype: Option<DType>,
}

impl Default for ReaderSpec {
    fn default() -> Self {
        ReaderSpec {
            kind: ReaderKind::File { file_list: "labels.txt".into() },
            shuffle: false,
            last_batch: LastBatch::default(),
            on_error: OnError::default(),
            max_bad: MaxBad::default(),
            cache: Cache::default(),
        }
    }
}

impl Default for DecoderSpec {
    fn default() -> Self {
        DecoderSpec {
            device: Placement::Cpu,
            backend: Backend::default(),
            exact: false,
            split: 4096,
            scale: DecodeScale::default(),
        }
    }
}

impl Dist {
    /// Checks the parameters: finite, the range not turned round, the probability between 0 and
    /// 1, the deviation not negative.
    ///
    /// # Errors
    /// Names the distribution as a pipeline file writes it.
    pub fn check(self) -> Result<()> {
        let (what, parameters) = match self {
            Dist::Uniform { lo, hi } => ("uniform", vec![lo, hi]),
            Dist::Bernoulli { p } => return check_probability("bernoulli", p),
            Dist::Normal { mean, std } => ("normal", vec![mean, std]),
        };
        if let Some(bad) = parameters.iter().find(|v| !v.is_finite()) {
            return Err(Error::spec(format!("{what} takes finite numbers, not {bad}")));
        }
        match self {
            Dist::Uniform { lo, hi } if lo > hi => {
                let [lo, hi] = [lo, hi].map(|v| Shortest(widen(v)));
                let message = format!("uniform = [{lo}, {hi}] is turned round, write [{hi}, {lo}]");
                Err(Error::spec(message))
            }
            Dist::Normal { std, .. } if std < 0.0 => {
                let std = Shortest(widen(std));
                Err(Error::spec(format!("normal: the standard deviation {std} is negative")))
            }
            _ => Ok(()),
        }
    }
}

impl Condition {
    /// Checks the probability where there is one.
    ///
    /// # Errors
    /// Where it is not between 0 and 1.
    pub fn check(&self) -> Result<()> {
        match self {
            Condition::Probability(p) => check_probability("probability", *p),
            Condition::Draw(_) | Condition::Expr(_) => Ok(()),
        }
    }
}

fn check_probability(key: &str, p: f32) -> Result<()> {
    if (0.0..=1.0).contains(&p) {
        return Ok(());
    }
    Err(Error::spec(format!("{key} = {} is not between 0 and 1", Shortest(widen(p)))))
}

/// The name of an unnamed step: the `op` itself for the first of its kind, `rotate_2` for the
/// second. Steps are counted in the order of the file, those of a branch before what follows it;
/// a step with `then` or `else` counts as `when`.
pub fn default_name(op: &str, ordinal: usize) -> String {
    if ordinal == 1 { op.to_owned() } else { format!("{op}_{ordinal}") }
}

impl Output {
    /// Checks the name, which files of a dump begin with: letters, digits and `_`, and none of
    /// the names that every batch has.
    ///
    /// # Errors
    /// Says what a name must be.
    pub fn check_name(&self) -> Result<()> {
        match self.name.as_str() {
            name @ ("labels" | "ids" | "valid") => {
                Err(Error::spec(format!("every batch has {name}, call the output something else")))
            }
            name if is_name(name) => Ok(()),
            name => {
                let name = quote(name);
                Err(Error::spec(format!("{name} cannot name an output: letters, digits and _ do")))
            }
        }
    }
}
