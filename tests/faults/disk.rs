//! Full disks, really full ones.

use crate::fault::{complaint, contents, finish, names, on_a_small_disk, resize_disk};
use crate::{forebay, jpegs};
use std::path::Path;

fn good(dir: &Path, args: &str) -> String {
    let output = finish(&mut forebay(dir, args));
    assert!(output.status.success(), "{args}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

#[test]
fn an_export_goes_on_once_there_is_room() {
    on_a_small_disk("disk::an_export_goes_on_once_there_is_room", "1m", |disk| {
        let args = "export shapes --to out --train 600 --valid 10";
        let elsewhere = tempfile::tempdir().unwrap();
        good(elsewhere.path(), args);
        let whole = contents(&elsewhere.path().join("out/train"));

        let (status, line) = complaint(&finish(&mut forebay(disk, args)));
        assert_eq!(status, Some(1), "{line}");
        let told = ".jpg: cannot write: no space left on device";
        assert!(line.contains("out/train/") && line.ends_with(told), "{line}");
        // Whole pictures, and nothing beside them.
        let train = disk.join("out/train");
        assert!(names(&train).iter().all(|name| name.ends_with(".jpg")), "{:?}", names(&train));
        let written = contents(&train);
        assert!(written.len() > 100 && written.iter().all(|file| whole.contains(file)));

        resize_disk(disk, "16m");
        let told = format!("out/train: {} images written, ", 600 - written.len());
        let stdout = good(disk, args);
        assert!(stdout.starts_with(&told), "{stdout}");
        assert!(contents(&train) == whole);
    });
}

#[test]
fn a_dump_leaves_no_half_array() {
    on_a_small_disk("disk::a_dump_leaves_no_half_array", "1m", |disk| {
        let data = tempfile::tempdir().unwrap();
        jpegs(data.path(), 40, 64);
        let args = format!("dump --data {} --out out --batch-size 4", data.path().display());
        let elsewhere = tempfile::tempdir().unwrap();
        good(elsewhere.path(), &args);
        let whole = contents(&elsewhere.path().join("out"));

        let (status, line) = complaint(&finish(&mut forebay(disk, &args)));
        assert_eq!(status, Some(1), "{line}");
        let told = ".npy: cannot write: no space left on device";
        assert!(line.contains("out/") && line.ends_with(told), "{line}");
        let written = contents(&disk.join("out"));
        assert!(written.len() > 6 && written.iter().all(|file| whole.contains(file)));

        resize_disk(disk, "16m");
        good(disk, &args);
        assert!(contents(&disk.join("out")) == whole);
    });
}
