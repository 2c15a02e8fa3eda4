//! Streams are queues; the scheduler picks whose head goes on next.

use crate::control::Temperament;
use crate::work::{Job, Machine, Mark, Progress, Work};
use std::collections::{BTreeMap, VecDeque};

/// Somebody waits for what can never happen.
#[derive(Debug)]
pub(crate) struct Deadlock;

struct Stream {
    device: u32,
    /// Waits for the device's default stream and is waited for by it.
    blocking: bool,
    queue: VecDeque<Job>,
    /// Operations that are done, of those enqueued.
    done: Progress,
    enqueued: u64,
    /// Destroyed; it goes when its queue is empty.
    closed: bool,
}

pub(crate) struct Streams {
    all: BTreeMap<u64, Stream>,
    pub(crate) temperament: Temperament,
}

/// The handle of a device's default stream, inside the driver. Below every handle it hands out.
fn default_of(device: u32) -> u64 {
    u64::from(device)
}

impl Streams {
    pub(crate) fn new(temperament: Temperament) -> Self {
        Self { all: BTreeMap::new(), temperament }
    }

    /// Makes a stream with a handle that is used for nothing else.
    pub(crate) fn create(&mut self, handle: u64, device: u32, blocking: bool) {
        let (queue, done) = (VecDeque::new(), Progress::default());
        let stream = Stream { device, blocking, queue, done, enqueued: 0, closed: false };
        self.all.insert(handle, stream);
    }

    /// Makes a device's default stream, where there is none yet.
    pub(crate) fn create_default(&mut self, device: u32) {
        if !self.all.contains_key(&default_of(device)) {
            self.create(default_of(device), device, false);
        }
    }

    /// The stream that a handle names while `device` is current: 0 and 1 are the default stream.
    pub(crate) fn find(&self, handle: u64, device: u32) -> Option<u64> {
        let handle = if handle <= 1 { default_of(device) } else { handle };
        let stream = self.all.get(&handle)?;
        (!stream.closed && stream.device == device).then_some(handle)
    }

    /// Streams that were created and not destroyed.
    pub(crate) fn live(&self) -> u64 {
        let made = |(handle, s): &(&u64, &Stream)| !s.closed && **handle != default_of(s.device);
        self.all.iter().filter(made).count() as u64
    }

    /// Closes a stream; what is queued on it still runs.
    pub(crate) fn destroy(&mut self, handle: u64) {
        let stream = self.all.get_mut(&handle).expect("found before");
        stream.closed = true;
        if stream.queue.is_empty() {
            self.all.remove(&handle);
        }
    }

    pub(crate) fn enqueue(&mut self, handle: u64, work: Work) {
        let Stream { device, blocking, .. } = self.all[&handle];
        // The legacy default stream and the blocking streams of its device wait for each other.
        let before: Vec<_> = if handle == default_of(device) {
            let others = self.all.iter().filter(|(_, s)| s.blocking && s.device == device);
            others.map(|(&other, _)| other).collect()
        } else if blocking {
            vec![default_of(device)]
        } else {
            Vec::new()
        };
        for other in before {
            let mark = self.end(other);
            if !mark.passed() {
                self.push(handle, Work::Await(mark));
            }
        }
        self.push(handle, work);
    }

    fn push(&mut self, handle: u64, work: Work) {
        let stream = self.all.get_mut(&handle).expect("found before");
        stream.enqueued += 1;
        stream.queue.push_back(Job::new(work));
    }

    /// When all that is on a stream now will be done.
    pub(crate) fn end(&self, handle: u64) -> Mark {
        let stream = &self.all[&handle];
        Mark { progress: stream.done.clone(), number: stream.enqueued, stream: handle }
    }

    fn ready(&self, handle: u64) -> bool {
        self.all.get(&handle).and_then(|s| s.queue.front()).is_some_and(Job::ready)
    }

    fn any_ready(&self, machine: &mut Machine) -> Option<u64> {
        let ready: Vec<u64> = self.all.keys().copied().filter(|&h| self.ready(h)).collect();
        (!ready.is_empty()).then(|| ready[machine.random.below(ready.len() as u64) as usize])
    }

    /// The stream whose head brings a mark nearer: the mark's own, or that which its head waits for.
    fn towards(&self, mark: &Mark) -> Option<u64> {
        let mut handle = mark.stream;
        // A chain of waits is no longer than the streams there are, unless it is a circle.
        for _ in 0..=self.all.len() {
            let head = self.all.get(&handle)?.queue.front()?;
            match &head.work {
                Work::Await(mark) if !mark.passed() => handle = mark.stream,
                _ => return Some(handle),
            }
        }
        None
    }

    /// Runs a piece of a stream's head.
    fn step(&mut self, handle: u64, machine: &mut Machine) {
        let stream = self.all.get_mut(&handle).expect("it is ready");
        let job = stream.queue.front_mut().expect("it is ready");
        if !job.advance(machine) {
            return;
        }
        stream.queue.pop_front();
        stream.done.reach(stream.done.reached() + 1);
        if stream.closed && stream.queue.is_empty() {
            self.all.remove(&handle);
        }
    }

    /// What happens by itself while the host makes a call.
    pub(crate) fn idle(&mut self, machine: &mut Machine) {
        let steps = match self.temperament {
            Temperament::Eager => u64::MAX,
            Temperament::Lazy => 0,
            Temperament::Mixed if machine.random.once_in(2) => machine.random.below(6),
            Temperament::Mixed => 0,
        };
        for _ in 0..steps {
            let Some(handle) = self.any_ready(machine) else { break };
            self.step(handle, machine);
        }
    }

    /// One step that helps `mark` along if the scheduler is lazy, else one of any stream.
    fn nudge(&mut self, mark: &Mark, machine: &mut Machine) -> Result<(), Deadlock> {
        let next = match self.temperament {
            Temperament::Lazy => self.towards(mark),
            _ => self.any_ready(machine),
        };
        self.step(next.ok_or(Deadlock)?, machine);
        Ok(())
    }

    /// Whether `mark` is passed. Asking often enough makes it so.
    pub(crate) fn poll(&mut self, mark: &Mark, machine: &mut Machine) -> Result<bool, Deadlock> {
        let passed = mark.passed();
        if !passed {
            self.nudge(mark, machine)?;
        }
        Ok(passed)
    }

    /// Runs until `mark` is passed.
    pub(crate) fn wait(&mut self, mark: &Mark, machine: &mut Machine) -> Result<(), Deadlock> {
        while !mark.passed() {
            self.nudge(mark, machine)?;
        }
        Ok(())
    }

    /// Runs until all that is queued on a device is done.
    pub(crate) fn drain(&mut self, device: u32, machine: &mut Machine) -> Result<(), Deadlock> {
        let handles = self.all.iter().filter(|(_, s)| s.device == device).map(|(&h, _)| h);
        let mut marks: Vec<_> = handles.map(|handle| self.end(handle)).collect();
        while !marks.is_empty() {
            let one = machine.random.below(marks.len() as u64) as usize;
            self.wait(&marks.swap_remove(one), machine)?;
        }
        Ok(())
    }
}
