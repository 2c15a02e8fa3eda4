//! Generated JPEGs of every kind that libjpeg-turbo writes, and its own decode of them.
#![allow(unsafe_code)]

use turbojpeg::raw::*;

/// A deterministic picture with smooth parts, edges and noise, in integer arithmetic only.
pub(crate) fn picture(width: usize, height: usize, channels: usize) -> Vec<u8> {
    let mut state = 0x9E37_79B9_u32;
    let mut pixels = Vec::with_capacity(width * height * channels);
    for y in 0..height {
        for x in 0..width {
            for c in 0..channels {
                state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                let smooth = (x * (5 + 2 * c) + y * (3 + c)) % 512;
                let smooth = if smooth > 255 { 511 - smooth } else { smooth };
                let edge = if (x / 7 + y / 5 + c) % 3 == 0 { 60 } else { 0 };
                let noise = (state >> 27) as usize;
                pixels.push((smooth * 3 / 4 + edge + noise).min(255) as u8);
            }
        }
    }
    pixels
}

#[derive(Clone, Copy)]
pub(crate) struct Kind {
    pub(crate) subsampling: TJSAMP,
    pub(crate) quality: i32,
    pub(crate) optimize: bool,
    pub(crate) progressive: bool,
    pub(crate) arithmetic: bool,
    pub(crate) lossless: bool,
    /// MCUs between restart markers; 0: none.
    pub(crate) restart: i32,
}

impl Kind {
    /// As the course's export: quality 75, 4:2:0, baseline.
    pub(crate) const COURSE: Kind = Kind {
        subsampling: TJSAMP_TJSAMP_420,
        quality: 75,
        optimize: false,
        progressive: false,
        arithmetic: false,
        lossless: false,
        restart: 0,
    };
}

pub(crate) const SUBSAMPLINGS: [TJSAMP; 7] = [
    TJSAMP_TJSAMP_444,
    TJSAMP_TJSAMP_422,
    TJSAMP_TJSAMP_420,
    TJSAMP_TJSAMP_GRAY,
    TJSAMP_TJSAMP_440,
    TJSAMP_TJSAMP_411,
    TJSAMP_TJSAMP_441,
];

/// A TurboJPEG handle.
struct Handle(tjhandle);

impl Handle {
    fn new(init: TJINIT) -> Handle {
        // SAFETY: takes a number only.
        Handle(unsafe { tj3Init(init as _) })
    }

    fn set(&self, what: TJPARAM, value: i32) {
        // SAFETY: the handle is live.
        assert_eq!(unsafe { tj3Set(self.0, what as _, value) }, 0);
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        // SAFETY: the handle is live and dropped once.
        unsafe { tj3Destroy(self.0) }
    }
}

/// Encodes RGB pixels.
pub(crate) fn jpeg(pixels: &[u8], width: usize, height: usize, kind: Kind) -> Vec<u8> {
    encode(pixels, width, height, kind, TJPF_TJPF_RGB, None)
}

/// Encodes CMYK pixels, 255 for no ink, as CMYK or YCCK.
pub(crate) fn cmyk_jpeg(pixels: &[u8], width: usize, height: usize, ycck: bool) -> Vec<u8> {
    let kind = Kind { subsampling: TJSAMP_TJSAMP_444, quality: 100, ..Kind::COURSE };
    let space = if ycck { TJCS_TJCS_YCCK } else { TJCS_TJCS_CMYK };
    encode(pixels, width, height, kind, TJPF_TJPF_CMYK, Some(space))
}

/// Encodes CMYK pixels as YCCK of any kind.
pub(crate) fn ycck_jpeg(pixels: &[u8], width: usize, height: usize, kind: Kind) -> Vec<u8> {
    encode(pixels, width, height, kind, TJPF_TJPF_CMYK, Some(TJCS_TJCS_YCCK))
}

fn encode(
    pixels: &[u8],
    width: usize,
    height: usize,
    kind: Kind,
    format: TJPF,
    space: Option<TJCS>,
) -> Vec<u8> {
    let handle = Handle::new(TJINIT_TJINIT_COMPRESS);
    handle.set(TJPARAM_TJPARAM_QUALITY, kind.quality);
    handle.set(TJPARAM_TJPARAM_SUBSAMP, kind.subsampling);
    handle.set(TJPARAM_TJPARAM_OPTIMIZE, kind.optimize.into());
    handle.set(TJPARAM_TJPARAM_PROGRESSIVE, kind.progressive.into());
    handle.set(TJPARAM_TJPARAM_ARITHMETIC, kind.arithmetic.into());
    handle.set(TJPARAM_TJPARAM_LOSSLESS, kind.lossless.into());
    handle.set(TJPARAM_TJPARAM_RESTARTBLOCKS, kind.restart);
    if let Some(space) = space {
        handle.set(TJPARAM_TJPARAM_COLORSPACE, space as i32);
    }
    let (mut data, mut size) = (std::ptr::null_mut(), 0);
    // SAFETY: `pixels` holds the picture (pitch 0 means dense); the output is allocated there.
    let status = unsafe {
        let (w, h) = (width as i32, height as i32);
        tj3Compress8(handle.0, pixels.as_ptr(), w, 0, h, format, &mut data, &mut size)
    };
    assert_eq!(status, 0);
    // SAFETY: filled by the call above, freed here once.
    unsafe {
        let jpeg = std::slice::from_raw_parts(data, size as usize).to_vec();
        tj3Free(data.cast());
        jpeg
    }
}

