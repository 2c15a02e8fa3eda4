// Pointwise operations: arithmetic, comparison, logic and the cast to u8, on f32. The operators
// rgb_shift, brightness_contrast, normalize, clamp, cast and expr are sequences of these.
#pragma once
#include "sample.cuh"

namespace FB_LEVEL {

template <class T> FB_FN typename T::f apply(u32 op, typename T::f a, typename T::f b) {
  typename T::f zero = {}, one = splat<T>(1.0f);
  switch (op) {
    case OP_ADD: return a + b;
    case OP_SUB: return a - b;
    case OP_RSUB: return b - a;
    case OP_MUL: return a * b;
    case OP_DIV: return a / b;
    case OP_RDIV: return b / a;
    case OP_MIN: return min2(a, b);
    case OP_MAX: return max2(a, b);
    case OP_LT: return a < b ? one : zero;
    case OP_LE: return a <= b ? one : zero;
    case OP_GT: return a > b ? one : zero;
    case OP_GE: return a >= b ? one : zero;
    case OP_EQ: return a == b ? one : zero;
    case OP_NE: return a != b ? one : zero;
    case OP_AND: return a != zero ? (b != zero ? one : zero) : zero;
    case OP_OR: return a != zero ? one : (b != zero ? one : zero);
    case OP_NEG: return -a;
    case OP_NOT: return a == zero ? one : zero;
    default: return round_u8<T>(a);
  }
}

FB_FN u32 resolve_point(const Step& step, const f32* r, const Image* images, Resolved& out) {
  Point& point = out.point[out.points++];
  point.op = step.op;
  point.flags = step.flags;
  if (step.flags & FLAG_IMAGE) {
    point.image = step.regs[0];
    const Image& other = images[point.image];
    if (other.width != out.out_width || other.height != out.out_height) return FAULT_OPERAND;
  } else {
    for (i32 k = 0; k < 3; ++k) point.value[k] = r[step.regs[k]];
  }
  return FAULT_NONE;
}

}  // namespace FB_LEVEL
