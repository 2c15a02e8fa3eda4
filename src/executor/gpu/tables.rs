//! Where things lie: the plan's tables on the GPU, and those of a batch.
#![allow(unsafe_code)]

use super::arena::ALIGN;
use crate::device::cuda::{Cuda, DeviceMemory, PinnedMemory, Stream};
use crate::error::Result;
use crate::graph::plan::Plan;
use crate::graph::program::{Decoded, Image, Resolved};
use std::sync::Arc;

/// Ranges of one piece of memory, each on its own boundary.
#[derive(Debug, Default)]
pub(super) struct Layout {
    end: usize,
}

impl Layout {
    /// The offset of the next `bytes`.
    pub(super) fn place(&mut self, bytes: usize) -> usize {
        let offset = self.end;
        self.end = (offset + bytes).next_multiple_of(ALIGN);
        offset
    }

    /// Bytes in all.
    pub(super) fn len(&self) -> usize {
        self.end
    }
}

/// A plan's scalars, passes and steps on the GPU: the same for every batch.
pub(super) struct PlanTables {
    pub(super) scalars: u64,
    pub(super) passes: u64,
    pub(super) steps: u64,
    _memory: DeviceMemory,
}

impl PlanTables {
    /// Copies them up and waits for that.
    pub(super) fn upload(cuda: &Arc<Cuda>, stream: &Stream, plan: &Plan) -> Result<Self> {
        let parts: [&[u8]; 3] = [
            bytemuck::cast_slice(plan.scalars()),
            bytemuck::cast_slice(plan.passes()),
            bytemuck::cast_slice(plan.steps()),
        ];
        let mut layout = Layout::default();
        let offsets = parts.map(|part| layout.place(part.len()));
        // A plan without steps has none of them.
        let len = layout.len().max(ALIGN);
        let (mut memory, mut host) = (DeviceMemory::new(cuda), PinnedMemory::new(cuda));
        memory.reserve(len)?;
        host.reserve(len, 0)?;
        let bytes = host.bytes_mut(len);
        for (part, offset) in parts.iter().zip(offsets) {
            bytes[offset..][..part.len()].copy_from_slice(part);
        }
        // SAFETY: `host` is pinned and waits for the copy below; `memory` was made for it.
        unsafe { stream.upload(memory.address(), host.bytes(len)) }?;
        if let Err(error) = stream.synchronize() {
            // The copy may still be under way, so neither is ever freed.
            std::mem::forget((memory, host));
            return Err(error);
        }
        let [scalars, passes, steps] = offsets.map(|offset| memory.address() + offset as u64);
        Ok(PlanTables { scalars, passes, steps, _memory: memory })
    }
}

/// Offsets of a batch's tables. All but the labels go up in one copy; those are the consumer's to
/// read, and go up when it has released the last ones.
pub(super) struct BatchTables {
    pub(super) ids: usize,
    pub(super) images: usize,
    pub(super) decoded: usize,
    /// What our own kernels read of a batch.
    pub(super) own: usize,
    /// Status words of who decodes, zero.
    pub(super) checks: usize,
    /// Last: what is before goes up together.
    pub(super) labels: usize,
    pub(super) len: usize,
}

impl BatchTables {
    /// For `samples` of `images` images each, of which `decoded` are decoded on the GPU; our own kernels
    /// read `own` bytes.
    pub(super) fn new(samples: usize, images: usize, decoded: usize, own: usize) -> Self {
        let mut layout = Layout::default();
        BatchTables {
            ids: layout.place(samples * 8),
            images: layout.place(samples * images * size_of::<Image>()),
            decoded: layout.place(decoded * size_of::<Decoded>()),
            own: layout.place(own),
            checks: layout.place(samples * 4),
            labels: layout.place(samples * 8),
            len: layout.len(),
        }
    }
}

/// Offsets of what only the GPU sees of a batch.
pub(super) struct Work {
    pub(super) resolved: usize,
    pub(super) status: usize,
    layout: Layout,
}

impl Work {
    /// For `samples` of `passes` passes each.
    pub(super) fn new(samples: usize, passes: usize) -> Self {
        let mut layout = Layout::default();
        let resolved = layout.place(samples * passes * size_of::<Resolved>());
        let status = layout.place(samples * 4);
        Work { resolved, status, layout }
    }

    /// An image between passes, or another piece.
    pub(super) fn image(&mut self, bytes: usize) -> usize {
        self.layout.place(bytes)
    }

    pub(super) fn len(&self) -> usize {
        self.layout.len()
    }
}
