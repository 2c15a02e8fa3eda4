// What the host's vector registers do beyond arithmetic: bytes to floats, two taps in one load,
// pixels to planes and back, division by a known number. Beside portable.cuh the only file that
// names intrinsics.
#pragma once
#include "portable.cuh"

namespace FB_LEVEL {

// Eight bytes a lane: the first four and the last four.
template <class T> struct Pairs {
  typename T::i low, high;
};

#ifndef __CUDACC__

FB_FN void load(const f32* from, Wide::f& v) { memcpy(&v, from, sizeof v); }
FB_FN void load(const i32* from, Wide::i& v) { memcpy(&v, from, sizeof v); }
FB_FN u64 load8(const u8* p) {
  u64 v;
  memcpy(&v, p, 8);
  return v;
}

// `Raw` is a register of bytes, `shuffle` moves bytes within each 16 of them: byte `by[k]` goes to
// k, zero where by[k] is 0x80.
#if defined(__AVX512BW__)
#define FB_SHUFFLES
typedef __m512i Raw;
FB_FN Raw repeat(i32 a, i32 b, i32 c, i32 d) { return _mm512_set4_epi32(d, c, b, a); }
FB_FN Raw shuffle(Raw v, Raw by) { return _mm512_maskz_shuffle_epi8(~(__mmask64)0, v, by); }
#elif defined(__AVX2__)
#define FB_SHUFFLES
typedef __m256i Raw;
FB_FN Raw repeat(i32 a, i32 b, i32 c, i32 d) {
  return _mm256_setr_epi32(a, b, c, d, a, b, c, d);
}
FB_FN Raw shuffle(Raw v, Raw by) { return _mm256_shuffle_epi8(v, by); }
#elif defined(__SSSE3__)
#define FB_SHUFFLES
typedef __m128i Raw;
FB_FN Raw repeat(i32 a, i32 b, i32 c, i32 d) { return _mm_setr_epi32(a, b, c, d); }
FB_FN Raw shuffle(Raw v, Raw by) { return _mm_shuffle_epi8(v, by); }
#endif

#ifdef FB_SHUFFLES
// One of 16 bytes for each of four lanes.
FB_FN Wide::f bytes(Raw v, i32 a, i32 b, i32 c, i32 d) {
  const i32 rest = (i32)0x80808000u;
  return to_f((Wide::i)shuffle(v, repeat(rest | a, rest | b, rest | c, rest | d)));
}
FB_FN __m128i load16(const u8* p) { return _mm_loadu_si128((const __m128i*)p); }
#endif

// Byte `k` of each lane.
FB_FN Wide::f byte_of(Wide::i word, i32 k) {
#ifdef FB_SHUFFLES
  if (k > 0) return bytes((Raw)word, k, k + 4, k + 8, k + 12);
#endif
  return to_f(word >> 8 * k & 255);
}

// Channels of consecutive pixels, the last one first where `mirrored`. Reads at most 64 bytes.
FB_FN void load_pixels(const u8* from, bool mirrored, Wide::f c[3]) {
#if defined(FB_SHUFFLES)
#if defined(__AVX512BW__)
  const __m512i forth = _mm512_setr_epi32(0, 1, 2, 3, 3, 4, 5, 6, 6, 7, 8, 9, 9, 10, 11, 12);
  const __m512i back = _mm512_setr_epi32(9, 10, 11, 12, 6, 7, 8, 9, 3, 4, 5, 6, 0, 1, 2, 3);
  Raw fours = _mm512_maskz_permutexvar_epi32(0xFFFF, mirrored ? back : forth,
                                             _mm512_loadu_si512(from));
#elif defined(__AVX2__)
  __m128i first = load16(from + (mirrored ? 12 : 0)), second = load16(from + (mirrored ? 0 : 12));
  Raw fours = _mm256_inserti128_si256(_mm256_castsi128_si256(first), second, 1);
#else
  Raw fours = load16(from);
#endif
  for (i32 k = 0; k < 3; ++k)
    c[k] = mirrored ? bytes(fours, 9 + k, 6 + k, 3 + k, k) : bytes(fours, k, 3 + k, 6 + k, 9 + k);
#else
  Wide::i word;
  for (i32 k = 0; k < FB_LANES; ++k) {
    i32 one;
    memcpy(&one, from + 3 * (mirrored ? FB_LANES - 1 - k : k), 4);
    word[k] = one;
  }
  for (i32 k = 0; k < 3; ++k) c[k] = byte_of(word, k);
#endif
}

#if defined(__x86_64__)
FB_FN __m128i two_pairs(const u8* base, const i32* at) {
  return _mm_set_epi64x((i64)load8(base + at[1]), (i64)load8(base + at[0]));
}
#endif
#if defined(__AVX2__)
FB_FN __m256i four_pairs(const u8* base, const i32* at) {
  __m128i second = two_pairs(base, at + 4);
  return _mm256_inserti128_si256(_mm256_castsi128_si256(two_pairs(base, at)), second, 1);
}
#endif
#if defined(__AVX512F__)
FB_FN __m512 eight_pairs(const u8* base, const i32* at) {
  __m256i first = four_pairs(base, at), second = four_pairs(base, at + 8);
  return _mm512_castsi512_ps(
      _mm512_maskz_inserti64x4(0xFF, _mm512_castsi256_si512(first), second, 1));
}
#endif

// Eight bytes at `base + at[k]` for each lane. Loads one by one are no slower than a gather and
// fetch two pixels at once. Lanes are loaded in the order that a shuffle of halves puts right.
FB_FN void load_pairs(const u8* base, const i32* at, Pairs<Wide>& p) {
#if defined(__AVX512F__)
  __m512 a = eight_pairs(base, at), b = eight_pairs(base, at + 2);
  p.low = (Wide::i)_mm512_maskz_shuffle_ps(0xFFFF, a, b, 0x88);
  p.high = (Wide::i)_mm512_maskz_shuffle_ps(0xFFFF, a, b, 0xDD);
#elif defined(__AVX2__)
  __m256 a = _mm256_castsi256_ps(four_pairs(base, at));
  __m256 b = _mm256_castsi256_ps(four_pairs(base, at + 2));
  p.low = (Wide::i)_mm256_shuffle_ps(a, b, 0x88);
  p.high = (Wide::i)_mm256_shuffle_ps(a, b, 0xDD);
#elif defined(__x86_64__)
  __m128 a = _mm_castsi128_ps(two_pairs(base, at)), b = _mm_castsi128_ps(two_pairs(base, at + 2));
  p.low = (Wide::i)_mm_shuffle_ps(a, b, 0x88);
  p.high = (Wide::i)_mm_shuffle_ps(a, b, 0xDD);
#else
  for (i32 k = 0; k < FB_LANES; ++k) {
    u64 pair = load8(base + at[k]);
    p.low[k] = (i32)pair;
    p.high[k] = (i32)(pair >> 32);
  }
#endif
}

FB_FN bool any_negative(Wide::i v) {
#if defined(__AVX512DQ__)
  return _mm512_movepi32_mask((__m512i)v) != 0;
#elif defined(__AVX2__)
  return _mm256_movemask_ps((__m256)v) != 0;
#elif defined(__x86_64__)
  return _mm_movemask_ps((__m128)v) != 0;
#else
  return any(v < 0);
#endif
}

// Lanes by number; those of `b` follow those of `a`.
FB_FN Wide::f pick(Wide::f a, Wide::f b, Wide::i number) {
#if defined(__clang__)
  Wide::f v;
  FB_FLAT
  for (i32 k = 0; k < FB_LANES; ++k)
    v[k] = number[k] < FB_LANES ? a[number[k]] : b[number[k] - FB_LANES];
  return v;
#else
  return __builtin_shuffle(a, b, number);
#endif
}

// Of a pixel's three values in turn, value e lies in register e / lanes. Two picks make a register
// of one kind from three of the other: the first from two of them, the second puts in the third.
FB_FN void load_pixels(const f32* from, Wide::f c[3]) {
  Wide::f v[3];
  memcpy(v, from, sizeof v);
  FB_FLAT
  for (i32 channel = 0; channel < 3; ++channel) {
    Wide::i first = {}, second = {};
    FB_FLAT
    for (i32 k = 0; k < FB_LANES; ++k) {
      i32 e = 3 * k + channel;
      first[k] = e < 2 * FB_LANES ? e : 0;
      second[k] = e < 2 * FB_LANES ? k : e - FB_LANES;
    }
    c[channel] = pick(pick(v[0], v[1], first), v[2], second);
  }
}
FB_FN void store_pixels(f32* to, const Wide::f c[3]) {
  FB_FLAT
  for (i32 j = 0; j < 3; ++j) {
    Wide::i first = {}, second = {};
    FB_FLAT
    for (i32 k = 0; k < FB_LANES; ++k) {
      i32 pixel = (j * FB_LANES + k) / 3, channel = (j * FB_LANES + k) % 3;
      first[k] = channel == 1 ? FB_LANES + pixel : pixel;
      second[k] = channel == 2 ? FB_LANES + pixel : k;
    }
    Wide::f v = pick(pick(c[0], c[1], first), c[2], second);
    memcpy(to + j * FB_LANES, &v, sizeof v);
  }
}
// Of values in 0..255.
FB_FN void store_pixels(u8* to, const Wide::i c[3]) {
  Wide::i word = c[0] | c[1] << 8 | c[2] << 16;
#ifdef FB_SHUFFLES
  Raw packed = shuffle((Raw)word, repeat(0x04020100, 0x09080605, 0x0E0D0C0A, (i32)0x80808080u));
  u8 fours[4 * FB_LANES];
  memcpy(fours, &packed, sizeof fours);
  FB_FLAT
  for (i32 k = 0; k < FB_LANES / 4; ++k) memcpy(to + 12 * k, fours + 16 * k, 12);
#else
  for (i32 k = 0; k < FB_LANES; ++k)
    for (i32 j = 0; j < 3; ++j) to[3 * k + j] = (u8)(word[k] >> 8 * j);
#endif
}

// a / b, rounded once, from `inverse` = 1 / b rounded once. The product is at most 1.5 last places
// off; its remainder is exact or nearly so, and no quotient of two floats is near enough to the
// middle between two others for what is left to matter (P. Markstein, 1990; all dividends of some
// divisors are tried in tests/kernels). For that, b > 0, and a is +0 or neither it nor the quotient is
// near the ends of the range: kernels/known.cuh sees to it.
FB_FN Wide::f divide_by(Wide::f a, Wide::f b, Wide::f inverse) {
#if defined(__AVX512F__)
  __m512 x = (__m512)a, y = (__m512)inverse, q = _mm512_mul_ps(x, y);
  return (Wide::f)_mm512_fmadd_ps(_mm512_fnmadd_ps(q, (__m512)b, x), y, q);
#elif defined(__FMA__)
  __m256 x = (__m256)a, y = (__m256)inverse, q = _mm256_mul_ps(x, y);
  return (Wide::f)_mm256_fmadd_ps(_mm256_fnmadd_ps(q, (__m256)b, x), y, q);
#else
  (void)inverse;
  return a / b;
#endif
}

#endif

}  // namespace FB_LEVEL
