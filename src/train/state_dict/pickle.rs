//! A machine for the pickles of `torch.save` that runs no code.
//!
//! It knows the opcodes that Python's pickler writes for dicts, lists, tuples, strings and numbers in
//! protocols 2 to 5, and the few names of [`Global`]; anything else is refused. The opcodes are those
//! of Python's `pickletools`.

use super::bad;
use super::bytes::{Bytes, text};
use super::machine::{Machine, odd};
use super::value::{Global, Heap, Storage, Value};
use crate::error::Result;
use std::collections::BTreeMap;

/// Opcodes of one pickle. Each takes constant memory beside the strings, which stay where they are,
/// so that this bounds stack, marks, memo and containers, too. A ResNet-18 takes about 4,000.
const MAX_STEPS: usize = 1 << 20;

/// What a pickle holds.
#[derive(Debug)]
pub(super) struct Pickle<'a> {
    pub(super) value: Value<'a>,
    pub(super) heap: Heap<'a>,
    /// Every storage that it names, by key.
    pub(super) storages: BTreeMap<&'a str, Storage<'a>>,
}

/// Reads the pickle at the front of `bytes`, which are then those behind it.
///
/// # Errors
/// Damage, and whatever a state dict does not need.
pub(super) fn load<'a>(bytes: &mut Bytes<'a>) -> Result<Pickle<'a>> {
    let mut machine = Machine::default();
    for _ in 0..MAX_STEPS {
        let [opcode] = bytes.array()?;
        if opcode == b'.' {
            let value = machine.pop()?;
            return Ok(Pickle { value, heap: machine.heap, storages: machine.storages });
        }
        machine.step(opcode, bytes)?;
    }
    Err(bad(format!("its pickle takes more than {MAX_STEPS} steps: not a plain state dict")))
}

impl<'a> Machine<'a> {
    fn step(&mut self, opcode: u8, bytes: &mut Bytes<'a>) -> Result<()> {
        let value = match opcode {
            // PROTO and FRAME.
            0x80 => {
                let version = bytes.number::<1>()?;
                if !(2..=5).contains(&version) {
                    return Err(bad(format!("a pickle of protocol {version}, not of 2 to 5")));
                }
                return Ok(());
            }
            0x95 => return bytes.array::<8>().map(drop),

            // NONE and BINFLOAT, and bytes: SHORT_BINBYTES, BINBYTES, BINBYTES8, BYTEARRAY8.
            b'N' => Value::Other,
            b'G' => bytes.array::<8>().map(|_| Value::Other)?,
            b'C' => bytes.counted::<1>().map(|_| Value::Other)?,
            b'B' => bytes.counted::<4>().map(|_| Value::Other)?,
            0x8e | 0x96 => bytes.counted::<8>().map(|_| Value::Other)?,
            // NEWTRUE and NEWFALSE.
            0x88 => Value::Bool(true),
            0x89 => Value::Bool(false),
            // BININT, BININT1, BININT2, LONG1 and LONG4.
            b'J' => Value::Int(i32::from_le_bytes(bytes.array()?).into()),
            b'K' => Value::Int(bytes.number::<1>()? as i64),
            b'M' => Value::Int(bytes.number::<2>()? as i64),
            0x8a => integer(bytes.counted::<1>()?),
            0x8b => integer(bytes.counted::<4>()?),
            // BINUNICODE, SHORT_BINUNICODE and BINUNICODE8; Python 2's SHORT_BINSTRING and BINSTRING.
            b'X' | b'T' => Value::Text(text(bytes.counted::<4>()?)?),
            0x8c | b'U' => Value::Text(text(bytes.counted::<1>()?)?),
            0x8d => Value::Text(text(bytes.counted::<8>()?)?),

            // EMPTY_DICT, EMPTY_LIST and EMPTY_TUPLE; TUPLE1 to TUPLE3; MARK and TUPLE.
            b'}' => self.dict(Vec::new()),
            b']' | b')' => self.sequence(Vec::new()),
            0x85..=0x87 => {
                let items = self.top(usize::from(opcode - 0x84))?;
                self.sequence(items)
            }
            b'(' => {
                self.mark();
                return Ok(());
            }
            b't' => {
                let items = self.since_mark()?;
                self.sequence(items)
            }
            // APPEND, APPENDS, SETITEM and SETITEMS.
            b'a' => {
                let item = self.pop()?;
                return self.extend(vec![item]);
            }
            b'e' => {
                let items = self.since_mark()?;
                return self.extend(items);
            }
            b's' => {
                let pair = self.top(2)?;
                return self.set(&pair);
            }
            b'u' => {
                let items = self.since_mark()?;
                return self.set(&items);
            }

            // BINPUT, LONG_BINPUT and MEMOIZE; BINGET and LONG_BINGET.
            b'q' => return bytes.number::<1>().and_then(|number| self.memoize(number)),
            b'r' => return bytes.number::<4>().and_then(|number| self.memoize(number)),
            0x94 => return self.memoize(self.memo.len() as u64),
            b'h' => self.recall(bytes.number::<1>()?)?,
            b'j' => self.recall(bytes.number::<4>()?)?,

            // GLOBAL, STACK_GLOBAL, REDUCE and NEWOBJ, BUILD and BINPERSID.
            b'c' => Value::Global(Global::find(bytes.line()?, bytes.line()?)?),
            0x93 => match self.top(2)?[..] {
                [Value::Text(module), Value::Text(name)] => {
                    Value::Global(Global::find(module, name)?)
                }
                _ => return Err(odd("a name that is no text")),
            },
            b'R' | 0x81 => {
                let (arguments, function) = (self.pop()?, self.pop()?);
                self.reduce(function, arguments)?
            }
            b'b' => return self.build(),
            b'Q' => {
                let id = self.pop()?;
                self.persistent(id)?
            }
            _ => return Err(odd(&format!("opcode 0x{opcode:02x}"))),
        };
        self.stack.push(value);
        Ok(())
    }
}

/// A little-endian two's complement number.
fn integer<'a>(bytes: &[u8]) -> Value<'a> {
    let negative = bytes.last().is_some_and(|byte| *byte >= 0x80);
    let mut wide = [if negative { 0xff } else { 0 }; 8];
    match wide.get_mut(..bytes.len()) {
        Some(low) => low.copy_from_slice(bytes),
        None => return Value::Other,
    }
    Value::Int(i64::from_le_bytes(wide))
}
