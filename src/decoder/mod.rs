//! Encoded bytes to RGB pixels.
//!
//! JPEG goes through libjpeg-turbo (accurate IDCT, fancy upsampling), whose pixels are the
//! reference; the other formats through the `image` crate. What a file is, its content says. JPEGs
//! without any oddity take a faster way to the same pixels (`own`). Of a JPEG a part can be decoded
//! alone, also at a smaller scale ([`Decoder::decode_region`]).
//!
//! With a GPU, [`route`] sends large baseline JPEGs to [`nvjpeg`] instead, or to our own kernels ([`gpu`]).

mod container;
mod exif;
mod formats;
mod jpeg_header;
mod lane;
mod limits;
pub mod nvjpeg;
mod orient;
mod own;
mod pixels;
mod region;
mod route;
mod sniff;
mod structure;
mod turbo;

/// JPEGs that a GPU decodes with our kernels.
pub mod gpu {
    pub use super::own::{Batch, Cutting, Launch, Memory, Prepared};
    pub use super::own::{ColourArgs, EntropyArgs, IdctArgs, SubsequenceArgs};
}

pub use lane::Lane;
pub use limits::Limits;
pub use orient::Orientation;
pub(crate) use pixels::KeptPixels;
pub use pixels::{Picture, Pixels};
pub use region::{Region, Scale, Wanted};
pub use route::{Frame, Reason, Route, Rule, Subsampling, route};
pub use turbo::warning_text;

use crate::device::cpu::Cpu;
use crate::error::Result;
use own::{Own, Prepared};
use sniff::{Kind, sniff};
use std::sync::Arc;
use turbo::Turbo;

/// What a decode found beside the pixels.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Info {
    /// `"jpeg"`, `"png"`, `"webp"`, `"gif"`, `"tiff"`, `"bmp"` or `"pnm"`.
    pub format: &'static str,
    /// Codes of libjpeg's warnings in order (`JWRN_*` as numbers), the first 16, empty for other
    /// formats. All of them are harmless: a warning that means lost pixels is an error.
    pub warnings: Vec<i32>,
}

impl Info {
    /// What the warnings mean, each once, for people; `None` where there is none.
    pub fn warning_text(&self) -> Option<String> {
        let mut texts: Vec<String> = self.warnings.iter().map(|&code| warning_text(code)).collect();
        texts.dedup();
        (!texts.is_empty()).then(|| texts.join(", "))
    }
}

/// What an image's header says.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// As in [`Info::format`].
    pub format: &'static str,
    /// Columns as stored, before `orientation`.
    pub width: u32,
    /// Rows as stored, before `orientation`.
    pub height: u32,
    /// Samples a pixel, a palette resolved: 1 gray, 2 gray and alpha, 3 colour, 4 with alpha or
    /// (JPEG) CMYK.
    pub components: u8,
    /// Bits a sample.
    pub precision: u8,
    /// Whether it is a progressive JPEG.
    pub progressive: bool,
    /// The turn that decoding applies.
    pub orientation: Orientation,
}

impl Header {
    /// Columns and rows as [`Decoder::decode`] gives them.
    pub fn upright_size(&self) -> (u32, u32) {
        self.orientation.upright_size(self.width, self.height)
    }
}

/// Reads an image's header without decoding it.
///
/// For JPEG this walks the markers up to the first scan and allocates nothing. Errors: damaged
/// or unsupported bytes, as far as the header shows it.
pub fn probe(bytes: &[u8]) -> Result<Header> {
    match sniff(bytes)? {
        Kind::Jpeg => jpeg_header::read(bytes),
        Kind::Other(format) => formats::header(bytes, format),
    }
}

/// Decodes one image after another on one thread; keeps its handles and scratch.
///
/// What an image decodes to never depends on the images before it.
pub struct Decoder {
    limits: Limits,
    /// The fast lane; `None` where every JPEG goes to libjpeg-turbo.
    own: Option<Own>,
    /// Who decoded the last image.
    lane: Lane,
    /// Made for the first JPEG that needs it.
    turbo: Option<Turbo>,
    /// A picture before it is turned upright.
    stored: Pixels,
    /// Samples that are not 8-bit RGB yet.
    raw: Vec<u8>,
}

impl Decoder {
    /// A decoder with the given limits.
    pub fn new(limits: Limits) -> Self {
        Self::with(limits, Cpu::best())
    }

    /// A decoder whose fast lane runs the kernels of one level; without one, every JPEG goes to
    /// libjpeg-turbo. The pixels are the same.
    pub fn with(limits: Limits, level: Option<Cpu>) -> Self {
        let (stored, raw) = (Pixels::new(), Vec::new());
        Decoder { limits, own: level.map(Own::new), lane: Lane::Other, turbo: None, stored, raw }
    }

    /// Who decoded the last image that was decoded, and why.
    pub fn lane(&self) -> Lane {
        self.lane
    }

    /// Who would decode `bytes`, as far as the header tells: data that leave doubt are not looked at.
    pub fn lane_of(&mut self, bytes: &[u8]) -> Lane {
        match sniff(bytes) {
            Ok(Kind::Jpeg) if self.prepare(bytes).is_some() => Lane::Own,
            Ok(Kind::Jpeg) => self.lane_behind(),
            _ => Lane::Other,
        }
    }

    /// Who takes a JPEG that the fast lane does not.
    fn lane_behind(&self) -> Lane {
        if self.own.is_some() { Lane::Rare } else { Lane::first(true) }
    }

