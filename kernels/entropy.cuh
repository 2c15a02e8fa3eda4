// Entropy-coded bytes of a JPEG to coefficients: what src/decoder/own/entropy.rs does, with the same doubts, a
// thread for consecutive restart intervals of a picture. Whether an interval ends where its bits do is seen at
// its end.
#pragma once
#include "bits.cuh"

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

// What `decode_block` gives beside a last coefficient. DOUBT: the bits are not what they should be, or may not be.
// PART: the block's next code is the next subsequence's.
constexpr i32 DOUBT = -1, PART = 64;

// Decodes a block of which coefficients up to number k, in zigzag order, are decoded, -1 for none; gives its last.
// `to` gets the difference that the first is told by, which it may doubt, and values that are not the first.
template <bool CUT, class To>
FB_FN i32 decode_block(Bits<CUT>& bits, const Codes& dc, const Codes& ac, i32& k, To& to) {
  u32 entry = 0;
  if (k < 0) {
    refill(bits);
    if (is_over(bits)) return PART;
    // Each block takes bits, so that a file that ends early is left soon.
    if (bits.made_up > bits.count) return DOUBT;
    entry = entry_at<false>(dc, bits.held);
    if (entry == 0) return DOUBT;
    drop(bits, entry & 63);
    if (!to.first((i32)entry >> 16)) return DOUBT;
    k = 0;
  }
  while (k < 63) {
    refill(bits);
    if (is_over(bits)) return PART;
    entry = entry_at<true>(ac, bits.held);
    if (entry == 0) return DOUBT;
    drop(bits, entry & 63);
    if ((entry & END) != 0) return k;
    k += (i32)(entry >> 8 & 31);
    if (k > 63) return DOUBT;
    to.put(k, (i16)(entry >> 16));
  }
  // Zeros to the end of a block have a code of their own.
  return entry >> 16 != 0 ? k : DOUBT;
}

// Of each component: a block's first coefficient, or differences of such. Not an array, whose places a GPU could
// not hold in registers.
struct Firsts {
  i32 luma, cb, cr;
};

FB_FN i32 first_of(const Firsts& f, u32 component) {
  return component == 0 ? f.luma : component == 1 ? f.cb : f.cr;
}

FB_FN void set_first(Firsts& f, u32 component, i32 value) {
  f.luma = component == 0 ? value : f.luma;
  f.cb = component == 1 ? value : f.cb;
  f.cr = component == 2 ? value : f.cr;
}

// A block of a picture: its MCU, and its number there.
struct Cursor {
  u32 column, row, number;
};

// The block so many blocks behind the picture's first.
FB_FN Cursor block_at(const Form& form, u32 blocks) {
  u32 mcu = blocks / form.blocks;
  return {mcu % form.columns, mcu / form.columns, blocks % form.blocks};
}

FB_FN void advance(const Form& form, Cursor& at) {
  bool full = ++at.number == form.blocks;
  at.number = full ? 0 : at.number;
  at.column += full ? 1 : 0;
  bool turn = at.column == form.columns;
  at.column = turn ? 0 : at.column;
  at.row += turn ? 1 : 0;
}

FB_FN u32 slot_of(const Form& form, const Cursor& at) {
  const Slots& s = form.slots[at.number];
  return s.first + at.column * s.across + at.row * s.down;
}

// Blocks of an interval.
FB_FN u32 blocks_of(const Form& form, u32 interval) {
  u32 left = form.mcus - interval * form.interval;
  return (left < form.interval ? left : form.interval) * form.blocks;
}

constexpr u32 BLOCKS_A_GROUP = 16;

// A block's place in a group, and the first coefficient of its component's block before.
struct Lane {
  const u16* places;
  i16* block;
  i32 before;
  FB_MEMBER bool first(i32 difference) {
    before += difference;
    if (before < -2048 || before > 2047) return false;
    block[0] = (i16)before;
    return true;
  }
  FB_MEMBER void put(i32 k, i16 value) const { block[places[k]] = value; }
};

// Decodes the block at `at`, whose coefficients up to k are decoded, to where it belongs; gives what decode_block
// gives. `before` has the last block of each component.
template <bool CUT>
FB_FN i32 store_block(Bits<CUT>& bits, const Form& form, const u8* pool, i16* coefficients, const Cursor& at,
                      Firsts& before, i32& k) {
  u32 c = form.slots[at.number].component, slot = slot_of(form, at);
  i16* group = coefficients + (u64)(slot / BLOCKS_A_GROUP) * 64 * BLOCKS_A_GROUP;
  Lane to = {form.places, group + slot % BLOCKS_A_GROUP, first_of(before, c)};
  i32 last = decode_block(bits, *(const Codes*)(pool + form.dc[c]), *(const Codes*)(pool + form.ac[c]), k, to);
  set_first(before, c, to.before);
  return last;
}

// Whether the bits end here but for what fills the last byte up, and interval `number` with them; steps over
// its marker.
template <bool CUT> FB_FN bool end_interval(Bits<CUT>& b, u32 number, u32 intervals) {
  u32 due = number + 1 == intervals ? 0xD9u : 0xD0u + number % 8;
  i32 left = b.count - b.made_up;
  if (left < 0 || left >= 8 || b.end - b.at < 2 || b.at[0] != 0xFF || b.at[1] != due) return false;
  b.at += 2;
  b.held = 0;
  b.count = b.made_up = 0;
  return true;
}

// False: the bits are not what they should be, or may not be. What was stored by then does not count.
FB_FN bool decode_scan(const Scan& scan, const u8* pool) {
  const Form& form = *(const Form*)(pool + scan.form);
  Bits<false> bits = {scan.bytes, scan.bytes + scan.length, 0, 0, 0, 0, 0};
  Cursor at = block_at(form, scan.first * form.interval * form.blocks);
  for (u32 number = scan.first; number < scan.first + scan.count; ++number) {
    Firsts before = {0, 0, 0};
    for (u32 left = blocks_of(form, number); left > 0; --left) {
      i32 k = -1, last = store_block(bits, form, pool, scan.coefficients, at, before, k);
      if (last < 0) return false;
      u32 group = slot_of(form, at) / BLOCKS_A_GROUP;
      if (scan.last != 0 && scan.last[group] < last) scan.last[group] = (u8)last;
      advance(form, at);
    }
    if (!end_interval(bits, number, form.intervals)) return false;
  }
  return true;
}

}  // namespace FB_LEVEL
