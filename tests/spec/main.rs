//! Pipeline files and the builder: what they read as, what they refuse, and that one yields what
//! the other does.

mod builder;
mod file;
mod random;
