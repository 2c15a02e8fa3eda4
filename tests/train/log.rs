//! What a run writes down. Python's TensorBoard reads an event file in `tests/python`.

use crate::train::log::csv::{MetricsCsv, Row, read};
use crate::train::log::tensorboard::EventFile;
use std::fs;
use std::path::Path;

fn row(step: u64) -> Row {
    Row {
        epoch: Some(1),
        step: Some(step),
        train_loss: Some(0.1 + 0.2),
        lr: Some(1e-300 / step as f64),
        grad_norm: Some(f64::INFINITY),
        skipped_steps: Some(u64::MAX),
        bad_samples: Some(2),
        ..Row::default()
    }
}

#[test]
fn metrics_read_back_to_the_same_numbers() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("metrics.csv");
    let mut csv = MetricsCsv::open(&path, None).unwrap();
    csv.append(&row(20)).unwrap();
    csv.append(&Row::default()).unwrap();
    let text = fs::read_to_string(&path).unwrap();
    let header = "epoch,step,lr,train_loss,train_acc,train_top5,valid_loss,valid_acc,valid_top5,\
                  images_per_s,wait_share,peak_memory_mib,grad_norm,skipped_steps,\
                  bad_samples";
    assert_eq!(text.lines().next(), Some(header));
    assert_eq!(text.lines().nth(2), Some(",".repeat(14).as_str()));
    assert_eq!(read(&path).unwrap(), [row(20), Row::default()]);
}

#[test]
fn a_resumed_run_goes_on_behind_the_step_it_resumes_from() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("metrics.csv");
    let mut csv = MetricsCsv::open(&path, None).unwrap();
    for step in [10, 20, 30] {
        csv.append(&row(step)).unwrap();
    }
    // The run was killed within a line.
    fs::write(&path, fs::read_to_string(&path).unwrap() + "1,40,0.1").unwrap();
    assert_eq!(read(&path).unwrap(), [row(10), row(20), row(30)]);
    let mut csv = MetricsCsv::open(&path, Some(20)).unwrap();
    assert_eq!(read(&path).unwrap(), [row(10), row(20)]);
    csv.append(&row(31)).unwrap();
    assert_eq!(read(&path).unwrap(), [row(10), row(20), row(31)]);
    assert_eq!(dir.path().read_dir().unwrap().count(), 1, "nothing but the file is left");

    // A new run does not mix with an old one, and one whose file is gone has a new one.
    MetricsCsv::open(&path, None).unwrap();
    assert_eq!(read(&path).unwrap(), []);
    fs::remove_file(&path).unwrap();
    MetricsCsv::open(&path, Some(20)).unwrap();
    assert_eq!(read(&path).unwrap(), []);
}

#[test]
fn what_is_no_metrics_file_is_said_and_kept() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("metrics.csv");
    drop(MetricsCsv::open(&path, None).unwrap());
    let header = fs::read_to_string(&path).unwrap();
    let cases = [
        ("step,loss\n1,2\n".into(), "metrics.csv:1: not the columns"),
        (header.clone() + "1,2,3\n", "metrics.csv:2: not a row"),
        (
            header + &row(1).epoch.map(|_| ",".repeat(14)).unwrap() + ",\n",
            "metrics.csv:2: not a row",
        ),
    ];
    for (text, expected) in cases {
        fs::write(&path, &text).unwrap();
        let error = MetricsCsv::open(&path, Some(1)).unwrap_err().to_string();
        assert!(error.contains(expected) && error.lines().count() == 1, "{error}");
        assert_eq!(fs::read_to_string(&path).unwrap(), text);
    }
    fs::write(&path, [0xff; 9]).unwrap();
    assert!(read(&path).unwrap_err().to_string().contains("cannot read"));
}

/// The event file of `dir` and its records without their wall time, in hex.
fn records(dir: &Path) -> (String, Vec<String>) {
    let paths: Vec<_> = dir.read_dir().unwrap().map(|entry| entry.unwrap().path()).collect();
    let [path] = &paths[..] else { panic!("one file expected: {paths:?}") };
    let file = fs::read(path).unwrap();
    let mut bytes = &file[..];
    let mut records = Vec::new();
    while !bytes.is_empty() {
        let (head, rest) = bytes.split_at(12);
        let length = u64::from_le_bytes(head[..8].try_into().unwrap()) as usize;
        let (record, crc) = rest[..length + 4].split_at(length);
        let masked = |bytes| crc32c::crc32c(bytes).rotate_right(15).wrapping_add(0xa282_ead8);
        assert_eq!(head[8..], masked(&head[..8]).to_le_bytes());
        assert_eq!(*crc, masked(record).to_le_bytes());
        assert_eq!(record[0], 9, "the wall time comes first");
        records.push(record[9..].iter().map(|byte| format!("{byte:02x}")).collect());
        bytes = &rest[length + 4..];
    }
    // TensorBoard's own checksum of a length of 24.
    assert_eq!(file[..12], [24, 0, 0, 0, 0, 0, 0, 0, 0xa3, 0x7f, 0x4b, 0x22]);
    (path.file_name().unwrap().to_str().unwrap().to_string(), records)
}

#[test]
fn events_are_the_bytes_that_tensorboards_messages_make() {
    let dir = tempfile::tempdir().unwrap();
    let mut events = EventFile::create(dir.path(), None).unwrap();
    events.scalar("lr", 7, 0.5);
    events.image("a", 7, b"png".to_vec(), 3, 2);
    assert_eq!(records(dir.path()).1.len(), 2, "the rest is held");
    events.flush().unwrap();
    events.text("b", 7, "*x*");
    drop(events);
    let (name, records) = records(dir.path());
    assert!(name.starts_with("events.out.tfevents.") && name.ends_with(".0"), "{name}");
    // From `SerializeToString` of `tensorboard.compat.proto`.
    let expected = [
        "1a0d627261696e2e4576656e743a32",
        "3a020801",
        "10072a0b0a090a026c72150000003f",
        "10072a120a100a0161220b0802100318032203706e67",
        "10072a1a0a180a016242090807120042032a782a4a080a060a0474657874",
    ];
    assert_eq!(records, expected);
}

#[test]
fn a_resumed_run_has_an_event_file_of_its_own_that_takes_back_later_steps() {
    let dir = tempfile::tempdir().unwrap();
    drop(EventFile::create(dir.path(), Some(20)).unwrap());
    assert_eq!(records(dir.path()).1[1], "10153a020801");
    let first = records(dir.path()).0;
    drop(EventFile::create(dir.path(), Some(20)).unwrap());
    assert!(dir.path().join(first).exists());
    assert_eq!(dir.path().read_dir().unwrap().count(), 2);

    let missing = dir.path().join("missing");
    let error = EventFile::create(&missing, None).unwrap_err();
    assert!(error.path().unwrap().starts_with(&missing), "{error}");
}
