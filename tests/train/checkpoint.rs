//! Checkpoints: what they hold, which are kept, and what becomes of damaged ones.

use crate::train::checkpoint::{Checkpoint, Identities, Meta, Pick, Store, Tensors, find};
use crate::train::metric::Mode;
use crate::train::resnet::Stem;
use crate::{meta, model, seeded};
use forebay::loader::{Identity, Position};
use safetensors::SafeTensors;
use std::fs;
use std::path::{Path, PathBuf};
use tch::{Kind, Tensor};

/// Names of what lies in `dir`, in order.
fn names(dir: &Path) -> Vec<String> {
    let entries = dir.read_dir().unwrap().map(|e| e.unwrap().file_name());
    let mut names: Vec<_> = entries.map(|name| name.into_string().unwrap()).collect();
    names.sort();
    names
}

fn few() -> Tensors {
    let weights = Tensor::arange(6, (Kind::Float, tch::Device::Cpu)).view((2, 3)).transpose(0, 1);
    let steps = Tensor::from(7_i64);
    let loss = Tensor::from(0.1_f64);
    [("w".into(), weights), ("optimizer/step/w".into(), steps), ("meter/loss".into(), loss)].into()
}

#[test]
fn a_checkpoint_gives_back_what_it_was_given() {
    let _turn = seeded(4);
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(&dir.path().join("new/run"), Mode::Max, 1, false).unwrap();
    let (variables, _) = model(Stem::Imagenet, 10);
    let mut tensors = few();
    tensors.extend(variables.variables());
    store.save(&tensors, &meta(1, 2, None), false).unwrap();
    assert_eq!(names(&dir.path().join("new/run")), [Store::LAST], "nothing else is left");

    let read = Checkpoint::read(&store.last()).unwrap();
    assert_eq!(Meta { checksum: String::new(), ..read.meta.clone() }, meta(1, 2, None));
    let back = read.tensors().unwrap();
    assert!(back.keys().eq(tensors.keys()));
    for (name, tensor) in &tensors {
        assert!(back[name].kind() == tensor.kind() && back[name].equal(tensor), "{name}");
    }
    // Other programs read it as any file of its kind, and the story as JSON.
    let bytes = fs::read(store.last()).unwrap();
    assert_eq!(SafeTensors::deserialize(&bytes).unwrap().len(), tensors.len());
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let story: serde_json::Value =
        serde_json::from_str(&header.metadata().as_ref().unwrap()[Meta::KEY]).unwrap();
    assert_eq!((&story["epoch"], &story["samples"]), (&1.into(), &2.into()));
    // The same again is the same file.
    store.save(&tensors, &meta(1, 2, None), false).unwrap();
    assert_eq!(fs::read(store.last()).unwrap(), bytes);
}

/// Found by fuzzing: the place of the checksum was looked for in the tensors, too.
#[test]
fn tensors_may_hold_what_stands_before_the_checksum() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path(), Mode::Max, 1, false).unwrap();
    let words = *br#"\"checksum\":\"0"#;
    let words: Vec<i64> =
        words.chunks(8).map(|word| i64::from_le_bytes(word.try_into().unwrap())).collect();
    let tensors: Tensors = [("z".to_string(), Tensor::from_slice(&words))].into();
    store.save(&tensors, &meta(1, 2, None), false).unwrap();
    assert!(Checkpoint::read(&store.last()).unwrap().tensors().unwrap()["z"].equal(&tensors["z"]));
}

#[test]
fn the_best_are_kept_and_the_last() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path(), Mode::Max, 2, false).unwrap();
    let save = |store: &mut Store, epoch, score| {
        store.save(&few(), &meta(epoch, 0, Some(score)), true).unwrap();
        (names(dir.path()), store.best().map(|(score, _)| score))
    };
    let named = |epoch: u32, score: &str| format!("epoch={epoch}-valid_acc={score}.safetensors");
    let last = || Store::LAST.to_string();
    assert_eq!(save(&mut store, 1, 0.5), (vec![named(1, "0.5000"), last()], Some(0.5)));
    assert_eq!(save(&mut store, 2, 0.25).0, [named(1, "0.5000"), named(2, "0.2500"), last()]);
    // The worst makes room; one that is not better, none.
    assert_eq!(
        save(&mut store, 3, 0.75),
        (vec![named(1, "0.5000"), named(3, "0.7500"), last()], Some(0.75))
    );
    assert_eq!(save(&mut store, 4, 0.5).0, [named(1, "0.5000"), named(3, "0.7500"), last()]);
    assert_eq!(Checkpoint::read(&dir.path().join(Store::LAST)).unwrap().meta.position.epoch, 4);
    let error = store.save(&few(), &meta(5, 0, Some(f64::NAN)), true).unwrap_err().to_string();
    assert!(error.contains("cannot make a checkpoint"), "{error}");

    // One at a time.
    let error = Store::open(dir.path(), Mode::Max, 2, true).unwrap_err().to_string();
    assert!(error.contains("another run is at work here"), "{error}");
    drop(store);
    // A run that goes on knows them; one that begins would overwrite them.
    let again = Store::open(dir.path(), Mode::Max, 2, true).unwrap();
    assert_eq!(again.best().unwrap().0, 0.75);
    drop(again);
    let error = Store::open(dir.path(), Mode::Max, 2, false).unwrap_err().to_string();
    assert!(error.contains("--resume last"), "{error}");
}

