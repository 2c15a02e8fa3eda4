// The fused pass: gather, pointwise chain, layout and dtype of the store, one pass over the pixels.
//
// Work is cut into strips of consecutive output pixels in row-major order, across row ends. A GPU
// thread runs a strip of 4 in registers, the host one of 64; both through `run_strip`.
#include "separable.cuh"

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
    // One lane is past the row's end by one pixel at most.
    if (T::lanes == 1) next_row(width);
    else
      while (any(x >= width)) next_row(width);
  }
  FB_MEMBER void next_row(i32 width) {
    y = x >= width ? y + 1 : y;
    x = x >= width ? x - width : x;
  }
};

template <class T, i32 K>
FB_FN void read_strip(Strip<T, K>& s, const Resolved& r, const Image& source, u32 type, i32 p,
                      i32 total) {
  if (r.gather == GATHER_NONE && r.pre == 0) return load_strip(s, source, type, p, total);
  Places<T> at;
  at.start(p, r.out_width);
  FB_ROLL
  for (i32 k = 0; k < K; ++k) {
    put_next(s, k, sample<T>(r, source, type, at.x, min2(at.y, splat<T>(r.out_height - 1))));
    at.advance(r.out_width);
  }
}

// A thread finds resampled pixels one by one.
FB_FN void read_strip(ThreadStrip& s, const Resolved& r, const Image& source, u32 type, i32 p,
                      i32 total) {
  if (r.gather != GATHER_RESAMPLE)
    return read_strip<One, THREAD_PIXELS>(s, r, source, type, p, total);
  FB_ROLL
  for (i32 k = 0; k < THREAD_PIXELS; ++k) {
    i32 at = min2(p + k, total - 1);
    put_next(s, k, resampled(r, source, type, at % r.out_width, at / r.out_width));
  }
}

// The second operand of an operation: three values for all pixels.
template <class T> struct Same {
  typename T::f c[3];
  FB_MEMBER typename T::f at(i32 channel, i32) const { return c[channel]; }
};

// The same operation on every pixel: the choice is made once a strip.
template <class T, i32 K, class Operand>
FB_FN void apply_strip(Strip<T, K>& s, u32 op, const Operand& b) {
#define FB_CASE(OP)                                                                             \
  case OP:                                                                                      \
    FB_UNROLL                                                                                   \
    for (i32 k = 0; k < K; ++k)                                                                 \
      for (i32 c = 0; c < 3; ++c) s.c[c][k] = apply<T>(OP, s.c[c][k], b.at(c, k));              \
    break;
  switch (op) {
    FB_CASE(OP_ADD) FB_CASE(OP_SUB) FB_CASE(OP_RSUB) FB_CASE(OP_MUL) FB_CASE(OP_DIV)
    FB_CASE(OP_RDIV) FB_CASE(OP_MIN) FB_CASE(OP_MAX) FB_CASE(OP_LT) FB_CASE(OP_LE)
    FB_CASE(OP_GT) FB_CASE(OP_GE) FB_CASE(OP_EQ) FB_CASE(OP_NE) FB_CASE(OP_AND) FB_CASE(OP_OR)
    FB_CASE(OP_NEG) FB_CASE(OP_NOT) FB_CASE(OP_ROUND)
  }
#undef FB_CASE
}

// The same with a stored image: on the host vector by vector, since a second strip does not fit into
// its registers.
template <class T, i32 K>
FB_FN void apply_image(Strip<T, K>& s, u32 op, const Image& image, u32 type, i32 p, i32 total) {
  for (i32 k = 0; k < K; ++k) {
    typename T::i index = Iota<T>::get() + (p + k * T::lanes);
    Rgb<T> b = load_pixel<T>(image, type, min2(index, splat<T>(total - 1)));
    for (i32 c = 0; c < 3; ++c) s.c[c][k] = apply<T>(op, s.c[c][k], b.c[c]);
  }
}
FB_FN void apply_image(ThreadStrip& s, u32 op, const Image& image, u32 type, i32 p, i32 total) {
  ThreadStrip b;
  load_strip(b, image, type, p, total);
  apply_strip(s, op, b);
}

