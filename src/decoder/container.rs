//! What a file's own structure shows, before the `image` crate sees it: its EXIF orientation,
//! wherever the format lets it stand, and what that crate would take memory for, or a part of a
//! picture for the whole.

use super::exif::{self, Directory};
use super::{Limits, Orientation};
use crate::error::{Error, ErrorKind, Result};
use image::ImageFormat;
use std::borrow::Cow;

/// A file that was looked through.
pub(super) struct Container<'a> {
    /// The file, without metadata that could cost the picture.
    pub(super) bytes: Cow<'a, [u8]>,
    /// Upright where there is no orientation or it cannot be read.
    pub(super) orientation: Orientation,
    /// The most bytes that its decoder may take beside the picture.
    pub(super) memory: u64,
}

/// Looks through `bytes`. Errors: cut, over a limit, or of a kind whose damage nothing would show.
pub(super) fn look<'a>(
    bytes: &'a [u8],
    format: ImageFormat,
    limits: &Limits,
) -> Result<Container<'a>> {
    let mut container = Container {
        bytes: Cow::Borrowed(bytes),
        orientation: Orientation::UPRIGHT,
        // 16 bytes a pixel and a decoder's own tables.
        memory: limits.pixels.saturating_mul(16).saturating_add(16 << 20),
    };
    match format {
        ImageFormat::Png => {
            if let Some((width, height)) = png_size(bytes) {
                limits.check_pixels(width, height)?;
            }
            png(bytes, &mut container);
        }
        ImageFormat::WebP => webp(bytes, limits, &mut container)?,
        // The frame, of 4 bytes a pixel, may be larger than the picture that it is a part of.
        ImageFormat::Gif => container.memory = limits.pixels.saturating_mul(4),
        ImageFormat::Tiff => {
            if let Some(tags) = Directory::of(bytes) {
                tiff(&tags, limits)?;
                container.orientation = tags.orientation().unwrap_or_default();
            }
        }
        // Numbers as text: of 255, a cut file may hold 25. One of as many digits as the largest is whole.
        ImageFormat::Pnm if matches!(bytes, [b'P', b'2' | b'3', ..]) => {
            let digits = bytes.iter().rev().take_while(|byte| byte.is_ascii_digit()).count();
            if (1..most_digits(bytes)).contains(&digits) {
                let text = "truncated pnm: nothing follows the last number, which may be cut";
                return Err(cut(text, bytes.len()));
            }
        }
        _ => {}
    }
    Ok(container)
}

/// Digits of the largest value of a plain PNM's header: its fourth word, comments left out.
fn most_digits(pnm: &[u8]) -> usize {
    let lines = pnm.split(|&byte| byte == b'\n' || byte == b'\r');
    let code = lines.flat_map(|line| line.split(|&byte| byte == b'#').next());
    let mut words = code.flat_map(|line| line.split(u8::is_ascii_whitespace));
    words
        .by_ref()
        .filter(|word| !word.is_empty())
        .nth(3)
        .map_or(0, |word| word.iter().skip_while(|&&byte| byte == b'0').count())
}

fn cut(text: impl Into<String>, len: usize) -> Error {
    Error::new(ErrorKind::Decode, text).at_offset(len as u64)
}

/// Columns and rows as the first chunk has them.
fn png_size(png: &[u8]) -> Option<(u32, u32)> {
    let header = png.get(12..)?.strip_prefix(b"IHDR")?;
    let (width, rest) = header.split_first_chunk()?;
    Some((u32::from_be_bytes(*width), u32::from_be_bytes(*rest.first_chunk()?)))
}

/// Leaves the pixels and their colours. The crate refuses a picture for some metadata that are wrong,
/// and unpacks others; EXIF it finds on one side of the pixels only.
fn png<'a>(png: &'a [u8], container: &mut Container<'a>) {
    let mut rest = png.get(8..).unwrap_or_default();
    // The file up to here without metadata, once it has had any.
    let mut without: Option<Vec<u8>> = None;
    let mut exif = None;
    while let Some((chunk, after)) = png_chunk(rest) {
        let (kind, sum) = (&chunk[4..8], &chunk[chunk.len() - 4..]);
        if kind[0].is_ascii_lowercase() && kind != b"tRNS" {
            without.get_or_insert_with(|| png[..png.len() - rest.len()].to_vec());
            let named = &chunk[4..chunk.len() - 4];
            if kind == b"eXIf" && crc32fast::hash(named).to_be_bytes() == *sum {
                exif = exif.or(Some(&named[4..]));
            }
        } else if let Some(without) = &mut without {
            without.extend_from_slice(chunk);
        }
        rest = after;
        if kind == b"IEND" {
            break;
        }
    }
    if let Some(mut without) = without {
        without.extend_from_slice(rest);
        container.bytes = Cow::Owned(without);
    }
    container.orientation = exif.and_then(exif::orientation).unwrap_or_default();
}

