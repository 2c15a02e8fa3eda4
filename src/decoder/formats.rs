//! Formats by content, and those outside JPEG through the `image` crate.

use super::orient::Orientation;
use super::{Header, Limits, Pixels};
use crate::error::{Error, ErrorKind, Result};
use image::{ColorType, ImageDecoder, ImageError, ImageFormat, ImageReader};
use std::error::Error as _;
use std::io::Cursor;

/// What a file is, judged by its first bytes; names and extensions lie.
pub(super) enum Kind {
    Jpeg,
    Other(ImageFormat),
}

/// Finds the kind, or says what else the bytes look like.
pub(super) fn sniff(bytes: &[u8]) -> Result<Kind> {
    if bytes.is_empty() {
        return Err(Error::new(ErrorKind::Decode, "the file is empty"));
    }
    Ok(match bytes {
        [0xFF, 0xD8, ..] => Kind::Jpeg,
        [0x89, b'P', b'N', b'G', b'\r', b'\n', 0x1A, b'\n', ..] => Kind::Other(ImageFormat::Png),
        [b'R', b'I', b'F', b'F', _, _, _, _, b'W', b'E', b'B', b'P', ..] => {
            Kind::Other(ImageFormat::WebP)
        }
        [b'G', b'I', b'F', b'8', b'7' | b'9', b'a', ..] => Kind::Other(ImageFormat::Gif),
        [b'I', b'I', b'*' | b'+', 0, ..] | [b'M', b'M', 0, b'*' | b'+', ..] => {
            Kind::Other(ImageFormat::Tiff)
        }
        [b'B', b'M', ..] => Kind::Other(ImageFormat::Bmp),
        [b'P', b'1'..=b'7', b, ..] if b.is_ascii_whitespace() || *b == b'#' => {
            Kind::Other(ImageFormat::Pnm)
        }
        _ => {
            let text = match looks_like(bytes) {
                Some(kind) => format!("unsupported: looks like {kind}"),
                None => format!("unsupported: no known image format (starts {})", start(bytes)),
            };
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
    })
}

/// First bytes of what is often found under an image's name.
const SIGNATURES: &[(usize, &[u8], &str)] = &[
    (0, b"version https://git-lfs", "a Git LFS pointer; run `git lfs pull`"),
    (0, b"\x89PNG", "a PNG damaged by a text-mode transfer"),
    (0, b"\x1F\x8B", "gzip; unpack it first"),
    (0, b"PK\x03\x04", "a ZIP archive; unpack it first"),
    (0, b"\x28\xB5\x2F\xFD", "Zstandard; unpack it first"),
    (0, b"BZh", "bzip2; unpack it first"),
    (0, b"\xFD7zXZ\0", "xz; unpack it first"),
    (0, b"7z\xBC\xAF\x27\x1C", "a 7z archive; unpack it first"),
    (257, b"ustar", "a tar archive"),
    (4, b"ftypavif", "AVIF"),
    (4, b"ftypavis", "AVIF"),
    (4, b"ftyphei", "HEIC"),
    (4, b"ftyphev", "HEIC"),
    (4, b"ftypmif1", "HEIC"),
    (4, b"ftypmsf1", "HEIC"),
    (4, b"ftypcrx", "a Canon CR3 raw photo"),
    (4, b"ftyp", "a video (ISO base media)"),
    (0, b"\x1A\x45\xDF\xA3", "a video (Matroska, WebM)"),
    (8, b"AVI ", "a video (AVI)"),
    (8, b"WAVE", "audio (WAV)"),
    (0, b"\xFF\x0A", "JPEG XL"),
    (4, b"JXL \r\n", "JPEG XL"),
    (4, b"jP  \r\n", "JPEG 2000"),
    (0, b"\xFF\x4F\xFF\x51", "JPEG 2000"),
    (0, b"8BPS", "a Photoshop file"),
    (0, b"%PDF", "PDF"),
    (0, b"%!PS", "PostScript"),
    (0, b"\0\0\x01\0", "a Windows icon"),
    (0, b"\x76\x2F\x31\x01", "OpenEXR"),
    (0, b"#?RADIANCE", "Radiance HDR"),
    (0, b"DDS ", "a DirectDraw texture"),
    (0, b"qoif", "QOI"),
    (0, b"\x93NUMPY", "a NumPy array"),
    (0, b"\x89HDF\r\n", "HDF5"),
    (0, b"\x80\x04\x95", "a Python pickle"),
];

fn looks_like(bytes: &[u8]) -> Option<&'static str> {
    let has = |at: usize, sign: &[u8]| bytes.get(at..).is_some_and(|b| b.starts_with(sign));
    if let Some(&(_, _, kind)) = SIGNATURES.iter().find(|(at, sign, _)| has(*at, sign)) {
        return Some(kind);
    }
    if bytes.iter().take(512).all(|&b| b == 0) {
        return Some("zeros; the file was probably not copied whole");
    }
    let text = bytes.trim_ascii_start();
    let tag = |name: &[u8]| text.get(..name.len()).is_some_and(|t| t.eq_ignore_ascii_case(name));
    if tag(b"<!doctype html") || tag(b"<html") || tag(b"<head") {
        Some("HTML, perhaps a download's error page")
    } else if tag(b"<svg") {
        Some("SVG")
    } else if tag(b"<?xml") {
        Some("XML (perhaps SVG)")
    } else if bytes.iter().take(512).all(|&b| b.is_ascii_graphic() || b.is_ascii_whitespace()) {
        Some("text")
    } else {
        None
    }
}

/// The first bytes, in hexadecimal.
fn start(bytes: &[u8]) -> String {
    let bytes: Vec<String> = bytes.iter().take(8).map(|b| format!("{b:02x}")).collect();
    bytes.join(" ")
}

