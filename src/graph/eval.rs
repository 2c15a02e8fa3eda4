//! Expressions into primitives.

use super::expr::{Binary, Expr, Unary};
use super::primitive::{Build, Channels, NodeId, Operand};
use super::program::Op;
use crate::error::{Error, Result};
use crate::tensor::DType;

/// What an expression stands for.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// One scalar a channel.
    Scalars(Channels),
    /// An image.
    Image(NodeId),
}

/// Adds what `expr` computes. `lookup` gives the meaning of a name, or says what it should be.
pub fn evaluate(
    build: &mut Build,
    expr: &Expr,
    lookup: &mut dyn FnMut(&mut Build, &str) -> Result<Value>,
) -> Result<Value> {
    Ok(match expr {
        Expr::Number(value) => Value::Scalars([build.constant(*value as f32); 3]),
        Expr::Name(name) => lookup(build, name)?,
        Expr::Channels(parts) => {
            let mut channels = [build.constant(0.0); 3];
            for (k, part) in parts.iter().enumerate() {
                channels[k] = match evaluate(build, part, lookup)? {
                    Value::Scalars(c) if c[0] == c[1] && c[1] == c[2] => c[k],
                    Value::Scalars(_) => {
                        return Err(Error::spec(format!(
                            "{part} in [..] has a value a channel already; it must be one number"
                        )));
                    }
                    Value::Image(_) => {
                        return Err(Error::spec(format!(
                            "{part} in [..] is an image; it must be a number"
                        )));
                    }
                };
            }
            Value::Scalars(channels)
        }
        Expr::Unary(op, a) => {
            let a = evaluate(build, a, lookup)?;
            unary(build, if *op == Unary::Neg { Op::Neg } else { Op::Not }, a)?
        }
        Expr::Binary(op, a, b) => {
            let a = evaluate(build, a, lookup)?;
            let b = evaluate(build, b, lookup)?;
            binary(build, *op, a, b)?
        }
        Expr::Clamp(x, lo, hi) => {
            let x = evaluate(build, x, lookup)?;
            let lo = evaluate(build, lo, lookup)?;
            let hi = evaluate(build, hi, lookup)?;
            let at_least = binary(build, Binary::Max, x, lo)?;
            binary(build, Binary::Min, at_least, hi)?
        }
        Expr::Cast(a, dtype) => match (evaluate(build, a, lookup)?, dtype) {
            (Value::Image(a), DType::U8) => Value::Image(build.round(a)),
            (Value::Image(a), DType::F32) => Value::Image(build.float(a)),
            (a @ Value::Scalars(_), DType::U8) => unary(build, Op::Round, a)?,
            (a @ Value::Scalars(_), DType::F32) => a,
            (_, DType::I64) => {
                return Err(Error::spec("cast to i64 is for labels; images are u8 or f32"));
            }
        },
    })
}

fn unary(build: &mut Build, op: Op, a: Value) -> Result<Value> {
    Ok(match a {
        Value::Scalars(a) => Value::Scalars(build.apply_channels(op, a, a)),
        Value::Image(a) => Value::Image(build.point(a, op, Operand::Nothing)?),
    })
}

fn binary(build: &mut Build, op: Binary, a: Value, b: Value) -> Result<Value> {
    let (forward, swapped) = match op {
        Binary::Add => (Op::Add, Op::Add),
        Binary::Sub => (Op::Sub, Op::Rsub),
        Binary::Mul => (Op::Mul, Op::Mul),
        Binary::Div => (Op::Div, Op::Rdiv),
        Binary::Min => (Op::Min, Op::Min),
        Binary::Max => (Op::Max, Op::Max),
        Binary::Lt => (Op::Lt, Op::Gt),
        Binary::Le => (Op::Le, Op::Ge),
        Binary::Gt => (Op::Gt, Op::Lt),
        Binary::Ge => (Op::Ge, Op::Le),
        Binary::Eq => (Op::Eq, Op::Eq),
        Binary::Ne => (Op::Ne, Op::Ne),
        Binary::And => (Op::And, Op::And),
        Binary::Or => (Op::Or, Op::Or),
    };
    Ok(match (a, b) {
        (Value::Scalars(a), Value::Scalars(b)) => {
            Value::Scalars(build.apply_channels(forward, a, b))
        }
        (Value::Image(a), Value::Scalars(b)) => Value::Image(build.point_scalars(a, forward, b)),
        (Value::Scalars(a), Value::Image(b)) => Value::Image(build.point_scalars(b, swapped, a)),
        (Value::Image(a), Value::Image(b)) => {
            Value::Image(build.point(a, forward, Operand::Image(b))?)
        }
    })
}
