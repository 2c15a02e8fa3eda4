//! The program as a user runs it, on small JPEG files made here.

use assert_cmd::{Command, cargo_bin, cargo_bin_cmd};
use std::fs;
use std::path::Path;
use std::process::{Output, Stdio};
use tempfile::TempDir;
use turbojpeg::{Image, PixelFormat, Subsamp};

/// Columns and rows: not square, and no multiple of a JPEG block.
const SIZE: (usize, usize) = (28, 20);

/// A data directory of `n` JPEG files with three labels, and their pixels as libjpeg-turbo decodes
/// them.
fn jpegs(n: usize) -> (TempDir, Vec<Vec<u8>>) {
    let dir = tempfile::tempdir().unwrap();
    let pixels = write_jpegs(dir.path(), n);
    (dir, pixels)
}

fn write_jpegs(dir: &Path, n: usize) -> Vec<Vec<u8>> {
    let (width, height) = SIZE;
    let mut list = String::new();
    let mut decoded = Vec::new();
    for id in 0..n {
        let value = |i: usize| ((i * (id + 3)) ^ (i / width * 5)) as u8;
        let pixels: Vec<u8> = (0..3 * width * height).map(value).collect();
        let format = PixelFormat::RGB;
        let image = Image { pixels: &pixels[..], width, pitch: 3 * width, height, format };
        let jpeg = turbojpeg::compress(image, 75, Subsamp::Sub2x2).unwrap();
        fs::write(dir.join(format!("image {id}.jpg")), &jpeg).unwrap();
        list += &format!("image {id}.jpg {}\n", id % 3);
        decoded.push(turbojpeg::decompress(&jpeg, format).unwrap().pixels);
    }
    fs::write(dir.join("labels.txt"), list).unwrap();
    decoded
}

fn forebay(args: &[&str]) -> Command {
    let mut command = cargo_bin_cmd!("forebay");
    command.args(args);
    command
}

fn done(args: &[&str]) -> String {
    let Output { status, stdout, stderr } = forebay(args).output().unwrap();
    assert!(status.success(), "{args:?}: {}", String::from_utf8_lossy(&stderr));
    String::from_utf8(stdout).unwrap()
}

/// The one line of an error, with its exit status.
fn failed(args: &[&str]) -> (i32, String) {
    let Output { status, stderr, .. } = forebay(args).output().unwrap();
    let text = String::from_utf8(stderr).unwrap();
    assert_eq!(text.lines().count(), 1, "{args:?}: {text}");
    let line = text.trim_end().strip_prefix("forebay: error: ").expect("errors carry our name");
    (status.code().unwrap(), line.to_string())
}

/// The shape and the bytes of an array file.
fn array(path: &Path) -> (Vec<usize>, Vec<u8>) {
    let bytes = fs::read(path).unwrap_or_else(|e| panic!("{}: {e}", path.display()));
    assert_eq!(&bytes[..8], b"\x93NUMPY\x01\x00");
    let end = 10 + usize::from(u16::from_le_bytes([bytes[8], bytes[9]]));
    let header = std::str::from_utf8(&bytes[10..end]).unwrap();
    let shape = header.split_once("'shape': (").unwrap().1.split_once(')').unwrap().0;
    let shape = shape.split(',').filter_map(|size| size.trim().parse().ok()).collect();
    (shape, bytes[end..].to_vec())
}

fn integers(path: &Path) -> Vec<i64> {
    let integer = |bytes: &[u8]| i64::from_le_bytes(bytes.try_into().unwrap());
    array(path).1.chunks(8).map(integer).collect()
}

/// A sample of a dump: id, label and the bytes of its image.
type Sample = (i64, i64, Vec<u8>);

/// Every sample of a dump, by id.
fn samples(dir: &Path) -> Vec<Sample> {
    let mut samples = Vec::new();
    for batch in (0..).map(|n| format!("{n:03}.npy")) {
        if !dir.join(format!("ids_{batch}")).exists() {
            break;
        }
        let ids = integers(&dir.join(format!("ids_{batch}")));
        let labels = integers(&dir.join(format!("labels_{batch}")));
        let (shape, images) = array(&dir.join(format!("images_{batch}")));
        assert_eq!((shape[0], labels.len()), (ids.len(), ids.len()));
        let images = images.chunks(images.len() / ids.len());
        let of_batch = ids.into_iter().zip(labels).zip(images);
        samples.extend(of_batch.map(|((id, label), image)| (id, label, image.to_vec())));
    }
    samples.sort();
    samples
}

