//! A walk over a JPEG's markers, without libjpeg: size, kind and EXIF orientation.

use super::{Header, Orientation, exif};
use crate::error::{Error, ErrorKind, Result};

const SOI: u8 = 0xD8;
const EOI: u8 = 0xD9;
const SOS: u8 = 0xDA;
const APP1: u8 = 0xE1;

/// The marker segments before the first scan. Ends at SOS or EOI, which it yields, and where the
/// bytes end or make no sense.
struct Segments<'a> {
    rest: &'a [u8],
    done: bool,
    /// Something other than segments lay between them.
    stray: bool,
}

impl<'a> Segments<'a> {
    fn of(jpeg: &'a [u8]) -> Self {
        let rest = jpeg.strip_prefix(&[0xFF, SOI]).unwrap_or_default();
        Segments { rest, done: false, stray: false }
    }
}

impl<'a> Iterator for Segments<'a> {
    /// Marker and payload; a payload that the file cuts short is as long as the file allows.
    type Item = (u8, &'a [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        while !self.done {
            // Like libjpeg: stray bytes before a marker are passed over, and so are fill bytes.
            let at = self.rest.iter().position(|&b| b == 0xFF)?;
            self.stray |= at > 0;
            self.rest = &self.rest[at..];
            let at = self.rest.iter().position(|&b| b != 0xFF)?;
            self.stray |= at > 1;
            let marker = self.rest[at];
            self.rest = &self.rest[at + 1..];
            match marker {
                // A stuffed byte, TEM, RSTn: no length.
                0x00 | 0x01 | 0xD0..=0xD7 => {
                    self.stray = true;
                    continue;
                }
                SOI | EOI => {
                    self.done = true;
                    return Some((marker, &[]));
                }
                _ => {}
            }
            let &[high, low, ..] = self.rest else { return None };
            let length = usize::from(u16::from_be_bytes([high, low]));
            self.done = marker == SOS;
            // As libjpeg: a length that does not count itself is that of an empty segment.
            self.stray |= length < 2;
            let end = length.clamp(2, self.rest.len());
            let payload = &self.rest[2..end];
            self.rest = &self.rest[end..];
            return Some((marker, payload));
        }
        None
    }
}

/// What the walk up to the first scan found.
pub(super) struct Walk<'a> {
    pub(super) header: Header,
    /// What follows the scan's header: entropy-coded bytes and all behind them.
    pub(super) scan: &'a [u8],
    /// Fill bytes, stray bytes or markers without a segment lay between the segments. Decoders
    /// differ in what they make of those.
    pub(super) stray: bool,
}

/// Reads the header; every length is checked against `jpeg`, nothing is allocated.
pub(super) fn read(jpeg: &[u8]) -> Result<Header> {
    walk(jpeg, |_, _| {}).map(|walk| walk.header)
}

/// Like [`read`], and shows each segment's marker and payload to `see`, the scan's header last.
pub(super) fn walk<'a>(jpeg: &'a [u8], mut see: impl FnMut(u8, &'a [u8])) -> Result<Walk<'a>> {
    let mut frame: Option<Header> = None;
    let mut orientation = None;
    let mut segments = Segments::of(jpeg);
    while let Some((marker, payload)) = segments.next() {
        see(marker, payload);
        match marker {
            SOI => return Err(damaged("a second start marker in the header")),
            EOI => return Err(damaged("no picture before the end marker")),
            SOS => {
                let mut header = frame.ok_or_else(|| damaged("a scan before any frame header"))?;
                header.orientation = orientation.unwrap_or_default();
                return Ok(Walk { header, scan: segments.rest, stray: segments.stray });
            }
            APP1 => orientation = orientation.or_else(|| exif_orientation(payload)),
            // SOF0 to SOF15 without DHT, JPG and DAC.
            0xC0..=0xCF if !matches!(marker, 0xC4 | 0xC8 | 0xCC) => {
                let earlier = frame.replace(parse_frame(marker, payload)?);
                if earlier.is_some() {
                    return Err(damaged("two frame headers"));
                }
            }
            _ => {}
        }
    }
    Err(Error::new(ErrorKind::Decode, "truncated JPEG: the header does not end"))
}

/// The orientation alone, upright if there is none or it cannot be read: damaged metadata never
/// cost a picture.
pub(super) fn orientation(jpeg: &[u8]) -> Orientation {
    Segments::of(jpeg)
        .filter(|&(marker, _)| marker == APP1)
        .find_map(|(_, payload)| exif_orientation(payload))
        .unwrap_or_default()
}

fn parse_frame(marker: u8, payload: &[u8]) -> Result<Header> {
    let &[precision, h1, h0, w1, w0, components, ref list @ ..] = payload else {
        return Err(damaged("a frame header that is too short"));
    };
    let (width, height) = (u16::from_be_bytes([w1, w0]), u16::from_be_bytes([h1, h0]));
    if width == 0 || height == 0 || components == 0 {
        return Err(damaged("a frame header without pixels"));
    }
    if list.len() != usize::from(components) * 3 {
        return Err(damaged("a frame header of the wrong length"));
    }
    Ok(Header {
        format: "jpeg",
        width: width.into(),
        height: height.into(),
        components,
        precision,
        progressive: matches!(marker, 0xC2 | 0xC6 | 0xCA | 0xCE),
        orientation: Orientation::UPRIGHT,
    })
}

/// The orientation of an APP1 payload that holds EXIF metadata.
fn exif_orientation(app1: &[u8]) -> Option<Orientation> {
    app1.starts_with(b"Exif\0\0").then(|| exif::orientation(app1)).flatten()
}

fn damaged(what: &str) -> Error {
    Error::new(ErrorKind::Decode, format!("damaged JPEG: {what}"))
}
