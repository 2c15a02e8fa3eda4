//! The `forebay-train` program: what `forebay train` starts.
fn main() {}
