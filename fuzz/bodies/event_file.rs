//! Event files: what bytes ask to be written is there when the file is read by the formats' own rules.

use super::folder;
use crate::train::log::tensorboard::EventFile;
use std::fs;

/// Bytes as a list of what to write.
struct Orders<'a>(&'a [u8]);

impl<'a> Orders<'a> {
    fn take(&mut self, count: usize) -> &'a [u8] {
        let (taken, rest) = self.0.split_at(count.min(self.0.len()));
        self.0 = rest;
        taken
    }

    /// Of at most 8 bytes; 0 at the end.
    fn number(&mut self, bytes: usize) -> u64 {
        self.take(bytes).iter().rev().fold(0, |number, byte| (number << 8) | u64::from(*byte))
    }

    fn counted(&mut self) -> &'a [u8] {
        let count = self.number(1) as usize;
        self.take(count)
    }

    fn text(&mut self) -> String {
        String::from_utf8_lossy(self.counted()).into_owned()
    }
}

/// Each record as it was ordered, between sound checksums, and nothing else.
pub fn run(bytes: &[u8]) -> String {
    let mut orders = Orders(bytes);
    let resume = (orders.number(1) & 1 == 1).then(|| orders.number(8));
    let dir = folder();
    let mut file = EventFile::create(dir.path(), resume).expect("the directory is writable");
    let first = resume.map_or(0, |step| step.saturating_add(1));
    let mut expected =
        vec![(0, "version \"brain.Event:2\"".to_string()), (first, "session start".to_string())];
    while !orders.0.is_empty() {
        let kind = orders.number(1) % 4;
        let (tag, step) = (orders.text(), orders.number(8));
        expected.push((
            step,
            match kind {
                0 => {
                    let value = f64::from_bits(orders.number(8));
                    file.scalar(&tag, step, value);
                    format!("{tag:?} scalar {:08x}", (value as f32).to_bits())
                }
                1 => {
                    let (width, height) = (orders.number(4) as u32, orders.number(4) as u32);
                    let png = orders.counted().to_vec();
                    let told = format!("{tag:?} image {width} x {height} {png:?}");
                    file.image(&tag, step, png, width, height);
                    told
                }
                2 => {
                    let markdown = orders.text();
                    file.text(&tag, step, &markdown);
                    format!("{tag:?} text {:?}", markdown.as_bytes())
                }
                _ => {
                    file.flush().expect("there is room");
                    continue;
                }
            },
        ));
    }
    drop(file);
    let path = dir.path().read_dir().unwrap().next().unwrap().unwrap().path();
    let written = fs::read(path).unwrap();
    let read: Vec<_> = records(&written).into_iter().map(event).collect();
    assert_eq!(read, expected);
    format!("{} events", expected.len().min(6))
}

/// The records in TensorFlow's framing: length, its checksum, bytes, their checksum.
fn records(mut file: &[u8]) -> Vec<&[u8]> {
    let masked = |bytes: &[u8]| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8);
    let number = |bytes: &[u8]| u32::from_le_bytes(bytes.try_into().unwrap());
    let mut records = Vec::new();
    while !file.is_empty() {
        let (length, rest) = file.split_at(8);
        let (sum, rest) = rest.split_at(4);
        assert_eq!(number(sum), masked(length));
        let count = u64::from_le_bytes(length.try_into().unwrap()) as usize;
        let (record, rest) = rest.split_at(count);
        let (sum, rest) = rest.split_at(4);
        assert_eq!(number(sum), masked(record));
        records.push(record);
        file = rest;
    }
    records
}

/// A field of a protobuf message, by the wire format alone.
#[derive(Clone, Copy)]
enum Field<'a> {
    Number(u64),
    Bytes(&'a [u8]),
}

impl<'a> Field<'a> {
    fn number(self) -> u64 {
        match self {
            Field::Number(number) => number,
            Field::Bytes(_) => panic!("bytes where a number belongs"),
        }
    }

    fn bytes(self) -> &'a [u8] {
        match self {
            Field::Bytes(bytes) => bytes,
            Field::Number(_) => panic!("a number where bytes belong"),
        }
    }
}

/// A message's fields by their tags.
struct Message<'a>(Vec<(u64, Field<'a>)>);

impl<'a> Message<'a> {
    fn read(bytes: &'a [u8]) -> Message<'a> {
        let mut rest = Orders(bytes);
        let mut fields = Vec::new();
        while !rest.0.is_empty() {
            let key = varint(&mut rest);
            let field = match key & 7 {
                0 => Field::Number(varint(&mut rest)),
                1 => Field::Number(rest.number(8)),
                5 => Field::Number(rest.number(4)),
                2 => {
                    let count = varint(&mut rest) as usize;
                    assert!(count <= rest.0.len());
                    Field::Bytes(rest.take(count))
                }
                kind => panic!("no kind of field: {kind}"),
            };
            fields.push((key >> 3, field));
        }
        Message(fields)
    }

    /// The only field `tag`. What is not there has its default.
    fn get(&self, tag: u64) -> Option<Field<'a>> {
        let mut found = self.0.iter().filter(|(t, _)| *t == tag).map(|(_, field)| *field);
        let field = found.next();
        assert!(found.next().is_none(), "two fields {tag}");
        field
    }

    fn number(&self, tag: u64) -> u64 {
        self.get(tag).map_or(0, Field::number)
    }

    fn bytes(&self, tag: u64) -> &'a [u8] {
        self.get(tag).map_or(&[], Field::bytes)
    }

    fn message(&self, tag: u64) -> Message<'a> {
        Message::read(self.bytes(tag))
    }

    fn text(&self, tag: u64) -> &'a str {
        std::str::from_utf8(self.bytes(tag)).expect("a string is UTF-8")
    }
}

fn varint(rest: &mut Orders<'_>) -> u64 {
    let (mut number, mut shift) = (0, 0);
    loop {
        let byte = rest.number(1);
        number |= (byte & 0x7F) << shift;
        if byte < 0x80 {
            return number;
        }
        shift += 7;
        assert!(shift < 64, "a number of more than 64 bits");
    }
}

/// The step of an event and what it says, by `event.proto` and `summary.proto`.
fn event(record: &[u8]) -> (u64, String) {
    let event = Message::read(record);
    assert!(f64::from_bits(event.number(1)) > 0.0, "no wall time");
    let told = if event.get(3).is_some() {
        format!("version {:?}", event.text(3))
    } else if event.get(7).is_some() {
        assert_eq!(event.message(7).number(1), 1);
        "session start".to_string()
    } else {
        let value = event.message(5).message(1);
        let tag = value.text(1);
        if let Some(scalar) = value.get(2) {
            format!("{tag:?} scalar {:08x}", scalar.number())
        } else if value.get(4).is_some() {
            let image = value.message(4);
            assert_eq!(image.number(3), 3, "RGB");
            // An int32 is written as if it had 64 bits.
            let (height, width) = (image.number(1) as u32, image.number(2) as u32);
            format!("{tag:?} image {width} x {height} {:?}", image.bytes(4))
        } else {
            assert_eq!(value.message(9).message(1).text(1), "text");
            let tensor = value.message(8);
            assert_eq!(tensor.number(1), 7, "strings");
            assert!(tensor.message(2).0.is_empty(), "a single one");
            format!("{tag:?} text {:?}", tensor.bytes(8))
        }
    };
    (event.number(2), told)
}
