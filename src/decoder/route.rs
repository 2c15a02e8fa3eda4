//! Which decoder takes an image: a function of its bytes and of the pipeline, never of timing.
//!
//! Small JPEGs go to our own kernels, large baseline ones to nvJPEG, or to ours where it may take none, all else to
//! the CPU. An image goes to nvJPEG only if its markers leave no doubt about what it means: where decoders may differ in what they forgive or
//! assume, the CPU decoder is the reference. Damage that only the entropy-coded bytes show is not
//! seen here.

use super::gpu::Prepared;
use super::jpeg_header::{self, Walk};
use super::sniff::{Kind, sniff};
use super::structure::Structure;
use super::{Decoder, Limits, Orientation};
use std::fmt;
use std::sync::Arc;

/// What routing depends on beside the image.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Rule {
    /// Images of at most so many pixels do not go to nvJPEG.
    pub split: u64,
    /// No image goes to nvJPEG, whose pixels are not exact.
    pub exact: bool,
    /// Whether our own kernels decode JPEGs on the GPU, with the CPU's pixels: those of at most `split` pixels
    /// in all or between restart markers ([`Prepared::is_for_gpu`]), and larger ones where nvJPEG gets none.
    pub own: bool,
    /// Whether nvJPEG may be used at all; else why not ([`Reason::Pipeline`], [`Reason::NoGpu`],
    /// [`Reason::NoNvjpeg`]).
    pub gpu: Result<(), Reason>,
    /// An image over these goes to the CPU decoder, which refuses it.
    pub limits: Limits,
}

/// Where an image goes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// To our own kernels on the GPU; what they leave in doubt goes to the CPU after all.
    Own(Arc<Prepared>),
    /// To nvJPEG.
    Nvjpeg(Frame),
    /// To the CPU decoder, and why.
    Cpu(Reason),
}

/// An image for nvJPEG.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Frame {
    /// Columns as stored, which is how nvJPEG writes them: before `orientation`.
    pub width: u32,
    /// Rows as stored.
    pub height: u32,
    /// 1 (gray) or 3 (YCbCr).
    pub components: u8,
    /// The turn that makes the picture upright.
    pub orientation: Orientation,
    /// How the colour planes are stored.
    pub subsampling: Subsampling,
}

impl Frame {
    /// Columns and rows of the picture once it is upright.
    pub fn upright_size(&self) -> (u32, u32) {
        match self.orientation.swaps() {
            true => (self.height, self.width),
            false => (self.width, self.height),
        }
    }
}

/// The kinds of chroma subsampling that libjpeg interpolates, and so nvJPEG is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Subsampling {
    /// No colour planes.
    Gray,
    /// As large as the picture.
    C444,
    /// Half the columns.
    C422,
    /// Half the columns and rows.
    C420,
    /// Half the rows.
    C440,
}

/// Declares the reasons with a short name and a line for people each.
macro_rules! reasons {
    ($($reason:ident, $name:literal, $line:literal;)*) => {
        /// Why an image goes to the CPU decoder.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Reason {
            $(#[doc = $line] $reason,)*
        }

        impl Reason {
            /// Every reason, in the order of [`Reason::index`].
            pub const ALL: [Reason; Reason::COUNT] = [$(Reason::$reason),*];
            /// How many there are.
            pub const COUNT: usize = [$($name),*].len();

            /// A short name that stays as it is, for JSON and tables.
            pub const fn name(self) -> &'static str {
                match self {
                    $(Reason::$reason => $name,)*
                }
            }
        }

        impl fmt::Display for Reason {
            /// A line for people.
            fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str(match self {
                    $(Reason::$reason => $line,)*
                })
            }
        }
    };
}

reasons! {
    Pipeline, "pipeline", "the pipeline asks for the CPU decoder";
    NoGpu, "no-gpu", "there is no GPU";
    NoNvjpeg, "no-nvjpeg", "nvJPEG is not there or does not start";
    Exact, "exact", "decoder.exact or decoder.backend keeps it from nvJPEG";
    Format, "format", "not a JPEG";
    Damaged, "damaged", "damaged, cut, or laid out in an unusual way";
    Small, "small", "not larger than decoder.split";
    Limit, "limit", "over a limit, so it is refused";
    Progressive, "progressive", "a progressive JPEG";
    Arithmetic, "arithmetic", "an arithmetic-coded JPEG";
    Extended, "extended", "an extended, lossless or hierarchical JPEG";
    Precision, "precision", "samples of other than 8 bits";
    Components, "components", "CMYK or another number of components";
    ColourSpace, "colour-space", "a JPEG that is or may be stored as RGB";
    Subsampling, "subsampling", "chroma subsampling that libjpeg does not interpolate";
    Scans, "scans", "a baseline JPEG of several scans";
}

