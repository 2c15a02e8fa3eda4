//! What a user chooses about the ends of epochs, about samples that cannot be made, and about what is
//! kept from epoch to epoch.

use std::fmt;
use std::str::FromStr;

/// What becomes of the N mod (ranks x batch size) samples that fill no global batch.
#[derive(
    Debug, Clone, Copy, PartialEq, Eq, Hash, Default, serde::Serialize, serde::Deserialize,
)]
#[serde(rename_all = "lowercase")]
pub enum LastBatch {
    /// Whole global batches only; the others, different each epoch, sit out.
    Drop,
    /// Each sample once; the last global batch is dealt round and may be short.
    #[default]
    Partial,
    /// Equal steps on every rank; filled places repeat samples and are marked invalid.
    Pad,
}

/// What becomes of a sample that cannot be read or decoded. No other sample moves, and an epoch has as
/// many batches as without it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum OnError {
    /// Its error ends the epoch.
    #[default]
    Fail,
    /// It is left out of its batch, which gets shorter. A batch of which nothing would be left is
    /// filled as under [`OnError::Replace`], with places that are marked invalid.
    Skip,
    /// Another sample takes its place, drawn by (seed, epoch, sample id).
    Replace,
}

impl OnError {
    /// Every choice, by its name in files and flags.
    pub const NAMES: [(&str, OnError); 3] =
        [("fail", OnError::Fail), ("skip", OnError::Skip), ("replace", OnError::Replace)];
}

impl fmt::Display for OnError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES[*self as usize].0)
    }
}

impl FromStr for OnError {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, choice)| *choice).ok_or("expected fail, skip or replace")
    }
}

/// How many different samples may be bad before [`OnError::Skip`] and [`OnError::Replace`] fail, too.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum MaxBad {
    /// So many.
    Count(u64),
    /// This share of the list, 0 to 1, rounded up to whole samples.
    Share(f64),
}

impl MaxBad {
    /// What a value must be, for messages.
    pub const FORM: &str = "a number of samples such as 100, or a share from 0.0 to 1.0";

    /// The share, where it is one.
    pub fn share(share: f64) -> Option<Self> {
        (0.0..=1.0).contains(&share).then_some(MaxBad::Share(share))
    }

    /// How many of `samples` may be bad.
    pub fn of(self, samples: u64) -> u64 {
        match self {
            MaxBad::Count(count) => count,
            MaxBad::Share(share) => (share * samples as f64).ceil() as u64,
        }
    }
}

impl Default for MaxBad {
    /// A tenth: more is a disk that went away, or a wrong directory.
    fn default() -> Self {
        MaxBad::Share(0.1)
    }
}

/// As a file and a flag write it: `100`, `0.1`.
impl fmt::Display for MaxBad {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            MaxBad::Count(count) => write!(f, "{count}"),
            MaxBad::Share(share) => write!(f, "{share:?}"),
        }
    }
}

impl FromStr for MaxBad {
    type Err = String;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let count = text.parse().map(MaxBad::Count).ok();
        count
            .or_else(|| text.parse().ok().and_then(Self::share))
            .ok_or_else(|| format!("expected {}", Self::FORM))
    }
}

/// What is kept in memory from epoch to epoch. No choice changes a byte of a batch.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Cache {
    /// Nothing: each epoch reads and decodes anew.
    #[default]
    None,
    /// What was read: an epoch decodes it again.
    Encoded,
    /// Pixels as they were decoded.
    Decoded,
}

impl Cache {
    /// Every choice, by its name in files and flags.
    pub const NAMES: [(&str, Cache); 3] =
        [("none", Cache::None), ("encoded", Cache::Encoded), ("decoded", Cache::Decoded)];
}

impl fmt::Display for Cache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(Self::NAMES[*self as usize].0)
    }
}

impl FromStr for Cache {
    type Err = &'static str;
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let found = Self::NAMES.iter().find(|(name, _)| *name == text);
        found.map(|(_, choice)| *choice).ok_or("expected none, encoded or decoded")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_and_numbers() {
        for (name, choice) in OnError::NAMES {
            assert_eq!((name.parse(), choice.to_string()), (Ok(choice), name.to_string()));
        }
        for (name, choice) in Cache::NAMES {
            assert_eq!((name.parse(), choice.to_string()), (Ok(choice), name.to_string()));
        }
        for (text, most) in [("0", 0), ("100", 100), ("0.1", 1), ("0.0", 0), ("1.0", 3)] {
            let parsed: MaxBad = text.parse().unwrap();
            assert_eq!((parsed.of(3), parsed.to_string()), (most, text.to_string()));
        }
        for wrong in ["", "-1", "1.5", "nan", "10%"] {
            wrong.parse::<MaxBad>().unwrap_err();
        }
    }
}
