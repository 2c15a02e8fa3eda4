//! `forebay train`: hands over to `forebay-train`, the program beside this one that links libtorch.

use anyhow::{Context, Result, bail};
use std::convert::Infallible;
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Becomes `forebay-train train ARGS`; `args` are those after `train`. Returns only an error.
pub(crate) fn exec(args: Vec<OsString>) -> Result<Infallible> {
    let this = env::current_exe().context("cannot find where this program lies")?;
    let program = this.with_file_name("forebay-train");
    if !program.exists() {
        bail!("built without the trainer; run `make build`");
    }
    let error = Command::new(&program).arg("train").args(args).exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}
