//! Pictures of a run: curves, learning rates, a confusion matrix. No font is needed to draw them.

mod confusion;
mod curves;
mod lettered;
mod panel;
mod rates;

pub use confusion::confusion;
pub use curves::curves;
pub use panel::Line;
pub use rates::rates;

use crate::error::{Error, ErrorKind, Result};
use image::{ImageFormat, RgbImage};
use lettered::Lettered;
use plotters::coord::Shift;
use plotters::prelude::*;
use std::io::Cursor;
use std::path::Path;

/// What a chart is stored as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Format {
    /// Lines and text, sharp at any size.
    Svg,
    /// Pixels.
    Png,
}

impl Format {
    /// What the extension of `path` says.
    ///
    /// # Errors
    /// It is neither `.svg` nor `.png`.
    pub fn of(path: &Path) -> Result<Self> {
        let extension = path.extension().unwrap_or_default().to_ascii_lowercase();
        match extension.to_str() {
            Some("svg") => Ok(Format::Svg),
            Some("png") => Ok(Format::Png),
            _ => Err(Error::spec("a picture's name ends in .svg or .png").at_path(path)),
        }
    }
}

/// The bytes of a PNG file.
pub fn png(picture: &RgbImage) -> Result<Vec<u8>> {
    let mut bytes = Cursor::new(Vec::new());
    picture.write_to(&mut bytes, ImageFormat::Png).map_err(cannot)?;
    Ok(bytes.into_inner())
}

/// Where a chart is drawn, be it of lines or of pixels.
type Area<DB> = DrawingArea<DB, Shift>;
/// What came of drawing there.
type Drawn<DB> = Result<(), DrawingAreaErrorKind<<DB as DrawingBackend>::ErrorType>>;

/// Width and height of a chart.
const SIZE: (u32, u32) = (900, 420);

/// A chart of any kind, to be drawn on any area.
trait Chart {
    fn draw<DB: DrawingBackend>(&self, area: &Area<DB>) -> Drawn<DB>;

    fn svg(&self) -> Result<String> {
        let mut text = String::new();
        let area = SVGBackend::with_string(&mut text, SIZE).into_drawing_area();
        area.fill(&WHITE).and_then(|()| self.draw(&area)).map_err(cannot)?;
        area.present().map_err(cannot)?;
        drop(area);
        Ok(text)
    }

    fn picture(&self) -> Result<RgbImage> {
        let mut picture = RgbImage::new(SIZE.0, SIZE.1);
        let area = Lettered::new(&mut picture, SIZE).into_drawing_area();
        area.fill(&WHITE).and_then(|()| self.draw(&area)).map_err(cannot)?;
        drop(area);
        Ok(picture)
    }
}

fn cannot(error: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Data, format!("cannot draw a picture: {error}"))
}
