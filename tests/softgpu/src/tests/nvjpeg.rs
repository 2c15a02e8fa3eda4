//! The stand-in for nvJPEG, and its hazards.

use super::*;
use crate::control::hazard;
use crate::memory::POISON;
use crate::nvjpeg::*;
use crate::status::nvjpeg::*;
use turbojpeg::{Compressor, Image, PixelFormat, Subsamp};

const RGBI: u32 = 5;
const HARDWARE: u32 = 3;
const DEFAULT: u32 = 0;

/// A drawn JPEG.
fn jpeg(
    width: usize,
    height: usize,
    format: PixelFormat,
    subsamp: Subsamp,
    progressive: bool,
) -> Vec<u8> {
    let size = format.size();
    let pixels: Vec<u8> = (0..width * height * size).map(|i| (i * 7 % 251) as u8).collect();
    let image = Image { pixels: &pixels[..], width, pitch: width * size, height, format };
    let mut compressor = Compressor::new().unwrap();
    compressor.set_subsamp(subsamp).unwrap();
    compressor.set_progressive(progressive).unwrap();
    compressor.compress_to_vec(image).unwrap()
}

fn plain(width: usize, height: usize) -> Vec<u8> {
    jpeg(width, height, PixelFormat::RGB, Subsamp::Sub2x2, false)
}

fn pixels(bytes: &[u8]) -> Vec<u8> {
    turbojpeg::decompress(bytes, PixelFormat::RGB).unwrap().pixels
}

/// A handle with a state, and places on the device.
struct Codec {
    handle: u64,
    state: u64,
    stream: u64,
    session: Session,
}

impl Codec {
    fn new(backend: u32, hazards: u32, seed: u64) -> Self {
        let session = session(Config { hazards, seed, ..Config::default() });
        let none = std::ptr::null();
        let handle = made(|handle| nvjpegCreateEx(backend, none, none, 36, handle));
        let state = made(|state| nvjpegJpegStateCreate(handle, state));
        Self { handle, state, stream: stream(), session }
    }

    fn one(&self, image: &[u8], to: Destination) -> u32 {
        let Self { handle, state, stream, .. } = *self;
        nvjpegDecode(handle, state, image.as_ptr(), image.len(), RGBI, &to, stream)
    }

    fn initialise(&self, images: usize) -> u32 {
        nvjpegDecodeBatchedInitialize(self.handle, self.state, images as i32, 1, RGBI)
    }

    fn batch(&self, images: &[Vec<u8>], to: &[Destination]) -> u32 {
        let data: Vec<_> = images.iter().map(|image| image.as_ptr()).collect();
        let lengths: Vec<_> = images.iter().map(Vec::len).collect();
        let Self { handle, state, stream, .. } = *self;
        let (data, lengths) = (data.as_ptr(), lengths.as_ptr());
        nvjpegDecodeBatched(handle, state, data, lengths, to.as_ptr(), stream)
    }

    fn supported(&self, image: &[u8]) -> bool {
        let parsed = made(|parsed| nvjpegJpegStreamCreate(self.handle, parsed));
        ok(nvjpegJpegStreamParseHeader(self.handle, image.as_ptr(), image.len(), parsed));
        let answer = made(|answer| nvjpegDecodeBatchedSupported(self.handle, parsed, answer));
        ok(nvjpegJpegStreamDestroy(parsed));
        answer == 0
    }

    fn sync(&self) {
        ok(cuStreamSynchronize(self.stream));
    }
}

impl Drop for Codec {
    fn drop(&mut self) {
        nvjpegJpegStateDestroy(self.state);
        nvjpegDestroy(self.handle);
        cuStreamDestroy_v2(self.stream);
        let report = self.session.report();
        assert_eq!((report.nvjpeg_handles, report.nvjpeg_states, report.nvjpeg_streams), (0, 0, 0));
    }
}

