// The pointwise chain of a pass over a strip: each operation is chosen once and done to all pixels.
#pragma once
#include "strip.cuh"

namespace FB_LEVEL {

// The second operand of an operation: three values for all pixels.
template <class T> struct Same {
  typename T::f c[3];
  FB_MEMBER typename T::f at(i32 channel, i32) const { return c[channel]; }
};

template <class T, i32 K, class Operand>
FB_FN void apply_all(Strip<T, K>& s, u32 op, const Operand& b) {
  FB_FLAT
  for (i32 k = 0; k < K; ++k)
    for (i32 c = 0; c < 3; ++c) s.c[c][k] = apply<T>(op, s.c[c][k], b.at(c, k));
}

template <class T, i32 K, class Operand>
FB_FN void apply_strip(Strip<T, K>& s, u32 op, const Operand& b) {
#define FB_CASE(OP)      \
  case OP:               \
    apply_all(s, OP, b); \
    break;
  switch (op) {
    FB_CASE(OP_ADD) FB_CASE(OP_SUB) FB_CASE(OP_RSUB) FB_CASE(OP_MUL) FB_CASE(OP_DIV)
    FB_CASE(OP_RDIV) FB_CASE(OP_MIN) FB_CASE(OP_MAX) FB_CASE(OP_LT) FB_CASE(OP_LE)
    FB_CASE(OP_GT) FB_CASE(OP_GE) FB_CASE(OP_EQ) FB_CASE(OP_NE) FB_CASE(OP_AND) FB_CASE(OP_OR)
    FB_CASE(OP_NEG) FB_CASE(OP_NOT) FB_CASE(OP_ROUND)
  }
#undef FB_CASE
}

template <class T, i32 K>
FB_FN void apply_numbers(Strip<T, K>& s, u32 op, const f32 value[3]) {
  Same<T> b;
  for (i32 c = 0; c < 3; ++c) b.c[c] = splat<T>(value[c]);
  apply_strip(s, op, b);
}

template <class T, i32 K>
FB_FN void apply_image(Strip<T, K>& s, const Point& point, const Image* images, i32 p, i32 total) {
  Strip<T, K> b;
  u32 type = point.flags & FLAG_F32 ? TYPE_F32 : TYPE_U8;
  load_strip(b, images[point.image], type, p, total);
  apply_strip(s, point.op, b);
}

template <class T, i32 K>
FB_FN void run_points(Strip<T, K>& s, const Resolved& r, const Image* images, i32 p, i32 total) {
  for (u32 i = 0; i < r.points; ++i) {
    const Point& point = r.point[i];
    if (point.flags & FLAG_IMAGE) apply_image(s, point, images, p, total);
    else apply_numbers(s, point.op, point.value);
  }
}

}  // namespace FB_LEVEL
