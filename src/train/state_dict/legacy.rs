//! Files of `torch.save` before PyTorch 1.6: five pickles (a magic number, the format's version, the
//! machine, the object, the keys of its storages), then for each key how many values it has, as
//! 8 bytes, and these values.

use super::bytes::Bytes;
use super::pickle::{self, Pickle};
use super::value::Value;
use super::{bad, dict, shown};
use crate::error::Result;
use std::borrow::Cow;
use std::collections::BTreeMap;
use tch::Tensor;

const VERSION: i64 = 1001;

/// Whether `bytes` begin as a file of this kind: the magic number 0x1950a86a20f9469cfc6c, pickled in
/// any protocol.
pub(super) fn is(bytes: &[u8]) -> bool {
    const MAGIC: &[u8] = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    // Behind PROTO, or behind PROTO and FRAME.
    [2, 11].iter().any(|at| bytes.get(*at..).is_some_and(|rest| rest.starts_with(MAGIC)))
}

/// The tensors of the file `bytes`.
pub(super) fn read(bytes: &[u8]) -> Result<BTreeMap<String, Tensor>> {
    let mut bytes = Bytes(bytes);
    let _magic = pickle::load(&mut bytes)?;
    if !matches!(pickle::load(&mut bytes)?.value, Value::Int(VERSION)) {
        return Err(bad(format!("a format of torch.save other than {VERSION}")));
    }
    if !is_little_endian(&pickle::load(&mut bytes)?) {
        return Err(bad("it was written on a big-endian machine; save it again on another"));
    }
    let object = pickle::load(&mut bytes)?;
    let storages = storages(&object, &mut bytes)?;
    dict::tensors(&object, |storage| match storages.get(storage.key) {
        Some(bytes) => Ok(Cow::Borrowed(*bytes)),
        None => Err(bad(format!("damaged: it lacks the storage {}", shown(storage.key)))),
    })
}

fn is_little_endian(machine: &Pickle<'_>) -> bool {
    let Value::Dict(machine_dict) = machine.value else { return false };
    let told = |(key, value): &(Value<'_>, Value<'_>)| {
        matches!((key, value), (Value::Text("little_endian"), Value::Bool(true)))
    };
    machine.heap.dicts[machine_dict].iter().any(told)
}

/// Where each storage of `object` lies in `bytes`.
fn storages<'a>(object: &Pickle<'a>, bytes: &mut Bytes<'a>) -> Result<BTreeMap<&'a str, &'a [u8]>> {
    let keys = pickle::load(bytes)?;
    let Value::Sequence(list) = keys.value else {
        return Err(bad("damaged: no list of its storages"));
    };
    let mut found = BTreeMap::new();
    for key in &keys.heap.sequences[list] {
        let storage = match key {
            Value::Text(key) => object.storages.get(key),
            _ => None,
        };
        let storage = storage.ok_or_else(|| bad("damaged: a storage that nothing names"))?;
        let len = bytes.number::<8>()?;
        if len != storage.len as u64 {
            return Err(bad(format!(
                "damaged: the storage {} has {len} values, not {}",
                shown(storage.key),
                storage.len
            )));
        }
        let size = storage.bytes().ok_or_else(|| bad("damaged: a storage beyond any file"))?;
        if found.insert(storage.key, bytes.take(size)?).is_some() {
            return Err(bad(format!("damaged: two of the storage {}", shown(storage.key))));
        }
    }
    Ok(found)
}
