// Blocks of coefficients to samples: the accurate integer IDCT of libjpeg, to the bit, and its reduced ones to
// 4, 2 or 1 samples a side.
//
// Lanes are blocks: coefficient k of a group's sixteen blocks lies in sixteen consecutive shorts, so that
// a block is transformed by plain vector code, without an exchange between lanes. Columns come first,
// then rows, each as Loeffler, Ligtenberg and Moschytz's eleven multiplications for eight values, with
// constants of 13 bits; between the two a value keeps 2 bits of fraction and the transform's gain of 8.
#pragma once
#include "shorts.cuh"

namespace FB_LEVEL {

constexpr i32 GROUP = 16;

// A block is sure where the magnitudes of its dequantised coefficients add up to at most SURE: then no
// sum in libjpeg's 16-bit SIMD code wraps or saturates (a value grows at most by 4 * 1.387 before the
// rows, which 16 bits hold up to 5,900), and no sample lies outside the 1,024 values of the table by
// which its C code limits the range. Up to WIDE the first still holds, and the second is looked at.
//
// The reduced ones are the same in C and SIMD for as much: of the coefficients that they read, a value grows
// by at most 4 * 1.281 (to 4 a side) or 4 (to 2) before the rows, and a sample is at most 0.205 or 0.125
// times the sum: 411 or 250 of the 512 that the table has on either side. Sums of products in the rows are at
// most 107,621 or 131,072 times it, which 32 bits hold up to 16,383. To 1 a side is C code alone.
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

// Eight values to four and to two: a reduced transform is the whole one's even and odd parts in fewer steps,
// with a gain of 2 or 4 more, and does not read all frequencies.
template <class V> FB_FN void transform4(const V x[8], V y[4], i32 round) {
  V even = x[2] * 15137 - x[6] * 6270, e = x[0] * 16384 + round;
  V s0 = e + even, s1 = e - even;
  V o0 = x[1] * 20995 + x[3] * 7373 - x[5] * 4926 - x[7] * 4176;
  V o1 = x[1] * 8697 - x[3] * 17799 + x[5] * 11893 - x[7] * 1730;
  y[0] = s0 + o0, y[3] = s0 - o0;
  y[1] = s1 + o1, y[2] = s1 - o1;
}
template <class V> FB_FN void transform2(const V x[8], V y[2], i32 round) {
  V e = x[0] * 32768 + round;
  V o = x[1] * 29692 - x[3] * 10426 + x[5] * 6967 - x[7] * 5906;
  y[0] = e + o, y[1] = e - o;
}

// The transform to SIDE samples, and the frequencies that it reads.
template <i32 SIDE> struct Transform;
template <> struct Transform<8> {
  static constexpr i32 shift = 11;
  static FB_MEMBER constexpr bool reads(i32) { return true; }
  template <class V> static FB_MEMBER void run(const V x[8], V y[8], i32 round) { transform8(x, y, round); }
};
template <> struct Transform<4> {
  static constexpr i32 shift = 12;
  static FB_MEMBER constexpr bool reads(i32 k) { return k != 4; }
  template <class V> static FB_MEMBER void run(const V x[8], V y[4], i32 round) { transform4(x, y, round); }
};
template <> struct Transform<2> {
  static constexpr i32 shift = 13;
  static FB_MEMBER constexpr bool reads(i32 k) { return k == 0 || k % 2 == 1; }
  template <class V> static FB_MEMBER void run(const V x[8], V y[2], i32 round) { transform2(x, y, round); }
};
template <> struct Transform<1> {
  static FB_MEMBER constexpr bool reads(i32 k) { return k == 0; }
};

// A group's blocks from lane `c` on: where their coefficients are and their samples go.
struct Blocks {
  const i16* coefficients;  // 64 * GROUP, by column and row as samples are
  const i16* quantisation;  // of the same order
  u8* planes;
  const i32* places;        // of each lane's first sample, in bytes from `planes`
  i32 stride;               // from a row of samples to the next
  bool paired;              // lanes 2k and 2k + 1 lie beside each other
};

// Those of the first N columns and rows that are read; gives the sum of magnitudes.
template <class T, i32 SIDE, i32 N>
FB_FN typename T::i dequantise(const Blocks& b, typename T::i x[64]) {
  typename T::i sum = {}, zero = {};
  FB_UNROLL
  for (i32 r = 0; r < N; ++r) {
    if (!Transform<SIDE>::reads(r)) continue;
    FB_UNROLL
    for (i32 k = 0; k < N; ++k) {
      if (!Transform<SIDE>::reads(k)) continue;
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
template <class T, i32 SIDE, i32 N, bool CHECKED>
FB_FN typename T::i transform_blocks(const Blocks& b, typename T::i x[64]) {
  typedef typename T::i V;
  typedef Transform<SIDE> Way;
  // The second pass drops the gain of both, and 2 bits of fraction twice.
  constexpr i32 first = Way::shift, second = Way::shift + 7;
  V zero = {}, in[8], out[SIDE], least = zero, most = zero;
  // 128, which samples are stored off by, at the gain of both passes.
  x[0] += 128 * 8;
  FB_UNROLL
  for (i32 k = 0; k < N; ++k) {
    if (!Way::reads(k)) continue;
    FB_UNROLL
    for (i32 r = 0; r < 8; ++r) in[r] = r < N && Way::reads(r) ? x[8 * r + k] : zero;
    Way::run(in, out, 1 << (first - 1));
    FB_UNROLL
    for (i32 r = 0; r < SIDE; ++r) x[8 * r + k] = out[r] >> first;
  }
  FB_UNROLL
  for (i32 r = 0; r < SIDE; ++r) {
    FB_UNROLL
    for (i32 k = 0; k < 8; ++k) in[k] = k < N && Way::reads(k) ? x[8 * r + k] : zero;
    Way::run(in, out, 1 << (second - 1));
    FB_UNROLL
    for (i32 k = 0; k < SIDE; ++k) {
      out[k] = out[k] >> second;
      if (CHECKED) {
        least = min2(least, out[k]);
        most = max2(most, out[k]);
      }
    }
    store_samples<SIDE>(b.planes, b.places, r * b.stride, b.paired, out);
  }
  return (least < 128 - 512) | (most > 128 + 511);
}

// Blocks of one value: (dc + 4) / 8 of each sample, rounded down.
template <class T, i32 SIDE> FB_FN void fill_blocks(const Blocks& b, const typename T::i x[64]) {
  typename T::i out[SIDE];
  for (i32 k = 0; k < SIDE; ++k) out[k] = ((x[0] + 4) >> 3) + 128;
  for (i32 r = 0; r < SIDE; ++r)
    store_samples<SIDE>(b.planes, b.places, r * b.stride, b.paired, out);
}

// Blocks to SIDE samples a side. `last` is the last coefficient of any of them, in zigzag order, or one behind
// it. False: a block is beyond what is sure, and what was stored does not count. Which is so depends on the
// block alone, not on `last` or on what lies beside it.
template <class T, i32 SIDE> FB_FN bool reconstruct(const Blocks& b, u32 last) {
  typedef typename T::i V;
  V x[64];
  if (SIDE == 1 || last == 0) {
    if (!any(dequantise<T, SIDE, 1>(b, x) > SURE)) {
      fill_blocks<T, SIDE>(b, x);
      return true;
    }
  }
  if constexpr (SIDE > 1) {
    // Diagonals 0 to 3 end with coefficient 9, diagonals 0 to 5 with coefficient 20. For the latter a thread of a
    // GPU has no registers left, and its neighbours would wait.
    if (last <= 9 && !any(dequantise<T, SIDE, 4>(b, x) > SURE)) {
      transform_blocks<T, SIDE, 4, false>(b, x);
      return true;
    }
    if constexpr (T::lanes > 1) {
      if (last <= 20 && !any(dequantise<T, SIDE, 6>(b, x) > SURE)) {
        transform_blocks<T, SIDE, 6, false>(b, x);
        return true;
      }
    }
    V sum = dequantise<T, SIDE, 8>(b, x);
    if (!any(sum > SURE)) {
      transform_blocks<T, SIDE, 8, false>(b, x);
      return true;
    }
    return !any(sum > WIDE) && !any(transform_blocks<T, SIDE, 8, true>(b, x));
  }
  return false;
}

// The same, where the side is not known before.
template <class T> FB_FN bool reconstruct(const Blocks& b, u32 side, u32 last) {
  switch (side) {
    case 8: return reconstruct<T, 8>(b, last);
    case 4: return reconstruct<T, 4>(b, last);
    case 2: return reconstruct<T, 2>(b, last);
    default: return reconstruct<T, 1>(b, last);
  }
}

}  // namespace FB_LEVEL
