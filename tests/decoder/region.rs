//! A part of a picture is what it is in the whole, at every scale, and hears of damage above its end.

use crate::encode::*;
use crate::files;
use crate::shared::shared;
use forebay::decoder::{Decoder, Info, Limits, Pixels, Region, Scale, Wanted};
use forebay::{Error, ErrorKind, Result};

/// SplitMix64.
struct Random(u64);

impl Random {
    /// 0 to `count` - 1.
    fn below(&mut self, count: u32) -> u32 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        ((z ^ (z >> 31)) % u64::from(count)) as u32
    }

    fn region(&mut self, width: u32, height: u32) -> Region {
        let (x, y) = (self.below(width), self.below(height));
        let (width, height) = (1 + self.below(width - x), 1 + self.below(height - y));
        Region { x, y, width, height }
    }
}

/// One decoder for all parts, so that each follows others, and whole pictures too.
struct Parts {
    decoder: Decoder,
    pixels: Pixels,
}

impl Parts {
    fn new() -> Parts {
        Parts { decoder: Decoder::new(Limits::default()), pixels: Pixels::new() }
    }

    fn decode(&mut self, bytes: &[u8], region: Region, scale: Scale) -> Result<Info> {
        let wanted = Wanted { region, scale };
        self.decoder.decode_region(bytes, |_, _, _| Ok(wanted), &mut self.pixels)
    }

    /// Decodes `region` and holds it to `whole`, the picture at `scale`.
    fn hold(&mut self, bytes: &[u8], whole: &Pixels, region: Region, scale: Scale, what: &str) {
        let what = format!("{what}: {region:?} at {scale:?}");
        self.decode(bytes, region, scale).unwrap_or_else(|e| panic!("{what}: {e}"));
        assert!(is_window(&self.pixels, whole, region), "{what}");
    }
}

/// Whether `part` is `region` of `whole`.
fn is_window(part: &Pixels, whole: &Pixels, region: Region) -> bool {
    let row = |pixels: &Pixels, y: u32, x: u32| {
        let at = (y as usize * pixels.width() as usize + x as usize) * 3;
        pixels.bytes()[at..at + region.width as usize * 3].to_vec()
    };
    (part.width(), part.height()) == (region.width, region.height)
        && (0..region.height).all(|y| row(part, y, 0) == row(whole, region.y + y, region.x))
}

/// The whole picture at `scale`.
fn whole(bytes: &[u8], scale: Scale) -> Pixels {
    let mut pixels = Pixels::new();
    let wanted = |width, height, _| {
        let region = Region::whole(scale.size(width), scale.size(height));
        Ok(Wanted { region, scale })
    };
    Decoder::new(Limits::default()).decode_region(bytes, wanted, &mut pixels).unwrap();
    pixels
}

/// Every start within `all`, with few and many behind it and with all that follow.
fn intervals(all: u32) -> Vec<(u32, u32)> {
    let lengths = |first| [1, 2, 7, 16, 33, all - first].map(|length| (first, length));
    (0..all).flat_map(lengths).filter(|(first, length)| first + length <= all).collect()
}

/// Parts that begin and end at every column and at every row, of every sampling, at every scale;
/// and the whole at that scale is TurboJPEG's.
#[test]
fn every_edge() {
    let (width, height) = (75, 70);
    let source = picture(width, height, 3);
    let mut kinds = SUBSAMPLINGS.map(|subsampling| Kind { subsampling, ..Kind::COURSE }).to_vec();
    kinds.push(Kind { progressive: true, ..Kind::COURSE });
    kinds.push(Kind { arithmetic: true, restart: 2, ..Kind::COURSE });
    let mut parts = Parts::new();
    for (k, kind) in kinds.into_iter().enumerate() {
        let bytes = jpeg(&source, width, height, kind);
        for scale in Scale::ALL {
            let what = format!("kind {k}");
            let whole = whole(&bytes, scale);
            let own = reference_at(&bytes, width, height, false, scale.divisor() as usize);
            assert!(whole.bytes() == own, "{what} at {scale:?}");
            let (columns, rows) = (whole.width(), whole.height());
            for (x, width) in intervals(columns) {
                let region = Region { x, y: rows / 3, width, height: 2 };
                parts.hold(&bytes, &whole, region, scale, &what);
            }
            for (y, height) in intervals(rows) {
                let region = Region { x: columns / 2, y, width: 3, height };
                parts.hold(&bytes, &whole, region, scale, &what);
            }
        }
    }
}

