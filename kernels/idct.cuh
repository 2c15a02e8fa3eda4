// Blocks of coefficients to samples: the accurate integer IDCT of libjpeg, to the bit.
//
// Lanes are blocks: coefficient k of a group's sixteen blocks lies in sixteen consecutive shorts, so that
// a block is transformed by plain vector code, without an exchange between lanes. Columns come first,
// then rows, each as Loeffler, Ligtenberg and Moschytz's eleven multiplications for eight values, with
// constants of 13 bits; between the two a value keeps 2 bits of fraction and the transform's gain of 8.
#pragma once
#include "shorts.cuh"

namespace FB_LEVEL {

constexpr i32 GROUP = 16, FIRST_SHIFT = 11, SECOND_SHIFT = 18;

// A block is sure where the magnitudes of its dequantised coefficients add up to at most SURE: then no
// sum in libjpeg's 16-bit SIMD code wraps or saturates (a value grows at most by 4 * 1.387 before the
// rows, which 16 bits hold up to 5,900), and no sample lies outside the 1,024 values of the table by
// which its C code limits the range. Up to WIDE the first still holds, and the second is looked at.
constexpr i32 SURE = 2000, WIDE = 5800;

// Eight values of one row or column, scaled up by 13 bits; `round` is added to each.
template <class V> FB_FN void transform8(const V x[8], V y[8], i32 round) {
  V even = (x[2] + x[6]) * 4433;
  V e0 = (x[0] + x[4]) * 8192 + round, e1 = (x[0] - x[4]) * 8192 + round;
  V e2 = even - x[6] * 15137, e3 = even + x[2] * 6270;
  V s0 = e0 + e3, s1 = e1 + e2, s2 = e1 - e2, s3 = e0 - e3;

  V a = x[7] + x[3], b = x[5] + x[1];
  V turn = (a + b) * 9633;
  V z1 = (x[7] + x[1]) * 7373, z2 = (x[5] + x[3]) * 20995;
  V z3 = turn - a * 16069, z4 = turn - b * 3196;
  V o0 = x[7] * 2446 - z1 + z3, o1 = x[5] * 16819 - z2 + z4;
  V o2 = x[3] * 25172 - z2 + z3, o3 = x[1] * 12299 - z1 + z4;

  y[0] = s0 + o3, y[7] = s0 - o3;
  y[1] = s1 + o2, y[6] = s1 - o2;
  y[2] = s2 + o1, y[5] = s2 - o1;
  y[3] = s3 + o0, y[4] = s3 - o0;
}

// A group's blocks from lane `c` on: where their coefficients are and their samples go.
struct Blocks {
  const i16* coefficients;  // 64 * GROUP, by column and row as samples are
  const i16* quantisation;  // of the same order
  u8* planes;
  const i32* places;        // of each lane's first sample, in bytes from `planes`
  i32 stride;               // from a row of samples to the next
  bool paired;              // lanes 2k and 2k + 1 lie beside each other
};

// The first N columns and rows; gives the sum of magnitudes.
template <class T, i32 N>
FB_FN typename T::i dequantise(const Blocks& b, typename T::i x[64]) {
  typename T::i sum = {}, zero = {};
  FB_UNROLL
  for (i32 r = 0; r < N; ++r) {
    FB_UNROLL
    for (i32 k = 0; k < N; ++k) {
      i32 at = (8 * r + k) * GROUP;
      typename T::i v = Shorts<T>::widen(b.coefficients + at) * Shorts<T>::widen(b.quantisation + at);
      x[8 * r + k] = v;
      sum += max2(v, zero - v);
    }
  }
  return sum;
}

// Blocks that have coefficients in their first N columns and rows only. Gives lanes that hold a sample
// which libjpeg's C and SIMD code limit to different values; looks for them where CHECKED.
template <class T, i32 N, bool CHECKED>
FB_FN typename T::i transform_blocks(const Blocks& b, typename T::i x[64]) {
  typedef typename T::i V;
  V zero = {}, in[8], out[8], least = zero, most = zero;
  // 128, which samples are stored off by, at the gain of both passes.
  x[0] += 128 * 8;
  FB_UNROLL
  for (i32 k = 0; k < N; ++k) {
    FB_UNROLL
    for (i32 r = 0; r < 8; ++r) in[r] = r < N ? x[8 * r + k] : zero;
    transform8(in, out, 1 << (FIRST_SHIFT - 1));
    FB_UNROLL
    for (i32 r = 0; r < 8; ++r) x[8 * r + k] = out[r] >> FIRST_SHIFT;
  }
  FB_UNROLL
  for (i32 r = 0; r < 8; ++r) {
    FB_UNROLL
    for (i32 k = 0; k < 8; ++k) in[k] = k < N ? x[8 * r + k] : zero;
    transform8(in, out, 1 << (SECOND_SHIFT - 1));
    FB_UNROLL
    for (i32 k = 0; k < 8; ++k) {
      out[k] = out[k] >> SECOND_SHIFT;
      if (CHECKED) {
        least = min2(least, out[k]);
        most = max2(most, out[k]);
      }
    }
    store_samples(b.planes, b.places, r * b.stride, b.paired, out);
  }
  return (least < 128 - 512) | (most > 128 + 511);
}

// Blocks of one value: (dc + 4) / 8 of each sample, rounded down.
template <class T> FB_FN void fill_blocks(const Blocks& b, const typename T::i x[64]) {
  typename T::i out[8];
  for (i32 k = 0; k < 8; ++k) out[k] = ((x[0] + 4) >> 3) + 128;
  for (i32 r = 0; r < 8; ++r) store_samples(b.planes, b.places, r * b.stride, b.paired, out);
}

// `last` is the last coefficient of any of the blocks, in zigzag order, or one behind it. False: a block is
// beyond what is sure, and what was stored does not count. Which is so depends on the block alone, not on `last`
// or on what lies beside it.
template <class T> FB_FN bool reconstruct(const Blocks& b, u32 last) {
  typedef typename T::i V;
  V x[64];
  // Diagonals 0 to 3 end with coefficient 9.
  if (last <= 9) {
    bool one = last == 0;
    V sum = one ? dequantise<T, 1>(b, x) : dequantise<T, 4>(b, x);
    if (!any(sum > SURE)) {
      if (one) fill_blocks<T>(b, x);
      else transform_blocks<T, 4, false>(b, x);
      return true;
    }
  }
  V sum = dequantise<T, 8>(b, x);
  if (!any(sum > SURE)) {
    transform_blocks<T, 8, false>(b, x);
    return true;
  }
  return !any(sum > WIDE) && !any(transform_blocks<T, 8, true>(b, x));
}

}  // namespace FB_LEVEL
