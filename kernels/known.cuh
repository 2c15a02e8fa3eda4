// The host's chain: once a sample, what is known of the values at each operation; then the operations
// over strips, two of them in a form that is cheaper where enough is known and gives the same bits.
//
// A cast to u8 of what is within 0..255 but for rounding needs no clamp, one of integers is nothing.
// A division by a number is a product put right (`divide_by`). Values known to be finite need no look
// for NaN when they are stored.
#pragma once
#include "chain.cuh"

namespace FB_LEVEL {

// What holds for every value of a sample between two operations.
struct Known {
  f32 lo, hi;  // bounds; nothing is known unless lo <= hi
  f32 grain;   // a power of two of which every value is a multiple, none of them -0; or 0
};

FB_FN Known nothing_known() { return {1.0f, 0.0f, 0.0f}; }
// Within these a remainder of `divide_by` is far from the smallest floats.
constexpr f32 LEAST_GRAIN = 0x1p-90f, LARGEST = 0x1p60f;
constexpr f32 LEAST_DIVISOR = 0x1p-30f, LARGEST_DIVISOR = 0x1p30f;

// The last place of a float, of which it and all floats of its size and above are multiples.
FB_FN f32 last_place(f32 v) {
  u32 exponent = bits_of(v) >> 23 & 255;
  if (v == 0.0f) return LARGEST;
  return exponent > 23 && exponent < 255 ? from_bits((exponent - 23) << 23) : 0.0f;
}

// Of one channel behind an operation with a number. Rounded operations are monotone, so that bounds
// go to bounds; a rounded sum or product of multiples is a multiple.
FB_FN Known known_behind(const Known& k, u32 op, f32 v) {
  if (op == OP_ADD) return {k.lo + v, k.hi + v, min2(k.grain, last_place(v))};
  if (op == OP_SUB) return {k.lo - v, k.hi - v, min2(k.grain, last_place(v))};
  if (!(v > 0.0f)) return nothing_known();
  if (op == OP_MUL) return {k.lo * v, k.hi * v, k.grain * last_place(v)};
  f32 least = k.grain / v;  // of the quotients that are not 0
  if (op == OP_DIV) return {k.lo / v, k.hi / v, least > 0.0f ? last_place(least) : 0.0f};
  return nothing_known();
}

FB_FN Known known_behind(const Known& k, const Point& point) {
  if (point.op == OP_ROUND) return {0.0f, 255.0f, 1.0f};
  if (point.flags & FLAG_IMAGE || !(k.lo <= k.hi)) return nothing_known();
  Known all = {LARGEST, -LARGEST, LARGEST};
  for (i32 c = 0; c < 3; ++c) {
    Known one = known_behind(k, point.op, point.value[c]);
    if (!(one.lo <= one.hi && one.lo >= -LARGEST && one.hi <= LARGEST)) return nothing_known();
    all = {min2(all.lo, one.lo), max2(all.hi, one.hi), min2(all.grain, one.grain)};
  }
  if (all.grain < LEAST_GRAIN) all.grain = 0.0f;
  return all;
}

// Of the values that a pass begins with.
FB_FN Known known_at_start(const Resolved& r, u32 source_type) {
  if (source_type != TYPE_U8) return nothing_known();
  Known k = {0.0f, 255.0f, 1.0f};
  if (r.gather == GATHER_NONE && r.pre == 0) return k;
  // Beyond a border there may be the fill.
  f32 fill = r.fill;
  if (!(fill >= -1000.0f && fill <= 1000.0f)) return nothing_known();
  bool negative_zero = bits_of(fill) == 0x80000000u;
  k = {min2(k.lo, fill), max2(k.hi, fill), negative_zero ? 0.0f : min2(k.grain, last_place(fill))};
  if (k.grain < LEAST_GRAIN) k.grain = 0.0f;
  if (r.gather == GATHER_NONE || r.gather == GATHER_NEAREST) return k;
  if (r.gather != GATHER_LINEAR && r.gather != GATHER_RESAMPLE) return nothing_known();
  // Means lie between their taps but for some last places, also of MAX_TAPS along either axis.
  f32 spare = (k.hi - k.lo) * 0.0001f;
  return {k.lo - spare, k.hi + spare, 0.0f};
}

enum { LINK_CUT = 0x100, LINK_DIVIDE };

// An operation: one of `Op`, LINK_CUT for OP_ROUND of what needs no clamp, or LINK_DIVIDE for OP_DIV.
struct Link {
  u32 op;
  const Point* point;
  f32 inverse[3];
};

struct Chain {
  i32 count;
  bool numbers;  // no value is NaN at the end
  Link link[MAX_POINTS];
};

FB_FN bool divides(const Known& k, const Point& point) {
  if (point.flags & FLAG_IMAGE || !(k.lo <= k.hi) || k.grain == 0.0f) return false;
  for (i32 c = 0; c < 3; ++c)
    if (!(point.value[c] >= LEAST_DIVISOR && point.value[c] <= LARGEST_DIVISOR)) return false;
  return true;
}

FB_FN void build_chain(Chain& chain, const Resolved& r, u32 source_type) {
  Known k = known_at_start(r, source_type);
  chain.count = 0;
  for (u32 i = 0; i < r.points; ++i) {
    const Point& point = r.point[i];
    Link& link = chain.link[chain.count++];
    link.op = point.op;
    link.point = &point;
    if (point.op == OP_ROUND && k.lo <= k.hi) {
      if (k.lo >= -0.4f && k.hi <= 255.4f) link.op = LINK_CUT;
      if (k.lo >= 0.0f && k.hi <= 255.0f && k.grain >= 1.0f) --chain.count;
    }
    if (point.op == OP_DIV && divides(k, point)) {
      link.op = LINK_DIVIDE;
      for (i32 c = 0; c < 3; ++c) link.inverse[c] = 1.0f / point.value[c];
    }
    k = known_behind(k, point);
  }
  chain.numbers = k.lo <= k.hi;
}

// With registers of its own: a second strip does not fit beside the first.
template <class T, i32 K>
FB_APART void apply_image_apart(Strip<T, K>& s, const Point& point, const Image* images, i32 p,
                                i32 total) {
  apply_image(s, point, images, p, total);
}

template <class T, i32 K>
FB_FN void run_chain(Strip<T, K>& s, const Chain& chain, const Image* images, i32 p, i32 total) {
  for (i32 i = 0; i < chain.count; ++i) {
    const Link& link = chain.link[i];
    const Point& point = *link.point;
    if (link.op == LINK_DIVIDE) {
      FB_FLAT
      for (i32 c = 0; c < 3; ++c) {
        typename T::f b = splat<T>(point.value[c]), inverse = splat<T>(link.inverse[c]);
        FB_FLAT
        for (i32 k = 0; k < K; ++k) s.c[c][k] = divide_by(s.c[c][k], b, inverse);
      }
    } else if (link.op == LINK_CUT) {
      FB_FLAT
      for (i32 k = 0; k < K; ++k)
        for (i32 c = 0; c < 3; ++c) s.c[c][k] = whole(s.c[c][k] + 0.49999997f);
    } else if (point.flags & FLAG_IMAGE) {
      Strip<T, K> copy = s;
      apply_image_apart(copy, point, images, p, total);
      s = copy;
    } else {
      apply_numbers(s, link.op, point.value);
    }
  }
}

}  // namespace FB_LEVEL
