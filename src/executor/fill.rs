//! A slot while many threads fill it: who may write where.
//!
//! Every sample of a batch is a seat. A seat is claimed once, in rising order, by one thread, which alone
//! writes the seat's range of each output; whoever retires the last seat takes the slot away with it.
//! The rules are kept by the types here, so that the rest of the executor is safe code.
#![allow(unsafe_code)]

use super::OwnLines;
use super::gpu::{Engine, Stage};
use super::ring::{Lease, Size};
use crate::error::{Error, ErrorKind, Result};
use std::cell::UnsafeCell;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};

/// The slot of a batch in the making.
pub(super) struct Fill {
    /// Touched by `room`'s initialiser and by whoever retires the last seat, and by no one else.
    lease: UnsafeCell<Option<Lease>>,
    /// What the first sample to get so far made of the slot.
    room: OnceLock<Result<Room>>,
    seats: usize,
    /// The next seat to claim; at `seats` or past it there is none.
    next: OwnLines<AtomicUsize>,
    /// Seats that were retired.
    retired: OwnLines<AtomicUsize>,
}

/// The slot's memory, laid out for this batch.
struct Room {
    /// The size of every sample's outputs.
    sizes: Box<[Size]>,
    memory: Memory,
}

impl Room {
    fn is_for(&self, size: impl Fn(usize) -> Size) -> bool {
        self.sizes.iter().enumerate().all(|(output, laid_out)| *laid_out == size(output))
    }
}

enum Memory {
    /// One span an output.
    Host(Box<[Span]>),
    /// Outputs lie on the GPU; what goes up to it is put here.
    Gpu(Stage),
}

/// An output's memory: `seats` ranges of `stride` bytes.
struct Span {
    start: *mut u8,
    stride: usize,
}

// SAFETY: a Span is a plain address; `Seat::lend` is the only reader and keeps to its own range.
unsafe impl Send for Span {}
// SAFETY: as above.
unsafe impl Sync for Span {}

// SAFETY: `lease` is reached through `&Fill` in two places. The initialiser of `room` runs at most
// once at a time and only while its caller holds a seat; `retire` takes the slot when no seat is
// left. The two never overlap, and the acquire-release counter orders one before the other.
unsafe impl Sync for Fill {}

impl Fill {
    /// `lease` with `seats` seats to fill, at least one.
    pub(super) fn new(lease: Lease, seats: usize) -> Self {
        assert!(seats > 0, "a batch holds at least one sample");
        Fill {
            lease: UnsafeCell::new(Some(lease)),
            room: OnceLock::new(),
            seats,
            next: OwnLines::default(),
            retired: OwnLines::default(),
        }
    }

    /// For one of `threads` threads that are about to claim seats.
    pub(super) fn claims(&self, threads: usize) -> Claims<'_> {
        // Each has some turns at least, so that they end at about the same time.
        let turn = (self.seats / (16 * threads)).clamp(1, 8);
        Claims { fill: self, others: turn * (threads - 1), turn, next: 0, end: 0, count: 0 }
    }

    /// Seats that were claimed, or given up.
    pub(super) fn begun(&self) -> usize {
        self.next.0.load(Ordering::Relaxed).min(self.seats)
    }

    /// Retires every seat not yet claimed, all at once. Returns the slot when that leaves none.
    pub(super) fn close(&self) -> Option<Lease> {
        let first = self.next.0.swap(self.seats, Ordering::Relaxed);
        self.retire(self.seats.saturating_sub(first))
    }

    fn retire(&self, count: usize) -> Option<Lease> {
        // AcqRel: whoever retires the last seat sees what every other thread wrote into its own.
        let last =
            count > 0 && self.retired.0.fetch_add(count, Ordering::AcqRel) + count == self.seats;
        // SAFETY: each seat is retired once, so `last` is true once, and then no Seat is left that
        // could read `room` or run its initialiser.
        if last { unsafe { (*self.lease.get()).take() } } else { None }
    }

    /// The size that output `output` is laid out for; a sample got so far.
    pub(super) fn size(&self, output: usize) -> Size {
        match self.room.get() {
            Some(Ok(room)) => room.sizes[output],
            _ => panic!("no sample was laid out"),
        }
    }

    /// What threads put in for the GPU; the batch is one that goes there, and a sample got so far.
    pub(super) fn stage(&self) -> &Stage {
        match self.room.get() {
            Some(Ok(Room { memory: Memory::Gpu(stage), .. })) => stage,
            _ => panic!("no sample was staged"),
        }
    }

    fn room(&self, sizes: &dyn Fn(usize) -> Size, engine: Option<&Arc<Engine>>) -> Result<&Room> {
        let room = self.room.get_or_init(|| {
            // SAFETY: OnceLock runs one initialiser at a time, and never again after the first
            // that returned; the caller holds a seat, so `retire` has not taken the slot.
            let lease = unsafe { (*self.lease.get()).as_mut() }.expect("a seat is held");
            let outputs = 0..lease.outputs.len();
            for output in outputs.clone() {
                let Size { height, width } = sizes(output);
                let layout = lease.ring().outputs()[output].layout;
                lease.shapes[output] =
                    layout.batch_shape(self.seats, height as usize, width as usize);
            }
            let sizes: Box<[Size]> = outputs.map(sizes).collect();
            let memory = match engine {
                Some(engine) => Memory::Gpu(engine.stage(lease)?),
                None => Memory::Host(self.spans(lease, &sizes)?),
            };
            Ok(Room { sizes, memory })
        });
        room.as_ref().map_err(Clone::clone)
    }

    fn spans(&self, lease: &mut Lease, sizes: &[Size]) -> Result<Box<[Span]>> {
        let span = |(output, size): (usize, &Size)| {
            let element = lease.ring().outputs()[output].dtype.size();
            // Wrapping here would lend memory that is not there, so it is checked again.
            let bytes = size.bytes(self.seats, element).expect("checked by the caller");
            let buffer = &mut lease.outputs[output];
            buffer.resize(bytes).map_err(|_| self.no_memory(bytes, *size))?;
            Ok(Span { start: buffer.as_mut_ptr(), stride: bytes / self.seats })
        };
        sizes.iter().enumerate().map(span).collect()
    }

    fn no_memory(&self, bytes: usize, Size { height, width }: Size) -> Error {
        let text = format!(
            "out of memory for a batch of {} images of {width}x{height} (width x height), {} MiB: \
             lower the batch size or prefetch",
            self.seats,
            bytes >> 20
        );
        Error::new(ErrorKind::Resources, text)
    }
}

