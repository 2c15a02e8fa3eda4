//! State of a run as a checkpoint has it: tensors by name.

use super::state_dict::shown;
use super::torch;
use crate::error::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use tch::{Tensor, no_grad};

/// Copies into the tensors of `state` those of the same names in `saved`, where others may be whose
/// names do not begin with `prefix`. Where they lie, in which order and as which type is up to
/// `state`.
///
/// # Errors
/// The name that is missing, that is not wanted, or whose shape is another; nothing is copied then.
pub(super) fn restore(
    prefix: &str,
    state: &[(String, Tensor)],
    saved: &BTreeMap<String, Tensor>,
) -> Result<()> {
    let error = |text: String| {
        let text = format!("{text}; resume with the options of the run that saved it");
        Error::new(ErrorKind::Data, text)
    };
    let mut pairs = Vec::with_capacity(state.len());
    for (name, tensor) in state {
        let from = saved.get(name).ok_or_else(|| error(format!("the checkpoint lacks {name}")))?;
        let (there, here) = (from.size(), tensor.size());
        if there != here {
            return Err(error(format!("{name} is {there:?} in the checkpoint, {here:?} here")));
        }
        pairs.push((tensor, from));
    }
    let wanted = |name: &str| state.iter().any(|(wanted, _)| wanted == name);
    let ours = saved.keys().filter(|name| name.starts_with(prefix));
    if let Some(name) = ours.into_iter().find(|name| !wanted(name)) {
        return Err(error(format!(
            "the checkpoint has {}, which this run has no use for",
            shown(name)
        )));
    }
    let copy = |(to, from): (&Tensor, &Tensor)| to.shallow_clone().f_copy_(from);
    no_grad(|| pairs.into_iter().try_for_each(copy)).map_err(torch)
}
