// Planes of samples to RGB: libjpeg's "fancy" upsampling and its YCbCr to RGB, to the bit.
//
// A strip is consecutive pairs of pixels, 2i and 2i + 1, a pair a lane. Halved chroma has one sample a pair,
// of which either pixel gets three parts and the neighbour on its side one; rows likewise. So a strip needs
// nothing of its neighbours, and even and odd pixels come together again when bytes are stored.
#pragma once
#include "shorts.cuh"

namespace FB_LEVEL {

// How chroma is stored.
enum Chroma {
  CHROMA_NONE,      // gray
  CHROMA_FULL,      // as large as the picture
  CHROMA_HALF_X,    // half its columns
  CHROMA_HALF_Y,    // half its rows
  CHROMA_HALF_XY,   // half of both
  CHROMA_REPEAT_X,  // as HALF_X and HALF_XY, where libjpeg repeats samples: narrow, or 1/8
  CHROMA_REPEAT_XY,
  CHROMA_REPEAT_Y,  // as HALF_Y at 1/8, where libjpeg repeats samples
};

// A window of a picture, or rows of it, of which planes may hold some rows and columns only. Rows and columns
// are those of the whole picture.
struct Picture {
  const u8* luma;  // row `luma_row`, column `luma_column`; as all planes, with TAIL bytes before and behind it
  const u8* cb;    // row `chroma_row`, column `chroma_column`
  const u8* cr;
  u8* to;          // pixel (left, top), dense RGB of columns from `left` to `right`
  i32 chroma_width, chroma_height;  // of the whole picture
  i32 luma_stride, chroma_stride;
  i32 luma_row, chroma_row;
  i32 luma_column, chroma_column;   // half of it where columns are halved; strips may begin one before
  i32 left, right, top;
  i32 begin, end;  // rows to write
  u32 chroma;      // Chroma
};
static_assert(sizeof(Picture) == 88 && FB_OFFSET(Picture, chroma_width) == 32, "");
static_assert(FB_OFFSET(Picture, luma_row) == 48 && FB_OFFSET(Picture, chroma) == 84, "");

// Column `x` of row `y`.
FB_FN const u8* luma_at(const Picture& p, i32 y, i32 x) {
  return p.luma + (i64)(y - p.luma_row) * p.luma_stride + (x - p.luma_column);
}

template <class T> struct Colours {
  typename T::s even, odd;
};

// Rows of one chroma plane, from column `x` on, for row y: that which lies nearest, and the next on the other
// side; the same where no rows are interpolated.
struct Rows {
  const u8 *near, *far;
};
template <bool HALF_Y, bool REPEAT>
FB_FN Rows rows_at(const Picture& p, const u8* plane, i32 y, i32 x) {
  i32 near = HALF_Y ? y >> 1 : y, far = near;
  if (HALF_Y && !REPEAT) {
    far = (y & 1) != 0 ? near + 1 : near - 1;
    far = far < 0 ? 0 : far > p.chroma_height - 1 ? p.chroma_height - 1 : far;
  }
  plane += x - p.chroma_column;
  return {plane + (i64)(near - p.chroma_row) * p.chroma_stride,
          plane + (i64)(far - p.chroma_row) * p.chroma_stride};
}

// Samples of column pairs from `r` + `offset` on, of 2 more bits where rows are halved.
template <class T, bool HALF_Y> FB_FN typename T::s column(const Rows& r, i32 offset) {
  typename T::s near = Shorts<T>::bytes(r.near + offset);
  return HALF_Y ? near * 3 + Shorts<T>::bytes(r.far + offset) : near;
}

// The chroma of pairs i, i + 1, ... of row y.
template <class T, bool HALF_X, bool HALF_Y, bool REPEAT>
FB_FN Colours<T> chroma_at(const Picture& p, const u8* plane, i32 y, i32 i) {
  typedef typename T::s S;
  Rows r = rows_at<HALF_Y, REPEAT>(p, plane, y, HALF_X ? i : 2 * i);
  if (!HALF_X) {
    Colours<T> v;
    Shorts<T>::pairs(r.near, v.even, v.odd);
    if (!HALF_Y || REPEAT) return v;
    Colours<T> far;
    Shorts<T>::pairs(r.far, far.even, far.odd);
    S round = Shorts<T>::splat((y & 1) != 0 ? 2 : 1);
    return {(v.even * 3 + far.even + round) >> 2, (v.odd * 3 + far.odd + round) >> 2};
  }
  if (REPEAT) {
    S v = Shorts<T>::bytes(r.near);
    return {v, v};
  }
  S here = column<T, HALF_Y>(r, 0);
  S index = Shorts<T>::iota() + Shorts<T>::splat(i);
  S left = index == Shorts<T>::splat(0) ? here : column<T, HALF_Y>(r, -1);
  S right = index == Shorts<T>::splat(p.chroma_width - 1) ? here : column<T, HALF_Y>(r, 1);
  S most = here * 3;
  if (HALF_Y) return {(most + left + 8) >> 4, (most + right + 7) >> 4};
  return {(most + left + 1) >> 2, (most + right + 2) >> 2};
}

// One of three colours each: y + 1.402 cr, y - 0.34414 cb - 0.71414 cr, y + 1.772 cb, where factors are
// rounded to 16 bits of fraction and then each colour's sum of products to an integer.
template <class S> FB_FN void to_rgb(S y, S cb, S cr, S rgb[3]) {
  cb = cb - 128;
  cr = cr - 128;
  // Whole parts of the factors apart, so that what is left fits 16 bits; twice the product's upper half
  // loses nothing that rounding needs.
  rgb[0] = y + cr + ((mul_high(cr + cr, 26345) + 1) >> 1);
  rgb[1] = y - cr + weigh(cb, -22554, cr, 18734);
  rgb[2] = y + cb + cb + ((mul_high(cb + cb, -14942) + 1) >> 1);
}

// Writes what lies in the window of pairs i, i + 1, ... of row y.
template <class S> FB_FN void store_pairs(const Picture& p, i32 y, i32 i, const S even[3], const S odd[3]) {
  i64 row = (i64)(y - p.top) * (p.right - p.left);
  store_rgb(p.to + (row + 2 * i - p.left) * 3, even, odd, 2 * i < p.left ? 1 : 0, p.right - 2 * i);
}

// The ways to do so.
template <class T, bool HALF_X, bool HALF_Y, bool REPEAT> struct Colour {
  static constexpr i32 pairs = T::pairs;
  static FB_MEMBER void strip(const Picture& p, i32 y, i32 i) {
    typedef typename T::s S;
    Colours<T> luma, cb = chroma_at<T, HALF_X, HALF_Y, REPEAT>(p, p.cb, y, i);
    Colours<T> cr = chroma_at<T, HALF_X, HALF_Y, REPEAT>(p, p.cr, y, i);
    Shorts<T>::pairs(luma_at(p, y, 2 * i), luma.even, luma.odd);
    S even[3], odd[3];
    to_rgb<S>(luma.even, cb.even, cr.even, even);
    to_rgb<S>(luma.odd, cb.odd, cr.odd, odd);
    store_pairs(p, y, i, even, odd);
  }
};
template <class T> struct Gray {
  static constexpr i32 pairs = T::pairs;
  static FB_MEMBER void strip(const Picture& p, i32 y, i32 i) {
    Colours<T> v;
    Shorts<T>::pairs(luma_at(p, y, 2 * i), v.even, v.odd);
    typename T::s even[3] = {v.even, v.even, v.even}, odd[3] = {v.odd, v.odd, v.odd};
    store_pairs(p, y, i, even, odd);
  }
};

// Calls `visit` with the way to write a strip, which is the same for all strips of a picture.
template <class T, class Visit> FB_FN void with_strip(const Picture& p, const Visit& visit) {
  switch (p.chroma) {
    case CHROMA_NONE: return visit.template run<Gray<T>>(p);
    case CHROMA_FULL: return visit.template run<Colour<T, false, false, false>>(p);
    case CHROMA_HALF_X: return visit.template run<Colour<T, true, false, false>>(p);
    case CHROMA_HALF_Y: return visit.template run<Colour<T, false, true, false>>(p);
    case CHROMA_HALF_XY: return visit.template run<Colour<T, true, true, false>>(p);
    case CHROMA_REPEAT_X: return visit.template run<Colour<T, true, false, true>>(p);
    case CHROMA_REPEAT_XY: return visit.template run<Colour<T, true, true, true>>(p);
    default: return visit.template run<Colour<T, false, true, true>>(p);
  }
}

}  // namespace FB_LEVEL
