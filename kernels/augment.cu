// The fused pass: gather, pointwise chain, layout and dtype of the store, one pass over the pixels.
//
// Work is cut into strips of consecutive output pixels in row-major order, across row ends. A GPU
// thread runs a strip of 4 in registers, the host one of 64; both through `run_strip`.
#include "point.cuh"

namespace FB_LEVEL {

struct AugmentArgs {
  const Resolved* resolved;  // passes of a sample, as `resolve` left them
  const Image* images;       // images of a sample
  const u32* status;         // of a sample; where it is not 0, the images' sizes are not those that
                             // memory was laid out for
  u32 n_passes, n_images, n_samples;
  u32 number;  // of this pass
  Pass pass;
  u32 tiles;   // grid only: blocks that one sample gets, at least 1
  u32 unused;
};
static_assert(sizeof(AugmentArgs) == 64 && FB_OFFSET(AugmentArgs, resolved) == 0, "");
static_assert(FB_OFFSET(AugmentArgs, images) == 8 && FB_OFFSET(AugmentArgs, status) == 16, "");
static_assert(FB_OFFSET(AugmentArgs, n_passes) == 24 && FB_OFFSET(AugmentArgs, n_images) == 28, "");
static_assert(FB_OFFSET(AugmentArgs, n_samples) == 32 && FB_OFFSET(AugmentArgs, number) == 36, "");
static_assert(FB_OFFSET(AugmentArgs, pass) == 40 && FB_OFFSET(AugmentArgs, tiles) == 56, "");

enum { THREAD_PIXELS = 4, HOST_PIXELS = 64 };

template <class T, i32 K> struct Strip {
  typename T::f c[3][K];
};

template <class T, i32 K> FB_FN void put(Strip<T, K>& s, i32 k, const Rgb<T>& v) {
  for (i32 c = 0; c < 3; ++c) s.c[c][k] = v.c[c];
}

// Columns and rows of the pixels `p`, `p + 1`, …; past the last pixel, places of the last row.
template <class T> struct Places {
  typename T::i x, y;
  FB_MEMBER void start(i32 p, i32 width) {
    x = Iota<T>::get() + p % width;
    y = splat<T>(p / width);
    wrap(width);
  }
  FB_MEMBER void advance(i32 width) {
    x = x + T::lanes;
    wrap(width);
  }
  FB_MEMBER void wrap(i32 width) {
    while (any(x >= width)) {
      y = x >= width ? y + 1 : y;
      x = x >= width ? x - width : x;
    }
  }
};

template <class T, i32 K>
FB_FN void load_strip(Strip<T, K>& s, const Resolved& r, const Image& source, u32 type, i32 p,
                      i32 total) {
  if (r.gather == GATHER_NONE && r.pre == 0) {
    FB_UNROLL
    for (i32 k = 0; k < K; ++k) {
      typename T::i index = Iota<T>::get() + (p + k * T::lanes);
      put(s, k, load_pixel<T>(source, type, min2(index, splat<T>(total - 1))));
    }
  } else {
    Places<T> at;
    at.start(p, r.out_width);
    FB_UNROLL
    for (i32 k = 0; k < K; ++k) {
      put(s, k, sample<T>(r, source, type, at.x, min2(at.y, splat<T>(r.out_height - 1))));
      at.advance(r.out_width);
    }
  }
}

// The same operation on every pixel: the choice is made once a strip.
template <class T, i32 K> FB_FN void apply_strip(Strip<T, K>& s, const Point& point) {
  typename T::f b[3];
  for (i32 c = 0; c < 3; ++c) b[c] = splat<T>(point.value[c]);
#define FB_CASE(OP)                                                                             \
  case OP:                                                                                      \
    FB_UNROLL                                                                                   \
    for (i32 k = 0; k < K; ++k)                                                                 \
      for (i32 c = 0; c < 3; ++c) s.c[c][k] = apply<T>(OP, s.c[c][k], b[c]);                    \
    break;
  switch (point.op) {
    FB_CASE(OP_ADD) FB_CASE(OP_SUB) FB_CASE(OP_RSUB) FB_CASE(OP_MUL) FB_CASE(OP_DIV)
    FB_CASE(OP_RDIV) FB_CASE(OP_MIN) FB_CASE(OP_MAX) FB_CASE(OP_LT) FB_CASE(OP_LE)
    FB_CASE(OP_GT) FB_CASE(OP_GE) FB_CASE(OP_EQ) FB_CASE(OP_NE) FB_CASE(OP_AND) FB_CASE(OP_OR)
    FB_CASE(OP_NEG) FB_CASE(OP_NOT) FB_CASE(OP_ROUND)
  }
#undef FB_CASE
}

template <class T, i32 K>
FB_FN void run_points(Strip<T, K>& s, const Resolved& r, const Image* images, i32 p, i32 total) {
  for (u32 i = 0; i < r.points; ++i) {
    const Point& point = r.point[i];
    if (point.flags & FLAG_IMAGE) {
      u32 type = point.flags & FLAG_F32 ? TYPE_F32 : TYPE_U8;
      FB_UNROLL
      for (i32 k = 0; k < K; ++k) {
        typename T::i index = Iota<T>::get() + (p + k * T::lanes);
        Rgb<T> b = load_pixel<T>(images[point.image], type, min2(index, splat<T>(total - 1)));
        for (i32 c = 0; c < 3; ++c) s.c[c][k] = apply<T>(point.op, s.c[c][k], b.c[c]);
      }
    } else {
      apply_strip(s, point);
    }
  }
}

template <class T, i32 K>
FB_FN void store_strip(const Strip<T, K>& s, const Image& dest, const Pass& pass, i32 p,
                       i32 total) {
  u8* bytes = (u8*)dest.data;
  f32* floats = (f32*)dest.data;
  bool chw = pass.dest_layout == LAYOUT_CHW;
  FB_UNROLL
  for (i32 k = 0; k < K; ++k) {
    i32 first = p + k * T::lanes, n = total - first;
    if (n <= 0) return;
    n = n < T::lanes ? n : T::lanes;
    for (i32 c = 0; c < 3; ++c) {
      if (pass.dest_type == TYPE_F32) {
        typename T::f v = one_nan<T>(s.c[c][k]);
        if (chw) store_f32(floats + (u64)c * total + first, v, n);
        else scatter_f32(floats + (u64)first * 3 + c, v, n);
      } else {
        typename T::i v = to_i(s.c[c][k]);
        if (chw) store_u8(bytes + (u64)c * total + first, v, n);
        else scatter_u8(bytes + (u64)first * 3 + c, v, n);
      }
    }
  }
}

template <class T, i32 K>
FB_FN void run_strip(const AugmentArgs& args, const Resolved& r, const Image* images, i32 p) {
  i32 total = r.out_width * r.out_height;
  Strip<T, K> s;
  load_strip(s, r, images[args.pass.source], args.pass.source_type, p, total);
  run_points(s, r, images, p, total);
  store_strip(s, images[args.pass.dest], args.pass, p, total);
}

FB_FN void augment_range(const AugmentArgs& args, u32 begin, u32 end) {
  for (u32 sample = begin; sample < end; ++sample) {
    if (args.status[sample] != 0) continue;
    const Resolved& r = args.resolved[(u64)sample * args.n_passes + args.number];
    const Image* images = args.images + (u64)sample * args.n_images;
    i32 total = r.out_width * r.out_height;
    for (i32 p = 0; p < total; p += HOST_PIXELS)
      run_strip<Wide, HOST_PIXELS / Wide::lanes>(args, r, images, p);
  }
}

FB_FN void augment_thread(const AugmentArgs& args, u32 block, u32 thread, u32 threads) {
  u32 sample = block / args.tiles, tile = block % args.tiles;
  if (args.status[sample] != 0) return;
  const Resolved& r = args.resolved[(u64)sample * args.n_passes + args.number];
  const Image* images = args.images + (u64)sample * args.n_images;
  i32 total = r.out_width * r.out_height;
  i64 step = (i64)args.tiles * threads * THREAD_PIXELS;
  // A grid holds 2^31 - 1 blocks; where that is too few for the largest image, blocks go round.
  for (i64 p = ((i64)tile * threads + thread) * THREAD_PIXELS; p < total; p += step)
    run_strip<One, THREAD_PIXELS>(args, r, images, (i32)p);
}

}  // namespace FB_LEVEL

FB_ENTRY(augment, FB_LEVEL::AugmentArgs)
