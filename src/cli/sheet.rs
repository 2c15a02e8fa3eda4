//! Sheets: grids of pictures with words above the columns and beside the rows, or below each.
//! Shared by both programs.

use anyhow::{Result, anyhow};
use forebay::file;
use forebay::letters::{LETTER, width_of, write};
use image::imageops::{self, FilterType};
use image::{ImageFormat, Rgb, RgbImage};
use std::io::{Cursor, Write};
use std::path::Path;

/// Pictures smaller than this are blown up, in whole steps so that pixels stay square.
const SMALL: u32 = 96;
/// Pictures larger than this are shrunk.
pub(crate) const LARGE: u32 = 256;
const GAP: u32 = 8;
const BACKGROUND: Rgb<u8> = Rgb([255, 255, 255]);
const INK: Rgb<u8> = Rgb([32, 32, 32]);

/// A row of the sheet: lines of text at its left, then its pictures.
pub(crate) struct Row {
    /// What is said about the row.
    pub(crate) text: Vec<String>,
    /// One picture a column.
    pub(crate) pictures: Vec<RgbImage>,
}

/// Draws `rows` under the names of their `columns`.
pub(crate) fn draw(columns: &[String], rows: &[Row]) -> RgbImage {
    let rows: Vec<Row> = rows
        .iter()
        .map(|row| Row {
            text: row.text.clone(),
            pictures: row.pictures.iter().map(for_view).collect(),
        })
        .collect();
    let margin = rows.iter().flat_map(|row| &row.text).map(|text| width_of(text)).max();
    let margin = margin.unwrap_or(0) + 2 * GAP;
    let widths: Vec<u32> = columns
        .iter()
        .enumerate()
        .map(|(i, name)| {
            let pictures = rows.iter().filter_map(|row| row.pictures.get(i)).map(|p| p.width());
            pictures.chain([width_of(name)]).max().unwrap_or(0) + GAP
        })
        .collect();
    let heights: Vec<u32> = rows
        .iter()
        .map(|row| {
            let pictures = row.pictures.iter().map(|p| p.height());
            pictures.chain([row.text.len() as u32 * LETTER.1]).max().unwrap_or(0) + GAP
        })
        .collect();

    let top = LETTER.1 + 2 * GAP;
    let (width, height) = (margin + widths.iter().sum::<u32>(), top + heights.iter().sum::<u32>());
    let mut sheet = RgbImage::from_pixel(width, height, BACKGROUND);
    let mut x = margin;
    for (name, width) in columns.iter().zip(&widths) {
        write(&mut sheet, x, GAP, name, INK);
        x += width;
    }
    let mut y = top;
    for (row, height) in rows.iter().zip(&heights) {
        for (line, text) in row.text.iter().enumerate() {
            write(&mut sheet, GAP, y + line as u32 * LETTER.1, text, INK);
        }
        let mut x = margin;
        for (picture, width) in row.pictures.iter().zip(&widths) {
            imageops::replace(&mut sheet, picture, i64::from(x), i64::from(y));
            x += width;
        }
        y += height;
    }
    sheet
}

/// A picture with lines of words below it.
pub(crate) struct Cell {
    /// The picture.
    pub(crate) picture: RgbImage,
    /// What is said about it; cut where it is wider than the picture.
    pub(crate) text: Vec<String>,
}

/// Draws `cells` in rows of so many.
pub(crate) fn grid(cells: &[Cell], columns: usize) -> RgbImage {
    let pictures: Vec<RgbImage> = cells.iter().map(|cell| for_view(&cell.picture)).collect();
    let widest = pictures.iter().map(|p| p.width()).max().unwrap_or(0) + GAP;
    let tallest = pictures.iter().map(|p| p.height()).max().unwrap_or(0) + GAP;
    let words = cells.iter().map(|cell| cell.text.len() as u32 * LETTER.1).max().unwrap_or(0);
    let rows = cells.len().div_ceil(columns.max(1)) as u32;
    let (width, height) = (columns as u32 * widest + GAP, rows * (tallest + words) + GAP);
    let mut sheet = RgbImage::from_pixel(width, height, BACKGROUND);
    for (place, (cell, picture)) in cells.iter().zip(&pictures).enumerate() {
        let x = GAP + (place % columns) as u32 * widest;
        let y = GAP + (place / columns) as u32 * (tallest + words);
        imageops::replace(&mut sheet, picture, i64::from(x), i64::from(y));
        for (line, text) in cell.text.iter().enumerate() {
            let fits: String = text.chars().take((widest / LETTER.0) as usize).collect();
            let below = picture.height() + line as u32 * LETTER.1;
            write(&mut sheet, x, y + below, &fits, INK);
        }
    }
    sheet
}

/// A picture at a size at which it can be seen, without new colours where it was small.
fn for_view(picture: &RgbImage) -> RgbImage {
    let (width, height) = picture.dimensions();
    let longest = width.max(height).max(1);
    if longest > LARGE {
        let fit =
            |side: u32| (u64::from(side) * u64::from(LARGE) / u64::from(longest)).max(1) as u32;
        return imageops::resize(picture, fit(width), fit(height), FilterType::Triangle);
    }
    let times = SMALL.div_ceil(longest);
    imageops::resize(picture, width * times, height * times, FilterType::Nearest)
}

/// Puts `picture` at `path`, in the format that the extension names.
pub(crate) fn save(picture: &RgbImage, path: &Path) -> Result<()> {
    let mut bytes = Cursor::new(Vec::new());
    ImageFormat::from_path(path)
        .and_then(|format| picture.write_to(&mut bytes, format))
        .map_err(|e| anyhow!("{}: {e}", path.display()))?;
    Ok(file::put(path, |file| file.write_all(bytes.get_ref()))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(width: u32, height: u32) -> RgbImage {
        RgbImage::from_pixel(width, height, Rgb([200, 10, 10]))
    }

    #[test]
    fn pictures_are_seen_at_a_fair_size() {
        assert_eq!(for_view(&plain(32, 32)).dimensions(), (96, 96));
        assert_eq!(for_view(&plain(20, 40)).dimensions(), (60, 120));
        assert_eq!(for_view(&plain(200, 100)).dimensions(), (200, 100));
        assert_eq!(for_view(&plain(1000, 4)).dimensions(), (256, 1));
    }

    #[test]
    fn cells_of_unlike_pictures_fit() {
        let cell = |w, h| Cell { picture: plain(w, h), text: vec!["a very long name".into()] };
        let sheet = grid(&[cell(32, 32), cell(96, 96), cell(200, 100)], 2);
        assert_eq!(sheet.dimensions(), (2 * 208 + 8, 2 * (104 + 16) + 8 + 2 * 4));
    }

    #[test]
    fn rows_of_unlike_pictures_fit() {
        let row =
            |w, h| Row { text: vec!["#1".into(), "ça".into()], pictures: vec![plain(w, h); 2] };
        let columns = ["original".to_string(), "epoch 0".to_string()];
        let sheet = draw(&columns, &[row(32, 32), row(96, 120)]);
        assert_eq!(sheet.dimensions(), (32 + 2 * 104, 32 + 104 + 128));
        // The last picture is whole and in its place.
        assert_eq!(sheet.get_pixel(32 + 104 + 95, 32 + 104 + 119), &Rgb([200, 10, 10]));
        assert!(sheet.pixels().any(|pixel| *pixel == INK));
    }
}
