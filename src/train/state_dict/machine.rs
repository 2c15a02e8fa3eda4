//! The stack, the memo and the containers of a pickle in the reading, and what its calls come to.

use super::value::{Global, Heap, Storage, Value, View};
use super::{bad, shown};
use crate::error::{Error, Result};
use std::collections::{BTreeMap, HashMap};

/// Axes of a tensor.
const MAX_RANK: usize = 8;

/// What a pickle's opcodes work on.
#[derive(Debug, Default)]
pub(super) struct Machine<'a> {
    pub(super) stack: Vec<Value<'a>>,
    /// Heights of the stack, from where the items of a container in the making lie.
    marks: Vec<usize>,
    /// A map, since the file chooses the numbers.
    pub(super) memo: HashMap<u64, Value<'a>>,
    pub(super) heap: Heap<'a>,
    pub(super) storages: BTreeMap<&'a str, Storage<'a>>,
}

impl<'a> Machine<'a> {
    pub(super) fn pop(&mut self) -> Result<Value<'a>> {
        Ok(self.top(1)?[0])
    }

    /// The last `count` values, in the order in which they came.
    pub(super) fn top(&mut self, count: usize) -> Result<Vec<Value<'a>>> {
        let floor = self.marks.last().copied().unwrap_or(0);
        match self.stack.len().checked_sub(count) {
            Some(start) if start >= floor => Ok(self.stack.split_off(start)),
            _ => Err(odd("a step that lacks its values")),
        }
    }

    pub(super) fn mark(&mut self) {
        self.marks.push(self.stack.len());
    }

    /// What came since the last mark, which is done with.
    pub(super) fn since_mark(&mut self) -> Result<Vec<Value<'a>>> {
        let mark = self.marks.pop().ok_or_else(|| odd("an end without a beginning"))?;
        Ok(self.stack.split_off(mark))
    }

    pub(super) fn sequence(&mut self, items: Vec<Value<'a>>) -> Value<'a> {
        self.heap.sequences.push(items);
        Value::Sequence(self.heap.sequences.len() - 1)
    }

    pub(super) fn dict(&mut self, pairs: Vec<(Value<'a>, Value<'a>)>) -> Value<'a> {
        self.heap.dicts.push(pairs);
        Value::Dict(self.heap.dicts.len() - 1)
    }

    /// Puts `items` at the end of the list on top.
    pub(super) fn extend(&mut self, items: Vec<Value<'a>>) -> Result<()> {
        match self.stack.last() {
            Some(Value::Sequence(list)) => self.heap.sequences[*list].extend(items),
            _ => return Err(odd("items of what is no list")),
        }
        Ok(())
    }

    /// Puts `items`, keys and values in turn, into the dict on top.
    pub(super) fn set(&mut self, items: &[Value<'a>]) -> Result<()> {
        match (self.stack.last(), items.as_chunks()) {
            (Some(Value::Dict(dict)), (pairs, [])) => {
                self.heap.dicts[*dict].extend(pairs.iter().map(|[key, value]| (*key, *value)));
                Ok(())
            }
            _ => Err(odd("items of what is no dict")),
        }
    }

    pub(super) fn memoize(&mut self, number: u64) -> Result<()> {
        let value = self.stack.last().ok_or_else(|| odd("nothing to remember"))?;
        self.memo.insert(number, *value);
        Ok(())
    }

    pub(super) fn recall(&self, number: u64) -> Result<Value<'a>> {
        self.memo.get(&number).copied().ok_or_else(|| odd("a reference to nothing"))
    }

    /// What calling `function` would give.
    pub(super) fn reduce(
        &mut self,
        function: Value<'a>,
        arguments: Value<'a>,
    ) -> Result<Value<'a>> {
        let Value::Global(function) = function else { return Err(odd("a call of a value")) };
        match (function, self.items(arguments)) {
            // Its attributes are left out, as those of a dict are.
            (Global::OrderedDict | Global::Namespace, []) => Ok(self.dict(Vec::new())),
            // Python 2 hands over the items.
            (Global::OrderedDict, [Value::Sequence(items)]) => self.dict_of(*items),
            (
                Global::RebuildTensor,
                [Value::Storage(storage), Value::Int(offset), size, stride, ..],
            ) => {
                let (size, stride) = (self.axes(*size)?, self.axes(*stride)?);
                let view = View { storage: *storage, offset: *offset, size, stride };
                self.heap.views.push(view);
                Ok(Value::Tensor(self.heap.views.len() - 1))
            }
            (Global::RebuildParameter, [tensor @ Value::Tensor(_), ..]) => Ok(*tensor),
            _ => Err(odd("a call with other arguments than PyTorch's")),
        }
    }

    /// A dict of a list of pairs. The list is emptied: filling a dict from it again and again would
    /// cost more than the file is long.
    fn dict_of(&mut self, list: usize) -> Result<Value<'a>> {
        let pair = |item| match self.items(item) {
            [key, value] => Ok((*key, *value)),
            _ => Err(odd("items of a dict that are no pairs")),
        };
        let pairs =
            self.heap.sequences[list].iter().map(|item| pair(*item)).collect::<Result<_>>()?;
        self.heap.sequences[list].clear();
        Ok(self.dict(pairs))
    }

    /// The items of a list or tuple; none of anything else.
    fn items(&self, value: Value<'a>) -> &[Value<'a>] {
        match value {
            Value::Sequence(number) => &self.heap.sequences[number],
            _ => &[],
        }
    }

    /// A tuple of sizes or strides.
    fn axes(&self, value: Value<'a>) -> Result<Vec<i64>> {
        let items = self.items(value);
        if !matches!(value, Value::Sequence(_)) || items.len() > MAX_RANK {
            return Err(odd(&format!("a tensor without a shape of at most {MAX_RANK} axes")));
        }
        let number = |item: &Value<'_>| match item {
            Value::Int(number) => Ok(*number),
            _ => Err(odd("a shape that is not of numbers")),
        };
        items.iter().map(number).collect()
    }

    /// Attributes, such as the versions of a state dict's modules: left out.
    pub(super) fn build(&mut self) -> Result<()> {
        let _attributes = self.pop()?;
        match self.stack.last() {
            Some(Value::Dict(_) | Value::Tensor(_)) => Ok(()),
            _ => Err(odd("attributes of a value that has none")),
        }
    }

    /// `("storage", kind, key, device, length)`, behind which the legacy format has None.
    pub(super) fn persistent(&mut self, id: Value<'a>) -> Result<Value<'a>> {
        // Files of PyTorch before 0.4 could name a part of another storage where now is None.
        let ([id @ .., Value::Other] | id) = self.items(id);
        let [
            Value::Text("storage"),
            Value::Global(Global::Storage(kind)),
            Value::Text(key),
            _,
            Value::Int(len @ 0..),
        ] = *id
        else {
            return Err(odd("a reference that is no storage of PyTorch's"));
        };
        let storage = Storage { key, kind, len };
        if *self.storages.entry(key).or_insert(storage) != storage {
            return Err(odd(&format!("two accounts of the storage {}", shown(key))));
        }
        Ok(Value::Storage(storage))
    }
}

/// An error about what the pickle says.
pub(super) fn odd(what: &str) -> Error {
    bad(format!("damaged, or not a plain state dict: its pickle has {what}"))
}
