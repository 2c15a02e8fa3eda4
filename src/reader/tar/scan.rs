//! Samples in a tar archive of the WebDataset layout, found without an index.
//!
//! A sample is a run of members with the same key, which is a member's path up to the first dot of its
//! file name: `a/17.jpg` and `a/17.cls` are sample `a/17`. One of them is the image, told by its
//! extension, and `.cls` holds the label as digits; others are not looked at. Names without a key
//! (hidden files, names without a dot) and `__meta__` names are passed over, as WebDataset does.

use super::members::{Member, Members, fault, gone};
use super::table::{Sample, Table};
use crate::error::Result;
use crate::reader::map::Map;

/// Extensions of images, in lower case.
pub(crate) const IMAGES: [&str; 12] =
    ["jpg", "jpeg", "png", "webp", "bmp", "gif", "tif", "tiff", "ppm", "pgm", "pbm", "pam"];

/// Bytes of a label's member.
const LABEL_LIMIT: u64 = 64;

/// Adds the samples of `shard` to the shard of `table` that was begun. Errors say at which byte.
pub(super) fn scan(shard: &Map, table: &mut Table) -> Result<()> {
    let mut members = Members::new(shard);
    let mut run: Option<Run> = None;
    while let Some(member) = members.next()? {
        let Some((key, extension)) = split(&member.name) else { continue };
        if run.as_ref().is_none_or(|run| run.key != key) {
            let next = Run { key: key.to_vec(), start: member.start, image: None, label: None };
            if let Some(done) = run.replace(next) {
                done.finish(table)?;
            }
        }
        let run = run.as_mut().expect("just begun, or going on");
        let extension = extension.to_ascii_lowercase();
        if extension == b"cls" {
            if run.label.is_some() {
                return Err(fault(member.start, format!("{} has two labels", run.told())));
            }
            run.label = Some(label(shard, run, &member)?);
        } else if IMAGES.iter().any(|image| image.as_bytes() == extension) {
            if run.image.is_some() {
                let what = format!("{} has several images, and one is read", run.told());
                return Err(fault(member.start, what));
            }
            run.image = Some(member);
        }
    }
    run.map_or(Ok(()), |last| last.finish(table))
}

/// Members of one key, so far.
struct Run {
    key: Vec<u8>,
    /// Where the content of the first of them starts.
    start: u64,
    image: Option<Member>,
    label: Option<i64>,
}

impl Run {
    fn told(&self) -> String {
        format!("sample {:?}", String::from_utf8_lossy(&self.key))
    }

    fn finish(self, table: &mut Table) -> Result<()> {
        let missing = match (&self.image, self.label) {
            (Some(image), Some(label)) => {
                let bytes = u32::try_from(image.size).map_err(|_| {
                    fault(image.start, format!("{} has {} bytes", self.told(), image.size))
                })?;
                let sample = Sample { start: image.start, bytes, label, check: 0 };
                return table.push(sample, &image.name).map_err(|e| e.at_offset(image.start));
            }
            (None, _) => "no image (a member that ends in .jpg, .png, …)",
            (Some(_), None) => "no .cls member with its label (.json and .txt are not read)",
        };
        let what = format!("{} has {missing}; its members must follow one another", self.told());
        Err(fault(self.start, what))
    }
}

/// The label that a `.cls` member holds.
fn label(shard: &Map, run: &Run, member: &Member) -> Result<i64> {
    let Member { start, size, .. } = *member;
    let wrong = |found: &str| {
        let what = "expected an integer from 0 up";
        fault(start, format!("the label of {} is {found}, {what}", run.told()))
    };
    if size > LABEL_LIMIT {
        return Err(wrong(&format!("{size} bytes long")));
    }
    let mut bytes = vec![0; size as usize];
    shard.copy(start, &mut bytes).map_err(gone(start))?;
    let digits = bytes.trim_ascii();
    let number = std::str::from_utf8(digits)
        .ok()
        .filter(|text| !text.is_empty() && text.bytes().all(|digit| digit.is_ascii_digit()));
    let number = number.and_then(|digits| digits.parse().ok());
    number.ok_or_else(|| wrong(&format!("{:?}", String::from_utf8_lossy(&bytes))))
}

/// A member's key and the last part of its extension.
fn split(name: &[u8]) -> Option<(&[u8], &[u8])> {
    let first = name.split(|&byte| byte == b'/').next().unwrap_or_default();
    if first.len() > 4 && first.starts_with(b"__") && first.ends_with(b"__") {
        return None;
    }
    let file = name.iter().rposition(|&byte| byte == b'/').map_or(0, |slash| slash + 1);
    let dot = name[file..].iter().position(|&byte| byte == b'.').filter(|&dot| dot > 0)?;
    let extension = name.rsplit(|&byte| byte == b'.').next().unwrap_or_default();
    Some((&name[..file + dot], extension))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_webdatasets() {
        let of = |name: &'static str| {
            let text = |part: &'static [u8]| std::str::from_utf8(part).unwrap();
            split(name.as_bytes()).map(|(key, extension)| (text(key), text(extension)))
        };
        assert_eq!(of("17.jpg"), Some(("17", "jpg")));
        assert_eq!(of("a.b/17.left.JPG"), Some(("a.b/17", "JPG")));
        assert_eq!(of("./17.cls"), Some(("./17", "cls")));
        assert_eq!(of("__x/17.cls"), Some(("__x/17", "cls")));
        for name in ["17", "", ".hidden.jpg", "a/.jpg", "a.b/c", "__meta__/17.jpg", "__meta__"] {
            assert_eq!(of(name), None, "{name}");
        }
    }
}
