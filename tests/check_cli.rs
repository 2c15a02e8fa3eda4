//! `forebay check` as a user runs it: cleaned lists, and the flags that raise limits.

use assert_cmd::cargo_bin_cmd;
use std::fs;
use std::path::Path;
use std::process::Output;
use tempfile::TempDir;

const LIST: &str = "labels.clean.txt";

/// Exit status and both outputs of `forebay ARGS`.
fn forebay(args: &[&str]) -> (i32, String, String) {
    let Output { status, stdout, stderr } = cargo_bin_cmd!("forebay").args(args).output().unwrap();
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (status.code().unwrap(), text(stdout), text(stderr))
}

fn save(path: &Path) {
    fs::create_dir_all(path.parent().unwrap()).unwrap();
    image::RgbImage::new(5, 4).save(path).unwrap();
}

/// A pipeline file that reads as `reader` says, and gives pixels as they are.
fn pipeline(dir: &Path, reader: &str) -> String {
    let path = dir.join("pipeline.toml");
    let text = format!("[reader]\n{reader}\n[output]\nlayout = \"HWC\"\ndtype = \"u8\"\n");
    fs::write(&path, text).unwrap();
    path.to_str().unwrap().to_string()
}

#[test]
fn a_cleaned_list_passes_and_loads() {
    let dir = TempDir::new().unwrap();
    let (train, valid) = (dir.path().join("train"), dir.path().join("valid"));
    for name in ["train/a.png", "train/x y.png", "train/b.png", "valid/a.png"] {
        save(&dir.path().join(name));
    }
    fs::write(train.join("broken.png"), "no picture").unwrap();
    let list = "a.png 0\r\nbroken.png 1\n\nx y.png\t2\nz.png cat\nnope.png 1\nb.png 9\n";
    fs::write(train.join("labels.txt"), list).unwrap();
    fs::write(train.join("classes.txt"), "cat\ndog\nfox\n").unwrap();
    fs::write(valid.join("labels.txt"), "a.png 0\n").unwrap();
    let data = dir.path().to_str().unwrap();

    let check = ["check", "--data", data, "--write-list", LIST];
    let (status, out, _) = forebay(&check);
    assert_eq!(status, 1, "there were faults: {out}");
    assert!(out.contains(&format!("train/{LIST}: 2 samples, 4 left out")), "{out}");
    assert!(out.contains(&format!("valid/{LIST}: 1 sample, 0 left out")), "{out}");
    assert_eq!(fs::read_to_string(train.join(LIST)).unwrap(), "a.png 0\nx y.png 2\n");
    assert_eq!(fs::read_to_string(train.join("labels.txt")).unwrap(), list);
    let partial = |entry: fs::DirEntry| entry.file_name().to_string_lossy().contains("partial");
    assert!(!train.read_dir().unwrap().any(|entry| partial(entry.unwrap())));

    let (status, _, error) = forebay(&check);
    assert_eq!(status, 1);
    assert!(error.contains("is there already (--force replaces it)"), "{error}");
    let (_, out, _) = forebay(&[&check[..], &["--force", "--json"]].concat());
    let json: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(json["roots"][0]["list"]["left_out"], 4);

    // Nothing that is read is ever written over.
    for (name, text) in
        [("./labels.txt", "is the list that is read"), ("x y.png", "is one of the samples")]
    {
        let before = fs::read(train.join(name)).unwrap();
        let (status, _, error) =
            forebay(&["check", "--data", data, "--write-list", name, "--force"]);
        assert!(status == 1 && error.contains(text), "{error}");
        assert_eq!(fs::read(train.join(name)).unwrap(), before);
    }

    let pipeline = pipeline(dir.path(), &format!("kind = \"file\"\nfile_list = \"{LIST}\""));
    let (status, out, error) = forebay(&["check", "--data", data, "--pipeline", &pipeline]);
    assert_eq!(status, 0, "{out}{error}");
    assert!(out.contains("2 samples") && out.contains("no fault"), "{out}");
    let out = dir.path().join("out");
    let args = ["dump", "--data", data, "--pipeline", &pipeline, "--out", out.to_str().unwrap()];
    let (status, out, error) = forebay(&args);
    assert_eq!(status, 0, "{out}{error}");
    assert!(out.contains("2 samples"), "{out}");
}

#[test]
fn folders_become_a_list() {
    let dir = TempDir::new().unwrap();
    for name in ["cat/2.png", "cat/1.png", "dog/1.png"] {
        save(&dir.path().join(name));
    }
    fs::write(dir.path().join("dog/0.png"), "").unwrap();
    let elsewhere = TempDir::new().unwrap();
    let folders = pipeline(elsewhere.path(), "kind = \"folders\"");
    let data = dir.path().to_str().unwrap();
    let check = |more: &[&str]| {
        forebay(
            &[&["check", "--data", data, "--pipeline", &folders, "--write-list"], more].concat(),
        )
    };
    let (status, out, _) = check(&[LIST]);
    assert_eq!(status, 1);
    assert!(out.contains("3 samples, 1 left out"), "{out}");
    let written = fs::read_to_string(dir.path().join(LIST)).unwrap();
    assert_eq!(written, "cat/1.png 0\ncat/2.png 0\ndog/1.png 1\n");
    for outside in ["../x", "/tmp/x"] {
        let (status, _, error) = check(&[outside]);
        assert_eq!(status, 1);
        assert!(error.contains("expected a name in the data directory"), "{error}");
    }
    // A name that no list can hold.
    save(&dir.path().join("cat/a\nb.png"));
    let (status, _, error) = check(&[LIST, "--force"]);
    assert_eq!(status, 1);
    assert!(error.contains("no list can hold the name"), "{error}");
    assert_eq!(fs::read_to_string(dir.path().join(LIST)).unwrap(), written);
}

#[test]
fn nothing_good_makes_no_list() {
    let dir = TempDir::new().unwrap();
    fs::write(dir.path().join("labels.txt"), "nope.png 0\n").unwrap();
    let (status, _, error) =
        forebay(&["check", "--data", dir.path().to_str().unwrap(), "--write-list", LIST]);
    assert_eq!(status, 1);
    assert!(error.contains("no list was written: every sample has a fault"), "{error}");
    assert!(!dir.path().join(LIST).exists());
}

#[test]
fn limits_are_flags() {
    let dir = TempDir::new().unwrap();
    save(&dir.path().join("a.png"));
    fs::write(dir.path().join("labels.txt"), "a.png 0\n").unwrap();
    let out = dir.path().join("out");
    let (data, out) = (dir.path().to_str().unwrap(), out.to_str().unwrap());
    let check = ["check", "--data", data];
    let dump = ["dump", "--data", data, "--pipeline", "decode-only", "--out", out];
    for (flag, least) in [("--max-pixels", "20"), ("--max-work", "20"), ("--max-file-bytes", "999")]
    {
        for command in [&check[..], &dump] {
            let (status, out, error) = forebay(&[command, &[flag, "19"]].concat());
            assert_eq!(status, 1);
            let told = format!("{out}{error}");
            assert!(told.contains("a.png") && told.contains(flag), "{told}");
        }
        assert_eq!(forebay(&[&check[..], &[flag, least]].concat()).0, 0, "{flag}");
    }
    assert_eq!(forebay(&[&check[..], &["--max-scans", "0"]].concat()).0, 2);
}
