//! What an operator is to the graph: it reads its arguments and adds primitives.

use super::args::Args;
use super::primitive::{Build, NodeId};
use crate::error::Result;

/// An operator of the pipeline file.
pub trait Operator: Sync {
    /// Its name in `op = "…"`.
    fn name(&self) -> &'static str;

    /// Names of its arguments.
    fn args(&self) -> &'static [&'static str];

    /// Whether arguments of other names are allowed too (they are values for an expression).
    fn open(&self) -> bool {
        false
    }

    /// Adds its primitives behind `input` and returns the last.
    fn build(&self, build: &mut Build, input: NodeId, args: &mut Args<'_>) -> Result<NodeId>;
}
