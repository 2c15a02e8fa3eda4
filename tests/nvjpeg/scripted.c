/* An nvJPEG that writes down its calls and fails where it is told to. It decodes nothing: a picture
 * is its first byte. A file that starts with 'h' is one that the hardware takes. */

#include <stddef.h>
#include <stdio.h>
#include <string.h>

typedef struct {
  unsigned char *channel[4];
  size_t pitch[4];
} image_t;

enum { MAX_FAILURES = 8 };

static struct {
  const char *call; /* a literal of the test's, which outlives the script */
  int countdown, status;
} failures[MAX_FAILURES];
static int failure_count, live, major = 13, minor = 0;
static size_t next_id;
static char text[8192];

void script_reset(void)
{
  failure_count = 0;
  next_id = 0;
  text[0] = 0;
}

/* The `nth` call (from 1) of `call` from here on returns `status`. */
void script_fail(const char *call, int nth, int status)
{
  failures[failure_count].call = call;
  failures[failure_count].countdown = nth;
  failures[failure_count++].status = status;
}

void script_version(int new_major, int new_minor)
{
  major = new_major;
  minor = new_minor;
}

const char *script_log(void)
{
  return text;
}

/* Handles, states and streams that are not destroyed. */
int script_live(void)
{
  return live;
}

static int called(const char *call, size_t a, size_t b)
{
  char line[64];
  snprintf(line, sizeof line, "%s %zu %zu\n", call, a, b);
  if (strlen(text) + strlen(line) < sizeof text)
    strcat(text, line);
  for (int i = 0; i < failure_count; i++)
    if (!strcmp(failures[i].call, call) && --failures[i].countdown == 0)
      return failures[i].status;
  return 0;
}

static int make(const char *call, size_t from, size_t *made)
{
  int status = called(call, from, next_id + 1);
  if (!status) {
    *made = ++next_id;
    live++;
  }
  return status;
}

static int destroy(const char *call, size_t id)
{
  live--;
  return called(call, id, 0);
}

int nvjpegGetProperty(int kind, int *value)
{
  *value = kind == 0 ? major : kind == 1 ? minor : 7;
  return 0;
}

int nvjpegCreateEx(int backend, void *device, void *pinned, unsigned flags, size_t *handle)
{
  if (device || pinned || flags != 36)
    return 2;
  return make("Create", backend, handle);
}

int nvjpegDestroy(size_t handle) { return destroy("Destroy", handle); }
int nvjpegJpegStateCreate(size_t handle, size_t *state) { return make("State", handle, state); }
int nvjpegJpegStateDestroy(size_t state) { return destroy("StateDestroy", state); }
int nvjpegJpegStreamCreate(size_t handle, size_t *stream) { return make("Stream", handle, stream); }
int nvjpegJpegStreamDestroy(size_t stream) { return destroy("StreamDestroy", stream); }

int nvjpegGetHardwareDecoderInfo(size_t handle, unsigned *engines, unsigned *cores)
{
  *engines = 2;
  *cores = 7;
  return called("Info", handle, 0);
}

static char first;

int nvjpegJpegStreamParseHeader(size_t handle, const char *data, size_t length, size_t stream)
{
  first = length ? data[0] : 0;
  return called("Parse", handle, stream);
}

int nvjpegDecodeBatchedSupported(size_t handle, size_t stream, int *unsupported)
{
  *unsupported = first != 'h';
  return called("Supported", handle, stream);
}

static int ready;

int nvjpegDecodeBatchedInitialize(size_t handle, size_t state, int size, int threads, int format)
{
  ready = size;
  return threads == 1 && format == 5 ? called("Initialize", state, size) : (int)(handle, 2);
}

int nvjpegDecodeBatched(size_t handle, size_t state, const char *const *data, const size_t *lengths,
                        image_t *images, void *stream)
{
  (void)lengths, (void)stream;
  for (int i = 0; i < ready; i++)
    *images[i].channel[0] = data[i][0];
  return called("Batched", handle, state);
}

int nvjpegDecode(size_t handle, size_t state, const char *data, size_t length, int format,
                 image_t *image, void *stream)
{
  (void)stream;
  if (!length || format != 5 || image->pitch[0] % 3)
    return 2;
  *image->channel[0] = data[0];
  return called("Decode", handle, state);
}
