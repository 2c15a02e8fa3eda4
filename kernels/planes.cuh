// Pixels of the output as planes of floats, before its pointwise chain: what a way to read the source
// writes and the host's strips are loaded from.
#pragma once
#include "sample.cuh"

namespace FB_LEVEL {

enum { CHUNK = 256 };

// Consecutive pixels, across row ends. A row's last register may reach past its end: the next row, or
// what is read next, overwrites that.
template <class T> struct Planes {
  alignas(4 * T::lanes) f32 c[3][CHUNK + T::lanes];
};

template <class T> FB_FN void put_planes(Planes<T>& out, i32 at, const Rgb<T>& v) {
  for (i32 k = 0; k < 3; ++k) store(out.c[k] + at, v.c[k]);
}

// `n` pixels of row `y` of the output, from column `x` on, which are to be written to `at`.
struct Piece {
  i32 x, y, n, at;
};

// The pieces that pixels `p` to `p + n - 1` are made of.
FB_FN Piece first_piece(i32 p, i32 n, i32 width) {
  i32 x = p % width;
  return {x, p / width, min2(width - x, n), 0};
}
FB_FN Piece piece_behind(const Piece& piece, i32 n, i32 width) {
  i32 at = piece.at + piece.n;
  return {0, piece.y + 1, min2(width, n - at), at};
}

// `sample` itself, register by register.
template <class T>
FB_APART void any_row(const Resolved& r, const Image& source, u32 type, const Piece& piece,
                      Planes<T>& out) {
  for (i32 k = 0; k < piece.n; k += T::lanes) {
    // Lanes past the piece show its last pixel.
    typename T::i x = min2(Iota<T>::get() + (piece.x + k), splat<T>(piece.x + piece.n - 1));
    put_planes(out, piece.at + k, sample<T>(r, source, type, x, splat<T>(piece.y)));
  }
}

}  // namespace FB_LEVEL