/// Pictures of every size and kind, turned and not, in ink and without a DCT.
#[test]
fn parts_of_many_pictures() {
    let mut random = Random(1);
    let mut parts = Parts::new();
    for k in 0..2500 {
        let turn = random.below(16) as u16;
        let (width, height) = (1 + random.below(110) as usize, 1 + random.below(80) as usize);
        // Whole blocks can be shrunk whichever way they are turned.
        let blocks = k % 2 == 0;
        let (width, height) = match blocks {
            true => (width.next_multiple_of(8), height.next_multiple_of(8)),
            false => (width, height),
        };
        let kind = Kind {
            subsampling: SUBSAMPLINGS[random.below(7) as usize],
            quality: [75, 95, 30][k % 3],
            optimize: random.below(4) == 0,
            progressive: random.below(5) == 0,
            arithmetic: random.below(9) == 0,
            lossless: false,
            restart: [0, 0, 1, 3][k % 4],
        };
        let mut bytes = match k % 20 {
            0 => {
                let kind = Kind { subsampling: SUBSAMPLINGS[k / 20 % 3], ..kind };
                ycck_jpeg(&picture(width, height, 4), width, height, kind)
            }
            1 => cmyk_jpeg(&picture(width, height, 4), width, height, false),
            2 => {
                let kind = Kind { subsampling: SUBSAMPLINGS[0], lossless: true, ..Kind::COURSE };
                jpeg(&picture(width, height, 3), width, height, kind)
            }
            _ => jpeg(&picture(width, height, 3), width, height, kind),
        };
        if turn > 8 {
            bytes = with_orientation(&bytes, turn - 7, true);
        }
        let what = format!("picture {k}, {width} x {height}, turn {turn}");
        let scale = match k % 20 == 2 || (turn > 8 && !blocks) {
            true => Scale::Full,
            false => Scale::ALL[random.below(4) as usize],
        };
        let whole = whole(&bytes, scale);
        for _ in 0..4 {
            let region = random.region(whole.width(), whole.height());
            parts.hold(&bytes, &whole, region, scale, &what);
        }
        parts.decoder.decode(&bytes, &mut parts.pixels).unwrap();
    }
}

/// What a lone component says of its sampling decides how it is cut, and changes nothing.
#[test]
fn parts_of_gray() {
    let (width, height) = (75, 70);
    let kind = Kind { subsampling: SUBSAMPLINGS[3], ..Kind::COURSE };
    let plain = jpeg(&picture(width, height, 3), width, height, kind);
    let frame = segments(&plain, 0xC0)[0].start;
    let (mut random, mut parts) = (Random(2), Parts::new());
    for (h, v) in [(1, 1), (1, 2), (2, 1), (2, 2), (3, 1), (1, 3), (4, 1), (1, 4), (4, 4)] {
        let mut bytes = plain.clone();
        bytes[frame + 11] = h << 4 | v;
        for scale in Scale::ALL {
            let whole = whole(&bytes, scale);
            for _ in 0..40 {
                let region = random.region(whole.width(), whole.height());
                parts.hold(&bytes, &whole, region, scale, &format!("{h} x {v}"));
            }
        }
    }
}

