//! `forebay export-weights`: the weights of a checkpoint as a file that PyTorch loads.

use crate::train::export::export;
use crate::train::resnet::Stem;
use anyhow::{Result, bail};
use std::path::{Path, PathBuf};

/// The arguments of `export-weights`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A checkpoint, or weights as safetensors or a state dict of torch.save (.pth, .pt)
    #[arg(long, value_name = "FILE")]
    checkpoint: PathBuf,
    #[command(flatten)]
    target: Target,
}

/// Where plain weights go.
#[derive(clap::Args)]
pub(crate) struct Target {
    /// The safetensors file to write, with torchvision's names
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
}

impl Target {
    /// The file, once it is known that it may be written.
    pub(crate) fn path(&self) -> Result<&Path> {
        if self.to.exists() && !self.force {
            bail!("{} is there already; --force replaces it", self.to.display());
        }
        Ok(&self.to)
    }
}

/// Writes the file and prints what it holds.
pub(crate) fn run(args: &Args) -> Result<()> {
    let to = args.target.path()?;
    let exported = export(&args.checkpoint, to)?;
    let stem = match exported.stem {
        Stem::Imagenet => "",
        Stem::Cifar => " with conv1 of 3x3 and no maxpool",
    };
    println!(
        "{}: {} tensors, torchvision's resnet18(num_classes={}){stem}",
        to.display(),
        exported.tensors,
        exported.classes
    );
    Ok(())
}
