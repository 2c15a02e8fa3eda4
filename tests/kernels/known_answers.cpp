// The kernels' functions against published values, exact arithmetic and libm in double. Prints the
// figures it saw; the exit status says whether all held.
#include "affine.cuh"
#include "crop.cuh"
#include "flip.cuh"
#include "point.cuh"
#include "resample.cuh"

#include <float.h>
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

static bool same(f32 a, f32 b) { return bits_of(a) == bits_of(b); }

// Distance of a float from the exact value, in units of its last place.
static f64 ulps(f32 got, f64 exact) {
  i32 exponent;
  frexp(exact, &exponent);
  return fabs((f64)got - exact) / ldexp(1.0, exponent - 24);
}

// kat_vectors of Random123, philox4x32 with 10 rounds.
static void philox() {
  const u32 known[3][10] = {
      {0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
      {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
      {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
       0x94fdcceb, 0x5001e420, 0x24126ea1}};
  for (const auto& k : known) {
    u32 c[4] = {k[0], k[1], k[2], k[3]};
    philox4x32(k[4], k[5], c);
    CHECK(memcmp(c, k + 6, 16) == 0, "%08x %08x %08x %08x", c[0], c[1], c[2], c[3]);
  }
  printf("philox4x32: 3 published vectors\n");
}

static void draws() {
  CHECK(unit(0) == 0.0f && unit(~0u) < 1.0f, "%g", unit(~0u));
  // Value k is given by the words from ceil(k 2^32 / n) on: each has its share of them, to one.
  const i32 sizes[] = {1, 2, 3, 7, 32, 641, 65500, 1 << 27};
  for (i32 n : sizes) {
    CHECK(below(0, n) == 0 && below(~0u, n) == n - 1, "n %d", n);
    for (i32 k = 1; k < n && k < 100000; ++k) {
      u32 first = (u32)((((u64)k << 32) + n - 1) / n);
      CHECK(below(first, n) == k && below(first - 1, n) == k - 1, "n %d k %d", n, k);
    }
  }
}

static f32 round_wide(f32 v) { return round_u8<Wide>(splat<Wide>(v))[0]; }

// Every float of [0, 256), in the order of its bits: from one tie to the next the rounded value is
// one number, and roundf says which at both ends. Only every `stride`-th vector is tried.
static void rounding(u32 stride) {
  u64 floats = 0;
  for (i32 n = 0; n <= 256; ++n) {
    u32 first = n == 0 ? 0 : bits_of((f32)n - 0.5f);
    u32 end = n == 256 ? bits_of(256.0f) : bits_of((f32)n + 0.5f);
    f32 expected = n == 256 ? 255.0f : (f32)n;  // 255.5 and above saturate
    CHECK(roundf(from_bits(first)) == (f32)n && roundf(from_bits(end - 1)) == (f32)n, "%d", n);
    CHECK(round_u8<One>(from_bits(first)) == expected, "%d", n);
    CHECK(round_u8<One>(from_bits(end - 1)) == expected, "%d", n);
    Wide::i wrong = {}, lane = Iota<Wide>::get();
    for (u32 bits = first; bits < end; bits += Wide::lanes * stride) {
      Wide::i word = lane + (i32)bits;
      word = word < (i32)end ? word : splat<Wide>((i32)(end - 1));
      Wide::f v;
      memcpy(&v, &word, sizeof v);
      wrong |= round_u8<Wide>(v) != expected;
    }
    CHECK(!any(wrong), "some float that rounds to %d", n);
    floats += end - first;
  }
  CHECK(floats == bits_of(256.0f), "%llu", floats);
  const f32 special[][2] = {{NAN, 0},         {-NAN, 0},     {INFINITY, 255}, {-INFINITY, 0},
                            {-0.0f, 0},       {-0.49f, 0},   {-1.5f, 0},      {-3e38f, 0},
                            {256.0f, 255},    {300.0f, 255}, {3e38f, 255},    {2147483648.0f, 255},
                            {-FLT_MIN / 2, 0}};
  for (const auto& s : special) {
    CHECK(same(round_u8<One>(s[0]), s[1]), "%g gives %g", s[0], round_u8<One>(s[0]));
    CHECK(same(round_wide(s[0]), s[1]), "%g gives %g", s[0], round_wide(s[0]));
  }
  printf("round_u8: equal to roundf for 1 of %u of the %llu floats of [0, 256)\n", stride, floats);
}

static void small_parts() {
  for (i32 k = -400; k <= 400; ++k) {
    f32 v = (f32)k * 0.125f;
    CHECK(floor_small(v) == floorf(v), "%g", v);
    CHECK(floor_small(splat<Wide>(v))[Wide::lanes - 1] == floorf(v), "%g", v);
  }
  f32 far[] = {4194304.0f, -4194304.0f, -4194303.5f, 4194303.5f, -0.0f, 1e-30f, -1e-30f};
  for (f32 v : far) {
    CHECK(floor_small(v) == floorf(v), "%g", v);
    CHECK(same(floor_small(splat<Wide>(v))[0], floor_small(v)), "%g", v);
  }
  u32 nans[] = {0x7FC00000u, 0xFFC00000u, 0x7F800001u, 0xFFFFFFFFu};
  for (u32 bits : nans) {
    CHECK(bits_of(one_nan<One>(from_bits(bits))) == 0x7FC00000u, "%08x", bits);
    CHECK(bits_of(one_nan<Wide>(splat<Wide>(from_bits(bits)))[0]) == 0x7FC00000u, "%08x", bits);
  }
  CHECK(same(one_nan<One>(-0.0f), -0.0f) && same(splat<Wide>(-0.0f)[0], -0.0f), "-0");
  // The second operand where either is NaN or they are equal.
  CHECK(same(min2(0.0f, -0.0f), -0.0f) && same(max2(-0.0f, 0.0f), 0.0f), "signed zeros");
  CHECK(min2(NAN, 1.0f) == 1.0f && max2(NAN, 1.0f) == 1.0f, "NaN first");
  CHECK(min2(1.0f, NAN) != min2(1.0f, NAN) && max2(1.0f, NAN) != max2(1.0f, NAN), "NaN second");
  const f32 operands[] = {0.0f, -0.0f, 1.0f, NAN, INFINITY};
  for (f32 a : operands) {
    for (f32 b : operands) {
      Wide::f least = min2(splat<Wide>(a), splat<Wide>(b)), most = max2(splat<Wide>(a), splat<Wide>(b));
      CHECK(same(least[0], min2(a, b)) && same(most[0], max2(a, b)), "%g %g", a, b);
    }
  }
}

static void sine_cosine() {
  const f32 turn[4] = {0.0f, 1.0f, 0.0f, -1.0f};
  f32 s, c;
  for (i32 q = -131071; q <= 131071; ++q) {
    sincos_degrees((f32)q * 90.0f, &s, &c);
    CHECK(s == turn[q & 3] && c == turn[(q + 1) & 3], "%d: %g %g", 90 * q, s, c);
  }
  f32 beyond[] = {90.0f * 131072.0f, -90.0f * 131072.0f, INFINITY, -INFINITY, NAN, FLT_MAX};
  for (f32 angle : beyond) {
    sincos_degrees(angle, &s, &c);
    CHECK(s == 0.0f && c == 1.0f, "%g: %g %g", angle, s, c);
  }
  f64 worst = 0.0;
  i64 angles = 0, nearest = 0;
  auto compare = [&](f32 degrees) {
    // Reduced exactly; multiples of 90 are checked above.
    f64 rest = fmod((f64)degrees, 360.0), radians = rest * (M_PI / 180.0);
    if (fmod(rest, 90.0) == 0.0) return;
    f64 exact_s = sin(radians), exact_c = cos(radians);
    sincos_degrees(degrees, &s, &c);
    worst = fmax(worst, fmax(ulps(s, exact_s), ulps(c, exact_c)));
    ++angles;
    nearest += s == (f32)exact_s && c == (f32)exact_c;
  };
  for (i32 k = -720000; k <= 720000; ++k) compare((f32)k * 0.001f);
  for (u32 k = 0; k < 1000000; ++k) compare((f32)(k * 2654435761u >> 8) * 0.5f - 4194304.0f);
  CHECK(worst < 0.501, "%g", worst);
  CHECK(angles - nearest < angles / 100000, "%lld of %lld", angles - nearest, angles);
  printf("sincos_degrees: %lld of %lld angles give the nearest floats, the others within %.5f ulp\n",
         nearest, angles, worst);
}

static void logarithm() {
  f64 worst_unit = 0.0, worst = 0.0;
  for (u32 k = 0; k < 1u << 24; ++k) {
    f32 u = (f32)(k + 1) * 5.9604644775390625e-8f;
    f64 exact = log((f64)u);
    if (exact != 0.0) worst_unit = fmax(worst_unit, ulps(log_positive(u), exact));
  }
  for (u32 bits = bits_of(FLT_MIN); bits < bits_of(INFINITY); bits += 997) {
    f64 exact = log((f64)from_bits(bits));
    worst = fmax(worst, fabs(log_positive(from_bits(bits)) - exact) / fmax(1.0, fabs(exact)));
  }
  printf("log_positive: within %.2f ulp for each u of normal_deviate, within %.2g of any\n",
         worst_unit, worst);
  CHECK(worst_unit < 4.0, "%g", worst_unit);
  CHECK(worst < 2e-7, "%g", worst);
}

static void exponentials() {
  f64 worst = 0.0;
  for (i32 k = -80000; k <= 80000; ++k) {
    f32 x = (f32)k * 0.001f;
    worst = fmax(worst, ulps(exponential(x), exp((f64)x)));
  }
  CHECK(exponential(0.0f) == 1.0f && worst < 0.51, "%g", worst);
  printf("exponential: within %.4f ulp from -80 to 80\n", worst);
}

static void deviates() {
  f64 worst = 0.0, sum = 0.0, squares = 0.0;
  const u32 count = 1u << 20;
  for (u32 k = 0; k < count; ++k) {
    u32 words[4] = {k, 0, 0, 0};
    philox4x32(7, 0, words);
    if (k < 64) words[0] = k << 8;                // the longest deviates
    else if (k < 128) words[0] = ~((k - 64) << 8);  // the shortest
    f64 u = ((words[0] >> 8) + 1) * 0x1p-24, angle = (words[1] >> 8) * 0x1p-24 * 2.0 * M_PI;
    f64 exact = sqrt(-2.0 * log(u)) * cos(angle);
    f32 got = normal_deviate(words[0], words[1]);
    worst = fmax(worst, fabs(got - exact));
    sum += got;
    squares += (f64)got * got;
  }
  f64 mean = sum / count, variance = squares / count - mean * mean;
  printf("normal_deviate: within %.2g of double, mean %.4f, variance %.4f\n", worst, mean, variance);
  CHECK(worst < 2e-6, "%g", worst);
  CHECK(fabs(mean) < 0.004 && fabs(variance - 1.0) < 0.006, "%g %g", mean, variance);
}

static void borders() {
  for (i32 n = 1; n <= 9; ++n) {
    for (i32 i = -40; i <= 40; ++i) {
      i32 clamped = i < 0 ? 0 : i >= n ? n - 1 : i;
      // A walk of |i| steps from 0 that turns at the edge pixels.
      i32 at = 0, step = i < 0 ? -1 : 1;
      for (i32 k = 0; k < (i < 0 ? -i : i) && n > 1; ++k) {
        if (at + step < 0 || at + step >= n) step = -step;
        at += step;
      }
      const u32 kinds[3] = {BORDER_CLAMP, BORDER_CONSTANT, BORDER_REFLECT};
      for (u32 border : kinds) {
        i32 expected = border == BORDER_REFLECT ? at : clamped;
        CHECK(inside<One>(i, n, border) == expected, "%d of %d: %u", i, n, border);
        CHECK(inside<Wide>(splat<Wide>(i), n, border)[0] == expected, "%d of %d: %u", i, n, border);
      }
    }
  }
}

// Canvases of DALI 2.4.
static void canvases() {
  const i32 known[][5] = {{640, 480, 15, 744, 630}, {640, 480, 45, 792, 792},
                          {50, 101, 45, 107, 108},  {50, 101, 90, 101, 50},
                          {50, 101, 180, 50, 101},  {50, 101, 0, 50, 101}};
  for (const auto& k : known) {
    f32 s, c;
    sincos_degrees((f32)k[2], &s, &c);
    i32 w, h;
    grown_canvas(c, s, k[0], k[1], &w, &h);
    CHECK(w == k[3] && h == k[4], "%dx%d at %d: %dx%d", k[0], k[1], k[2], w, h);
  }
}

// Sides of up to 65,500: the nearest pixel is that in which the exact centre lies, and the weights of a
// filter sum to 1.
static void taps() {
  u64 places = 0;
  f64 worst = 0.0;
  for (u32 k = 0; k < 4000; ++k) {
    u32 words[4] = {k, 1, 0, 0};
    philox4x32(7, 0, words);
    i32 sides = k % 16 == 15 ? 65500 : 2 << k % 16;
    i64 n = 1 + below(words[0], sides), m = 1 + below(words[1], sides);
    Taps nearest, triangle;
    set_taps(nearest, FILTER_NEAREST, {ratio(n, m), 0});
    set_taps(triangle, FILTER_TRIANGLE, {ratio(n, m), 0});
    for (i64 i = 0; i < m; i += 1 + m / 97) {
      i64 pixel = reach(nearest, (i32)i).first;
      CHECK(pixel == (2 * i + 1) * n / (2 * m), "%lld of %lld to %lld: %lld", i, n, m, pixel);
      Reach at = reach(triangle, (i32)i);
      f64 whole = share(triangle, at), sum = 0.0;
      for (i32 t = 0; t < triangle.count; ++t) sum += weight(triangle, at, t) * whole;
      worst = fmax(worst, fabs(sum - 1.0));
      ++places;
    }
  }
  printf("taps: %llu places, the weights of which sum to 1 within %.2g\n", places, worst);
  CHECK(worst < 1e-4, "%g", worst);
}

// With an argument, for an emulator, one of 64 vectors of floats is rounded.
int main(int count, char**) {
  philox();
  draws();
  rounding(count > 1 ? 64 : 1);
  small_parts();
  sine_cosine();
  logarithm();
  exponentials();
  deviates();
  borders();
  canvases();
  taps();
  if (failures > 0) printf("%d checks failed\n", failures);
  return failures > 0;
}