impl Reason {
    /// Its place in [`Reason::ALL`], to count by.
    pub const fn index(self) -> usize {
        self as usize
    }
}

impl Decoder {
    /// Says where an image goes. The decoder's limits are those of `rule`.
    pub fn route(&mut self, bytes: &[u8], rule: &Rule) -> Route {
        let own = rule.own.then(|| self.prepare(bytes)).flatten();
        let most = if rule.exact || rule.gpu.is_err() { u64::MAX } else { rule.split };
        match own.filter(|prepared| prepared.is_for_gpu(most)) {
            Some(prepared) => Route::Own(prepared),
            None => route(bytes, rule),
        }
    }
}

/// Says where an image goes that our own kernels do not get. Looks at the bytes only as far as it must: at
/// none if `rule` forbids nvJPEG, at the header of a small image, at all of them where nvJPEG is to take it.
pub fn route(bytes: &[u8], rule: &Rule) -> Route {
    match admit(bytes, rule) {
        Ok(frame) => Route::Nvjpeg(frame),
        Err(reason) => Route::Cpu(reason),
    }
}

fn admit(bytes: &[u8], rule: &Rule) -> Result<Frame, Reason> {
    rule.gpu?;
    let check = |holds: bool, reason| if holds { Ok(()) } else { Err(reason) };
    check(!rule.exact, Reason::Exact)?;
    check(matches!(sniff(bytes), Ok(Kind::Jpeg)), Reason::Format)?;
    let mut structure = Structure::default();
    let walk = jpeg_header::walk(bytes, |marker, payload| structure.see(marker, payload));
    let Walk { header, scan, stray } = walk.map_err(|_| Reason::Damaged)?;
    let (width, height) = (header.width, header.height);
    check(u64::from(width) * u64::from(height) > rule.split, Reason::Small)?;
    let within = rule.limits.check_bytes(bytes.len()).is_ok()
        && rule.limits.check_pixels(width, height).is_ok();
    check(within, Reason::Limit)?;
    match structure.coding {
        0xC0 => {}
        0xC2 | 0xC6 => return Err(Reason::Progressive),
        0xC9..=0xCF => return Err(Reason::Arithmetic),
        _ => return Err(Reason::Extended),
    }
    check(header.precision == 8, Reason::Precision)?;
    check(matches!(header.components, 1 | 3), Reason::Components)?;
    check(is_gray_or_ycbcr(&structure), Reason::ColourSpace)?;
    let subsampling = subsampling(structure.components, width).ok_or(Reason::Subsampling)?;
    check(!structure.has_several_scans(), Reason::Scans)?;
    check(!stray && structure.is_sound(scan, width, height), Reason::Damaged)?;
    let orientation = header.orientation;
    Ok(Frame { width, height, components: header.components, orientation, subsampling })
}

/// Whether every sign is of gray or YCbCr. libjpeg weighs JFIF and Adobe segments and component
/// ids against each other; here one sign of RGB is enough for doubt.
fn is_gray_or_ycbcr(structure: &Structure<'_>) -> bool {
    match *structure.components {
        [_] => true,
        [[r, ..], [g, ..], [b, ..]] => {
            structure.adobe.unwrap_or(1) == 1 && [r, g, b] != [b'R', b'G', b'B']
        }
        _ => false,
    }
}

fn subsampling(components: &[[u8; 3]], width: u32) -> Option<Subsampling> {
    let kind = match *components {
        [[_, 0x11, _]] => Subsampling::Gray,
        [[_, luma, _], [_, 0x11, _], [_, 0x11, _]] => match luma {
            0x11 => Subsampling::C444,
            0x21 => Subsampling::C422,
            0x22 => Subsampling::C420,
            0x12 => Subsampling::C440,
            _ => return None,
        },
        _ => return None,
    };
    // libjpeg repeats the samples of up to two columns of chroma instead of interpolating them.
    let narrow = matches!(kind, Subsampling::C422 | Subsampling::C420) && width.div_ceil(2) <= 2;
    (!narrow).then_some(kind)
}