/// The seats that a thread has claimed so far. All but the one that it is at are filled or given up.
pub(super) struct Claims<'a> {
    fill: &'a Fill,
    /// How many are claimed at once: threads wait for each other there.
    turn: usize,
    /// How many other threads claim between two turns of this one, by and large.
    others: usize,
    /// Those that were claimed and not given out.
    next: usize,
    end: usize,
    count: usize,
}

impl Claims<'_> {
    /// The next seat; `None` when all are claimed.
    pub(super) fn next(&mut self) -> Option<Seat<'_>> {
        if self.next == self.end {
            // Relaxed: the number itself is the claim, and nothing was written that it must publish.
            let first = self.fill.next.0.fetch_add(self.turn, Ordering::Relaxed);
            if first >= self.fill.seats {
                return None;
            }
            (self.next, self.end) = (first, self.fill.seats.min(first + self.turn));
            self.count += self.end - self.next;
        }
        let index = self.next;
        self.next += 1;
        Some(Seat { fill: self.fill, index, end: self.end, others: self.others })
    }

    /// Gives the seats up, all at once, so that threads seldom meet there. Returns the slot when the last
    /// was among them.
    pub(super) fn retire(self) -> Option<Lease> {
        self.fill.retire(self.count)
    }
}

/// The right to fill one sample's place; not to be copied.
pub(super) struct Seat<'a> {
    fill: &'a Fill,
    index: usize,
    /// The end of this thread's turn, and how many others claim until its next.
    end: usize,
    others: usize,
}

impl Seat<'_> {
    /// The sample's position in the batch.
    pub(super) fn index(&self) -> usize {
        self.index
    }

    /// The position, as far as can be foreseen, of the seat that this thread gets so many later.
    pub(super) fn later(&self, seats: usize) -> usize {
        let index = self.index + seats;
        if index < self.end { index } else { index + self.others }
    }

    /// Samples in the batch.
    pub(super) fn seats(&self) -> usize {
        self.fill.seats
    }

    /// Whether the slot is laid out for outputs of these sizes.
    pub(super) fn is_for(&self, size: impl Fn(usize) -> Size) -> bool {
        matches!(self.fill.room.get(), Some(Ok(room)) if room.is_for(size))
    }

    /// Lays the slot out for outputs of these sizes, on the GPU of `engine` if there is one, unless
    /// that is done; whether the samples that came first have the same sizes. The caller has checked
    /// that a batch of this size can be had.
    pub(super) fn agrees(
        &self,
        size: impl Fn(usize) -> Size,
        engine: Option<&Arc<Engine>>,
    ) -> Result<bool> {
        Ok(self.fill.room(&size, engine)?.is_for(size))
    }

    /// This sample's place in every output, in host memory.
    ///
    /// # Panics
    /// When the sizes were not agreed on, or the outputs lie on a GPU.
    pub(super) fn lend(&mut self) -> Places<'_> {
        let Some(Ok(Room { memory: Memory::Host(spans), .. })) = self.fill.room.get() else {
            panic!("no outputs in host memory");
        };
        let mut places = Places::new(spans.len());
        for (place, span) in places.slices().iter_mut().zip(spans) {
            // SAFETY: the output has `seats` ranges of `stride` bytes and `index < seats`. Only
            // the holder of this seat makes a reference to this range, `&mut self` keeps it to
            // one at a time, and the buffer does not move until the seat is retired.
            *place = unsafe {
                std::slice::from_raw_parts_mut(
                    span.start.add(self.index * span.stride),
                    span.stride,
                )
            };
        }
        places
    }

    /// What this sample is put into, for a GPU.
    pub(super) fn stage(&self) -> &Stage {
        self.fill.stage()
    }
}

