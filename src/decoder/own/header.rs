//! What the markers before the scan say, of a file whose every marker is as the standard has it.
//!
//! Anything else is `None`: libjpeg-turbo decides what to make of it.

use super::group::ZIGZAG;
use super::tables::{Class, Huffman, Tables};
use crate::decoder::{Orientation, jpeg_header};
use std::sync::Arc;

/// libjpeg takes no longer side.
const MOST_SIDE: u32 = 65500;

/// A component of the picture.
pub(super) struct Component {
    /// By column and row.
    pub(super) quantisation: [u16; 64],
    pub(super) dc: Arc<Huffman>,
    pub(super) ac: Arc<Huffman>,
}

/// A picture that can be decoded here: gray, or YCbCr whose chroma is as large as luma or half of it.
pub(super) struct Frame {
    /// Columns as stored.
    pub(super) width: u32,
    /// Rows as stored.
    pub(super) height: u32,
    /// Luma samples a chroma sample, across and down: 1 or 2.
    pub(super) halved: (usize, usize),
    /// One or three.
    pub(super) components: Vec<Component>,
    /// MCUs between restart markers; 0: none.
    pub(super) interval: u32,
    /// Rows of MCUs that libjpeg reads together: more than one of some gray files.
    pub(super) together: usize,
    /// Where the entropy-coded bytes begin.
    pub(super) scan: usize,
    pub(super) orientation: Orientation,
}

/// How many codes of each length, and the symbols of all.
type Code<'a> = (&'a [u8; 16], &'a [u8]);

