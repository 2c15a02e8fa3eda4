//! How long a launch takes, by the host's clock around many of them and one synchronisation.

use forebay::Result;
use forebay::device::cuda::Stream;
use std::time::{Duration, Instant};

/// Rounds at most and at least, and the time after which no further one is begun.
const ROUNDS: usize = 25;
const FEWEST: usize = 3;
const ENOUGH: Duration = Duration::from_millis(1500);
/// A round is at least so long, so that waiting for its end counts for little.
const ROUND: Duration = Duration::from_millis(4);

/// Microseconds of one launch: over `n` rounds of `launches`.
pub(crate) struct Times {
    pub(crate) median: f64,
    pub(crate) least: f64,
    pub(crate) most: f64,
    pub(crate) n: usize,
    pub(crate) launches: u32,
}

/// Times `launch`, which puts one piece of work on `stream`.
pub(crate) fn time(stream: &Stream, mut launch: impl FnMut() -> Result<()>) -> Result<Times> {
    let mut round = |launches: u32| -> Result<Duration> {
        let start = Instant::now();
        (0..launches).try_for_each(|_| launch())?;
        stream.synchronize()?;
        Ok(start.elapsed())
    };
    // The first loads code and wakes the GPU.
    round(1)?;
    let mut launches = 1;
    while launches < 1 << 14 && round(launches)? < ROUND {
        launches *= 2;
    }
    let start = Instant::now();
    let mut us = Vec::new();
    while us.len() < FEWEST || us.len() < ROUNDS && start.elapsed() < ENOUGH {
        us.push(round(launches)?.as_secs_f64() * 1e6 / f64::from(launches));
    }
    us.sort_by(f64::total_cmp);
    let (least, most) = (us[0], us[us.len() - 1]);
    Ok(Times { median: us[us.len() / 2], least, most, n: us.len(), launches })
}
