// Crops and flips of an axis as one step, as far as no border acts: how the host walks a row without
// asking each pixel.
#pragma once
#include "sample.cuh"

namespace FB_LEVEL {

// i -> sign * i + offset for begin <= i < end. Elsewhere some border acts; where `filled`, it is a
// constant one for every such i.
struct Span {
  i32 sign, offset, begin, end;
  bool filled;
};

// What `through` does to the indices 0 .. n-1.
FB_FN Span span_of(const Map* maps, i32 count, i32 n) {
  Span s = {1, 0, 0, n, true};
  for (i32 k = count - 1; k >= 0; --k) {
    const Map& map = maps[k];
    s.sign *= map.sign;
    s.offset = s.offset * map.sign + map.offset;
    if (map.n == 0) continue;
    // 0 <= sign * i + offset < map.n
    i32 first = s.sign > 0 ? -s.offset : s.offset - map.n + 1;
    s.begin = max2(s.begin, first);
    s.end = min2(s.end, first + map.n);
    s.filled = s.filled && map.border == BORDER_CONSTANT;
  }
  return s;
}

FB_FN bool covers(const Span& s, i32 n) { return s.begin == 0 && s.end == n; }

}  // namespace FB_LEVEL
