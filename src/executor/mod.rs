//! (executor: to come)
