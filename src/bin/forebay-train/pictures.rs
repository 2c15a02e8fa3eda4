//! Pictures of what the network sees: samples of a batch, what it got wrong, and who is taken for whom.

use crate::sheet::{Cell, grid};
use crate::train::evaluate::Mistake;
use crate::train::plot;
use anyhow::Result;
use image::{Rgb, RgbImage};
use tch::{Device, Tensor};

/// Columns of a sheet.
const COLUMNS: usize = 8;
/// Pictures of a sheet of samples.
const SAMPLES: i64 = 32;

/// The name of class `label`, or its number.
pub(crate) fn class(names: &[String], label: i64) -> String {
    let name = usize::try_from(label).ok().and_then(|label| names.get(label));
    name.cloned().unwrap_or_else(|| label.to_string())
}

/// The first of a batch's (N, 3, H, W) images.
pub(crate) fn samples(images: &Tensor, labels: &Tensor, names: &[String]) -> Result<RgbImage> {
    let count = images.size()[0].min(SAMPLES);
    let pictures = pictures(&images.f_narrow(0, 0, count)?)?;
    let labels = Vec::<i64>::try_from(labels.f_narrow(0, 0, count)?)?;
    let cells = pictures.into_iter().zip(labels);
    let cells = cells.map(|(picture, label)| Cell { picture, text: vec![class(names, label)] });
    Ok(grid(&cells.collect::<Vec<_>>(), COLUMNS))
}

/// The mistakes, each with what it is and what it was taken for.
pub(crate) fn mistakes(mistakes: &[Mistake], names: &[String]) -> Result<RgbImage> {
    let images: Vec<&Tensor> = mistakes.iter().map(|mistake| &mistake.image).collect();
    let cells = pictures(&Tensor::f_stack(&images, 0)?)?.into_iter().zip(mistakes);
    let cells = cells.map(|(picture, mistake)| Cell {
        picture,
        text: vec![
            class(names, mistake.label),
            format!("said {}", class(names, mistake.said)),
            format!("loss {:.2}", mistake.loss),
            format!("#{}", mistake.id),
        ],
    });
    Ok(grid(&cells.collect::<Vec<_>>(), COLUMNS))
}

/// Counts by label and answer. Data without names of classes shows their numbers.
pub(crate) fn confusion(counts: &[Vec<u64>], names: &[String]) -> Result<RgbImage> {
    let names: Vec<_> = (0..counts.len()).map(|label| class(names, label as i64)).collect();
    Ok(plot::confusion(counts, &names)?)
}

/// (N, 3, H, W) values as pictures. What they mean is the pipeline's; here the least of all is black
/// and the largest white.
fn pictures(images: &Tensor) -> Result<Vec<RgbImage>> {
    let images = images.f_to_device(Device::Cpu)?.f_contiguous()?;
    let (_, _, height, width) = images.size4()?;
    let (height, width) = (height as usize, width as usize);
    let values = Vec::<f32>::try_from(images.f_reshape([-1])?)?;
    let finite = || values.iter().copied().filter(|value| value.is_finite());
    let low = finite().fold(f32::INFINITY, f32::min);
    let high = finite().fold(f32::NEG_INFINITY, f32::max);
    let scale = 255.0 / (high - low).max(f32::MIN_POSITIVE);
    let plane = height * width;
    Ok(values
        .chunks_exact(3 * plane)
        .map(|image| {
            RgbImage::from_fn(width as u32, height as u32, |x, y| {
                let at = y as usize * width + x as usize;
                // `as` saturates, and turns NaN to black.
                Rgb([0, 1, 2].map(|c| ((image[c * plane + at] - low) * scale).round() as u8))
            })
        })
        .collect())
}
