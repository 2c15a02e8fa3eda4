//! Pipeline files: TOML to [`Spec`] and back.
//!
//! Reading refuses what is wrong in the file by itself (unknown keys, wrong types, ranges turned
//! round, names that nothing has) with its line. What depends on the operators, such as an
//! argument that `rotate` does not take, is refused when the plan is built.

mod fields;
mod print;
mod read;

use super::spec::Spec;
use crate::error::{Error, Result};
use crate::file;
use std::path::Path;

/// Longest pipeline file: far more than anyone writes, and little enough to hold.
const MAX_BYTES: u64 = 1 << 20;

/// Reads the text of a pipeline file.
///
/// # Errors
/// The first thing that is wrong, with its line.
pub fn parse(text: &str) -> Result<Spec> {
    read::spec(text)
}

/// Reads the pipeline file at `path`.
///
/// # Errors
/// As [`parse`], with the path; and where the file cannot be read, is no text or passes 1 MiB.
pub fn load(path: &Path) -> Result<Spec> {
    let bytes = file::read(path, MAX_BYTES)?;
    let text = std::str::from_utf8(&bytes).map_err(|error| {
        let before = &bytes[..error.valid_up_to()];
        let line = 1 + before.iter().filter(|&&b| b == b'\n').count() as u64;
        Error::spec("a pipeline file is UTF-8 text, this is not").at_line(line).at_path(path)
    })?;
    parse(text).map_err(|error| error.at_path(path))
}

/// Prints `spec` as a pipeline file that [`parse`] reads back to an equal spec.
pub fn print(spec: &Spec) -> String {
    print::spec(spec)
}
