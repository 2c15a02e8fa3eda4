//! `forebay merge-lora`: a checkpoint with adapters as plain weights that PyTorch loads.

use crate::export_weights::Target;
use crate::train::{checkpoint, export, lora};
use anyhow::{Result, bail};
use std::path::PathBuf;

/// The arguments of `merge-lora`.
#[derive(clap::Args)]
pub(crate) struct Args {
    /// A checkpoint of a run with --lora
    #[arg(long, value_name = "FILE")]
    checkpoint: PathBuf,
    #[command(flatten)]
    target: Target,
}

/// Writes the file and prints what it holds.
pub(crate) fn run(args: &Args) -> Result<()> {
    let to = args.target.path()?;
    let tensors = checkpoint::weights(&args.checkpoint)?;
    let layers = lora::layers(&tensors);
    if layers.is_empty() {
        let from = args.checkpoint.display();
        bail!("{from}: holds no adapters; `forebay export-weights` writes plain weights");
    }
    let merged = lora::merge(tensors).map_err(|e| e.at_path(&args.checkpoint))?;
    let exported = export::write(&merged, &args.checkpoint, to)?;
    let (to, tensors) = (to.display(), exported.tensors);
    println!("{to}: {tensors} tensors, with the adapters of {} layers", layers.len());
    Ok(())
}
