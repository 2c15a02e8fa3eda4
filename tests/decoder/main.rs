//! The decoder: exact pixels, odd and damaged files, limits.

mod cuts;
mod damage;
mod encode;
mod exact;
mod files;
mod formats;
mod found;
mod gpu;
mod metadata;
mod neighbours;
mod own;
mod region;
mod route;
mod shared;

use forebay::decoder::{Decoder, Info, Limits, Pixels};
use forebay::{ErrorKind, Result};

/// A decoder may move to the thread that uses it.
const _: () = {
    const fn send<T: Send>() {}
    send::<Decoder>();
};

/// Decodes with a fresh decoder.
fn decode(bytes: &[u8]) -> Result<(Pixels, Info)> {
    decode_within(Limits::default(), bytes)
}

fn decode_within(limits: Limits, bytes: &[u8]) -> Result<(Pixels, Info)> {
    let mut pixels = Pixels::new();
    let info = Decoder::new(limits).decode(bytes, &mut pixels)?;
    Ok((pixels, info))
}

/// The kind and text of the error that `bytes` must give.
fn refusal(bytes: &[u8]) -> (ErrorKind, String) {
    let error = decode(bytes).err().expect("must be refused");
    assert!(!error.to_string().contains('\n'), "{error}");
    (error.kind(), error.message().to_owned())
}
