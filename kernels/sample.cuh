// Where a pixel is read: borders, the integer maps of crops and flips, nearest and linear taps.
#pragma once
#include "program.cuh"

namespace FB_LEVEL {

// Largest number of pixels of an image between passes: byte offsets of f32 pixels stay in i32.
enum { MAX_PIXELS = 1 << 27 };
// Longest side that a gather reads or makes: places of its pixels are exact floats.
enum { MAX_SIDE = 1 << 22 };

FB_FN void begin_pass(Resolved& out, const Image& source) {
  out.source_width = out.view_width = out.out_width = source.width;
  out.source_height = out.view_height = out.out_height = source.height;
  out.gather = GATHER_NONE;
  out.border = BORDER_CLAMP;
  out.pre = out.post = 0;
  out.points = 0;
  out.fill = 0.0f;
}

// An index brought inside 0..n-1 by clamp or by reflection about the centres of the edge pixels
// (… 2 1 | 0 1 2 … n-1 | n-2 …).
template <class T> FB_FN typename T::i inside(typename T::i i, i32 n, u32 border) {
  if (border == BORDER_REFLECT) {
    i32 period = n > 1 ? 2 * (n - 1) : 1;
    i = i % period;
    i = i < 0 ? i + period : i;
    return min2(i, period - i);
  }
  return min2(max2(i, splat<T>(0)), splat<T>(n - 1));
}

// An output index through crops and flips, the last one first. Lanes that fall outside a constant
// border are set in `outside` and clamped.
template <class T>
FB_FN typename T::i through(const Map* maps, i32 count, typename T::i i, typename T::i& outside) {
  FB_ROLL
  for (i32 k = count - 1; k >= 0; --k) {
    const Map& map = maps[k];
    i = i * map.sign + map.offset;
    if (map.n > 0) {
      if (map.border == BORDER_CONSTANT)
        outside = outside | (i < 0 ? splat<T>(-1) : splat<T>(0)) |
                  (i >= map.n ? splat<T>(-1) : splat<T>(0));
      i = inside<T>(i, map.n, map.border);
    }
  }
  return i;
}

// Three channels of one vector of pixels.
template <class T> struct Rgb {
  typename T::f c[3];
};

template <class T> FB_FN Rgb<T> load_pixel(const Image& image, u32 type, typename T::i index) {
  Rgb<T> v;
  if (type == TYPE_U8) {
    typename T::i word = load_rgb((const u8*)image.data, index * 3);
    v.c[0] = to_f(word & 255);
    v.c[1] = to_f(word >> 8 & 255);
    v.c[2] = to_f(word >> 16);
  } else {
    const f32* base = (const f32*)image.data;
    for (i32 k = 0; k < 3; ++k) v.c[k] = load_f32(base, index * 3 + k);
  }
  return v;
}

// A tap's index along one axis of the source: the gather's border on the view's length `n`, then
// the `pre` maps. Axes are independent, so that four taps need two columns and two rows.
template <class T> struct Axis {
  typename T::i index, outside;
};
template <class T>
FB_FN Axis<T> along(const Resolved& r, typename T::i i, i32 n, const Map* maps) {
  Axis<T> a;
  a.outside = splat<T>(0);
  if (r.gather != GATHER_NONE) {
    if (r.border == BORDER_CONSTANT)
      a.outside = (i < 0 ? splat<T>(-1) : splat<T>(0)) | (i >= n ? splat<T>(-1) : splat<T>(0));
    i = inside<T>(i, n, r.border);
  }
  a.index = through<T>(maps, r.pre, i, a.outside);
  return a;
}

template <class T>
FB_FN Rgb<T> tap(const Resolved& r, const Image& image, u32 type, Axis<T> x, Axis<T> y) {
  Rgb<T> v = load_pixel<T>(image, type, y.index * r.source_width + x.index);
  typename T::i outside = x.outside | y.outside;
  // Vectors seldom have to choose, and ask first; one lane chooses in less time than it asks.
  if (T::lanes == 1 || any(outside != 0))
    for (i32 k = 0; k < 3; ++k) v.c[k] = outside != 0 ? splat<T>(r.fill) : v.c[k];
  return v;
}

// The pixel that output place (x, y) shows.
template <class T>
FB_FN Rgb<T> sample(const Resolved& r, const Image& image, u32 type, typename T::i x,
                    typename T::i y) {
  typename T::i never = {};
  x = through<T>(r.post_x, r.post, x, never);
  y = through<T>(r.post_y, r.post, y, never);
  if (r.gather == GATHER_NONE)
    return tap<T>(r, image, type, along<T>(r, x, 0, r.pre_x), along<T>(r, y, 0, r.pre_y));

  typename T::f dx = to_f(x) + (0.5f - r.m[6]), dy = to_f(y) + (0.5f - r.m[7]);
  typename T::f sx = dx * r.m[0] + dy * r.m[1] + r.m[2];
  typename T::f sy = dx * r.m[3] + dy * r.m[4] + r.m[5];
  if (r.gather == GATHER_LINEAR) {
    sx = sx - 0.5f;
    sy = sy - 0.5f;
  }
  // Far places, infinities and NaN become places that an i32 holds; the border does the rest.
  typename T::f far = splat<T>((f32)MAX_SIDE + 1.0f);
  sx = min2(max2(sx, -far), far);
  sy = min2(max2(sy, -far), far);
  typename T::f fx = floor_small(sx), fy = floor_small(sy);
  typename T::i ix = to_i(fx), iy = to_i(fy);
  Axis<T> x0 = along<T>(r, ix, r.view_width, r.pre_x), y0 = along<T>(r, iy, r.view_height, r.pre_y);
  if (r.gather == GATHER_NEAREST) return tap<T>(r, image, type, x0, y0);

  Axis<T> x1 = along<T>(r, ix + 1, r.view_width, r.pre_x);
  Axis<T> y1 = along<T>(r, iy + 1, r.view_height, r.pre_y);
  Rgb<T> a = tap<T>(r, image, type, x0, y0), b = tap<T>(r, image, type, x1, y0);
  Rgb<T> c = tap<T>(r, image, type, x0, y1), d = tap<T>(r, image, type, x1, y1);
  typename T::f qx = sx - fx, qy = sy - fy, px = 1.0f - qx;
  Rgb<T> v;
  for (i32 k = 0; k < 3; ++k) {
    typename T::f top = a.c[k] * px + b.c[k] * qx, bottom = c.c[k] * px + d.c[k] * qx;
    v.c[k] = top + (bottom - top) * qy;
  }
  return v;
}

}  // namespace FB_LEVEL