/// Runs `dump` with more arguments; the samples, and what was printed.
fn dump(data: &Path, more: &[&str]) -> (Vec<Sample>, String) {
    let out = tempfile::tempdir().unwrap();
    let (data, dir) = (data.to_str().unwrap(), out.path().to_str().unwrap());
    let text = done(&[&["dump", "--data", data, "--out", dir], more].concat());
    (samples(out.path()), text)
}

fn digest(text: &str) -> &str {
    text.split_once("digest ").unwrap().1.trim()
}

#[test]
fn usage_errors_are_one_line_and_status_2() {
    let (status, line) = failed(&["bench", "--data", "x", "--shard", "2/2"]);
    assert_eq!(status, 2);
    assert!(line.contains("--shard") && line.contains("from 0 to N - 1"), "{line}");
    let (status, line) = failed(&["bench", "--date", "x"]);
    assert_eq!(status, 2);
    assert!(line.contains("--data"), "the nearest known flag is named: {line}");
    assert!(done(&["--version"]).starts_with("forebay "));
    assert!(done(&["dump", "--help"]).contains("labels.txt"));
}

/// Its options are the other program's to read; `--help` too.
#[test]
fn train_hands_over() {
    // Links, since a program just written may still be open in another test's child.
    let alone = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    let copy = alone.path().join("forebay");
    fs::hard_link(cargo_bin!("forebay"), &copy).unwrap();
    let run = || Command::new(&copy).args(["train", "--help", "--lr", "-1"]).output().unwrap();
    let Output { status, stderr, .. } = run();
    let text = String::from_utf8(stderr).unwrap();
    assert_eq!((status.code(), text.lines().count()), (Some(1), 1), "{text}");
    assert!(text.contains("make build"), "{text}");

    std::os::unix::fs::symlink("/bin/echo", alone.path().join("forebay-train")).unwrap();
    let Output { status, stdout, .. } = run();
    assert!(status.success());
    assert_eq!(String::from_utf8(stdout).unwrap(), "train --help --lr -1\n");
}

#[test]
fn failures_say_where_and_status_1() {
    let (status, line) = failed(&["check", "--data", "no/such"]);
    assert_eq!(status, 1);
    assert!(line.contains("no/such"), "{line}");
    let empty = tempfile::tempdir().unwrap();
    let (status, line) = failed(&["bench", "--data", empty.path().to_str().unwrap()]);
    assert_eq!(status, 1);
    assert!(line.contains("labels.txt") && line.contains("forebay export"), "{line}");
    let (status, line) = failed(&["explain", "--pipeline", "cifar-10"]);
    assert_eq!(status, 1);
    assert!(line.contains("cifar10-train"), "{line}");
}

#[test]
fn decode_only_dumps_what_libjpeg_decodes() {
    let (data, decoded) = jpegs(5);
    let out = tempfile::tempdir().unwrap();
    let (data, dir) = (data.path().to_str().unwrap(), out.path().to_str().unwrap());
    let pipeline = ["--pipeline", "decode-only", "--batch-size", "2"];
    done(&[&["dump", "--data", data, "--out", dir][..], &pipeline].concat());
    let (shape, images) = array(&out.path().join("images_002.npy"));
    assert_eq!(shape, [1, SIZE.1, SIZE.0, 3]);
    assert_eq!(images, decoded[4]);
    let expected: Vec<_> = decoded.into_iter().zip(0..).map(|(m, i)| (i, i % 3, m)).collect();
    assert_eq!(samples(out.path()), expected);
}

