//! Learning rates by step.

use super::panel::{Line, Panel};
use super::{Area, Chart, Drawn, Format, png};
use crate::error::Result;
use plotters::prelude::DrawingBackend;

/// Draws learning rates over the steps of the optimiser, 900x420 in size: the bytes of the file.
pub fn rates(lines: &[Line], format: Format) -> Result<Vec<u8>> {
    match format {
        Format::Svg => Ok(Rates(lines).svg()?.into_bytes()),
        Format::Png => png(&Rates(lines).picture()?),
    }
}

struct Rates<'a>(&'a [Line]);

impl Chart for Rates<'_> {
    fn draw<DB: DrawingBackend>(&self, area: &Area<DB>) -> Drawn<DB> {
        let panel = Panel {
            title: "Learning rate",
            x_label: "step of the optimiser",
            y_label: "learning rate",
            y_limits: 0.0..f64::INFINITY,
            lines: self.0,
        };
        panel.draw(area)
    }
}
