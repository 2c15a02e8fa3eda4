//! What runs are judged by: metrics by name, and which values of them are better.

use super::metrics::Metrics;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Which values of a metric are better.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Mode {
    /// Larger ones.
    Max,
    /// Smaller ones.
    Min,
}

impl Mode {
    /// Whether `a` is better than `b`; what is not a number is better than nothing.
    pub fn better(self, a: f64, b: f64) -> bool {
        match self {
            Mode::Max => a > b || (b.is_nan() && !a.is_nan()),
            Mode::Min => a < b || (b.is_nan() && !a.is_nan()),
        }
    }
}

/// One number that is told after an epoch: `train_loss`, `valid_acc`, `valid_top5`, ….
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(into = "String", try_from = "String")]
pub struct Metric {
    valid: bool,
    value: Value,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Value {
    Loss,
    Accuracy,
    Top5,
}

impl Metric {
    /// Whether larger or smaller ones are better.
    pub fn mode(self) -> Mode {
        if self.value == Value::Loss { Mode::Min } else { Mode::Max }
    }

    /// Whether it needs validation samples.
    pub fn is_of_validation(self) -> bool {
        self.valid
    }

    /// Its value, where it was computed.
    pub fn of(self, train: &Metrics, valid: Option<&Metrics>) -> Option<f64> {
        let metrics = if self.valid { valid? } else { train };
        Some(match self.value {
            Value::Loss => metrics.loss,
            Value::Accuracy => metrics.accuracy,
            Value::Top5 => metrics.top5,
        })
    }
}

impl FromStr for Metric {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parts = text.split_once('_').and_then(|(pass, value)| {
            let valid = match pass {
                "train" => false,
                "valid" => true,
                _ => return None,
            };
            let value = match value {
                "loss" => Value::Loss,
                "acc" => Value::Accuracy,
                "top5" => Value::Top5,
                _ => return None,
            };
            Some(Metric { valid, value })
        });
        parts.ok_or_else(|| "expected train_ or valid_ and loss, acc or top5".into())
    }
}

impl TryFrom<String> for Metric {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        text.parse()
    }
}

impl From<Metric> for String {
    fn from(metric: Metric) -> String {
        metric.to_string()
    }
}

impl fmt::Display for Metric {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let value = match self.value {
            Value::Loss => "loss",
            Value::Accuracy => "acc",
            Value::Top5 => "top5",
        };
        write!(f, "{}_{value}", if self.valid { "valid" } else { "train" })
    }
}