template <class T, i32 K>
FB_FN void run_points(Strip<T, K>& s, const Resolved& r, const Image* images, i32 p, i32 total) {
  for (u32 i = 0; i < r.points; ++i) {
    const Point& point = r.point[i];
    if (point.flags & FLAG_IMAGE) {
      u32 type = point.flags & FLAG_F32 ? TYPE_F32 : TYPE_U8;
      apply_image(s, point.op, images[point.image], type, p, total);
    } else {
      Same<T> b;
      for (i32 c = 0; c < 3; ++c) b.c[c] = splat<T>(point.value[c]);
      apply_strip(s, point.op, b);
    }
  }
}

template <class T, i32 K>
FB_FN void run_strip(const AugmentArgs& args, const Resolved& r, const Image* images, i32 p) {
  i32 total = r.out_width * r.out_height;
  Strip<T, K> s;
  read_strip(s, r, images[args.pass.source], args.pass.source_type, p, total);
  run_points(s, r, images, p, total);
  store_strip(s, images[args.pass.dest], args.pass, p, total);
}

// The host resamples in blocks of columns, with 150 KB of tables. A strip may reach beyond a row that is shorter than it is:
// what it leaves there is overwritten by the rows that follow.
template <class T>
FB_APART void run_rows(const AugmentArgs& args, const Resolved& r, const Image* images) {
  constexpr i32 K = HOST_PIXELS / T::lanes;
  i32 total = r.out_width * r.out_height;
  Separable<T> rows;
  rows.open(r, images[args.pass.source], args.pass.source_type);
  i32 last_block = r.out_width - rows.width;
  i32 last_strip = rows.width > HOST_PIXELS ? rows.width - HOST_PIXELS : 0;
  for (i32 x = 0; x < r.out_width; x += rows.width) {
    // The last block, and in it the last strip, ends where the row ends.
    i32 first = x < last_block ? x : last_block;
    rows.block(first);
    for (i32 y = 0; y < r.out_height; y += rows.lines) {
      rows.sum(y);
      for (i32 k = 0; k < rows.width; k += HOST_PIXELS) {
        i32 column = k < last_strip ? k : last_strip, p = y * r.out_width + first + column;
        Strip<T, K> s;
        rows.read(s, column);
        run_points(s, r, images, p, total);
        store_strip(s, images[args.pass.dest], args.pass, p, total);
      }
    }
  }
}

template <class T>
FB_FN void run_image(const AugmentArgs& args, const Resolved& r, const Image* images) {
  i32 total = r.out_width * r.out_height;
  if (r.gather != GATHER_RESAMPLE) {
    for (i32 p = 0; p < total; p += HOST_PIXELS)
      run_strip<T, HOST_PIXELS / T::lanes>(args, r, images, p);
    return;
  }
  if constexpr (T::lanes > 1) {
    if (fits_rows(r)) return run_rows<T>(args, r, images);
  }
  for (i32 p = 0; p < total; p += THREAD_PIXELS)
    run_strip<One, THREAD_PIXELS>(args, r, images, p);
}

FB_FN void augment_range(const AugmentArgs& args, u32 begin, u32 end) {
  for (u32 sample = begin; sample < end; ++sample) {
    if (args.status[sample] != 0) continue;
    const Resolved& r = args.resolved[(u64)sample * args.n_passes + args.number];
    run_image<Wide>(args, r, args.images + (u64)sample * args.n_images);
  }
}

FB_FN void augment_thread(const AugmentArgs& args, u32 block, u32 thread, u32 threads) {
  u32 sample = block / args.tiles, tile = block % args.tiles;
  if (args.status[sample] != 0) return;
  const Resolved& r = args.resolved[(u64)sample * args.n_passes + args.number];
  const Image* images = args.images + (u64)sample * args.n_images;
  i32 total = r.out_width * r.out_height;
  // A grid holds 2^31 - 1 blocks; where that is too few for the largest image, blocks go round.
  u32 step = args.tiles * threads * THREAD_PIXELS;
  for (u32 p = (tile * threads + thread) * THREAD_PIXELS; p < (u32)total; p += step)
    run_strip<One, THREAD_PIXELS>(args, r, images, (i32)p);
}

}  // namespace FB_LEVEL

FB_ENTRY(augment, FB_LEVEL::AugmentArgs)
