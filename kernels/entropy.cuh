// Entropy-coded bytes of a JPEG to coefficients: what src/decoder/own/entropy.rs does, with the same doubts, a
// thread for consecutive restart intervals of a picture.
//
// The bytes are those of the file: a thread takes stuffing out as it goes and stops at a marker, behind which
// it reads zeros. Whether an interval ends where its bits do is seen at its end.
#pragma once
#include "portable.cuh"

namespace FB_LEVEL {

constexpr u32 LOOK_BITS = 10, MOST_BLOCKS = 6;

// A Huffman code as look-ups. An entry holds bits of code and value together (6), flags, the way to the
// coefficient (5, from bit 8) and its value (the upper 16).
struct Codes {
  u32 look[1 << LOOK_BITS];  // by the next bits
  u32 limits[17];            // by length: the code behind the last of that length, as the upper bits of 16
  i32 offsets[17];           // by length: what turns a code into its symbol's index
  u8 symbols[256];
};
static_assert(sizeof(Codes) == 4488 && FB_OFFSET(Codes, symbols) == 4232, "");

// Of an entry: it tells no value, for which a longer look is needed. Its value's size is then where an END and
// the first bits of a value would be; 0: not even the code is known.
constexpr u32 RARE = 1 << 6;
// The block's other coefficients are zero.
constexpr u32 END = 1 << 7;

// The slots, places for blocks, of one block of each MCU.
struct Slots {
  u32 component;
  u32 first;   // of the first MCU
  u32 across;  // from an MCU to the next
  u32 down;    // from a row of MCUs to the next
};

// What pictures with the same header share. Codes are offsets in bytes from the start of the pool.
struct Form {
  u32 dc[3], ac[3];
  u32 columns;         // of MCUs
  u32 mcus;
  u32 interval;        // MCUs of a restart interval, of which the last may have fewer
  u32 intervals;
  u32 blocks;          // of an MCU
  u32 unused;
  Slots slots[MOST_BLOCKS];
  u16 places[64];      // by zigzag order: where a coefficient of a group's first block is
};
static_assert(sizeof(Form) == 272 && FB_OFFSET(Form, places) == 144, "");

// Restart intervals that one thread decodes.
struct Scan {
  const u8* bytes;    // of the first of them, and on to the end of the file
  i16* coefficients;  // of the whole picture in groups, as idct.cu takes them: zeros before
  u8* last;           // of each group: its last coefficient, 0 before; null where several threads share groups
  u32 length;         // bytes
  u32 form;           // offset of the Form in the pool
  u32 first, count;   // intervals
  u32 image;          // whose status word tells of doubt
  u32 unused;
};
static_assert(sizeof(Scan) == 48 && FB_OFFSET(Scan, length) == 24, "");

// A place among the bits, and the next of them at hand.
struct Bits {
  const u8 *at, *end;  // bytes left
  u64 held;            // the next bits, the first of them highest
  i32 count;           // how many of those count
  i32 made_up;         // zeros among them, and before, that no byte stands for
};

// At least 32 bits: a code and its value have 27 at most.
FB_FN void refill(Bits& b) {
  while (b.count < 32) {
    u64 byte = 0;
    bool there = b.at < b.end;
    if (there) {
      byte = *b.at;
      if (byte == 0xFF) {
        there = b.end - b.at > 1 && b.at[1] == 0;
        b.at += there ? 1 : 0;
      }
    }
    b.at += there ? 1 : 0;
    b.made_up += there ? 0 : 8;
    b.held |= (there ? byte : 0) << (56 - b.count);
    b.count += 8;
  }
}

FB_FN void drop(Bits& b, u32 bits) {
  b.held <<= bits;
  b.count -= (i32)bits;
}

// What the first `size` bits stand for: those that begin with 0 are negative.
FB_FN i32 value_of(u64 held, u32 size) {
  // In two steps, since `size` may be 0.
  i32 bits = (i32)(held >> 32 >> (32 - size));
  return held >> 63 == 0 && size > 0 ? bits + 1 - (1 << size) : bits;
}

FB_FN u32 entry_of(u32 bits, u32 flags, u32 advance, i32 value) {
  return bits | flags | advance << 8 | (u32)value << 16;
}

// The entry for any code; 0: there is none, or it means nothing in a picture of 8 bits.
template <bool AC> FB_FN u32 search(const Codes& codes, u64 held) {
  u32 bits = (u32)(held >> 48), length = 1;
  while (length < 17 && bits >= codes.limits[length]) ++length;
  if (length == 17) return 0;
  u32 symbol = codes.symbols[(i32)(bits >> (16 - length)) + codes.offsets[length]];
  u32 run = symbol >> 4, size = AC ? symbol & 15 : symbol;
  if (size > (AC ? 10 : 11) || (AC && size == 0 && run != 0 && run != 15)) return 0;
  bool end = AC && symbol == 0;
  u32 advance = AC && !end ? run + 1 : 0;
  return entry_of(length + size, end ? END : 0, advance, value_of(held << length, size));
}

template <bool AC> FB_FN u32 entry_at(const Codes& codes, u64 held) {
  u32 entry = codes.look[held >> (64 - LOOK_BITS)];
  if ((entry & RARE) == 0) return entry;
  u32 size = (entry >> 4 & 8) | (entry >> 13 & 7), bits = entry & 63;
  if (size == 0) return search<AC>(codes, held);
  return entry_of(bits, 0, entry >> 8 & 31, value_of(held << (bits - size), size));
}

// Decodes a block behind one with the first coefficient `before`; gives its last coefficient in zigzag order,
// or -1: doubt.
FB_FN i32 decode_block(Bits& bits, const Codes& dc, const Codes& ac, const u16* places, i32& before,
                       i16* block) {
  refill(bits);
  // Each block takes bits, so that a file that ends early is left soon.
  if (bits.made_up > bits.count) return -1;
  u32 entry = entry_at<false>(dc, bits.held);
  if (entry == 0) return -1;
  drop(bits, entry & 63);
  before += (i32)entry >> 16;
  if (before < -2048 || before > 2047) return -1;
  block[0] = (i16)before;
  i32 k = 0;
  while (k < 63) {
    refill(bits);
    entry = entry_at<true>(ac, bits.held);
    if (entry == 0) return -1;
    drop(bits, entry & 63);
    if ((entry & END) != 0) return k;
    k += (i32)(entry >> 8 & 31);
    if (k > 63) return -1;
    block[places[k]] = (i16)(entry >> 16);
  }
  // Zeros to the end of a block have a code of their own.
  return entry >> 16 != 0 ? k : -1;
}

// Whether the bits end here but for what fills the last byte up, and interval `number` with them; steps over
// its marker.
FB_FN bool end_interval(Bits& b, u32 number, u32 intervals) {
  u32 due = number + 1 == intervals ? 0xD9u : 0xD0u + number % 8;
  i32 left = b.count - b.made_up;
  if (left < 0 || left >= 8 || b.end - b.at < 2 || b.at[0] != 0xFF || b.at[1] != due) return false;
  b = {b.at + 2, b.end, 0, 0, 0};
  return true;
}

// False: the bits are not what they should be, or may not be. What was stored by then does not count.
FB_FN bool decode_scan(const Scan& scan, const u8* pool) {
  const Form& form = *(const Form*)(pool + scan.form);
  const i32 group = 16;
  Bits bits = {scan.bytes, scan.bytes + scan.length, 0, 0, 0};
  u32 mcu = scan.first * form.interval;
  u32 row = mcu / form.columns, column = mcu % form.columns;
  for (u32 number = scan.first; number < scan.first + scan.count; ++number) {
    // Not an array, whose places a GPU could not hold in registers.
    i32 luma = 0, cb = 0, cr = 0;
    u32 end = mcu + form.interval < form.mcus ? mcu + form.interval : form.mcus;
    for (; mcu < end; ++mcu) {
      for (u32 k = 0; k < form.blocks; ++k) {
        const Slots& s = form.slots[k];
        u32 c = s.component, slot = s.first + column * s.across + row * s.down;
        const Codes& dc = *(const Codes*)(pool + form.dc[c]);
        const Codes& ac = *(const Codes*)(pool + form.ac[c]);
        i16* block = scan.coefficients + (u64)(slot / group) * 64 * group + slot % group;
        i32 before = c == 0 ? luma : c == 1 ? cb : cr;
        i32 last = decode_block(bits, dc, ac, form.places, before, block);
        if (last < 0) return false;
        luma = c == 0 ? before : luma;
        cb = c == 1 ? before : cb;
        cr = c == 2 ? before : cr;
        if (scan.last != 0 && scan.last[slot / group] < last) scan.last[slot / group] = (u8)last;
      }
      bool turn = ++column == form.columns;
      row += turn ? 1 : 0;
      column = turn ? 0 : column;
    }
    if (!end_interval(bits, number, form.intervals)) return false;
  }
  return true;
}

}  // namespace FB_LEVEL
