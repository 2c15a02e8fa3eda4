// Linear taps of a u8 image on the host: the values of `sample`.
//
// Places of a chunk's pixels are found first, a row of the output at a time, then their taps are loaded
// and blended: one register's way from column to value is longer than what a CPU looks ahead. A pixel
// and its right neighbour are six bytes, which one load fetches. One test a register says whether all
// its taps are inside; only where some are not are indices brought back and taps exchanged.
#pragma once
#include "planes.cuh"
#include "span.cuh"
#include "wide.cuh"

namespace FB_LEVEL {

struct Linear {
  const u8* pixels;       // the pair of places (0, 0) and (1, 0) of the gather's view
  i32 row, column;        // bytes from a place to the one below and to the one on the right
  i32 last_x, last_y;     // of the view
  const Resolved* r;
  i32 sign_x, offset_x, sign_y, offset_y;  // of the crops and flips behind the gather
};

FB_FN f32 magnitude(f32 v) { return v < 0.0f ? -v : v; }

// False where `sample` has to do it: crops that pad, places far away.
FB_FN bool begin_linear(Linear& l, const Resolved& r, const Image& source) {
  if (r.gather != GATHER_LINEAR || r.view_width < 2) return false;
  Span x = span_of(r.post_x, r.post, r.out_width), y = span_of(r.post_y, r.post, r.out_height);
  if (!covers(x, r.out_width) || !covers(y, r.out_height)) return false;
  l.sign_x = x.sign;
  l.offset_x = x.offset;
  l.sign_y = y.sign;
  l.offset_y = y.offset;

  x = span_of(r.pre_x, r.pre, r.view_width);
  y = span_of(r.pre_y, r.pre, r.view_height);
  if (!covers(x, r.view_width) || !covers(y, r.view_height)) return false;
  l.column = 3 * x.sign;
  l.row = 3 * y.sign * r.source_width;
  // A mirrored pair begins with its right pixel.
  i32 first = y.offset * r.source_width + x.offset - (x.sign < 0 ? 1 : 0);
  l.pixels = (const u8*)source.data + 3 * first;
  l.last_x = r.view_width - 1;
  l.last_y = r.view_height - 1;
  l.r = &r;

  // Where no place can be beyond MAX_SIDE, none is clamped to it; a row's last register goes on.
  f32 reach_x = magnitude((f32)l.offset_x) + (f32)(r.out_width + 16) + magnitude(0.5f - r.m[6]);
  f32 reach_y = magnitude((f32)l.offset_y) + (f32)r.out_height + magnitude(0.5f - r.m[7]);
  f32 reach = (magnitude(r.m[0]) + magnitude(r.m[3])) * reach_x +
              (magnitude(r.m[1]) + magnitude(r.m[4])) * reach_y + magnitude(r.m[2]) +
              magnitude(r.m[5]);
  return reach < 4.0e6f;
}

// Where pixels lie between their taps, and where the pairs of taps lie.
template <class T> struct Places {
  alignas(4 * T::lanes) f32 x[CHUNK + T::lanes];      // from the left tap to the right, 0 to 1
  alignas(4 * T::lanes) f32 y[CHUNK + T::lanes];      // from those above to those below
  alignas(4 * T::lanes) i32 above[CHUNK + T::lanes];  // offsets of the pairs, which are in the image
  alignas(4 * T::lanes) i32 below[CHUNK + T::lanes];
  alignas(4 * T::lanes) i32 edge[CHUNK + T::lanes];   // 0, or what a border makes of the taps:
};
enum {
  LEFT_IS_SECOND = 1,  // of the pair
  RIGHT_IS_FIRST = 2,
  FILL_LEFT = 4,       // above; << 2 for those below
  FILL_RIGHT = 8,
};

// `inside` for places of which most are near: a few instructions instead of a division a lane.
template <class T> FB_FN typename T::i back_inside(typename T::i i, i32 n, u32 border) {
  if (border != BORDER_REFLECT) return inside<T>(i, n, border);
  i32 last = n - 1;
  if (any_negative((i + last) | (2 * last - i))) return inside<T>(i, n, border);
  i = max2(i, -i);
  return min2(i, 2 * last - i);
}

template <class T> FB_FN typename T::i bit_where(typename T::i negative, i32 bit) {
  return negative < 0 ? splat<T>(bit) : splat<T>(0);
}

// A register of places some of whose taps are outside. Indices become those of the pairs.
template <class T>
FB_FN typename T::i place_edge(const Linear& l, typename T::i& x, typename T::i& y,
                               typename T::i& next) {
  u32 border = l.r->border;
  typename T::i code = splat<T>(0);
  if (border == BORDER_CONSTANT) {
    // The sign of i | (last - i) says that i is not in 0 ..= last.
    typename T::i left = x | (l.last_x - x), right = (x + 1) | (l.last_x - 1 - x);
    typename T::i above = y | (l.last_y - y), below = next | (l.last_y - next);
    code = bit_where<T>(left | above, FILL_LEFT) | bit_where<T>(right | above, FILL_RIGHT) |
           bit_where<T>(left | below, FILL_LEFT << 2) | bit_where<T>(right | below, FILL_RIGHT << 2);
  }
  y = back_inside<T>(y, l.last_y + 1, border);
  next = back_inside<T>(next, l.last_y + 1, border);
  typename T::i left = back_inside<T>(x, l.last_x + 1, border);
  typename T::i right = back_inside<T>(x + 1, l.last_x + 1, border);
  x = min2(min2(left, right), splat<T>(l.last_x - 1));
  return code | bit_where<T>(x - left, LEFT_IS_SECOND) | bit_where<T>(right - x - 1, RIGHT_IS_FIRST);
}

template <class T> FB_FN void place_row(const Linear& l, const Piece& piece, Places<T>& out) {
  const f32* m = l.r->m;
  f32 dy = to_f(l.sign_y * piece.y + l.offset_y) + (0.5f - m[7]);
  f32 half = 0.5f - m[6], down_x = dy * m[1], down_y = dy * m[4];
  typename T::i lane = Iota<T>::get() * l.sign_x;
  for (i32 k = 0; k < piece.n; k += T::lanes) {
    typename T::f dx = to_f(lane + (l.sign_x * (piece.x + k) + l.offset_x)) + half;
    typename T::f sx = dx * m[0] + down_x + m[2] - 0.5f;
    typename T::f sy = dx * m[3] + down_y + m[5] - 0.5f;
    typename T::f fx = floor_any(sx), fy = floor_any(sy);
    typename T::i x = to_i(fx), y = to_i(fy), edge = {}, above, below;
    if (any_negative(x | (l.last_x - 1 - x) | y | (l.last_y - 1 - y))) {
      typename T::i next = y + 1;
      edge = place_edge<T>(l, x, y, next);
      above = y * l.row + x * l.column;
      below = next * l.row + x * l.column;
    } else {
      above = y * l.row + x * l.column;
      below = above + l.row;
    }
    i32 at = piece.at + k;
    store(out.x + at, sx - fx);
    store(out.y + at, sy - fy);
    store(out.above + at, above);
    store(out.below + at, below);
    store(out.edge + at, edge);
  }
}

// Pixels `p` to `p + n - 1` of the output.
template <class T> FB_APART void place_rows(const Linear& l, i32 p, i32 n, Places<T>& out) {
  i32 width = l.r->out_width;
  for (Piece piece = first_piece(p, n, width); piece.at < n; piece = piece_behind(piece, n, width))
    place_row(l, piece, out);
  // Lanes past the last pixel, which no row has placed.
  typename T::i zero = {};
  store(out.above + n, zero);
  store(out.below + n, zero);
  store(out.edge + n, zero);
}

// Left and right tap of a row.
template <class T> struct Sides {
  Rgb<T> left, right;
};

template <class T, bool MIRRORED> FB_FN Sides<T> sides_of(const Pairs<T>& pair) {
  Rgb<T> first, second;
  for (i32 k = 0; k < 3; ++k) first.c[k] = byte_of(pair.low, k);
  second.c[0] = byte_of(pair.low, 3);
  second.c[1] = byte_of(pair.high, 0);
  second.c[2] = byte_of(pair.high, 1);
  if (MIRRORED) return {second, first};
  return {first, second};
}

template <class T, class V>
FB_FN V where_set(typename T::i v, i32 bit, V then, V otherwise) {
  return (v & bit) != 0 ? then : otherwise;
}

template <class T, bool MIRRORED>
FB_FN Sides<T> sides_at_edge(const Pairs<T>& pair, typename T::i edge, f32 fill) {
  typename T::i low = pair.low, high = (low >> 24 & 255) | pair.high << 8;
  typename T::i first = MIRRORED ? high : low, second = MIRRORED ? low : high;
  typename T::i a = where_set<T>(edge, LEFT_IS_SECOND, second, first);
  typename T::i b = where_set<T>(edge, RIGHT_IS_FIRST, first, second);
  Sides<T> s;
  for (i32 k = 0; k < 3; ++k) {
    s.left.c[k] = where_set<T>(edge, FILL_LEFT, splat<T>(fill), byte_of(a, k));
    s.right.c[k] = where_set<T>(edge, FILL_RIGHT, splat<T>(fill), byte_of(b, k));
  }
  return s;
}

// The pixels whose places were found, `n` of them.
template <class T, bool MIRRORED>
FB_APART void blend_taps(const Linear& l, const Places<T>& places, i32 n, Planes<T>& out) {
  f32 fill = l.r->fill;
  for (i32 k = 0; k < n; k += T::lanes) {
    Pairs<T> above, below;
    load_pairs(l.pixels, places.above + k, above);
    load_pairs(l.pixels, places.below + k, below);
    typename T::i edge;
    load(places.edge + k, edge);
    Sides<T> top, bottom;
    if (any(edge)) {
      top = sides_at_edge<T, MIRRORED>(above, edge, fill);
      bottom = sides_at_edge<T, MIRRORED>(below, (edge & 3) | (edge >> 2 & 12), fill);
    } else {
      top = sides_of<T, MIRRORED>(above);
      bottom = sides_of<T, MIRRORED>(below);
    }
    typename T::f qx, qy;
    load(places.x + k, qx);
    load(places.y + k, qy);
    typename T::f px = 1.0f - qx;
    Rgb<T> v;
    for (i32 c = 0; c < 3; ++c) {
      typename T::f a = top.left.c[c] * px + top.right.c[c] * qx;
      typename T::f b = bottom.left.c[c] * px + bottom.right.c[c] * qx;
      v.c[c] = a + (b - a) * qy;
    }
    put_planes(out, k, v);
  }
}

}  // namespace FB_LEVEL
