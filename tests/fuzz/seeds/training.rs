//! What the trainer reads and writes: checkpoints, weights, pickles, metrics, events.

use crate::bodies::pickle::{legacy, zipped};
use crate::bodies::pickling::{Tensor as View, call, dict, int, pickle, sequence, text};
use crate::train::checkpoint::{Conditions, Identities, Lora, Meta, Model, Store, Tensors};
use crate::train::log::csv::{MetricsCsv, Row};
use crate::train::metric::Mode;
use crate::train::resnet::Stem;
use crate::train::schedule;
use forebay::loader::{Identity, Position};
use std::fs;
use tch::{Kind, Tensor};

pub(crate) fn checkpoints() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let weights = Tensor::arange(6, (Kind::Float, tch::Device::Cpu)).view((2, 3));
    let (steps, loss) = (Tensor::from(7_i64), Tensor::from(0.1_f64));
    let tensors: Tensors =
        [("w".into(), weights), ("adam/step/w".into(), steps), ("meter/loss".into(), loss)].into();
    let mut store = Store::open(folder.path(), Mode::Max, 1, false).unwrap();
    let adapters = |rank, head| Some(Lora { rank, head });
    // The last is none that can be.
    let models = [
        (Stem::Cifar, 2, None),
        (Stem::Imagenet, 10, adapters(2, true)),
        (Stem::Cifar, 3, adapters(4, false)),
        (Stem::Cifar, 0, None),
    ];
    let mut seeds = Vec::new();
    for (stem, classes, lora) in models {
        let model = Model { stem, classes, names: vec!["cat \"1\"".into()], lora };
        store.save(&tensors, &meta(model), false).unwrap();
        seeds.push(fs::read(store.last()).unwrap());
    }
    // From before positions counted samples, as long as it was.
    let (now, before) = (br#"\"samples\":16"#, br#"\"step\":2    "#);
    let mut older = seeds[0].clone();
    let at = older.windows(now.len()).position(|bytes| bytes == now).expect("its position");
    older[at..at + now.len()].copy_from_slice(&before[..now.len()]);
    seeds.push(older);
    // The weights of another program.
    seeds.push(safetensors());
    seeds
}

fn meta(model: Model) -> Meta {
    Meta {
        version: "0".into(),
        position: Position { epoch: 1, samples: 16 },
        global_step: 12,
        model,
        conditions: Conditions {
            identities: Some(Identities {
                train: Identity { pipeline: 1, data: 2, seed: 3 },
                valid: Some(Identity { pipeline: 6, data: 7, seed: 3 }),
            }),
            batch_size: 4,
            torch_threads: 1,
            processor: "two".into(),
        },
        schedule: schedule::State { epochs: 1, rate: 0.1, best: Some(0.5), bad_epochs: 0 },
        early_stop: Default::default(),
        score: Some(("valid_acc".into(), 0.5)),
        config: "lr = 0.1\n".into(),
        checksum: String::new(),
    }
}

const FLOATS: View<'_> =
    View { kind: "FloatStorage", key: "0", len: 6, offset: 0, size: &[2, 3], stride: &[3, 1] };
const COUNT: View<'_> =
    View { kind: "LongStorage", key: "1", len: 1, offset: 0, size: &[], stride: &[] };

