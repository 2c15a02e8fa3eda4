//! The walk over a JPEG's markers, and what is routed by it, against libjpeg's account.

use super::refusal;
use forebay::ErrorKind;
use forebay::decoder::{Decoder, Header, Limits, Pixels, Route, Rule, probe, route};
use std::cell::RefCell;

/// Of every picture, so that a decode is short.
const MOST_PIXELS: u64 = 1 << 14;

fn limits() -> Limits {
    Limits { pixels: MOST_PIXELS, scans: 20, ..Limits::default() }
}

thread_local! {
    static DECODER: RefCell<(Decoder, Pixels)> =
        RefCell::new((Decoder::new(limits()), Pixels::new()));
}

/// Where the walk and libjpeg both take a file, they agree; what goes to nvJPEG is of a kind that
/// libjpeg takes.
pub fn run(bytes: &[u8]) -> String {
    let rule = Rule { split: 0, exact: false, own: false, gpu: Ok(()), limits: limits() };
    let walked = probe(bytes);
    let way = route(bytes, &rule);
    if let (Route::Nvjpeg(_), Err(error)) = (&way, &walked) {
        panic!("nvJPEG is to take what the walk refuses: {error}");
    }
    let header = match walked {
        Ok(header) => header,
        Err(error) => return refusal(&error),
    };
    let routed = matches!(way, Route::Nvjpeg(_));
    let told = match way {
        Route::Own(_) => panic!("the rule does not let our own kernels"),
        Route::Nvjpeg(frame) => {
            assert_eq!((frame.width, frame.height), (header.width, header.height));
            assert_eq!(frame.upright_size(), header.upright_size());
            assert_eq!(frame.components, header.components);
            "nvjpeg"
        }
        Route::Cpu(reason) => reason.name(),
    };
    let decoded = DECODER
        .with_borrow_mut(|(decoder, pixels)| decode(decoder, pixels, bytes, &header, routed));
    format!("{told} {decoded}")
}

fn decode(
    decoder: &mut Decoder,
    pixels: &mut Pixels,
    bytes: &[u8],
    header: &Header,
    routed: bool,
) -> String {
    match decoder.decode(bytes, pixels) {
        Ok(info) => {
            assert_eq!(info.format, header.format);
            assert_eq!((pixels.width(), pixels.height()), header.upright_size());
            format!("{:?}", info.warnings)
        }
        Err(error) => {
            // Damage in the entropy-coded bytes is all that a route may not know of.
            let known = [ErrorKind::Unsupported, ErrorKind::Limit].contains(&error.kind());
            assert!(!(routed && known), "nvJPEG is to take what libjpeg refuses: {error}");
            refusal(&error)
        }
    }
}
