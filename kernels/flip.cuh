// flip: out(x, y) = in(W - 1 - x, y) horizontally, in(x, H - 1 - y) vertically.
#pragma once
#include "crop.cuh"

namespace FB_LEVEL {

FB_FN u32 resolve_flip(const Step& step, Resolved& out) {
  Map same = {1, 0, 0, BORDER_CLAMP};
  Map x = {-1, out.out_width - 1, 0, BORDER_CLAMP}, y = {-1, out.out_height - 1, 0, BORDER_CLAMP};
  push_map(out, step.flags & FLAG_HORIZONTAL ? x : same, step.flags & FLAG_VERTICAL ? y : same);
  return FAULT_NONE;
}

}  // namespace FB_LEVEL
