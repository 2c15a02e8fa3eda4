//! Writes what `torch.save` writes, piece by piece, so that each piece can be made wrong.

use std::io::{Cursor, Write};
use zip::write::{SimpleFileOptions, ZipWriter};

pub(crate) fn text(text: &str) -> Vec<u8> {
    [&b"X"[..], &(text.len() as u32).to_le_bytes(), text.as_bytes()].concat()
}

/// As LONG1 of 8 bytes, whatever its size.
pub(crate) fn int(number: i64) -> Vec<u8> {
    [&b"\x8a\x08"[..], &number.to_le_bytes()].concat()
}

pub(crate) fn sequence(items: &[Vec<u8>]) -> Vec<u8> {
    [b"(".to_vec(), items.concat(), b"t".to_vec()].concat()
}

pub(crate) fn dict(pairs: &[(&str, Vec<u8>)]) -> Vec<u8> {
    let pairs = pairs.iter().flat_map(|(key, value)| [text(key), value.clone()]);
    [b"}(".to_vec(), pairs.collect::<Vec<_>>().concat(), b"u".to_vec()].concat()
}

pub(crate) fn call(module: &str, name: &str, arguments: &[Vec<u8>]) -> Vec<u8> {
    [global(module, name), sequence(arguments), b"R".to_vec()].concat()
}

fn global(module: &str, name: &str) -> Vec<u8> {
    format!("c{module}\n{name}\n").into_bytes()
}

/// A tensor over values that lie elsewhere in the file.
#[derive(Clone, Copy)]
pub(crate) struct Tensor<'a> {
    pub(crate) kind: &'a str,
    pub(crate) key: &'a str,
    pub(crate) len: i64,
    pub(crate) offset: i64,
    pub(crate) size: &'a [i64],
    pub(crate) stride: &'a [i64],
}

impl Tensor<'_> {
    pub(crate) fn pickled(&self) -> Vec<u8> {
        self.rebuilt("_rebuild_tensor_v2")
    }

    /// By a function of `torch._utils`.
    pub(crate) fn rebuilt(&self, function: &str) -> Vec<u8> {
        let id = [text("storage"), global("torch", self.kind), text(self.key), text("cpu")];
        let id = sequence(&[id.concat(), int(self.len)]);
        let axes = |axes: &[i64]| sequence(&axes.iter().map(|n| int(*n)).collect::<Vec<_>>());
        let hooks = call("collections", "OrderedDict", &[]);
        let arguments = [
            [id, b"Q".to_vec()].concat(),
            int(self.offset),
            axes(self.size),
            axes(self.stride),
            b"\x89".to_vec(),
            hooks,
        ];
        call("torch._utils", function, &arguments)
    }
}

pub(crate) fn pickle(object: &[u8]) -> Vec<u8> {
    [b"\x80\x02", object, b"."].concat()
}

/// A storage: its key, its bytes, and how many of them are one value.
pub(crate) type Storage = (&'static str, Vec<u8>, usize);

/// The zip archive since PyTorch 1.6.
pub(crate) fn zipped(pickle: &[u8], storages: &[Storage]) -> Vec<u8> {
    ordered(pickle, storages, b"little")
}

/// The same with another byte order.
pub(crate) fn ordered(pickle: &[u8], storages: &[Storage], order: &[u8]) -> Vec<u8> {
    let mut zip = ZipWriter::new(Cursor::new(Vec::new()));
    let fixed = [("w/data.pkl".to_string(), pickle), ("w/byteorder".to_string(), order)];
    let data = storages.iter().map(|(key, bytes, _)| (format!("w/data/{key}"), &bytes[..]));
    for (name, bytes) in fixed.into_iter().chain(data) {
        zip.start_file(name, SimpleFileOptions::default()).unwrap();
        zip.write_all(bytes).unwrap();
    }
    zip.finish().unwrap().into_inner()
}

/// The format before it.
pub(crate) fn legacy(object: &[u8], storages: &[Storage]) -> Vec<u8> {
    let magic = b"\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";
    let machine = dict(&[
        ("protocol_version", int(1001)),
        ("little_endian", b"\x88".to_vec()),
        ("type_sizes", dict(&[("int", int(4))])),
    ]);
    let keys: Vec<_> = storages.iter().map(|(key, ..)| text(key)).collect();
    let mut file = [pickle(magic), pickle(&int(1001)), pickle(&machine), object.to_vec()].concat();
    file.extend(pickle(&sequence(&keys)));
    for (_, bytes, size) in storages {
        file.extend(((bytes.len() / size) as u64).to_le_bytes());
        file.extend(bytes);
    }
    file
}
