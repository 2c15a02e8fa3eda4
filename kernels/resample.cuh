// resize and random_resized_crop: the image, or a drawn window of it, brought to another size.
// taps.cuh has the values; this is how size, scale and window are found.
#pragma once
#include "crop.cuh"
#include "taps.cuh"

namespace FB_LEVEL {

// `n / m` with FRACTION bits, rounded up; `n` is at most MAX_SIDE.
FB_FN i64 ratio(i64 n, i64 m) { return (n * ((i64)1 << FRACTION) + m - 1) / m; }

// `n` sides at a scale of `to / from`, to the nearest whole number, at least 1.
FB_FN i64 scaled(i64 n, i64 to, i64 from) {
  i64 sides = (2 * n * to + from) / (2 * from);
  return sides > 1 ? sides : 1;
}

// Where output places lie on an axis of the source: the first begins at `start`, the others `step` apart.
struct Placed {
  i64 step, start;
};

// A side of `n` that had to be rounded to `out` at a scale of `to / from` keeps that scale, and its
// centre: it shows a little more or less than all of itself. At most ten times itself (as in DALI), where
// less than a tenth of an output pixel became a whole one.
FB_FN void keep_scale(Placed& placed, i64 n, i64 out, i64 to, i64 from) {
  if (out * from == n * to) return;
  i64 step = ratio(from, to), own = placed.step;
  placed.step = step / 10 > own ? own * 10 : step;
  placed.start = (n * ((i64)1 << FRACTION) - out * placed.step) / 2;
}

FB_FN void set_taps(Taps& taps, u32 filter, const Placed& placed) {
  const i64 one = (i64)1 << FRACTION, step = placed.step, start = placed.start;
  taps.step = step;
  if (filter == FILTER_NEAREST) {
    // One pixel of weight 1; the first pixel right of its left edge less one.
    taps.from = start + (step + 1) / 2 - one;
    taps.peak = 0.0f;
    taps.slope = 0.0f;
    taps.count = 1;
  } else {
    i64 radius = filter == FILTER_TRIANGLE && step > one ? step : one;
    taps.from = start + step / 2 - one / 2 - radius;
    taps.peak = (f32)radius * 3.637978807091713e-12f;
    taps.slope = 1.0f / taps.peak;
    taps.count = (i32)((2 * radius + one - 1) >> FRACTION);
  }
}

struct Window {
  i32 left, top, width, height;
};

// A whole number of pixels, half away from zero; beyond any image stays so.
FB_FN i32 pixels(f32 v) { return (i32)(min2(v, 1e9f) + 0.5f); }

// A window whose share of the area is uniform in [lo, hi] and the logarithm of whose aspect (width to
// height) is uniform, too, at a uniform place: the first of ten attempts that fits. Where none does,
// the largest centred window whose aspect is in its range. This is torchvision's rule; DALI's differs
// in that an attempt's rounded size must keep the range, and in the last resort.
FB_FN Window draw_window(const Step& step, const f32* r, const DrawKey& key, i32 w, i32 h) {
  f32 area = (f32)w * (f32)h, least = r[step.regs[0]], spread = r[step.regs[1]] - least;
  f32 narrow = r[step.regs[2]], wide = r[step.regs[3]];
  f32 log_narrow = log_positive(narrow), log_spread = log_positive(wide) - log_narrow;
  FB_ROLL
  for (u32 attempt = 0; attempt < 10; ++attempt) {
    u32 words[4];
    draw_words(key, step.draw, attempt, words);
    f32 target = area * (unit(words[0]) * spread + least);
    f32 aspect = exponential(unit(words[1]) * log_spread + log_narrow);
    i32 width = pixels(sqrt_ieee(target * aspect)), height = pixels(sqrt_ieee(target / aspect));
    if (width > 0 && height > 0 && width <= w && height <= h)
      return {below(words[2], w - width + 1), below(words[3], h - height + 1), width, height};
  }
  f32 aspect = (f32)w / (f32)h;
  i32 width = aspect > wide ? pixels((f32)h * wide) : w;
  i32 height = aspect < narrow ? pixels((f32)w / narrow) : h;
  width = width < 1 ? 1 : width > w ? w : width;
  height = height < 1 ? 1 : height > h ? h : height;
  return {(w - width) / 2, (h - height) / 2, width, height};
}

FB_FN u32 resolve_resample(const Step& step, const f32* r, const DrawKey& key, Resolved& out) {
  if (out.out_width > MAX_SIDE || out.out_height > MAX_SIDE) return FAULT_SIZE;
  if (step.flags & FLAG_RANDOM) {
    Window window = draw_window(step, r, key, out.out_width, out.out_height);
    Map x = {1, window.left, 0, BORDER_CLAMP}, y = {1, window.top, 0, BORDER_CLAMP};
    out.out_width = window.width;
    out.out_height = window.height;
    push_before(out, x, y);
  }
  i64 w = out.out_width, h = out.out_height, out_w = step.width, out_h = step.height;
  // Of the two sides one has the size asked for; the other follows at the scale of `to / from`.
  bool shrinks_more = w * step.height > h * step.width;
  bool by_width = shrinks_more == (step.border == FIT_NOT_LARGER);
  i64 from = by_width ? w : h, to = by_width ? out_w : out_h;
  if (step.border != FIT_STRETCH) {
    out_w = scaled(w, to, from);
    out_h = scaled(h, to, from);
  }
  if (out_w > MAX_SIDE || out_h > MAX_SIDE || out_w * out_h > MAX_PIXELS) return FAULT_SIZE;
  Placed x = {ratio(w, out_w), 0}, y = {ratio(h, out_h), 0};
  if (step.flags & FLAG_SUBPIXEL) {
    keep_scale(x, w, out_w, to, from);
    keep_scale(y, h, out_h, to, from);
  }
  set_taps(out.taps_x, step.op, x);
  set_taps(out.taps_y, step.op, y);
  out.gather = GATHER_RESAMPLE;
  out.border = BORDER_CLAMP;
  out.view_width = out.out_width;
  out.view_height = out.out_height;
  out.out_width = (i32)out_w;
  out.out_height = (i32)out_h;
  if (step.flags & FLAG_ROUND) {
    Point& point = out.point[out.points++];
    point.op = OP_ROUND;
    point.flags = 0;
  }
  return FAULT_NONE;
}

}  // namespace FB_LEVEL
