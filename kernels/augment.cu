// The fused pass: gather, pointwise chain, layout and dtype of the store, one pass over the pixels.
//
// Work is cut into strips of consecutive output pixels in row-major order, across row ends, which run in
// registers: a GPU thread's has 4 pixels, the host's 4 vector registers of them. Where pixels are not
// the source's in its order, a thread finds each by itself (`sample`, `resampled`), the host row by row
// (`Rows`, `Separable`).
#include "known.cuh"
#include "rows.cuh"
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

// Column and row of the pixels `p`, `p + 1`, …; past the last pixel, of the rows that would follow.
struct Place {
  i32 x, y;
  FB_MEMBER void start(i32 p, i32 width) {
    x = p % width;
    y = p / width;
  }
  FB_MEMBER void advance(i32 width) {
    x = x + 1;
    y = x >= width ? y + 1 : y;
    x = x >= width ? x - width : x;
  }
};

FB_FN void read_strip(ThreadStrip& s, const Resolved& r, const Image& source, u32 type, i32 p,
                      i32 total) {
  if (r.gather == GATHER_NONE && r.pre == 0) return load_strip(s, source, type, p, total);
  if (r.gather == GATHER_RESAMPLE) {
    FB_ROLL
    for (i32 k = 0; k < THREAD_PIXELS; ++k) {
      i32 at = min2(p + k, total - 1);
      put_next(s, resampled(r, source, type, at % r.out_width, at / r.out_width));
    }
    return;
  }
  Place at;
  at.start(p, r.out_width);
  FB_ROLL
  for (i32 k = 0; k < THREAD_PIXELS; ++k) {
    put_next(s, sample<One>(r, source, type, at.x, min2(at.y, r.out_height - 1)));
    at.advance(r.out_width);
  }
}

FB_FN void run_thread_strip(const AugmentArgs& args, const Resolved& r, const Image* images, i32 p) {
  i32 total = r.out_width * r.out_height;
  ThreadStrip s;
  read_strip(s, r, images[args.pass.source], args.pass.source_type, p, total);
  run_points(s, r, images, p, total);
  store_strip(s, images[args.pass.dest], args.pass, p, total);
}

// The host resamples in blocks of columns, with 150 KB of tables. A strip may reach beyond a row that is
// shorter than it is: what it leaves there is overwritten by the rows that follow.
template <class T>
FB_APART void run_separable(const AugmentArgs& args, const Resolved& r, const Image* images) {
  constexpr i32 step = HOST_REGISTERS * T::lanes;
  i32 total = r.out_width * r.out_height;
  Chain chain;
  build_chain(chain, r, args.pass.source_type);
  Separable<T> rows;
  rows.open(r, images[args.pass.source], args.pass.source_type);
  i32 last_block = r.out_width - rows.width;
  i32 last_strip = rows.width > step ? rows.width - step : 0;
  for (i32 x = 0; x < r.out_width; x += rows.width) {
    // The last block, and in it the last strip, ends where the row ends.
    i32 first = min2(x, last_block);
    rows.block(first);
    for (i32 y = 0; y < r.out_height; y += rows.lines) {
      rows.sum(y);
      for (i32 k = 0; k < rows.width; k += step) {
        i32 column = min2(k, last_strip), p = y * r.out_width + first + column;
        Strip<T, HOST_REGISTERS> s;
        rows.read(s, column);
        run_chain(s, chain, images, p, total);
        store_strip(s, chain.numbers, images[args.pass.dest], args.pass, p, total);
      }
    }
  }
}

template <class T>
FB_FN void resample_sample(const AugmentArgs& args, const Resolved& r, const Image* images) {
  if constexpr (T::lanes > 1) {
    if (fits_tables(r)) return run_separable<T>(args, r, images);
  }
  i32 total = r.out_width * r.out_height;
  for (i32 p = 0; p < total; p += THREAD_PIXELS) run_thread_strip(args, r, images, p);
}

// On the host: strips of the source, or of planes that are filled a chunk at a time.
template <class T>
FB_FN void augment_sample(const AugmentArgs& args, const Resolved& r, const Image* images) {
  constexpr i32 step = HOST_REGISTERS * T::lanes;
  static_assert(CHUNK % step == 0, "chunks end where strips end");
  i32 total = r.out_width * r.out_height;
  const Image& source = images[args.pass.source];
  u32 type = args.pass.source_type;
  Chain chain;
  build_chain(chain, r, type);
  Rows rows;
  begin_rows(rows, r, source, type);
  Planes<T> planes;
  for (i32 p = 0; p < total; p += step) {
    Strip<T, HOST_REGISTERS> s;
    if (rows.way == WAY_DIRECT) {
      load_strip(s, source, type, p, total);
    } else {
      i32 at = p % CHUNK;
      if (at == 0) read_rows(rows, p, min2(total - p, (i32)CHUNK), planes);
      load_strip(s, planes, at);
    }
    run_chain(s, chain, images, p, total);
    store_strip(s, chain.numbers, images[args.pass.dest], args.pass, p, total);
  }
}

template <class T = Wide>
FB_FN void augment_range(const AugmentArgs& args, u32 begin, u32 end) {
  for (u32 sample = begin; sample < end; ++sample) {
    if (args.status[sample] != 0) continue;
    const Resolved& r = args.resolved[(u64)sample * args.n_passes + args.number];
    const Image* images = args.images + (u64)sample * args.n_images;
    if (r.gather == GATHER_RESAMPLE) resample_sample<T>(args, r, images);
    else augment_sample<T>(args, r, images);
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
    run_thread_strip(args, r, images, (i32)p);
}

}  // namespace FB_LEVEL

FB_ENTRY(augment, FB_LEVEL::AugmentArgs, 4)