#[test]
fn a_dump_does_not_depend_on_how_it_is_run() {
    let (data, _) = jpegs(13);
    let data = data.path();
    let (all, text) = dump(data, &["--threads", "1", "--batch-size", "4"]);
    assert_eq!(all.len(), 13);
    let (other, other_text) = dump(data, &["--threads", "2", "--batch-size", "32"]);
    assert!(all == other);
    assert_eq!(digest(&text), digest(&other_text));
    let mut shards = dump(data, &["--shard", "0/2", "--batch-size", "3"]).0;
    shards.extend(dump(data, &["--shard", "1/2", "--batch-size", "3"]).0);
    shards.sort();
    assert!(all == shards);
    assert_ne!(digest(&text), digest(&dump(data, &["--epoch", "1"]).1));
    assert_ne!(digest(&text), digest(&dump(data, &["--seed", "1"]).1));

    // Those samples again, alone.
    let later = dump(data, &["--epoch", "2"]).0;
    let some = dump(data, &["--epoch", "2", "--ids", "7,3"]).0;
    assert!(some == [later[3].clone(), later[7].clone()]);
    assert_eq!(dump(data, &["--batches", "2", "--batch-size", "4"]).0.len(), 8);
}

#[test]
fn bench_counts_what_dump_writes() {
    let (data, _) = jpegs(13);
    let (_, text) = dump(data.path(), &[]);
    let args = ["bench", "--data", data.path().to_str().unwrap(), "--epochs", "1"];
    let run = |more: &[&str]| done(&[&args[..], more].concat());
    let json = run(&["--json", "--baseline", "--threads", "2", "--batch-size", "5"]);
    let json: serde_json::Value = serde_json::from_str(&json).unwrap();
    assert_eq!(json["digest"], digest(&text));
    assert_eq!((&json["samples"], &json["threads"]), (&13.into(), &2.into()));
    assert_eq!(json["images_per_s"].as_array().unwrap().len(), 1);
    assert!(json["baseline"]["ratio"].as_f64().unwrap() > 0.0);
    assert!(json["peak_memory_bytes"].as_u64().unwrap() > 1 << 20);
    for stage in ["read", "decode", "augment", "wait"] {
        assert!(json["stages_s"][stage].as_f64().unwrap() > 0.0, "{stage}");
    }
    let stages = &json["where"]["share"];
    let shares = ["read", "decode", "augment"].map(|stage| stages[stage].as_f64().unwrap());
    assert!((shares.iter().sum::<f64>() - 1.0).abs() < 1e-3, "{shares:?}");
    let cold = run(&["--json", "--cold", "--no-digest"]);
    let cold: serde_json::Value = serde_json::from_str(&cold).unwrap();
    assert_eq!((&cold["cold"], &cold["digest"]), (&true.into(), &serde_json::Value::Null));
    assert_eq!(cold["samples"], 13);
    let text = run(&[]);
    assert!(text.contains("images/s") && text.contains("limited by"), "{text}");
    assert!(json["where"]["cores"].as_f64().unwrap() > 0.0, "a few milliseconds of work are work");
}

#[test]
fn bench_tells_what_came_from_the_cache() {
    let (data, _) = jpegs(13);
    let args = ["bench", "--data", data.path().to_str().unwrap(), "--epochs", "2", "--json"];
    let run = |more: &[&str]| {
        let Output { status, stdout, stderr } =
            forebay(&[&args[..], more].concat()).output().unwrap();
        let text = String::from_utf8(stderr).unwrap();
        assert!(status.success(), "{text}");
        let json: serde_json::Value = serde_json::from_slice(&stdout).unwrap();
        (json, text)
    };
    let (json, text) = run(&["--threads", "1", "--pin-threads", "--read-ahead", "2"]);
    assert!(!text.contains("cache"), "{text}");
    assert_eq!(json["first_counted_epoch"], 0);
    let cached = run(&["--cache", "decoded", "--cache-budget", "1MiB"]);
    assert_eq!(cached.0["digest"], json["digest"]);
    // Stages are those of the epochs that the cache serves, which decode nothing.
    assert_eq!(cached.0["first_counted_epoch"], 1);
    assert_eq!(cached.0["stages_s"]["decode"], 0.0);
    assert_eq!(cached.0["decoded"]["cpu_by"]["own"], 13);
    let text = done(&[&args[..5], &["--cache", "encoded"]].concat());
    assert!(text.contains("without epoch 0, in which the cache fills"), "{text}");
    let told = "note: cache of decoded images: 50.0% of 26 samples came from it; it holds 13 in 1 of 1 MiB";
    assert!(cached.1.contains(told), "{}", cached.1);
    let (status, line) = failed(&[&args[..], &["--cache", "all"]].concat());
    assert!(status == 2 && line.contains("none, encoded or decoded"), "{line}");
}

