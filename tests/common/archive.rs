//! Tar archives byte by byte, as other programs write them and as none should.
#![allow(dead_code)] // Each binary uses a part.

/// A member of type `kind`, header and padded content. Names of more than 100 bytes are cut.
pub(crate) fn member(kind: u8, name: &str, content: &[u8]) -> Vec<u8> {
    let mut block = vec![0; 512];
    let name = &name.as_bytes()[..name.len().min(100)];
    block[..name.len()].copy_from_slice(name);
    block[100..108].copy_from_slice(b"0000644\0");
    block[124..136].copy_from_slice(format!("{:011o}\0", content.len()).as_bytes());
    block[156] = kind;
    block[257..265].copy_from_slice(b"ustar\x0000");
    fit(&mut block);
    block.extend_from_slice(content);
    block.resize(block.len().next_multiple_of(512), 0);
    block
}

/// A regular file.
pub(crate) fn file(name: &str, content: &[u8]) -> Vec<u8> {
    member(b'0', name, content)
}

/// An image with its label.
pub(crate) fn sample(key: &str, image: &[u8], label: &str) -> Vec<u8> {
    [file(&format!("{key}.jpg"), image), file(&format!("{key}.cls"), label.as_bytes())].concat()
}

/// A PAX header of one record.
pub(crate) fn pax(kind: u8, key: &str, value: &str) -> Vec<u8> {
    let rest = format!(" {key}={value}\n");
    // The length counts its own digits.
    let length = (1..).find(|n: &usize| n.to_string().len() + rest.len() == *n).unwrap();
    member(kind, "PaxHeaders/x", format!("{length}{rest}").as_bytes())
}

/// Members, and the blocks that end an archive.
pub(crate) fn archive(members: &[Vec<u8>]) -> Vec<u8> {
    let mut bytes = members.concat();
    bytes.resize(bytes.len() + 1024, 0);
    bytes
}

/// Puts the checksum that fits into a header.
pub(crate) fn fit(header: &mut [u8]) {
    header[148..156].fill(b' ');
    let sum: u32 = header[..512].iter().map(|&byte| u32::from(byte)).sum();
    header[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
}
