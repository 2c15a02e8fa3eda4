/* JPEG to RGB through the libjpeg API of libjpeg-turbo.
 *
 * The TurboJPEG API reports the first warning only, and a good picture with stray bytes can give
 * the same first warning as a cut one. Here every warning is seen by its code, and one that means
 * lost pixels ends the decode. Errors leave libjpeg by longjmp, which starts and lands in
 * guarded(), so that no frame but C's is ever jumped over. */

#include <setjmp.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <jpeglib.h>

#include <jerror.h>

enum { MAX_WARNINGS = 16, LEAST_COLUMNS = 32 };

/* The same numbers as `status` in turbo.rs. */
enum {
  OK,
  DAMAGED,
  TRUNCATED,
  INCOMPLETE,
  UNSUPPORTED,
  TOO_MANY_SCANS,
  TOO_MUCH_WORK,
  NO_MEMORY,
};

/* `warning_text` in turbo.rs has words for these. */
_Static_assert(JWRN_ADOBE_XFORM == 114 && JWRN_EXTRANEOUS_DATA == 116 && JWRN_JFIF_MAJOR == 119 &&
                   JWRN_NOT_SEQUENTIAL == 122,
               "turbo.rs names the same numbers");

/* What Rust reads after each call; the same layout as `Report` in turbo.rs. */
typedef struct {
  uint32_t width, height, components, precision;
  uint32_t lossless;      /* coded without a DCT, so that it has one scale only */
  uint32_t row, rows;     /* rows finished when decoding ended, of so many at the scale wanted */
  uint32_t warning_count; /* of warnings[]; later ones are not kept */
  int32_t warnings[MAX_WARNINGS];
  size_t offset; /* bytes taken when decoding ended */
  char message[JMSG_LENGTH_MAX];
} report_t;
_Static_assert(sizeof(report_t) == 96 + sizeof(size_t) + 200, "turbo.rs checks the same sum");

/* What is wanted of the picture shrunk to 1 / `shrink` (1, 2, 4 or 8) in the DCT domain, in pixels
 * of the shrunk one; the same layout as `Window` in turbo.rs. */
typedef struct {
  uint32_t x, y, width, height, shrink;
} window_t;

typedef struct {
  struct jpeg_decompress_struct c; /* first, so that a callback's cinfo is the handle */
  struct jpeg_error_mgr errors;
  struct jpeg_progress_mgr progress;
  void *(*alloc_small)(j_common_ptr, int, size_t);
  jmp_buf escape;
  int status;

  const uint8_t *bytes;
  size_t length;
  window_t window;
  uint8_t *rows; /* of the window, dense */
  int max_scans;
  uint64_t max_work; /* pixels times scans */
  uint32_t seen; /* bit i: a scan has held component i */

  report_t report;
} handle_t;

static _Noreturn void fail(handle_t *h, int status)
{
  h->status = status;
  h->report.row = h->c.output_scanline;
  h->report.rows = h->c.output_height;
  h->report.offset = h->c.src ? h->length - h->c.src->bytes_in_buffer : 0;
  (*h->errors.format_message)((j_common_ptr)&h->c, h->report.message);
  longjmp(h->escape, 1);
}

static void on_error(j_common_ptr c)
{
  switch (c->err->msg_code) {
  case JERR_ARITH_NOTIMPL:
  case JERR_BAD_PRECISION:
  case JERR_CCIR601_NOTIMPL:
  case JERR_CONVERSION_NOTIMPL:
  case JERR_FRACT_SAMPLE_NOTIMPL:
  case JERR_IMAGE_TOO_BIG:
  case JERR_SOF_UNSUPPORTED:
    fail((handle_t *)c, UNSUPPORTED);
  case JERR_NO_BACKING_STORE:
  case JERR_OUT_OF_MEMORY:
    fail((handle_t *)c, NO_MEMORY);
  default:
    fail((handle_t *)c, DAMAGED);
  }
}

