//! What a file is, by its first bytes; names and extensions lie.

use crate::error::{Error, ErrorKind, Result};
use image::ImageFormat;

/// What a file is.
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
