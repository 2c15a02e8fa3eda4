//! All that the driver knows, under one lock, and what every call goes through.

use crate::control::{Config, Report, Temperament};
use crate::fault;
use crate::memory::{Kind, Memory};
use crate::module::Module;
use crate::nvjpeg::Codecs;
use crate::random::Random;
use crate::settings;
use crate::status::{INVALID_CONTEXT, INVALID_HANDLE, LAUNCH_TIMEOUT, NOT_INITIALIZED, Outcome};
use crate::stream::{Deadlock, Streams};
use crate::work::{Machine, Mark, Work};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::sync::{LazyLock, Mutex, MutexGuard, PoisonError};

/// Where C wants an answer.
#[repr(transparent)]
pub(crate) struct Out<T>(pub(crate) *mut T);

impl<T> Out<T> {
    /// Writes it; `invalid` is the status for a null pointer.
    pub(crate) fn put(self, value: T, invalid: u32) -> Outcome {
        if self.0.is_null() {
            return Err(invalid);
        }
        // SAFETY: by the C interface, a pointer that is not null is good for one value.
        unsafe { self.0.write(value) };
        Ok(())
    }
}

pub(crate) struct Event {
    pub(crate) device: u32,
    /// The latest record; one that is passed from the start before there is any.
    pub(crate) record: Mark,
}

pub(crate) struct State {
    pub(crate) config: Config,
    pub(crate) machine: Machine,
    pub(crate) streams: Streams,
    pub(crate) events: BTreeMap<u64, Event>,
    pub(crate) modules: BTreeMap<u64, Module>,
    /// Module and place in the table of kernels.
    pub(crate) functions: BTreeMap<u64, (u64, usize)>,
    pub(crate) codecs: Codecs,
    /// Times that each device's primary context is retained.
    pub(crate) retained: BTreeMap<u32, u32>,
    pub(crate) initialised: bool,
    pub(crate) launches: u64,
    pub(crate) host_waits: u64,
    calls: Vec<&'static str>,
    last_handle: u64,
}

/// A primary context's handle, less its device.
const CONTEXT: u64 = 0xC0_0000;
/// Handles of everything else lie above.
const FIRST_HANDLE: u64 = 0x100_0000;

thread_local! {
    /// The handle of this thread's current context, or 0.
    static CURRENT: Cell<u64> = const { Cell::new(0) };
}

static STATE: LazyLock<Mutex<State>> = LazyLock::new(|| {
    fault::install();
    settings::report_at_exit();
    Mutex::new(State::new(settings::from_environment()))
});

pub(crate) fn lock() -> MutexGuard<'static, State> {
    STATE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A call to the driver.
pub(crate) fn driver(name: &'static str, body: impl FnOnce(&mut State) -> Outcome) -> u32 {
    call(name, |config| config.fail_status, body)
}

/// A call to nvJPEG.
pub(crate) fn nvjpeg(name: &'static str, body: impl FnOnce(&mut State) -> Outcome) -> u32 {
    call(name, |config| config.fail_nvjpeg_status, body)
}

fn call(
    name: &'static str,
    failure: fn(&Config) -> u32,
    body: impl FnOnce(&mut State) -> Outcome,
) -> u32 {
    let mut state = lock();
    state.calls.push(name);
    let fails = state.calls.len() as u64 == state.config.fail_call;
    let outcome = if fails { Err(failure(&state.config)) } else { body(&mut state) };
    let State { streams, machine, .. } = &mut *state;
    streams.idle(machine);
    machine.memory.set_open(false);
    outcome.err().unwrap_or(0)
}

impl State {
    fn new(config: Config) -> Self {
        Self {
            config,
            machine: Machine {
                memory: Memory::default(),
                random: Random::new(config.seed),
                violations: Vec::new(),
            },
            streams: Streams::new(Temperament::of(config.seed)),
            events: BTreeMap::new(),
            modules: BTreeMap::new(),
            functions: BTreeMap::new(),
            codecs: Codecs::default(),
            retained: BTreeMap::new(),
            initialised: false,
            launches: 0,
            host_waits: 0,
            calls: Vec::new(),
            last_handle: FIRST_HANDLE,
        }
    }

    /// What `softgpu_configure` does.
    pub(crate) fn configure(&mut self, config: Config) {
        let devices: Vec<u32> = self.retained.keys().copied().collect();
        for device in devices {
            let _ = self.drain(device);
        }
        self.config = config;
        self.machine.random = Random::new(config.seed);
        self.machine.violations.clear();
        self.machine.memory.reset_counters();
        self.machine.memory.set_open(false);
        self.streams.temperament = Temperament::of(config.seed);
        self.initialised &= !self.retained.is_empty();
        (self.launches, self.host_waits) = (0, 0);
        self.calls.clear();
    }

