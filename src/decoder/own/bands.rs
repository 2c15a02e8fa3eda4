//! A picture, or a window of it, in bands of whole MCU rows: bits to coefficients, to samples, to pixels.

use super::Own;
use super::entropy::{Codes, Cursor};
use super::group::Group;
use super::header::{Component, Frame};
use super::kernels::Band;
use super::layout::Layout;
use super::part::ranges;
use crate::decoder::Region;

impl Own {
    /// Decodes what `layout` says of the scan that was loaded, which is at least what `window` needs. `None`:
    /// there is doubt.
    pub(super) fn bands(
        &mut self,
        frame: &Frame,
        layout: &Layout,
        window: Region,
        out: &mut [u8],
    ) -> Option<()> {
        let bytes = self.stream.bytes().len();
        let code = |k: usize| {
            let Component { dc, ac, .. } = &frame.components[k];
            Codes { dc, ac, pairs: ac.pairs(bytes) }
        };
        let luma = code(0);
        // Chroma components have one code together in nearly all files.
        let codes = match frame.components.len() {
            1 => [luma; 3],
            _ => [luma, code(1), code(2)],
        };
        let coefficients: &mut [i16] = bytemuck::cast_slice_mut(&mut self.coefficients[..]);
        let part = &layout.part;
        let (_, wanted) = ranges(window);
        let mut cursor = Cursor::new(&self.stream, layout.interval)?;
        cursor.skip(&self.stream, &codes, layout, part.down.start * part.all.0)?;
        let mut row = part.down.start;
        while row < part.down.end {
            let rows = layout.band.min(part.down.end - row);
            for run in &layout.runs {
                let used = run.groups(rows);
                let groups: &mut [Group] = coefficients.as_chunks_mut().0;
                groups[used.clone()].as_flattened_mut().fill(0);
                self.last[used].fill(0);
            }
            cursor.rows(&self.stream, &codes, layout, rows, coefficients, &mut self.last)?;
            let groups: &[Group] = coefficients.as_chunks().0;
            for (run, factors) in layout.runs.iter().zip(&layout.quantisation) {
                let used = run.groups(rows);
                let last = &self.last[used.clone()];
                let slots = run.slots(rows);
                let (groups, places) = (&groups[used], &run.places);
                let sure =
                    self.kernels.idct(groups, slots, factors, last, places, &mut self.planes);
                if !sure {
                    return None;
                }
            }
            // What waits for the next band, and what waited for this one.
            let luma = &layout.planes[0];
            let (first, end) = (row * layout.mcu_rows, (row + rows) * layout.mcu_rows);
            let held = if row == part.down.start { 0 } else { luma.kept };
            row += rows;
            let is_last = row == part.down.end;
            let end = if is_last { end } else { end - luma.kept };
            let ready = wanted.start.max(first - held)..wanted.end.min(end);
            if !ready.is_empty() {
                let band = Band { first, held };
                self.kernels.colour(layout, window, &self.planes, band, ready, out);
            }
            for plane in layout.planes.iter().filter(|_| !is_last) {
                let from = plane.at + plane.rows * plane.stride;
                self.planes.copy_within(from..from + plane.kept * plane.stride, plane.at);
            }
        }
        // Of what follows the last row only whoever wants that row hears.
        let sound = match part.down.end == part.all.1 {
            true => cursor.is_at_end(&self.stream),
            false => cursor.is_within(&self.stream),
        };
        sound.then_some(())
    }
}
