//! The one error type: what went wrong, where (file, line, sample, step), and what to do.
//!
//! Every message fits one line, because it ends on a terminal or in a log beside others.

use std::fmt::{self, Write};
use std::path::{Path, PathBuf};

/// Shorthand for results with [`Error`].
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Whose fault it is, which decides what a caller can do about it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// The pipeline file or graph is wrong: unknown key, bad range, branches that disagree.
    Spec,
    /// A label list, class folder or data set is wrong.
    Data,
    /// The operating system refused: missing file, full disk, permission.
    Io,
    /// Encoded bytes that are damaged.
    Decode,
    /// Encoded bytes of a kind that is not supported.
    Unsupported,
    /// A limit on pixels, bytes or work was passed.
    Limit,
    /// The machine has no more memory or open files: no fault of what was asked for, which may work
    /// another time.
    Resources,
    /// Samples of one batch ended with different shapes.
    Shape,
    /// A device or library is missing or failed.
    Device,
}

/// An error with its place. Built from a message, then given its place on the way up.
#[derive(Clone)]
pub struct Error(Box<Inner>);

#[derive(Clone)]
struct Inner {
    kind: ErrorKind,
    message: String,
    path: Option<PathBuf>,
    line: Option<u64>,
    sample: Option<u64>,
    step: Option<String>,
    offset: Option<u64>,
}

impl Error {
    /// An error of `kind` whose `message` says what is wrong and, where it can, what to do.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        let message = message.into();
        Error(Box::new(Inner {
            kind,
            message,
            path: None,
            line: None,
            sample: None,
            step: None,
            offset: None,
        }))
    }

    /// A pipeline or graph error.
    pub fn spec(message: impl Into<String>) -> Self {
        Self::new(ErrorKind::Spec, message)
    }

    /// A failed system call on `path`; `doing` completes "cannot …" ("read", "create").
    pub fn io(doing: &str, path: impl AsRef<Path>, source: std::io::Error) -> Self {
        // The operating system's text without the "(os error N)" that tells a user nothing.
        let text = source.to_string();
        let text = text.split(" (os error").next().unwrap_or(&text).to_lowercase();
        // ENOMEM, ENFILE, EMFILE.
        let kind = match source.raw_os_error() {
            Some(12 | 23 | 24) => ErrorKind::Resources,
            _ => ErrorKind::Io,
        };
        Self::new(kind, format!("cannot {doing}: {text}")).at_path(path)
    }

    /// Names the file, unless an inner place did so already.
    #[must_use]
    pub fn at_path(mut self, path: impl AsRef<Path>) -> Self {
        self.0.path.get_or_insert_with(|| path.as_ref().to_path_buf());
        self
    }

    /// Puts `subject` into the message, in place of a path that is named already: the file of a
    /// list's line, so that the list can take the path's place.
    #[must_use]
    pub fn about(mut self, subject: impl fmt::Display) -> Self {
        self.0.message = format!("{subject}: {}", self.0.message);
        self.0.path = None;
        self
    }

    /// Adds `more` to the message: what follows from it.
    #[must_use]
    pub fn adding(mut self, more: impl fmt::Display) -> Self {
        self.0.message = format!("{}; {more}", self.0.message);
        self
    }

    /// Names the file in place of what an inner place called it.
    #[must_use]
    pub fn with_path(mut self, path: impl AsRef<Path>) -> Self {
        self.0.path = Some(path.as_ref().to_path_buf());
        self
    }

    /// Names the pipeline's file, or the built-in pipeline, where the error is about the pipeline.
    #[must_use]
    pub fn in_pipeline(self, path: impl AsRef<Path>) -> Self {
        if self.kind() == ErrorKind::Spec { self.at_path(path) } else { self }
    }

    /// Names the line of the file, counted from 1.
    #[must_use]
    pub fn at_line(mut self, line: u64) -> Self {
        self.0.line.get_or_insert(line);
        self
    }

    /// Names the sample: its number in the list, from 0.
    #[must_use]
    pub fn at_sample(mut self, id: u64) -> Self {
        self.0.sample.get_or_insert(id);
        self
    }

    /// Names the step of the pipeline.
    #[must_use]
    pub fn at_step(mut self, step: impl Into<String>) -> Self {
        self.0.step.get_or_insert_with(|| step.into());
        self
    }

    /// Notes where in the file it is, in bytes. For logs: a message that has it says so itself.
    #[must_use]
    pub fn at_offset(mut self, bytes: u64) -> Self {
        self.0.offset.get_or_insert(bytes);
        self
    }

    /// Counts where it is from `start` bytes further on: what is wrong with a part of a file is wrong
    /// with the file there.
    #[must_use]
    pub fn from_offset(mut self, start: u64) -> Self {
        self.0.offset = Some(start.saturating_add(self.0.offset.unwrap_or(0)));
        self
    }

    /// Whose fault it is.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// The file the error is about.
    pub fn path(&self) -> Option<&Path> {
        self.0.path.as_deref()
    }

    /// The line of the file, counted from 1.
    pub fn line(&self) -> Option<u64> {
        self.0.line
    }

    /// The sample the error is about.
    pub fn sample(&self) -> Option<u64> {
        self.0.sample
    }

    /// Where in the file it is, in bytes, where that is known: near it for damage, the file's length
    /// where the file is cut.
    pub fn offset(&self) -> Option<u64> {
        self.0.offset
    }

    /// The message without its place.
    pub fn message(&self) -> &str {
        &self.0.message
    }
}

/// `labels.txt:7: step "rotate": sample 3: what is wrong`, each part where it is known.
impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let f = &mut Line(f);
        let e = &*self.0;
        match (&e.path, e.line) {
            (Some(path), Some(line)) => write!(f, "{}:{line}: ", path.display())?,
            (Some(path), None) => write!(f, "{}: ", path.display())?,
            (None, Some(line)) => write!(f, "line {line}: ")?,
            (None, None) => {}
        }
        if let Some(step) = &e.step {
            write!(f, "step \"{step}\": ")?;
        }
        if let Some(sample) = e.sample {
            write!(f, "sample {sample}: ")?;
        }
        f.write_str(&e.message)
    }
}

/// Writes control characters as escapes: names in lists and texts in files are anyone's, and could
/// begin another line or give a terminal orders.
struct Line<'a, 'b>(&'a mut fmt::Formatter<'b>);

impl fmt::Write for Line<'_, '_> {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for part in text.split_inclusive(char::is_control) {
            let plain = part.trim_end_matches(char::is_control);
            self.0.write_str(plain)?;
            write!(self.0, "{}", part[plain.len()..].escape_debug())?;
        }
        Ok(())
    }
}

impl fmt::Debug for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}: {self}", self.0.kind)
    }
}

impl std::error::Error for Error {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_file_says_stays_on_one_line() {
        let error = Error::new(ErrorKind::Data, "the name \u{e9}\r\n\u{1b}[2J is no name");
        let error = error.at_path("a\nb.txt").at_line(3);
        assert_eq!(error.to_string(), "a\\nb.txt:3: the name \u{e9}\\r\\n\\u{1b}[2J is no name");
    }
}
