//! What a JPEG's header says, and its pixels by libjpeg-turbo.

use crate::status::Outcome;
use crate::status::nvjpeg::{BAD_JPEG, JPEG_NOT_SUPPORTED};
use turbojpeg::{Decompressor, Image, PixelFormat};

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    /// The marker of the frame: 0xC0 is baseline, 0xC2 progressive.
    frame: u8,
    precision: u8,
    pub(crate) width: usize,
    pub(crate) height: usize,
    /// Horizontal and vertical sampling factor of each component, as one byte.
    sampling: Vec<u8>,
    /// The first scan holds every component.
    one_scan: bool,
}

impl Header {
    /// Reads up to the first scan; `None` where that is not reached.
    pub(crate) fn parse(bytes: &[u8]) -> Option<Self> {
        let mut rest = bytes.strip_prefix(&[0xFF, 0xD8])?;
        let mut header: Option<Self> = None;
        loop {
            rest = &rest[rest.iter().position(|&b| b == 0xFF)?..];
            rest = &rest[rest.iter().position(|&b| b != 0xFF)?..];
            let (&marker, tail) = rest.split_first()?;
            if matches!(marker, 0 | 1 | 0xD0..=0xD8) {
                rest = tail;
                continue;
            }
            let length = usize::from(u16::from_be_bytes(tail.get(..2)?.try_into().ok()?));
            let segment = tail.get(2..length)?;
            match marker {
                0xC4 | 0xC8 | 0xCC => {}
                0xC0..=0xCF => header = Some(Self::frame(marker, segment)?),
                0xDA => {
                    let mut header = header?;
                    header.one_scan = usize::from(*segment.first()?) == header.sampling.len();
                    return Some(header);
                }
                0xD9 => return None,
                _ => {}
            }
            rest = &tail[length..];
        }
    }

    fn frame(marker: u8, segment: &[u8]) -> Option<Self> {
        let [precision, h1, h0, w1, w0, count, components @ ..] = segment else { return None };
        let sampling: Vec<u8> = components.chunks_exact(3).map(|c| c[1]).collect();
        let (width, height) = (u16::from_be_bytes([*w1, *w0]), u16::from_be_bytes([*h1, *h0]));
        (sampling.len() == usize::from(*count) && width > 0 && height > 0).then(|| Self {
            frame: marker,
            precision: *precision,
            width: width.into(),
            height: height.into(),
            sampling,
            one_scan: false,
        })
    }

    /// Whether `nvjpegDecode` takes it: sequential Huffman, 8 bits, gray or three components.
    pub(crate) fn decodable(&self) -> bool {
        matches!(self.frame, 0xC0 | 0xC1)
            && self.precision == 8
            && matches!(self.sampling.len(), 1 | 3)
    }

    /// Whether the decoding engine takes it: baseline, one scan, and 4:2:0, 4:2:2, 4:4:4 or gray.
    pub(crate) fn hardware(&self) -> bool {
        let sampling: &[u8] = &self.sampling;
        let chroma = matches!(sampling, [_] | [0x22 | 0x21 | 0x11, 0x11, 0x11]);
        self.decodable() && self.frame == 0xC0 && self.one_scan && chroma
    }
}

/// The pixels as interleaved RGB, gray in all three: accurate inverse DCT, interpolated chroma, no
/// turning by EXIF.
pub(crate) fn decode(bytes: &[u8], header: &Header) -> Outcome<Vec<u8>> {
    if !header.decodable() {
        return Err(JPEG_NOT_SUPPORTED);
    }
    let (width, height, pitch) = (header.width, header.height, 3 * header.width);
    let mut pixels = vec![0; pitch * height];
    let format = PixelFormat::RGB;
    let image = Image { pixels: &mut pixels[..], width, pitch, height, format };
    let mut decoder = Decompressor::new().map_err(|_| BAD_JPEG)?;
    // A warning of libjpeg, as for an image that is cut short, is an error here too.
    decoder.decompress(bytes, image).map_err(|_| BAD_JPEG)?;
    Ok(pixels)
}
