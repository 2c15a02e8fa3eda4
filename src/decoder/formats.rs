//! Formats outside JPEG, through the `image` crate.

use super::container::{self, Container};
use super::{Header, Limits, Orientation, Pixels};
use crate::error::{Error, ErrorKind, Result};
use image::{ColorType, ImageDecoder, ImageError, ImageFormat, ImageReader};
use std::error::Error as _;
use std::io::{self, Cursor};

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
    let container = container::look(bytes, format, &Limits::default())?;
    let decoder = open(&container, format, bytes.len())?;
    let (width, height) = size(&decoder, format)?;
    let color = decoder.color_type();
    Ok(Header {
        format: name(format),
        width,
        height,
        components: color.channel_count(),
        precision: (color.bits_per_pixel() / u16::from(color.channel_count())) as u8,
        progressive: false,
        orientation: container.orientation,
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
    let container = container::look(bytes, format, limits)?;
    let decoder = open(&container, format, bytes.len())?;
    let (width, height) = size(&decoder, format)?;
    limits.check_pixels(width, height)?;
    let failed = |e| failure(e, format, bytes.len());
    let to_rgb: fn(&[u8], &mut [u8]) = match decoder.color_type() {
        ColorType::Rgb8 => {
            decoder.read_image(out.reset(width, height)?).map_err(failed)?;
            return Ok(container.orientation);
        }
        ColorType::L8 => |raw, rgb| gray::<1>(raw, rgb, |[v]| v),
        ColorType::La8 => |raw, rgb| gray::<2>(raw, rgb, |[v, _]| v),
        ColorType::Rgba8 => |raw, rgb| colour::<4>(raw, rgb, |[r, g, b, _]| [r, g, b]),
        ColorType::L16 => |raw, rgb| gray::<2>(raw, rgb, narrow),
        ColorType::La16 => |raw, rgb| gray::<4>(raw, rgb, |[a, b, _, _]| narrow([a, b])),
        ColorType::Rgb16 => |raw, rgb| {
            colour::<6>(raw, rgb, |[a, b, c, d, e, f]| {
                [narrow([a, b]), narrow([c, d]), narrow([e, f])]
            });
        },
        ColorType::Rgba16 => |raw, rgb| {
            colour::<8>(raw, rgb, |[a, b, c, d, e, f, _, _]| {
                [narrow([a, b]), narrow([c, d]), narrow([e, f])]
            });
        },
        other => {
            let text = format!("unsupported {}: {other:?} samples", name(format));
            return Err(Error::new(ErrorKind::Unsupported, text));
        }
    };
    // No more than 16 bytes a pixel, whose number was checked. Zeros, since the GIF decoder leaves
    // out a pixel whose colour no palette has: what an image before left there would show.
    let size = decoder.total_bytes() as usize;
    raw.clear();
    raw.try_reserve(size).map_err(|_| {
        Error::new(ErrorKind::Resources, format!("out of memory for {width} x {height} pixels"))
    })?;
    raw.resize(size, 0);
    decoder.read_image(raw).map_err(failed)?;
    to_rgb(raw, out.reset(width, height)?);
    Ok(container.orientation)
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
    container: &'a Container<'_>,
    format: ImageFormat,
    len: usize,
) -> Result<impl ImageDecoder + 'a> {
    let mut reader = ImageReader::with_format(Cursor::new(&*container.bytes), format);
    let mut limits = image::Limits::no_limits();
    limits.max_alloc = Some(container.memory);
    reader.limits(limits);
    reader.into_decoder().map_err(|e| failure(e, format, len))
}

/// Columns and rows. PNM may say that there are none.
fn size(decoder: &impl ImageDecoder, format: ImageFormat) -> Result<(u32, u32)> {
    match decoder.dimensions() {
        (width, height) if width == 0 || height == 0 => {
            let text = format!("damaged {}: {width} x {height} pixels are none", name(format));
            Err(Error::new(ErrorKind::Decode, text))
        }
        size => Ok(size),
    }
}

fn failure(error: ImageError, format: ImageFormat, len: usize) -> Error {
    let name = name(format);
    let (kind, what) = match &error {
        ImageError::IoError(e) if e.kind() == io::ErrorKind::UnexpectedEof => {
            let text = format!("truncated {name}: the data end after {len} bytes");
            return Error::new(ErrorKind::Decode, text).at_offset(len as u64);
        }
        ImageError::Unsupported(_) => (ErrorKind::Unsupported, "unsupported"),
        ImageError::Limits(_) => (ErrorKind::Limit, "over a limit:"),
        _ => (ErrorKind::Decode, "damaged"),
    };
    // The source is the decoder's own message, without a preamble that names the format again.
    let text = error.source().map_or_else(|| error.to_string(), |source| source.to_string());
    let text = text.replace(char::is_control, " ");
    Error::new(kind, format!("{what} {name}: {}", text.trim_end_matches('.')))
}
