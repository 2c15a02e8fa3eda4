//! `forebay train` and its kin: hand over to `forebay-train`, the program beside this one that links libtorch.

use super::Verdict;
use anyhow::{Context, Result, bail};
use std::env;
use std::ffi::OsString;
use std::os::unix::process::CommandExt;
use std::process::Command;

/// Becomes `forebay-train NAME ARGS`; returns only an error.
pub(crate) fn exec(name: &str, args: Vec<OsString>) -> Result<Verdict> {
    let this = env::current_exe().context("cannot find where this program lies")?;
    let program = this.with_file_name("forebay-train");
    if !program.exists() {
        bail!("built without the trainer; run `make build`");
    }
    let mut command = Command::new(&program);
    command.arg(name).args(args);
    // libtorch's OpenMP threads otherwise spin while they wait for each other, on cores that the
    // loader needs. libgomp reads this before main, so that only a parent can set it. On 2 cores
    // that were shared with other programs: 15 to 20 images/s without, 82 to 100 with.
    if env::var_os("OMP_WAIT_POLICY").is_none() {
        command.env("OMP_WAIT_POLICY", "passive");
    }
    let error = command.exec();
    Err(error).with_context(|| format!("cannot start {}", program.display()))
}
