//! (train: to come)
