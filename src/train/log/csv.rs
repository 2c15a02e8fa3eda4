//! `metrics.csv`: a line each time metrics were read, with a column for each.

use super::Growing;
use crate::error::{Error, ErrorKind, Result};
use crate::file;
use std::fs::OpenOptions;
use std::io::{Read, Write};
use std::path::Path;

macro_rules! columns {
    ($($(#[$doc:meta])* $name:ident: $type:ty,)*) => {
        /// A line of the file. A column without a value is empty.
        #[derive(Debug, Clone, Copy, Default, PartialEq)]
        pub struct Row {
            $($(#[$doc])* pub $name: Option<$type>,)*
        }

        const COLUMNS: &[&str] = &[$(stringify!($name)),*];

        impl Row {
            fn cells(&self) -> impl Iterator<Item = String> {
                // The shortest digits that read back to the same number.
                let cells = [$(self.$name.map(|value| value.to_string())),*];
                cells.into_iter().map(Option::unwrap_or_default)
            }

            /// `None` where a cell is no number of its column, or the line has other columns.
            fn parse(line: &str) -> Option<Self> {
                let mut cells = line.split(',');
                let row = Row {
                    $($name: match cells.next()? {
                        "" => None,
                        text => Some(text.parse().ok()?),
                    },)*
                };
                cells.next().is_none().then_some(row)
            }
        }
    };
}

columns! {
    /// The epoch, from 1.
    epoch: u64,
    /// Steps of the optimiser done in the run.
    step: u64,
    /// The learning rate of the last of them.
    lr: f64,
    /// Mean cross-entropy over training samples, in nats.
    train_loss: f64,
    /// Share of training samples that are right, 0 to 1.
    train_acc: f64,
    /// Share of training samples with the label among the five likeliest, 0 to 1.
    train_top5: f64,
    /// Mean cross-entropy over validation samples, in nats.
    valid_loss: f64,
    /// Share of validation samples that are right, 0 to 1.
    valid_acc: f64,
    /// Share of validation samples with the label among the five likeliest, 0 to 1.
    valid_top5: f64,
    /// Training samples a second.
    images_per_s: f64,
    /// Share of the time spent waiting for batches, 0 to 1.
    wait_share: f64,
    /// The most memory of the host's that the process has had so far, in MiB.
    peak_memory_mib: f64,
    /// Norm of all gradients before clipping.
    grad_norm: f64,
    /// Steps left out so far because a gradient was not finite.
    skipped_steps: u64,
    /// Different samples, of training and validation, that this process could not read or decode so far.
    bad_samples: u64,
}

impl Row {
    fn line(&self) -> String {
        self.cells().collect::<Vec<_>>().join(",") + "\n"
    }
}

/// A run's `metrics.csv`, open at its end.
#[derive(Debug)]
pub struct MetricsCsv {
    file: Growing,
}

impl MetricsCsv {
    /// Starts the file at `path` anew. With `resume_step`, goes on with the one that is there: rows
    /// of later steps, and of a last line that is torn what there is, are taken out.
    ///
    /// # Errors
    /// The file cannot be written, or is no metrics file.
    pub fn open(path: &Path, resume_step: Option<u64>) -> Result<Self> {
        let rows = match resume_step {
            Some(last) if path.exists() => {
                let mut rows = read(path)?;
                rows.retain(|row| row.step.is_none_or(|step| step <= last));
                rows
            }
            _ => Vec::new(),
        };
        let text: String = rows.iter().map(Row::line).collect();
        let text = COLUMNS.join(",") + "\n" + &text;
        file::replace(path, |file| file.write_all(text.as_bytes()))?;
        Ok(MetricsCsv { file: Growing::open(path, &mut OpenOptions::new())? })
    }

    /// Writes a row to the file. One that fails leaves the file as it was.
    pub fn append(&mut self, row: &Row) -> Result<()> {
        self.file.append(row.line().as_bytes())
    }
}

/// Bytes of a file. A run that writes a row a second fills it in a month.
pub const MOST: u64 = 256 << 20;

/// The rows of the file at `path`. A last line that is torn is left out: the run may be under way.
///
/// # Errors
/// The file cannot be read, or is no metrics file; names the line.
pub fn read(path: &Path) -> Result<Vec<Row>> {
    let mut text = String::new();
    let read = file::open(path)?.take(MOST + 1).read_to_string(&mut text);
    let length = read.map_err(|e| Error::io("read", path, e))?;
    if length as u64 > MOST {
        let message = "longer than 256 MiB; move it away to start a new one";
        return Err(Error::new(ErrorKind::Limit, message).at_path(path));
    }
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    let damaged = |at: usize, message: &str| {
        Error::new(ErrorKind::Data, format!("{message}; move the file away to start a new one"))
            .at_path(path)
            .at_line(at as u64 + 1)
    };
    let mut rows = Vec::new();
    for (at, line) in whole.lines().enumerate() {
        match at {
            0 if line != COLUMNS.join(",") => {
                return Err(damaged(0, "not the columns of a metrics file"));
            }
            0 => {}
            _ => rows.push(Row::parse(line).ok_or_else(|| damaged(at, "not a row of metrics"))?),
        }
    }
    Ok(rows)
}