    /// Decodes `bytes`, whose format is found from their content, with EXIF orientation applied.
    ///
    /// Gray, CMYK, YCCK and palettes become RGB, 16-bit samples v / 257 rounded, and alpha is
    /// dropped. Of an animation the first frame counts. After an error the content of `out` is
    /// unspecified.
    ///
    /// Errors: damaged or cut bytes, an unsupported kind, a limit passed. None names the file,
    /// which the caller knows.
    pub fn decode(&mut self, bytes: &[u8], out: &mut Pixels) -> Result<Info> {
        self.decode_region(bytes, |width, height, _| Ok(Wanted::whole(width, height)), out)
    }

    /// Decodes a part of a picture, or a JPEG at a smaller scale: of a JPEG, no more pixels than it
    /// takes. `out` is then what the same part of the whole picture at that scale is, to the bit.
    ///
    /// `wanted` is told the size (columns, rows) of the whole upright picture at [`Scale::Full`], and
    /// whether other scales can be had: of every JPEG but a lossless one and one that is mirrored
    /// across a part of a block, and of nothing else. It is called once, for a JPEG before any pixel is
    /// decoded, else after; its error ends the decode.
    ///
    /// Damage is seen as far as a file is read: of a JPEG of one scan that is to the region's last row,
    /// of any other file to its end. So a file that [`decode`](Self::decode) refuses may give a region
    /// that lies above its damage, with the pixels that the file held. Limits are those of the whole
    /// picture, and errors those of `decode`.
    ///
    /// # Panics
    /// Where the region is empty or not within the picture at the scale asked for, or where that
    /// scale cannot be had.
    pub fn decode_region(
        &mut self,
        bytes: &[u8],
        wanted: impl FnOnce(u32, u32, bool) -> Result<Wanted>,
        out: &mut Pixels,
    ) -> Result<Info> {
        self.limits.check_bytes(bytes.len())?;
        match sniff(bytes)? {
            Kind::Jpeg => {
                // The header may be read twice, but the caller is asked once.
                let wanted = match self.prepare(bytes) {
                    Some(prepared) => {
                        let (width, height) = prepared.upright_size();
                        let scales = prepared.keeps_blocks();
                        let wanted = wanted(width, height, scales)?;
                        wanted.check(width, height, scales);
                        if self.take(&prepared, bytes, wanted, out)?.is_some() {
                            self.lane = Lane::Own;
                            return Ok(Info { format: "jpeg", warnings: Vec::new() });
                        }
                        self.lane = Lane::Doubt;
                        Ok(wanted)
                    }
                    None => {
                        self.lane = self.lane_behind();
                        Err(wanted)
                    }
                };
                let turn = jpeg_header::orientation(bytes);
                let turbo = match &mut self.turbo {
                    Some(turbo) => turbo,
                    none => none.insert(Turbo::new(self.limits)?),
                };
                let jpeg = turbo.open(bytes)?;
                let (width, height) = turn.upright_size(jpeg.width, jpeg.height);
                let scales = jpeg.scales && turn.keeps_blocks(jpeg.width, jpeg.height);
                let wanted = match wanted {
                    Ok(wanted) => wanted,
                    Err(ask) => ask(width, height, scales)?,
                };
                wanted.check(width, height, scales);
                let Wanted { region, scale } = wanted;
                let window = turn.stored(region, scale.size(jpeg.width), scale.size(jpeg.height));
                let target =
                    if turn == Orientation::UPRIGHT { &mut *out } else { &mut self.stored };
                let warnings = jpeg.rows(window, scale, target)?;
                if turn != Orientation::UPRIGHT {
                    turn.apply(&self.stored, out)?;
                }
                Ok(Info { format: "jpeg", warnings })
            }
            Kind::Other(format) => {
                self.lane = Lane::Other;
                let turn = formats::decode(bytes, format, &self.limits, &mut self.raw, out)?;
                let (width, height) = turn.upright_size(out.width(), out.height());
                let wanted = wanted(width, height, false)?;
                wanted.check(width, height, false);
                if turn != Orientation::UPRIGHT || wanted != Wanted::whole(width, height) {
                    std::mem::swap(&mut self.stored, out);
                    let (width, height) = (self.stored.width(), self.stored.height());
                    let window = turn.stored(wanted.region, width, height);
                    turn.apply_to(&self.stored, window, out)?;
                }
                Ok(Info { format: formats::name(format), warnings: Vec::new() })
            }
        }
    }

    /// The header, where the file is a JPEG within the limits whose header leaves no doubt; one that was read
    /// lately is known again. What is behind it may still leave some.
    pub fn prepare(&mut self, bytes: &[u8]) -> Option<Arc<Prepared>> {
        self.limits.check_bytes(bytes.len()).ok()?;
        let prepared = self.own.as_mut()?.prepare(bytes)?;
        let (width, height) = prepared.size();
        self.limits.check_pixels(width, height).is_ok().then_some(prepared)
    }

    /// The fast lane. `None`: there is doubt.
    fn take(
        &mut self,
        prepared: &Prepared,
        bytes: &[u8],
        wanted: Wanted,
        out: &mut Pixels,
    ) -> Result<Option<()>> {
        let Some(own) = &mut self.own else { return Ok(None) };
        let turn = prepared.orientation();
        let Wanted { region, scale } = wanted;
        let (width, height) = prepared.size();
        let window = turn.stored(region, scale.size(width), scale.size(height));
        if turn == Orientation::UPRIGHT {
            return own.decode(prepared, bytes, window, scale, out);
        }
        let done = own.decode(prepared, bytes, window, scale, &mut self.stored)?;
        if done.is_some() {
            turn.apply(&self.stored, out)?;
        }
        Ok(done)
    }
}
