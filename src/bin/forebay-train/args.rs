//! The settings of `forebay train`. Each can stand in a file under its name; config.rs.

use crate::cache::CacheArgs;
use crate::faults::FaultArgs;
use crate::limits::LimitArgs;
use crate::schedule_args::ScheduleArgs;
use crate::train::accumulate::Accumulate;
use crate::train::checkpoint::Model;
use crate::train::metric::{Metric, Mode};
use crate::train::precision::Precision;
use clap::ValueEnum;
use forebay::device::Choice;
use std::path::PathBuf;

/// What `forebay train` is told.
#[derive(clap::Args, Debug)]
#[command(args_override_self = true)]
pub(crate) struct Args {
    /// A recipe that comes with the program: basic, callbacks, unfreeze-last, unfreeze-most,
    /// unfreeze-full, warmup-cosine, lora, gpu-loader, affine, accumulate, fp16, bf16, fast-cifar
    #[arg(long, value_name = "NAME")]
    pub(crate) preset: Option<String>,
    /// A TOML file of settings; flags win over it
    #[arg(long, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Show what holds, as a file for --config, and do nothing
    #[arg(long)]
    pub(crate) print_config: bool,
    /// Go on from a checkpoint: a file, or the last or best one of --out, else of the newest run of
    /// --name
    #[arg(long, value_name = "FILE|last|best")]
    pub(crate) resume: Option<String>,
    /// Go on though the pipeline, the list of samples or the seed is another than the checkpoint's
    #[arg(long, requires = "resume")]
    pub(crate) force_resume: bool,

