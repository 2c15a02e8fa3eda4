//! `forebay merge-lora`: a checkpoint with adapters as plain weights that PyTorch loads.

use crate::train::{checkpoint, export, lora};
use anyhow::{Result, bail};
use std::path::PathBuf;

/// The arguments of `merge-lora`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A checkpoint of a run with --lora
    #[arg(long, value_name = "FILE")]
    checkpoint: PathBuf,
    /// The safetensors file to write, with torchvision's names
    #[arg(long, value_name = "FILE")]
    to: PathBuf,
    /// Replace the file if it is there
    #[arg(long)]
    force: bool,
}

/// Writes the file and prints what it holds.
pub(crate) fn run(args: &Args) -> Result<()> {
    let (from, to) = (args.checkpoint.display(), args.to.display());
    if args.to.exists() && !args.force {
        bail!("{to} is there already; --force replaces it");
    }
    let tensors = checkpoint::weights(&args.checkpoint)?;
    let layers = lora::layers(&tensors);
    if layers.is_empty() {
        bail!("{from}: holds no adapters; `forebay export-weights` writes plain weights");
    }
    let merged = lora::merge(tensors).map_err(|e| e.at_path(&args.checkpoint))?;
    let exported = export::write(&merged, &args.checkpoint, &args.to)?;
    println!("{to}: {} tensors, with the adapters of {} layers", exported.tensors, layers.len());
    Ok(())
}