#[test]
fn parts_of_other_formats() {
    let (mut random, mut parts) = (Random(3), Parts::new());
    let mut all = files::all();
    let turned = files::plain_png(&files::png_chunk(b"eXIf", &exif(6, true)[6..]));
    all.push(("a turned PNG", turned));
    for (name, bytes) in all {
        let whole = whole(&bytes, Scale::Full);
        for _ in 0..10 {
            let region = random.region(whole.width(), whole.height());
            parts.hold(&bytes, &whole, region, Scale::Full, name);
        }
    }
}

/// Parts as random crops take them, at every scale.
#[test]
fn parts_of_photos() {
    let Some(photos) = shared("data/photos") else { return };
    let (mut random, mut parts, mut count) = (Random(4), Parts::new(), 0);
    for entry in std::fs::read_dir(photos).unwrap() {
        let path = entry.unwrap().path();
        let bytes = std::fs::read(&path).unwrap();
        if !bytes.starts_with(b"\xFF\xD8") {
            continue;
        }
        for scale in Scale::ALL {
            let whole = whole(&bytes, scale);
            for _ in 0..2 {
                let region = random.region(whole.width(), whole.height());
                parts.hold(&bytes, &whole, region, scale, &path.display().to_string());
            }
        }
        count += 1;
    }
    println!("photos of which parts are equal to the bit, at every scale: {count}");
    assert!(count >= 100);
}

/// Size and scales as they are told, and an error of the caller's own.
#[test]
fn what_the_caller_hears() {
    let (width, height) = (40, 30);
    let source = picture(width, height, 3);
    let plain = jpeg(&source, width, height, Kind::COURSE);
    let lossless = Kind { lossless: true, subsampling: SUBSAMPLINGS[0], ..Kind::COURSE };
    let cases = [
        (plain.clone(), (40, 30, true)),
        (jpeg(&source, width, height, Kind { progressive: true, ..Kind::COURSE }), (40, 30, true)),
        (with_orientation(&plain, 5, false), (30, 40, true)),
        // Mirrored, a part of a block would come first.
        (with_orientation(&plain, 2, false), (40, 30, true)),
        (with_orientation(&plain, 6, false), (30, 40, false)),
        (jpeg(&source, width, height, lossless), (40, 30, false)),
        (files::plain_png(&[]), (files::SIZE.0, files::SIZE.1, false)),
    ];
    let (mut decoder, mut pixels) = (Decoder::new(Limits::default()), Pixels::new());
    for (bytes, expected) in cases {
        let mut heard = Vec::new();
        let wanted = |width, height, scales| {
            heard.push((width, height, scales));
            Err(Error::new(ErrorKind::Shape, "not this one"))
        };
        let error = decoder.decode_region(&bytes, wanted, &mut pixels).unwrap_err();
        assert_eq!((error.kind(), error.message()), (ErrorKind::Shape, "not this one"));
        assert_eq!(heard, [expected]);
        decoder.decode(&plain, &mut pixels).unwrap();
        assert!(pixels.bytes() == reference(&plain, width, height, false));
    }
}

/// Limits are those of the whole picture, however small the part.
#[test]
fn limits_hold_for_parts() {
    let (width, height) = (64, 64);
    let kind = Kind { progressive: true, ..Kind::COURSE };
    let bytes = jpeg(&picture(width, height, 3), width, height, kind);
    for limits in [
        Limits { pixels: 64 * 64 - 1, ..Limits::default() },
        Limits { bytes: bytes.len() as u64 - 1, ..Limits::default() },
        Limits { scans: 3, ..Limits::default() },
        Limits { work: 64 * 64 * 2, ..Limits::default() },
    ] {
        let wanted = Wanted { region: Region::whole(1, 1), scale: Scale::Eighth };
        let mut decoder = Decoder::new(limits);
        let error = decoder.decode_region(&bytes, |_, _, _| Ok(wanted), &mut Pixels::new());
        assert_eq!(error.unwrap_err().kind(), ErrorKind::Limit, "{limits:?}");
    }
}

