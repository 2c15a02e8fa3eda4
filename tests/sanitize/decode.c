/* Decodes a pack of JPEGs as decoder/turbo.rs does, one handle for all of them, each from and to memory
 * of exactly its size, and a part of each at one of the scales; prints how each ended, and a digest of
 * its pixels.
 *
 *   decode PACK MOST_PIXELS MAX_SCANS MAX_WORK      PACK: a length of 4 bytes and so many bytes for each */

#include <inttypes.h>

#include "../../src/decoder/turbo.c"

static uint64_t fnv1a(const uint8_t *bytes, size_t length)
{
  uint64_t hash = 0xCBF29CE484222325;
  for (size_t i = 0; i < length; i++)
    hash = (hash ^ bytes[i]) * 0x100000001B3;
  return hash;
}

/* The kind of error that turbo.rs makes of it. */
static const char *kind(int status)
{
  switch (status) {
  case OK:
    return "ok";
  case DAMAGED:
  case TRUNCATED:
  case INCOMPLETE:
    return "Decode";
  case UNSUPPORTED:
    return "Unsupported";
  default:
    return "Limit";
  }
}

/* The part of file number `k` that main.rs asks for, too. */
static window_t part(const report_t *report, uint32_t k)
{
  uint32_t shrink = report->lossless ? 1 : 1u << k % 4;
  uint32_t width = (report->width + shrink - 1) / shrink;
  uint32_t height = (report->height + shrink - 1) / shrink;
  uint32_t x = k * 7 % width, y = k * 5 % height;
  return (window_t){x, y, 1 + k * 3 % (width - x), 1 + k * 11 % (height - y), shrink};
}

static void decode(handle_t *h, const uint8_t *bytes, size_t length, uint64_t most_pixels,
                   const uint32_t *part_of)
{
  int status = forebay_jpeg_header(h, bytes, length);
  const report_t report = *forebay_jpeg_report(h);
  if (status != OK) {
    puts(kind(status));
  } else if (report.precision != 8) {
    puts(kind(UNSUPPORTED));
  } else if ((uint64_t)report.width * report.height > most_pixels) {
    puts(kind(NO_MEMORY));
  } else {
    const window_t all = {0, 0, report.width, report.height, 1};
    const window_t window = part_of ? part(&report, *part_of) : all;
    size_t size = (size_t)window.width * window.height * 3;
    uint8_t *rows = malloc(size);
    status = forebay_jpeg_rows(h, &window, rows);
    if (status == OK)
      printf("ok %" PRIu32 "x%" PRIu32 " %016" PRIx64 "\n", window.width, window.height,
             fnv1a(rows, size));
    else
      puts(kind(status));
    free(rows);
  }
}

int main(int argc, char **argv)
{
  FILE *pack = argc == 5 ? fopen(argv[1], "rb") : NULL;
  if (!pack)
    return 2;
  uint64_t most_pixels = strtoull(argv[2], NULL, 10);
  uint64_t max_work = strtoull(argv[4], NULL, 10);
  handle_t *h =
      forebay_jpeg_new(most_pixels * 12 + (16 << 20), (uint32_t)atoi(argv[3]), max_work);
  uint32_t length, k = 0;
  for (; fread(&length, sizeof length, 1, pack) == 1; k++) {
    uint8_t *bytes = malloc(length);
    if (fread(bytes, 1, length, pack) != length)
      return 2;
    decode(h, bytes, length, most_pixels, NULL);
    decode(h, bytes, length, most_pixels, &k);
    free(bytes);
  }
  forebay_jpeg_free(h);
  fclose(pack);
  return 0;
}
