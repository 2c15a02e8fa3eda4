//! A baseline JPEG's segments and scan, held to the letter of the standard.
//!
//! libjpeg forgives much, and its pixels are the reference. Another decoder may forgive other
//! things, so only a file that needs no forgiveness may go to one.

use memchr::memchr_iter;

const DHT: u8 = 0xC4;
const DAC: u8 = 0xCC;
const RST0: u8 = 0xD0;
const EOI: u8 = 0xD9;
const SOS: u8 = 0xDA;
const DQT: u8 = 0xDB;
const DRI: u8 = 0xDD;
const APP14: u8 = 0xEE;

/// The segments up to the scan, as far as decoding needs them.
#[derive(Default)]
pub(super) struct Structure<'a> {
    /// The marker of the frame header, SOF0 to SOF15.
    pub(super) coding: u8,
    /// Id, sampling factors (horizontal in the high half) and quantisation table of each component.
    pub(super) components: &'a [[u8; 3]],
    /// The colour transform that an Adobe segment names: 0 none, 1 YCbCr, 2 YCCK.
    pub(super) adobe: Option<u8>,
    /// The scan's header.
    scan: &'a [u8],
    /// MCUs between restart markers; 0: none.
    interval: u16,
    tables: Tables,
    /// A segment makes no sense.
    broken: bool,
}

/// Bit i: table i has been defined.
#[derive(Default)]
struct Tables {
    quantisation: u8,
    dc: u8,
    ac: u8,
}

impl<'a> Structure<'a> {
    /// Takes in one segment.
    pub(super) fn see(&mut self, marker: u8, payload: &'a [u8]) {
        let sound = match marker {
            DHT => self.tables.huffman(payload).is_some(),
            DQT => self.tables.quantisation(payload).is_some(),
            DRI => {
                payload.try_into().map(|bytes| self.interval = u16::from_be_bytes(bytes)).is_ok()
            }
            SOS => {
                self.scan = payload;
                true
            }
            APP14 => {
                // As libjpeg: a shorter segment is not Adobe's.
                if payload.len() >= 12 && payload.starts_with(b"Adobe") {
                    self.adobe = Some(payload[11]);
                }
                true
            }
            DAC | 0xE0..=0xEF | 0xFE => true, // APPn, COM
            0xC0..=0xCF if marker != 0xC8 => {
                self.coding = marker;
                self.components = payload.get(6..).unwrap_or_default().as_chunks().0;
                true
            }
            _ => false,
        };
        self.broken |= !sound;
    }

    /// Whether the first scan leaves components to others.
    pub(super) fn has_several_scans(&self) -> bool {
        self.scan.first().is_some_and(|&n| usize::from(n) < self.components.len())
    }

    /// Whether tables and the scan's header are whole and fit each other, and `scan`, the bytes
    /// behind it, holds a picture of `width` x `height` as far as its markers show.
    pub(super) fn is_sound(&self, scan: &[u8], width: u32, height: u32) -> bool {
        !self.broken
            && self.scan_header_is_sound()
            && self.entropy_is_sound(scan, width.into(), height.into())
    }

    /// The components in the frame's order, their tables, and the whole spectrum.
    fn scan_header_is_sound(&self) -> bool {
        let [count, selectors @ .., 0, 63, 0] = self.scan else { return false };
        let (selectors, []) = selectors.as_chunks::<2>() else { return false };
        let has = |tables: u8, index: u8| index < 4 && tables >> index & 1 == 1;
        let fits = |(&[id, tables], &[component, _, quantisation]): (&[u8; 2], &[u8; 3])| {
            id == component
                && has(self.tables.dc, tables >> 4)
                && has(self.tables.ac, tables & 15)
                && has(self.tables.quantisation, quantisation)
        };
        usize::from(*count) == selectors.len()
            && selectors.len() == self.components.len()
            && selectors.iter().zip(self.components).all(fits)
    }

    /// Nothing but stuffed bytes, as many restart markers as there must be, and the end marker.
    fn entropy_is_sound(&self, scan: &[u8], width: u64, height: u64) -> bool {
        let (mut h_most, mut v_most, mut blocks) = (1, 1, 1);
        // A lone component is not interleaved: its MCU is one block.
        if self.components.len() > 1 {
            let factors = || self.components.iter().map(|&[_, hv, _]| (hv >> 4, hv & 15));
            h_most = factors().map(|(h, _)| h.into()).max().unwrap_or(1);
            v_most = factors().map(|(_, v)| v.into()).max().unwrap_or(1);
            blocks = factors().map(|(h, v)| u64::from(h) * u64::from(v)).sum();
        }
        if h_most == 0 || v_most == 0 {
            return false;
        }
        let mcus = width.div_ceil(8 * h_most) * height.div_ceil(8 * v_most);
        let restarts = (mcus - 1).checked_div(self.interval.into()).unwrap_or(0);
        let mut seen = 0;
        for at in memchr_iter(0xFF, scan) {
            match scan.get(at + 1) {
                Some(0) => {}
                Some(&EOI) => {
                    // The shortest codes of a block are a bit each for its DC value and its end.
                    return seen == restarts && at as u64 * 8 >= mcus * blocks * 2;
                }
                Some(&marker) if seen < restarts && marker == RST0 + (seen % 8) as u8 => seen += 1,
                _ => return false,
            }
        }
        false
    }
}

impl Tables {
    fn quantisation(&mut self, mut payload: &[u8]) -> Option<()> {
        while let Some((&head, rest)) = payload.split_first() {
            let (wide, index) = (head >> 4, head & 15);
            if wide > 1 || index > 3 {
                return None;
            }
            payload = rest.get(64 << wide..)?;
            self.quantisation |= 1 << index;
        }
        Some(())
    }

    fn huffman(&mut self, mut payload: &[u8]) -> Option<()> {
        while let Some((&head, rest)) = payload.split_first() {
            let (counts, rest) = rest.split_first_chunk::<16>()?;
            let symbols = counts.iter().map(|&n| usize::from(n)).sum();
            let (symbols, rest) = rest.split_at_checked(symbols)?;
            let (class, index) = (head >> 4, head & 15);
            if class > 1 || index > 3 || symbols.len() > 256 || !is_prefix_code(counts) {
                return None;
            }
            // A DC symbol is a number of bits.
            if class == 0 && symbols.iter().any(|&bits| bits > 15) {
                return None;
            }
            let tables = if class == 0 { &mut self.dc } else { &mut self.ac };
            *tables |= 1 << index;
            payload = rest;
        }
        Some(())
    }
}

/// Whether `counts[i]` codes of i + 1 bits each fit beside each other, the code of all ones free.
fn is_prefix_code(counts: &[u8; 16]) -> bool {
    let mut next = 0_u32;
    counts.iter().zip(1..).all(|(&count, bits)| {
        next = next * 2 + u32::from(count);
        next < 1 << bits
    })
}