#[test]
fn bench_tells_who_decoded() {
    let (data, _) = jpegs(6);
    let png = image::RgbImage::new(SIZE.0 as u32, SIZE.1 as u32);
    png.save_with_format(data.path().join("image 2.jpg"), image::ImageFormat::Png).unwrap();
    // A comment between the data and the end: not what the standard has there.
    let path = data.path().join("image 4.jpg");
    let whole = fs::read(&path).unwrap();
    let (scan, end) = whole.split_at(whole.len() - 2);
    fs::write(&path, [scan, &[0xFF, 0xFE, 0, 2], end].concat()).unwrap();
    let file = data.path().join("turbo.toml");
    fs::write(&file, "[decoder]\nbackend = \"turbo\"").unwrap();
    let args = ["bench", "--data", data.path().to_str().unwrap(), "--epochs", "1"];
    let run = |pipeline: &str| {
        let args = [&args[..], &["--pipeline", pipeline]].concat();
        let json: serde_json::Value =
            serde_json::from_str(&done(&[&args[..], &["--json"]].concat())).unwrap();
        (json["digest"].clone(), json["decoded"]["cpu_by"].clone(), done(&args))
    };
    let own = run("decode-only");
    assert_eq!(own.1, serde_json::json!({ "own": 4, "turbo-doubt": 1, "image": 1 }));
    assert!(own.2.contains("forebay                4  baseline JPEGs"), "{}", own.2);
    let turbo = run(file.to_str().unwrap());
    assert_eq!(turbo.1, serde_json::json!({ "turbo-asked": 5, "image": 1 }));
    assert!(turbo.2.contains("5  as the pipeline's decoder.backend asks"), "{}", turbo.2);
    assert_eq!(own.0, turbo.0);

    // nvJPEG is asked for, and there is no GPU.
    fs::write(&file, "[decoder]\ndevice = \"mixed\"\nbackend = \"nvjpeg\"").unwrap();
    let args = [&args[..], &["--pipeline", file.to_str().unwrap()]].concat();
    for more in [&[][..], &["--device", "cpu"]] {
        let mut bench = forebay(&[&args[..], more].concat());
        let Output { stderr, .. } = bench.env("CUDA_VISIBLE_DEVICES", "").output().unwrap();
        let text = String::from_utf8(stderr).unwrap();
        let note = "forebay: note: on the CPU, though decoder.backend = \"nvjpeg\": ";
        assert!(text.starts_with(note) && text.lines().count() == 1, "{text}");
    }
}

#[test]
fn check_finds_every_fault() {
    let (data, _) = jpegs(6);
    let path = |name: &str| data.path().join(name);
    let data = data.path().to_str().unwrap();
    let text = done(&["check", "--data", data]);
    assert!(text.contains("6 samples, 3 classes, jpeg of 28x20, no fault"), "{text}");

    let whole = fs::read(path("image 1.jpg")).unwrap();
    fs::write(path("image 1.jpg"), &whole[..whole.len() / 2]).unwrap();
    fs::remove_file(path("image 3.jpg")).unwrap();
    fs::write(path("image 4.jpg"), b"hello").unwrap();
    let png = image::RgbImage::new(3, 2);
    png.save_with_format(path("image 5.jpg"), image::ImageFormat::Png).unwrap();
    let list = fs::read_to_string(path("labels.txt")).unwrap();
    fs::write(path("labels.txt"), list + "\nimage 2.jpg cat\n").unwrap();
    let Output { status, stdout, .. } = forebay(&["check", "--data", data]).output().unwrap();
    let text = String::from_utf8(stdout).unwrap();
    assert_eq!(status.code(), Some(1), "{text}");
    let lines: Vec<&str> = text.lines().collect();
    assert_eq!(lines.len(), 6, "{text}");
    assert!(lines[3].contains("labels.txt:8: the label is \"cat\""), "{text}");
    for (line, number) in lines.iter().zip([2, 4, 5]) {
        let place = format!("labels.txt:{number}:");
        assert!(line.starts_with("fault: ") && line.contains(&place), "{line}");
        assert!(line.contains(&format!("image {}.jpg", number - 1)), "{line}");
    }
    assert!(lines[4].starts_with("odd: ") && lines[4].contains("named as jpeg, is png"), "{text}");
    assert!(lines[5].contains("4 faults, 1 odd file"), "{text}");

    let Output { status, stdout, .. } =
        forebay(&["check", "--data", data, "--json"]).output().unwrap();
    assert_eq!(status.code(), Some(1));
    let json: serde_json::Value = serde_json::from_slice(&stdout).unwrap();
    assert_eq!(json["roots"][0]["faults"][1]["line"], 4);
    assert_eq!(json["roots"][0]["faults"][1]["sample"], 3);
}

