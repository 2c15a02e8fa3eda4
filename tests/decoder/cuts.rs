//! Formats outside JPEG, cut anywhere and after any other image: the whole picture or an error.

use crate::files::{self, gif_frame, gray_tiff, webp_frame};
use crate::{decode, refusal};
use forebay::ErrorKind;
use forebay::decoder::{Decoder, Limits, Pixels};

/// A decoder that holds what a large, noisy picture left.
fn used() -> (Decoder, Pixels) {
    let noise: Vec<u8> =
        (0..64 * 64 * 4_u32).map(|i| (i.wrapping_mul(2_654_435_761) >> 24) as u8).collect();
    let rows: Vec<_> = noise.chunks(64 * 4).map(<[u8]>::to_vec).collect();
    let (mut decoder, mut pixels) = (Decoder::new(Limits::default()), Pixels::new());
    decoder.decode(&files::png((64, 64), [8, 6, 0], &[], &rows), &mut pixels).unwrap();
    (decoder, pixels)
}

#[test]
fn a_cut_file_gives_the_picture_or_an_error() {
    for (name, bytes) in files::all() {
        let whole = decode(&bytes).unwrap_or_else(|e| panic!("{name}: {e}")).0;
        assert!(whole.bytes().iter().any(|&v| v > 0), "{name}");
        let (mut decoder, mut pixels) = used();
        let mut refused = 0;
        for cut in 0..=bytes.len() {
            match decoder.decode(&bytes[..cut], &mut pixels) {
                Ok(_) => {
                    assert_eq!((pixels.width(), pixels.height()), (whole.width(), whole.height()));
                    assert!(pixels.bytes() == whole.bytes(), "{name} cut at {cut}: other pixels");
                }
                Err(error) => {
                    refused += 1;
                    let kind = error.kind();
                    let known = [ErrorKind::Decode, ErrorKind::Unsupported, ErrorKind::Limit];
                    assert!(known.contains(&kind), "{name} cut at {cut}: {error:?}");
                }
            }
        }
        // What a format may lack is its end: of a PNG two chunks' sums, of a GIF three bytes, of a
        // run of a BMP two.
        assert!(refused + 17 > bytes.len(), "{name}: {refused} of {} refused", bytes.len());
    }
}

/// A pixel whose colour is in no palette shows nothing of an image before.
#[test]
fn colours_that_no_palette_has() {
    let frame = gif::Frame { palette: Some(vec![9; 12]), ..gif_frame(64) };
    let bytes = files::gif((files::SIZE.0 as u16, files::SIZE.1 as u16), frame);
    let fresh = decode(&bytes).unwrap().0;
    let (mut decoder, mut pixels) = used();
    decoder.decode(&bytes, &mut pixels).unwrap();
    assert!(pixels.bytes() == fresh.bytes());
    assert!(fresh.bytes().chunks(3).all(|p| p == [9; 3] || p == [0; 3]));
}

/// A WebP whose chunks do not fit into each other, with the length that its bytes have.
#[test]
fn chunks_that_do_not_fit_are_refused() {
    let frame = webp_frame();
    let canvas = files::webp_canvas(8, files::SIZE.0, files::SIZE.1);
    let whole = files::riff(&[(b"VP8X", &canvas), (b"VP8L", &frame), (b"EXIF", b"II*\0")]);
    decode(&whole).unwrap();
    let exif = whole.len() - 12;
    for length in [5, 4000, u32::MAX] {
        let mut bytes = whole.clone();
        bytes[exif + 4..exif + 8].copy_from_slice(&length.to_le_bytes());
        let (kind, text) = refusal(&bytes);
        assert_eq!(
            (kind, &*text),
            (ErrorKind::Decode, "damaged webp: a chunk that is longer than the file")
        );
    }
}

/// Its decoder would fill up what is missing.
#[test]
fn a_jpeg_in_a_tiff_is_refused() {
    let jpeg = crate::encode::jpeg(&[0; 3 * 64], 8, 8, crate::encode::Kind::COURSE);
    for compression in [6, 7] {
        let (kind, text) = refusal(&gray_tiff(true, compression, &jpeg, &[]));
        assert_eq!(kind, ErrorKind::Unsupported);
        assert!(text.contains("JPEG inside"), "{text}");
    }
}
