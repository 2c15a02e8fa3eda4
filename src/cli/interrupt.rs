//! Signals that ask a program to end, for commands that have something to finish first. The others
//! end at once, as every program does. Shared by both programs.

use anyhow::{Context, Result};
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use signal_hook::iterator::Signals;
use signal_hook::low_level::exit;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicI32, Ordering, fence};
use std::{fs, thread};

/// Whether to end.
pub(crate) struct Interrupt {
    stop: Arc<AtomicBool>,
    /// The first one that came; 0: none.
    signal: Arc<AtomicI32>,
}

impl Interrupt {
    /// From now on Ctrl-C, SIGTERM (a container or a scheduler that stops the run) and SIGHUP (a
    /// terminal that is closed) ask to end, and call `told`. The second one ends the program at once.
    pub(crate) fn catch(told: impl Fn() + Send + 'static) -> Result<Self> {
        // Whoever started this program may have it ignore some, as nohup does with SIGHUP.
        let ignored = ignored();
        let heeded = [SIGHUP, SIGINT, SIGTERM].into_iter().filter(|s| ignored >> (s - 1) & 1 == 0);
        let mut signals = Signals::new(heeded).context("cannot catch Ctrl-C")?;
        let interrupt = Interrupt { stop: Arc::default(), signal: Arc::default() };
        let (stop, first) = (interrupt.stop.clone(), interrupt.signal.clone());
        let wait = move || {
            for signal in signals.forever() {
                match first.load(Ordering::Relaxed) {
                    0 => first.store(signal, Ordering::Relaxed),
                    // A terminal that is closed may tell so twice.
                    _ if signal == SIGHUP => continue,
                    _ => exit(status(signal).into()),
                }
                stop.store(true, Ordering::Release);
                told();
            }
        };
        let thread = thread::Builder::new().name("forebay-signals".into()).spawn(wait);
        thread.context("cannot start a thread that waits for Ctrl-C")?;
        Ok(interrupt)
    }

    /// Becomes true when a signal came.
    pub(crate) fn stop(&self) -> &AtomicBool {
        &self.stop
    }

    /// What to exit with once `stop` was seen to be true.
    pub(crate) fn status(&self) -> u8 {
        // However that was looked at: the signal was noted before.
        fence(Ordering::Acquire);
        status(self.signal.load(Ordering::Relaxed))
    }
}

/// What a shell reports of a program that a signal ended: 130 for Ctrl-C, 143 for SIGTERM.
fn status(signal: i32) -> u8 {
    128 + signal as u8
}

/// The signals that this process ignores: bit n - 1 for signal n. None where the system does not tell.
fn ignored() -> u64 {
    let status = fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0)
}
