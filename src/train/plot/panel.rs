//! One chart of lines: title, legend, grid, two axes.

use super::{Area, Drawn};
use plotters::prelude::*;
use plotters::style::text_anchor::{HPos, Pos, VPos};
use std::ops::Range;

/// A curve with its name.
#[derive(Debug, Clone, PartialEq)]
pub struct Line {
    /// What the legend calls it.
    pub name: String,
    /// (x, y). Those with a part that is not finite, or beyond 1e100, are left out.
    pub points: Vec<(f64, f64)>,
}

impl Line {
    fn drawable(&self) -> impl Iterator<Item = (f64, f64)> + '_ {
        self.points.iter().copied().filter(|(x, y)| x.abs() < 1e100 && y.abs() < 1e100)
    }
}

/// What a panel shows.
pub(super) struct Panel<'a> {
    pub(super) title: &'a str,
    /// What the axes measure, with the unit.
    pub(super) x_label: &'a str,
    pub(super) y_label: &'a str,
    /// What y can be at all.
    pub(super) y_limits: Range<f64>,
    pub(super) lines: &'a [Line],
}

/// Told apart with any kind of sight (Okabe and Ito, 2008).
const COLORS: [RGBColor; 6] = [
    RGBColor(0, 114, 178),
    RGBColor(213, 94, 0),
    RGBColor(0, 158, 115),
    RGBColor(204, 121, 167),
    RGBColor(230, 159, 0),
    RGBColor(86, 180, 233),
];
const INK: RGBColor = RGBColor(48, 48, 48);
const GRID: RGBColor = RGBColor(225, 225, 225);
/// Height of a line of text, and the width of a letter in the fonts of either kind of picture.
const TEXT: (i32, i32) = (20, 8);
const MARGIN: i32 = 12;
/// A curve of no more points than this shows them.
const FEW: usize = 40;

impl Panel<'_> {
    pub(super) fn draw<DB: DrawingBackend>(&self, area: &Area<DB>) -> Drawn<DB> {
        let title = ("sans-serif", 18).into_font().color(&INK);
        area.draw_text(self.title, &title, (MARGIN, MARGIN))?;
        let top = self.draw_legend(area, MARGIN + TEXT.0 + 4)?;

        let points = || self.lines.iter().flat_map(Line::drawable);
        let x = range(points().map(|(x, _)| x), 0.0);
        let y = within(range(points().map(|(_, y)| y), 0.05), &self.y_limits);
        // Steps and epochs are whole, and so are the numbers beneath them.
        let x_labels = ((x.end - x.start).min(9.0) + 1.0) as usize;
        let mut chart = ChartBuilder::on(area)
            .margin(MARGIN)
            .margin_top(top)
            .margin_right(2 * MARGIN)
            .x_label_area_size(44)
            .y_label_area_size(72)
            .build_cartesian_2d(x, y)?;
        let text = ("sans-serif", 15).into_font().color(&INK);
        chart
            .configure_mesh()
            .light_line_style(TRANSPARENT)
            .bold_line_style(GRID)
            .axis_style(INK)
            .x_labels(x_labels)
            .y_labels(8)
            .x_label_formatter(&|x| if x.fract() == 0.0 { number(*x) } else { String::new() })
            .y_label_formatter(&|y| number(*y))
            .label_style(text.clone())
            .axis_desc_style(text)
            .x_desc(self.x_label)
            .y_desc(self.y_label)
            .draw()?;
        for (line, color) in self.lines.iter().zip(COLORS.iter().cycle()) {
            chart.draw_series(LineSeries::new(line.drawable(), color.stroke_width(2)))?;
            if line.points.len() <= FEW {
                let dots = line.drawable().map(|at| Circle::new(at, 3, color.filled()));
                chart.draw_series(dots)?;
            }
        }
        Ok(())
    }

    /// Names from left to right, on as many lines as they need; the height that they end at.
    fn draw_legend<DB: DrawingBackend>(
        &self,
        area: &Area<DB>,
        top: i32,
    ) -> Result<i32, DrawingAreaErrorKind<DB::ErrorType>> {
        const STROKE: i32 = 20;
        let anchor = Pos::new(HPos::Left, VPos::Center);
        let text = ("sans-serif", 15).into_font().color(&INK).pos(anchor);
        let right = area.dim_in_pixel().0 as i32;
        let (mut x, mut y) = (MARGIN, top + TEXT.0 / 2);
        for (line, color) in self.lines.iter().zip(COLORS.iter().cycle()) {
            let width = STROKE + 6 + line.name.chars().count() as i32 * TEXT.1;
            if x > MARGIN && x + width > right {
                (x, y) = (MARGIN, y + TEXT.0);
            }
            let stroke = vec![(x, y), (x + STROKE, y)];
            area.draw(&PathElement::new(stroke, color.stroke_width(2)))?;
            area.draw_text(&line.name, &text, (x + STROKE + 6, y))?;
            x += width + 2 * MARGIN;
        }
        Ok(y + TEXT.0 / 2 + 6)
    }
}

/// What holds all `values`, with such a share of room at both ends. It is wide enough to be divided
/// by numbers that differ, without which an axis has no end.
fn range(values: impl Iterator<Item = f64>, room: f64) -> Range<f64> {
    let (low, high) =
        values.fold((f64::INFINITY, f64::NEG_INFINITY), |(low, high), v| (low.min(v), high.max(v)));
    if low > high {
        return 0.0..1.0;
    }
    let size = low.abs().max(high.abs());
    let room = match high - low {
        _ if size < 1e-100 => 0.5,
        spread if spread < 1e-6 * size => size / 2.0,
        spread => spread * room,
    };
    low - room..high + room
}

/// The part of `range` that `limits` allow, where there is any.
fn within(range: Range<f64>, limits: &Range<f64>) -> Range<f64> {
    let part = range.start.max(limits.start)..range.end.min(limits.end);
    if part.is_empty() { range } else { part }
}

/// A number on an axis, without the digits that came of counting up to it.
fn number(value: f64) -> String {
    let rounded: f64 = format!("{value:.5e}").parse().unwrap_or(value);
    match rounded.abs() {
        0.0 => "0".into(),
        1e-3..1e6 => rounded.to_string(),
        _ => format!("{rounded:e}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_on_axes_are_short() {
        let cases = [
            (0.1 + 0.2, "0.3"),
            (-0.0, "0"),
            (2e-4, "2e-4"),
            (1.0 - 0.999999999, "1e-9"),
            (120_000.0, "120000"),
            (3e7, "3e7"),
        ];
        for (value, expected) in cases {
            assert_eq!(number(value), expected);
        }
    }

    #[test]
    fn a_range_is_never_empty() {
        assert_eq!(range([].into_iter(), 0.1), 0.0..1.0);
        assert_eq!(range([3.0].into_iter(), 0.1), 1.5..4.5);
        assert_eq!(range([0.0, 10.0].into_iter(), 0.1), -1.0..11.0);
        assert_eq!(range([0.0, 5e-324].into_iter(), 0.1), -0.5..0.5);
        let next = f64::from_bits(4.0_f64.to_bits() + 1);
        assert!(range([4.0, next].into_iter(), 0.1).contains(&2.1));
        assert_eq!(within(-1.0..11.0, &(0.0..10.0)), 0.0..10.0);
        assert_eq!(within(-3.0..-1.0, &(0.0..10.0)), -3.0..-1.0);
    }
}
