//! Which parameters learn: the head alone, the upper half, or all.

use super::torch;
use crate::error::Result;
use std::collections::HashSet;
use tch::nn::VarStore;

/// What of a network that starts from trained weights goes on learning.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Unfreeze {
    /// The head: `fc`.
    Last,
    /// The head and the last two groups of blocks: `layer3`, `layer4` and `fc`.
    Most,
    /// Everything.
    #[default]
    Full,
}

impl Unfreeze {
    /// Whether the parameter or layer of this name, as torchvision has it, learns.
    pub fn trainable(self, name: &str) -> bool {
        let part = name.split('.').next().unwrap_or_default();
        match self {
            Unfreeze::Last => part == "fc",
            Unfreeze::Most => ["layer3", "layer4", "fc"].contains(&part),
            Unfreeze::Full => true,
        }
    }
}

/// Has libtorch compute the gradients of the parameters that learn, and of no others. Running
/// statistics and counters, which have none, stay as they are.
pub fn apply(variables: &VarStore, unfreeze: Unfreeze) -> Result<()> {
    // Parameters have no names and names no kind: the memory tells which are the same.
    let parameters: HashSet<_> =
        variables.trainable_variables().iter().map(|parameter| parameter.data_ptr()).collect();
    for (name, variable) in variables.variables() {
        if parameters.contains(&variable.data_ptr()) {
            let learns = unfreeze.trainable(&name);
            let _same_tensor = variable.f_set_requires_grad(learns).map_err(torch)?;
        }
    }
    Ok(())
}
