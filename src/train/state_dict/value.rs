//! What a pickle of `torch.save` can hold, as far as a state dict needs it.
//!
//! Containers lie in a [`Heap`] and values name them by number: dropping, and what a file nests or
//! makes contain itself, then costs no recursion.

use super::bad;
use crate::error::Result;
use tch::Kind;

/// A value on the machine's stack. Strings lie in the file's own bytes.
#[derive(Debug, Clone, Copy)]
pub(super) enum Value<'a> {
    Bool(bool),
    Int(i64),
    Text(&'a str),
    /// A list or a tuple: its number in [`Heap::sequences`].
    Sequence(usize),
    /// A dict, ordered or not: its number in [`Heap::dicts`].
    Dict(usize),
    Global(Global),
    Storage(Storage<'a>),
    /// Its number in [`Heap::views`].
    Tensor(usize),
    /// None, floats, bytes and integers beyond 64 bits, which no weight depends on.
    Other,
}

/// The containers of a pickle. Nothing is ever taken out, so that every number stays valid.
#[derive(Debug, Default)]
pub(super) struct Heap<'a> {
    pub(super) sequences: Vec<Vec<Value<'a>>>,
    pub(super) dicts: Vec<Vec<(Value<'a>, Value<'a>)>>,
    pub(super) views: Vec<View<'a>>,
}

/// Values of one kind, which lie elsewhere in the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Storage<'a> {
    /// The name under which the file has the bytes.
    pub(super) key: &'a str,
    pub(super) kind: Kind,
    /// Values, not bytes; never below 0.
    pub(super) len: i64,
}

impl Storage<'_> {
    /// How many bytes it takes; `None` where that is beyond any file.
    pub(super) fn bytes(&self) -> Option<usize> {
        usize::try_from(self.len).ok()?.checked_mul(self.kind.elt_size_in_bytes())
    }
}

/// A tensor as a file describes it: not yet checked.
#[derive(Debug, Clone)]
pub(super) struct View<'a> {
    pub(super) storage: Storage<'a>,
    /// The place of the first value in the storage. As strides, in values.
    pub(super) offset: i64,
    pub(super) size: Vec<i64>,
    pub(super) stride: Vec<i64>,
}

/// What a pickle may ask for by name. Nothing of it is code: each is a case of the machine.
#[derive(Debug, Clone, Copy)]
pub(super) enum Global {
    OrderedDict,
    /// argparse's, in which timm's trainer leaves its settings.
    Namespace,
    RebuildTensor,
    RebuildParameter,
    Storage(Kind),
}

impl Global {
    /// # Errors
    /// Any other name, which the message tells.
    pub(super) fn find(module: &str, name: &str) -> Result<Self> {
        Ok(match (module, name) {
            ("collections", "OrderedDict") => Global::OrderedDict,
            ("argparse", "Namespace") => Global::Namespace,
            // The older one, of files from before PyTorch 0.4, has the same first four arguments.
            ("torch._utils", "_rebuild_tensor_v2" | "_rebuild_tensor") => Global::RebuildTensor,
            ("torch._utils", "_rebuild_parameter") => Global::RebuildParameter,
            ("torch", "FloatStorage") => Global::Storage(Kind::Float),
            ("torch", "DoubleStorage") => Global::Storage(Kind::Double),
            ("torch", "HalfStorage") => Global::Storage(Kind::Half),
            ("torch", "BFloat16Storage") => Global::Storage(Kind::BFloat16),
            ("torch", "LongStorage") => Global::Storage(Kind::Int64),
            ("torch", "IntStorage") => Global::Storage(Kind::Int),
            ("torch", "ShortStorage") => Global::Storage(Kind::Int16),
            ("torch", "CharStorage") => Global::Storage(Kind::Int8),
            ("torch", "ByteStorage") => Global::Storage(Kind::Uint8),
            ("torch", "BoolStorage") => Global::Storage(Kind::Bool),
            _ => {
                let asked = format!("{module}.{name}");
                return Err(bad(format!(
                    "the file asks for {}: it is not a plain state dict; in Python: \
                     torch.save(model.state_dict(), \"weights.pth\")",
                    super::shown(&asked)
                )));
            }
        })
    }
}