    #[command(flatten)]
    pub(crate) data: DataArgs,
    #[command(flatten)]
    pub(crate) model: ModelArgs,
    #[command(flatten)]
    pub(crate) optimizer: OptimizerArgs,
    #[command(flatten)]
    pub(crate) schedule: ScheduleArgs,
    #[command(flatten)]
    pub(crate) run: RunArgs,
}

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Data")]
pub(crate) struct DataArgs {
    /// Directory with train/ and valid/, or with the training samples themselves
    #[arg(long, value_name = "DIR")]
    pub(crate) data: Option<PathBuf>,
    /// Samples a batch
    #[arg(long, value_name = "N", default_value_t = 128, value_parser = clap::value_parser!(u32).range(2..=1 << 24))]
    pub(crate) batch_size: u32,
    /// Pipeline of the training samples: a file, or cifar10-train, cifar10-affine, fast-cifar,
    /// imagenet-train
    #[arg(long, value_name = "FILE", default_value = "cifar10-train")]
    pub(crate) pipeline: String,
    /// Pipeline of the validation samples: a file, or cifar10-valid, which is taken where it is not given,
    /// or imagenet-valid
    #[arg(long, value_name = "FILE")]
    pub(crate) valid_pipeline: Option<String>,
    /// Train on the first N samples of the list only
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(2..))]
    pub(crate) limit_train: Option<u64>,
    /// Validate on the first N samples of the list only
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) limit_valid: Option<u64>,
    /// Threads of the loader [default: one a core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=1024))]
    pub(crate) threads: Option<u16>,
    /// Keep each of them on a core, in turn, in place of letting the system move it
    #[arg(long)]
    pub(crate) pin_threads: bool,
    /// Further threads, that read files ahead where the system has them not in memory [default: 16]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(0..=1024))]
    pub(crate) read_ahead: Option<u16>,
    /// Let symbolic links lead out of the data directory
    #[arg(long)]
    pub(crate) follow_links: bool,
    #[command(flatten)]
    pub(crate) limits: LimitArgs,
    #[command(flatten)]
    pub(crate) faults: FaultArgs,
    #[command(flatten)]
    pub(crate) cache: CacheArgs,
    /// Train on one batch, held in memory, again and again: what an epoch costs without a loader
    #[arg(long)]
    pub(crate) repeat_batch: bool,
}

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Model")]
pub(crate) struct ModelArgs {
    /// What comes before the residual blocks: imagenet (7x7, pooled) or cifar (3x3)
    #[arg(long, default_value = "imagenet")]
    pub(crate) stem: StemName,
    /// Classes of the model [default: as many as the data has]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i64).range(1..=Model::MOST_CLASSES))]
    pub(crate) classes: Option<i64>,
    /// Start from these weights: a state dict of torchvision's or timm's resnet18 (.safetensors, .pth)
    /// or a checkpoint
    #[arg(long, value_name = "FILE")]
    pub(crate) weights: Option<PathBuf>,
    /// What is trained: the head, layer3 and layer4 too, or all
    #[arg(long, default_value = "full")]
    pub(crate) unfreeze: UnfreezeName,
    /// Batch norms of frozen layers keep their statistics
    #[arg(long)]
    pub(crate) freeze_norm: bool,
    /// Train low-rank adapters of this rank, and the head, in place of the weights
    #[arg(long, value_name = "RANK", value_parser = clap::value_parser!(i64).range(1..=Model::MOST_RANK))]
    pub(crate) lora: Option<i64>,
}

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Optimiser")]
pub(crate) struct OptimizerArgs {
    /// The optimiser
    #[arg(long, default_value = "adam")]
    pub(crate) optimizer: OptimizerName,
    /// The learning rate
    #[arg(long, value_name = "X", default_value_t = 1e-3, value_parser = not_negative)]
    pub(crate) lr: f64,
    /// SGD's momentum
    #[arg(long, value_name = "X", default_value_t = 0.9, value_parser = share)]
    pub(crate) momentum: f64,
    /// Nesterov's momentum, for SGD
    #[arg(long)]
    pub(crate) nesterov: bool,
    /// Adam's first average
    #[arg(long, value_name = "X", default_value_t = 0.9, value_parser = share)]
    pub(crate) beta1: f64,
    /// Adam's second average
    #[arg(long, value_name = "X", default_value_t = 0.999, value_parser = share)]
    pub(crate) beta2: f64,
    /// What Adam adds to the root
    #[arg(long, value_name = "X", default_value_t = 1e-8, value_parser = not_negative)]
    pub(crate) eps: f64,
    /// Weight decay; added to the gradient, but in adamw
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = not_negative)]
    pub(crate) weight_decay: f64,
    /// Norms and biases do not decay
    #[arg(long)]
    pub(crate) no_decay_norm: bool,
    /// Scale gradients down to this norm over all weights
    #[arg(long, value_name = "X", value_parser = above_zero)]
    pub(crate) clip_norm: Option<f64>,
    /// Share of the target that goes to all classes alike
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = share)]
    pub(crate) label_smoothing: f64,
    /// Batches whose gradients make one step: N, or by epoch, EPOCH:N,… such as 1:1,5:4
    #[arg(long, value_name = "N", default_value = "1")]
    pub(crate) accumulate: Accumulate,
}

