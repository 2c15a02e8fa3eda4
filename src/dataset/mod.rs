//! (dataset: to come)
