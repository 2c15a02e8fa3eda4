//! The entry points of cuda.h that forebay calls, with the header's signatures. What they answer to
//! wrong arguments is what the driver answers, and beside it a violation where the driver would be
//! free to crash.

mod device;
mod kernel;
mod memory;
mod stream;

#[cfg(test)]
pub(crate) use {device::*, kernel::*, memory::*, stream::*};
