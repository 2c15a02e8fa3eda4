//! Starting from trained weights: what a file has goes into the network's parameters by name.

use super::resnet::Stem;
use super::state_dict::shown;
use super::torch;
use crate::error::{Error, ErrorKind, Result};
use std::collections::BTreeMap;
use std::fmt;
use tch::nn::VarStore;
use tch::{Tensor, no_grad};

/// What became of a file's weights. Shown, it is one to four lines for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    /// Tensors that were taken.
    pub taken: usize,
    /// The classes of the file's head and of the network's, where they differ: the head was left.
    pub head: Option<(i64, i64)>,
    /// Names of the network that the file lacks, in order.
    pub missing: Vec<String>,
    /// Names of the file that the network lacks, in order.
    pub unexpected: Vec<String>,
}

/// Copies `tensors`, named as torchvision does, into `variables`, whose types, layouts and devices
/// stay what they are.
///
/// A head (`fc.weight`, `fc.bias`) for another number of classes is not taken; what either side lacks
/// is told, but for a missing `num_batches_tracked`, which PyTorch before 0.4.1 did not have.
///
/// # Errors
/// Another shape under the same name, and no name in common. The network is then unchanged.
pub fn load(variables: &VarStore, tensors: &BTreeMap<String, Tensor>) -> Result<Report> {
    let ours: BTreeMap<_, _> = variables.variables().into_iter().collect();
    let head = match (tensors.get(HEAD), ours.get(HEAD)) {
        (Some(theirs), Some(ours)) => differing_heads(&theirs.size(), &ours.size()),
        _ => None,
    };
    let mut report = Report { taken: 0, head, missing: Vec::new(), unexpected: Vec::new() };
    let mut copies = Vec::new();
    for (name, ours) in ours.iter().filter(|(name, _)| head.is_none() || !name.starts_with("fc.")) {
        match tensors.get(name) {
            Some(theirs) if theirs.size() == ours.size() => copies.push((ours, theirs)),
            Some(theirs) => return Err(mismatch(name, &theirs.size(), &ours.size())),
            None if name.ends_with(".num_batches_tracked") => {}
            None => report.missing.push(name.clone()),
        }
    }
    if copies.is_empty() {
        let first = tensors.keys().next().map_or("", String::as_str);
        return Err(Error::new(
            ErrorKind::Data,
            format!(
                "none of its {} tensors is one of this ResNet-18: the first is {}",
                tensors.len(),
                shown(first)
            ),
        ));
    }
    report.taken = copies.len();
    report.unexpected = tensors.keys().filter(|name| !ours.contains_key(*name)).cloned().collect();
    no_grad(|| copies.into_iter().try_for_each(|(to, from)| to.shallow_clone().f_copy_(from)))
        .map_err(torch)?;
    Ok(report)
}

/// The stem whose first convolution has weights of this size.
pub fn stem(conv1: &[i64]) -> Option<Stem> {
    match conv1 {
        [64, 3, 7, 7] => Some(Stem::Imagenet),
        [64, 3, 3, 3] => Some(Stem::Cifar),
        _ => None,
    }
}

const HEAD: &str = "fc.weight";

/// The classes of both where nothing else differs.
fn differing_heads(theirs: &[i64], ours: &[i64]) -> Option<(i64, i64)> {
    match (theirs, ours) {
        (&[theirs, a], &[ours, b]) if a == b && theirs != ours => Some((theirs, ours)),
        _ => None,
    }
}

fn mismatch(name: &str, theirs: &[i64], ours: &[i64]) -> Error {
    let fits = match stem(theirs).filter(|_| name == "conv1.weight") {
        Some(Stem::Imagenet) => "; --stem imagenet fits",
        Some(Stem::Cifar) => "; --stem cifar fits",
        None => "",
    };
    let (theirs, ours) = (size(theirs), size(ours));
    let text = format!("{name} is {theirs} in the file and {ours} in the model{fits}");
    Error::new(ErrorKind::Data, text)
}

/// `64x3x7x7`.
fn size(axes: &[i64]) -> String {
    match axes {
        [] => "a single value".to_string(),
        _ => axes.iter().map(i64::to_string).collect::<Vec<_>>().join("x"),
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} tensors taken", self.taken)?;
        if let Some((theirs, ours)) = self.head {
            write!(f, "\nhead left as drawn: the file's has {theirs} classes, this one {ours}")?;
        }
        if !self.missing.is_empty() {
            write!(f, "\nleft as drawn, not in the file: {}", all(&self.missing))?;
        }
        if !self.unexpected.is_empty() {
            write!(f, "\nnot taken, not in the model: {}", all(&self.unexpected))?;
        }
        Ok(())
    }
}

fn all(names: &[String]) -> String {
    names.iter().map(|name| shown(name)).collect::<Vec<_>>().join(", ")
}

/// Names for a line of a terminal: the first five, and how many more there are.
pub fn some(names: &[String]) -> String {
    const SHOWN: usize = 5;
    let first: Vec<_> = names.iter().take(SHOWN).map(|name| shown(name)).collect();
    match names.len().saturating_sub(SHOWN) {
        0 => first.join(", "),
        more => format!("{} and {more} more", first.join(", ")),
    }
}
