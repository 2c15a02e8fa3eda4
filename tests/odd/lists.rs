//! The label lists, as `manifest_lists.tsv` states them, through a loader and through
//! `forebay check`.

use crate::Row;
use assert_cmd::cargo::cargo_bin;
use forebay::device::Choice;
use forebay::graph::file;
use forebay::loader::{Loader, Options};
use std::path::Path;
use std::process::Command;

const PIPELINE: &str = include_str!("../../pipelines/decode-only.toml");

/// A row of each case of the manifest.
pub(crate) fn rows(lists: &Path, wanted: &dyn Fn(&str) -> bool) -> Vec<Row> {
    let manifest = std::fs::read_to_string(lists.join("manifest_lists.tsv"));
    let manifest = manifest.expect("the lists have a manifest");
    let cases = manifest.lines().skip(1).filter_map(|line| {
        let mut fields = line.split('\t');
        Some((fields.next()?, fields.next()?))
    });
    let row = |(case, expected): (&str, &str)| {
        let dir = lists.join(case);
        let (loaded, checked) = (load(&dir), check(&dir));
        let fault = fault(case, &dir, &loaded, &checked);
        let name = format!("lists/{case}");
        Row { name, expected: expected.into(), said: loaded, fault, cost: None }
    };
    cases.filter(|(case, _)| wanted(case)).map(row).collect()
}

/// `NAME=LABEL` of each sample that two epochs of a loader deliver, up to an error.
fn load(dir: &Path) -> String {
    let spec = file::parse(PIPELINE).expect("a built-in pipeline");
    let options = Options {
        batch_size: 1,
        threads: 2,
        shuffle: Some(false),
        device: Choice::Cpu,
        ..Options::default()
    };
    let mut loader = match Loader::open(&spec, dir, &options) {
        Ok(loader) => loader,
        Err(error) => return format!("refused: {error}"),
    };
    let mut epoch = |number| {
        let mut said = Vec::new();
        let batches: Vec<_> = loader.epoch(number).collect();
        for batch in batches {
            match batch {
                Ok(batch) => {
                    let (id, label) = (batch.ids()[0] as u64, batch.labels()[0]);
                    said.push(format!("{}={label}", loader.place(id).display()));
                }
                Err(error) => said.push(format!("stopped: {error}")),
            }
        }
        said.join(", ")
    };
    let (first, second) = (epoch(0), epoch(1));
    if first == second { first } else { format!("{first}; then {second}") }
}

/// What `forebay check` says of a directory, and whether it found faults.
fn check(dir: &Path) -> (String, bool) {
    let output = Command::new(cargo_bin("forebay"))
        .args(["check", "--data"])
        .arg(dir)
        .output()
        .expect("forebay starts");
    let text = [output.stdout, output.stderr].concat();
    (String::from_utf8_lossy(&text).into_owned(), !output.status.success())
}

fn fault(case: &str, dir: &Path, loaded: &str, (checked, bad): &(String, bool)) -> Option<String> {
    // What both have to say; an error of a sample also which samples came before it.
    let (all, error) = match case {
        "plain" | "no_final_newline" | "crlf" | "tab_separated" | "trailing_spaces" => {
            ("a.jpg=0, d.jpg=1", "")
        }
        "spaces_in_name" => ("b c.jpg=3, a.jpg=0", ""),
        "number_in_name" => ("img 12.jpg=4, img 12=5", ""),
        "duplicate_same_label" => ("a.jpg=0, a.jpg=0, d.jpg=1", ""),
        "label_out_of_classes" => ("a.jpg=0, d.jpg=7", ""),
        "word_label" => ("refused: ", "labels.txt:1: the label is \"kitten\", expected an integer"),
        "float_label" => ("refused: ", "labels.txt:1: the label is \"1.5\", expected an integer"),
        "negative_label" => ("refused: ", "labels.txt:1: the label is \"-1\", expected an integer"),
        "missing_label" => ("refused: ", "labels.txt:2: expected \"name label\""),
        "empty_list" | "only_blanks" => ("refused: ", "labels.txt: the list names no sample"),
        "missing_file" => {
            ("a.jpg=0, stopped: ", "labels.txt:2: sample 1: nope.jpg: cannot open: no such file")
        }
        "directory_entry" => ("stopped: ", "labels.txt:1: sample 0: sub: is a directory"),
        "broken_in_middle" => {
            ("a.jpg=0, stopped: ", "labels.txt:2: sample 1: broken.jpg: truncated JPEG")
        }
        _ => return Some("a case that this test does not know".into()),
    };
    let right = match error {
        "" => loaded == all && !bad,
        _ => loaded.starts_with(all) && loaded.contains(error) && *bad && checked.contains(error),
    };
    match right {
        true if case == "label_out_of_classes" => trainer_complains(dir),
        true => None,
        false => Some(format!("loader: {loaded}; forebay check: {}", checked.replace('\n', " | "))),
    }
}

/// A model of two classes has none for label 7, which must be told before anything is trained.
fn trainer_complains(dir: &Path) -> Option<String> {
    if cfg!(not(feature = "train")) {
        return None;
    }
    let out = tempfile::tempdir().expect("a temporary directory");
    let output = Command::new(cargo_bin("forebay-train"))
        .args(["train", "--classes", "2", "--device", "cpu", "--batch-size", "2", "--data"])
        .arg(dir)
        .current_dir(out.path())
        .output()
        .expect("forebay-train starts");
    let text = String::from_utf8_lossy(&output.stderr);
    let error = "labels.txt:2: sample 1: d.jpg: label 7, but the model has 2 classes";
    (output.status.success() || !text.contains(error)).then(|| format!("the trainer says: {text}"))
}
