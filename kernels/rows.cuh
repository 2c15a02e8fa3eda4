// The host's ways from a source to planes of floats, a row of the output at a time.
//
// Which way a sample takes is decided once. `WAY_ANY` is `sample`; the others give its values and are
// there for speed.
#pragma once
#include "linear.cuh"

namespace FB_LEVEL {

enum Way {
  WAY_DIRECT,  // the output's pixels are the source's: no planes are needed
  WAY_MOVED,   // crops and flips of a u8 image
  WAY_LINEAR,  // linear taps of a u8 image
  WAY_ANY,
};

struct Rows {
  const Resolved* r;
  const Image* source;
  u32 type;
  Way way;
  Span columns;   // WAY_MOVED
  Linear linear;  // WAY_LINEAR
};

FB_FN void begin_rows(Rows& rows, const Resolved& r, const Image& source, u32 type) {
  rows.r = &r;
  rows.source = &source;
  rows.type = type;
  rows.way = WAY_ANY;
  if (r.gather == GATHER_NONE && r.pre == 0) {
    rows.way = WAY_DIRECT;
  } else if (type == TYPE_U8 && r.gather == GATHER_NONE) {
    rows.way = WAY_MOVED;
    rows.columns = span_of(r.pre_x, r.pre, r.out_width);
  } else if (type == TYPE_U8 && begin_linear(rows.linear, r, source)) {
    rows.way = WAY_LINEAR;
  }
}

// Columns `begin` to `end` of a piece, which a border makes.
template <class T>
FB_FN void border_columns(const Rows& rows, const Piece& piece, i32 begin, i32 end, bool filled,
                          Planes<T>& out) {
  Piece part = {begin, piece.y, end - begin, piece.at + begin - piece.x};
  if (part.n <= 0) return;
  if (!filled) return any_row(*rows.r, *rows.source, rows.type, part, out);
  typename T::f fill = splat<T>(rows.r->fill);
  for (i32 k = 0; k < part.n; k += T::lanes) put_planes(out, part.at + k, Rgb<T>{{fill, fill, fill}});
}

// Between its borders a row is a run of source pixels, forwards or backwards.
template <class T> FB_APART void moved_row(const Rows& rows, const Piece& piece, Planes<T>& out) {
  const Resolved& r = *rows.r;
  const Span& span = rows.columns;
  i32 outside = 0, y = through<One>(r.pre_y, r.pre, piece.y, outside);
  i32 last = piece.x + piece.n, begin = max2(span.begin, piece.x), end = min2(span.end, last);
  bool mirrored = span.sign < 0, filled = span.filled || outside != 0;
  if (outside != 0 || begin >= end)
    return border_columns(rows, piece, piece.x, last, filled, out);
  // Backwards, a register with lanes to spare might be read before the image.
  if (mirrored && end - begin < T::lanes)
    return border_columns(rows, piece, piece.x, last, false, out);

  border_columns(rows, piece, piece.x, begin, span.filled, out);
  const u8* row = (const u8*)rows.source->data + 3 * y * r.source_width;
  for (i32 k = begin; k < end; k += T::lanes) {
    // The last register is a full one where the run has as many pixels.
    i32 x = max2(min2(k, end - T::lanes), begin);
    i32 first = mirrored ? span.offset - x - (T::lanes - 1) : x + span.offset;
    Rgb<T> v;
    load_pixels(row + 3 * first, mirrored, v.c);
    put_planes(out, piece.at + x - piece.x, v);
  }
  border_columns(rows, piece, end, last, span.filled, out);
}

// Pixels `p` to `p + n - 1` of the output, `n` at most CHUNK, to the front of `out`.
template <class T> FB_APART void read_rows(const Rows& rows, i32 p, i32 n, Planes<T>& out) {
  if (rows.way == WAY_LINEAR) {
    Places<T> places;
    place_rows(rows.linear, p, n, places);
    if (rows.linear.column > 0) blend_taps<T, false>(rows.linear, places, n, out);
    else blend_taps<T, true>(rows.linear, places, n, out);
    return;
  }
  i32 width = rows.r->out_width;
  for (Piece piece = first_piece(p, n, width); piece.at < n; piece = piece_behind(piece, n, width)) {
    if (rows.way == WAY_MOVED) moved_row(rows, piece, out);
    else any_row(*rows.r, *rows.source, rows.type, piece, out);
  }
}

}  // namespace FB_LEVEL
