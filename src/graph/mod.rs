//! The pipeline as data: described by [`spec`], checked and compiled into a [`plan`].
//!
//! Knows no device and no file; operators come in through the [`op::Operator`] trait.

pub mod builder;
pub mod expr;
pub mod file;
pub mod spec;
