//! CIFAR-10's binaries as a [`Source`].

use super::Source;
use crate::error::Result;
use crate::reader::Reader;
use crate::reader::cifar10::{Cifar10, PIXELS, SIDE};

impl Source for Cifar10 {
    fn len(&self) -> u64 {
        Reader::len(self)
    }

    fn side(&self) -> u32 {
        SIDE
    }

    fn classes(&self) -> &[String] {
        Reader::classes(self)
    }

    fn label(&self, index: u64) -> u8 {
        Cifar10::label(self, index)
    }

    fn image(&self, index: u64, rgb: &mut [u8]) -> Result<()> {
        let mut planes = [0; PIXELS];
        Cifar10::image(self, index, &mut planes)?;
        let plane = (SIDE * SIDE) as usize;
        for (i, pixel) in rgb.chunks_exact_mut(3).enumerate() {
            pixel.copy_from_slice(&[planes[i], planes[plane + i], planes[2 * plane + i]]);
        }
        Ok(())
    }
}
