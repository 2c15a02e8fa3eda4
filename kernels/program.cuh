// The structures that the kernels share with src/graph/program.rs, which asserts the same sizes and
// offsets.
//
// A plan is a scalar program (registers of one sample: draws, predicates, arguments) and a list of
// passes, each a list of guarded steps. `resolve` runs the scalar program and turns each pass into
// a `Resolved`: what `augment` does to this sample's pixels.
#pragma once
#include "scalar.cuh"

namespace FB_LEVEL {

enum {
  MAX_REGISTERS = 256,  // scalars of a sample
  MAX_POINTS = 24,      // pointwise operations of a pass
  MAX_MAPS = 4,         // flips and crops before, and as many after, the gather of a pass
  NO_GUARD = 0xFFFF,
};

// Operations on numbers, in the scalar program on registers and in a pass on pixels.
enum Op {
  OP_ADD, OP_SUB, OP_RSUB, OP_MUL, OP_DIV, OP_RDIV, OP_MIN, OP_MAX,
  OP_LT, OP_LE, OP_GT, OP_GE, OP_EQ, OP_NE, OP_AND, OP_OR,
  OP_NEG, OP_NOT, OP_ROUND,  // of a alone; ROUND is the cast to u8
  // The scalar program only:
  OP_CONST,     // the float with these bits
  OP_UNIT,      // draw, element: uniform in [0, 1)
  OP_NORMAL,    // draw, element: standard normal deviate
};

// One instruction of the scalar program: r[dst] = op(r[a], r[b]).
struct Scalar {
  u16 op, dst, a, b;
  u32 value;    // bits of a constant, or the number of a draw
  u32 element;  // of a draw
};

enum StepKind { STEP_POINT, STEP_AFFINE, STEP_CROP, STEP_FLIP, STEP_RESAMPLE };
enum Border { BORDER_CLAMP, BORDER_CONSTANT, BORDER_REFLECT };
// Of a resample: its filter, and what becomes of the size that it is given.
enum Filter { FILTER_TRIANGLE, FILTER_LINEAR, FILTER_NEAREST };
enum Fit { FIT_STRETCH, FIT_NOT_SMALLER, FIT_NOT_LARGER };
// What a bit means depends on the kind of step.
enum {
  FLAG_LINEAR = 1,      // affine: linear taps, else nearest
  FLAG_GROW = 2,        // affine: the canvas grows to hold the turned image
  FLAG_SUBPIXEL = 2,    // resample: the size before rounding decides about the scale
  FLAG_ROUND = 4,       // affine, resample: the result is u8 again
  FLAG_RANDOM = 8,      // crop: place drawn, else centred; resample: of a drawn window
  FLAG_IMAGE = 16,      // point: the operand is the stored image regs[0]
  FLAG_HORIZONTAL = 32,  // flip
  FLAG_VERTICAL = 64,   // flip
  FLAG_F32 = 128,       // point: the stored operand is f32, else u8
};

// A step of a pass, taken where r[guard] is not 0.
struct Step {
  u8 kind, op, flags, border;  // resample: `op` is a Filter, `border` a Fit
  u16 guard;
  u16 name;          // index of the step's name, for errors
  u16 regs[8];       // point: operand r, g, b; affine: angle, translate x y, scale, shear x y, fill;
                     // resample: least and largest area and aspect of the window
  i32 height, width; // crop: size of the result; resample: what its Fit makes one of
  i32 padding;       // crop: pixels added on each side first
  u32 draw;          // crop: number of the draw of its place; resample: of its window
};

enum Type { TYPE_U8, TYPE_F32 };
enum Layout { LAYOUT_HWC, LAYOUT_CHW };

// One pass over the pixels: reads image `source`, writes image `dest`.
struct Pass {
  u16 source, dest;
  u8 source_type, dest_type, dest_layout, unused;
  u32 first_step, steps;
};

// An image in memory: u8 or f32, three channels, dense. Sources are HWC and carry a tail of 64
// readable bytes.
struct Image {
  u64 data;
  i32 width, height;
};

// A crop or flip along one axis: i -> sign * i + offset, then the border of an axis of length n
// where n > 0.
struct Map {
  i32 sign, offset, n;
  u32 border;
};

struct Point {
  u16 op, flags;
  u32 image;   // with FLAG_IMAGE
  f32 value[3];
};

enum Gather { GATHER_NONE, GATHER_NEAREST, GATHER_LINEAR, GATHER_RESAMPLE };

// Along one axis of a resample, the pixels that an output place reads and their weights; taps.cuh has
// the formula. Places have FRACTION fractional bits.
struct Taps {
  i64 step, from;  // the filter's left end is at from + i * step for output place i
  f32 peak, slope; // from there to its peak, in pixels; what the weight loses a pixel from the peak
  i32 count;       // pixels that are read
  u32 unused;
};

// One sample's pass: from an output pixel through `post` maps to the gather, whose taps go through
// `pre` maps to the source.
struct Resolved {
  i32 source_width, source_height;
  i32 view_width, view_height;  // the source behind the `pre` maps
  i32 out_width, out_height;
  u8 gather, border, pre, post; // `border` of the gather; counts of maps
  u32 points;
  f32 fill;
  // Source place of an output place (x, y), from the centres: with dx = x + half - width/2,
  // x' = m[0] dx + m[1] dy + m[2], y' = m[3] dx + m[4] dy + m[5]; m[6], m[7] are the centre.
  f32 m[8];
  u32 unused;
  Taps taps_x, taps_y;
  Map pre_x[MAX_MAPS], pre_y[MAX_MAPS], post_x[MAX_MAPS], post_y[MAX_MAPS];
  Point point[MAX_POINTS];
};

// What is wrong with a sample, in the upper half of its status word; the lower half is the number
// of the step's name. `augment` leaves a sample alone whose word is not 0.
enum Fault {
  FAULT_NONE,
  FAULT_CROP,       // the crop is larger than the padded image
  FAULT_OPERAND,    // the two images of an operation have different sizes
  FAULT_SIZE,       // the result would have no pixels, or too many
  FAULT_UNWRITTEN,  // the decoder reported success for an image that it did not write
};

// src/graph/program.rs asserts the same.
static_assert(sizeof(Scalar) == 16 && sizeof(Step) == 40 && sizeof(Pass) == 16, "");
static_assert(sizeof(Image) == 16 && sizeof(Map) == 16 && sizeof(Point) == 20, "");
static_assert(sizeof(Taps) == 32 && sizeof(Resolved) == 872, "");
static_assert(FB_OFFSET(Resolved, taps_x) == 72, "");

}  // namespace FB_LEVEL
