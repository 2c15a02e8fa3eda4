//! The samples and the pipeline of the matrix, and what the plainest run makes of them.

use forebay::Result;
use forebay::device::Choice;
use forebay::graph::file;
use forebay::graph::spec::Spec;
use forebay::loader::{Batch, Loader, Options};
use forebay::reader::{Content, Reader};
use std::io::Cursor;
use std::path::PathBuf;
use std::sync::{Arc, LazyLock};

/// Samples: as many as there are sizes, of which no two are the same.
pub(crate) const SAMPLES: u64 = 23;
pub(crate) const EPOCHS: [u32; 2] = [0, 5];

pub(crate) fn spec() -> Spec {
    file::parse(include_str!("pipeline.toml")).unwrap()
}

/// A third of the samples each is raw, JPEG and PNG.
pub(crate) struct Sample {
    pub(crate) width: u32,
    pub(crate) height: u32,
    /// As they are decoded, rows of R, G, B.
    pub(crate) pixels: Vec<u8>,
    file: Option<Vec<u8>>,
}

impl Sample {
    fn new(id: u64) -> Sample {
        let (width, height) = (1 + id as u32 * 7 % 23, 3 + id as u32 * 5 % 17);
        let count = u64::from(width * height * 3);
        let value = |k: u64| (k * (id + 3)) ^ (k / u64::from(3 * width) * 11);
        let mut pixels: Vec<u8> = (0..count).map(|k| value(k) as u8).collect();
        let mut file = None;
        if id % 3 == 1 {
            let image = turbojpeg::Image {
                pixels: pixels.as_slice(),
                width: width as usize,
                pitch: 3 * width as usize,
                height: height as usize,
                format: turbojpeg::PixelFormat::RGB,
            };
            let jpeg = turbojpeg::compress(image, 90, turbojpeg::Subsamp::Sub2x2).unwrap();
            pixels = turbojpeg::decompress(&jpeg, turbojpeg::PixelFormat::RGB).unwrap().pixels;
            file = Some(jpeg.to_vec());
        } else if id % 3 == 2 {
            let image = image::RgbImage::from_raw(width, height, pixels.clone()).unwrap();
            let mut png = Cursor::new(Vec::new());
            image.write_to(&mut png, image::ImageFormat::Png).unwrap();
            file = Some(png.into_inner());
        }
        Sample { width, height, pixels, file }
    }
}

/// The samples, made once.
pub(crate) static SOURCE: LazyLock<Arc<Source>> =
    LazyLock::new(|| Arc::new(Source((0..SAMPLES).map(Sample::new).collect())));

pub(crate) struct Source(pub(crate) Vec<Sample>);

impl Reader for Source {
    fn len(&self) -> u64 {
        self.0.len() as u64
    }

    fn label(&self, id: u64) -> i64 {
        id as i64 % 10
    }

    fn classes(&self) -> &[String] {
        &[]
    }

    fn place(&self, id: u64) -> PathBuf {
        format!("{id}.img").into()
    }

    fn read(&self, id: u64, buf: &mut Vec<u8>) -> Result<Content> {
        let Sample { width, height, pixels, file } = &self.0[id as usize];
        buf.clear();
        if let Some(file) = file {
            buf.extend_from_slice(file);
            return Ok(Content::Encoded);
        }
        (0..3).for_each(|channel| buf.extend(pixels.iter().skip(channel).step_by(3)));
        Ok(Content::Planar { height: *height, width: *width })
    }
}

pub(crate) fn open(options: &Options) -> Loader {
    Loader::with_reader(&spec(), SOURCE.clone(), options).unwrap()
}

/// One epoch, one sample after another: one thread, nothing ahead, no sharing, on the CPU.
pub(crate) struct Reference {
    pub(crate) epoch: u32,
    /// The samples in the epoch's order.
    pub(crate) order: Vec<u64>,
    /// By sample, the bytes of each output.
    pub(crate) bytes: Vec<Vec<Vec<u8>>>,
}

impl Reference {
    pub(crate) fn new(epoch: u32) -> Reference {
        let mut loader = open(&Options {
            batch_size: 1,
            threads: 1,
            prefetch: 0,
            device: Choice::Cpu,
            ..Options::default()
        });
        let mut order = Vec::new();
        let mut bytes = vec![Vec::new(); SAMPLES as usize];
        for batch in loader.epoch(epoch) {
            let batch = batch.unwrap();
            let id = batch.ids()[0] as u64;
            order.push(id);
            bytes[id as usize] = outputs(&batch, 0).map(<[u8]>::to_vec).collect();
        }
        assert_eq!(order.len() as u64, SAMPLES);
        Reference { epoch, order, bytes }
    }

    /// The samples of a batch, after each of their bytes has been compared.
    pub(crate) fn check(&self, batch: &Batch, run: &dyn std::fmt::Debug) -> Vec<u64> {
        let samples = batch.ids().iter().zip(batch.labels()).enumerate();
        let check = |(place, (&id, &label)): (usize, (&i64, &i64))| {
            assert_eq!(label, id % 10, "{run:?}");
            let same = outputs(batch, place).eq(self.bytes[id as usize].iter().map(Vec::as_slice));
            assert!(same, "sample {id} of epoch {} has other bytes: {run:?}", self.epoch);
            id as u64
        };
        assert!(batch.valid().iter().all(|&valid| valid));
        samples.map(check).collect()
    }
}

/// The bytes of each output of one sample of a batch.
fn outputs(batch: &Batch, place: usize) -> impl Iterator<Item = &[u8]> {
    batch.outputs().iter().map(move |name| {
        let bytes = batch.output(name).expect("its own name").bytes;
        let len = bytes.len() / batch.len();
        &bytes[place * len..][..len]
    })
}
