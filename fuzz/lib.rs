//! The bodies as a library, for the targets of cargo-fuzz.

pub mod bodies;
#[path = "../src/train/mod.rs"]
#[allow(dead_code, unreachable_pub, unused_imports)] // Parsers use a part.
mod train;

use forebay::*; // For the trainer, which is a part of a program.
