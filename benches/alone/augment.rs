//! A pipeline's steps over decoded images that lie in memory, into the same places again and again.

use super::{Options, SHOWN, names, time};
use anyhow::{Context, Result};
use forebay::decoder::{Decoder, Limits, Pixels};
use forebay::executor::program::{Program, Scratch};
use forebay::graph::file;
use forebay::tensor::Buffer;
use std::ffi::OsStr;
use std::io::Write;
use std::ops::Range;
use std::os::unix::ffi::OsStrExt;

/// What a thread keeps.
#[derive(Default)]
struct State {
    scratch: Scratch,
    out: Buffer,
    /// The next image's.
    place: usize,
}

pub(super) fn run(options: &Options) -> Result<()> {
    let spec = file::load(options.pipeline.as_deref().context("--pipeline?")?)?;
    let program = Program::new(&spec)?;
    let mut names = names(&options.data)?;
    if options.out.is_some() {
        names.truncate(SHOWN);
    }
    let mut decoder = Decoder::new(Limits::default());
    let mut images = Vec::new();
    for name in &names {
        let path = options.data.join(OsStr::from_bytes(name.to_bytes()));
        let mut pixels = Pixels::new();
        let bytes = std::fs::read(&path).with_context(|| path.display().to_string())?;
        decoder.decode(&bytes, &mut pixels).with_context(|| path.display().to_string())?;
        images.push(pixels);
    }
    let places = (options.places / options.threads).max(1);
    let augment = |state: &mut State, epoch: usize, image: usize| -> Result<Range<usize>> {
        let State { scratch, out, place } = state;
        let pixels = &images[image];
        let (width, height) = (pixels.width(), pixels.height());
        program.resolve(scratch, spec.seed, epoch as u32, image as u64, width, height)?;
        let (height, width) = program.output_size(scratch, 0);
        let values = 3 * height as usize * width as usize;
        if out.len() < places * values {
            out.resize(places * values * size_of::<f32>())?;
        }
        let at = *place * values * size_of::<f32>();
        let to = at..at + values * size_of::<f32>();
        program.run(scratch, pixels.picture(), &mut [&mut out[to.clone()]])?;
        *place = (*place + 1) % places;
        Ok(to)
    };
    let state = || -> Result<_> { Ok(State::default()) };
    if let Some(out) = &options.out {
        let (mut state, mut out) = (state()?, std::fs::File::create(out)?);
        for image in 0..images.len() {
            let place = augment(&mut state, 0, image)?;
            out.write_all(&state.out[place])?;
        }
        return Ok(());
    }
    time(options, images.len(), state, |state, epoch, image| augment(state, epoch, image).map(drop))
}
