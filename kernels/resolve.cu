// One thread a sample: runs the scalar program, then turns each pass's guarded steps into what
// `augment` does to this sample. Also the only place that knows the sizes between passes.
#include "affine.cuh"
#include "crop.cuh"
#include "flip.cuh"
#include "point.cuh"
#include "resample.cuh"

namespace FB_LEVEL {

struct ResolveArgs {
  const Scalar* scalars;
  const Pass* passes;
  const Step* steps;
  const u64* samples;   // sample numbers
  Image* images;        // images of a sample: the decoded one is given, the others' sizes are found
  Resolved* resolved;   // passes of a sample
  u32* status;          // 0, or fault << 16 | name of the step
  u64 seed;
  u32 epoch, n_scalars, n_passes, n_images, n_samples, unused;
};
static_assert(sizeof(ResolveArgs) == 88 && FB_OFFSET(ResolveArgs, scalars) == 0, "");
static_assert(FB_OFFSET(ResolveArgs, passes) == 8 && FB_OFFSET(ResolveArgs, steps) == 16, "");
static_assert(FB_OFFSET(ResolveArgs, samples) == 24 && FB_OFFSET(ResolveArgs, images) == 32, "");
static_assert(FB_OFFSET(ResolveArgs, resolved) == 40 && FB_OFFSET(ResolveArgs, status) == 48, "");
static_assert(FB_OFFSET(ResolveArgs, seed) == 56 && FB_OFFSET(ResolveArgs, epoch) == 64, "");
static_assert(FB_OFFSET(ResolveArgs, n_scalars) == 68 && FB_OFFSET(ResolveArgs, n_passes) == 72, "");
static_assert(FB_OFFSET(ResolveArgs, n_images) == 76 && FB_OFFSET(ResolveArgs, n_samples) == 80, "");

FB_FN f32 scalar_value(const Scalar& s, const f32* r, const DrawKey& key) {
  if (s.op == OP_CONST) return from_bits(s.value);
  if (s.op == OP_UNIT || s.op == OP_NORMAL) {
    u32 words[4];
    draw_words(key, s.value, s.element, words);
    return s.op == OP_UNIT ? unit(words[0]) : normal_deviate(words[0], words[1]);
  }
  return apply<One>(s.op, r[s.a], r[s.b]);
}

FB_FN void resolve_one(const ResolveArgs& args, u32 sample) {
  DrawKey key = {args.seed, args.samples[sample], args.epoch};
  Image* images = args.images + (u64)sample * args.n_images;
  Resolved* resolved = args.resolved + (u64)sample * args.n_passes;
  f32 r[MAX_REGISTERS];
  for (u32 k = 0; k < args.n_scalars; ++k) {
    const Scalar& s = args.scalars[k];
    r[s.dst] = scalar_value(s, r, key);
  }
  u32 status = 0;
  for (u32 p = 0; p < args.n_passes; ++p) {
    const Pass& pass = args.passes[p];
    Resolved& out = resolved[p];
    begin_pass(out, images[pass.source]);
    for (u32 k = 0; k < pass.steps; ++k) {
      const Step& step = args.steps[pass.first_step + k];
      if (step.guard != NO_GUARD && r[step.guard] == 0.0f) continue;
      u32 fault = FAULT_NONE;
      if (step.kind == STEP_POINT) fault = resolve_point(step, r, images, out);
      else if (step.kind == STEP_AFFINE) fault = resolve_affine(step, r, out);
      else if (step.kind == STEP_CROP) fault = resolve_crop(step, r, key, out);
      else if (step.kind == STEP_FLIP) fault = resolve_flip(step, out);
      else fault = resolve_resample(step, r, key, out);
      if (fault != FAULT_NONE && status == 0) status = fault << 16 | step.name;
    }
    images[pass.dest].width = out.out_width;
    images[pass.dest].height = out.out_height;
  }
  args.status[sample] = status;
}

FB_FN void resolve_range(const ResolveArgs& args, u32 begin, u32 end) {
  for (u32 sample = begin; sample < end; ++sample) resolve_one(args, sample);
}

FB_FN void resolve_thread(const ResolveArgs& args, u32 block, u32 thread, u32 threads) {
  u32 sample = block * threads + thread;
  if (sample < args.n_samples) resolve_one(args, sample);
}

}  // namespace FB_LEVEL

// A thread a sample makes too few blocks to lie beside each other.
FB_ENTRY(resolve, FB_LEVEL::ResolveArgs, 1)
