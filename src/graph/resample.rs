//! The primitive that brings an image, or a drawn window of it, to another size.

use super::primitive::{Build, Extent, Node, NodeId, ScalarId};
use super::program::{Filter, Fit, MAX_PIXELS};
use crate::error::{Error, Result};

/// Arguments of a resample; `kernels/taps.cuh` has the values, `kernels/resample.cuh` sizes and windows.
#[derive(Debug, Clone, PartialEq)]
pub struct Resample {
    /// The image that is read.
    pub input: NodeId,
    /// Rows and columns that `fit` makes the result of.
    pub size: (u32, u32),
    /// What becomes of `size`.
    pub fit: Fit,
    /// Whether a side that had to be rounded keeps its scale, and shows a little more or less of the
    /// image; else all of the image is shown. Nothing under [`Fit::Stretch`].
    pub subpixel: bool,
    /// How pixels are weighed.
    pub filter: Filter,
    /// The part that is shown; `None`: all of it.
    pub window: Option<DrawnWindow>,
}

/// A window drawn for each sample; see `draw_window` of `kernels/resample.cuh`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct DrawnWindow {
    /// The draw, of which each attempt is an element.
    pub draw: u16,
    /// Least and largest share of the image's area, above 0.
    pub area: [ScalarId; 2],
    /// Least and largest ratio of width to height, above 0.
    pub aspect: [ScalarId; 2],
}

impl Build {
    /// A resample. A u8 image stays u8.
    ///
    /// # Errors
    /// When the size is beyond that of any image.
    pub fn resample(&mut self, resample: Resample) -> Result<NodeId> {
        let (height, width) = resample.size;
        if u64::from(height) * u64::from(width) > MAX_PIXELS {
            return Err(Error::spec(format!(
                "size = [{height}, {width}] is beyond the limit of {MAX_PIXELS} pixels"
            )));
        }
        let mut image_type = self.image_type(resample.input).clone();
        image_type.extent = match resample.fit {
            Fit::Stretch => Extent::Fixed(height, width),
            Fit::NotSmaller | Fit::NotLarger => Extent::Resized(self.step().to_string()),
        };
        Ok(self.push(Node::Resample(resample), image_type))
    }
}
