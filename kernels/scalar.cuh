// Functions of one number: sine and cosine of degrees, logarithm, exponential, normal deviates.
// Polynomials of our own, since a libm gives other bits on every machine.
#pragma once
#include "random.cuh"

namespace FB_LEVEL {

// sin and cos of an angle in degrees, exact at multiples of 90. Evaluated in double, so that the
// float is the nearest one but for one angle in some 100,000: a last place of the matrix shows at 45
// degrees, where places of a square fall on ties. Angles of 90 * 2^17 and more, infinity and NaN
// count as 0.
FB_FN void sincos_degrees(f32 degrees, f32* sine, f32* cosine) {
  f32 turns = degrees / 90.0f;
  bool known = turns > -131072.0f && turns < 131072.0f;
  degrees = known ? degrees : 0.0f;
  turns = known ? turns : 0.0f;
  i32 q = (i32)(turns + (turns < 0.0f ? -0.5f : 0.5f));
  // Taylor series about 0 for |x| <= pi/4: the first terms left out are x^13/13! and x^14/14!,
  // below 1e-11.
  f64 x = ((f64)degrees - 90.0 * (f64)q) * 0.017453292519943295, x2 = x * x;
  f64 s = x2 * -2.5052108385441718e-8 + 2.7557319223985893e-6;
  s = s * x2 - 1.984126984126984e-4;
  s = s * x2 + 8.333333333333333e-3;
  s = s * x2 - 0.16666666666666666;
  s = s * x2 * x + x;
  f64 c = x2 * 2.08767569878681e-9 - 2.755731922398589e-7;
  c = c * x2 + 2.48015873015873e-5;
  c = c * x2 - 1.388888888888889e-3;
  c = c * x2 + 0.041666666666666664;
  c = c * x2 - 0.5;
  c = c * x2 + 1.0;
  i32 quadrant = q & 3;
  f64 a = quadrant & 1 ? c : s, b = quadrant & 1 ? s : c;
  *sine = (f32)(quadrant & 2 ? 0.0 - a : a);
  *cosine = (f32)(quadrant == 1 || quadrant == 2 ? 0.0 - b : b);
}

// Natural logarithm of a normal positive float: x = m * 2^e with m in [2/3, 4/3), and the series
// of atanh((m-1)/(m+1)), whose first term left out is below 2^-27.
FB_FN f32 log_positive(f32 x) {
  u32 bits = bits_of(x);
  i32 e = (i32)(bits - 0x3F2AAAABu) >> 23;  // the subtrahend is 2/3; the shift keeps the sign
  f32 m = from_bits(bits - ((u32)e << 23));
  f32 t = (m - 1.0f) / (m + 1.0f), t2 = t * t;
  f32 p = t2 * 0.11111111f + 0.14285715f;
  p = p * t2 + 0.2f;
  p = p * t2 + 0.33333334f;
  f32 series = 2.0f * (t + t * t2 * p);
  return (f32)e * 0.6931471805599453f + series;
}

// e^x for |x| up to 80: x = n ln 2 + t with |t| at most ln 2 / 2, and the Taylor series of e^t in
// double, whose first term left out is below 2e-10.
FB_FN f32 exponential(f32 x) {
  f64 v = (f64)x;
  i32 n = (i32)(v * 1.4426950408889634 + (v < 0.0 ? -0.5 : 0.5));
  f64 t = v - (f64)n * 0.6931471805599453;
  f64 p = t * 2.48015873015873e-5 + 1.984126984126984e-4;
  p = p * t + 1.388888888888889e-3;
  p = p * t + 8.333333333333333e-3;
  p = p * t + 0.041666666666666664;
  p = p * t + 0.16666666666666666;
  p = p * t + 0.5;
  p = p * t + 1.0;
  p = p * t + 1.0;
  return (f32)p * from_bits((u32)(n + 127) << 23);
}

// A standard normal deviate from two words (Box and Muller, 1958).
FB_FN f32 normal_deviate(u32 word0, u32 word1) {
  f32 u = (f32)((word0 >> 8) + 1) * 5.9604644775390625e-8f;  // in (0, 1], exact
  f32 sine, cosine;
  sincos_degrees(unit(word1) * 360.0f, &sine, &cosine);
  return sqrt_ieee(-2.0f * log_positive(u)) * cosine;
}

}  // namespace FB_LEVEL