/// What the segments leave behind.
#[derive(Default)]
struct Segments<'a> {
    frame: Option<(u32, u32)>,
    /// Id, sampling factors, quantisation table.
    components: &'a [[u8; 3]],
    quantisation: [Option<[u16; 64]>; 4],
    /// Made once it is known which of them the scan has.
    dc: [Option<Code<'a>>; 4],
    ac: [Option<Code<'a>>; 4],
    interval: u32,
    jfif: bool,
    adobe: Option<u8>,
}

/// Reads up to the scan.
pub(super) fn read(jpeg: &[u8], tables: &mut Tables) -> Option<Frame> {
    let mut segments = Segments::default();
    let mut rest = jpeg.strip_prefix(&[0xFF, 0xD8])?;
    loop {
        let &[0xFF, marker, high, low, ..] = rest else { return None };
        let end = 2 + usize::from(u16::from_be_bytes([high, low]));
        let payload = rest.get(4..end)?;
        rest = &rest[end..];
        if marker == 0xDA {
            return segments.frame(payload, jpeg, jpeg.len() - rest.len(), tables);
        }
        segments.see(marker, payload)?;
    }
}

impl<'a> Segments<'a> {
    fn see(&mut self, marker: u8, payload: &'a [u8]) -> Option<()> {
        match marker {
            0xC0 | 0xC1 => self.start(payload),
            0xC4 => self.huffman(payload),
            0xDB => self.quantisation(payload),
            0xDD => {
                self.interval = u16::from_be_bytes(payload.try_into().ok()?).into();
                Some(())
            }
            0xE0 => {
                // As libjpeg: a shorter segment is not JFIF's.
                if payload.len() >= 14 && payload.starts_with(b"JFIF\0") {
                    self.jfif = true;
                    // It warns of other versions.
                    return (payload[5] == 1).then_some(());
                }
                Some(())
            }
            0xEE => {
                if payload.len() >= 12 && payload.starts_with(b"Adobe") {
                    self.adobe = Some(payload[11]);
                }
                Some(())
            }
            0xE1..=0xEF | 0xFE => Some(()),
            _ => None,
        }
    }

    fn start(&mut self, payload: &'a [u8]) -> Option<()> {
        let &[8, h1, h0, w1, w0, count, ref list @ ..] = payload else { return None };
        let side = |high, low| u32::from(u16::from_be_bytes([high, low]));
        let (width, height) = (side(w1, w0), side(h1, h0));
        let (components, []) = list.as_chunks::<3>() else { return None };
        let fits = (1..=MOST_SIDE).contains(&width)
            && (1..=MOST_SIDE).contains(&height)
            && components.len() == usize::from(count)
            && self.frame.is_none();
        (self.frame, self.components) = (Some((width, height)), components);
        fits.then_some(())
    }

    fn huffman(&mut self, mut payload: &'a [u8]) -> Option<()> {
        while let Some((&head, rest)) = payload.split_first() {
            let (counts, rest) = rest.split_first_chunk::<16>()?;
            let (symbols, rest) =
                rest.split_at_checked(counts.iter().map(|&n| usize::from(n)).sum())?;
            let codes = match head >> 4 {
                0 => &mut self.dc,
                1 => &mut self.ac,
                _ => return None,
            };
            let place = codes.get_mut(usize::from(head & 15)).filter(|_| symbols.len() <= 256)?;
            *place = Some((counts, symbols));
            payload = rest;
        }
        Some(())
    }

    fn quantisation(&mut self, mut payload: &[u8]) -> Option<()> {
        while let Some((&head, rest)) = payload.split_first() {
            let mut table = [0; 64];
            let size = match head >> 4 {
                0 => {
                    let values = rest.first_chunk::<64>()?;
                    for (&value, &at) in values.iter().zip(&ZIGZAG) {
                        table[usize::from(at)] = value.into();
                    }
                    64
                }
                1 => {
                    let (values, _) = rest.first_chunk::<128>()?.as_chunks::<2>();
                    for (&value, &at) in values.iter().zip(&ZIGZAG) {
                        table[usize::from(at)] = u16::from_be_bytes(value);
                    }
                    128
                }
                _ => return None,
            };
            *self.quantisation.get_mut(usize::from(head & 15))? = Some(table);
            payload = &rest[size..];
        }
        Some(())
    }

    /// The frame, of the one scan with header `scan` whose data begin at `at`.
    fn frame(&self, scan: &[u8], jpeg: &[u8], at: usize, tables: &mut Tables) -> Option<Frame> {
        let (width, height) = self.frame?;
        let halved = self.sampling()?;
        let [count, selectors @ .., 0, 63, 0] = scan else { return None };
        let (selectors, []) = selectors.as_chunks::<2>() else { return None };
        if usize::from(*count) != selectors.len() || selectors.len() != self.components.len() {
            return None;
        }
        let mut code = |class, codes: &[Option<Code<'_>>; 4], number: u8| {
            let (counts, symbols) = (*codes.get(usize::from(number))?)?;
            tables.get(class, counts, symbols)
        };
        let component = |(&[id, codes], &[own, _, quantisation]): (&[u8; 2], &[u8; 3])| {
            Some(Component {
                quantisation: (*self.quantisation.get(usize::from(quantisation))?)?,
                dc: code(Class::Dc, &self.dc, codes >> 4)?,
                ac: code(Class::Ac, &self.ac, codes & 15).filter(|_| id == own)?,
            })
        };
        let components =
            selectors.iter().zip(self.components).map(component).collect::<Option<_>>()?;
        let orientation = jpeg_header::orientation(&jpeg[..at]);
        // A lone component is not interleaved, but libjpeg takes as many rows of blocks as its factor says.
        let together = match *self.components {
            [[_, factors, _]] => usize::from(factors & 15),
            _ => 1,
        };
        let (interval, scan) = (self.interval, at);
        Some(Frame { width, height, halved, components, interval, together, scan, orientation })
    }

    /// How chroma is halved, of gray and YCbCr, which libjpeg tells from RGB by JFIF and Adobe segments
    /// and else by the components' ids.
    fn sampling(&self) -> Option<(usize, usize)> {
        match *self.components {
            // A lone component is not interleaved, whatever its factors.
            [[_, factors, _]] => {
                let one = |factor| (1..=4).contains(&factor);
                (one(factors >> 4) && one(factors & 15)).then_some((1, 1))
            }
            [[y, luma, _], [b, 0x11, _], [r, 0x11, _]] => {
                let ycbcr = self.jfif
                    || match self.adobe {
                        Some(transform) => transform == 1,
                        None => [y, b, r] != *b"RGB",
                    };
                let halved = match luma {
                    0x11 => (1, 1),
                    0x21 => (2, 1),
                    0x12 => (1, 2),
                    0x22 => (2, 2),
                    _ => return None,
                };
                (ycbcr && y != b && b != r && r != y).then_some(halved)
            }
            _ => None,
        }
    }
}

#[cfg(test)]
impl Frame {
    /// A picture in colour that says nothing else.
    pub(super) fn plain(width: u32, height: u32, halved: (usize, usize)) -> Self {
        let mut tables = Tables::default();
        let mut code = |class| tables.get(class, &[0; 16], &[]).expect("a code of nothing");
        let (dc, ac) = (code(Class::Dc), code(Class::Ac));
        let component = || Component { quantisation: [1; 64], dc: dc.clone(), ac: ac.clone() };
        let components = vec![component(), component(), component()];
        let orientation = Orientation::UPRIGHT;
        Frame { width, height, halved, components, interval: 0, together: 1, scan: 0, orientation }
    }
}
