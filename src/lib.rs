#![doc = include_str!("../README.md")]

pub mod dataset;
pub mod decoder;
pub mod device;
pub mod error;
pub mod executor;
pub mod file;
pub mod graph;
pub mod letters;
pub mod loader;
pub mod ops;
mod pages;
pub mod policy;
pub mod reader;
pub mod rng;
pub mod stats;
pub mod tensor;

pub use error::{Error, ErrorKind, Result};
