//! A pipeline's steps over decoded images that lie in memory, into the same place again and again.

use super::{Options, SHOWN, names, time};
use anyhow::{Context, Result};
use forebay::decoder::{Decoder, Limits, Pixels};
use forebay::executor::program::{Program, Scratch};
use forebay::graph::file;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;

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
    let augment =
        |(scratch, out): &mut (Scratch, Vec<f32>), epoch: usize, image: usize| -> Result<()> {
            let pixels = &images[image];
            let (width, height) = (pixels.width(), pixels.height());
            program.resolve(scratch, spec.seed, epoch as u32, image as u64, width, height)?;
            let (height, width) = program.output_size(scratch, 0);
            out.resize(3 * height as usize * width as usize, 0.0);
            program.run(scratch, pixels, &mut [bytemuck::cast_slice_mut(out)])?;
            Ok(())
        };
    let state = || -> Result<_> { Ok((Scratch::default(), Vec::new())) };
    if let Some(out) = &options.out {
        let (mut state, mut out) = (state()?, std::fs::File::create(out)?);
        for image in 0..images.len() {
            augment(&mut state, 0, image)?;
            out.write_all(bytemuck::cast_slice(&state.1))?;
        }
        return Ok(());
    }
    time(options, images.len(), state, augment)
}
