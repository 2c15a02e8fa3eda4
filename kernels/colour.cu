// Planes of samples to pictures in RGB.
#include "colour.cuh"

namespace FB_LEVEL {

struct ColourArgs {
  const Picture* pictures;  // n of them
  u32 n;
  u32 tiles;                // grid only: blocks that one picture gets, at least 1
};
static_assert(sizeof(ColourArgs) == 16 && FB_OFFSET(ColourArgs, tiles) == 12, "");

struct AllRows {
  template <class S> FB_MEMBER void run(const Picture& p) const {
    for (i32 y = p.begin; y < p.end; ++y)
      for (i32 i = p.left / 2; 2 * i < p.right; i += S::pairs) S::strip(p, y, i);
  }
};

// Every `step`th pair, from `first` on.
struct SomePairs {
  u32 first, step;
  template <class S> FB_MEMBER void run(const Picture& p) const {
    u32 left = (u32)p.left / 2, row = (u32)(p.right + 1) / 2 - left;
    u32 total = row * (u32)(p.end - p.begin);
    for (u32 at = first; at < total; at += step)
      S::strip(p, p.begin + (i32)(at / row), (i32)(left + at % row));
  }
};

FB_FN void colour_range(const ColourArgs& args, u32 begin, u32 end) {
  for (u32 k = begin; k < end; ++k) {
    // A copy, which stores of pixels cannot change: else each strip would read it again.
    Picture picture = args.pictures[k];
    with_strip<Wide>(picture, AllRows{});
  }
}

FB_FN void colour_thread(const ColourArgs& args, u32 block, u32 thread, u32 threads) {
  u32 first = block % args.tiles * threads + thread;
  with_strip<One>(args.pictures[block / args.tiles], SomePairs{first, args.tiles * threads});
}

}  // namespace FB_LEVEL

FB_ENTRY(colour, FB_LEVEL::ColourArgs, 4)