static void on_message(j_common_ptr c, int level)
{
  handle_t *h = (handle_t *)c;
  if (level >= 0)
    return; /* a trace */
  int code = c->err->msg_code;
  if (h->report.warning_count < MAX_WARNINGS)
    h->report.warnings[h->report.warning_count++] = code;
  switch (code) {
  case JWRN_JPEG_EOF: /* libjpeg would go on with an invented end marker */
    fail(h, TRUNCATED);
  case JWRN_ARITH_BAD_CODE:
  case JWRN_BOGUS_PROGRESSION: /* a scan refines what no scan before it began */
  case JWRN_HIT_MARKER:
  case JWRN_HUFF_BAD_CODE:
  case JWRN_MUST_RESYNC:
    fail(h, DAMAGED);
  case JWRN_EXTRANEOUS_DATA: {
    /* Behind a scan they are stray. Before a restart marker they are of its rows, and left over
     * because the decoder lost its way there. */
    int marker = c->err->msg_parm.i[1];
    if (marker >= JPEG_RST0 && marker <= JPEG_RST0 + 7)
      fail(h, DAMAGED);
    break;
  }
  default:
    break;
  }
}

/* Called between rows, in files of several scans only. */
static void on_progress(j_common_ptr c)
{
  handle_t *h = (handle_t *)c;
  if (h->c.input_scan_number > h->max_scans)
    fail(h, TOO_MANY_SCANS);
  uint64_t pixels = (uint64_t)h->c.image_width * h->c.image_height;
  uint64_t before = h->c.input_scan_number > 1 ? (uint64_t)h->c.input_scan_number - 1 : 0;
  if (pixels * before + pixels * h->c.input_iMCU_row / h->c.total_iMCU_rows > h->max_work)
    fail(h, TOO_MUCH_WORK);
  for (int i = 0; i < h->c.comps_in_scan; i++)
    h->seen |= 1u << h->c.cur_comp_info[i]->component_index;
}

/* libjpeg keeps tables from image to image. A file without tables of its own would then decode
 * with those of whichever file came before, so everything allocated after the handle is made
 * lives as long as one image, and rest() forgets it. */
static void *alloc_for_image(j_common_ptr c, int pool, size_t size)
{
  (void)pool;
  return ((handle_t *)c)->alloc_small(c, JPOOL_IMAGE, size);
}

/* Frees all that the last image took. */
static void rest(handle_t *h)
{
  jpeg_abort_decompress(&h->c);
  h->c.output_scanline = 0;
  memset(h->c.quant_tbl_ptrs, 0, sizeof h->c.quant_tbl_ptrs);
  memset(h->c.dc_huff_tbl_ptrs, 0, sizeof h->c.dc_huff_tbl_ptrs);
  memset(h->c.ac_huff_tbl_ptrs, 0, sizeof h->c.ac_huff_tbl_ptrs);
}

/* Runs `work`; a failure inside it comes back here. */
static int guarded(handle_t *h, void (*work)(handle_t *))
{
  h->status = OK;
  if (setjmp(h->escape) == 0)
    work(h);
  else
    rest(h);
  return h->status;
}

static void create(handle_t *h)
{
  static const uint8_t none = 0;
  jpeg_create_decompress(&h->c);
  jpeg_mem_src(&h->c, &none, 1); /* makes the source, which outlives images */
  h->progress.progress_monitor = on_progress;
  h->alloc_small = h->c.mem->alloc_small;
  h->c.mem->alloc_small = alloc_for_image;
}

static void read_header(handle_t *h)
{
  jpeg_mem_src(&h->c, h->bytes, (unsigned long)h->length);
  jpeg_read_header(&h->c, TRUE);
  h->report.width = h->c.image_width;
  h->report.height = h->c.image_height;
  h->report.components = (uint32_t)h->c.num_components;
  h->report.precision = (uint32_t)h->c.data_precision;
  h->report.lossless = h->c.min_DCT_scaled_size == 1; /* not DCTSIZE: it has no blocks */
}

