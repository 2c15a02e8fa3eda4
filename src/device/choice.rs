//! Which device a user asked for, and what that comes to on this machine.

use super::cuda::{Cuda, Driver};
use crate::error::{Error, Result};
use std::fmt;
use std::str::FromStr;
use std::sync::Arc;

/// The value of `--device`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Choice {
    /// The first GPU where there is one that can be used, else the CPU.
    #[default]
    Auto,
    /// The CPU.
    Cpu,
    /// GPU number N, or an error.
    Cuda(u32),
}

impl Choice {
    /// Opens the GPU that is chosen; `None` for the CPU. Beside it, where [`Choice::Auto`] passed
    /// over a GPU, why.
    ///
    /// # Errors
    /// For [`Choice::Cuda`], what keeps that GPU from being used.
    pub fn open(self) -> Result<(Option<Arc<Cuda>>, Option<String>)> {
        match self {
            Choice::Cpu => Ok((None, None)),
            Choice::Cuda(ordinal) => match Cuda::open(ordinal) {
                Ok(cuda) => Ok((Some(cuda), None)),
                Err(error) => Err(self.with_way_out(error)),
            },
            // That a machine has no GPU is no news.
            Choice::Auto if Driver::probe().is_err() => Ok((None, None)),
            Choice::Auto => Ok(match Cuda::open(0) {
                Ok(cuda) => (Some(cuda), None),
                Err(error) => (None, Some(format!("on the CPU, not on cuda:0: {error}"))),
            }),
        }
    }

    fn with_way_out(self, error: Error) -> Error {
        let error = error.about(format!("--device {self}"));
        match error.message().contains("--device cpu") {
            true => error,
            false => Error::new(error.kind(), format!("{}; or use --device cpu", error.message())),
        }
    }
}

impl FromStr for Choice {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let number = |n: &str| n.parse().map(Choice::Cuda).ok();
        match text {
            "auto" => Some(Choice::Auto),
            "cpu" => Some(Choice::Cpu),
            "cuda" => Some(Choice::Cuda(0)),
            _ => text.strip_prefix("cuda:").and_then(number),
        }
        .ok_or("expected auto, cpu, or cuda:N with the number of a GPU")
    }
}

impl fmt::Display for Choice {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Choice::Auto => f.write_str("auto"),
            Choice::Cpu => f.write_str("cpu"),
            Choice::Cuda(n) => write!(f, "cuda:{n}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names() {
        for name in ["auto", "cpu", "cuda:0", "cuda:3"] {
            assert_eq!(name.parse::<Choice>().unwrap().to_string(), name);
        }
        assert_eq!("cuda".parse(), Ok(Choice::Cuda(0)));
        for wrong in ["", "gpu", "cuda:", "cuda:-1", "cpu:0"] {
            assert!(wrong.parse::<Choice>().is_err(), "{wrong}");
        }
    }
}
