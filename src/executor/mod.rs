//! (to come)
pub mod program;
