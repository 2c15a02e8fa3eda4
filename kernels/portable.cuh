// With wide.cuh the only file that asks which compiler reads it.
//
// Every kernel file is compiled by NVRTC for GPUs and by the C++ compiler for the host, there once
// for each instruction set level. All names live in a namespace of that level, and no `std::`
// template is used: otherwise the linker could merge an inline function's copies and hand the
// oldest CPU code of the newest level.
#pragma once

typedef unsigned char u8;
typedef unsigned short u16;
typedef short i16;
typedef unsigned int u32;
typedef unsigned long long u64;
typedef long long i64;
typedef int i32;
typedef float f32;
typedef double f64;

#if defined(__CUDACC__) || defined(__CUDACC_RTC__)

#define FB_LEVEL gpu
#define FB_FN __device__ __forceinline__
#define FB_MEMBER __device__ __forceinline__
#define FB_APART static __device__
#define FB_UNROLL _Pragma("unroll")
#define FB_FLAT _Pragma("unroll")
#define FB_ROLL _Pragma("unroll 1")
// Where `field` lies in `Type`, in bytes: offsetof, of which NVRTC has only the part that is built in.
#define FB_OFFSET(Type, field) ((u64)__INTADDR__(&((Type*)0)->field))
// The entry of a kernel: the body runs once for each thread of a one-dimensional grid, of blocks of at
// most 256, so many of which are to fit beside each other.
#define FB_ENTRY(name, Args, beside)                                                            \
  extern "C" __global__ void __launch_bounds__(256, beside) forebay_##name(Args args) {         \
    gpu::name##_thread(args, blockIdx.x, threadIdx.x, blockDim.x);                              \
  }

#else

#include <string.h>
#if defined(__x86_64__)
#include <immintrin.h>
#endif
// The level's gather instructions; a sanitizer does not see into them.
#if defined(__AVX2__) && !defined(__SANITIZE_ADDRESS__)
#define FB_GATHERS
#endif

// Given on the command line: FB_LEVEL, the namespace; FB_LANES, floats in a vector register, of which a
// kernel that says FB_FEW_LANES before it includes this has at most eight.
#if defined(FB_FEW_LANES) && FB_LANES == 16
#undef FB_LANES
#define FB_LANES 8
#endif
// Shorts in a register of at most 32 bytes: a row of a small image fills no longer one.
#define FB_PAIRS (FB_LANES > 8 ? 16 : 2 * FB_LANES)
#define FB_FN static inline __attribute__((always_inline))
#define FB_MEMBER inline __attribute__((always_inline))
// A function with registers of its own.
#define FB_APART static __attribute__((noinline))
#define FB_UNROLL
#define FB_ROLL
// For both: a strip lies in registers only where no loop over it is left.
#if defined(__clang__)
#define FB_FLAT _Pragma("clang loop unroll(full)")
#else
#define FB_FLAT _Pragma("GCC unroll 16")
#endif
#define FB_OFFSET(Type, field) __builtin_offsetof(Type, field)
#define FB_JOIN2(a, b, c, d) a##b##c##d
#define FB_JOIN(a, b, c, d) FB_JOIN2(a, b, c, d)
// On the host the entry exists twice: `forebay_<level>_<name>` takes a range of samples, and
// `forebay_<level>_<name>_grid` walks the threads that a GPU launch would start.
#define FB_ENTRY(name, Args, beside)                                                            \
  extern "C" void FB_JOIN(forebay_, FB_LEVEL, _, name)(const Args* args, u32 begin, u32 end) {  \
    FB_LEVEL::name##_range(*args, begin, end);                                                  \
  }                                                                                             \
  extern "C" void FB_JOIN(forebay_, FB_LEVEL, _, name##_grid)(const Args* args, u32 blocks,     \
                                                              u32 threads) {                    \
    for (u32 b = 0; b < blocks; ++b)                                                            \
      for (u32 t = 0; t < threads; ++t) FB_LEVEL::name##_thread(*args, b, t, threads);          \
  }

#endif