#[test]
fn small_losses_are_the_best_and_none_may_be_kept() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path(), Mode::Min, 1, false).unwrap();
    for (epoch, score) in [(1, 0.5), (2, 0.25), (3, 0.75)] {
        store.save(&few(), &meta(epoch, 0, Some(score)), true).unwrap();
    }
    assert_eq!(names(dir.path())[0], "epoch=2-valid_acc=0.2500.safetensors");

    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path(), Mode::Max, 0, false).unwrap();
    store.save(&few(), &meta(1, 0, Some(1.0)), true).unwrap();
    assert_eq!(names(dir.path()), [Store::LAST]);
}

#[test]
fn a_failed_save_keeps_the_checkpoint_before() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path(), Mode::Max, 1, false).unwrap();
    fs::write(store.last(), "older").unwrap();
    // A directory in the way of the temporary file, since root may write anywhere.
    fs::create_dir(dir.path().join(".last.safetensors.partial")).unwrap();
    let error = store.save(&few(), &meta(1, 2, None), false).unwrap_err();
    assert_eq!(error.path(), Some(store.last().as_path()));
    assert_eq!(fs::read(store.last()).unwrap(), b"older");

    let error = Store::open(&store.last(), Mode::Max, 1, false).unwrap_err().to_string();
    assert!(error.contains("cannot create the directory"), "{error}");
}

#[test]
fn a_run_that_goes_on_ranks_as_it_did() {
    let dir = tempfile::tempdir().unwrap();
    let save = |store: &mut Store, epoch, score, metric: &str| {
        let meta = Meta { score: Some((metric.into(), score)), ..meta(epoch, 0, None) };
        store.save(&few(), &meta, true).unwrap();
    };
    let mut store = Store::open(dir.path(), Mode::Max, 1, false).unwrap();
    save(&mut store, 1, 0.500_04, "valid_acc");
    drop(store);
    let mut store = Store::open(dir.path(), Mode::Max, 1, true).unwrap();
    assert_eq!(store.best().unwrap().0, 0.500_04);
    // Better than what the name says, and worse than what it was.
    save(&mut store, 2, 0.500_02, "valid_acc");
    let kept = "epoch=1-valid_acc=0.5000.safetensors";
    assert_eq!(names(dir.path()), [kept, Store::LAST]);
    drop(store);
    // A loss is not compared with an accuracy.
    let mut store = Store::open(dir.path(), Mode::Min, 1, true).unwrap();
    save(&mut store, 3, 2.0, "valid_loss");
    assert_eq!(store.best().unwrap().0, 2.0);
    assert_eq!(names(dir.path()), [kept, "epoch=3-valid_loss=2.0000.safetensors", Store::LAST]);
    let (path, ..) = find(dir.path(), Pick::Best(None)).unwrap();
    assert!(path.ends_with("epoch=3-valid_loss=2.0000.safetensors"));
}

fn error(path: &Path) -> String {
    Checkpoint::read(path).unwrap_err().to_string()
}