/// TurboJPEG's own decode to RGB, or to CMYK.
pub(crate) fn reference(jpeg: &[u8], width: usize, height: usize, cmyk: bool) -> Vec<u8> {
    reference_at(jpeg, width, height, cmyk, 1)
}

/// The same at the scale 1 / `divisor`, of a picture that is stored as `width` x `height`.
pub(crate) fn reference_at(
    jpeg: &[u8],
    width: usize,
    height: usize,
    cmyk: bool,
    divisor: usize,
) -> Vec<u8> {
    let handle = Handle::new(TJINIT_TJINIT_DECOMPRESS);
    let scale = tjscalingfactor { num: 1, denom: divisor as i32 };
    // SAFETY: the handle is live.
    assert_eq!(unsafe { tj3SetScalingFactor(handle.0, scale) }, 0);
    let (format, channels) = if cmyk { (TJPF_TJPF_CMYK, 4) } else { (TJPF_TJPF_RGB, 3) };
    let mut pixels = vec![0; width.div_ceil(divisor) * height.div_ceil(divisor) * channels];
    // SAFETY: `pixels` holds a dense picture of the size that the JPEG was made with, at the scale.
    let status = unsafe {
        tj3Decompress8(handle.0, jpeg.as_ptr(), jpeg.len() as _, pixels.as_mut_ptr(), 0, format)
    };
    assert_eq!(status, 0);
    pixels
}

/// EXIF metadata that state an orientation, as JPEG holds them.
pub(crate) fn exif(value: u16, little: bool) -> Vec<u8> {
    let two = |v: u16| if little { v.to_le_bytes() } else { v.to_be_bytes() };
    let four = |v: u32| if little { v.to_le_bytes() } else { v.to_be_bytes() };
    let mut exif = b"Exif\0\0".to_vec();
    exif.extend(if little { b"II" } else { b"MM" });
    exif.extend(two(42));
    exif.extend(four(8));
    exif.extend(two(2));
    for (tag, value) in [(0x0100, 999), (0x0112, value)] {
        exif.extend(two(tag));
        exif.extend(two(3));
        exif.extend(four(1));
        exif.extend(two(value));
        exif.extend(two(0));
    }
    exif.extend(four(0));
    exif
}

/// `jpeg` with an Exif segment that holds an orientation, after SOI.
pub(crate) fn with_orientation(jpeg: &[u8], value: u16, little: bool) -> Vec<u8> {
    insert(jpeg, 2, &segment(0xE1, &exif(value, little)))
}

/// A marker segment.
pub(crate) fn segment(marker: u8, payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u16 + 2).to_be_bytes();
    [&[0xFF, marker], &length[..], payload].concat()
}

pub(crate) fn insert(bytes: &[u8], at: usize, part: &[u8]) -> Vec<u8> {
    [&bytes[..at], part, &bytes[at..]].concat()
}

/// Where the segments with `marker` lie, before the first scan.
pub(crate) fn segments(jpeg: &[u8], marker: u8) -> Vec<std::ops::Range<usize>> {
    let (mut at, mut found) = (2, Vec::new());
    loop {
        let length = usize::from(u16::from_be_bytes([jpeg[at + 2], jpeg[at + 3]]));
        if jpeg[at + 1] == marker {
            found.push(at..at + 2 + length);
        }
        if jpeg[at + 1] == 0xDA {
            return found;
        }
        at += 2 + length;
    }
}

/// `jpeg` without its segments with `marker`.
pub(crate) fn without(jpeg: &[u8], marker: u8) -> Vec<u8> {
    let mut bytes = jpeg.to_vec();
    for range in segments(jpeg, marker).into_iter().rev() {
        bytes.drain(range);
    }
    bytes
}

/// A gray block whose first value has a code of 12 bits, which encoders make for huge pictures only, and no
/// other values.
pub(crate) fn long_code() -> Vec<u8> {
    let kind = Kind { subsampling: TJSAMP_TJSAMP_GRAY, quality: 100, ..Kind::COURSE };
    let mut file = jpeg(&[90; 192], 8, 8, kind);
    // A code of each length, for the 12 sizes of a first value.
    let dc = segments(&file, 0xC4)[0].start + 5;
    file[dc..dc + 16].copy_from_slice(&[1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 1, 0, 0, 0, 0]);
    let symbols: Vec<u8> = (0..12).collect();
    file[dc + 16..dc + 28].copy_from_slice(&symbols);
    // Eleven ones and a zero; 1024 in 11 bits; the end of the block in 4; ones.
    file.truncate(segments(&file, 0xDA)[0].end);
    file.extend([0xFF, 0x00, 0b1110_1000, 0b0000_0001, 0b0101_1111, 0xFF, 0xD9]);
    file
}
