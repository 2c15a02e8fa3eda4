// Runs launches of the kernels that decode JPEGs over memory that a test wrote to a file, through the range
// entries and over the grid. Every region has exactly its size, so that a sanitizer sees the first byte beyond.
// Both ways must leave the same bytes.
#include "colour.cu"
#include "entropy.cu"
#include "idct.cu"
#include "subsequence.cu"

#include <stdio.h>
#include <stdlib.h>

using namespace FB_LEVEL;

#define RANGE(name) FB_JOIN(forebay_, FB_LEVEL, _, name)
#define GRID(name) FB_JOIN(forebay_, FB_LEVEL, _, name##_grid)

enum Kernel { ENTROPY, SUBSEQUENCE, IDCT, COLOUR };

struct Region {
  u64 start, length;
};
// As the test wrote them: words, and as many arguments behind it.
struct Launch {
  u64 kernel, words, addresses, count, blocks, threads;
};

// `count` elements of the file.
template <class E> static E* read(FILE* file, u64 count) {
  E* p = (E*)malloc(count * sizeof(E) + 1);
  if (p == NULL || fread(p, sizeof(E), count, file) != count) {
    fprintf(stderr, "the file of launches ends early\n");
    exit(2);
  }
  return p;
}

struct Memory {
  u64 regions, bytes, links;
  Region* region;
  u8* image;
  u64* link;  // places of words that hold addresses
};

// Where an address of the file is in `at`, the regions by themselves.
static u8* find(const Memory& m, u8** at, u64 address) {
  for (u64 k = 0; k < m.regions; ++k)
    if (address >= m.region[k].start && address - m.region[k].start <= m.region[k].length)
      return at[k] + (address - m.region[k].start);
  fprintf(stderr, "address %llu is in no region\n", address);
  exit(2);
}

static bool has_links(const Memory& m, const Region& region) {
  for (u64 k = 0; k < m.links; ++k)
    if (m.link[k] - region.start < region.length) return true;
  return false;
}

// Runs the launches, which begin at `launch`; gives the regions as they were left.
static u8** run(const Memory& m, const u64* launch, u64 launches, bool grid) {
  u8** at = (u8**)malloc(m.regions * sizeof(u8*));
  for (u64 k = 0; k < m.regions; ++k) {
    at[k] = (u8*)malloc(m.region[k].length);
    memcpy(at[k], m.image + m.region[k].start, m.region[k].length);
  }
  for (u64 k = 0; k < m.links; ++k) {
    u64 address;
    memcpy(&address, m.image + m.link[k], 8);
    address = (u64)find(m, at, address);
    memcpy(find(m, at, m.link[k]), &address, 8);
  }
  for (u64 k = 0; k < launches; ++k) {
    Launch l;
    memcpy(&l, launch, sizeof l);
    launch += sizeof l / 8;
    u64 args[9];
    for (u64 w = 0; w < l.words; ++w)
      args[w] = w < l.addresses ? (u64)find(m, at, launch[w]) : launch[w];
    launch += l.words;
    u32 n = (u32)l.count, blocks = (u32)l.blocks, threads = (u32)l.threads;
    if (l.kernel == ENTROPY) {
      if (grid) GRID(entropy)((EntropyArgs*)args, blocks, threads);
      else RANGE(entropy)((EntropyArgs*)args, 0, n);
    } else if (l.kernel == SUBSEQUENCE) {
      if (grid) GRID(subsequence)((SubsequenceArgs*)args, blocks, threads);
      else RANGE(subsequence)((SubsequenceArgs*)args, 0, n);
    } else if (l.kernel == IDCT) {
      if (grid) GRID(idct)((IdctArgs*)args, blocks, threads);
      else RANGE(idct)((IdctArgs*)args, 0, n);
    } else {
      if (grid) GRID(colour)((ColourArgs*)args, blocks, threads);
      else RANGE(colour)((ColourArgs*)args, 0, n);
    }
  }
  return at;
}

int main(int, char** argv) {
  FILE* file = fopen(argv[1], "rb");
  if (file == NULL) {
    perror(argv[1]);
    return 2;
  }
  u64* head = read<u64>(file, 5);
  Memory m = {head[0], head[1], head[2], NULL, NULL, NULL};
  u64 launches = head[3];
  m.region = read<Region>(file, m.regions);
  m.image = read<u8>(file, m.bytes);
  m.link = read<u64>(file, m.links);
  u64* launch = read<u64>(file, head[4]);
  u8** range = run(m, launch, launches, false);
  u8** grid = run(m, launch, launches, true);
  for (u64 k = 0; k < m.regions; ++k)
    if (!has_links(m, m.region[k]) && memcmp(range[k], grid[k], m.region[k].length) != 0)
      return printf("region %llu: the grid gives other bytes\n", k), 1;
  fclose(file);
  return 0;
}