/// The lower-case name that errors, [`Header`] and `Info` use.
pub(super) fn name(format: ImageFormat) -> &'static str {
    match format {
        ImageFormat::Png => "png",
        ImageFormat::WebP => "webp",
        ImageFormat::Gif => "gif",
        ImageFormat::Tiff => "tiff",
        ImageFormat::Bmp => "bmp",
        _ => "pnm",
    }
}

/// Reads the header.
pub(super) fn header(bytes: &[u8], format: ImageFormat) -> Result<Header> {
    let mut decoder = open(bytes, format, &Limits::default())?;
    let (width, height) = decoder.dimensions();
    let color = decoder.color_type();
    Ok(Header {
        format: name(format),
        width,
        height,
        components: color.channel_count(),
        precision: (color.bits_per_pixel() / u16::from(color.channel_count())) as u8,
        progressive: false,
        orientation: orientation(&mut decoder),
    })
}

/// Decodes the first frame as it lies; gives the turn that makes it upright.
///
/// `raw` is scratch for pixels that are not 8-bit RGB yet. Alpha is dropped, not blended: the
/// colour under a transparent pixel is kept, as Pillow's `convert("RGB")` does.
pub(super) fn decode(
    bytes: &[u8],
    format: ImageFormat,
    limits: &Limits,
    raw: &mut Vec<u8>,
    out: &mut Pixels,
) -> Result<Orientation> {
    let mut decoder = open(bytes, format, limits)?;
    let (width, height) = decoder.dimensions();
    limits.check_pixels(width, height)?;
    let orientation = orientation(&mut decoder);
    let color = decoder.color_type();
    let failed = |e| failure(e, format);
    if color == ColorType::Rgb8 {
        decoder.read_image(out.reset(width, height)?).map_err(failed)?;
        return Ok(orientation);
    }
    // No more than 16 bytes a pixel, whose number was checked.
    let bytes = decoder.total_bytes() as usize;
    if raw.try_reserve(bytes.saturating_sub(raw.len())).is_err() {
        let text = format!("out of memory for {width} x {height} pixels of {color:?}");
        return Err(Error::new(ErrorKind::Limit, text));
    }
    raw.resize(bytes, 0);
    decoder.read_image(raw).map_err(failed)?;
    let rgb = out.reset(width, height)?;
    match color {
        ColorType::L8 => gray::<1>(raw, rgb, |[v]| v),
        ColorType::La8 => gray::<2>(raw, rgb, |[v, _]| v),
        ColorType::Rgba8 => colour::<4>(raw, rgb, |[r, g, b, _]| [r, g, b]),
        ColorType::L16 => gray::<2>(raw, rgb, narrow),
        ColorType::La16 => gray::<4>(raw, rgb, |[a, b, _, _]| narrow([a, b])),
        ColorType::Rgb16 => colour::<6>(raw, rgb, |[a, b, c, d, e, f]| {
            [narrow([a, b]), narrow([c, d]), narrow([e, f])]
        }),
        ColorType::Rgba16 => colour::<8>(raw, rgb, |[a, b, c, d, e, f, _, _]| {
            [narrow([a, b]), narrow([c, d]), narrow([e, f])]
        }),
        other => {
            let text = format!("unsupported {}: {other:?} samples", name(format));
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
    }
    Ok(orientation)
}

/// A 16-bit sample, native endian, to 8 bits: v / 257 rounded, so that 0 and 65535 map to 0 and 255.
fn narrow(sample: [u8; 2]) -> u8 {
    ((u32::from(u16::from_ne_bytes(sample)) + 128) / 257) as u8
}

fn gray<const N: usize>(raw: &[u8], rgb: &mut [u8], value: impl Fn([u8; N]) -> u8) {
    colour(raw, rgb, |pixel| [value(pixel); 3]);
}

fn colour<const N: usize>(raw: &[u8], rgb: &mut [u8], value: impl Fn([u8; N]) -> [u8; 3]) {
    for (from, to) in raw.as_chunks::<N>().0.iter().zip(rgb.as_chunks_mut::<3>().0) {
        *to = value(*from);
    }
}

fn open<'a>(
    bytes: &'a [u8],
    format: ImageFormat,
    limits: &Limits,
) -> Result<impl ImageDecoder + 'a> {
    let mut reader = ImageReader::with_format(Cursor::new(bytes), format);
    let mut image_limits = image::Limits::no_limits();
    // Room for 16 bytes a pixel and a decoder's own tables.
    image_limits.max_alloc = Some(limits.pixels.saturating_mul(16).saturating_add(16 << 20));
    reader.limits(image_limits);
    reader.into_decoder().map_err(|e| failure(e, format))
}

/// Upright where there is none or it cannot be read.
fn orientation(decoder: &mut impl ImageDecoder) -> Orientation {
    let turn = decoder.orientation().map_or(1, |o| o.to_exif());
    Orientation::from_exif(turn.into())
}

fn failure(error: ImageError, format: ImageFormat) -> Error {
    let (kind, what) = match &error {
        ImageError::Unsupported(_) => (ErrorKind::Unsupported, "unsupported"),
        ImageError::Limits(_) => (ErrorKind::Limit, "over a limit:"),
        _ => (ErrorKind::Decode, "damaged"),
    };
    // The source is the decoder's own message, without a preamble that names the format again.
    let text = error.source().map_or_else(|| error.to_string(), |source| source.to_string());
    let text = text.replace(char::is_control, " ");
    Error::new(kind, format!("{what} {}: {}", name(format), text.trim_end_matches('.')))
}
