// rotate and affine: out(x, y) = in(A^-1 (x, y)) about the exact centres of both canvases.
//
//   A = T(translate) . R(angle) . Shear(x, y) . scale        (torchvision's order and signs)
//
// Angles are degrees, positive counter-clockwise as seen with row 0 on top; shear and translation
// as in torchvision: pixels to the right and down. rotate is A = R(angle).
#pragma once
#include "sample.cuh"

namespace FB_LEVEL {

// Canvas that holds a w x h image turned by an angle (DALI's rule): the extent less 0.01 rounded
// up, then enlarged by one where needed to keep the parity of the side it comes from; at 45 degrees
// that is the other side already.
FB_FN void grown_canvas(f32 cosine, f32 sine, i32 w, i32 h, i32* out_w, i32* out_h) {
  f32 c = cosine < 0.0f ? -cosine : cosine, s = sine < 0.0f ? -sine : sine;
  f32 fw = c * (f32)w + s * (f32)h - 0.01f, fh = c * (f32)h + s * (f32)w - 0.01f;
  i32 iw = (i32)fw, ih = (i32)fh;
  iw += (f32)iw < fw ? 1 : 0;
  ih += (f32)ih < fh ? 1 : 0;
  bool upright = s < c;
  iw += (iw ^ (upright ? w : h)) & 1;
  ih += (ih ^ (upright ? h : w)) & 1;
  *out_w = iw;
  *out_h = ih;
}

FB_FN u32 resolve_affine(const Step& step, const f32* r, Resolved& out) {
  i32 w = out.out_width, h = out.out_height;
  f32 angle = r[step.regs[0]], scale = r[step.regs[3]];
  f32 sine, cosine;
  sincos_degrees(angle, &sine, &cosine);

  // The inverse of R . Shear . scale. torchvision's shear is a turn by shear_y beside one by
  // shear_x: R(angle - shear_y) / cos(shear_y) with a slant of tan(shear_x).
  f32 shear_x = r[step.regs[4]], shear_y = r[step.regs[5]];
  f32 m0, m1, m3, m4;
  if (shear_x == 0.0f && shear_y == 0.0f) {
    m0 = cosine;
    m1 = 0.0f - sine;
    m3 = sine;
    m4 = cosine;
  } else {
    f32 sx, cx, sy, cy, sa, ca;
    sincos_degrees(shear_x, &sx, &cx);
    sincos_degrees(shear_y, &sy, &cy);
    // Counter-clockwise here is -angle there.
    sincos_degrees(0.0f - angle - shear_y, &sa, &ca);
    f32 sn, cn, tx = sx / cx;
    sincos_degrees(0.0f - angle, &sn, &cn);
    f32 a = ca / cy, b = 0.0f - ca * tx / cy - sn, c = sa / cy, d = 0.0f - sa * tx / cy + cn;
    // [[a, b], [c, d]] has determinant 1: this is its inverse.
    m0 = d;
    m1 = 0.0f - b;
    m3 = 0.0f - c;
    m4 = a;
  }
  if (scale != 1.0f) {
    m0 = m0 / scale;
    m1 = m1 / scale;
    m3 = m3 / scale;
    m4 = m4 / scale;
  }

  i32 out_w = w, out_h = h;
  if (step.flags & FLAG_GROW) grown_canvas(cosine, sine, w, h, &out_w, &out_h);
  // Places beyond MAX_SIDE are clamped to it before they become integers.
  if (w > MAX_SIDE || h > MAX_SIDE || out_w > MAX_SIDE || out_h > MAX_SIDE) return FAULT_SIZE;
  if (out_w < 1 || out_h < 1 || (u64)out_w * (u64)out_h > MAX_PIXELS) return FAULT_SIZE;

  // A translation moves the centre of the output canvas; both centres are multiples of one half.
  out.m[0] = m0;
  out.m[1] = m1;
  out.m[2] = (f32)w * 0.5f;
  out.m[3] = m3;
  out.m[4] = m4;
  out.m[5] = (f32)h * 0.5f;
  out.m[6] = (f32)out_w * 0.5f + r[step.regs[1]];
  out.m[7] = (f32)out_h * 0.5f + r[step.regs[2]];
  out.gather = step.flags & FLAG_LINEAR ? GATHER_LINEAR : GATHER_NEAREST;
  out.border = step.border;
  out.fill = r[step.regs[6]];
  out.view_width = w;
  out.view_height = h;
  out.out_width = out_w;
  out.out_height = out_h;
  if (step.flags & FLAG_ROUND) {
    Point& point = out.point[out.points++];
    point.op = OP_ROUND;
    point.flags = 0;
  }
  return FAULT_NONE;
}

}  // namespace FB_LEVEL
