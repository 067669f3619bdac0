/*===- fake-library.c - A library as models call it --------------------------===*
 *
 * What it does wrong is chosen by the environment variable FAKE.
 *
 *===-----------------------------------------------------------------------===*/
#include "../../runtime/extern.h"

#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int is(const char *fault) {
  const char *fake = getenv("FAKE");
  return fake && strcmp(fake, fault) == 0;
}

static int32_t prepare(const kiln_extern_call *call, void **prepared, char *message, size_t size) {
  if (is("prepare") && strstr(call->callee, "nothing")) {
    snprintf(message, size, "there is no such operator");
    return 3;
  }
  const kiln_extern_call **handle = malloc(sizeof *handle); /* leaks if it is not released */
  *handle = call;
  *prepared = (void *)handle;
  return 0;
}

static void release(void *prepared) { free(prepared); }

/* The results of a call that gives its size: as many numbers as x[0] says. */
typedef struct {
  int64_t count;
  float value;
} kept_result;

static void drop(void *kept) { free(kept); }

static int32_t run(void *prepared, void **kept, void *const *buffers, const int64_t *numbers,
                   int32_t threads, char *message, size_t size) {
  const kiln_extern_call *call = *(const kiln_extern_call **)prepared;
  if (call->num_sizes) {
    const float *x = buffers[0];
    kept_result *result = malloc(sizeof *result); /* leaks if it is not dropped */
    *result = (kept_result){(int64_t)x[0], x[1]};
    *kept = result;
    *(int64_t *)buffers[call->num_operands] = result->count + call->sizes[0] + call->sizes[1];
    *(int64_t *)buffers[call->num_operands + 1] = 7;
    return 0;
  }
  if (strcmp(call->callee, KILN_EXTERN_RESULTS) == 0) {
    const kept_result *result = *kept;
    if (*(const int64_t *)buffers[0] != 7 || numbers[0] != result->count)
      return 7;
    for (int64_t i = 0; i < result->count; ++i)
      ((float *)buffers[1])[i] = result->value;
    return 0;
  }
  if (strstr(call->callee, "nothing"))
    return 0;
  if (is("run")) {
    memset(message, 'x', size - 1);
    message[size - 1] = 0;
    return 1;
  }
  const float *x = buffers[0];
  float *y = buffers[call->num_operands];
  int64_t number =
      numbers[2 * call->tensors[0].rank + 2 * call->tensors[1].rank + call->args[1].value];
  for (int64_t i = 0; i < numbers[0]; ++i)
    y[i] = x[i] + (float)(number + 100 * threads);
  return 0;
}

/* Copies its operand, by the driver that plays a GPU. */
static int32_t run_on_device(void *prepared, const kiln_extern_device *device, void *const *buffers,
                             const int64_t *numbers, char *message, size_t size) {
  int (*copy)(uint64_t to, uint64_t from, size_t bytes, void *stream);
  (void)prepared;
  if (is("device run")) {
    snprintf(message, size, "not on device %d", (int)device->ordinal);
    return 1;
  }
  *(void **)&copy =
      dlsym(dlopen(getenv("KILN_CUDA_DRIVER"), RTLD_NOW | RTLD_NOLOAD), "cuMemcpyDtoDAsync_v2");
  return copy((uint64_t)(uintptr_t)buffers[1], (uint64_t)(uintptr_t)buffers[0],
              4 * (size_t)numbers[0], device->stream)
             ? 7
             : 0;
}

static int32_t check(void *prepared, char *message, size_t size) {
  (void)prepared;
  if (!is("device check"))
    return 0;
  snprintf(message, size, "given up");
  return 5;
}

/* The host of FAKE=connect has said something of the processes; FAKE=program says what the program's
 * calls of libkiln_spare.so are. */
static int32_t connect(void *prepared, const kiln_extern_host *host, char *message, size_t size) {
  const kiln_extern_call *call = *(const kiln_extern_call **)prepared;
  if (is("program") && strstr(call->callee, "spare")) {
    snprintf(message, size, "call %u of %016" PRIx64, host->number, host->program);
    return 1;
  }
  if (!is("connect"))
    return 0;
  int is_told = host->communicator &&
                host->communicator(host->communicator_ctx, "group", 2) == host->communicator_ctx &&
                host->timeout == 1234 && host->program && host->number == 0 && host->ordinal == -1;
  snprintf(message, size, is_told ? "told" : "not told");
  return 1;
}

static const kiln_extern_library library = {prepare, release, run, drop, NULL, connect, NULL};
static const kiln_extern_library device_library = {prepare,       release, NULL, drop,
                                                   run_on_device, NULL,    check};

const kiln_extern_library *kiln_get_extern_library(uint32_t abi) {
  if (abi != KILN_EXTERN_ABI || is("version"))
    return NULL;
  return is("device") || is("device run") ? &device_library : &library;
}
