//! Letters for pictures of pixels: an 8x8 font that is part of the program, drawn twice as high, which
//! makes the letters of an old terminal.

use font8x8::{BASIC_FONTS, LATIN_FONTS, UnicodeFonts};
use image::{Rgb, RgbImage};

/// Width and height of a letter, in pixels.
pub const LETTER: (u32, u32) = (8, 16);

/// The width of `text`, in pixels.
pub fn width_of(text: &str) -> u32 {
    text.chars().count() as u32 * LETTER.0
}

/// Writes `text` with its upper left corner at (`x`, `y`); what does not fit is cut off.
pub fn write(picture: &mut RgbImage, x: u32, y: u32, text: &str, ink: Rgb<u8>) {
    for (dx, dy) in pixels(text) {
        if let Some(pixel) = picture.get_pixel_mut_checked(x + dx, y + dy) {
            *pixel = ink;
        }
    }
}

/// Where `text` has ink, counted from its upper left corner; letters the font lacks become "?".
pub fn pixels(text: &str) -> impl Iterator<Item = (u32, u32)> {
    text.chars().enumerate().flat_map(|(place, letter)| {
        let glyph = BASIC_FONTS.get(letter).or_else(|| LATIN_FONTS.get(letter));
        let glyph = glyph.or_else(|| BASIC_FONTS.get('?')).unwrap_or_default();
        (0..LETTER.1)
            .flat_map(|y| (0..LETTER.0).map(move |x| (x, y)))
            .filter(move |(x, y)| glyph[*y as usize / 2] >> x & 1 == 1)
            .map(move |(x, y)| (place as u32 * LETTER.0 + x, y))
    })
}
