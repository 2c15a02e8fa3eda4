//! The machine for pickles: any bytes as the pickle of a sound archive, whose checksums chance damage
//! cannot reproduce, and of a file in the older format.

use super::input::Input;
use super::pickling::{self, Storage};
use super::weights::told;
use crate::train::state_dict;

thread_local! {
    static FILE: Input = Input::named("pickle.pth");
}

/// Tensors, or an error, from either file.
pub fn run(bytes: &[u8]) -> String {
    FILE.with(|file| {
        let read = |bytes: &[u8]| told(state_dict::read(file.put(bytes)));
        format!("{}; {}", read(&zipped(bytes)), read(&legacy(bytes)))
    })
}

/// What the pickle may name: six f32 and one i64.
fn storages() -> [Storage; 2] {
    [("0", (0..24).collect(), 4), ("1", (0..8).collect(), 8)]
}

/// An archive around `pickle`.
pub fn zipped(pickle: &[u8]) -> Vec<u8> {
    pickling::zipped(pickle, &storages())
}

/// The same in the older format, which may hold no storage that is not named.
pub fn legacy(pickle: &[u8]) -> Vec<u8> {
    let mut storages = storages().to_vec();
    storages.retain(|(key, ..)| memchr::memmem::find(pickle, &pickling::text(key)).is_some());
    pickling::legacy(pickle, &storages)
}
