// Lanes of 16 bits or more, `T::s`, in which samples and colours are computed, and the ways of both from
// and to memory. Beside portable.cuh the only file that knows the host's instructions.
#pragma once
#include "portable.cuh"

namespace FB_LEVEL {

// Ways into lanes of 16 bits or more, `T::s`, of samples and colours.
template <class T> struct Shorts;
template <> struct Shorts<One> {
  static FB_MEMBER i32 iota() { return 0; }
  static FB_MEMBER i32 splat(i32 x) { return x; }
  // Consecutive shorts, as integers.
  static FB_MEMBER i32 widen(const i16* from) { return *from; }
  static FB_MEMBER i32 bytes(const u8* from) { return *from; }
  // The even and the odd ones of twice as many bytes.
  static FB_MEMBER void pairs(const u8* from, i32& even, i32& odd) {
    even = from[0];
    odd = from[1];
  }
};
FB_FN i32 clamp_u8(i32 v) { return v < 0 ? 0 : v > 255 ? 255 : v; }
// (a * k) >> 16.
FB_FN i32 mul_high(i32 a, i32 k) { return (a * k) >> 16; }
// (a * ka + b * kb) / 65536, rounded; the factors have 16 bits.
FB_FN i32 weigh(i32 a, i32 ka, i32 b, i32 kb) { return (a * ka + b * kb + 32768) >> 16; }
// The first `n` pixels, less the first `skip`, of even and odd ones in turn, clamped; `to` is the first's place.
FB_FN void store_rgb(u8* to, const i32 even[3], const i32 odd[3], i32 skip, i32 n) {
  for (i32 c = 0; c < 3 && skip == 0; ++c) to[c] = (u8)clamp_u8(even[c]);
  for (i32 c = 0; c < 3 && n > 1; ++c) to[3 + c] = (u8)clamp_u8(odd[c]);
}
// N samples of each lane's block, clamped: `offset` bytes on from the block's place.
template <i32 N>
FB_FN void store_samples(u8* planes, const i32* places, i32 offset, bool, const i32 v[N]) {
  for (i32 k = 0; k < N; ++k) planes[places[0] + offset + k] = (u8)clamp_u8(v[k]);
}

#ifndef __CUDACC__

template <> struct Shorts<Wide> {
  static FB_MEMBER Wide::s iota() {
    Wide::s v = {};
    for (i32 k = 0; k < FB_PAIRS; ++k) v[k] = (i16)k;
    return v;
  }
  static FB_MEMBER Wide::s splat(i32 x) {
    Wide::s zero = {};
    return (i16)x + zero;
  }
  // By intrinsics where there are some: GCC takes three instructions for a conversion that is one.
  static FB_MEMBER Wide::i widen(const i16* from) {
#if FB_LANES == 16
    return (Wide::i)_mm512_maskz_cvtepi16_epi32(0xFFFF, _mm256_loadu_si256((const __m256i*)from));
#elif defined(__AVX2__)
    return (Wide::i)_mm256_cvtepi16_epi32(_mm_loadu_si128((const __m128i*)from));
#elif defined(__SSE4_1__)
    return (Wide::i)_mm_cvtepi16_epi32(_mm_loadl_epi64((const __m128i*)from));
#else
    typedef i16 shorts __attribute__((vector_size(2 * FB_LANES)));
    shorts v;
    memcpy(&v, from, sizeof v);
    return __builtin_convertvector(v, Wide::i);
#endif
  }
  static FB_MEMBER Wide::s bytes(const u8* from) {
#if defined(__AVX2__)
    return (Wide::s)_mm256_cvtepu8_epi16(_mm_loadu_si128((const __m128i*)from));
#elif defined(__SSE4_1__)
    return (Wide::s)_mm_cvtepu8_epi16(_mm_loadl_epi64((const __m128i*)from));
#else
    typedef u8 bytes __attribute__((vector_size(FB_PAIRS)));
    bytes v;
    memcpy(&v, from, sizeof v);
    return __builtin_convertvector(v, Wide::s);
#endif
  }
  static FB_MEMBER void pairs(const u8* from, Wide::s& even, Wide::s& odd) {
    typedef u16 words __attribute__((vector_size(2 * FB_PAIRS)));
    words v;
    memcpy(&v, from, sizeof v);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
    v = v << 8 | v >> 8;
#endif
    even = (Wide::s)(v & 255);
    odd = (Wide::s)(v >> 8);
  }
};

#if defined(__SSE4_1__)

#define FB_JOIN_OP(bits, op) _mm##bits##_##op
#define FB_OP(bits, op) FB_JOIN_OP(bits, op)
#if FB_PAIRS == 16
#define FB_SHORT(op) FB_OP(256, op)
typedef __m256i ShortReg;
#else
#define FB_SHORT(op) FB_OP(, op)
typedef __m128i ShortReg;
#endif
#if FB_LANES == 16
#define FB_LONG(op) FB_OP(512, op)
// The unmasked ones start from a register that GCC warns is not set.
#define FB_UNPACK(half, a, b) _mm512_maskz_unpack##half##_epi32(0xFFFF, a, b)
typedef __m512i LongReg;
#elif FB_LANES == 8
#define FB_LONG(op) FB_OP(256, op)
typedef __m256i LongReg;
#else
#define FB_LONG(op) FB_OP(, op)
typedef __m128i LongReg;
#endif
#if FB_LANES < 16
#define FB_UNPACK(half, a, b) FB_LONG(unpack##half##_epi32)(a, b)
#endif

// Where the bytes of each sixteen of a register come from; 128: nowhere.
struct Shuffle {
  u8 from[64];
  template <class R> FB_MEMBER R get() const {
    R v;
    memcpy(&v, from, sizeof v);
    return v;
  }
};

FB_FN Wide::s mul_high(Wide::s a, i32 k) {
  return (Wide::s)FB_SHORT(mulhi_epi16)((ShortReg)a, FB_SHORT(set1_epi16)((i16)k));
}
FB_FN Wide::s weigh(Wide::s a, i32 ka, Wide::s b, i32 kb) {
  ShortReg k = FB_SHORT(set1_epi32)((i32)((u32)(u16)ka | (u32)(u16)kb << 16));
  ShortReg half = FB_SHORT(set1_epi32)(32768);
  ShortReg low = FB_SHORT(unpacklo_epi16)((ShortReg)a, (ShortReg)b);
  ShortReg high = FB_SHORT(unpackhi_epi16)((ShortReg)a, (ShortReg)b);
  low = FB_SHORT(add_epi32)(FB_SHORT(madd_epi16)(low, k), half);
  high = FB_SHORT(add_epi32)(FB_SHORT(madd_epi16)(high, k), half);
  low = FB_SHORT(srai_epi32)(low, 16);
  high = FB_SHORT(srai_epi32)(high, 16);
  return (Wide::s)FB_SHORT(packs_epi32)(low, high);
}

// Sixteen pixels' bytes are three times sixteen, to which each channel gives some. A channel has
// eight even pixels, then eight odd ones.
struct Spread {
  Shuffle third[3][3];
};
constexpr Spread spread() {
  Spread s = {};
  for (i32 t = 0; t < 3; ++t)
    for (i32 c = 0; c < 3; ++c)
      for (i32 k = 0; k < 64; ++k) {
        i32 byte = 16 * t + k % 16, pixel = byte / 3;
        s.third[t][c].from[k] = (u8)(byte % 3 == c ? pixel % 2 * 8 + pixel / 2 : 128);
      }
  return s;
}
alignas(64) static constexpr Spread SPREAD = spread();

// Four times four bytes, rows for columns.
constexpr Shuffle turn() {
  Shuffle s = {};
  for (i32 k = 0; k < 64; ++k) s.from[k] = (u8)(k % 4 * 4 + k % 16 / 4);
  return s;
}
alignas(64) static constexpr Shuffle TURN = turn();

// Not as one array, which GCC would put together in memory first.
FB_FN void store_thirds(u8* to, ShortReg a, ShortReg b, ShortReg c) {
  memcpy(to, &a, sizeof a);
  memcpy(to + sizeof a, &b, sizeof b);
  memcpy(to + 2 * sizeof a, &c, sizeof c);
}

FB_FN void store_rgb(u8* to, const Wide::s even[3], const Wide::s odd[3], i32 skip, i32 n) {
  ShortReg channel[3], third[3];
  for (i32 c = 0; c < 3; ++c)
    channel[c] = FB_SHORT(packus_epi16)((ShortReg)even[c], (ShortReg)odd[c]);
  for (i32 t = 0; t < 3; ++t) {
    ShortReg sum = FB_SHORT(shuffle_epi8)(channel[0], SPREAD.third[t][0].get<ShortReg>());
    for (i32 c = 1; c < 3; ++c)
      sum |= FB_SHORT(shuffle_epi8)(channel[c], SPREAD.third[t][c].get<ShortReg>());
    third[t] = sum;
  }
#if FB_PAIRS == 16
  ShortReg a = _mm256_permute2x128_si256(third[0], third[1], 0x20);
  ShortReg b = _mm256_permute2x128_si256(third[2], third[0], 0x30);
  ShortReg c = _mm256_permute2x128_si256(third[1], third[2], 0x31);
#else
  ShortReg a = third[0], b = third[1], c = third[2];
#endif
  if (n >= 2 * FB_PAIRS && skip == 0) {
    store_thirds(to, a, b, c);
  } else {
    u8 part[6 * FB_PAIRS];
    store_thirds(part, a, b, c);
    n = n < 2 * FB_PAIRS ? n : 2 * FB_PAIRS;
    memcpy(to + 3 * skip, part + 3 * skip, (u64)(n - skip) * 3);
  }
}

template <i32 L> FB_FN __m128i part(__m128i v) { return v; }
#if FB_LANES >= 8
template <i32 L> FB_FN __m128i part(__m256i v) { return _mm256_extracti128_si256(v, L); }
#endif
#if FB_LANES == 16
template <i32 L> FB_FN __m128i part(__m512i v) {
  return _mm512_maskz_extracti32x4_epi32(15, v, L);
}
#endif

// Four and four samples of each four blocks, which lie beside each other two by two where `paired` holds.
// `first` has those of blocks 0 and 1.
FB_FN void store_four(u8* planes, const i32* places, i32 offset, bool paired, __m128i first,
                      __m128i second) {
  if (paired) {
    _mm_storeu_si128((__m128i*)(planes + places[0] + offset), first);
    _mm_storeu_si128((__m128i*)(planes + places[2] + offset), second);
  } else {
    _mm_storel_epi64((__m128i*)(planes + places[0] + offset), first);
    _mm_storel_epi64((__m128i*)(planes + places[1] + offset), _mm_unpackhi_epi64(first, first));
    _mm_storel_epi64((__m128i*)(planes + places[2] + offset), second);
    _mm_storel_epi64((__m128i*)(planes + places[3] + offset), _mm_unpackhi_epi64(second, second));
  }
}
// Four samples of each four blocks.
FB_FN void store_four(u8* planes, const i32* places, i32 offset, bool paired, __m128i four) {
  if (paired) {
    _mm_storel_epi64((__m128i*)(planes + places[0] + offset), four);
    _mm_storel_epi64((__m128i*)(planes + places[2] + offset), _mm_unpackhi_epi64(four, four));
  } else {
    u32 parts[4];
    memcpy(parts, &four, sizeof parts);
    for (i32 k = 0; k < 4; ++k) memcpy(planes + places[k] + offset, parts + k, sizeof *parts);
  }
}
// Calls `store` for each four blocks' 16 bytes of registers.
template <class Store> FB_FN void by_fours(const Store& store) {
  store.template run<0>();
#if FB_LANES >= 8
  store.template run<1>();
#endif
#if FB_LANES == 16
  store.template run<2>();
  store.template run<3>();
#endif
}
struct StoreEight {
  u8* planes;
  const i32* places;
  i32 offset;
  bool paired;
  LongReg first, second;
  template <i32 L> FB_MEMBER void run() const {
    store_four(planes, places + 4 * L, offset, paired, part<L>(first), part<L>(second));
  }
};
struct StoreFour {
  u8* planes;
  const i32* places;
  i32 offset;
  bool paired;
  LongReg samples;
  template <i32 L> FB_MEMBER void run() const {
    store_four(planes, places + 4 * L, offset, paired, part<L>(samples));
  }
};
// Four samples of each block, a block after another.
FB_FN LongReg samples_of(const Wide::i v[4]) {
  LongReg a = FB_LONG(packs_epi32)((LongReg)v[0], (LongReg)v[1]);
  LongReg b = FB_LONG(packs_epi32)((LongReg)v[2], (LongReg)v[3]);
  return FB_LONG(shuffle_epi8)(FB_LONG(packus_epi16)(a, b), TURN.get<LongReg>());
}
template <i32 N>
FB_FN void store_samples(u8* planes, const i32* places, i32 offset, bool paired,
                         const Wide::i v[N]) {
  if constexpr (N == 8) {
    LongReg a = samples_of(v), b = samples_of(v + 4);
    by_fours(StoreEight{planes, places, offset, paired, FB_UNPACK(lo, a, b), FB_UNPACK(hi, a, b)});
  } else {
    Wide::i w[4];
    for (i32 k = 0; k < 4; ++k) w[k] = v[k < N ? k : 0];
    LongReg samples = samples_of(w);
    if constexpr (N == 4) {
      by_fours(StoreFour{planes, places, offset, paired, samples});
    } else {
      u8 bytes[4 * FB_LANES];
      memcpy(bytes, &samples, sizeof bytes);
      for (i32 k = 0; k < FB_LANES; ++k) memcpy(planes + places[k] + offset, bytes + 4 * k, N);
    }
  }
}

#else

FB_FN Wide::s mul_high(Wide::s a, i32 k) {
  typedef i32 longs __attribute__((vector_size(4 * FB_PAIRS)));
  return __builtin_convertvector(__builtin_convertvector(a, longs) * k >> 16, Wide::s);
}
FB_FN Wide::s weigh(Wide::s a, i32 ka, Wide::s b, i32 kb) {
  typedef i32 longs __attribute__((vector_size(4 * FB_PAIRS)));
  longs sum = __builtin_convertvector(a, longs) * ka + __builtin_convertvector(b, longs) * kb;
  return __builtin_convertvector((sum + 32768) >> 16, Wide::s);
}
FB_FN void store_rgb(u8* to, const Wide::s even[3], const Wide::s odd[3], i32 skip, i32 n) {
  for (i32 p = skip; p < 2 * FB_PAIRS && p < n; ++p)
    for (i32 c = 0; c < 3; ++c)
      to[3 * p + c] = (u8)clamp_u8(p % 2 == 0 ? even[c][p / 2] : odd[c][p / 2]);
}
template <i32 N>
FB_FN void store_samples(u8* planes, const i32* places, i32 offset, bool, const Wide::i v[N]) {
  for (i32 k = 0; k < FB_LANES; ++k)
    for (i32 x = 0; x < N; ++x) planes[places[k] + offset + x] = (u8)clamp_u8(v[x][k]);
}

#endif

#endif

}  // namespace FB_LEVEL
