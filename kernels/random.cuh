// Philox4x32-10 (Salmon, Moraes, Dror, Shaw, SC 2011) and the draws made from it. src/rng.rs has
// the same function; tests hold one against the other and both against the published vectors.
#pragma once
#include "portable.cuh"

namespace FB_LEVEL {

FB_FN void philox4x32(u32 k0, u32 k1, u32 c[4]) {
  FB_UNROLL
  for (i32 round = 0; round < 10; ++round) {
    u64 a = (u64)0xD2511F53u * c[0], b = (u64)0xCD9E8D57u * c[2];
    u32 c1 = c[1], c3 = c[3];
    c[0] = (u32)(b >> 32) ^ c1 ^ k0;
    c[1] = (u32)b;
    c[2] = (u32)(a >> 32) ^ c3 ^ k1;
    c[3] = (u32)a;
    k0 += 0x9E3779B9u;
    k1 += 0xBB67AE85u;
  }
}

// What a draw depends on: nothing else may enter.
struct DrawKey {
  u64 seed;
  u64 sample;  // below 2^48
  u32 epoch;
};

// The words of one element of one draw.
FB_FN void draw_words(const DrawKey& key, u32 draw, u32 element, u32 words[4]) {
  words[0] = (u32)key.sample;
  words[1] = ((u32)(key.sample >> 32) & 0xFFFFu) | draw << 16;
  words[2] = key.epoch;
  words[3] = element;
  philox4x32((u32)key.seed, (u32)(key.seed >> 32), words);
}

// In [0, 1), a multiple of 2^-24.
FB_FN f32 unit(u32 word) { return (f32)(word >> 8) * 5.9604644775390625e-8f; }

// 0 .. n-1, each with probability 1/n up to 2^-32.
FB_FN i32 below(u32 word, i32 n) { return (i32)((u64)word * (u64)n >> 32); }

}  // namespace FB_LEVEL