fn to(address: u64, pitch: usize) -> Destination {
    let null = std::ptr::null_mut();
    Destination { channel: [address as *mut u8, null, null, null], pitch: [pitch, 0, 0, 0] }
}

/// Images of a batch and a place on the device for each.
struct Batch {
    images: Vec<Vec<u8>>,
    places: Vec<u64>,
    to: Vec<Destination>,
}

impl Batch {
    fn new(count: usize) -> Self {
        let images: Vec<_> = (0..count).map(|i| plain(33 + i, 17)).collect();
        let places: Vec<_> = images.iter().map(|image| device(pixels(image).len())).collect();
        let to = places.iter().enumerate().map(|(i, &place)| to(place, 3 * (33 + i))).collect();
        Self { images, places, to }
    }

    /// What is in each place, beside what should be.
    fn results(&self) -> Vec<(Vec<u8>, Vec<u8>)> {
        let pairs = self.images.iter().zip(&self.places);
        pairs
            .map(|(image, &place)| {
                let expected = pixels(image);
                (read(place, expected.len()), expected)
            })
            .collect()
    }

    fn free(&self) {
        self.places.iter().for_each(|&place| ok(cuMemFree_v2(place)));
    }
}

#[test]
fn images_come_out_as_libjpeg_turbo_decodes_them() {
    let codec = Codec::new(DEFAULT, 0, LAZY);
    let color = [Subsamp::None, Subsamp::Sub2x1, Subsamp::Sub1x2, Subsamp::Sub2x2];
    let mut images: Vec<_> =
        color.map(|subsamp| jpeg(31, 17, PixelFormat::RGB, subsamp, false)).into();
    images.push(jpeg(31, 17, PixelFormat::GRAY, Subsamp::Gray, false));
    for image in images {
        const PITCH: usize = 100;
        let place = device(PITCH * 17);
        ok(codec.one(&image, to(place, PITCH)));
        assert_eq!(read(place, PITCH * 17), [POISON; PITCH * 17], "it waits for its stream");
        codec.sync();
        let expected = pixels(&image);
        for (row, expected) in read(place, PITCH * 17).chunks(PITCH).zip(expected.chunks(93)) {
            assert_eq!(row[..93], *expected);
            assert_eq!(row[93..], [POISON; 7]);
        }
        ok(cuMemFree_v2(place));
    }
    assert!(codec.session.violations().is_empty());
}

#[test]
fn the_engine_takes_what_it_can() {
    let codec = Codec::new(HARDWARE, 0, EAGER);
    let takes =
        |format, subsamp, progressive| codec.supported(&jpeg(40, 40, format, subsamp, progressive));
    assert!(takes(PixelFormat::RGB, Subsamp::Sub2x2, false));
    assert!(takes(PixelFormat::RGB, Subsamp::Sub2x1, false));
    assert!(takes(PixelFormat::RGB, Subsamp::None, false));
    assert!(takes(PixelFormat::GRAY, Subsamp::Gray, false));
    assert!(!takes(PixelFormat::RGB, Subsamp::Sub1x2, false));
    assert!(!takes(PixelFormat::RGB, Subsamp::Sub4x1, false));
    assert!(!takes(PixelFormat::RGB, Subsamp::Sub2x2, true));
    assert!(!takes(PixelFormat::CMYK, Subsamp::None, false));
    let mut twelve_bits = plain(40, 40);
    let frame = twelve_bits.windows(2).position(|w| w == [0xFF, 0xC0]).unwrap();
    twelve_bits[frame + 4] = 12;
    assert!(!codec.supported(&twelve_bits));
}

