//! plotters' charts with letters of our own, since a machine need not have fonts.

use crate::letters::{LETTER, pixels, width_of};
use image::RgbImage;
use plotters::backend::BitMapBackend;
use plotters_backend::text_anchor::{HPos, VPos};
use plotters_backend::{
    BackendColor, BackendCoord, BackendStyle, BackendTextStyle, DrawingBackend, DrawingErrorKind,
};

/// plotters' drawing on pixels, with these letters in place of a font of the machine's.
pub(super) struct Lettered<'a>(BitMapBackend<'a>);

type Error<'a> = <BitMapBackend<'a> as DrawingBackend>::ErrorType;
type Drawn<'a> = Result<(), DrawingErrorKind<Error<'a>>>;

impl<'a> Lettered<'a> {
    pub(super) fn new(picture: &'a mut RgbImage, size: (u32, u32)) -> Self {
        Lettered(BitMapBackend::with_buffer(picture, size))
    }
}

impl<'a> DrawingBackend for Lettered<'a> {
    type ErrorType = Error<'a>;

    fn get_size(&self) -> (u32, u32) {
        self.0.get_size()
    }

    fn ensure_prepared(&mut self) -> Drawn<'a> {
        self.0.ensure_prepared()
    }

    fn present(&mut self) -> Drawn<'a> {
        self.0.present()
    }

    fn draw_pixel(&mut self, at: BackendCoord, color: BackendColor) -> Drawn<'a> {
        self.0.draw_pixel(at, color)
    }

    fn draw_line<S: BackendStyle>(
        &mut self,
        from: BackendCoord,
        to: BackendCoord,
        style: &S,
    ) -> Drawn<'a> {
        self.0.draw_line(from, to, style)
    }

    fn draw_rect<S: BackendStyle>(
        &mut self,
        upper_left: BackendCoord,
        lower_right: BackendCoord,
        style: &S,
        fill: bool,
    ) -> Drawn<'a> {
        self.0.draw_rect(upper_left, lower_right, style, fill)
    }

    fn draw_text<S: BackendTextStyle>(
        &mut self,
        text: &str,
        style: &S,
        at: BackendCoord,
    ) -> Drawn<'a> {
        let (width, height) = (width_of(text) as i32, LETTER.1 as i32);
        let dx = match style.anchor().h_pos {
            HPos::Left => 0,
            HPos::Center => -width / 2,
            HPos::Right => -width,
        };
        let dy = match style.anchor().v_pos {
            VPos::Top => 0,
            VPos::Center => -height / 2,
            VPos::Bottom => -height,
        };
        for (x, y) in pixels(text) {
            let (x, y) = style.transform().transform(x as i32 + dx, y as i32 + dy);
            self.draw_pixel((at.0 + x, at.1 + y), style.color())?;
        }
        Ok(())
    }

    fn estimate_text_size<S: BackendTextStyle>(
        &self,
        text: &str,
        style: &S,
    ) -> Result<(u32, u32), DrawingErrorKind<Error<'a>>> {
        let (width, height) = (width_of(text) as i32, LETTER.1 as i32);
        let (width, height) = style.transform().transform(width, height);
        Ok((width.unsigned_abs(), height.unsigned_abs()))
    }
}
