// Entropy-coded bytes of JPEGs to coefficients: one thread for a small picture, or for each restart interval of
// a larger one.
#include "entropy.cuh"

namespace FB_LEVEL {

struct EntropyArgs {
  const Scan* scans;  // n of them
  const u8* pool;     // Forms and Codes
  u32* status;        // of an image: set where there is doubt, else left
  u32 n, unused;
};
static_assert(sizeof(EntropyArgs) == 32 && FB_OFFSET(EntropyArgs, n) == 24, "");

FB_FN void entropy_range(const EntropyArgs& args, u32 begin, u32 end) {
  for (u32 k = begin; k < end; ++k)
    if (!decode_scan(args.scans[k], args.pool)) args.status[args.scans[k].image] = 1;
}

FB_FN void entropy_thread(const EntropyArgs& args, u32 block, u32 thread, u32 threads) {
  u32 at = block * threads + thread;
  if (at < args.n) entropy_range(args, at, at + 1);
}

}  // namespace FB_LEVEL

// As few threads as the pictures of a batch leave most of a chip idle.
FB_ENTRY(entropy, FB_LEVEL::EntropyArgs, 4)