/// The next chunk, with its length, kind and sum, and what follows it.
fn png_chunk(rest: &[u8]) -> Option<(&[u8], &[u8])> {
    let length = usize::try_from(u32::from_be_bytes(*rest.first_chunk()?)).ok()?;
    rest.split_at_checked(length.checked_add(12)?)
}

/// A RIFF file says how long it is, and all of its chunks lie in it.
fn webp<'a>(webp: &'a [u8], limits: &Limits, container: &mut Container<'a>) -> Result<()> {
    const EXIF: u8 = 8;
    const XMP: u8 = 4;
    const ANIMATED: u8 = 2;
    let length = u64::from(u32::from_le_bytes([webp[4], webp[5], webp[6], webp[7]])) + 8;
    let Some(body) = usize::try_from(length).ok().and_then(|length| webp.get(..length)) else {
        let text = format!("truncated webp: {} of {length} bytes", webp.len());
        return Err(cut(text, webp.len()));
    };
    let (mut flags, mut there) = (0, 0);
    let mut rest = body.get(12..).unwrap_or_default();
    while let Some((kind, data)) = riff_chunk(&mut rest)? {
        match kind {
            b"VP8X" => {
                let &[f, _, _, _, w0, w1, w2, h0, h1, h2, ..] = data else { continue };
                flags = f;
                let side = |b0, b1, b2| u64::from(u32::from_le_bytes([b0, b1, b2, 0])) + 1;
                // The decoder counts an animation's bytes in 32 bits.
                if f & ANIMATED != 0 && side(w0, w1, w2) * side(h0, h1, h2) >= 1 << 30 {
                    let text = "unsupported webp: an animation of more than 2^30 pixels";
                    return Err(Error::new(ErrorKind::Unsupported, text));
                }
            }
            b"EXIF" if there & EXIF == 0 => {
                there |= EXIF;
                container.orientation = exif::orientation(data).unwrap_or_default();
            }
            b"XMP " => there |= XMP,
            b"ANMF" => {
                let mut frame = data.get(16..).unwrap_or_default();
                while let Some((kind, data)) = riff_chunk(&mut frame)? {
                    check_webp_frame(kind, data, limits)?;
                }
            }
            _ => check_webp_frame(kind, data, limits)?,
        }
    }
    let missing = flags & (EXIF | XMP) & !there;
    if missing != 0 && webp[12..].starts_with(b"VP8X") {
        container.bytes.to_mut()[20] &= !missing;
    }
    Ok(())
}

/// Kind and data of the next chunk.
fn riff_chunk<'a>(rest: &mut &'a [u8]) -> Result<Option<(&'a [u8; 4], &'a [u8])>> {
    let Some((kind, after)) = rest.split_first_chunk() else { return Ok(None) };
    let Some((length, after)) = after.split_first_chunk() else { return Ok(None) };
    let length = u32::from_le_bytes(*length) as usize;
    let Some((data, after)) = after.split_at_checked(length) else {
        let text = "damaged webp: a chunk that is longer than the file";
        return Err(Error::new(ErrorKind::Decode, text));
    };
    // Chunks start at even places.
    *rest = after.get(length % 2..).unwrap_or_default();
    Ok(Some((kind, data)))
}

/// A frame has a size of its own, for which its decoder takes memory before it compares it with the
/// picture's.
fn check_webp_frame(kind: &[u8; 4], data: &[u8], limits: &Limits) -> Result<()> {
    match (kind, data) {
        (b"VP8 ", &[_, _, _, _, _, _, w0, w1, h0, h1, ..]) => {
            let side = |low, high| u32::from(u16::from_le_bytes([low, high]) & 0x3FFF);
            limits.check_pixels(side(w0, w1), side(h0, h1))
        }
        (b"VP8L", &[_, b0, b1, b2, b3, ..]) => {
            let sides = u32::from_le_bytes([b0, b1, b2, b3]);
            limits.check_pixels((sides & 0x3FFF) + 1, (sides >> 14 & 0x3FFF) + 1)
        }
        _ => Ok(()),
    }
}

fn tiff(tags: &Directory<'_>, limits: &Limits) -> Result<()> {
    const COMPRESSION: u16 = 259;
    const SAMPLES: u16 = 277;
    const TILE: [u16; 2] = [322, 323];
    let unsupported =
        |what: &str| Err(Error::new(ErrorKind::Unsupported, format!("unsupported tiff: {what}")));
    // The JPEG decoder behind the crate's TIFF decoder makes gray of what is missing.
    if let Some(6 | 7) = tags.value(COMPRESSION) {
        return unsupported("JPEG inside; save it as JPEG");
    }
    // A row and a tile are taken memory for as the file declares them.
    if tags.value(SAMPLES).is_some_and(|samples| samples > 16) {
        return unsupported("more than 16 samples a pixel");
    }
    let [width, height] = TILE.map(|tag| tags.value(tag).unwrap_or(1));
    let side = |side: u64| u32::try_from(side).unwrap_or(u32::MAX);
    limits.check_pixels(side(width), side(height))
}
