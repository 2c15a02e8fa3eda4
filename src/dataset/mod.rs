//! Data sets that forebay can write as directories of JPEG files: CIFAR-10, and shapes it draws
//! itself.

pub mod cifar10;
pub mod export;
pub mod shapes;

use crate::error::Result;

/// Labelled images of one size, made or found one at a time, from any thread.
pub trait Source: Sync {
    /// Number of images.
    fn len(&self) -> u64;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Rows and columns of every image, 1 to 65,535.
    fn side(&self) -> u32;

    /// Names of the classes by label.
    fn classes(&self) -> &[String];

    /// The label of image `index`, below the number of classes.
    fn label(&self, index: u64) -> u8;

    /// Puts image `index` into `rgb`: `side` x `side` x 3 bytes, rows top down. Errors are those of
    /// where it comes from.
    fn image(&self, index: u64, rgb: &mut [u8]) -> Result<()>;
}