    /// What `softgpu_report` gives.
    pub(crate) fn report(&mut self) -> Report {
        let violations = self.violations();
        let mut first_violation = [0; 256];
        let text = violations.first().map_or("", String::as_str).as_bytes();
        let length = text.len().min(255);
        first_violation[..length].copy_from_slice(&text[..length]);
        let memory = &self.machine.memory;
        Report {
            calls: self.calls.len() as u64,
            device_bytes: memory.device_bytes(),
            peak_device_bytes: memory.peak_device_bytes,
            pinned_bytes: memory.live_bytes(|kind| kind == Kind::Pinned),
            allocations: memory.allocations,
            streams: self.streams.live(),
            events: self.events.len() as u64,
            modules: self.modules.len() as u64,
            contexts: self.retained.values().map(|&n| u64::from(n)).sum(),
            nvjpeg_handles: self.codecs.handles.len() as u64,
            nvjpeg_states: self.codecs.states.len() as u64,
            nvjpeg_streams: self.codecs.parsed.len() as u64,
            launches: self.launches,
            host_waits: self.host_waits,
            violations: violations.len() as u64,
            first_violation,
        }
    }

    /// All violations so far, and what is written beside live allocations.
    pub(crate) fn violations(&mut self) -> Vec<String> {
        let spoilt = self.machine.memory.all_spoilt();
        self.machine.memory.set_open(false);
        self.machine.violations.iter().cloned().chain(spoilt).collect()
    }

    /// The name of call `n`, counted from 1.
    pub(crate) fn call_name(&self, n: u64) -> Option<&'static str> {
        self.calls.get(usize::try_from(n.checked_sub(1)?).ok()?).copied()
    }

    /// A handle that was never used.
    pub(crate) fn handle(&mut self) -> u64 {
        self.last_handle += 16;
        self.last_handle
    }

    /// Notes that the present call is forbidden; gives its status back.
    pub(crate) fn forbid(&mut self, status: u32, text: impl std::fmt::Display) -> u32 {
        let call = self.calls.last().copied().unwrap_or("softgpu_configure");
        self.machine.violation(format!("{call}: {text}"));
        status
    }

    pub(crate) fn check_initialised(&self) -> Outcome {
        if self.initialised { Ok(()) } else { Err(NOT_INITIALIZED) }
    }

    /// The device whose context is current on this thread.
    pub(crate) fn device(&self) -> Outcome<u32> {
        self.check_initialised()?;
        self.device_of(CURRENT.get()).ok_or(INVALID_CONTEXT)
    }

    /// The device of a live context.
    pub(crate) fn device_of(&self, context: u64) -> Option<u32> {
        let device = u32::try_from(context.checked_sub(CONTEXT)?).ok()?;
        self.retained.contains_key(&device).then_some(device)
    }

    pub(crate) fn context_of(device: u32) -> u64 {
        CONTEXT + u64::from(device)
    }

    pub(crate) fn current() -> u64 {
        CURRENT.get()
    }

    pub(crate) fn set_current(context: u64) {
        CURRENT.set(context);
    }

    /// The stream that a handle names on this thread's device.
    pub(crate) fn stream(&mut self, handle: u64) -> Outcome<u64> {
        let device = self.device()?;
        match self.streams.find(handle, device) {
            Some(stream) => Ok(stream),
            None => Err(self.forbid(INVALID_HANDLE, format_args!("{handle:#x} is no stream"))),
        }
    }

    pub(crate) fn enqueue(&mut self, stream: u64, work: Work) {
        self.streams.enqueue(stream, work);
    }

    /// Runs until `mark` is passed.
    pub(crate) fn wait(&mut self, mark: &Mark) -> Outcome {
        let waited = self.streams.wait(mark, &mut self.machine);
        waited.map_err(|deadlock| self.stuck(deadlock))
    }

    /// Whether `mark` is passed; work goes on.
    pub(crate) fn poll(&mut self, mark: &Mark) -> Outcome<bool> {
        let polled = self.streams.poll(mark, &mut self.machine);
        polled.map_err(|deadlock| self.stuck(deadlock))
    }

    /// Runs all that is queued on a device.
    pub(crate) fn drain(&mut self, device: u32) -> Outcome {
        let drained = self.streams.drain(device, &mut self.machine);
        drained.map_err(|deadlock| self.stuck(deadlock))
    }

    fn stuck(&mut self, _: Deadlock) -> u32 {
        self.forbid(LAUNCH_TIMEOUT, "deadlock: it waits for what nothing can bring about")
    }
}