#[test]
fn what_it_cannot_decode_has_a_status() {
    let codec = Codec::new(DEFAULT, 0, EAGER);
    let place = device(3 * 40 * 40);
    let place_of = to(place, 120);
    let progressive = jpeg(40, 40, PixelFormat::RGB, Subsamp::Sub2x2, true);
    let cmyk = jpeg(40, 40, PixelFormat::CMYK, Subsamp::None, false);
    let good = plain(40, 40);
    assert_eq!(codec.one(&progressive, place_of), JPEG_NOT_SUPPORTED);
    assert_eq!(codec.one(&cmyk, place_of), JPEG_NOT_SUPPORTED);
    assert_eq!(codec.one(&good[..good.len() / 2], place_of), BAD_JPEG);
    assert_eq!(codec.one(b"GIF89a", place_of), BAD_JPEG);
    assert_eq!(codec.one(&good, to(place, 119)), INVALID_PARAMETER);
    assert!(codec.session.violations().is_empty());
    assert_eq!(codec.one(&plain(41, 40), to(place, 123)), INVALID_PARAMETER);
    assert_eq!(codec.session.violations().len(), 1, "a place that is too small");
    ok(codec.one(&good, place_of));
    ok(cuMemFree_v2(place));
}

#[test]
fn a_batch_is_decoded_in_order_of_its_stream() {
    for seed in 0..32 {
        let codec = Codec::new(HARDWARE, 0, seed);
        let batch = Batch::new(4);
        assert_eq!(codec.batch(&batch.images, &batch.to), INVALID_PARAMETER, "no size was said");
        ok(codec.initialise(4));
        // Work before it on the stream does not spoil it.
        for (result, &place) in batch.results().iter().zip(&batch.places) {
            fill(place, 9, result.1.len(), codec.stream);
        }
        ok(codec.batch(&batch.images, &batch.to));
        codec.sync();
        assert!(batch.results().iter().all(|(found, expected)| found == expected));
        assert!(codec.session.violations().is_empty());
        batch.free();
    }
}

#[test]
fn encoded_bytes_in_pinned_memory_stay_until_the_decode_is_done() {
    let codec = Codec::new(DEFAULT, 0, LAZY);
    let image = plain(20, 20);
    let (mut host, place) = (Pinned::new(image.len()), device(1200));
    host.bytes().copy_from_slice(&image);
    ok(codec.one(host.bytes(), to(place, 60)));
    host.bytes()[100] ^= 1;
    codec.sync();
    let found = codec.session.violations();
    assert_eq!(found, ["the encoded bytes of an image changed before it was decoded"]);
    ok(cuMemFree_v2(place));
}

#[test]
fn creation_fails_as_the_real_library_does() {
    let none = std::ptr::null();
    let create = |backend| nvjpegCreateEx(backend, none, none, 36, Out(&mut 0));
    {
        let _session = bare(Config { devices: 0, ..Config::default() });
        assert_ne!(cuInit(0), 0);
        assert_eq!(create(DEFAULT), EXECUTION_FAILED);
    }
    let hazards = hazard::NO_HARDWARE;
    let codec = Codec::new(DEFAULT, hazards, EAGER);
    assert_eq!(create(HARDWARE), ARCH_MISMATCH);
    let (mut engines, mut cores) = (9, 9);
    ok(nvjpegGetHardwareDecoderInfo(codec.handle, Out(&mut engines), Out(&mut cores)));
    assert_eq!((engines, cores), (0, 0));
    assert_eq!([0, 1, 2].map(|what| made(|value| nvjpegGetProperty(what, value))), [13, 0, 1]);
}

#[test]
fn early_writes_before_earlier_work() {
    for (hazards, early) in [(hazard::EARLY, true), (0, false)] {
        let codec = Codec::new(HARDWARE, hazards, LAZY);
        let batch = Batch::new(3);
        ok(codec.initialise(3));
        let mut saved = Pinned::new(99);
        ok(cuMemcpyDtoHAsync_v2(saved.address, batch.places[0], 99, codec.stream));
        ok(codec.batch(&batch.images, &batch.to));
        codec.sync();
        assert_eq!(*saved.bytes() != [POISON; 99], early);
        assert!(batch.results().iter().all(|(found, expected)| found == expected));
        batch.free();
    }
}

