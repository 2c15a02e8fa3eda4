//! Files of weights that are written here byte by byte: whole, cut short, damaged and hostile.

use crate::pickling::{self, Tensor as T, call, dict, int, legacy, pickle, sequence, text, zipped};
use crate::train::state_dict;
use forebay::error::Result;
use std::collections::BTreeMap;
use std::io::{Cursor, Write};
use tch::{Kind, Tensor};
use zip::write::{SimpleFileOptions, ZipWriter};

fn read(bytes: &[u8]) -> Result<BTreeMap<String, Tensor>> {
    let file = tempfile::NamedTempFile::new().unwrap();
    file.as_file().write_all(bytes).unwrap();
    state_dict::read(file.path())
}

/// Storages of the small files: six f32 and one i64.
fn storages() -> Vec<(&'static str, Vec<u8>, usize)> {
    let floats = [0.0_f32, 1.0, 2.0, 3.0, 4.0, 5.0];
    vec![
        ("0", floats.iter().flat_map(|x| x.to_le_bytes()).collect(), 4),
        ("1", 7_i64.to_le_bytes().to_vec(), 8),
    ]
}

const FLOATS: T<'_> =
    T { kind: "FloatStorage", key: "0", len: 6, offset: 0, size: &[], stride: &[] };
const COUNT: T<'_> = T { kind: "LongStorage", key: "1", len: 1, offset: 0, size: &[], stride: &[] };

fn dense() -> Vec<u8> {
    T { size: &[2, 3], stride: &[3, 1], ..FLOATS }.pickled()
}

/// A state dict of a dense tensor, a transposed part of the same values, and a counter.
fn state() -> Vec<u8> {
    let part = T { offset: 1, size: &[2, 2], stride: &[1, 3], ..FLOATS };
    dict(&[("a.weight", dense()), ("a.part", part.pickled()), ("n", COUNT.pickled())])
}

fn safetensors() -> Vec<u8> {
    let floats = storages()[0].1.clone();
    let view = |size| safetensors::tensor::TensorView::new(safetensors::Dtype::F32, size, &floats);
    let views =
        [("a.weight", view(vec![2, 3]).unwrap()), ("adam/a.weight", view(vec![6]).unwrap())];
    safetensors::serialize(views, None).unwrap()
}

fn values(tensor: &Tensor) -> (Vec<i64>, Kind, Vec<f64>) {
    (
        tensor.size(),
        tensor.kind(),
        Vec::try_from(tensor.to_kind(Kind::Double).flatten(0, -1)).unwrap(),
    )
}

