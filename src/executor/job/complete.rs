//! What comes of a batch when no seat is left: its samples, its error, or another try.

use super::{Changed, Job, Order, caught, lock};
use crate::error::{Error, ErrorKind};
use crate::executor::ledger::{Done, Incident};
use crate::executor::ring::{Lease, Size};
use crate::policy::OnError;
use crate::reader::sampler::Place;
use std::sync::Arc;
use std::sync::atomic::Ordering::Relaxed;

impl Job {
    /// Every sample is there, or some failed, or nobody wants them.
    pub(super) fn complete(self: &Arc<Self>, mut lease: Lease, thread: usize) {
        if self.gone() {
            return;
        }
        let incidents = std::mem::take(&mut *lock(&self.incidents));
        let error = caught(|| self.first_error(&incidents)).unwrap_or_else(Some);
        if let Some(error) = error {
            return self.finish(Err(error));
        }
        let bad = incidents.iter().filter(|incident| incident.done != Done::Kept);
        let known = bad.clone().map(|incident| (incident.id, incident.error.clone()));
        if bad.filter(|incident| incident.done == Done::Skipped).count() == self.order.places.len()
        {
            return self.again(lease, thread, known, OnError::Replace);
        }
        if self.mixed.load(Relaxed) {
            // Those that are there agree: what they differ from is a sample that laid the batch out
            // and then failed. Once it is known, it cannot.
            if self.order.known.is_empty() {
                return self.again(lease, thread, known, self.order.on_error);
            }
            let text = "internal error, please report it: a batch without a size";
            return self.finish(Err(Error::new(ErrorKind::Device, text)));
        }
        if let Err(error) = caught(|| self.change(&mut lease, &incidents)) {
            return self.finish(Err(error));
        }
        lease.incidents = incidents;
        match &self.shared.submit {
            Some(submit) => submit.batch(self.clone(), lease),
            None => self.finish(Ok(lease)),
        }
    }

    /// Makes the batch the one of the samples that are there.
    fn change(&self, lease: &mut Lease, incidents: &[Incident]) {
        if incidents.iter().all(|incident| incident.done == Done::Kept) {
            return;
        }
        let mut kept: Vec<usize> = (0..self.order.places.len()).collect();
        for incident in incidents {
            match incident.done {
                Done::Kept => {}
                Done::Skipped => kept.retain(|seat| *seat != incident.position),
                Done::Replaced(other) => {
                    lease.ids[incident.position] = other as i64;
                    lease.labels[incident.position] = self.shared.reader.label(other);
                }
            }
        }
        if kept.len() < self.order.places.len() {
            lease.keep(&kept);
        }
        let _ = self.changed.set(Changed { seats: kept, ids: lease.ids.clone() });
    }

    /// Makes the batch again, in `lease`, on the calling thread: where the samples of `known` turned
    /// out to be bad, and with `on_error`. For the rare batch of which too little is left, or at which
    /// a GPU failed.
    pub(in crate::executor) fn again(
        &self,
        lease: Lease,
        thread: usize,
        known: impl IntoIterator<Item = (u64, Error)>,
        on_error: OnError,
    ) {
        let filled = on_error != self.order.on_error;
        let valid = |place: &Place| Place { valid: place.valid && !filled, ..*place };
        let order = Order {
            places: self.order.places.iter().map(valid).collect(),
            known: self.order.known.iter().cloned().chain(known).collect(),
            on_error,
            ..self.order
        };
        let job = Self::deliver(self.shared.clone(), order, lease, self.delivery.clone());
        Arc::new(job).work(thread);
    }

    /// The error of the lowest position: a sample that failed, or one whose size differs from that of
    /// the first that is there.
    fn first_error(&self, incidents: &[Incident]) -> Option<Error> {
        let failure = lock(&self.failure).take();
        let end = failure.as_ref().map_or(self.order.places.len(), |(position, _)| *position);
        let skipped = |seat: &usize| {
            incidents.iter().any(|it| it.position == *seat && it.done == Done::Skipped)
        };
        let mut seats = (0..end).filter(|seat| !skipped(seat));
        if self.mixed.load(Relaxed)
            && let Some(first) = seats.next()
        {
            let size = |seat: usize, output: usize| self.output_size(seat, output);
            let other_size = |seat: usize| {
                let differs = |&output: &usize| size(seat, output) != size(first, output);
                (0..self.program().outputs().len()).find(differs).map(|output| (seat, output))
            };
            if let Some((seat, output)) = seats.find_map(other_size) {
                return Some(self.sizes_differ(first, seat, output, incidents));
            }
        }
        failure.map(|(_, error)| error)
    }

    fn sizes_differ(
        &self,
        first: usize,
        other: usize,
        output: usize,
        incidents: &[Incident],
    ) -> Error {
        let describe = |seat: usize| {
            let stand_in = incidents.iter().find_map(|incident| match incident.done {
                Done::Replaced(by) if incident.position == seat => Some(by),
                _ => None,
            });
            let id = stand_in.unwrap_or(self.order.places[seat].id);
            let Size { height, width } = self.output_size(seat, output);
            let place = self.shared.reader.place(id);
            format!("sample {id} ({}) is {width}x{height}", place.display())
        };
        let info = &self.shared.program.outputs()[output];
        let message = format!(
            "{} but {} (width x height) at output \"{}\": fix the size with {}",
            describe(first),
            describe(other),
            info.name,
            info.shape_step_hint
        );
        Error::new(ErrorKind::Shape, message)
    }

    fn output_size(&self, seat: usize, output: usize) -> Size {
        match self.size_word(seat, self.program().plan().outputs()[output].image) {
            0 => self.fill.size(output),
            word => Size::unpack(word),
        }
    }
}