/* Ink as Adobe stores it, 255 for none, to RGB by Pillow's rule: key less its share of the ink. */
static void cmyk_to_rgb(const JSAMPLE *in, uint8_t *out, JDIMENSION width)
{
  for (; width > 0; width--, in += 4, out += 3)
    for (int i = 0; i < 3; i++) {
      int share = (255 - in[i]) * in[3] + 128;
      out[i] = (uint8_t)(in[3] - (((share >> 8) + share) >> 8));
    }
}

/* Whether the scans held every bit of every component: libjpeg fills what none held with gray or
 * smooths it over, and says nothing. */
static boolean complete(const handle_t *h)
{
  const struct jpeg_decompress_struct *c = &h->c;
  if (c->progress && h->seen != (1u << c->num_components) - 1)
    return FALSE;
  for (int i = 0; c->coef_bits && i < c->num_components; i++)
    for (int k = 0; k < DCTSIZE2; k++)
      if (c->coef_bits[i][k] != 0)
        return FALSE;
  return TRUE;
}

static JDIMENSION least(JDIMENSION a, JDIMENSION b)
{
  return a < b ? a : b;
}

static JDIMENSION most(JDIMENSION a, JDIMENSION b)
{
  return a > b ? a : b;
}

/* Whether libjpeg can decode a part of the picture alone. Decided by how it is sampled: these are
 * the kinds of which tests/decoder/region.rs shows that the pixels are those of the whole. */
static boolean divisible(const handle_t *h)
{
  const struct jpeg_decompress_struct *c = &h->c;
  int across = c->max_h_samp_factor, down = c->max_v_samp_factor;
  if (h->report.lossless || across * down > 4 || across == 3 || down == 3)
    return FALSE;
  for (int i = 0; i < c->num_components; i++) {
    const jpeg_component_info *component = &c->comp_info[i];
    boolean full = component->h_samp_factor == across && component->v_samp_factor == down;
    boolean sparse = component->h_samp_factor == 1 && component->v_samp_factor == 1;
    if (!full && !sparse)
      return FALSE;
  }
  return TRUE;
}

/* Has libjpeg decode no more columns than the window needs, and gives the first of them. Upsampling
 * mixes neighbours, and the first and the last column that it sees stand in for those beyond: these
 * two must lie outside of the window, or be the picture's own. For very few columns libjpeg would
 * choose another way of upsampling. */
static JDIMENSION crop(handle_t *h)
{
  JDIMENSION all = h->c.output_width;
  JDIMENSION first = h->window.x > 0 ? h->window.x - 1 : 0;
  JDIMENSION end = least(h->window.x + h->window.width + 1, all);
  first = least(first, all > LEAST_COLUMNS ? all - LEAST_COLUMNS : 0);
  end = least(most(end, first + LEAST_COLUMNS), all);
  JDIMENSION width = end - first;
  jpeg_crop_scanline(&h->c, &first, &width); /* moves `first` to the left, onto a block's edge */
  return first;
}

/* The window's part of a row, which starts at `row`, to the window's row `y`. */
static void keep(const handle_t *h, const JSAMPLE *row, JDIMENSION y)
{
  uint8_t *out = h->rows + (size_t)y * h->window.width * 3;
  if (h->c.out_color_space == JCS_CMYK)
    cmyk_to_rgb(row, out, h->window.width);
  else
    memcpy(out, row, (size_t)h->window.width * 3);
}

/* Reads up to row `end` of rows that begin at column `left`, and keeps the window. */
static void read_through_spare(handle_t *h, JDIMENSION left, JDIMENSION end)
{
  struct jpeg_decompress_struct *c = &h->c;
  JDIMENSION samples = (JDIMENSION)c->out_color_components, step = (JDIMENSION)c->max_v_samp_factor;
  /* 16 bytes off a 32-byte boundary: Pixels::OFFSET says why. */
  JSAMPARRAY spare = (*c->mem->alloc_sarray)((j_common_ptr)c, JPOOL_IMAGE,
                                             16 + c->output_width * samples, step);
  for (JDIMENSION i = 0; i < step; i++)
    spare[i] += 16;
  while (c->output_scanline < end) {
    JDIMENSION row = c->output_scanline;
    JDIMENSION n = jpeg_read_scanlines(c, spare, least(step, end - row));
    for (JDIMENSION i = 0; i < n; i++)
      if (row + i >= h->window.y)
        keep(h, spare[i] + (h->window.x - left) * samples, row + i - h->window.y);
  }
}