#[test]
fn every_damage_is_noticed() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path(), Mode::Max, 1, false).unwrap();
    store.save(&few(), &meta(1, 2, None), false).unwrap();
    let whole = fs::read(store.last()).unwrap();
    let path = dir.path().join("damaged.safetensors");
    for length in 0..whole.len() {
        fs::write(&path, &whole[..length]).unwrap();
        let error = error(&path);
        assert!(error.contains("damaged.safetensors: not a whole checkpoint"), "{length}: {error}");
    }
    for place in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[place] ^= 1;
        fs::write(&path, &bytes).unwrap();
        assert!(Checkpoint::read(&path).is_err(), "a changed byte at {place}");
    }

    // Another program's file is another matter.
    let bytes =
        safetensors::serialize(Vec::<(String, safetensors::tensor::TensorView<'_>)>::new(), None);
    fs::write(&path, bytes.unwrap()).unwrap();
    assert!(
        error(&path).contains("no checkpoint of forebay; --weights reads it"),
        "{}",
        error(&path)
    );
    assert!(error(&dir.path().join("none")).contains("cannot read"));
}

#[test]
fn the_next_good_one_is_found() {
    let dir = tempfile::tempdir().unwrap();
    let mut store = Store::open(dir.path(), Mode::Max, 3, false).unwrap();
    for (epoch, score) in [(1, 0.5), (2, 0.75), (3, 0.25)] {
        store.save(&few(), &meta(epoch, 0, Some(score)), true).unwrap();
    }
    store.save(&few(), &meta(3, 1, None), false).unwrap();
    let found = |pick| {
        let (path, checkpoint, notes) = find(dir.path(), pick).unwrap();
        let Position { epoch, samples } = checkpoint.meta.position;
        (path.file_name().unwrap().to_str().unwrap().to_string(), (epoch, samples), notes)
    };
    let damage = |name: &str| {
        let path: PathBuf = dir.path().join(name);
        let mut bytes = fs::read(&path).unwrap();
        bytes.pop();
        fs::write(&path, bytes).unwrap();
    };
    assert_eq!(found(Pick::Last).1, (3, 1));
    assert_eq!(found(Pick::Best(None)).1, (2, 0));
    assert_eq!(found(Pick::Best(Some(Mode::Min))).1, (3, 0));

    damage(Store::LAST);
    damage("epoch=2-valid_acc=0.7500.safetensors");
    let (name, position, notes) = found(Pick::Last);
    assert_eq!((name.as_str(), position), ("epoch=3-valid_acc=0.2500.safetensors", (3, 0)));
    assert!(notes.len() == 1 && notes[0].contains("last.safetensors: not a whole"), "{notes:?}");
    let (_, position, notes) = found(Pick::Best(None));
    assert_eq!((position, notes.len()), ((1, 0), 1));

    damage("epoch=1-valid_acc=0.5000.safetensors");
    damage("epoch=3-valid_acc=0.2500.safetensors");
    let error = find(dir.path(), Pick::Last).unwrap_err().to_string();
    assert!(error.contains("last.safetensors: not a whole checkpoint"), "{error}");
}

#[test]
fn what_changes_the_weights_is_told() {
    let before = meta(0, 0, None).conditions;
    let mut now = before.clone();
    assert!(now.compare(&before).is_empty());
    (now.batch_size, now.torch_threads, now.processor) = (16, 4, "another".into());
    assert_eq!(
        now.compare(&before),
        [
            "batch size: 8 before, 16 now",
            "threads of libtorch: 2 before, 4 now",
            "processor: one before, another now"
        ]
    );
}

#[test]
fn other_samples_are_named() {
    let before = meta(0, 0, None).conditions.identities.unwrap();
    assert!(before.differences(&before).is_empty());
    let with = |change: fn(&mut Identities)| {
        let mut now = before;
        change(&mut now);
        now.differences(&before)
    };
    assert_eq!(with(|now| now.train.pipeline += 1), ["pipeline (--pipeline)"]);
    assert_eq!(with(|now| now.train.data = 0), ["list of samples (--data, --limit-train)"]);
    assert_eq!(with(|now| now.train.seed += 1), ["seed (--seed)"]);
    let valid = |change: fn(&mut Identity)| {
        let mut now = before;
        change(now.valid.as_mut().unwrap());
        now.differences(&before)
    };
    assert_eq!(valid(|now| now.pipeline += 1), ["validation pipeline (--valid-pipeline)"]);
    assert_eq!(valid(|now| now.data += 1), ["list of validation samples (--data, --limit-valid)"]);
    // Its seed goes with that of training, and to begin or end validating is no contradiction.
    assert!(valid(|now| now.seed += 1).is_empty());
    assert!(with(|now| now.valid = None).is_empty());
    assert_eq!(with(|now| now.train = now.valid.unwrap()).len(), 3);
}

/// From before positions counted samples and files said which samples they are of.
#[test]
fn an_older_checkpoint_is_read() {
    let mut story = serde_json::to_value(meta(1, 24, None)).unwrap();
    story["checksum"] = "0000000000000000".into();
    story["conditions"].as_object_mut().unwrap().remove("identities").unwrap();
    story.as_object_mut().unwrap().remove("samples").unwrap();
    story["step"] = 3.into();

    let none = Vec::<(String, safetensors::tensor::TensorView<'_>)>::new();
    let story = [(Meta::KEY.to_string(), story.to_string())].into();
    let mut bytes = safetensors::serialize(none, Some(story)).unwrap();
    let sum = format!("{:016x}", xxhash_rust::xxh3::xxh3_64(&bytes));
    let label = r#"\"checksum\":\""#;
    let place = memchr::memmem::find(&bytes, label.as_bytes()).unwrap() + label.len();
    bytes[place..][..sum.len()].copy_from_slice(sum.as_bytes());
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("older.safetensors");
    fs::write(&path, bytes).unwrap();

    let Meta { position, conditions, .. } = Checkpoint::read(&path).unwrap().meta;
    assert_eq!(position, Position { epoch: 1, samples: 24 });
    assert_eq!((conditions.identities, conditions.batch_size), (None, 8));
    assert_eq!(Meta::peek(&path).unwrap().position, position);
}
