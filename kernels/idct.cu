// Groups of sixteen blocks of coefficients to samples in planes.
#include "idct.cuh"

namespace FB_LEVEL {

struct IdctArgs {
  const i16* coefficients;  // n groups of 64 * GROUP: coefficient k of block b at k * GROUP + b
  const i16* quantisation;  // 64 * GROUP, by the same order; at most 8,191 each
  u8* planes;
  const i32* places;        // GROUP a group: of each block's first sample, in bytes from `planes`
  const u8* last;           // of each group: its last coefficient that is not 0, in zigzag order
  u32* doubt;               // set where a block is beyond what is sure to equal libjpeg's, else left
  u32 n;
  i32 stride;               // from a row of samples to the next, in bytes
  u32 paired;               // not 0: blocks 2k and 2k + 1 of a group lie beside each other
  u32 lanes;                // blocks of the last group, whose others do not count
  u32 side;                 // samples of a block's row and column: 8, 4, 2 or 1
  u32 unused;
};
static_assert(sizeof(IdctArgs) == 72 && FB_OFFSET(IdctArgs, places) == 24, "");
static_assert(FB_OFFSET(IdctArgs, doubt) == 40 && FB_OFFSET(IdctArgs, stride) == 52, "");
static_assert(FB_OFFSET(IdctArgs, side) == 64, "");

// The blocks of `group` from lane `lane` on.
FB_FN Blocks blocks_of(const IdctArgs& args, u32 group, u32 lane) {
  u64 first = (u64)group * GROUP;
  return {args.coefficients + first * 64 + lane, args.quantisation + lane, args.planes,
          args.places + first + lane, args.stride, args.paired != 0};
}

FB_FN u32 lanes_of(const IdctArgs& args, u32 group) {
  return group + 1 == args.n ? args.lanes : (u32)GROUP;
}

FB_FN void idct_range(const IdctArgs& args, u32 begin, u32 end) {
  for (u32 group = begin; group < end; ++group)
    for (u32 lane = 0; lane < lanes_of(args, group); lane += Wide::lanes)
      if (!reconstruct<Wide>(blocks_of(args, group, lane), args.side, args.last[group])) *args.doubt = 1;
}

FB_FN void idct_thread(const IdctArgs& args, u32 block, u32 thread, u32 threads) {
  u32 at = block * threads + thread, group = at / GROUP;
  if (group >= args.n || at % GROUP >= lanes_of(args, group)) return;
  if (!reconstruct<One>(blocks_of(args, group, at % GROUP), args.side, args.last[group])) *args.doubt = 1;
}

}  // namespace FB_LEVEL

FB_ENTRY(idct, FB_LEVEL::IdctArgs, 3)
