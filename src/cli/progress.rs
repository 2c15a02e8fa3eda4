//! How far a command is: a bar on a terminal, now and then a plain line elsewhere.

use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use std::fmt;
use std::io::{self, Write};
use std::sync::Mutex;
use std::time::{Duration, Instant};

/// Time between plain lines: rare enough for a log, often enough to see that it lives.
const INTERVAL: Duration = Duration::from_secs(10);

/// Counts up to a known total, from any thread. The bar goes when it is dropped.
pub(crate) struct Progress {
    bar: ProgressBar,
    doing: &'static str,
    total: u64,
    /// When the last plain line was due; `None` on a terminal.
    plain: Option<Mutex<Instant>>,
}

impl Progress {
    /// Starts at 0 of `total`; `doing` is a word such as "checking".
    pub(crate) fn new(doing: &'static str, total: u64) -> Self {
        let bar = ProgressBar::new(total);
        let rate = |state: &ProgressState, out: &mut dyn fmt::Write| {
            let _ = write!(out, "{:.0}/s", state.per_sec());
        };
        let style = "{msg} {wide_bar} {human_pos}/{human_len} {rate:>9} {eta:>4}";
        let style = ProgressStyle::with_template(style).expect("the template is right");
        bar.set_style(style.with_key("rate", rate));
        bar.set_message(doing);
        let plain = bar.is_hidden().then(|| Mutex::new(Instant::now()));
        Progress { bar, doing, total, plain }
    }

    /// Counts `n` more.
    pub(crate) fn add(&self, n: u64) {
        self.bar.inc(n);
        // A thread that finds another one looking at the clock has nothing to add.
        if let Some(Ok(mut last)) = self.plain.as_ref().map(Mutex::try_lock)
            && last.elapsed() >= INTERVAL
        {
            *last = Instant::now();
            // It is no fault that nobody reads this.
            let _ =
                writeln!(io::stderr(), "{} {} of {}", self.doing, self.bar.position(), self.total);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
