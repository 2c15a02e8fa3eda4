// Long restart intervals of JPEGs to coefficients: one thread for each of their subsequences, in several launches.
#include "subsequence.cuh"

namespace FB_LEVEL {

// What a launch does: for each subsequence a first round, or a further one; for each interval its sums; for each
// subsequence what is stored.
constexpr u32 GUESS = 0, FOLLOW = 1, ADD_UP = 2;

struct SubsequenceArgs {
  const Interval* intervals;
  const u32* interval_of;  // of each subsequence, its interval
  const u8* pool;          // Forms and Codes
  const u32* before;       // of each subsequence: its link of the round before, which nobody writes meanwhile
  u32* links;              // those of this round, or else of the last
  Tally* tallies;          // of each subsequence
  u32* status;             // of an image: set where there is doubt, else left
  u32 n;                   // subsequences; ADD_UP: intervals
  u32 bytes;               // of a subsequence
  u32 step;
  u32 unused;
};
static_assert(sizeof(SubsequenceArgs) == 72 && FB_OFFSET(SubsequenceArgs, n) == 56, "");

// One round for subsequence k, `number` of its interval.
FB_FN void one_round(const SubsequenceArgs& args, const Interval& it, u32 k, u32 number) {
  bool guess = args.step == GUESS;
  u32 place = guess || number == 0 ? 0 : end_of(args.before[k - 1]);
  if (!guess && start_of(args.before[k]) == place) {
    args.links[k] = args.before[k];
    return;
  }
  Tally tally = {0, {0, 0, 0}};
  u32 next = follow(it, number, args.bytes, args.pool, place, tally);
  args.tallies[k] = tally;
  args.links[k] = link_of(place, next);
}

FB_FN void subsequence_one(const SubsequenceArgs& args, u32 k) {
  if (args.step == ADD_UP) {
    const Interval& it = args.intervals[k];
    if (!add_up(it, args.pool, args.links, args.tallies)) args.status[it.image] = 1;
    return;
  }
  Interval it = args.intervals[args.interval_of[k]];
  u32 number = k - it.first;
  if (args.step <= FOLLOW) {
    one_round(args, it, k, number);
    return;
  }
  u32 place = start_of(args.links[k]);
  if (!store(it, number, args.bytes, args.pool, place, args.tallies[k])) args.status[it.image] = 1;
}

FB_FN void subsequence_range(const SubsequenceArgs& args, u32 begin, u32 end) {
  for (u32 k = begin; k < end; ++k) subsequence_one(args, k);
}

FB_FN void subsequence_thread(const SubsequenceArgs& args, u32 block, u32 thread, u32 threads) {
  u32 at = block * threads + thread;
  if (at < args.n) subsequence_one(args, at);
}

}  // namespace FB_LEVEL

// Latency is hidden by threads beside each other, of which a large batch has enough.
FB_ENTRY(subsequence, FB_LEVEL::SubsequenceArgs, 4)
