// Runs plans that a test wrote to a file, each for a batch of samples, through the range entries
// and over the grid of a GPU launch. Every buffer has exactly the size that the kernels were
// promised, so that a sanitizer sees the first byte beyond; it starts filled with one byte or
// another, so that what is read before it is written shows. Prints one digest a plan.
#include "augment.cu"
#include "resolve.cu"

#include <stdio.h>
#include <stdlib.h>

using namespace FB_LEVEL;

#define RANGE(name) FB_JOIN(forebay_, FB_LEVEL, _, name)
#define GRID(name) FB_JOIN(forebay_, FB_LEVEL, _, name##_grid)

enum { TAIL = 64, THREADS = 32 };

// A plan's header in the file. Behind it: scalars, passes, steps, numbers of the output images and
// the decoded picture, each dense.
struct Header {
  u64 seed;
  u32 epoch, samples, width, height;
  u32 n_scalars, n_passes, n_steps, n_images, n_outputs, unused;
};
static_assert(sizeof(Header) == 48, "");

static void* exactly(u64 bytes, u8 filling) {
  void* p = malloc(bytes > 0 ? bytes : 1);
  if (p == NULL) abort();
  memset(p, filling, bytes);
  return p;
}

// `count` elements of the file in memory of their own.
template <class E> static E* read(FILE* file, u64 count) {
  E* p = (E*)exactly(count * sizeof(E), 0);
  if (fread(p, sizeof(E), count, file) != count) {
    fprintf(stderr, "the file of plans ends early\n");
    exit(2);
  }
  return p;
}

struct Plan {
  Header h;
  Scalar* scalars;
  Pass* passes;
  Step* steps;
  u32* outputs;
  u8* picture;
};

static u64 fnv1a(u64 hash, const void* data, u64 bytes) {
  for (u64 k = 0; k < bytes; ++k) hash = (hash ^ ((const u8*)data)[k]) * 0x100000001B3ull;
  return hash;
}

// Whether kernels read image `k`, which then carries a tail.
static bool is_source(const Plan& plan, u32 k) {
  for (u32 p = 0; p < plan.h.n_passes; ++p)
    if (plan.passes[p].source == k) return true;
  for (u32 s = 0; s < plan.h.n_steps; ++s)
    if (plan.steps[s].kind == STEP_POINT && plan.steps[s].flags & FLAG_IMAGE &&
        plan.steps[s].regs[0] == k)
      return true;
  return false;
}

static u64 bytes_of(const Plan& plan, u32 k, const Image& image) {
  u64 size = 1;
  for (u32 p = 0; p < plan.h.n_passes; ++p)
    if (plan.passes[p].dest == k && plan.passes[p].dest_type == TYPE_F32) size = 4;
  return (u64)image.width * (u64)image.height * 3 * size;
}

static u64 replay(const Plan& plan, bool grid, u8 filling) {
  const Header& h = plan.h;
  u64* samples = (u64*)exactly(h.samples * sizeof(u64), 0);
  u32* status = (u32*)exactly(h.samples * sizeof(u32), filling);
  Image* images = (Image*)exactly((u64)h.samples * h.n_images * sizeof(Image), filling);
  Resolved* resolved = (Resolved*)exactly((u64)h.samples * h.n_passes * sizeof(Resolved), filling);
  for (u32 s = 0; s < h.samples; ++s) {
    samples[s] = s;
    images[(u64)s * h.n_images] = Image{0, (i32)h.width, (i32)h.height};
  }
  ResolveArgs resolve = {plan.scalars, plan.passes, plan.steps,   samples,    images,
                         resolved,     status,      h.seed,       h.epoch,    h.n_scalars,
                         h.n_passes,   h.n_images,  h.samples,  0};
  if (grid) GRID(resolve)(&resolve, (h.samples + THREADS - 1) / THREADS, THREADS);
  else RANGE(resolve)(&resolve, 0, h.samples);

  u32 tiles = 1;
  for (u32 s = 0; s < h.samples; ++s) {
    for (u32 k = 0; k < h.n_images; ++k) {
      Image& image = images[(u64)s * h.n_images + k];
      if (status[s] != 0) continue;
      u64 bytes = k == 0 ? (u64)h.width * h.height * 3 : bytes_of(plan, k, image);
      image.data = (u64)exactly(bytes + (is_source(plan, k) ? TAIL : 0), filling);
      if (k == 0) memcpy((void*)image.data, plan.picture, bytes);
      u32 strips = ((u32)image.width * (u32)image.height + THREAD_PIXELS - 1) / THREAD_PIXELS;
      u32 needed = (strips + THREADS - 1) / THREADS;
      tiles = tiles > needed ? tiles : needed;
    }
  }
  for (u32 p = 0; p < h.n_passes; ++p) {
    AugmentArgs augment = {resolved,  images, status,         h.n_passes, h.n_images,
                           h.samples, p,      plan.passes[p], tiles,      0};
    if (grid) GRID(augment)(&augment, tiles * h.samples, THREADS);
    else RANGE(augment)(&augment, 0, h.samples);
  }

  u64 hash = 0xCBF29CE484222325ull;
  for (u32 s = 0; s < h.samples; ++s) {
    u8 refused = status[s] != 0;
    hash = fnv1a(hash, &refused, 1);
    if (refused) continue;
    for (u32 k = 0; k < h.n_outputs; ++k) {
      const Image& image = images[(u64)s * h.n_images + plan.outputs[k]];
      hash = fnv1a(hash, &image.width, 4);
      hash = fnv1a(hash, &image.height, 4);
      hash = fnv1a(hash, (void*)image.data, bytes_of(plan, plan.outputs[k], image));
    }
    for (u32 k = 0; k < h.n_images; ++k) free((void*)images[(u64)s * h.n_images + k].data);
  }
  free(samples);
  free(status);
  free(images);
  free(resolved);
  return hash;
}

int main(int, char** argv) {
  FILE* file = fopen(argv[1], "rb");
  if (file == NULL) {
    perror(argv[1]);
    return 2;
  }
  int differ = 0;
  u32* count = read<u32>(file, 1);
  for (u32 k = 0; k < *count; ++k) {
    Header* header = read<Header>(file, 1);
    const Header h = *header;
    free(header);
    Plan plan = {h,
                 read<Scalar>(file, h.n_scalars),
                 read<Pass>(file, h.n_passes),
                 read<Step>(file, h.n_steps),
                 read<u32>(file, h.n_outputs),
                 read<u8>(file, (u64)h.width * h.height * 3)};
    u64 range = replay(plan, false, 0x00);
    if (replay(plan, false, 0xFF) != range) differ = printf("range: reads what nobody wrote\n");
    if (replay(plan, true, 0xA5) != range) differ = printf("the grid gives other bytes\n");
    printf("%016llx\n", range);
    free(plan.scalars);
    free(plan.passes);
    free(plan.steps);
    free(plan.outputs);
    free(plan.picture);
  }
  free(count);
  fclose(file);
  return differ != 0;
}
