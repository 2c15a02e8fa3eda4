//! What to do with samples that cannot be read or decoded, and what became of them.

use forebay::loader::Loader;
use forebay::policy::{MaxBad, OnError};
use std::path::PathBuf;

/// What becomes of bad samples.
#[derive(clap::Args, Debug)]
pub(crate) struct FaultArgs {
    /// What becomes of a sample that cannot be read or decoded: fail, skip (its batch gets shorter) or
    /// replace (by another one) [default: the pipeline's, else fail]
    #[arg(long, value_name = "CHOICE")]
    pub(crate) on_error: Option<OnError>,
    /// How many may be bad before skip and replace fail, too: a number such as 100, or a share of the
    /// list such as 0.01, rounded up [default: the pipeline's, else 0.1]
    #[arg(long, value_name = "N|SHARE", allow_hyphen_values = true)]
    pub(crate) max_bad: Option<MaxBad>,
    /// Write each of them to the end of FILE, as a line of JSON
    #[arg(long, value_name = "FILE")]
    pub(crate) quarantine: Option<PathBuf>,
}

/// What is to be known of the batches that a loader has delivered: bad samples, pixels that are not the
/// CPU's, and what came from the cache.
pub(crate) fn notes(loader: &Loader) -> impl Iterator<Item = String> {
    let bad = loader.bad_samples();
    let bad = (!bad.is_none()).then(|| bad.to_string());
    let log = loader.quarantine_failure();
    let log = log.map(|error| format!("the quarantine log ends early: {error}"));
    let cache = loader.cache_stats().map(|stats| stats.to_string());
    [bad, log, loader.nvjpeg_note(), cache].into_iter().flatten()
}
