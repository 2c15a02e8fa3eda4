//! What a run leaves behind.

use crate::train::checkpoint::{Meta, Store};
use crate::train::resnet::Stem;
use crate::{meta, model, seeded};
use safetensors::SafeTensors;
use tch::Tensor;

#[test]
fn a_checkpoint_holds_dense_weights_and_its_story() {
    let _turn = seeded(4);
    let (variables, _) = model(Stem::Imagenet, 10);
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(&dir.path().join("new/run")).unwrap();
    store.save(&variables.variables(), &meta()).unwrap();
    let left: Vec<_> = store.last().parent().unwrap().read_dir().unwrap().collect();
    assert_eq!(left.len(), 1, "nothing but the checkpoint is left: {left:?}");

    let bytes = std::fs::read(store.last()).unwrap();
    let file = SafeTensors::deserialize(&bytes).unwrap();
    let (_, header) = SafeTensors::read_metadata(&bytes).unwrap();
    let story = &header.metadata().as_ref().unwrap()[Meta::KEY];
    assert_eq!(serde_json::from_str::<Meta>(story).unwrap(), meta());
    let variables = variables.variables();
    assert_eq!(file.len(), variables.len());
    for (name, tensor) in variables {
        let saved = file.tensor(&name).unwrap();
        let shape: Vec<i64> = saved.shape().iter().map(|size| *size as i64).collect();
        assert_eq!(shape, tensor.size(), "{name}");
        let saved = Tensor::from_data_size(saved.data(), &shape, tensor.kind());
        assert!(saved.equal(&tensor), "{name}");
    }
}

#[test]
fn a_failed_save_keeps_the_checkpoint_before() {
    let _turn = seeded(5);
    let dir = tempfile::tempdir().unwrap();
    let store = Store::open(dir.path()).unwrap();
    std::fs::write(store.last(), "older").unwrap();
    // A directory in the way of the temporary file, since root may write anywhere.
    std::fs::create_dir(dir.path().join(".last.safetensors.partial")).unwrap();
    let error = store.save(&Default::default(), &meta()).unwrap_err();
    assert_eq!(error.path(), Some(store.last().as_path()));
    assert_eq!(std::fs::read(store.last()).unwrap(), b"older");

    let error = Store::open(&store.last()).unwrap_err().to_string();
    assert!(error.contains("cannot create the directory"), "{error}");
}

#[test]
fn versions_count_up() {
    let dir = tempfile::tempdir().unwrap();
    for version in ["version_0", "version_1"] {
        let store = Store::next_version(dir.path()).unwrap();
        assert_eq!(store.last(), dir.path().join(version).join(Store::LAST));
    }
}
