// What only the host has, against the plain way to the same: division by a known number, chains of
// which something is known, composed crops and flips, and the moves between pixels and planes.
// Prints the figures it saw; the exit status says whether all held.
#include "known.cuh"
#include "rows.cuh"

#include <math.h>
#include <stdio.h>

using namespace FB_LEVEL;

static int failures = 0;

#define CHECK(condition, ...)                                       \
  do {                                                              \
    if (!(condition) && ++failures <= 20) {                         \
      printf("FAILED line %d: %s: ", __LINE__, #condition);         \
      printf(__VA_ARGS__);                                          \
      printf("\n");                                                 \
    }                                                               \
  } while (0)

static u32 word() {
  static u32 count = 0;
  u32 c[4] = {count++, 0, 0, 0};
  philox4x32(11, 0, c);
  return c[0];
}
static i32 up_to(i32 most) { return below(word(), most + 1); }

// Dividends from `first` on, in the order of their bits, `count` of them.
static void quotients(f32 b, f32 first, u32 count, u32 stride) {
  Wide::i lane = Iota<Wide>::get(), wrong = {};
  Wide::f divisor = splat<Wide>(b), inverse = splat<Wide>(1.0f / b);
  for (u32 k = 0; k < count; k += Wide::lanes * stride) {
    Wide::i bits = lane + (i32)(bits_of(first) + k);
    Wide::f a;
    memcpy(&a, &bits, sizeof a);
    wrong |= divide_by(a, divisor, inverse) != a / divisor;
    wrong |= divide_by(-a, divisor, inverse) != -a / divisor;
  }
  CHECK(!any(wrong), "some dividend from %a on by %a", first, b);
}

// All mantissas of a dividend, for divisors that pipelines have, those whose mantissa is near an end,
// and others; some of them at the ends of what known.cuh admits.
static void division(u32 stride) {
  u32 divisors = 0;
  auto all = [&](f32 b) {
    quotients(b, 1.0f, 1u << 23, stride);
    ++divisors;
  };
  const f32 used[] = {255.0f, 127.5f, 3.0f, 0.2023f, 0.1994f, 0.2010f, 0.229f, 0.224f, 0.225f, 58.395f};
  for (f32 b : used) all(b);
  for (u32 k = 0; k < 8; ++k) {
    all(from_bits(0x3F800000u + k));
    all(from_bits(0x3FFFFFFFu - k));
  }
  for (u32 k = 0; k < 30; ++k) all(from_bits(0x3F800000u | word() >> 9));
  const f32 ends[] = {LEAST_DIVISOR, 1.7f * LEAST_DIVISOR, LARGEST_DIVISOR, 0.7f * LARGEST_DIVISOR};
  for (f32 b : ends) {
    quotients(b, LEAST_GRAIN, 1u << 23, 16 * stride);
    quotients(b, LARGEST / 2, 1u << 23, 16 * stride);
    f32 zero = divide_by(splat<Wide>(0.0f), splat<Wide>(b), splat<Wide>(1.0f / b))[0];
    CHECK(bits_of(zero) == 0, "0 by %a: %a", b, zero);
  }
  printf("divide_by: 1 of %u of all mantissas by %u divisors, each the quotient\n", stride, divisors);
}

static f32 operand() {
  const f32 odd[] = {0.0f, -0.0f, INFINITY, -INFINITY, NAN, 1e30f, -1e30f, 1e-30f, 1e-44f, 0x1p-80f};
  i32 kind = up_to(9);
  if (kind == 0) return odd[up_to(9)];
  if (kind == 1) return 255.0f;
  if (kind < 5) return unit(word()) * 0.4f + 0.1f;
  if (kind < 7) return unit(word()) + 0.5f;
  return (f32)(up_to(600) - 300) * (kind == 7 ? 1.0f : 0.0625f);
}

typedef Strip<Wide, HOST_REGISTERS> HostStrip;

static HostStrip as_stored(HostStrip s, bool numbers) {
  for (i32 c = 0; c < 3; ++c)
    for (i32 k = 0; k < HOST_REGISTERS; ++k)
      if (!numbers) s.c[c][k] = one_nan<Wide>(s.c[c][k]);
  return s;
}

// Random chains over levels, fills and what linear taps make of them: with what is known and without.
static void chains(u32 count) {
  u32 divided = 0, cut = 0, dropped = 0, numbers = 0;
  for (u32 round = 0; round < count; ++round) {
    Resolved r;
    Image image = {0, 8, 8};
    begin_pass(r, image);
    r.gather = (u8)up_to(2);
    const f32 fills[] = {0.0f, 0.0f, 128.0f, 255.0f, -0.0f, -3.0f, 300.0f, 2.5f, 1e9f, NAN};
    r.fill = r.gather == GATHER_NONE ? 0.0f : fills[up_to(9)];
    i32 points = 1 + up_to(7);
    for (i32 k = 0; k < points; ++k) {
      const Op often[] = {OP_ADD, OP_SUB, OP_MUL, OP_DIV, OP_ROUND};
      Point& point = r.point[r.points++];
      point.op = up_to(4) > 0 ? often[up_to(4)] : (Op)up_to(OP_ROUND);
      point.flags = 0;
      f32 same = operand();
      for (i32 c = 0; c < 3; ++c) point.value[c] = up_to(1) ? same : operand();
    }
    Chain chain;
    build_chain(chain, r, TYPE_U8);
    for (i32 k = 0; k < chain.count; ++k) {
      divided += chain.link[k].op == LINK_DIVIDE;
      cut += chain.link[k].op == LINK_CUT;
    }
    dropped += r.points - (u32)chain.count;
    numbers += chain.numbers;

    for (i32 first = 0; first < 256; first += HOST_REGISTERS * Wide::lanes) {
      HostStrip known, plain;
      for (i32 c = 0; c < 3; ++c) {
        for (i32 k = 0; k < HOST_REGISTERS; ++k) {
          for (i32 lane = 0; lane < Wide::lanes; ++lane) {
            f32 v = (f32)(first + k * Wide::lanes + lane);
            if (r.gather == GATHER_LINEAR) v = v + (unit(word()) - v) * unit(word());
            if (r.gather != GATHER_NONE && up_to(15) == 0) v = r.fill;
            plain.c[c][k][lane] = v;
          }
        }
      }
      known = plain;
      run_chain(known, chain, (const Image*)NULL, 0, 0);
      run_points(plain, r, NULL, 0, 0);
      known = as_stored(known, chain.numbers);
      plain = as_stored(plain, false);
      CHECK(memcmp(&known, &plain, sizeof known) == 0, "chain %u, levels from %d on", round, first);
    }
  }
  printf("chains: %u, with %u divisions by products, %u casts without clamp, %u without anything; "
         "%u without a look for NaN\n", count, divided, cut, dropped, numbers);
  CHECK(divided > count / 20 && cut > count / 20, "too few");
  CHECK(dropped > count / 20 && numbers > count / 20, "too few");
}

static void spans() {
  for (u32 round = 0; round < 20000; ++round) {
    Map maps[MAX_MAPS];
    i32 count = up_to(MAX_MAPS), n = 1 + up_to(30);
    for (i32 k = 0; k < count; ++k)
      maps[k] = {up_to(1) ? 1 : -1, up_to(40) - 10, up_to(1) ? 1 + up_to(25) : 0, (u32)up_to(2)};
    Span s = span_of(maps, count, n);
    bool all = true;
    for (i32 i = 0; i < n; ++i) {
      i32 outside = 0, index = through<One>(maps, count, i, outside);
      bool within = s.begin <= i && i < s.end;
      all = all && within;
      CHECK(!within || (outside == 0 && index == s.sign * i + s.offset), "%d of %u", i, round);
      CHECK(within || !s.filled || outside != 0, "%d of %u", i, round);
    }
    CHECK(covers(s, n) == all, "%u", round);
  }
}

static void moves() {
  const i32 L = Wide::lanes;
  u8 bytes[64 + 3 * 16], back[3 * 16];
  f32 floats[3 * 16], again[3 * 16];
  for (u8& b : bytes) b = (u8)word();
  for (f32& f : floats) f = (f32)word();
  Wide::f c[3];
  for (i32 mirrored = 0; mirrored < 2; ++mirrored) {
    load_pixels(bytes, mirrored != 0, c);
    for (i32 k = 0; k < 3 * L; ++k)
      CHECK(c[k % 3][mirrored ? L - 1 - k / 3 : k / 3] == (f32)bytes[k], "%d of %d", k, mirrored);
  }
  load_pixels(bytes, false, c);
  Wide::i levels[3] = {to_i(c[0]), to_i(c[1]), to_i(c[2])};
  store_pixels(back, levels);
  CHECK(memcmp(back, bytes, 3 * L) == 0, "bytes");

  load_pixels(floats, c);
  for (i32 k = 0; k < 3 * L; ++k) CHECK(c[k % 3][k / 3] == floats[k], "%d", k);
  store_pixels(again, c);
  CHECK(memcmp(again, floats, 12 * L) == 0, "floats");

  i32 at[16];
  for (i32 k = 0; k < L; ++k) at[k] = up_to(50);
  Pairs<Wide> pairs;
  load_pairs(bytes, at, pairs);
  for (i32 k = 0; k < L; ++k) {
    i32 both[2] = {pairs.low[k], pairs.high[k]};
    CHECK(memcmp(both, bytes + at[k], 8) == 0, "lane %d", k);
    for (i32 b = 0; b < 4; ++b) CHECK(byte_of(pairs.low, b)[k] == (f32)bytes[at[k] + b], "%d", k);
  }
  Wide::i none = {}, one = none;
  CHECK(!any_negative(none), "none");
  for (i32 k = 0; k < L; ++k) {
    one = none;
    one[k] = -1;
    CHECK(any_negative(one), "lane %d", k);
  }
}

// With an argument, for an emulator, fewer.
int main(int count, char**) {
  division(count > 1 ? 256 : 1);
  chains(count > 1 ? 500 : 50000);
  spans();
  for (i32 k = 0; k < 100; ++k) moves();
  if (failures > 0) printf("%d checks failed\n", failures);
  return failures > 0;
}