#[test]
fn splits_are_found_below_the_data_directory() {
    let data = tempfile::tempdir().unwrap();
    for (split, n) in [("train", 4), ("valid", 2)] {
        fs::create_dir(data.path().join(split)).unwrap();
        write_jpegs(&data.path().join(split), n);
    }
    let text = done(&["check", "--data", data.path().to_str().unwrap()]);
    assert_eq!(text.lines().count(), 2, "{text}");
    assert!(text.contains("train: 4 samples") && text.contains("valid: 2 samples"), "{text}");
    assert_eq!(dump(data.path(), &[]).0.len(), 4);
}

#[test]
fn preview_shows_originals_and_epochs() {
    let (data, decoded) = jpegs(5);
    let sheet = data.path().join("sheet.png");
    let (data, out) = (data.path().to_str().unwrap(), sheet.to_str().unwrap());
    let text = done(&["preview", "--data", data, "--out", out, "--ids", "4,2", "--epochs", "3"]);
    assert!(text.contains("2 samples in 4 columns"), "{text}");
    let picture = image::open(&sheet).unwrap().into_rgb8();
    // 28x20 is shown four times as large; text, gaps and letters make up the rest.
    let row = 4 * SIZE.1 as u32 + 8;
    assert_eq!(picture.height(), 32 + 2 * row);
    // The first original's corner, beside a label of seven letters.
    let corner = picture.get_pixel(7 * 8 + 16, 32);
    assert_eq!(corner.0[..], decoded[4][..3]);
}

#[test]
fn explain_and_doctor_tell() {
    let text = done(&["explain", "--pipeline", "cifar10-train", "--size", "32x32"]);
    assert!(text.contains("pass 1") && !text.contains("pass 2"), "{text}");
    assert!(text.contains("rotate, if rotate.when < 0.5"), "{text}");
    let json: serde_json::Value = serde_json::from_str(&done(&["doctor", "--json"])).unwrap();
    assert!(json["kernels"]["value"].is_string() && json["jpeg"]["why"].is_string());
    assert!(done(&["doctor"]).contains("forebay, else libjpeg-turbo"));
    // Who would decode on a GPU: pictures of 80x80 are above decoder.split.
    for (size, own, nvjpeg) in [("80", 0, 7), ("32", 7, 0)] {
        let dir = tempfile::tempdir().unwrap();
        let data = dir.path().to_str().unwrap();
        done(&["export", "shapes", "--to", data, "--train", "7", "--valid", "2", "--size", size]);
        let args = ["doctor", "--json", "--data", data];
        let json: serde_json::Value = serde_json::from_str(&done(&args)).unwrap();
        let images = serde_json::json!(
            { "own": own, "nvjpeg": nvjpeg, "cpu": {}, "without_gpu": { "own": 7 } }
        );
        assert_eq!(json["images"], images);
        // The pipeline says otherwise.
        let file = dir.path().join("turbo.toml");
        fs::write(&file, "[decoder]\ndevice = \"mixed\"\nbackend = \"turbo\"").unwrap();
        let args = [&args[..], &["--pipeline", file.to_str().unwrap()]].concat();
        let json: serde_json::Value = serde_json::from_str(&done(&args)).unwrap();
        let images = serde_json::json!(
            { "own": 0, "nvjpeg": 0, "cpu": { "exact": 7 }, "without_gpu": { "turbo-asked": 7 } }
        );
        assert_eq!(json["images"], images);
        assert!(json["jpeg"]["value"].as_str().unwrap().starts_with("libjpeg-turbo"));
        for line in ["jpeg", "mixed"] {
            let text = json[line].to_string();
            assert!(text.contains("decoder.backend") && !text.contains("by forebay"), "{text}");
        }
    }
}

