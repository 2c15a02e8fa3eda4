//! (ops: to come)
