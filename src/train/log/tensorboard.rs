//! An event file for TensorBoard: records in TensorFlow's framing, each a protobuf `Event`.
//!
//! The framing is that of `tensorflow/core/lib/io/record_writer.h`, the messages those of
//! `event.proto`, `summary.proto` and `tensor.proto`, of which only the fields in use are here.

use super::Growing;
use crate::error::{Error, ErrorKind, Result};
use prost::Message;
use std::fs::{self, OpenOptions};
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

#[derive(Clone, PartialEq, Message)]
struct Event {
    /// Seconds since 1970.
    #[prost(double, tag = "1")]
    wall_time: f64,
    #[prost(int64, tag = "2")]
    step: i64,
    #[prost(oneof = "What", tags = "3, 5, 7")]
    what: Option<What>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum What {
    #[prost(string, tag = "3")]
    FileVersion(String),
    #[prost(message, tag = "5")]
    Summary(Summary),
    #[prost(message, tag = "7")]
    SessionLog(SessionLog),
}

#[derive(Clone, PartialEq, Message)]
struct SessionLog {
    #[prost(int32, tag = "1")]
    status: i32,
}

#[derive(Clone, PartialEq, Message)]
struct Summary {
    #[prost(message, repeated, tag = "1")]
    value: Vec<Tagged>,
}

#[derive(Clone, PartialEq, Message)]
struct Tagged {
    #[prost(string, tag = "1")]
    tag: String,
    #[prost(message, optional, tag = "9")]
    metadata: Option<Metadata>,
    #[prost(oneof = "Value", tags = "2, 4, 8")]
    value: Option<Value>,
}

#[derive(Clone, PartialEq, prost::Oneof)]
enum Value {
    #[prost(float, tag = "2")]
    Scalar(f32),
    #[prost(message, tag = "4")]
    Image(Image),
    #[prost(message, tag = "8")]
    Tensor(Tensor),
}

#[derive(Clone, PartialEq, Message)]
struct Image {
    #[prost(int32, tag = "1")]
    height: i32,
    #[prost(int32, tag = "2")]
    width: i32,
    #[prost(int32, tag = "3")]
    colorspace: i32,
    #[prost(bytes = "vec", tag = "4")]
    encoded: Vec<u8>,
}

#[derive(Clone, PartialEq, Message)]
struct Tensor {
    #[prost(int32, tag = "1")]
    dtype: i32,
    /// Without dimensions: a single string.
    #[prost(message, optional, tag = "2")]
    shape: Option<Shape>,
    #[prost(bytes = "vec", repeated, tag = "8")]
    strings: Vec<Vec<u8>>,
}

#[derive(Clone, PartialEq, Message)]
struct Shape {}

#[derive(Clone, PartialEq, Message)]
struct Metadata {
    #[prost(message, optional, tag = "1")]
    plugin: Option<Plugin>,
}

#[derive(Clone, PartialEq, Message)]
struct Plugin {
    #[prost(string, tag = "1")]
    name: String,
}

/// A run's event file. What it is given is held in memory until [`EventFile::flush`].
#[derive(Debug)]
pub struct EventFile {
    file: Growing,
    held: Vec<u8>,
}

impl EventFile {
    /// Makes an event file in `dir`. TensorBoard forgets what earlier event files there say, with
    /// `resume_step` only what they say about later steps.
    ///
    /// # Errors
    /// The file cannot be written.
    pub fn create(dir: &Path, resume_step: Option<u64>) -> Result<Self> {
        const START: i32 = 1;

        let path = free_name(dir)?;
        let file = Growing::open(&path, OpenOptions::new().create_new(true))?;
        let mut events = EventFile { file, held: Vec::new() };
        events.push(0, What::FileVersion("brain.Event:2".into()));
        // The step of the mark is forgotten as well. TensorBoard takes the first mark that it sees for
        // a beginning, so a run has one there, too.
        let first = resume_step.map_or(0, |last| last.saturating_add(1));
        events.push(first, What::SessionLog(SessionLog { status: START }));
        events.flush()?;
        Ok(events)
    }

    /// The curve `tag` has `value` at `step`.
    pub fn scalar(&mut self, tag: &str, step: u64, value: f64) {
        self.summary(tag, step, None, Value::Scalar(value as f32));
    }

    /// The picture `tag` at `step`: the bytes of a PNG file in RGB of `width` x `height` pixels.
    pub fn image(&mut self, tag: &str, step: u64, png: Vec<u8>, width: u32, height: u32) {
        const RGB: i32 = 3;
        let (width, height) = (width as i32, height as i32);
        let image = Image { height, width, colorspace: RGB, encoded: png };
        self.summary(tag, step, None, Value::Image(image));
    }

    /// The text `tag` at `step`, in Markdown.
    pub fn text(&mut self, tag: &str, step: u64, markdown: &str) {
        const DT_STRING: i32 = 7;
        let metadata = Metadata { plugin: Some(Plugin { name: "text".into() }) };
        let strings = vec![markdown.as_bytes().to_vec()];
        let tensor = Tensor { dtype: DT_STRING, shape: Some(Shape {}), strings };
        self.summary(tag, step, Some(metadata), Value::Tensor(tensor));
    }

    /// Writes what is held to the file. Where that fails it is lost, and the file as it was.
    pub fn flush(&mut self) -> Result<()> {
        self.file.append(&std::mem::take(&mut self.held))
    }

    fn summary(&mut self, tag: &str, step: u64, metadata: Option<Metadata>, value: Value) {
        let value = Tagged { tag: tag.into(), metadata, value: Some(value) };
        self.push(step, What::Summary(Summary { value: vec![value] }));
    }

    fn push(&mut self, step: u64, what: What) {
        let wall_time = since_1970().as_secs_f64();
        let event = Event { wall_time, step: step as i64, what: Some(what) };
        let event = event.encode_to_vec();
        let length = (event.len() as u64).to_le_bytes();
        self.held.extend(length);
        self.held.extend(masked_crc(&length).to_le_bytes());
        self.held.extend(&event);
        self.held.extend(masked_crc(&event).to_le_bytes());
    }
}

impl Drop for EventFile {
    /// What a run said before it failed is worth having; that it cannot be had is no news by then.
    fn drop(&mut self) {
        let _ = self.flush();
    }
}

/// TensorFlow's checksum: rotated and moved, since a CRC of data that holds CRCs is weak.
fn masked_crc(bytes: &[u8]) -> u32 {
    crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8)
}

fn since_1970() -> Duration {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default()
}

/// TensorBoard reads the files of a directory by name, so the time comes first.
fn free_name(dir: &Path) -> Result<PathBuf> {
    let host = fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default();
    let host: String = host.chars().filter(|c| c.is_ascii_alphanumeric() || *c == '-').collect();
    let host = if host.is_empty() { "localhost" } else { &host };
    let (seconds, process) = (since_1970().as_secs(), std::process::id());
    (0..=u16::MAX)
        .map(|n| dir.join(format!("events.out.tfevents.{seconds:010}.{host}.{process}.{n}")))
        .find(|path| !path.exists())
        .ok_or_else(|| Error::new(ErrorKind::Limit, "too many event files").at_path(dir))
}
