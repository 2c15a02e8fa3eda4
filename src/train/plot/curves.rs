//! Loss and accuracy of a run by epoch.

use super::panel::{Line, Panel};
use super::{Area, Chart, Drawn, SIZE};
use crate::error::Result;
use crate::train::log::csv::Row;
use plotters::prelude::DrawingBackend;
use std::collections::BTreeMap;

/// Draws the loss and the accuracy on training and validation samples, as an SVG of 900x420. An
/// epoch has the last value that was written in it; what has none is left out.
pub fn curves(rows: &[Row]) -> Result<String> {
    let line = |name: &str, of: fn(&Row) -> Option<f64>| {
        let values = rows.iter().filter_map(|row| Some((row.epoch?, of(row)?)));
        let by_epoch: BTreeMap<u64, f64> = values.collect();
        let points = by_epoch.into_iter().map(|(epoch, value)| (epoch as f64, value)).collect();
        Line { name: name.into(), points }
    };
    let present = |lines: [Line; 2]| {
        lines.into_iter().filter(|line| !line.points.is_empty()).collect::<Vec<_>>()
    };
    Curves {
        loss: present([line("train", |row| row.train_loss), line("valid", |row| row.valid_loss)]),
        accuracy: present([
            line("train", |row| Some(row.train_acc? * 100.0)),
            line("valid", |row| Some(row.valid_acc? * 100.0)),
        ]),
    }
    .svg()
}

struct Curves {
    loss: Vec<Line>,
    accuracy: Vec<Line>,
}

impl Chart for Curves {
    fn draw<DB: DrawingBackend>(&self, area: &Area<DB>) -> Drawn<DB> {
        let (left, right) = area.split_horizontally(SIZE.0 / 2);
        let loss = Panel {
            title: "Loss",
            x_label: "epoch",
            y_label: "cross-entropy, nats",
            y_limits: 0.0..f64::INFINITY,
            lines: &self.loss,
        };
        loss.draw(&left)?;
        let accuracy = Panel {
            title: "Accuracy",
            x_label: "epoch",
            y_label: "% of the samples",
            y_limits: 0.0..100.0,
            lines: &self.accuracy,
        };
        accuracy.draw(&right)
    }
}
