//! (device: to come)
