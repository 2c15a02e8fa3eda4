//! A confusion matrix as a heat map.

use crate::error::{Error, ErrorKind, Result};
use crate::letters::{LETTER, width_of, write};
use image::{Rgb, RgbImage};

const GAP: u32 = 8;
const INK: Rgb<u8> = Rgb([48, 48, 48]);
const PAPER: Rgb<u8> = Rgb([255, 255, 255]);
/// The colour of a cell that has all of its row.
const FULL: [u8; 3] = [0, 84, 147];
const LINES: Rgb<u8> = Rgb([225, 225, 225]);
/// Above so many classes cells hold no counts and columns no names.
const FEW: usize = 20;
/// Above so many classes nothing could be seen.
const MOST: usize = 1000;
/// Letters of a name; longer ones are cut.
const NAME: usize = 12;

/// Draws `matrix`, whose entry (i, j) counts samples of class i that were taken for class j. The
/// shade of a cell is its share of its row. Up to 20 classes have their counts and names.
///
/// # Errors
/// The matrix is not square, has not a name for each class, or has more than 1000 classes.
pub fn confusion(matrix: &[Vec<u64>], classes: &[String]) -> Result<RgbImage> {
    let count = classes.len();
    if matrix.len() != count || matrix.iter().any(|row| row.len() != count) {
        let message = format!("the confusion matrix is not one of {count} classes");
        return Err(Error::new(ErrorKind::Shape, message));
    }
    if count > MOST {
        let message = format!("a confusion matrix of {count} classes is too large for a picture");
        return Err(Error::new(ErrorKind::Limit, message));
    }
    let few = count <= FEW;
    let names: Vec<String> = classes.iter().map(|name| name.chars().take(NAME).collect()).collect();
    let widest = names.iter().map(|name| width_of(name)).max().unwrap_or(0);
    let (cell_width, cell_height) = match few {
        true => (widest.max(width_of("100000")) + GAP, LETTER.1 + 2 * GAP),
        false => ((900 / count as u32).max(1), (900 / count as u32).max(1)),
    };
    let named = cell_height >= LETTER.1;

    let right: u64 = (0..count).map(|i| matrix[i][i]).sum();
    let all: u64 = matrix.iter().flatten().sum();
    let title = match all {
        0 => "Confusion matrix of no samples".to_string(),
        _ => {
            let percent = right as f64 / all as f64 * 100.0;
            format!("Confusion matrix: {right} of {all} right, {percent:.2}%")
        }
    };
    let axes = "row: the true class; column: the predicted one; shade: share of the row";

    let left = GAP + if named { widest + GAP } else { 0 };
    let top = GAP + 2 * (LETTER.1 + GAP) + if few { LETTER.1 + GAP } else { 0 };
    let (inner_width, inner_height) = (cell_width * count as u32, cell_height * count as u32);
    let width = left + inner_width.max(width_of(axes)).max(width_of(&title)) + GAP;
    let mut picture = RgbImage::from_pixel(width, top + inner_height + GAP, PAPER);
    write(&mut picture, left, GAP, &title, INK);
    write(&mut picture, left, GAP + LETTER.1 + GAP / 2, axes, INK);

    for (i, (row, name)) in matrix.iter().zip(&names).enumerate() {
        let y = top + i as u32 * cell_height;
        if named {
            let x = left - GAP - width_of(name);
            write(&mut picture, x, y + (cell_height - LETTER.1) / 2, name, INK);
        }
        if few {
            let x = left + i as u32 * cell_width + (cell_width - width_of(name)) / 2;
            write(&mut picture, x, top - LETTER.1 - GAP / 2, name, INK);
        }
        let total: u64 = row.iter().sum();
        for (j, samples) in row.iter().enumerate() {
            let x = left + j as u32 * cell_width;
            let share = *samples as f64 / total.max(1) as f64;
            fill(&mut picture, (x, y), (cell_width, cell_height), shade(share), few);
            if few {
                let text = short(*samples);
                let x = x + (cell_width - width_of(&text)) / 2;
                let ink = if share > 0.5 { PAPER } else { INK };
                write(&mut picture, x, y + GAP, &text, ink);
            }
        }
    }
    Ok(picture)
}

/// Fills a cell; with `framed`, lines part it from the next.
fn fill(
    picture: &mut RgbImage,
    (x, y): (u32, u32),
    (width, height): (u32, u32),
    color: Rgb<u8>,
    framed: bool,
) {
    for dy in 0..height {
        for dx in 0..width {
            let edge = framed && (dx + 1 == width || dy + 1 == height || dx == 0 || dy == 0);
            picture.put_pixel(x + dx, y + dy, if edge { LINES } else { color });
        }
    }
}

/// From white to full. Small shares are what one looks for, so they get more than theirs.
fn shade(share: f64) -> Rgb<u8> {
    let part = share.sqrt();
    Rgb(FULL.map(|full| (255.0 + (f64::from(full) - 255.0) * part).round() as u8))
}

/// A count in at most six letters.
fn short(samples: u64) -> String {
    match samples {
        0..1_000_000 => samples.to_string(),
        1_000_000..1_000_000_000 => format!("{:.1}M", samples as f64 / 1e6),
        _ => format!("{:.0e}", samples as f64),
    }
}