/// `forebay explain … | head`: a reader that has seen enough is no error.
#[test]
fn a_closed_pipe_is_no_error() {
    let mut child = std::process::Command::new(cargo_bin!("forebay"))
        .arg("explain")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stdout.take());
    let Output { status, stderr, .. } = child.wait_with_output().unwrap();
    assert!(status.success() && stderr.is_empty(), "{}", String::from_utf8_lossy(&stderr));
}

/// A bad file in the middle: the run ends there, or goes on without it and says so.
#[test]
fn bad_files_are_told_skipped_and_replaced() {
    let (data, pixels) = jpegs(30);
    let file = data.path().join("image 11.jpg");
    let bytes = fs::read(&file).unwrap();
    fs::write(&file, &bytes[..bytes.len() / 2]).unwrap();
    let out = tempfile::tempdir().unwrap();
    let log = out.path().join("bad.jsonl");
    let path = |path: &Path| path.to_str().unwrap().to_string();
    let (root, dump, log_path) = (path(data.path()), path(out.path()), path(&log));
    let common = ["dump", "--data", &root, "--pipeline", "decode-only", "--batch-size", "8"];
    let more = ["--out", &dump, "--quarantine", &log_path];
    let args = |last: &[&'static str]| -> Vec<String> {
        common.iter().chain(&more).chain(last).map(ToString::to_string).collect()
    };

    let run = |last: &[&'static str]| {
        let args = args(last);
        forebay(&args.iter().map(String::as_str).collect::<Vec<_>>()).output().unwrap()
    };
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let Output { status, stderr, .. } = run(&[]);
    let stderr = text(&stderr);
    assert_eq!(status.code(), Some(1));
    assert!(stderr.contains("labels.txt:12: sample 11: image 11.jpg: truncated JPEG"), "{stderr}");

    let Output { status, stdout, stderr } = run(&["--on-error", "skip"]);
    assert!(status.success());
    assert!(text(&stdout).contains("29 samples in 4 batches"), "{}", text(&stdout));
    assert_eq!(text(&stderr), "forebay: note: 1 sample is bad: 1 place left out\n");
    let ids: Vec<i64> =
        (0..4).flat_map(|k| integers(&out.path().join(format!("ids_{k:03}.npy")))).collect();
    assert!(ids.iter().copied().eq((0..30).filter(|id| *id != 11)), "{ids:?}");
    let (shape, bytes) = array(&out.path().join("images_001.npy"));
    assert_eq!((shape[0], bytes), (7, [&pixels[8..11], &pixels[12..16]].concat().concat()));

    let Output { status, stdout, stderr } = run(&["--on-error", "replace", "--max-bad", "1"]);
    assert!(status.success());
    assert!(text(&stdout).contains("30 samples in 4 batches"), "{}", text(&stdout));
    assert_eq!(text(&stderr), "forebay: note: 1 sample is bad: 1 place taken by others\n");
    let stand_in = integers(&out.path().join("ids_001.npy"))[3];
    let (_, bytes) = array(&out.path().join("images_001.npy"));
    assert_eq!(bytes.chunks(pixels[0].len()).nth(3), Some(&pixels[stand_in as usize][..]));

    let Output { status, stderr, .. } = run(&["--on-error", "skip", "--max-bad", "0"]);
    assert_eq!(status.code(), Some(1));
    assert!(
        text(&stderr).contains("that makes 1 bad of 30 samples, more than the 0"),
        "{}",
        text(&stderr)
    );
    assert_eq!(run(&["--on-error", "ignore"]).status.code(), Some(2));

    let entries: Vec<serde_json::Value> = fs::read_to_string(&log)
        .unwrap()
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    let done: Vec<_> = entries.iter().map(|entry| entry["done"].as_str().unwrap()).collect();
    assert_eq!(done, ["failed", "skipped", "replaced", "skipped"]);
    for entry in &entries {
        assert_eq!(entry["path"], path(&file));
        assert_eq!((entry["sample"].as_u64(), entry["line"].as_u64()), (Some(11), Some(12)));
        assert_eq!(entry["offset"], (bytes_of(&file)));
        let reason = entry["reason"].as_str().unwrap();
        assert!(reason.starts_with("truncated JPEG"), "{reason}");
    }
}

fn bytes_of(file: &Path) -> u64 {
    fs::metadata(file).unwrap().len()
}
