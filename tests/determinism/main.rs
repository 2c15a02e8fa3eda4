//! The bytes of a sample follow from (pipeline, seed, epoch, sample id), and from nothing else: one
//! small epoch, run in every way that a run can differ, against one reference run.
//!
//! | what differs | where |
//! |---|---|
//! | threads 1-8, batch sizes, prefetch depths, shards 1-5, all with all | `loader::every_way_to_run_an_epoch` |
//! | where an epoch is taken up, by how many shards, in which batches | `loader::every_way_to_resume_an_epoch` |
//! | what is kept in memory from epoch to epoch | `loader::every_cache` |
//! | x86-64-v2, v3, v4; the kernels' GPU entries on the host | `machines::instruction_sets_and_grids` |
//! | a GPU; the driver in software | `a_gpu` of `machines` and `golden`, `machines::the_software_driver` |
//! | the compiled PTX | `machines::compiled_ptx` |
//! | what libjpeg-turbo has of SIMD; an earlier program | `golden` |
//!
//! What those four are is a number that a loader tells and checkpoints keep: `identity`.
//!
//! Fusion has tests/fusion.rs; random pipelines on each device have tests/device and tests/ptx.

#[allow(dead_code)] // Part of the interpreter's test, which uses the rest.
#[path = "../ptx/batch.rs"]
mod batch;
#[path = "../common/mod.rs"]
mod common;
mod golden;
mod identity;
#[allow(dead_code)]
#[path = "../ptx/interpreter.rs"]
mod interpreter;
mod loader;
mod machines;
#[allow(dead_code, unsafe_code)] // It launches the host's kernels.
#[path = "../ptx/memory.rs"]
mod memory;
mod reference;
#[path = "../common/softgpu.rs"]
mod softgpu;