/// One sample's bytes in each output.
pub(super) struct Places<'s> {
    /// A few outputs fit on the stack, so that a sample allocates nothing.
    few: [&'s mut [u8]; 8],
    many: Vec<&'s mut [u8]>,
    count: usize,
}

impl<'s> Places<'s> {
    fn new(count: usize) -> Self {
        let mut places = Places { few: Default::default(), many: Vec::new(), count };
        if count > places.few.len() {
            places.many.resize_with(count, Default::default);
        }
        places
    }

    /// The places in the order of the outputs.
    pub(super) fn slices(&mut self) -> &mut [&'s mut [u8]] {
        if self.many.is_empty() { &mut self.few[..self.count] } else { &mut self.many }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::executor::program::OutputInfo;
    use crate::executor::ring::Ring;
    use crate::tensor::{DType, Layout};

    fn fill(seats: usize, outputs: usize) -> Fill {
        let info = |k: usize| OutputInfo {
            name: format!("o{k}"),
            layout: Layout::Hwc,
            dtype: if k.is_multiple_of(2) { DType::U8 } else { DType::F32 },
            fixed: None,
            shape_step_hint: String::new(),
        };
        let infos: Vec<_> = (0..outputs).map(info).collect();
        Fill::new(Ring::new(&infos, 1).take(), seats)
    }

    fn size(output: usize) -> Size {
        Size { height: 3, width: 5 + output as u32 }
    }

    /// Threads claim, write and retire at once: each range holds its own writer's bytes, and the
    /// slot comes out exactly once.
    #[test]
    fn every_seat_is_written_by_one_thread() {
        for (seats, outputs) in [(1, 1), (7, 2), (131, 3), (33, 9), (700, 1)] {
            let fill = fill(seats, outputs);
            let out = std::sync::Mutex::new(Vec::new());
            std::thread::scope(|scope| {
                for _ in 0..4 {
                    scope.spawn(|| {
                        let mut claims = fill.claims(4);
                        while let Some(mut seat) = claims.next() {
                            let mark = (seat.index() % 255) as u8 + 1;
                            assert!(seat.agrees(size, None).unwrap());
                            for place in seat.lend().slices() {
                                assert!(place.iter().all(|&b| b == 0));
                                place.fill(mark);
                            }
                        }
                        out.lock().unwrap().extend(claims.retire());
                    });
                }
            });
            let leases = out.into_inner().unwrap();
            assert_eq!(leases.len(), 1);
            for (k, buffer) in leases[0].outputs.iter().enumerate() {
                let stride = 3 * (5 + k) * 3 * if k % 2 == 0 { 1 } else { 4 };
                assert_eq!(buffer.len(), seats * stride);
                for (i, range) in buffer.chunks(stride).enumerate() {
                    assert!(range.iter().all(|&b| b == (i % 255) as u8 + 1));
                }
            }
        }
    }

    /// Closing leaves claimed seats alone and gives the slot to whoever is last.
    #[test]
    fn close_retires_what_is_unclaimed() {
        let fresh = fill(5, 1);
        assert!(fresh.close().is_some());
        assert!(fresh.claims(1).next().is_none() && fresh.close().is_none());

        let begun = fill(5, 1);
        let (mut a, mut b) = (begun.claims(2), begun.claims(2));
        assert!(a.next().is_some() && b.next().is_some());
        assert!(begun.close().is_none() && a.next().is_none() && begun.close().is_none());
        assert!(b.retire().is_none() && begun.claims(2).retire().is_none());
        assert!(a.retire().is_some());
    }

    /// The first sample decides; another size is refused and writes nothing.
    #[test]
    fn another_size_is_refused() {
        let fill = fill(2, 2);
        let (mut a, mut b) = (fill.claims(2), fill.claims(2));
        let (a, b) = (a.next().unwrap(), b.next().unwrap());
        assert!(!a.is_for(size) && b.agrees(size, None).unwrap() && a.is_for(size));
        assert!(!a.is_for(|_| size(0)) && !a.agrees(|_| size(0), None).unwrap());
    }
}
