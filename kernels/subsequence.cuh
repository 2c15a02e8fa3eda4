// Restart intervals, or whole scans, that are too long for one thread: a thread for each subsequence of some bytes,
// after Weissenberger and Schmidt, "Accelerating JPEG Decompression on GPUs", ICPP 2021.
//
// Where a subsequence's first code begins, and in which block, only the one before can tell. But a decoder that
// starts at a wrong place comes to a right one soon and by chance, and is right from there on. So in the first
// round all are decoded from a guess, and in each further one from where the one before ended a round ago; one
// whose start has not changed keeps what it has. If at last each starts where the one before ends, back to the
// interval's first, then all starts are true. Now blocks and differences of first coefficients are added up, and
// each is decoded once more to where its coefficients belong.
//
// Threads wait for each other by launches alone, and write what no other thread of the launch reads, so that the
// result does not depend on their order. A block that two subsequences share needs no care: each stores the
// coefficients whose codes begin in it.
#pragma once
#include "entropy.cuh"

namespace FB_LEVEL {

// A restart interval that is cut.
struct Interval {
  const u8* bytes;    // its first, and on to the end of the file
  i16* coefficients;  // of the whole picture, as Scan has them
  u32 length;         // bytes
  u32 form;           // offset of the Form in the pool
  u32 number;         // among the picture's intervals
  u32 first, count;   // subsequences; each but the first begins before `length`
  u32 image;          // whose status word tells of doubt
};
static_assert(sizeof(Interval) == 40 && FB_OFFSET(Interval, length) == 16, "");

// Of a subsequence: blocks that end in it, and differences of first coefficients added up. Once those of an
// interval are added up: of all subsequences before it.
struct Tally {
  u32 blocks;
  Firsts differences;
};
static_assert(sizeof(Tally) == 16, "");

// Where a subsequence's first code begins: bits from the subsequence's own first (5), block of the MCU (3, from bit
// 5), and coefficients of the block that come before (6, from bit 8). An interval begins at 0.
FB_FN u32 place_of(u32 bits, u32 block, i32 k) { return bits | block << 5 | (u32)(k + 1) << 8; }
FB_FN u32 block_of(u32 place) { return place >> 5 & 7; }
FB_FN i32 coefficient_of(u32 place) { return (i32)(place >> 8) - 1; }

// A subsequence's place, and in the upper half the place of the one behind it.
FB_FN u32 link_of(u32 place, u32 next) { return place | next << 16; }
FB_FN u32 start_of(u32 link) { return link & 0xFFFF; }
FB_FN u32 end_of(u32 link) { return link >> 16; }

// The bits of subsequence `number` from `place` on.
FB_FN Bits<true> bits_from(const Interval& it, u32 number, u32 bytes, u32 place) {
  u64 skipped = (u64)number * bytes, left = it.length - skipped;
  const u8* at = it.bytes + skipped;
  const u8* stop = at + (left < bytes ? left : bytes);
  // What is stuffed belongs to the byte before.
  bool stuffed = number > 0 && at[-1] == 0xFF && at[0] == 0;
  Bits<true> bits = {at + (stuffed ? 1 : 0), it.bytes + it.length, 0, 0, 0, stop, 0};
  refill(bits);
  drop(bits, place & 31);
  return bits;
}

// The last difference of first coefficients.
struct Difference {
  i32 value;
  FB_MEMBER bool first(i32 difference) {
    value = difference;
    return true;
  }
  FB_MEMBER void put(i32, i16) const {}
};

// Decodes a subsequence from `place` on, wherever that is, and gives the place of the next.
FB_FN u32 follow(const Interval& it, u32 number, u32 bytes, const u8* pool, u32 place, Tally& tally) {
  const Form& form = *(const Form*)(pool + it.form);
  Bits<true> bits = bits_from(it, number, bytes, place);
  u32 block = block_of(place);
  i32 k = coefficient_of(place);
  for (;;) {
    u32 c = form.slots[block].component;
    Difference to = {0};
    i32 last =
        decode_block(bits, *(const Codes*)(pool + form.dc[c]), *(const Codes*)(pool + form.ac[c]), k, to);
    set_first(tally.differences, c, first_of(tally.differences, c) + to.value);
    if (last == PART) break;
    // From a true place, `store` finds the same, and that is doubt. From another, the next bit may begin a code.
    if (last == DOUBT) drop(bits, 1);
    tally.blocks += 1;
    k = -1;
    block = block + 1 == form.blocks ? 0 : block + 1;
  }
  return place_of((u32)(bits.beyond - bits.count), block, k);
}

// Adds up the tallies of an interval's subsequences. False: it does not have its blocks, or that is not settled.
FB_FN bool add_up(const Interval& it, const u8* pool, const u32* links, Tally* tallies) {
  u32 total = blocks_of(*(const Form*)(pool + it.form), it.number);
  Tally sum = {0, {0, 0, 0}};
  u32 place = 0;
  for (u32 k = it.first; k < it.first + it.count; ++k) {
    Tally one = tallies[k];
    tallies[k] = sum;
    // What lies behind the interval's end may be anything.
    if (sum.blocks >= total) continue;
    if (start_of(links[k]) != place) return false;
    place = end_of(links[k]);
    sum.blocks += one.blocks;
    sum.differences.luma += one.differences.luma;
    sum.differences.cb += one.differences.cb;
    sum.differences.cr += one.differences.cr;
  }
  return sum.blocks >= total;
}

// Decodes a subsequence from its true place on, with what is before it, and stores its coefficients. False: the
// bits are not what they should be, or may not be. From any other place, and behind anything else, it stores
// something within the interval.
FB_FN bool store(const Interval& it, u32 number, u32 bytes, const u8* pool, u32 place, const Tally& before) {
  const Form& form = *(const Form*)(pool + it.form);
  u32 done = before.blocks, total = blocks_of(form, it.number);
  if (done >= total) return true;
  Bits<true> bits = bits_from(it, number, bytes, place);
  Firsts firsts = before.differences;
  Cursor at = block_at(form, it.number * form.interval * form.blocks + done);
  for (i32 k = coefficient_of(place); done < total; k = -1) {
    i32 last = store_block(bits, form, pool, it.coefficients, at, firsts, k);
    // Before a subsequence's end there is one only where a marker is.
    if (last == PART) return bits.at >= bits.stop;
    if (last == DOUBT) return false;
    advance(form, at);
    done += 1;
  }
  return end_interval(bits, it.number, form.intervals);
}

}  // namespace FB_LEVEL