/* Reads rows of the window, which is as wide as the picture, to where they belong. libjpeg gives no
 * more of them at once than lie in a row of the component with the fewest. */
static void read_straight(handle_t *h, JDIMENSION end)
{
  struct jpeg_decompress_struct *c = &h->c;
  size_t stride = (size_t)h->window.width * 3;
  JDIMENSION step = (JDIMENSION)c->max_v_samp_factor;
  while (c->output_scanline < end) {
    JSAMPROW rows[MAX_SAMP_FACTOR];
    JDIMENSION n = least(step, end - c->output_scanline);
    for (JDIMENSION i = 0; i < n; i++)
      rows[i] = h->rows + (c->output_scanline - h->window.y + i) * stride;
    jpeg_read_scanlines(c, rows, n);
  }
}

static void read_rows(handle_t *h)
{
  struct jpeg_decompress_struct *c = &h->c;
  boolean ink = c->num_components == 4;
  c->out_color_space = ink ? JCS_CMYK : JCS_RGB;
  c->dct_method = JDCT_ISLOW;
  c->do_fancy_upsampling = TRUE;
  c->scale_num = 1;
  c->scale_denom = h->window.shrink;
  c->progress = jpeg_has_multiple_scans(c) ? &h->progress : NULL;
  h->seen = 0;
  jpeg_start_decompress(c);

  JDIMENSION left = 0, end = h->window.y + h->window.height;
  if (divisible(h)) {
    left = crop(h);
    jpeg_skip_scanlines(c, h->window.y);
  }
  if (ink || c->output_width != h->window.width || c->output_scanline != h->window.y)
    read_through_spare(h, left, end);
  else
    read_straight(h, end);

  if (!complete(h))
    fail(h, INCOMPLETE);
  /* Of what follows the last row only whoever wants that row hears. */
  if (end == c->output_height)
    jpeg_finish_decompress(c);
  rest(h);
}

/* A handle that takes at most `max_memory` bytes for one image's coefficients; NULL without
 * memory. */
handle_t *forebay_jpeg_new(size_t max_memory, uint32_t max_scans, uint64_t max_work)
{
  handle_t *h = calloc(1, sizeof *h);
  if (!h)
    return NULL;
  h->c.err = jpeg_std_error(&h->errors);
  h->errors.error_exit = on_error;
  h->errors.emit_message = on_message;
  h->max_scans = max_scans < INT32_MAX ? (int)max_scans : INT32_MAX;
  h->max_work = max_work;
  if (guarded(h, create) != OK) {
    jpeg_destroy_decompress(&h->c);
    free(h);
    return NULL;
  }
  h->c.mem->max_memory_to_use = (long)max_memory;
  return h;
}

void forebay_jpeg_free(handle_t *h)
{
  jpeg_destroy_decompress(&h->c);
  free(h);
}

/* Reads up to the first scan. `bytes` must live until the rows are read or another header is. */
int forebay_jpeg_header(handle_t *h, const uint8_t *bytes, size_t length)
{
  rest(h);
  h->bytes = bytes;
  h->length = length;
  h->report.warning_count = 0;
  return guarded(h, read_header);
}

/* After forebay_jpeg_header, once: writes `window`, which lies within the shrunk picture, as rows of
 * RGB pixels without gaps. */
int forebay_jpeg_rows(handle_t *h, const window_t *window, uint8_t *rows)
{
  h->window = *window;
  h->rows = rows;
  return guarded(h, read_rows);
}

const report_t *forebay_jpeg_report(const handle_t *h)
{
  return &h->report;
}
