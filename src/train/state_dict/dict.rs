//! From a pickle to tensors: finds the state dict in it and checks each tensor against its storage.

use super::pickle::Pickle;
use super::value::{Storage, Value, View};
use super::{bad, elements, shown, tensor};
use crate::error::Result;
use crate::train::torch;
use std::borrow::Cow;
use std::collections::BTreeMap;
use tch::Tensor;

/// Where training scripts, Lightning and timm keep the state dict among other things.
const WRAPPERS: [&str; 3] = ["state_dict", "model", "model_state_dict"];

/// The tensors of the state dict in `pickle`, each a view of its storage, by name. `read` gives the
/// bytes of a storage and is called once for each that is needed.
///
/// # Errors
/// No state dict; a tensor that reaches beyond its storage; a storage of another size than the pickle
/// says; and those of `read`.
pub(super) fn tensors<'a>(
    pickle: &Pickle<'a>,
    mut read: impl FnMut(Storage<'a>) -> Result<Cow<'a, [u8]>>,
) -> Result<BTreeMap<String, Tensor>> {
    let mut storages = BTreeMap::new();
    let mut tensors = BTreeMap::new();
    for (name, view) in views(pickle)? {
        check(view).map_err(|e| e.about(shown(name)))?;
        let Storage { key, kind, len } = view.storage;
        if !storages.contains_key(key) {
            let values =
                tensor(kind, &[len], &read(view.storage)?).map_err(|e| e.about(shown(name)))?;
            storages.insert(key, values);
        }
        let values = storages[key].f_as_strided(&view.size, &view.stride, view.offset);
        if tensors.insert(name.to_string(), values.map_err(torch)?).is_some() {
            return Err(bad(format!("it holds {} twice", shown(name))));
        }
    }
    Ok(tensors)
}

/// The named tensors of the dict that holds them. What is no tensor beside them is of no interest.
fn views<'p, 'a>(pickle: &'p Pickle<'a>) -> Result<Vec<(&'a str, &'p View<'a>)>> {
    let Value::Dict(outer) = pickle.value else {
        return Err(bad(
            "it holds no state dict; in Python: torch.save(model.state_dict(), \"weights.pth\")",
        ));
    };
    let outer = &pickle.heap.dicts[outer];
    let wrapped = WRAPPERS.iter().find_map(|wrapper| {
        outer.iter().find_map(|pair| match *pair {
            (Value::Text(key), Value::Dict(inner)) if key == *wrapper => Some(inner),
            _ => None,
        })
    });
    let dict = wrapped.map_or(outer, |inner| &pickle.heap.dicts[inner]);
    let named = dict.iter().filter_map(|pair| match *pair {
        (Value::Text(name), Value::Tensor(view)) => Some((name, &pickle.heap.views[view])),
        _ => None,
    });
    Ok(named.collect())
}

/// Every index of `view` lies in its storage. Strides may make values appear twice.
fn check(view: &View<'_>) -> Result<()> {
    let outside = || {
        let View { storage, offset, size, stride } = view;
        bad(format!(
            "size {size:?}, stride {stride:?} and offset {offset} reach beyond its storage of {} \
             values",
            storage.len
        ))
    };
    let starts_within = (0..=view.storage.len).contains(&view.offset);
    let backwards = view.stride.iter().any(|stride| *stride < 0);
    if view.size.len() != view.stride.len() || !starts_within || backwards {
        return Err(outside());
    }
    if elements(&view.size)? == 0 {
        return Ok(());
    }
    let last = view.size.iter().zip(&view.stride).try_fold(view.offset, |last, (size, stride)| {
        last.checked_add((size - 1).checked_mul(*stride)?)
    });
    match last {
        Some(last) if last < view.storage.len => Ok(()),
        _ => Err(outside()),
    }
}
