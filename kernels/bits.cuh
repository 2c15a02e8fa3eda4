// Entropy-coded bytes of a JPEG as bits. The bytes are those of the file: stuffing is taken out on the way, and at
// a marker reading stops and zeros are made up.
#pragma once
#include "portable.cuh"

namespace FB_LEVEL {

// A place among the bits, and the next of them at hand. CUT: it is of a subsequence, in which no code begins
// from `stop` on, though its last may end there.
template <bool CUT> struct Bits {
  const u8 *at, *end;  // bytes left
  u64 held;            // the next bits, the first of them highest
  i32 count;           // how many of those count
  i32 made_up;         // zeros among them, and before, that no byte stands for
  const u8* stop;      // CUT: where the next subsequence begins
  i32 beyond;          // CUT: bits among them, and before, that are made up or from `stop` on
};

// Takes four bytes at once, if they are there and no marker or stuffing is among them.
template <bool CUT> FB_FN bool take4(Bits<CUT>& b) {
  if (b.end - b.at < 4) return false;
  u32 word = (u32)b.at[0] << 24 | (u32)b.at[1] << 16 | (u32)b.at[2] << 8 | (u32)b.at[3];
  // A byte of ones, which borrows where they are zeros.
  if (((~word - 0x01010101u) & word & 0x80808080u) != 0) return false;
  b.at += 4;
  b.held |= (u64)word << (32 - b.count);
  b.count += 32;
  if (CUT && b.at > b.stop) b.beyond += b.at - b.stop < 4 ? (i32)(b.at - b.stop) * 8 : 32;
  return true;
}

// At least 32 bits: a code and its value have 27 at most.
template <bool CUT> FB_FN void refill(Bits<CUT>& b) {
  if (b.count >= 32 || take4(b)) return;
  while (b.count < 32) {
    u64 byte = 0;
    bool there = b.at < b.end, beyond = CUT && b.at >= b.stop;
    if (there) {
      byte = *b.at;
      if (byte == 0xFF) {
        there = b.end - b.at > 1 && b.at[1] == 0;
        b.at += there ? 1 : 0;
      }
    }
    b.at += there ? 1 : 0;
    b.made_up += there ? 0 : 8;
    if (CUT) b.beyond += there && !beyond ? 0 : 8;
    b.held |= (there ? byte : 0) << (56 - b.count);
    b.count += 8;
  }
}

template <bool CUT> FB_FN void drop(Bits<CUT>& b, u32 bits) {
  b.held <<= bits;
  b.count -= (i32)bits;
}

// Whether the next bit is the next subsequence's. Behind a refill only: else that bit may not be at hand.
template <bool CUT> FB_FN bool is_over(const Bits<CUT>& b) { return CUT && b.count <= b.beyond; }

// What the first `size` bits stand for: those that begin with 0 are negative.
FB_FN i32 value_of(u64 held, u32 size) {
  // In two steps, since `size` may be 0.
  i32 bits = (i32)(held >> 32 >> (32 - size));
  return held >> 63 == 0 && size > 0 ? bits + 1 - (1 << size) : bits;
}

}  // namespace FB_LEVEL
