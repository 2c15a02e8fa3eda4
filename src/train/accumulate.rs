//! How many batches make one step of the optimiser, by epoch.

use std::fmt;
use std::str::FromStr;

/// `4`, or `1:1,5:2,9:4`: from epoch 1 on one batch a step, from the fifth on two, and so on, as
/// Lightning's `GradientAccumulationScheduler` but for counting epochs from 1.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Accumulate(Vec<(u32, usize)>);

impl Accumulate {
    /// More would be a slip: an epoch of ImageNet has 10,000 batches.
    const MOST: usize = 1 << 20;

    /// Batches a step in `epoch`, from 1.
    pub fn batches(&self, epoch: u32) -> usize {
        let Self(changes) = self;
        changes.iter().rev().find(|(from, _)| *from <= epoch).map_or(1, |(_, batches)| *batches)
    }

    /// Steps of the optimiser in `epoch`, from 1, of so many batches.
    fn steps(&self, epoch: u32, batches: usize) -> usize {
        batches.div_ceil(self.batches(epoch))
    }

    /// Steps of the optimiser in the first `epochs` epochs, or parts of one, of so many batches each.
    pub fn total(&self, epochs: f64, batches: usize) -> u64 {
        let whole = epochs as u32;
        let steps: u64 = (1..=whole).map(|epoch| self.steps(epoch, batches) as u64).sum();
        let part = self.steps(whole.saturating_add(1), batches) as f64;
        steps + ((epochs - f64::from(whole)) * part).round() as u64
    }
}

impl Default for Accumulate {
    /// Each batch is a step.
    fn default() -> Self {
        Accumulate(vec![(1, 1)])
    }
}

impl FromStr for Accumulate {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong =
            || "expected a number of batches, or EPOCH:BATCHES,… such as 1:1,5:4".to_string();
        let batches = |text: &str| {
            text.trim().parse().ok().filter(|n| (1..=Self::MOST).contains(n)).ok_or_else(wrong)
        };
        if !text.contains(':') {
            return Ok(Accumulate(vec![(1, batches(text)?)]));
        }
        let mut changes: Vec<(u32, usize)> = Vec::new();
        for part in text.split(',') {
            let (epoch, count) = part.split_once(':').ok_or_else(wrong)?;
            let epoch = epoch.trim().parse().ok().filter(|n| *n >= 1).ok_or_else(wrong)?;
            if changes.last().is_some_and(|(before, _)| *before >= epoch) {
                return Err("the epochs must rise".into());
            }
            changes.push((epoch, batches(count)?));
        }
        Ok(Accumulate(changes))
    }
}

impl fmt::Display for Accumulate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_slice() {
            [(1, batches)] => write!(f, "{batches}"),
            changes => {
                let parts = changes.iter().map(|(epoch, batches)| format!("{epoch}:{batches}"));
                f.write_str(&parts.collect::<Vec<_>>().join(","))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_by_epoch() {
        let accumulate: Accumulate = "2:2,5:4".parse().unwrap();
        let batches: Vec<_> = (1..=6).map(|epoch| accumulate.batches(epoch)).collect();
        assert_eq!(batches, [1, 2, 2, 2, 4, 4]);
        assert_eq!((accumulate.steps(5, 9), accumulate.total(5.0, 9)), (3, 9 + 3 * 5 + 3));
        assert_eq!(accumulate.total(1.2, 10), 10 + 1);
        for text in ["1", "8", "2:2,5:4"] {
            assert_eq!(text.parse::<Accumulate>().unwrap().to_string(), text);
        }
        for text in ["", "0", "1:", "3:2,2:1", "2:0", "x", "1:2;3:4", "99999999999"] {
            assert!(text.parse::<Accumulate>().is_err(), "{text}");
        }
    }
}