#[test]
fn skip_leaves_one_image_out() {
    let mut skipped = [0; 3];
    for seed in 0..32 {
        let codec = Codec::new(HARDWARE, hazard::SKIP, seed);
        let batch = Batch::new(3);
        ok(codec.initialise(3));
        ok(codec.batch(&batch.images, &batch.to));
        codec.sync();
        let results = batch.results();
        let wrong: Vec<_> = (0..3).filter(|&i| results[i].0 != results[i].1).collect();
        assert_eq!(wrong.len(), 1);
        assert!(results[wrong[0]].0.iter().all(|&b| b == POISON));
        skipped[wrong[0]] += 1;
        batch.free();
    }
    assert!(skipped.iter().all(|&times| times > 0), "{skipped:?}");
}

#[test]
fn partial_leaves_last_rows_out() {
    for backend in [HARDWARE, DEFAULT] {
        let codec = Codec::new(backend, hazard::PARTIAL, LAZY);
        let batch = Batch::new(1);
        if backend == HARDWARE {
            ok(codec.initialise(1));
            ok(codec.batch(&batch.images, &batch.to));
        } else {
            ok(codec.one(&batch.images[0], batch.to[0]));
        }
        codec.sync();
        let (found, expected) = &batch.results()[0];
        let written = found.chunks(99).zip(expected.chunks(99)).take_while(|(f, e)| f == e).count();
        assert!(written < 17);
        assert!(found[99 * written..].iter().all(|&b| b == POISON));
        batch.free();
    }
}

#[test]
fn a_state_that_began_small_stays_small() {
    for (hazards, status) in [(hazard::FIRST_SIZE, EXECUTION_FAILED), (0, 0)] {
        let mut codec = Codec::new(DEFAULT, hazards, EAGER);
        let place = device(3 * 20 * 20);
        ok(codec.one(&plain(1, 1), to(place, 60)));
        assert_eq!(codec.one(&plain(20, 20), to(place, 60)), status);
        ok(codec.one(&plain(1, 1), to(place, 60)));
        ok(nvjpegJpegStateDestroy(codec.state));
        codec.state = made(|state| nvjpegJpegStateCreate(codec.handle, state));
        ok(codec.one(&plain(20, 20), to(place, 60)));
        ok(codec.one(&plain(1, 1), to(place, 60)));
        ok(codec.one(&plain(20, 20), to(place, 60)));
        ok(cuMemFree_v2(place));
    }
}

#[test]
fn a_broken_state_has_to_be_made_anew() {
    for (hazards, status) in [(hazard::BROKEN, INTERNAL_ERROR), (0, 0)] {
        let mut codec = Codec::new(HARDWARE, hazards, EAGER);
        let batch = Batch::new(2);
        ok(codec.initialise(2));
        let damaged = [batch.images[0].clone(), batch.images[1][..300].to_vec()];
        assert_eq!(codec.batch(&damaged, &batch.to), BAD_JPEG);
        assert_eq!(codec.initialise(2), status);
        assert_eq!(codec.batch(&batch.images, &batch.to), status);
        ok(nvjpegJpegStateDestroy(codec.state));
        codec.state = made(|state| nvjpegJpegStateCreate(codec.handle, state));
        ok(codec.initialise(2));
        ok(codec.batch(&batch.images, &batch.to));
        batch.free();
    }
}

#[test]
fn images_fail_now_and_then() {
    let codec = Codec::new(DEFAULT, hazard::FAIL_IMAGES, 2);
    let place = device(3 * 20 * 20);
    let statuses: Vec<u32> = (0..64).map(|_| codec.one(&plain(20, 20), to(place, 60))).collect();
    let failed = statuses.iter().filter(|&&status| status == EXECUTION_FAILED).count();
    assert!((1..63).contains(&failed), "{failed}");
    assert_eq!(statuses.iter().filter(|&&status| status == 0).count(), 64 - failed);
    ok(cuMemFree_v2(place));
}
