// How the host resamples: row by row, so that a source pixel is multiplied once for each output column
// that reads it and not once for each output pixel. The values are those of `resampled`: the same
// operations in the same order.
//
// Offsets and weights along x are found once for all rows, for as many output columns as the tables
// have room for: a block. The sums along x of the source rows that an output row reads are kept, since
// the next output row reads most of them again. They are kept as they are summed, three values and one
// that does not count to a pixel, and parted into channels at the end.
#pragma once
#include "strip.cuh"
#include "taps.cuh"

namespace FB_LEVEL {

enum {
  MAX_TAPS = 64,     // of an axis: an image is shrunk to 1/32 of its sides
  MAX_COLUMNS = 512, // of a block
  TABLE = 4096,      // taps of a block's columns, and pixels of the sums that are kept
};

// Whether the tables have room. Beyond that few source pixels are read by more than one output pixel.
FB_FN bool fits_tables(const Resolved& r) {
  return r.taps_x.count <= MAX_TAPS && r.taps_y.count <= MAX_TAPS;
}

template <class T> struct Separable {
  const Resolved* r;
  Image source;
  u32 type;
  i32 width;    // output columns of a block
  i32 vectors;  // that hold a row of it
  i32 lines;    // its rows that a strip holds, at least one
  i32 held[MAX_TAPS];  // source rows whose sums along x are kept
  // For each vector of output pixels, for each of its taps: where the pixels lie in a source row, in
  // elements, and their weights, a lane each.
  i32 offsets[TABLE];
  f32 weights[TABLE * 4];
  f32 sums[TABLE * 4];
  // Output rows, one behind another, and what the last one's vectors reach beyond.
  f32 values[MAX_COLUMNS * 4 + T::lanes];

  FB_MEMBER void open(const Resolved& resolved, const Image& image, u32 source_type) {
    r = &resolved;
    source = image;
    type = source_type;
    i32 taps = r->taps_x.count > r->taps_y.count ? r->taps_x.count : r->taps_y.count;
    i32 room = TABLE / taps & ~3;  // whole vectors of any level
    room = room < MAX_COLUMNS ? room : (i32)MAX_COLUMNS;
    width = r->out_width < room ? r->out_width : room;
    vectors = (width * 4 + T::lanes - 1) / T::lanes;
    i32 strip = HOST_REGISTERS * T::lanes;
    lines = width < strip ? strip / width : 1;
    for (f32& value : values) value = 0.0f;
  }

  // The block of output columns from `first` on.
  FB_MEMBER void block(i32 first) {
    const i32 pixels = T::lanes / 4;
    i32 taps = r->taps_x.count;
    for (i32 p = 0; p < vectors * pixels; ++p) {
      i32 x = first + p < r->out_width ? first + p : r->out_width - 1, never = 0;
      Reach at = reach(r->taps_x, through<One>(r->post_x, r->post, x, never));
      f32 whole = share(r->taps_x, at);
      for (i32 k = 0; k < taps; ++k) {
        i32 entry = (p / pixels * taps + k) * pixels + p % pixels;
        offsets[entry] = column(*r, at.first + k) * 3;
        f32 w = weight(r->taps_x, at, k) * whole;
        for (i32 lane = 0; lane < 4; ++lane) weights[entry * 4 + lane] = w;
      }
    }
    for (i32& line : held) line = -1;
  }

  template <class E> FB_MEMBER void sum_along_x(f32* to, const E* line) {
    const i32* at = offsets;
    const f32* factors = weights;
    const i32 taps = r->taps_x.count;
    for (i32 v = vectors; v > 0; --v) {
      typename T::f sum = splat<T>(empty_sum());
      for (i32 k = 0; k < taps; ++k) {
        typename T::f w;
        memcpy(&w, factors, sizeof w);
        sum = sum + Quads<T>::load(line, at) * w;
        at += T::lanes / 4;
        factors += T::lanes;
      }
      memcpy(to, &sum, sizeof sum);
      to += T::lanes;
    }
  }

  // The sums along x of source row `line`. An output row reads consecutive rows of the view, which are
  // consecutive source rows, so that no two of them have one place.
  FB_MEMBER const f32* sums_of(i32 line) {
    i32 place = line % r->taps_y.count;
    f32* to = sums + place * vectors * T::lanes;
    if (held[place] == line) return to;
    held[place] = line;
    u64 start = (u64)line * (u64)r->source_width * 3;
    if (type == TYPE_U8) sum_along_x(to, (const u8*)source.data + start);
    else sum_along_x(to, (const f32*)source.data + start);
    return to;
  }

  FB_MEMBER void sum_along_y(f32* to, i32 y) {
    const f32* line[MAX_TAPS];
    f32 w[MAX_TAPS];
    i32 taps = r->taps_y.count, never = 0;
    Reach at = reach(r->taps_y, through<One>(r->post_y, r->post, y, never));
    f32 whole = share(r->taps_y, at);
    for (i32 k = 0; k < taps; ++k) {
      line[k] = sums_of(row(*r, at.first + k));
      w[k] = weight(r->taps_y, at, k) * whole;
    }
    for (i32 v = 0; v < vectors; ++v) {
      typename T::f sum = splat<T>(empty_sum());
      for (i32 k = 0; k < taps; ++k) {
        typename T::f value;
        memcpy(&value, line[k] + v * T::lanes, sizeof value);
        sum = sum + value * w[k];
      }
      memcpy(to + v * T::lanes, &sum, sizeof sum);
    }
  }

  // The output row `y` of the block, and those behind it that the same strip holds.
  FB_MEMBER void sum(i32 y) {
    for (i32 k = 0; k < lines && y + k < r->out_height; ++k)
      sum_along_y(values + k * width * 4, y + k);
  }

  // Pixels `p`, `p + 1`, … of what was summed; past the last one, what was there before.
  template <i32 K> FB_MEMBER void read(Strip<T, K>& s, i32 p) {
    for (i32 k = 0; k < K; ++k)
      for (i32 c = 0; c < 3; ++c)
        s.c[c][k] = Quads<T>::channel(values + (p + k * T::lanes) * 4, c);
  }
};

}  // namespace FB_LEVEL
