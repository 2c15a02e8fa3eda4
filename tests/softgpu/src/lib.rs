//! `libcuda.so` and `libnvjpeg.so.13` in software: one library with the entry points of both, which
//! forebay's tests put where a loader finds them. README.md says what it promises.
//!
//! Three more entry points are for tests; [`control`] has their types and what they mean:
//! `softgpu_configure`, `softgpu_report` and `softgpu_call_name`. For programs that know nothing of
//! them the environment has the same (`settings.rs`):
//!
//! | variable | meaning |
//! |---|---|
//! | `SOFTGPU_SEED` | seed of every choice; modulo 3 it is the temperament: eager, lazy, mixed |
//! | `SOFTGPU_DEVICES` | number of devices |
//! | `SOFTGPU_CAPABILITY` | compute capability, as in `9.0` |
//! | `SOFTGPU_DRIVER` | driver version, as in `13000` |
//! | `SOFTGPU_MEMORY` | bytes of memory a device has |
//! | `SOFTGPU_HAZARDS` | bits of [`control::hazard`] |
//! | `SOFTGPU_FAIL` | `n:status` or `n:status:nvjpeg_status`: call `n`, counted from 1, fails |
//! | `SOFTGPU_REPORT` | file to append the report to at exit, in lines of JSON |

#![allow(non_snake_case)]

pub mod control;
mod driver;
mod fault;
mod jpeg;
mod memory;
mod module;
mod nvjpeg;
mod random;
mod settings;
mod state;
mod status;
mod stream;
mod work;

#[cfg(test)]
mod tests;
