/*===- log.c - What is loaded and launched, for whoever looks for a fault -----===*
 *
 * KILN_CUDA_LOG=FILE: a line of JSON for each kernel that is loaded, which is when it is first
 * launched, and for each variant that is not. With KILN_CUDA_SYNC=1, which waits for every step, there is a
 * line before each and one behind it: the last line of a run that hangs names the kernel.
 *
 *===-----------------------------------------------------------------------===*/
#include "cuda.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

void kiln_cuda_open_log(struct kiln_device *device) {
  const char *sync = getenv("KILN_CUDA_SYNC"), *path = getenv("KILN_CUDA_LOG");
  device->synchronizes = sync && strcmp(sync, "1") == 0;
  device->log = path && *path ? open(path, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666) : -1;
}

void kiln_cuda_close_log(struct kiln_device *device) {
  if (device->log >= 0)
    close(device->log);
}

/* One write, so that lines of several threads and processes stay whole. */
static void write_line(const struct kiln_device *device, const kiln_text *text) {
  ssize_t written = write(device->log, text->text, strlen(text->text));
  (void)written; /* what cannot be written is not worth a run */
}

static const char *kind_of(uint32_t kind) {
  return kind == KILN_RT_CUBIN ? "cubin" : kind == KILN_RT_PTX ? "ptx" : "emulator";
}

void kiln_cuda_log_load(const struct kiln_device *device, const kiln_rt_device_kernel *kernel,
                        const kiln_rt_image *image, const char *failure) {
  if (KILN_LIKELY(device->log < 0))
    return;
  char line[768], reason[384];
  size_t length = 0;
  for (const char *at = failure; at && *at && length + 1 < sizeof reason; ++at)
    reason[length++] = *at == '"' || *at == '\\' || (unsigned char)*at < ' ' ? ' ' : *at;
  reason[length] = 0;
  kiln_text text = {line, sizeof line, 0};
  kiln_append(&text, "{\"%s\": \"%.200s\", \"variant\": %s", image ? "loaded" : "not_loaded",
              kernel->name, kernel->geometry ? "true" : "false");
  if (image)
    kiln_append(&text, ", \"kind\": \"%s\", \"arch\": %u}\n", kind_of(image->kind),
                image->architecture);
  else
    kiln_append(&text, ", \"reason\": \"%s\"}\n", reason);
  write_line(device, &text);
}

int32_t kiln_cuda_wait_for_step(kiln_context *context, const char *name, bool is_done) {
  const struct kiln_device *device = kiln_cuda_device(context);
  const kiln_cuda_context *cuda = kiln_cuda_context_of(context);
  if (KILN_LIKELY(!device->synchronizes) || cuda->is_captured)
    return KILN_OK;
  int32_t status = KILN_OK;
  if (is_done) {
    CUresult result = device->driver->cuStreamSynchronize(cuda->stream);
    if (result != CUDA_SUCCESS)
      status = kiln_cuda_fail(device->driver, result, name);
  }
  if (device->log >= 0) {
    char line[320];
    kiln_text text = {line, sizeof line, 0};
    kiln_append(&text, "{\"%s\": \"%.200s\"%s}\n", is_done ? "ends" : "begins", name,
                status == KILN_OK ? "" : ", \"failed\": true");
    write_line(device, &text);
  }
  return status;
}
