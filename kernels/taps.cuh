// Separable taps: the pixels that a resample reads for an output place, and their weights.
//
//   out(x, y) = sum_j wy_j . (sum_k wx_k . in(first_x + k, first_y + j))
//
// in tap order, each operation rounded to f32, nothing rounded to u8 between. Along an axis, with the
// centre of output place i at c = start + (i + 1/2) step - 1/2 in pixels of the source:
//
//   nearest    the pixel in which c lies
//   linear     the pixels nearer than radius = 1
//   triangle   the pixels nearer than radius = max(step, 1)
//
// weigh 1 - |pixel - c| / radius, divided by the sum of those weights. Pixels beyond the view's edge
// are its edge pixels.
//
// Places are integers with FRACTION fractional bits, so that which pixel is nearest never depends on
// how a float was rounded; steps are rounded up, which leaves each place below 65,500 on its side of
// a pixel's edge.
#pragma once
#include "sample.cuh"

namespace FB_LEVEL {

enum { FRACTION = 38 };

// The first pixel right of the filter's left end, and how far from there, in pixels.
struct Reach {
  i32 first;
  f32 distance;
};

FB_FN Reach reach(const Taps& taps, i32 i) {
  i64 place = taps.from + i * taps.step;
  // As many bits as a float holds.
  i32 rest = (i32)((u64)place >> (FRACTION - 24) & 0xFFFFFF);
  return {(i32)(place >> FRACTION) + 1, (f32)(0x1000000 - rest) * 5.9604644775390625e-8f};
}

FB_FN f32 weight(const Taps& taps, const Reach& at, i32 k) {
  f32 d = ((f32)k - taps.peak) + at.distance;
  d = d < 0.0f ? -d : d;
  return max2(1.0f - d * taps.slope, 0.0f);
}

// What makes the sum of the weights 1.
FB_FN f32 share(const Taps& taps, const Reach& at) {
  f32 sum = 0.0f;
  FB_ROLL
  for (i32 k = 0; k < taps.count; ++k) sum = sum + weight(taps, at, k);
  return 1.0f / sum;
}

// Column `i` of the view as a column of the source; likewise a row.
FB_FN i32 column(const Resolved& r, i32 i) {
  i32 never = 0;
  return through<One>(r.pre_x, r.pre, inside<One>(i, r.view_width, BORDER_CLAMP), never);
}
FB_FN i32 row(const Resolved& r, i32 i) {
  i32 never = 0;
  return through<One>(r.pre_y, r.pre, inside<One>(i, r.view_height, BORDER_CLAMP), never);
}

// Adds nothing to a sum, not even to -0.
FB_FN f32 empty_sum() { return -0.0f; }

// The pixel that output place (x, y) shows, by itself: how a GPU's thread finds it.
FB_FN Rgb<One> resampled(const Resolved& r, const Image& image, u32 type, i32 x, i32 y) {
  i32 never = 0;
  x = through<One>(r.post_x, r.post, x, never);
  y = through<One>(r.post_y, r.post, y, never);
  Reach at_x = reach(r.taps_x, x), at_y = reach(r.taps_y, y);
  f32 share_x = share(r.taps_x, at_x), share_y = share(r.taps_y, at_y);
  Rgb<One> v;
  for (i32 c = 0; c < 3; ++c) v.c[c] = empty_sum();
  FB_ROLL
  for (i32 j = 0; j < r.taps_y.count; ++j) {
    i32 start = row(r, at_y.first + j) * r.source_width;
    Rgb<One> line;
    for (i32 c = 0; c < 3; ++c) line.c[c] = empty_sum();
    FB_ROLL
    for (i32 k = 0; k < r.taps_x.count; ++k) {
      Rgb<One> pixel = load_pixel<One>(image, type, start + column(r, at_x.first + k));
      f32 w = weight(r.taps_x, at_x, k) * share_x;
      for (i32 c = 0; c < 3; ++c) line.c[c] = line.c[c] + pixel.c[c] * w;
    }
    f32 w = weight(r.taps_y, at_y, j) * share_y;
    for (i32 c = 0; c < 3; ++c) v.c[c] = v.c[c] + line.c[c] * w;
  }
  return v;
}

}  // namespace FB_LEVEL
