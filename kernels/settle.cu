// What a GPU's decoder left of each image: a check that it wrote the image at all, and the turn that
// stands it upright (EXIF orientation), as src/decoder/orient.rs turns it on the CPU.
//
// Places are filled with a pattern before each decode. A place of 16 bytes that still holds it was
// not written; 16 of them are looked at, from the image's first byte to its last.
#include "program.cuh"

namespace FB_LEVEL {

// A decoded image: dense RGB of u8.
struct Decoded {
  u64 from;            // as stored: where the decoder wrote it, a multiple of 4
  u64 to;              // upright: where `augment` reads it; `from` itself where nothing is turned
  i32 width, height;   // as stored
  u32 turn;            // EXIF orientation, 1 to 8
  u32 sample;          // whose status word tells
};
static_assert(sizeof(Decoded) == 32 && FB_OFFSET(Decoded, from) == 0, "");
static_assert(FB_OFFSET(Decoded, to) == 8 && FB_OFFSET(Decoded, width) == 16, "");
static_assert(FB_OFFSET(Decoded, height) == 20 && FB_OFFSET(Decoded, turn) == 24, "");
static_assert(FB_OFFSET(Decoded, sample) == 28, "");

struct SettleArgs {
  const Decoded* decoded;  // n of them
  u32* status;             // of a sample: set where its image was not written, else left
  u32 n;
  u32 tiles;               // grid only: blocks that one image gets, at least 1
  u32 pattern;             // repeated from `from` on
  u32 unused;
};
static_assert(sizeof(SettleArgs) == 32 && FB_OFFSET(SettleArgs, decoded) == 0, "");
static_assert(FB_OFFSET(SettleArgs, status) == 8 && FB_OFFSET(SettleArgs, n) == 16, "");
static_assert(FB_OFFSET(SettleArgs, tiles) == 20 && FB_OFFSET(SettleArgs, pattern) == 24, "");

enum { SPOTS = 16, SPOT_BYTES = 16, SETTLE_PIXELS = 4 };

// Whether spot `k` of the image is all pattern.
FB_FN bool untouched(const Decoded& d, u32 k, u32 pattern) {
  u32 bytes = (u32)d.width * (u32)d.height * 3;
  u32 length = bytes < SPOT_BYTES ? bytes : (u32)SPOT_BYTES;
  u32 start = (u32)((u64)(bytes - length) * k / (SPOTS - 1));
  const u8* base = (const u8*)d.from;
  bool same = true;
  for (u32 j = start; j < start + length; ++j)
    same = same && base[j] == (u8)(pattern >> 8 * (j & 3));
  return same;
}

// Pixels `p` to `p + 3` of the upright image. Pixel (x, y) of it is pixel (u, v) of the stored one:
// axes exchanged, then mirrored.
FB_FN void turn_strip(const Decoded& d, i32 p, i32 total) {
  u32 t = d.turn;
  bool swap = t >= 5, flip_x = t == 2 || t == 3 || t == 7 || t == 8;
  bool flip_y = t == 3 || t == 4 || t == 6 || t == 7;
  i32 width = swap ? d.height : d.width;
  i32 x = p % width, y = p / width;
  for (i32 k = p; k < p + SETTLE_PIXELS && k < total; ++k) {
    i32 u = swap ? y : x, v = swap ? x : y;
    u = flip_x ? d.width - 1 - u : u;
    v = flip_y ? d.height - 1 - v : v;
    const u8* from = (const u8*)d.from + ((u64)v * d.width + u) * 3;
    u8* to = (u8*)d.to + (u64)k * 3;
    for (i32 c = 0; c < 3; ++c) to[c] = from[c];
    bool last = ++x == width;
    y = last ? y + 1 : y;
    x = last ? 0 : x;
  }
}

FB_FN void settle_range(const SettleArgs& args, u32 begin, u32 end) {
  for (u32 image = begin; image < end; ++image) {
    const Decoded& d = args.decoded[image];
    for (u32 k = 0; k < SPOTS; ++k)
      if (untouched(d, k, args.pattern)) args.status[d.sample] = FAULT_UNWRITTEN << 16;
    i32 total = d.width * d.height;
    for (i32 p = 0; p < total && d.turn != 1; p += SETTLE_PIXELS) turn_strip(d, p, total);
  }
}

FB_FN void settle_thread(const SettleArgs& args, u32 block, u32 thread, u32 threads) {
  u32 image = block / args.tiles, tile = block % args.tiles;
  const Decoded& d = args.decoded[image];
  for (u32 k = thread; k < SPOTS && tile == 0; k += threads)
    if (untouched(d, k, args.pattern)) args.status[d.sample] = FAULT_UNWRITTEN << 16;
  if (d.turn == 1) return;
  u32 total = (u32)d.width * (u32)d.height, step = args.tiles * threads * SETTLE_PIXELS;
  for (u32 p = (tile * threads + thread) * SETTLE_PIXELS; p < total; p += step)
    turn_strip(d, (i32)p, (i32)total);
}

}  // namespace FB_LEVEL

FB_ENTRY(settle, FB_LEVEL::SettleArgs, 4)
