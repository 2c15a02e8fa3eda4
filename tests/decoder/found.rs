//! What fuzzing found, each with what is right.

use crate::decode;
use crate::encode::*;
use forebay::decoder::{Limits, Reason, Route, Rule, probe, route};
use forebay::error::ErrorKind;

/// libjpeg takes a comment or application segment of a length below 2 as an empty one. The walk ended
/// there: a picture without a size, and without the turn that a later segment asks for.
#[test]
fn a_segment_shorter_than_its_length_is_passed_over() {
    let plain = jpeg(&picture(24, 16, 3), 24, 16, Kind::COURSE);
    let turned = with_orientation(&plain, 6, true);
    let rule = Rule { split: 0, exact: false, own: false, gpu: Ok(()), limits: Limits::default() };
    for length in [0, 1] {
        for marker in [0xFE, 0xE0, 0xE1, 0xEE] {
            let bytes = insert(&turned, 2, &[0xFF, marker, 0, length]);
            assert_eq!(probe(&bytes).unwrap(), probe(&turned).unwrap());
            let (pixels, _) = decode(&bytes).unwrap();
            assert!(pixels.bytes() == decode(&turned).unwrap().0.bytes());
            assert_eq!((pixels.width(), pixels.height()), (16, 24));
            // Another decoder may see it another way.
            assert_eq!(route(&bytes, &rule), Route::Cpu(Reason::Damaged));
        }
    }
}

/// A PNM of no rows or columns came out as a picture of none, whose parts nobody can ask for.
#[test]
fn a_picture_without_pixels_is_refused() {
    for bytes in [&b"P1 5 0\n"[..], b"P6 0 3 255\n", b"P5 0 0 255\n", b"P4 0 7\n"] {
        for error in [probe(bytes).unwrap_err(), decode(bytes).err().unwrap()] {
            assert_eq!(error.kind(), ErrorKind::Decode, "{error}");
        }
    }
}
