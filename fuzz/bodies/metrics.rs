//! `metrics.csv`, which a resumed run reads and goes on with.

use super::input::Input;
use super::refusal;
use crate::train::log::csv::{MetricsCsv, Row, read};

thread_local! {
    static FILE: Input = Input::named("metrics.csv");
}

/// Rows that are the same once they were written anew, or an error that leaves the file as it is.
pub fn run(bytes: &[u8]) -> String {
    FILE.with(|file| {
        let path = file.put(bytes);
        let rows = match read(path) {
            Ok(rows) => rows,
            Err(error) => {
                assert!(MetricsCsv::open(path, Some(u64::MAX)).is_err());
                assert!(std::fs::read(path).unwrap() == bytes, "a file that is refused is kept");
                return refusal(&error);
            }
        };
        let mut csv = MetricsCsv::open(path, Some(u64::MAX)).expect("what is read is gone on with");
        csv.append(&Row::default()).unwrap();
        let again = read(path).expect("what was written is read");
        // By their text: a NaN is not equal to itself.
        let text = |rows: &[Row]| rows.iter().map(|row| format!("{row:?}\n")).collect::<String>();
        assert_eq!(text(&again), text(&[rows.clone(), vec![Row::default()]].concat()));
        format!("{} rows", rows.len().min(3))
    })
}
