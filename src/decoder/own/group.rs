//! Groups of sixteen blocks: how their coefficients lie, and where their samples go.

/// Zigzag order: where coefficient k lies, rows of eight.
pub(super) const ZIGZAG: [u8; 64] = [
    0, 1, 8, 16, 9, 2, 3, 10, 17, 24, 32, 25, 18, 11, 4, 5, 12, 19, 26, 33, 40, 48, 41, 34, 27, 20,
    13, 6, 7, 14, 21, 28, 35, 42, 49, 56, 57, 50, 43, 36, 29, 22, 15, 23, 30, 37, 44, 51, 58, 59,
    52, 45, 38, 31, 39, 46, 53, 60, 61, 54, 47, 55, 62, 63,
];

/// Blocks of a group: coefficient k of block b is at k * [`LANES`] + b.
pub(super) const LANES: usize = 16;

/// The coefficients of a group.
pub(super) type Group = [i16; 64 * LANES];

/// Where coefficient k, in zigzag order, of a group's first block is. Those behind the last are where it is,
/// so that a run that leaves the block needs no check before it is stored.
pub(super) const PLACES: [u16; 128] = {
    let mut places = [0; 128];
    let mut k = 0;
    while k < 128 {
        places[k] = ZIGZAG[if k < 64 { k } else { 63 }] as u16 * LANES as u16;
        k += 1;
    }
    places
};

/// Where the blocks of groups go.
pub(super) struct Places {
    /// Of each block's first sample.
    pub(super) at: Vec<i32>,
    pub(super) stride: i32,
    /// Samples of a block's row and column: 8, 4, 2 or 1.
    pub(super) side: u32,
    /// Blocks 2k and 2k + 1 of a group lie beside each other.
    pub(super) paired: bool,
    reach: usize,
}

impl Places {
    /// Rows of samples are `stride` bytes apart.
    pub(super) fn new(
        at: impl Iterator<Item = usize>,
        stride: usize,
        side: usize,
        paired: bool,
    ) -> Self {
        assert!(matches!(side, 1 | 2 | 4 | 8));
        let at: Vec<usize> = at.collect();
        let pairs = || at.as_chunks::<2>().0.iter();
        assert!(!paired || pairs().all(|[one, two]| one + side == *two));
        let reach = at.iter().max().map_or(0, |most| most + (side - 1) * stride + side);
        // Planes of some gigabytes would hold more than the widest picture has.
        let number = |n: usize| i32::try_from(n).expect("a band's planes are small");
        number(reach);
        let stride = number(stride);
        let at = at.into_iter().map(number).collect();
        Places { at, stride, side: side as u32, paired, reach }
    }

    /// Bytes of planes that hold them all.
    pub(super) fn reach(&self) -> usize {
        self.reach
    }
}
