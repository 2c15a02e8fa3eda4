// crop: a window of fixed size, centred or at a drawn place, after padding each side.
//
//   out(x, y) = padded(x + left, y + top);  left = round_half_away((W - width) / 2) or drawn
//   uniformly from 0 ..= W - width, W being the padded width.
#pragma once
#include "sample.cuh"

namespace FB_LEVEL {

// Before the pass's gather, if it has one.
FB_FN void push_before(Resolved& out, Map x, Map y) {
  out.pre_x[out.pre] = x;
  out.pre_y[out.pre++] = y;
  out.view_width = out.out_width;
  out.view_height = out.out_height;
}

FB_FN void push_map(Resolved& out, Map x, Map y) {
  if (out.gather == GATHER_NONE) {
    push_before(out, x, y);
  } else {
    out.post_x[out.post] = x;
    out.post_y[out.post++] = y;
  }
}

FB_FN u32 resolve_crop(const Step& step, const f32* r, const DrawKey& key, Resolved& out) {
  i32 w = out.out_width, h = out.out_height;
  i32 spare_x = w + 2 * step.padding - step.width, spare_y = h + 2 * step.padding - step.height;
  if (spare_x < 0 || spare_y < 0) return FAULT_CROP;
  i32 left, top;
  if (step.flags & FLAG_RANDOM) {
    u32 words[4];
    draw_words(key, step.draw, 0, words);
    left = below(words[0], spare_x + 1);
    top = below(words[1], spare_y + 1);
  } else {
    left = (spare_x + 1) / 2;
    top = (spare_y + 1) / 2;
  }
  bool padded = step.padding > 0;
  Map x = {1, left - step.padding, padded ? w : 0, step.border};
  Map y = {1, top - step.padding, padded ? h : 0, step.border};
  if (padded && step.border == BORDER_CONSTANT) out.fill = r[step.regs[6]];
  out.out_width = step.width;
  out.out_height = step.height;
  push_map(out, x, y);
  return FAULT_NONE;
}

}  // namespace FB_LEVEL