fn is_state(tensors: &BTreeMap<String, Tensor>) {
    assert_eq!(tensors.keys().collect::<Vec<_>>(), ["a.part", "a.weight", "n"]);
    let dense = (vec![2, 3], Kind::Float, vec![0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);
    assert_eq!(values(&tensors["a.weight"]), dense);
    assert_eq!(values(&tensors["a.part"]), (vec![2, 2], Kind::Float, vec![1.0, 4.0, 2.0, 5.0]));
    assert_eq!(values(&tensors["n"]), (vec![], Kind::Int64, vec![7.0]));
}

#[test]
fn formats_wrappings_and_prefixes_give_the_same_tensors() {
    let _turn = crate::seeded(0);
    is_state(&read(&zipped(&pickle(&state()), &storages())).unwrap());
    is_state(&read(&legacy(&pickle(&state()), &storages())).unwrap());

    let wrapped =
        dict(&[("epoch", int(3)), ("model_state_dict", state()), ("loss", b"N".to_vec())]);
    is_state(&read(&zipped(&pickle(&wrapped), &storages())).unwrap());
    let named = |prefix: &str| {
        let names = ["a.weight", "a.part", "n"].map(|name| format!("{prefix}{name}"));
        let part = T { offset: 1, size: &[2, 2], stride: &[1, 3], ..FLOATS }.pickled();
        let tensors = [dense(), part, COUNT.pickled()];
        dict(&names.iter().map(String::as_str).zip(tensors).collect::<Vec<_>>())
    };
    let lightning = dict(&[("state_dict", named("model._orig_mod."))]);
    is_state(&read(&zipped(&pickle(&lightning), &storages())).unwrap());
    // timm's trainer leaves its settings beside the weights.
    let settings = [b"cargparse\nNamespace\n)\x81", &dict(&[("lr", int(1))])[..], b"b"].concat();
    let timm = dict(&[("arch", text("resnet18")), ("args", settings), ("state_dict", state())]);
    is_state(&read(&zipped(&pickle(&timm), &storages())).unwrap());
    // A prefix that one name lacks is part of the others' names.
    let mixed = dict(&[("module.a", dense()), ("b", dense())]);
    let mixed = read(&zipped(&pickle(&mixed), &storages())).unwrap();
    assert_eq!(mixed.keys().collect::<Vec<_>>(), ["b", "module.a"]);

    // Python 2 writes strings of bytes and an ordered dict as a call on a list of pairs.
    let older = T { size: &[2, 3], stride: &[3, 1], ..FLOATS }.rebuilt("_rebuild_tensor");
    let pairs = [b"]]U\x01aa", &older[..], b"aa"].concat();
    let older = pickle(&call("collections", "OrderedDict", &[pairs]));
    let tensors = read(&legacy(&older, &storages()[..1])).unwrap();
    assert_eq!(values(&tensors["a"]).2, [0.0, 1.0, 2.0, 3.0, 4.0, 5.0]);

    // forebay's own: state beside the weights has a slash in its name.
    let own = read(&safetensors()).unwrap();
    assert_eq!(own.keys().collect::<Vec<_>>(), ["a.weight"]);
    assert_eq!(values(&own["a.weight"]).0, [2, 3]);
}

#[test]
fn types_stay_what_they_are() {
    let _turn = crate::seeded(0);
    let kinds = [
        ("DoubleStorage", Kind::Double, 2.0_f64.to_le_bytes().to_vec()),
        ("HalfStorage", Kind::Half, vec![0, 0x40]),
        ("BFloat16Storage", Kind::BFloat16, vec![0, 0x40]),
        ("IntStorage", Kind::Int, vec![2, 0, 0, 0]),
        ("ShortStorage", Kind::Int16, vec![2, 0]),
        ("CharStorage", Kind::Int8, vec![2]),
        ("ByteStorage", Kind::Uint8, vec![2]),
        // No bool of C++ may hold a 2.
        ("BoolStorage", Kind::Bool, vec![2]),
    ];
    for (name, kind, bytes) in kinds {
        let tensor = T { kind: name, key: "0", len: 1, size: &[1], stride: &[1], offset: 0 };
        let state = pickle(&dict(&[("x", tensor.pickled())]));
        let size = bytes.len();
        let tensors = read(&zipped(&state, &[("0", bytes, size)])).unwrap();
        let value = if kind == Kind::Bool { 1.0 } else { 2.0 };
        assert_eq!(values(&tensors["x"]), (vec![1], kind, vec![value]), "{name}");
    }
}

fn whole() -> [Vec<u8>; 3] {
    let state = pickle(&state());
    [zipped(&state, &storages()), legacy(&state, &storages()), safetensors()]
}

#[test]
fn a_file_cut_short_is_an_error_wherever() {
    let _turn = crate::seeded(0);
    for whole in whole() {
        for length in 0..whole.len() {
            let error = read(&whole[..length]).expect_err("a part is taken for the whole");
            assert!(!error.to_string().contains('\n'), "{error}");
        }
    }
}

#[test]
fn no_byte_that_is_wrong_does_harm() {
    let _turn = crate::seeded(0);
    let mut read_anyway = 0;
    for whole in whole() {
        for at in 0..whole.len() {
            for change in [0x01, 0x80, 0xff] {
                let mut damaged = whole.clone();
                damaged[at] ^= change;
                let Ok(tensors) = read(&damaged) else { continue };
                read_anyway += 1;
                for tensor in tensors.values().filter(|tensor| tensor.numel() < 1 << 16) {
                    assert_eq!(values(tensor).2.len(), tensor.numel());
                }
            }
        }
    }
    println!("{read_anyway} of them could be read");
}

#[test]
fn hostile_files_are_told_and_cost_nothing() {
    let _turn = crate::seeded(0);
    let refused = |pickled: &[u8], text: &str| {
        let name = b"FloatStorage";
        let named = pickled.windows(name.len()).any(|window| window == name);
        let storages = &storages()[..usize::from(named)];
        for file in [zipped(&pickle(pickled), storages), legacy(&pickle(pickled), storages)] {
            let error = read(&file).expect_err(text).to_string();
            assert!(error.contains(text), "{text}: {error}");
        }
    };
    let asks = "the file asks for os.system: it is not a plain state dict; in Python: torch.save(";
    refused(&call("os", "system", &[text("true")]), asks);
    let stacked = [text("os"), text("system"), b"\x93".to_vec()].concat();
    refused(&stacked, asks);
    refused(&call("torch.storage", "_load_from_bytes", &[]), "torch.storage._load_from_bytes");
    refused(b"cos\x1b\nsystem\n.", "os\\u{1b}.system");
    // INST, which calls without REDUCE.
    refused(b"(ios\nsystem\n", "opcode 0x69");

    let tensor = |tensor: T<'_>| dict(&[("x", tensor.pickled())]);
    let outside = "x: size";
    refused(&tensor(T { size: &[2, 3], stride: &[4, 1], ..FLOATS }), outside);
    refused(&tensor(T { size: &[6], stride: &[1], offset: 1, ..FLOATS }), outside);
    refused(&tensor(T { size: &[2], stride: &[-1], offset: 5, ..FLOATS }), outside);
    refused(&tensor(T { size: &[1], stride: &[1], offset: -1, ..FLOATS }), outside);
    refused(&tensor(T { size: &[3], stride: &[i64::MAX], ..FLOATS }), outside);
    refused(&tensor(T { size: &[2, 3], stride: &[1], ..FLOATS }), outside);
    refused(&tensor(T { size: &[0], stride: &[1], offset: 7, ..FLOATS }), outside);
    refused(&tensor(T { size: &[-1], stride: &[1], ..FLOATS }), "an impossible size");
    refused(&tensor(T { size: &[1 << 40, 1 << 40], stride: &[0, 0], ..FLOATS }), "impossible size");
    refused(&tensor(T { size: &[1 << 62, 0], stride: &[0, 1], ..FLOATS }), "an impossible size");
    refused(&tensor(T { size: &[1 << 30], stride: &[0], ..FLOATS }), "more than 10,000 tensors or");
    refused(&tensor(T { size: &[1; 9], stride: &[0; 9], ..FLOATS }), "at most 8 axes");
    // A storage that is longer than its bytes.
    refused(&tensor(T { len: 7, ..FLOATS }), "damaged: ");
    refused(&tensor(T { len: 1 << 60, ..FLOATS }), "1152921504606846976");
    refused(&tensor(T { len: -1, size: &[], stride: &[], ..FLOATS }), "no storage of PyTorch's");
    let other = T { kind: "IntStorage", ..FLOATS };
    refused(&dict(&[("x", dense()), ("y", other.pickled())]), "two accounts of the storage 0");
    refused(&dict(&[("x", dense()), ("x", dense())]), "it holds x twice");
    refused(&dict(&[("x", T { key: "7", ..FLOATS }.pickled())]), "damaged: ");

    // Lengths beyond the file, containers without end, more steps than any state dict takes.
    refused(&[&b"\x8d"[..], &[0xff; 8]].concat(), "damaged: it ends too early");
    refused(&[&b")"[..], &[0x85; 1_000_000]].concat(), "it holds no state dict");
    refused(&b"(".repeat(1_000_000), "damaged");
    refused(&b"N".repeat(1 << 21), "its pickle takes more than");
    refused(b"(0", "opcode 0x30");
    refused(b"N(\x85", "a step that lacks its values");
    refused(b"h\x07", "a reference to nothing");
    refused(b"]q\x00h\x00a", "it holds no state dict");
    // A dict that holds itself as its state dict.
    let inside = [&b"}q\x00"[..], &text("model"), b"h\x00s"].concat();
    refused(&inside, "it holds no tensors");
    // The file chooses the numbers of what it remembers.
    let remembered = [&state()[..], b"r\xff\xff\xff\xff"].concat();
    is_state(&read(&zipped(&pickle(&remembered), &storages())).unwrap());
}

#[test]
fn hostile_archives_are_told() {
    let _turn = crate::seeded(0);
    let failed = |file: &[u8], text: &str| {
        let error = read(file).expect_err(text).to_string();
        assert!(error.contains(text), "{text}: {error}");
    };
    let replaced = |file: &[u8], from: &[u8], to: &[u8]| {
        let mut file = file.to_vec();
        for at in 0..file.len() {
            if file[at..].starts_with(from) {
                file[at..at + to.len()].copy_from_slice(to);
            }
        }
        file
    };
    let good = zipped(&pickle(&state()), &storages());
    failed(&replaced(&good, b"w/data/1", b"w/data/0"), "two entries of the archive have one name");
    failed(&replaced(&good, b"w/data/1", b"w/data/7"), "the archive lacks data/1");
    failed(&replaced(&good, b"w/data.pkl", b"w/dada.pkl"), "not one of torch.save");
    // Values that changed on the way are held to their checksum.
    failed(&replaced(&good, &4.0_f32.to_le_bytes(), &8.0_f32.to_le_bytes()), "damaged zip archive");
    // The method of the central directory's and the entries' headers: deflated.
    let packed = patched(good, b"PK\x03\x04", 8, 8);
    failed(&patched(packed, b"PK\x01\x02", 10, 8), "PyTorch stores without compression");
    failed(&pickling::ordered(&pickle(&state()), &storages(), b"big"), "on a big-endian machine");
    let big = legacy(&pickle(&state()), &storages());
    let told = [text("little_endian"), b"\x88".to_vec()].concat();
    let not = [text("little_endian"), b"\x89".to_vec()].concat();
    failed(&replaced(&big, &told, &not), "on a big-endian machine");

    // A hundred storages that are one and the same entry.
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let keys: Vec<_> = (0..100).map(|i| i.to_string()).collect();
    let tensor = |key| T { key, len: 256, size: &[256], stride: &[1], ..FLOATS }.pickled();
    let state: Vec<_> = keys.iter().map(|key| (key.as_str(), tensor(key))).collect();
    let entries = [("w/data.pkl", pickle(&dict(&state))), ("w/data/0", vec![0; 1024])];
    for (name, bytes) in entries {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(&bytes).unwrap();
    }
    for key in &keys[1..] {
        zip.shallow_copy_file("w/data/0", &format!("w/data/{key}")).unwrap();
    }
    failed(&zip.finish().unwrap().into_inner(), "its entries are longer than the file");

    failed(b"", "it is empty");
    failed(b"not weights", "neither safetensors nor a file of torch.save");
    failed(&pickle(&sequence(&[])), "neither safetensors nor a file of torch.save");
    let missing = state_dict::read(std::path::Path::new("none.pth")).unwrap_err().to_string();
    assert!(missing.starts_with("none.pth: cannot read"), "{missing}");
}

/// `file` with `value` so many bytes behind each `mark`.
fn patched(mut file: Vec<u8>, mark: &[u8], behind: usize, value: u8) -> Vec<u8> {
    for at in 0..file.len() {
        if file[at..].starts_with(mark) {
            file[at + behind] = value;
        }
    }
    file
}