/// State dicts, by themselves and within what trainers put around them.
fn objects() -> Vec<Vec<u8>> {
    let part = View { offset: 1, size: &[2, 2], stride: &[1, 3], ..FLOATS };
    let spread = View { size: &[3, 3], stride: &[0, 0], ..FLOATS };
    let state = dict(&[
        ("module.a", FLOATS.pickled()),
        ("module.part", part.pickled()),
        ("module.spread", spread.rebuilt("_rebuild_tensor")),
        ("module.n", COUNT.pickled()),
    ]);
    let wrapped = dict(&[("epoch", int(3)), ("state_dict", state.clone()), ("x", b"N".to_vec())]);
    let pairs = [b"]]U\x01aa", &FLOATS.pickled()[..], b"aa"].concat();
    let ordered = call("collections", "OrderedDict", &[pairs]);
    let parameter = call("torch._utils", "_rebuild_parameter", &[FLOATS.pickled()]);
    let settings = [b"cargparse\nNamespace\n)\x81", &dict(&[("lr", int(1))])[..], b"b"].concat();
    // Strings, numbers, bytes, memo, stack and containers in every form that is known.
    let all = [
        b"}(\x8c\x01a",
        &FLOATS.pickled()[..],
        b"q\0\x8d\x01\0\0\0\0\0\0\0bh\0U\x01cr\x01\0\0\0j\x01\0\0\0\x94T\x01\0\0\0dK\x07u",
        b"X\x01\0\0\0e](K\x01M\x01\x02J\x01\0\0\0\x8b\x01\0\0\0\xFFG\0\0\0\0\0\0\0\0es",
        b"X\x01\0\0\0fC\x01xB\x01\0\0\0x\x8e\x01\0\0\0\0\0\0\0x\x87s",
        b"X\x01\0\0\0gNN\x86sX\x01\0\0\0h\x88\x85s",
        b"X\x01\0\0\0i\x8c\x0bcollections\x8c\x0bOrderedDict\x93)Rs",
    ]
    .concat();
    vec![
        state.clone(),
        wrapped,
        ordered,
        dict(&[("p", parameter)]),
        dict(&[("args", settings), ("model", state)]),
        all,
        dict(&[("t", sequence(&[text("x"), int(-1)]))]),
        call("os", "system", &[text("id")]),
    ]
}

pub(crate) fn pickles() -> Vec<Vec<u8>> {
    objects().iter().map(|object| pickle(object)).collect()
}

pub(crate) fn weights() -> Vec<Vec<u8>> {
    let mut seeds = vec![safetensors()];
    for pickled in pickles() {
        seeds.extend([zipped(&pickled), legacy(&pickled)]);
    }
    seeds
}

fn safetensors() -> Vec<u8> {
    use safetensors::Dtype::{BF16, BOOL, F16, F32, F64, I8, I16, I32, I64, U8, U16};
    let bytes: Vec<u8> = (0..48).collect();
    let kinds = [
        (F64, 8),
        (F32, 4),
        (F16, 2),
        (BF16, 2),
        (I64, 8),
        (I32, 4),
        (I16, 2),
        (I8, 1),
        (U8, 1),
        (BOOL, 1),
    ];
    let view = |(kind, size): (safetensors::Dtype, usize)| {
        let shape = vec![48 / size / 2, 2];
        let view = safetensors::tensor::TensorView::new(kind, shape, &bytes).unwrap();
        (format!("{kind:?}").to_lowercase(), view)
    };
    let mut views: Vec<_> = kinds.into_iter().map(view).collect();
    let (_, other) = view((U16, 2));
    views.push(("of/another".into(), other));
    safetensors::serialize(views, None).unwrap()
}

pub(crate) fn metrics() -> Vec<Vec<u8>> {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("metrics.csv");
    let mut csv = MetricsCsv::open(&path, None).unwrap();
    let mut seeds = vec![fs::read(&path).unwrap()];
    for step in [1, 20, u64::MAX] {
        let lr = 1e-300 / step as f64;
        csv.append(&Row { epoch: Some(1), step: Some(step), lr: Some(lr), ..Row::default() })
            .unwrap();
        seeds.push(fs::read(&path).unwrap());
    }
    let torn = [&seeds[1][..], b"1,40,0.1"].concat();
    let crlf = String::from_utf8(seeds[1].clone()).unwrap().replace('\n', "\r\n").into_bytes();
    seeds.extend([torn, crlf]);
    seeds
}

/// Orders as the body reads them: whether resumed, then kind, tag, step and what goes with the kind.
pub(crate) fn events() -> Vec<Vec<u8>> {
    let step = 7_u64.to_le_bytes();
    let scalar = [b"\0\x02lr", &step[..], &0.5_f64.to_le_bytes()].concat();
    let image = [b"\x01\x01a", &step[..], b"\x03\0\0\0\x02\0\0\0\x03png"].concat();
    let words = [b"\x02\x01b", &step[..], b"\x03*x*"].concat();
    let flush = [b"\x03\0", &step[..]].concat();
    let resumed = [b"\x01", &step[..]].concat();
    vec![
        b"\0".to_vec(),
        [b"\0", &scalar[..], &image, &flush, &words].concat(),
        [&resumed[..], &words, &scalar].concat(),
        [b"\x01", &[0xFF; 8][..], &scalar].concat(),
    ]
}