#[derive(clap::Args, Debug)]
#[command(next_help_heading = "Run")]
pub(crate) struct RunArgs {
    /// Passes over the training samples
    #[arg(long, value_name = "N", default_value_t = 1, value_parser = clap::value_parser!(u32).range(1..=1_000_000))]
    pub(crate) epochs: u32,
    /// Seed of the weights, the order and every draw [default: the pipeline's]
    #[arg(long, value_name = "N")]
    pub(crate) seed: Option<u64>,
    /// Where to load and train: auto, cpu, or cuda:N
    #[arg(long, value_name = "DEVICE", default_value = "auto")]
    pub(crate) device: Choice,
    /// 32, 16-mixed (GPUs only) or bf16-mixed; weights stay in 32 bits
    #[arg(long, default_value = "32", value_name = "PRECISION")]
    pub(crate) precision: Precision,
    /// Let convolutions and matrix products on a GPU compute in TF32, with 10 bits of mantissa
    #[arg(long)]
    pub(crate) tf32: bool,
    /// Keep less for the backward pass, and compute it again there
    #[arg(long)]
    pub(crate) checkpoint_activations: bool,
    /// Validate on each image and its mirror image
    #[arg(long)]
    pub(crate) test_flip: bool,
    /// Threads of libtorch [default: one a physical core]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(i32).range(1..=1024))]
    pub(crate) torch_threads: Option<i32>,
    /// Name of the run: it goes to the next runs/NAME/version_N
    #[arg(long, value_name = "NAME", default_value = "resnet18")]
    pub(crate) name: String,
    /// Where the run goes, in place of runs/NAME/version_N
    #[arg(long, value_name = "DIR")]
    pub(crate) out: Option<PathBuf>,
    /// The metric by which checkpoints are rated: train_ or valid_ and loss, acc or top5
    #[arg(long, value_name = "METRIC", default_value = "valid_acc")]
    pub(crate) monitor: Metric,
    /// Whether larger or smaller ones are better [default: min for a loss, else max]
    #[arg(long)]
    mode: Option<ModeName>,
    /// How many of the best checkpoints to keep beside the last
    #[arg(long, value_name = "K", default_value_t = 1, value_parser = clap::value_parser!(u16).range(0..=1000))]
    pub(crate) save_top_k: u16,
    /// Steps between two checkpoints within an epoch [default: one in two minutes]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) save_every: Option<u64>,
    /// End when this metric no longer gets better
    #[arg(long, value_name = "METRIC")]
    pub(crate) early_stop: Option<Metric>,
    /// Epochs without improvement after which --early-stop ends the run
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) patience: u32,
    /// What counts as improvement is more than this
    #[arg(long, value_name = "X", default_value_t = 0.0, value_parser = not_negative)]
    pub(crate) min_delta: f64,
    /// Steps between two readings of the metrics, each a line where there is no terminal
    /// [default: 20, and a line in 10 s]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) log_every: Option<u32>,
    /// Leave out the two batches that are validated before the first epoch
    #[arg(long)]
    pub(crate) no_sanity: bool,
    /// Try it: train and validate on N batches, once, and save nothing
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..=1 << 32))]
    pub(crate) dev_run: Option<u64>,
    /// Print results only: a line an epoch, and the end
    #[arg(long)]
    pub(crate) quiet: bool,
}

impl RunArgs {
    /// The value of `--mode`.
    pub(crate) fn mode(&self) -> Option<Mode> {
        self.mode.map(|mode| match mode {
            ModeName::Max => Mode::Max,
            ModeName::Min => Mode::Min,
        })
    }
}

/// The value of `--stem`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum StemName {
    Imagenet,
    Cifar,
}

/// The value of `--unfreeze`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum UnfreezeName {
    Last,
    Most,
    Full,
}

/// The value of `--optimizer`.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum OptimizerName {
    Sgd,
    Adam,
    Adamw,
}

/// The value of `--mode`.
#[derive(Clone, Copy, Debug, ValueEnum)]
enum ModeName {
    Max,
    Min,
}

fn number(text: &str, fits: fn(f64) -> bool, what: &str) -> Result<f64, String> {
    let number = text.parse().ok().filter(|number: &f64| number.is_finite() && fits(*number));
    number.ok_or_else(|| format!("expected {what}"))
}

pub(crate) fn not_negative(text: &str) -> Result<f64, String> {
    number(text, |x| x >= 0.0, "a number that is not negative, such as 0.001 or 1e-3")
}

pub(crate) fn above_zero(text: &str) -> Result<f64, String> {
    number(text, |x| x > 0.0, "a number above 0")
}

pub(crate) fn share(text: &str) -> Result<f64, String> {
    number(text, |x| (0.0..1.0).contains(&x), "a number from 0 to below 1")
}
