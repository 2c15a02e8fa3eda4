//! The inputs that mutation starts from: those that did something new.

use crate::counters::Counters;
use crate::mutate::Rng;
use std::collections::HashSet;
use std::fs;
use std::path::{Path, PathBuf};
use xxhash_rust::xxh3::xxh3_64;

/// Words of outcomes are cut off here: messages that quote an input would never end.
const MOST_OUTCOMES: usize = 250;

pub(crate) struct Pool {
    inputs: Vec<Vec<u8>>,
    counters: Counters,
    outcomes: HashSet<u64>,
    /// Where inputs are kept for the next run.
    folder: Option<PathBuf>,
}

impl Pool {
    pub(crate) fn new(folder: Option<&Path>) -> Pool {
        if let Some(folder) = folder {
            fs::create_dir_all(folder).expect("the corpus's folder can be made");
        }
        Pool {
            inputs: Vec::new(),
            counters: Counters::new(),
            outcomes: HashSet::new(),
            folder: folder.map(Path::to_path_buf),
        }
    }

    /// What earlier runs kept, in an order that is the same each time.
    pub(crate) fn stored(&self) -> Vec<Vec<u8>> {
        let Some(folder) = &self.folder else { return Vec::new() };
        let entries = fs::read_dir(folder).expect("the corpus's folder can be read");
        let mut paths: Vec<_> = entries.map(|entry| entry.unwrap().path()).collect();
        paths.sort();
        paths.iter().map(|path| fs::read(path).expect("an input can be read")).collect()
    }

    /// Runs `body` on `input` and keeps it where it did something new.
    pub(crate) fn run(&mut self, input: &[u8], body: fn(&[u8]) -> String) {
        self.counters.clear();
        let outcome = body(input);
        let ran_new = self.counters.is_new();
        let said_new = self.outcomes.len() < MOST_OUTCOMES && self.outcomes.insert(gist(&outcome));
        if ran_new || said_new {
            self.keep(input);
        }
    }

    fn keep(&mut self, input: &[u8]) {
        if let Some(folder) = &self.folder {
            let path = folder.join(format!("{:016x}", xxh3_64(input)));
            if !path.exists() {
                fs::write(path, input).expect("an input can be kept");
            }
        }
        self.inputs.push(input.to_vec());
    }

    /// An input, of the newest as often as of all.
    pub(crate) fn pick(&self, rng: &mut Rng) -> &[u8] {
        const NEWEST: usize = 32;
        let count = self.inputs.len();
        let from = if rng.below(2) == 0 { count.saturating_sub(NEWEST) } else { 0 };
        &self.inputs[from + rng.below(count - from)]
    }

    pub(crate) fn len(&self) -> usize {
        self.inputs.len()
    }

    /// Leaves the counters behind as if nobody had cleared them.
    pub(crate) fn finish(self) {
        self.counters.restore();
    }
}

/// An outcome without what it quotes of the input: quoted text and digits.
fn gist(outcome: &str) -> u64 {
    let plain: String = outcome.split('"').step_by(2).collect();
    xxh3_64(plain.replace(|c: char| c.is_ascii_digit(), "").as_bytes())
}
