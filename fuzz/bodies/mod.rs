//! What is fuzzed: one body for each parser of bytes that somebody else wrote.
//!
//! A body takes any bytes, panics where a promise is broken, and else tells in a few words what came
//! of them, by which the driver in `tests/fuzz` knows an input that did something new. A crash, a hang
//! and memory without end are the driver's to see, or libFuzzer's.

#[cfg(feature = "train")]
pub mod checkpoint;
#[cfg(feature = "train")]
pub mod event_file;
pub mod image_decode;
#[cfg(feature = "train")]
mod input;
pub mod jpeg_header;
pub mod jpeg_own;
pub mod label_list;
#[cfg(feature = "train")]
pub mod metrics;
#[cfg(feature = "train")]
pub mod pickle;
#[cfg(feature = "train")]
#[path = "../../tests/train/pickling.rs"]
#[allow(dead_code)] // Seeds use the rest.
pub mod pickling;
pub mod pipeline;
pub mod tar;
#[cfg(feature = "train")]
pub mod weights;

use forebay::Error;
use tempfile::TempDir;

/// What `error` says, held to what is promised of every error: one line that a terminal can show.
fn refusal(error: &Error) -> String {
    let text = error.to_string();
    assert!(!text.trim().is_empty(), "an error that says nothing");
    assert!(!text.contains(char::is_control), "not a line for a terminal: {text:?}");
    text
}

/// A directory for what a body reads or writes. The driver names one in memory by TMPDIR and removes it.
fn folder() -> TempDir {
    tempfile::Builder::new().prefix("fuzz-").tempdir().expect("the temporary directory is writable")
}
