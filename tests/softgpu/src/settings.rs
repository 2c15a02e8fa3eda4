//! The control entry points, and the environment that says the same.

use crate::control::{Config, Report};
use crate::state::lock;
use std::env;
use std::fs::OpenOptions;
use std::io::Write;
use std::str::FromStr;

/// See [`crate::control::Configure`].
#[unsafe(no_mangle)]
extern "C" fn softgpu_configure(config: *const Config) {
    // SAFETY: by the interface, null or a valid configuration.
    if let Some(config) = unsafe { config.as_ref() } {
        lock().configure(*config);
    }
}

/// See [`crate::control::Ask`].
#[unsafe(no_mangle)]
extern "C" fn softgpu_report(report: *mut Report) {
    // SAFETY: by the interface, null or good for one report.
    if let Some(report) = unsafe { report.as_mut() } {
        *report = lock().report();
    }
}

/// See [`crate::control::CallName`].
#[unsafe(no_mangle)]
extern "C" fn softgpu_call_name(n: u64, buffer: *mut u8, length: usize) -> usize {
    let Some(name) = lock().call_name(n) else { return 0 };
    if !buffer.is_null() && length > 0 {
        let count = name.len().min(length - 1);
        // SAFETY: by the interface, `buffer` is good for `length` bytes.
        unsafe {
            buffer.copy_from_nonoverlapping(name.as_ptr(), count);
            buffer.add(count).write(0);
        }
    }
    name.len()
}

/// The configuration that the environment asks for. A value that cannot be read ends the program:
/// a test that runs with other settings than it thinks shows nothing.
pub(crate) fn from_environment() -> Config {
    let mut config = Config::default();
    set("SOFTGPU_SEED", &mut config.seed);
    set("SOFTGPU_DEVICES", &mut config.devices);
    set("SOFTGPU_DRIVER", &mut config.driver_version);
    set("SOFTGPU_MEMORY", &mut config.memory);
    set("SOFTGPU_HAZARDS", &mut config.hazards);
    if let Some(text) = variable("SOFTGPU_CAPABILITY") {
        let (major, minor) = text.split_once('.').unwrap_or((&text, "0"));
        config.major = parse("SOFTGPU_CAPABILITY", major);
        config.minor = parse("SOFTGPU_CAPABILITY", minor);
    }
    if let Some(text) = variable("SOFTGPU_FAIL") {
        let mut parts = text.split(':');
        config.fail_call = parse("SOFTGPU_FAIL", parts.next().unwrap_or_default());
        if let Some(status) = parts.next() {
            config.fail_status = parse("SOFTGPU_FAIL", status);
        }
        if let Some(status) = parts.next() {
            config.fail_nvjpeg_status = parse("SOFTGPU_FAIL", status);
        }
    }
    config
}

fn variable(name: &str) -> Option<String> {
    env::var(name).ok()
}

fn set<T: FromStr>(name: &str, value: &mut T) {
    if let Some(text) = variable(name) {
        *value = parse(name, &text);
    }
}

fn parse<T: FromStr>(name: &str, text: &str) -> T {
    text.parse().unwrap_or_else(|_| panic!("{name}: {text:?} cannot be read"))
}

/// Has the report written at exit, where `SOFTGPU_REPORT` asks for it.
pub(crate) fn report_at_exit() {
    if variable("SOFTGPU_REPORT").is_some() {
        // SAFETY: a function without arguments, in a library that is never unloaded before exit:
        // glibc runs what a library has registered when it goes.
        unsafe { libc::atexit(write_report) };
    }
}

extern "C" fn write_report() {
    let Some(path) = variable("SOFTGPU_REPORT") else { return };
    let mut state = lock();
    let (report, violations) = (state.report(), state.violations());
    let mut text = String::new();
    for violation in violations {
        text += &format!("{{\"violation\": \"{}\"}}\n", violation.replace(['"', '\\'], "'"));
    }
    text += &line(&report);
    let file = OpenOptions::new().create(true).append(true).open(&path);
    if let Err(error) = file.and_then(|mut file| file.write_all(text.as_bytes())) {
        eprintln!("softgpu: {path}: {error}");
    }
}

fn line(report: &Report) -> String {
    let fields = [
        ("calls", report.calls),
        ("device_bytes", report.device_bytes),
        ("peak_device_bytes", report.peak_device_bytes),
        ("pinned_bytes", report.pinned_bytes),
        ("allocations", report.allocations),
        ("streams", report.streams),
        ("events", report.events),
        ("modules", report.modules),
        ("contexts", report.contexts),
        ("nvjpeg_handles", report.nvjpeg_handles),
        ("nvjpeg_states", report.nvjpeg_states),
        ("nvjpeg_streams", report.nvjpeg_streams),
        ("launches", report.launches),
        ("host_waits", report.host_waits),
        ("violations", report.violations),
    ];
    let fields: Vec<_> =
        fields.iter().map(|(name, value)| format!("\"{name}\": {value}")).collect();
    format!("{{{}}}\n", fields.join(", "))
}
