//! `expr`: a formula on the image, `expr = "(x / 255 - mean) / std"`.
//!
//! `x` is the step's input; other names are the step's own arguments (numbers, three numbers,
//! draws), shared draws, and images of earlier steps. Arithmetic is f32, each operation rounded;
//! `cast(…, u8)` rounds half away from zero and saturates. Comparisons and logic give u8 0 or 1.

use crate::error::{Error, Result};
use crate::graph::args::Args;
use crate::graph::eval::{Value, evaluate};
use crate::graph::op::Operator;
use crate::graph::primitive::{Build, NodeId};

pub(super) struct Expression;

impl Operator for Expression {
    fn name(&self) -> &'static str {
        "expr"
    }

    fn args(&self) -> &'static [&'static str] {
        &["expr"]
    }

    fn open(&self) -> bool {
        true
    }

    fn build(&self, build: &mut Build, input: NodeId, args: &mut Args<'_>) -> Result<NodeId> {
        let expr = args.expr("expr")?.clone();
        let mut lookup = |build: &mut Build, word: &str| args.lookup(build, input, word);
        match evaluate(build, &expr, &mut lookup)? {
            Value::Image(image) => Ok(image),
            Value::Scalars(_) => {
                Err(Error::spec(format!("\"{expr}\" reads no image; x is the step's input")))
            }
        }
    }
}
