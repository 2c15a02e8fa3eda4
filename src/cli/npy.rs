//! NumPy's array files, version 1.0.

use forebay::error::Result;
use forebay::file;
use forebay::tensor::TensorView;
use std::io::Write;
use std::path::Path;

/// Writes `array` to `path`, replacing what is there.
pub(crate) fn write(path: &Path, array: TensorView<'_>) -> Result<()> {
    write_bytes(path, array.dtype.npy(), array.shape, array.bytes)
}

/// The same for a type that tensors do not have, by NumPy's descriptor.
pub(crate) fn write_bytes(path: &Path, descr: &str, shape: &[usize], bytes: &[u8]) -> Result<()> {
    let parts = [&header(descr, shape), bytes];
    file::put(path, |file| parts.iter().try_for_each(|part| file.write_all(part)))
}

/// Magic, version, length and description, padded so that the elements start on a 64-byte boundary
/// of the file and can be mapped.
fn header(descr: &str, shape: &[usize]) -> Vec<u8> {
    const PREFIX: usize = 10;
    let sizes: String = shape.iter().map(|size| format!("{size}, ")).collect();
    // Python writes a tuple of one as `(n,)`, longer ones without the last comma.
    let sizes = if shape.len() == 1 { sizes.trim_end() } else { sizes.trim_end_matches(", ") };
    let mut text = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({sizes}), }}");
    let len = (PREFIX + text.len() + 1).next_multiple_of(64) - PREFIX;
    text.extend(std::iter::repeat_n(' ', len - text.len() - 1));
    text.push('\n');
    let len = u16::try_from(len).expect("a batch has few axes");
    [b"\x93NUMPY\x01\x00", &len.to_le_bytes()[..], text.as_bytes()].concat()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The header that `numpy.save` writes for the same array.
    #[test]
    fn as_numpy_writes_it() {
        let text = b"{'descr': '<f4', 'fortran_order': False, 'shape': (2, 3, 32, 32), }";
        let header = header("<f4", &[2, 3, 32, 32]);
        assert_eq!(header.len(), 128);
        assert_eq!(&header[..10], b"\x93NUMPY\x01\x00v\x00");
        assert!(header[10..].starts_with(text));
        assert!(header[10 + text.len()..127].iter().all(|&b| b == b' '));
        assert_eq!(header[127], b'\n');
    }

    #[test]
    fn shapes_are_python_tuples() {
        for (shape, text) in [(&[][..], "()"), (&[7], "(7,)"), (&[7, 2], "(7, 2)")] {
            let header = String::from_utf8_lossy(&header("|b1", shape)).into_owned();
            assert!(header.contains(&format!("'shape': {text}, }}")), "{header}");
        }
    }
}
