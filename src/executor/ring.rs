//! The ring of recycled slots: the memory that batches live in.

use super::gpu::DeviceSlot;
use super::ledger::Incident;
use super::program::OutputInfo;
use crate::reader::sampler::Place;
use crate::tensor::Buffer;
use std::collections::VecDeque;
use std::ops::{Deref, DerefMut};
use std::sync::{Arc, Mutex, PoisonError};

/// Height and width of an image, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Size {
    pub(super) height: u32,
    pub(super) width: u32,
}

impl Size {
    /// Bytes of `samples` RGB images of elements of `element` bytes, where they can be counted.
    pub(super) fn bytes(self, samples: usize, element: usize) -> Option<usize> {
        let pixels = (self.height as usize).checked_mul(self.width as usize)?;
        pixels.checked_mul(3 * element)?.checked_mul(samples)
    }

    /// Both in one word.
    pub(super) fn pack(self) -> u64 {
        u64::from(self.height) << 32 | u64::from(self.width)
    }

    /// The size that [`Size::pack`] was given.
    pub(super) fn unpack(word: u64) -> Self {
        Size { height: (word >> 32) as u32, width: word as u32 }
    }
}

/// The memory of one batch. Its vectors grow to the largest batch they have seen and stay so.
#[derive(Default)]
pub(super) struct Slot {
    /// One dense array per output, samples one after another.
    pub(super) outputs: Vec<Buffer>,
    /// The shape of each output, filled in with its buffer.
    pub(super) shapes: Vec<[usize; 4]>,
    pub(super) labels: Vec<i64>,
    pub(super) ids: Vec<i64>,
    pub(super) valid: Vec<bool>,
    /// What was found of its samples, by position.
    pub(super) incidents: Vec<Incident>,
    /// What the slot owns on a GPU, where the pipeline runs on one.
    pub(super) device: Option<Box<DeviceSlot>>,
}

impl Slot {
    /// Takes the samples of a batch; the outputs follow when their sizes are known.
    pub(super) fn begin(&mut self, places: &[Place], label: impl Fn(u64) -> i64) {
        self.labels.clear();
        self.ids.clear();
        self.valid.clear();
        self.incidents.clear();
        self.labels.extend(places.iter().map(|p| label(p.id)));
        self.ids.extend(places.iter().map(|p| p.id as i64));
        self.valid.extend(places.iter().map(|p| p.valid));
    }

    /// Leaves only the samples at `kept`, positions in rising order, and closes the gaps.
    pub(super) fn keep(&mut self, kept: &[usize]) {
        let samples = self.ids.len();
        for (output, shape) in self.outputs.iter_mut().zip(&mut self.shapes) {
            // On a GPU the outputs lie there, and are written without gaps.
            let stride = output.len() / samples;
            for (to, &from) in kept.iter().enumerate() {
                output.copy_within(from * stride..(from + 1) * stride, to * stride);
            }
            output.truncate(kept.len() * stride);
            shape[0] = kept.len();
        }
        fn pick<T: Copy>(values: &mut Vec<T>, kept: &[usize]) {
            kept.iter().enumerate().for_each(|(to, &from)| values[to] = values[from]);
            values.truncate(kept.len());
        }
        pick(&mut self.labels, kept);
        pick(&mut self.ids, kept);
        pick(&mut self.valid, kept);
    }
}

/// Slots that nobody uses, and what every slot of this pipeline looks like.
pub(super) struct Ring {
    outputs: Vec<OutputInfo>,
    names: Vec<String>,
    /// Slots that serve a consumer who holds one batch at a time.
    expected: usize,
    slots: Mutex<Slots>,
}

struct Slots {
    /// The most recently used last.
    free: VecDeque<Slot>,
    made: usize,
}

impl Ring {
    /// A ring that makes slots for `outputs` as they are asked for.
    pub(super) fn new(outputs: &[OutputInfo], expected: usize) -> Arc<Self> {
        Arc::new(Ring {
            outputs: outputs.to_vec(),
            names: outputs.iter().map(|o| o.name.clone()).collect(),
            expected,
            slots: Mutex::new(Slots { free: VecDeque::new(), made: 0 }),
        })
    }

    /// A slot of the caller's own: a free one, else a new one. Never waits for one to come back,
    /// since whoever holds the others may be waiting for this one.
    pub(super) fn take(self: &Arc<Self>) -> Lease {
        let mut slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        // The newest, since its memory is the most likely to be in a cache; but on a GPU the oldest,
        // since that is the most likely to be done with.
        let free = match slots.free.front() {
            Some(oldest) if oldest.device.is_some() => slots.free.pop_front(),
            _ => slots.free.pop_back(),
        };
        let slot = free.unwrap_or_else(|| {
            slots.made += 1;
            let count = self.outputs.len();
            Slot {
                outputs: (0..count).map(|_| Buffer::new()).collect(),
                shapes: vec![[0; 4]; count],
                ..Slot::default()
            }
        });
        Lease { slot, ring: self.clone() }
    }

    /// Slots made beyond those that a consumer of one batch at a time needs.
    pub(super) fn grown(&self) -> u64 {
        let slots = self.slots.lock().unwrap_or_else(PoisonError::into_inner);
        slots.made.saturating_sub(self.expected) as u64
    }

    /// What each output holds.
    pub(super) fn outputs(&self) -> &[OutputInfo] {
        &self.outputs
    }

    /// Names of the outputs.
    pub(super) fn names(&self) -> &[String] {
        &self.names
    }

    /// Slots that are free and the bytes their outputs hold, for tests that memory stays flat.
    #[cfg(test)]
    pub(super) fn idle(&self) -> (usize, usize) {
        let slots = self.slots.lock().unwrap();
        let bytes = slots.free.iter().flat_map(|s| &s.outputs).map(Buffer::capacity).sum();
        (slots.free.len(), bytes)
    }
}

/// A slot with one owner; it goes back to its ring on drop. Keeps nothing else alive.
pub(super) struct Lease {
    slot: Slot,
    ring: Arc<Ring>,
}

impl Lease {
    /// The ring the slot goes back to.
    pub(super) fn ring(&self) -> &Ring {
        &self.ring
    }

    /// Forgets the slot's memory on the GPU instead of ever using or freeing it: work that uses it
    /// may be under way, and waiting for that has failed. The slot gets new memory.
    pub(super) fn leak(&mut self) {
        std::mem::forget(self.slot.device.take());
    }
}

impl Deref for Lease {
    type Target = Slot;
    fn deref(&self) -> &Slot {
        &self.slot
    }
}

impl DerefMut for Lease {
    fn deref_mut(&mut self) -> &mut Slot {
        &mut self.slot
    }
}

impl Drop for Lease {
    fn drop(&mut self) {
        if self.device.as_mut().is_some_and(|device| device.give_back().is_err()) {
            self.leak();
        }
        let slot = std::mem::take(&mut self.slot);
        self.ring.slots.lock().unwrap_or_else(PoisonError::into_inner).free.push_back(slot);
    }
}
