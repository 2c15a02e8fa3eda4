//! What a caller wants of a picture: a part of it, and at which scale.

/// A part of a picture, in pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Region {
    /// Its first column.
    pub x: u32,
    /// Its first row.
    pub y: u32,
    /// Its columns.
    pub width: u32,
    /// Its rows.
    pub height: u32,
}

impl Region {
    /// All of a picture.
    pub const fn whole(width: u32, height: u32) -> Self {
        Region { x: 0, y: 0, width, height }
    }

    /// Whether it has pixels, and all of them lie in a picture of `width` x `height`.
    fn lies_in(self, width: u32, height: u32) -> bool {
        let within = |first: u32, length: u32, all: u32| {
            length > 0 && first.checked_add(length).is_some_and(|end| end <= all)
        };
        within(self.x, self.width, width) && within(self.y, self.height, height)
    }
}

/// A scale at which JPEG can be decoded: its blocks of 8 x 8 samples become blocks of 8, 4, 2 or 1
/// from their lower frequencies, which takes a part of the work and is no exact mean of the pixels.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Default)]
pub enum Scale {
    /// As it is stored.
    #[default]
    Full,
    /// 1/2 of the columns and rows.
    Half,
    /// 1/4.
    Quarter,
    /// 1/8.
    Eighth,
}

impl Scale {
    /// From the largest picture to the smallest.
    pub const ALL: [Scale; 4] = [Scale::Full, Scale::Half, Scale::Quarter, Scale::Eighth];

    /// 1, 2, 4 or 8.
    pub const fn divisor(self) -> u32 {
        match self {
            Scale::Full => 1,
            Scale::Half => 2,
            Scale::Quarter => 4,
            Scale::Eighth => 8,
        }
    }

    /// What `length` columns or rows are at this scale; a part of one counts as one.
    pub const fn size(self, length: u32) -> u32 {
        length.div_ceil(self.divisor())
    }
}

/// What [`Decoder::decode_region`](super::Decoder::decode_region) is asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct Wanted {
    /// The part, in pixels of the upright picture at `scale`.
    pub region: Region,
    /// The scale.
    pub scale: Scale,
}

impl Wanted {
    /// All of a picture as it is stored.
    pub const fn whole(width: u32, height: u32) -> Self {
        Wanted { region: Region::whole(width, height), scale: Scale::Full }
    }

    /// Panics where the caller asks for what cannot be had of an upright picture of `width` x
    /// `height`, which it was told beforehand.
    pub(super) fn check(self, width: u32, height: u32, scales: bool) {
        let Wanted { region, scale } = self;
        assert!(scales || scale == Scale::Full, "{scale:?} of a picture that has one scale");
        let (width, height) = (scale.size(width), scale.size(height));
        assert!(region.lies_in(width, height), "{region:?} of {width} x {height} pixels");
    }
}
