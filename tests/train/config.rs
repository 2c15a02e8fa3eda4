//! Settings out of files, recipes and flags.

use crate::program::{complaint, good, run, shapes};
use std::fs;

/// What holds, as `--print-config` has it.
fn settings(data: &tempfile::TempDir, args: &str) -> toml::Table {
    good(run(data, &format!("{args} --print-config"))).parse().unwrap()
}

#[test]
fn flags_win_over_files_and_files_over_recipes() {
    let data = shapes(2, 0);
    let file = data.path().join("run.toml");
    fs::write(&file, "preset = \"warmup-cosine\"\nlr = 0.5\nbatch-size = 64\ntf32 = true\n")
        .unwrap();
    let got = settings(&data, "--config run.toml --batch-size 32 --tf32=false");
    let value = |key: &str| got[key].to_string();
    // From the recipe, from the recipe's recipe, the file, flags, and the default.
    assert_eq!((value("schedule"), value("epochs")), ("\"cosine\"".into(), "10".into()));
    assert_eq!((value("lr"), value("batch_size")), ("0.5".into(), "32".into()));
    assert_eq!((value("tf32"), value("patience")), ("false".into(), "4".into()));

    // What is printed gives the same again, also what looks like a number and is none.
    let flags = "--name 007 --out 1e3 --seed 18446744073709551615 --lr 1e-3 --accumulate 1:1,5:4";
    let printed = good(run(&data, &format!("--config run.toml --print-config {flags}")));
    let got: toml::Table = printed.parse().unwrap();
    let strings = ["name", "out", "seed", "accumulate"].map(|key| got[key].as_str().unwrap());
    assert_eq!(strings, ["007", "1e3", "18446744073709551615", "1:1,5:4"]);
    assert_eq!(got["lr"].as_float(), Some(1e-3));
    fs::write(&file, &printed).unwrap();
    assert_eq!(good(run(&data, "--config run.toml --print-config")), printed);
}

#[test]
fn every_recipe_is_right() {
    let data = shapes(2, 0);
    let presets = concat!(env!("CARGO_MANIFEST_DIR"), "/src/bin/forebay-train/presets");
    let mut count = 0;
    for entry in fs::read_dir(presets).unwrap() {
        let path = entry.unwrap().path();
        settings(&data, &format!("--preset {}", path.file_stem().unwrap().to_str().unwrap()));
        count += 1;
    }
    assert_eq!(count, 13);
}

#[test]
fn mistakes_in_files_are_told_with_their_place() {
    let data = shapes(2, 0);
    let failed = |text: &str, expected: &str| {
        fs::write(data.path().join("run.toml"), text).unwrap();
        let (status, line) = complaint(run(&data, "--config run.toml"));
        assert!(status == Some(1) && line.contains(expected), "{text}: {line}");
    };
    failed("epocs = 3", "run.toml: unknown key \"epocs\", did you mean \"epochs\"?");
    failed("epochs = 0", "run.toml: epochs: invalid value '0'");
    failed("lr = \"fast\"", "run.toml: lr: invalid value 'fast'");
    failed("epochs = 1\nlr = ", "run.toml:2: ");
    failed("epochs = [1, 2]", "run.toml: epochs takes one value, not array");
    failed("resume = \"last\"", "run.toml: unknown key \"resume\"");
    failed("preset = \"fats\"", "run.toml: no preset \"fats\"");
    let (_, line) = complaint(run(&data, "--preset fast-cifer"));
    assert!(line.contains("unknown preset \"fast-cifer\", did you mean \"fast-cifar\"?"), "{line}");
    let (_, line) = complaint(run(&data, "--config none.toml"));
    assert!(line.contains("none.toml: cannot read"), "{line}");
}
