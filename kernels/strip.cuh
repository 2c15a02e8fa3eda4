// A strip of consecutive pixels in registers, and its ways from and to memory where it lies there as
// it is: every third value of HWC, or three planes.
//
// The host has four vector registers a channel. They stay in registers from load to store, so that
// loops over them are unrolled. A GPU's thread has four pixels, which are three runs of four
// consecutive elements in either layout: each run is one access of 16 or 4 bytes where its address
// allows that, which is the same for all strips of a plane. So neighbours' accesses join up and a
// block never takes both ways, but for the strip that the image ends in.
#pragma once
#include "planes.cuh"
#include "point.cuh"
#include "wide.cuh"

namespace FB_LEVEL {

enum { THREAD_PIXELS = 4, HOST_REGISTERS = 4 };

template <class T, i32 K> struct Strip {
  typename T::f c[3][K];
  FB_MEMBER typename T::f at(i32 channel, i32 k) const { return c[channel][k]; }
};

template <class T, i32 K> FB_FN void put(Strip<T, K>& s, i32 k, const Rgb<T>& v) {
  for (i32 c = 0; c < 3; ++c) s.c[c][k] = v.c[c];
}

typedef Strip<One, THREAD_PIXELS> ThreadStrip;

// The next pixel of a loop over a thread's. Registers have no numbers: pixels move up, which keeps the
// loop's body small.
FB_FN void put_next(ThreadStrip& s, const Rgb<One>& v) {
  FB_UNROLL
  for (i32 k = 1; k < THREAD_PIXELS; ++k)
    for (i32 c = 0; c < 3; ++c) s.c[c][k - 1] = s.c[c][k];
  put(s, THREAD_PIXELS - 1, v);
}

// Pixels `p`, `p + 1`, ... of a source; past its last pixel, any bytes of it or of the tail.
template <class T, i32 K>
FB_FN void load_strip(Strip<T, K>& s, const Image& source, u32 type, i32 p, i32 total) {
  if (type == TYPE_U8) {
    FB_FLAT
    for (i32 k = 0; k < K; ++k) {
      Rgb<T> v;
      load_pixels((const u8*)source.data + 3 * min2(p + k * T::lanes, total - 1), false, v.c);
      put(s, k, v);
    }
  } else if (p + K * T::lanes <= total) {
    FB_FLAT
    for (i32 k = 0; k < K; ++k) {
      Rgb<T> v;
      load_pixels((const f32*)source.data + 3 * (p + k * T::lanes), v.c);
      put(s, k, v);
    }
  } else {
    FB_FLAT
    for (i32 k = 0; k < K; ++k) {
      typename T::i index = Iota<T>::get() + (p + k * T::lanes);
      put(s, k, load_pixel<T>(source, type, min2(index, splat<T>(total - 1))));
    }
  }
}

// Pixels `at`, `at + 1`, ... of planes.
template <class T, i32 K> FB_FN void load_strip(Strip<T, K>& s, const Planes<T>& planes, i32 at) {
  FB_FLAT
  for (i32 k = 0; k < K; ++k)
    for (i32 c = 0; c < 3; ++c) load(planes.c[c] + at + k * T::lanes, s.c[c][k]);
}

// Four elements as floats; the tail holds what a run needs past the image's end.
template <class E> FB_FN void load_run(const E* from, f32 v[4]) {
  if (aligned4(from)) {
    load4(from, v);
  } else {
    FB_UNROLL
    for (i32 e = 0; e < 4; ++e) v[e] = (f32)from[e];
  }
}

FB_FN void load_strip(ThreadStrip& s, const Image& source, u32 type, i32 p, i32) {
  f32 run[3][4];
  FB_UNROLL
  for (i32 j = 0; j < 3; ++j) {
    if (type == TYPE_U8) load_run((const u8*)source.data + (p * 3 + j * 4), run[j]);
    else load_run((const f32*)source.data + (p * 3 + j * 4), run[j]);
  }
  FB_UNROLL
  for (i32 k = 0; k < 12; ++k) s.c[k % 3][k / 3] = run[k / 4][k % 4];
}

// The pixels of a strip that the image ends in.
template <class T, i32 K>
FB_APART void store_last(const Strip<T, K>& s, const Image& dest, const Pass& pass, i32 p,
                         i32 total) {
  for (i32 k = 0; k < K; ++k) {
    i32 first = p + k * T::lanes, n = min2(total - first, T::lanes);
    for (i32 c = 0; c < 3; ++c) {
      for (i32 lane = 0; lane < n; ++lane) {
        u64 pixel = (u64)(first + lane);
        u64 place = pass.dest_layout == LAYOUT_CHW ? (u64)c * total + pixel : pixel * 3 + c;
        f32 v = s.c[c][k][lane];
        if (pass.dest_type == TYPE_F32) ((f32*)dest.data)[place] = v;
        else ((u8*)dest.data)[place] = (u8)to_i(v);
      }
    }
  }
}

// `numbers`: no value is NaN.
template <class T, i32 K>
FB_FN void store_strip(Strip<T, K>& s, bool numbers, const Image& dest, const Pass& pass, i32 p,
                       i32 total) {
  bool chw = pass.dest_layout == LAYOUT_CHW;
  if (pass.dest_type == TYPE_F32 && !numbers) {
    FB_FLAT
    for (i32 k = 0; k < K; ++k)
      for (i32 c = 0; c < 3; ++c) s.c[c][k] = one_nan<T>(s.c[c][k]);
  }
  if (p + K * T::lanes > total) {
    Strip<T, K> copy = s;
    store_last(copy, dest, pass, p, total);
  } else if (pass.dest_type == TYPE_F32) {
    f32* to = (f32*)dest.data;
    FB_FLAT
    for (i32 k = 0; k < K; ++k) {
      i32 first = p + k * T::lanes;
      typename T::f v[3] = {s.c[0][k], s.c[1][k], s.c[2][k]};
      if (!chw) store_pixels(to + 3 * (u64)first, v);
      else
        for (i32 c = 0; c < 3; ++c) store(to + (u64)c * total + first, v[c]);
    }
  } else {
    u8* to = (u8*)dest.data;
    FB_FLAT
    for (i32 k = 0; k < K; ++k) {
      i32 first = p + k * T::lanes;
      typename T::i v[3] = {to_i(s.c[0][k]), to_i(s.c[1][k]), to_i(s.c[2][k])};
      if (!chw) store_pixels(to + 3 * first, v);
      else
        for (i32 c = 0; c < 3; ++c) store(to + (u64)c * total + first, v[c]);
    }
  }
}

// The first `n` of four elements.
template <class E, class V> FB_FN void store_run(E* to, const V v[4], i32 n) {
  if (n >= 4 && aligned4(to)) {
    store4(to, v);
  } else {
    FB_UNROLL
    for (i32 e = 0; e < 4; ++e)
      if (e < n) to[e] = (E)v[e];
  }
}

FB_FN void store_strip(const ThreadStrip& s, const Image& dest, const Pass& pass, i32 p,
                       i32 total) {
  bool chw = pass.dest_layout == LAYOUT_CHW;
  FB_UNROLL
  for (i32 j = 0; j < 3; ++j) {
    u64 first = chw ? (u64)j * total + p : (u64)p * 3 + j * 4;
    i32 n = chw ? total - p : (total - p) * 3 - j * 4;
    f32 v[4];
    FB_UNROLL
    for (i32 e = 0; e < 4; ++e) v[e] = chw ? s.c[j][e] : s.c[(j * 4 + e) % 3][(j * 4 + e) / 3];
    if (pass.dest_type == TYPE_F32) {
      FB_UNROLL
      for (i32 e = 0; e < 4; ++e) v[e] = one_nan<One>(v[e]);
      store_run((f32*)dest.data + first, v, n);
    } else {
      i32 bytes[4];
      FB_UNROLL
      for (i32 e = 0; e < 4; ++e) bytes[e] = to_i(v[e]);
      store_run((u8*)dest.data + first, bytes, n);
    }
  }
}

}  // namespace FB_LEVEL
