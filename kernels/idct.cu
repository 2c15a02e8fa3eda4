// Groups of sixteen blocks of coefficients to samples in planes.

// A group's 64 vectors go through memory for want of registers: of sixteen lanes, twice as much of it, which
// costs more than half as many instructions save.
#define FB_FEW_LANES
#include "idct.cuh"

namespace FB_LEVEL {

// Groups that are transformed alike: one component's of a picture, or both chroma components'.
struct Run {
  const i16* coefficients;  // groups of 64 * GROUP: coefficient k of block b at k * GROUP + b
  const i16* quantisation;  // 64 * GROUP, by the same order; at most 8,191 each
  u8* planes;
  const i32* places;        // GROUP a group: of each block's first sample, in bytes from `planes`
  const u8* last;           // of each group: its last coefficient that is not 0, in zigzag order
  u32 first;                // grid only: groups of the runs before
  u32 groups;
  i32 stride;               // from a row of samples to the next, in bytes
  u32 paired;               // not 0: blocks 2k and 2k + 1 of a group lie beside each other
  u32 lanes;                // blocks of the last group, whose others do not count
  u32 side;                 // samples of a block's row and column: 8, 4, 2 or 1
  u32 image;                // whose status word tells of doubt
  u32 unused;
};
static_assert(sizeof(Run) == 72 && FB_OFFSET(Run, places) == 24, "");
static_assert(FB_OFFSET(Run, first) == 40 && FB_OFFSET(Run, image) == 64, "");

struct IdctArgs {
  const Run* runs;
  const u32* run_of;  // grid only: of each group, its run
  u32* status;        // of an image: set where a block is beyond what is sure to equal libjpeg's, else left
  u32 n;              // grid only: groups of all runs
  u32 unused;
};
static_assert(sizeof(IdctArgs) == 32 && FB_OFFSET(IdctArgs, status) == 16, "");
static_assert(FB_OFFSET(IdctArgs, n) == 24, "");

// The blocks of `group` from lane `lane` on.
FB_FN Blocks blocks_of(const Run& run, u32 group, u32 lane) {
  u64 first = (u64)group * GROUP;
  return {run.coefficients + first * 64 + lane, run.quantisation + lane, run.planes,
          run.places + first + lane, run.stride, run.paired != 0};
}

FB_FN u32 lanes_of(const Run& run, u32 group) {
  return group + 1 == run.groups ? run.lanes : (u32)GROUP;
}

FB_FN void idct_range(const IdctArgs& args, u32 begin, u32 end) {
  for (u32 k = begin; k < end; ++k) {
    // A copy, which stores of samples cannot change: else each group would read it again.
    Run run = args.runs[k];
    for (u32 group = 0; group < run.groups; ++group)
      for (u32 lane = 0; lane < lanes_of(run, group); lane += Wide::lanes)
        if (!reconstruct<Wide>(blocks_of(run, group, lane), run.side, run.last[group]))
          args.status[run.image] = 1;
  }
}

FB_FN void idct_thread(const IdctArgs& args, u32 block, u32 thread, u32 threads) {
  u32 at = block * threads + thread, lane = at % GROUP;
  if (at / GROUP >= args.n) return;
  const Run& run = args.runs[args.run_of[at / GROUP]];
  u32 group = at / GROUP - run.first;
  if (lane >= lanes_of(run, group)) return;
  u32 image = run.image;
  if (!reconstruct<One>(blocks_of(run, group, lane), run.side, run.last[group])) args.status[image] = 1;
}

}  // namespace FB_LEVEL

FB_ENTRY(idct, FB_LEVEL::IdctArgs, 3)
