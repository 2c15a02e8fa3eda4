//! The pipeline as data: described by [`spec`], checked and compiled into a [`plan`].
//!
//! Knows no device and no file; operators come in through the [`op::Operator`] trait.

pub mod args;
pub mod builder;
mod check;
pub mod eval;
pub mod expr;
pub mod file;
pub mod nearest;
mod number;
pub mod op;
pub mod plan;
pub mod primitive;
pub mod program;
pub mod resample;
pub mod spec;