namespace FB_LEVEL {

// One lane: a GPU thread's view, and the host's when it walks a grid.
struct One {
  typedef f32 f;
  typedef i32 i;
  typedef i32 s;
  static constexpr i32 lanes = 1;
  static constexpr i32 pairs = 1;
};

FB_FN f32 to_f(i32 v) { return (f32)v; }
// Towards zero; the caller has clamped `v` to the range of the result.
FB_FN i32 to_i(f32 v) { return (i32)v; }
// The integer part of 0 <= v < 2^31.
FB_FN f32 whole(f32 v) { return to_f(to_i(v)); }
// The largest integer not above v, as a float; `v` is within +-2^24.
FB_FN f32 floor_small(f32 v) {
  f32 t = to_f(to_i(v));
  return t > v ? t - 1.0f : t;
}
FB_FN bool any(bool mask) { return mask; }
FB_FN u32 bits_of(f32 v) {
#ifdef __CUDACC__
  return __float_as_uint(v);
#else
  u32 b;
  memcpy(&b, &v, 4);
  return b;
#endif
}
FB_FN f32 from_bits(u32 b) {
#ifdef __CUDACC__
  return __uint_as_float(b);
#else
  f32 v;
  memcpy(&v, &b, 4);
  return v;
#endif
}
// Rounded to nearest, the one answer IEEE allows.
FB_FN f32 sqrt_ieee(f32 v) {
#ifdef __CUDACC__
  return __fsqrt_rn(v);
#else
  return __builtin_sqrtf(v);
#endif
}

// The three bytes of a pixel at `base + offset`, in the low 24 bits. A wide load may read a fourth
// byte: sources carry a tail.
FB_FN i32 load_rgb(const u8* base, i32 offset) {
  return base[offset] | base[offset + 1] << 8 | base[offset + 2] << 16;
}
FB_FN f32 load_f32(const f32* base, i32 index) { return base[index]; }
// Whether four elements at `p` can be moved in one access.
template <class E> FB_FN bool aligned4(const E* p) { return (u64)p % (4 * sizeof(E)) == 0; }
// Four consecutive elements in one access, for which `aligned4` holds; bytes as whole floats.
FB_FN void load4(const f32* from, f32 v[4]) {
#ifdef __CUDACC__
  float4 four = *(const float4*)from;
  v[0] = four.x;
  v[1] = four.y;
  v[2] = four.z;
  v[3] = four.w;
#else
  memcpy(v, from, 16);
#endif
}
FB_FN void load4(const u8* from, f32 v[4]) {
#ifdef __CUDACC__
  u32 word = *(const u32*)from;
#else
  u32 word;
  memcpy(&word, from, 4);
#endif
  for (i32 e = 0; e < 4; ++e) v[e] = (f32)(word >> 8 * e & 255);
}
FB_FN void store4(f32* to, const f32 v[4]) {
#ifdef __CUDACC__
  *(float4*)to = make_float4(v[0], v[1], v[2], v[3]);
#else
  memcpy(to, v, 16);
#endif
}
FB_FN void store4(u8* to, const i32 v[4]) {
  u32 word = (u32)(v[0] & 255) | (u32)(v[1] & 255) << 8 | (u32)(v[2] & 255) << 16 | (u32)v[3] << 24;
#ifdef __CUDACC__
  *(u32*)to = word;
#else
  memcpy(to, &word, 4);
#endif
}
// A vector of pixels, each of three values and one that does not count: lanes 4k to 4k + 3 are pixel k.
// The host only: a vector of one lane holds no pixel.
template <class T> struct Quads;
// Lane numbers 0, 1, 2, ….
template <class T> struct Iota;
template <> struct Iota<One> {
  static FB_MEMBER i32 get() { return 0; }
};

#ifdef __CUDACC__

typedef One Wide;

#else

// One vector register of the level.
struct Wide {
  typedef f32 f __attribute__((vector_size(4 * FB_LANES)));
  typedef i32 i __attribute__((vector_size(4 * FB_LANES)));
  typedef i16 s __attribute__((vector_size(2 * FB_PAIRS)));
  static constexpr i32 lanes = FB_LANES;
  static constexpr i32 pairs = FB_PAIRS;
};

FB_FN Wide::f to_f(Wide::i v) { return __builtin_convertvector(v, Wide::f); }
FB_FN Wide::i to_i(Wide::f v) { return __builtin_convertvector(v, Wide::i); }
FB_FN Wide::f whole(Wide::f v) {
#if FB_LANES == 16
  return (Wide::f)_mm512_maskz_roundscale_ps(0xFFFF, (__m512)v, 3);
#elif defined(__AVX__)
  return (Wide::f)_mm256_round_ps((__m256)v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
#elif defined(__SSE4_1__)
  return (Wide::f)_mm_round_ps((__m128)v, _MM_FROUND_TO_ZERO | _MM_FROUND_NO_EXC);
#else
  return to_f(to_i(v));
#endif
}
// The same but for the sign of a zero.
FB_FN Wide::f floor_any(Wide::f v) {
#if FB_LANES == 16
  return (Wide::f)_mm512_maskz_roundscale_ps(0xFFFF, (__m512)v, 1);
#elif defined(__AVX__)
  return (Wide::f)_mm256_round_ps((__m256)v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#elif defined(__SSE4_1__)
  return (Wide::f)_mm_round_ps((__m128)v, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
#else
  Wide::f t = to_f(to_i(v));
  return t > v ? t - 1.0f : t;
#endif
}
FB_FN Wide::f floor_small(Wide::f v) { return floor_any(v) + 0.0f; }
FB_FN bool any(Wide::i mask) {
#if FB_LANES == 16
  return _mm512_test_epi32_mask((__m512i)mask, (__m512i)mask) != 0;
#elif defined(__AVX2__)
  return !_mm256_testz_si256((__m256i)mask, (__m256i)mask);
#else
  i32 all = 0;
  for (i32 k = 0; k < FB_LANES; ++k) all |= mask[k];
  return all != 0;
#endif
}
FB_FN Wide::i load_rgb(const u8* base, Wide::i offset) {
#if defined(FB_GATHERS) && FB_LANES == 16
  return (Wide::i)_mm512_mask_i32gather_epi32(_mm512_setzero_si512(), 0xFFFF, (__m512i)offset,
                                               base, 1) & 0xFFFFFF;
#elif defined(FB_GATHERS)
  return (Wide::i)_mm256_i32gather_epi32((const int*)base, (__m256i)offset, 1) & 0xFFFFFF;
#else
  Wide::i v;
  for (i32 k = 0; k < FB_LANES; ++k) {
    i32 word;
    memcpy(&word, base + offset[k], 4);
    v[k] = word & 0xFFFFFF;
  }
  return v;
#endif
}
FB_FN Wide::f load_f32(const f32* base, Wide::i index) {
#if defined(FB_GATHERS) && FB_LANES == 16
  return (Wide::f)_mm512_mask_i32gather_ps(_mm512_setzero_ps(), 0xFFFF, (__m512i)index, base, 4);
#elif defined(FB_GATHERS)
  return (Wide::f)_mm256_i32gather_ps(base, (__m256i)index, 4);
#else
  Wide::f v;
  for (i32 k = 0; k < FB_LANES; ++k) v[k] = base[index[k]];
  return v;
#endif
}
FB_FN void store(f32* to, Wide::f v) { memcpy(to, &v, sizeof v); }
FB_FN void store(i32* to, Wide::i v) { memcpy(to, &v, sizeof v); }
// Of values in 0..255.
FB_FN void store(u8* to, Wide::i v) {
  typedef u8 bytes __attribute__((vector_size(FB_LANES)));
  bytes b = __builtin_convertvector(v, bytes);
  memcpy(to, &b, sizeof b);
}
template <> struct Iota<Wide> {
  static FB_MEMBER Wide::i get() {
    Wide::i v = {};
    for (i32 k = 0; k < FB_LANES; ++k) v[k] = k;
    return v;
  }
};
template <> struct Quads<Wide> {
  // The pixels that begin `at[k]` elements behind `base`; of each, four elements are read.
  static FB_MEMBER Wide::f load(const u8* base, const i32* at) {
#if FB_LANES == 16
    __m128i four = _mm_setr_epi32(word(base + at[0]), word(base + at[1]), word(base + at[2]),
                                  word(base + at[3]));
    // With a mask of all lanes: GCC 12 warns of what its headers leave undefined without one.
    __m512i values = _mm512_maskz_cvtepu8_epi32(0xFFFF, four);
    return (Wide::f)_mm512_maskz_cvtepi32_ps(0xFFFF, values);
#elif defined(__AVX2__)
    __m128i two = _mm_setr_epi32(word(base + at[0]), word(base + at[1]), 0, 0);
    return (Wide::f)_mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(two));
#else
    Wide::i v;
    for (i32 k = 0; k < FB_LANES; ++k) v[k] = base[at[k / 4] + k % 4];
    return to_f(v);
#endif
  }
  static FB_MEMBER Wide::f load(const f32* base, const i32* at) {
#if FB_LANES == 16
    __m512 v = _mm512_castps128_ps512(_mm_loadu_ps(base + at[0]));
    v = _mm512_maskz_insertf32x4(0xFFFF, v, _mm_loadu_ps(base + at[1]), 1);
    v = _mm512_maskz_insertf32x4(0xFFFF, v, _mm_loadu_ps(base + at[2]), 2);
    return (Wide::f)_mm512_maskz_insertf32x4(0xFFFF, v, _mm_loadu_ps(base + at[3]), 3);
#elif defined(__AVX2__)
    return (Wide::f)_mm256_set_m128(_mm_loadu_ps(base + at[1]), _mm_loadu_ps(base + at[0]));
#else
    Wide::f v;
    for (i32 k = 0; k < FB_LANES; ++k) v[k] = base[at[k / 4] + k % 4];
    return v;
#endif
  }
  static FB_MEMBER i32 word(const u8* from) {
    i32 v;
    memcpy(&v, from, sizeof v);
    return v;
  }
  // Value `channel` of as many pixels as a vector has lanes, which lie one behind another.
  static FB_MEMBER Wide::f channel(const f32* quads, i32 channel) {
#if FB_LANES == 16
    __m512i every = (__m512i)((Iota<Wide>::get() * 4 + channel) & 31);
    __m512 a = _mm512_loadu_ps(quads), b = _mm512_loadu_ps(quads + 16);
    __m512 c = _mm512_loadu_ps(quads + 32), d = _mm512_loadu_ps(quads + 48);
    __m512 low = _mm512_permutex2var_ps(a, every, b), high = _mm512_permutex2var_ps(c, every, d);
    return (Wide::f)_mm512_maskz_shuffle_f32x4(0xFFFF, low, high, 0x44);
#else
    Wide::f v;
    for (i32 k = 0; k < FB_LANES; ++k) v[k] = quads[4 * k + channel];
    return v;
#endif
  }
};

#endif

// A scalar in every lane. `x - 0` is x for every float, -0 included.
template <class T> FB_FN typename T::f splat(f32 x) {
  typename T::f zero = {};
  return x - zero;
}
template <class T> FB_FN typename T::i splat(i32 x) {
  typename T::i zero = {};
  return x + zero;
}

// Lane by lane, so that NaN and signed zero come out the same on every machine:
// min(a, b) = a < b ? a : b, max(a, b) = a > b ? a : b.
template <class V> FB_FN V min2(V a, V b) { return a < b ? a : b; }
template <class V> FB_FN V max2(V a, V b) { return a > b ? a : b; }
#if FB_LANES == 16
// The instructions' own rule, in which the compiler does not always see ours.
FB_FN Wide::f min2(Wide::f a, Wide::f b) {
  return (Wide::f)_mm512_maskz_min_ps(0xFFFF, (__m512)a, (__m512)b);
}
FB_FN Wide::f max2(Wide::f a, Wide::f b) {
  return (Wide::f)_mm512_maskz_max_ps(0xFFFF, (__m512)a, (__m512)b);
}
#endif

// Round half away from zero and saturate to 0..255; NaN is 0. The clamp leaves v >= 0, where
// trunc(v + 0.49999997) is roundf(v) for every float below 256: 0.49999997f is the float before
// one half, so that 0.49999997 itself is not rounded up by the addition.
template <class T> FB_FN typename T::f round_u8(typename T::f v) {
  typename T::f zero = {};
  v = min2(max2(v, zero), splat<T>(255.0f));
  return whole(v + 0.49999997f);
}

// Every NaN is stored with the same bits.
template <class T> FB_FN typename T::f one_nan(typename T::f v) {
  return v == v ? v : splat<T>(from_bits(0x7FC00000u));
}

}  // namespace FB_LEVEL
