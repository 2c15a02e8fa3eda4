//! What takes long and does not say how far it is: a list of millions of names is read for seconds.
//! Shared by both programs.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, Write};
use std::path::Path;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::{Duration, Instant};

/// Before anybody is told, and between two signs of life on a terminal.
const SOON: Duration = Duration::from_secs(1);
/// Between two plain lines elsewhere.
const INTERVAL: Duration = Duration::from_secs(10);

/// Opens the samples in `dir`. Where that takes longer than a second it is told, and for how long.
pub(crate) fn patiently<T>(dir: &Path, open: impl FnOnce() -> T) -> T {
    let (done, waits) = channel::<()>();
    thread::scope(|scope| {
        scope.spawn(move || {
            let start = Instant::now();
            if waits.recv_timeout(SOON) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            let bar = ProgressBar::new_spinner().with_elapsed(start.elapsed());
            let style = "opening {msg} {spinner} {elapsed}";
            bar.set_style(ProgressStyle::with_template(style).expect("the template is right"));
            bar.set_message(dir.display().to_string());
            let pause = if bar.is_hidden() { INTERVAL } else { SOON };
            loop {
                bar.tick();
                if bar.is_hidden() {
                    let (dir, seconds) = (dir.display(), start.elapsed().as_secs());
                    // It is no fault that nobody reads this.
                    let _ = writeln!(io::stderr(), "opening {dir}: {seconds} s");
                }
                if waits.recv_timeout(pause) != Err(RecvTimeoutError::Timeout) {
                    return bar.finish_and_clear();
                }
            }
        });
        let opened = open();
        drop(done);
        opened
    })
}