/// A part's verdict is that of all rows down to its last; the last row's is the whole file's.
#[test]
fn damage_counts_down_to_the_last_row() {
    const COLUMNS: u32 = 75;
    const ROWS: u32 = 70;
    let base = Kind::COURSE;
    let kinds = [
        base,
        Kind { subsampling: SUBSAMPLINGS[0], ..base },
        Kind { restart: 2, ..base },
        Kind { arithmetic: true, ..base },
        Kind { progressive: true, ..base },
    ];
    let (mut random, mut parts) = (Random(5), Parts::new());
    for (k, kind) in kinds.into_iter().enumerate() {
        let source = picture(COLUMNS as usize, ROWS as usize, 3);
        let good = jpeg(&source, COLUMNS as usize, ROWS as usize, kind);
        let scan = segments(&good, 0xDA)[0].end;
        let above = whole(&good, Scale::Full);
        let (mut seen, mut unseen) = (0, 0);
        for n in 0..60 {
            let at = scan + random.below((good.len() - scan) as u32) as usize;
            let mut bytes = good.clone();
            let cut = n % 2 == 0;
            if cut {
                bytes.truncate(at);
            } else {
                bytes[at] ^= 1 << random.below(8);
            }
            let what = format!("kind {k}, cut {cut} at {at}");
            let mut refused = false;
            for end in [1, 8, 15, 16, 17, 32, 33, 47, 64, 69, ROWS] {
                let rows = Region::whole(COLUMNS, end);
                let verdict = parts.decode(&bytes, rows, Scale::Full).map_err(place);
                let expected = std::mem::take(&mut parts.pixels);
                let Region { x, width, .. } = random.region(COLUMNS, 1);
                let y = random.below(end);
                let region = Region { x, y, width, height: end - y };
                let got = parts.decode(&bytes, region, Scale::Full).map_err(place);
                assert_eq!(got, verdict, "{what}: {region:?}");
                if got.is_ok() {
                    assert!(!refused, "{what}: {region:?} without what an earlier row saw");
                    assert!(is_window(&parts.pixels, &expected, region), "{what}: {region:?}");
                    assert!(!cut || is_window(&parts.pixels, &above, region), "{what}: {region:?}");
                }
                refused |= verdict.is_err();
                unseen += u32::from(verdict.is_ok());
                if end == ROWS {
                    let decoded = parts.decoder.decode(&bytes, &mut parts.pixels).map_err(place);
                    assert_eq!(decoded, verdict, "{what}");
                }
            }
            seen += u32::from(refused);
        }
        assert!(seen > 25, "kind {k}: damage was seen in {seen} files");
        // All scans of a file are read for any part of it.
        assert!(kind.progressive || unseen > 100, "kind {k}: {unseen}");
    }
}

fn place(error: Error) -> (ErrorKind, Option<u64>) {
    (error.kind(), error.offset())
}

#[test]
#[should_panic(expected = "of 5 x 4 pixels")]
fn a_part_outside_is_the_callers_fault() {
    let bytes = jpeg(&picture(40, 30, 3), 40, 30, Kind::COURSE);
    let region = Region { x: 4, y: 0, width: 2, height: 4 };
    let _ = Parts::new().decode(&bytes, region, Scale::Eighth);
}

#[test]
#[should_panic(expected = "of 40 x 30 pixels")]
fn an_empty_part_is_the_callers_fault() {
    let bytes = jpeg(&picture(40, 30, 3), 40, 30, Kind::COURSE);
    let _ = Parts::new().decode(&bytes, Region::whole(0, 1), Scale::Full);
}

#[test]
#[should_panic(expected = "one scale")]
fn a_scale_that_cannot_be_had_is_the_callers_fault() {
    let _ = Parts::new().decode(&files::plain_png(&[]), Region::whole(1, 1), Scale::Half);
}
