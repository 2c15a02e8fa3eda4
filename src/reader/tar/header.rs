//! The 512 bytes before a member of a tar archive, read and written.
//!
//! ustar (POSIX 1003.1) with what GNU tar and the old Unix tar do otherwise: no magic, sizes in base
//! 256, checksums of signed bytes.

/// Bytes of a header; data are padded to a multiple.
pub(crate) const BLOCK: usize = 512;

/// What a header says.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Header {
    /// Its path in the archive, without a NUL.
    pub(super) name: Vec<u8>,
    /// Bytes of data behind the header, without padding.
    pub(super) size: u64,
    /// The type flag.
    pub(super) kind: u8,
}

/// Reads a header; `None` for a block of zeros, which ends an archive.
pub(super) fn parse(block: &[u8; BLOCK]) -> Result<Option<Header>, &'static str> {
    if block.iter().all(|&byte| byte == 0) {
        return Ok(None);
    }
    let told = octal(&block[148..156]).ok_or(NO_HEADER)?;
    // The checksum's own field counts as blanks.
    let others = || block[..148].iter().chain(&block[156..]);
    let unsigned: u64 = others().map(|&byte| u64::from(byte)).sum::<u64>() + 8 * 32;
    let signed: i64 = others().map(|&byte| i64::from(byte as i8)).sum::<i64>() + 8 * 32;
    if told != unsigned && i64::try_from(told) != Ok(signed) {
        return Err(NO_HEADER);
    }
    let size = number(&block[124..136]).ok_or("its size is no number")?;
    let mut name = Vec::new();
    // GNU tar has other things where POSIX has the prefix, and another magic.
    if block[257..263] == *b"ustar\0" && block[345] != 0 {
        name.extend_from_slice(text(&block[345..500]));
        name.push(b'/');
    }
    name.extend_from_slice(text(&block[..100]));
    Ok(Some(Header { name, size, kind: block[156] }))
}

const NO_HEADER: &str = "no header of a tar archive (its checksum is wrong)";

/// What comes before the first NUL.
fn text(field: &[u8]) -> &[u8] {
    field.split(|&byte| byte == 0).next().unwrap_or_default()
}

/// A number in octal, or in base 256 where the first bit is set.
fn number(field: &[u8]) -> Option<u64> {
    match field {
        [0x80, digits @ ..] => digits
            .iter()
            .try_fold(0_u64, |number, &digit| Some(number.checked_mul(256)? | u64::from(digit))),
        // A negative one, or one of more than 64 bits.
        [0x81..=0xFF, ..] => None,
        _ => octal(field),
    }
}

/// Digits among blanks and NULs. Nothing but those is zero, as other programs write it.
fn octal(field: &[u8]) -> Option<u64> {
    let is_blank = |byte: &u8| matches!(byte, b' ' | 0);
    let start = field.iter().position(|byte| !is_blank(byte)).unwrap_or(field.len());
    let digits = &field[start..];
    let end = digits.iter().position(is_blank).unwrap_or(digits.len());
    let (digits, rest) = digits.split_at(end);
    if !rest.iter().all(is_blank) || !digits.iter().all(|digit| (b'0'..=b'7').contains(digit)) {
        return None;
    }
    Some(digits.iter().fold(0, |number, digit| number << 3 | u64::from(digit - b'0')))
}

/// Appends a member to `out`: the header of a regular file `name` of at most 100 bytes, its content of
/// less than 8 GiB, and padding. The same name and content give the same bytes: no time, no owner.
pub(crate) fn append(out: &mut Vec<u8>, name: &str, content: &[u8]) {
    let start = out.len();
    out.resize(start + BLOCK, 0);
    let block = &mut out[start..];
    let mut put =
        |at: usize, text: &str| block[at..at + text.len()].copy_from_slice(text.as_bytes());
    put(0, name);
    put(100, "0000644\0");
    put(108, "0000000\0");
    put(116, "0000000\0");
    put(124, &format!("{:011o}\0", content.len()));
    put(136, "00000000000\0");
    put(148, "        ");
    put(156, "0");
    put(257, "ustar\x0000");
    let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
    block[148..156].copy_from_slice(format!("{sum:06o}\0 ").as_bytes());
    out.extend_from_slice(content);
    out.resize(out.len().next_multiple_of(BLOCK), 0);
}

#[cfg(test)]
mod tests {
    use super::*;

    fn header(change: impl Fn(&mut [u8])) -> Result<Option<Header>, &'static str> {
        let mut out = Vec::new();
        append(&mut out, "a/b.jpg", b"xyz");
        assert_eq!((out.len(), &out[512..516]), (1024, &b"xyz\0"[..]));
        let block = &mut out[..BLOCK];
        change(block);
        parse((&*block).try_into().unwrap())
    }

    /// The same after the checksum was made to fit.
    fn fitting(change: impl Fn(&mut [u8])) -> Result<Option<Header>, &'static str> {
        header(|block| {
            change(block);
            block[148..156].fill(b' ');
            let sum: u32 = block.iter().map(|&byte| u32::from(byte)).sum();
            block[148..155].copy_from_slice(format!("{sum:07o}").as_bytes());
        })
    }

    fn file(name: &str, size: u64) -> Result<Option<Header>, &'static str> {
        Ok(Some(Header { name: name.into(), size, kind: b'0' }))
    }

    #[test]
    fn what_is_written_is_read() {
        assert_eq!(header(|_| {}), file("a/b.jpg", 3));
        assert_eq!(parse(&[0; BLOCK]), Ok(None));
    }

    #[test]
    fn every_changed_byte_shows() {
        for at in 0..BLOCK {
            let found = header(|block| block[at] ^= 0x41);
            assert_eq!(found, Err(NO_HEADER), "{at}");
        }
    }

    #[test]
    fn other_programs_headers() {
        let put = |at: usize, text: &'static [u8]| {
            fitting(move |block| block[at..at + text.len()].copy_from_slice(text))
        };
        assert_eq!(put(345, b"dir/sub"), file("dir/sub/a/b.jpg", 3));
        // GNU's magic, under which that field is no prefix.
        let gnu = fitting(|block| {
            block[257..265].copy_from_slice(b"ustar  \0");
            block[345..348].copy_from_slice(b"123");
        });
        assert_eq!(gnu, file("a/b.jpg", 3));
        assert_eq!(put(124, b"       1234 "), file("a/b.jpg", 0o1234));
        assert_eq!(put(124, b"\x80\0\0\0\0\0\0\x02\0\0\0\x01"), file("a/b.jpg", (2 << 32) + 1));
        for wrong in
            [&b"\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF\xFF"[..], b"\x80\x01", b"9", b"1 1"]
        {
            let found = fitting(|block| block[124..124 + wrong.len()].copy_from_slice(wrong));
            assert_eq!(found, Err("its size is no number"), "{wrong:?}");
        }
        // Sums of signed bytes, as some old programs made them: two bytes of -1 more.
        let signed = header(|block| {
            block[500] = 0xFF;
            let sum: i64 = block
                .iter()
                .enumerate()
                .map(|(at, &byte)| match at {
                    148..156 => 32,
                    _ => i64::from(byte as i8),
                })
                .sum();
            block[148..155].copy_from_slice(format!("{sum:07o}").as_bytes());
        });
        assert_eq!(signed, file("a/b.jpg", 3));
    }
}
