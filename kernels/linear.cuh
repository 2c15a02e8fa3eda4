// Linear taps of a u8 image on the host, a row of the output at a time: the values of `sample`.
//
// A pixel and its right neighbour are six bytes, which one load fetches. One test a register says
// whether all its taps are inside; only where some are not are indices clamped and taps replaced.
#pragma once
#include "planes.cuh"
#include "span.cuh"
#include "wide.cuh"

namespace FB_LEVEL {

struct Linear {
  const u8* pixels;       // place (0, 0) of the gather's view
  i32 row, column;        // bytes from a place to the one below and to the one on the right
  i32 last_x, last_y;     // of the view
  const Resolved* r;
  const Image* source;
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
  l.pixels = (const u8*)source.data + 3 * (y.offset * r.source_width + x.offset);
  l.last_x = r.view_width - 1;
  l.last_y = r.view_height - 1;
  l.r = &r;
  l.source = &source;

  // Where no place can be beyond MAX_SIDE, none is clamped to it.
  f32 reach_x = magnitude((f32)l.offset_x) + (f32)r.out_width + magnitude(0.5f - r.m[6]);
  f32 reach_y = magnitude((f32)l.offset_y) + (f32)r.out_height + magnitude(0.5f - r.m[7]);
  f32 reach = (magnitude(r.m[0]) + magnitude(r.m[3])) * reach_x +
              (magnitude(r.m[1]) + magnitude(r.m[4])) * reach_y + magnitude(r.m[2]) +
              magnitude(r.m[5]);
  return reach < 4.0e6f;
}

// The pixels that lie at ix and at ix + 1.
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

// The same where ix was clamped to `at`, so that the pair lies beside its place: before the view
// both are its first pixel, behind it the last.
template <class T, bool MIRRORED>
FB_FN Sides<T> sides_at_edge(const Pairs<T>& pair, typename T::i ix, typename T::i at) {
  typename T::i first = pair.low, second = (pair.low >> 24 & 255) | pair.high << 8;
  typename T::i left = MIRRORED ? second : first, right = MIRRORED ? first : second;
  typename T::i a = ix > at ? right : left, b = ix < at ? left : right;
  Sides<T> s;
  for (i32 k = 0; k < 3; ++k) {
    s.left.c[k] = byte_of(a, k);
    s.right.c[k] = byte_of(b, k);
  }
  return s;
}

// `fill` in the lanes where `outside` is negative.
template <class T> FB_FN void fill_lanes(Rgb<T>& v, typename T::i outside, typename T::f fill) {
  for (i32 k = 0; k < 3; ++k) v.c[k] = outside < 0 ? fill : v.c[k];
}

// Both rows of taps about (ix, iy), some of which are beyond a border that clamps or is constant.
template <class T, bool MIRRORED>
FB_FN void edge_taps(const Linear& l, typename T::i ix, typename T::i iy, Sides<T>& top,
                     Sides<T>& bottom) {
  typename T::i zero = {};
  typename T::i at = min2(max2(ix, zero), splat<T>(l.last_x - 1));
  typename T::i first = at * l.column + (MIRRORED ? l.column : 0);
  typename T::i y0 = min2(max2(iy, zero), splat<T>(l.last_y));
  typename T::i y1 = min2(max2(iy + 1, zero), splat<T>(l.last_y));
  Lanes<T> above(y0 * l.row + first), below(y1 * l.row + first);
  top = sides_at_edge<T, MIRRORED>(load_pairs(l.pixels, above), ix, at);
  bottom = sides_at_edge<T, MIRRORED>(load_pairs(l.pixels, below), ix, at);
  if (l.r->border != BORDER_CONSTANT) return;
  // The sign of i | (last - i) says that i is not in 0 ..= last.
  typename T::i left = ix | (l.last_x - ix), right = (ix + 1) | (l.last_x - 1 - ix);
  y0 = iy | (l.last_y - iy);
  y1 = (iy + 1) | (l.last_y - 1 - iy);
  typename T::f fill = splat<T>(l.r->fill);
  fill_lanes<T>(top.left, left | y0, fill);
  fill_lanes<T>(top.right, right | y0, fill);
  fill_lanes<T>(bottom.left, left | y1, fill);
  fill_lanes<T>(bottom.right, right | y1, fill);
}

template <class T, bool MIRRORED>
FB_APART void linear_row(const Linear& l, const Piece& piece, Planes<T>& out) {
  const f32* m = l.r->m;
  f32 dy = to_f(l.sign_y * piece.y + l.offset_y) + (0.5f - m[7]);
  f32 half = 0.5f - m[6], down_x = dy * m[1], down_y = dy * m[4];
  for (i32 k = 0; k < piece.n; k += T::lanes) {
    // Lanes past the piece show its last pixel.
    typename T::i x = min2(Iota<T>::get() + (piece.x + k), splat<T>(piece.x + piece.n - 1));
    typename T::f dx = to_f(x * l.sign_x + l.offset_x) + half;
    typename T::f sx = dx * m[0] + down_x + m[2] - 0.5f;
    typename T::f sy = dx * m[3] + down_y + m[5] - 0.5f;
    typename T::f fx = floor_small(sx), fy = floor_small(sy);
    typename T::i ix = to_i(fx), iy = to_i(fy);

    Sides<T> top, bottom;
    if (any_negative(ix | (l.last_x - 1 - ix) | iy | (l.last_y - 1 - iy))) {
      if (l.r->border == BORDER_REFLECT) {
        Piece part = {piece.x + k, piece.y, min2(piece.n - k, T::lanes), piece.at + k};
        any_row(*l.r, *l.source, TYPE_U8, part, out);
        continue;
      }
      edge_taps<T, MIRRORED>(l, ix, iy, top, bottom);
    } else {
      Lanes<T> at(ix * l.column + iy * l.row + (MIRRORED ? l.column : 0));
      top = sides_of<T, MIRRORED>(load_pairs(l.pixels, at));
      bottom = sides_of<T, MIRRORED>(load_pairs(l.pixels + l.row, at));
    }

    typename T::f qx = sx - fx, qy = sy - fy, px = 1.0f - qx;
    Rgb<T> v;
    for (i32 c = 0; c < 3; ++c) {
      typename T::f a = top.left.c[c] * px + top.right.c[c] * qx;
      typename T::f b = bottom.left.c[c] * px + bottom.right.c[c] * qx;
      v.c[c] = a + (b - a) * qy;
    }
    put_planes(out, piece.at + k, v);
  }
}

}  // namespace FB_LEVEL
