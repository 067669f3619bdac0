/*===- profile.c - Times of kernels on the GPU ------------------------------===*
 *
 * An event lies between any two steps of the stream. The first is recorded when nothing else runs,
 * and the host's clock read then: times on the GPU become times of the host.
 *
 *===-----------------------------------------------------------------------===*/
#include "cuda.h"

#include <stdlib.h>

static int32_t check(const kiln_context *context, CUresult result) {
  return KILN_LIKELY(result == CUDA_SUCCESS)
             ? KILN_OK
             : kiln_cuda_fail(kiln_cuda_device(context)->driver, result, "cannot take a profile");
}

static int32_t make_events(const kiln_context *context, CUevent *events, uint32_t count) {
  CUresult result = CUDA_SUCCESS;
  for (uint32_t i = 0; i < count && result == CUDA_SUCCESS; ++i) {
    result = kiln_cuda_device(context)->driver->cuEventCreate(&events[i], 0);
    if (result != CUDA_SUCCESS)
      events[i] = NULL;
  }
  return check(context, result);
}

static int32_t launch(kiln_context *context, CUevent *events, int64_t *start) {
  const kiln_cuda_driver *driver = kiln_cuda_device(context)->driver;
  const kiln_cuda_sequence *pending = &kiln_cuda_context_of(context)->pending;
  CUstream stream = kiln_cuda_context_of(context)->stream;
  int32_t status = check(context, driver->cuStreamSynchronize(stream));
  *start = kiln_now();
  if (status == KILN_OK)
    status = check(context, driver->cuEventRecord(events[0], stream));
  for (uint32_t i = 0; i < pending->num_steps && status == KILN_OK; ++i) {
    status = kiln_cuda_launch_step(context, &pending->steps[i]);
    if (status == KILN_OK)
      status = check(context, driver->cuEventRecord(events[i + 1], stream));
  }
  int32_t waited = check(context, driver->cuStreamSynchronize(stream));
  return status == KILN_OK ? waited : status;
}

static int32_t tell(kiln_context *context, const CUevent *events, int64_t start) {
  const kiln_cuda_driver *driver = kiln_cuda_device(context)->driver;
  const kiln_cuda_sequence *pending = &kiln_cuda_context_of(context)->pending;
  /* All steps have ended; the GPU's clock may say later. */
  int64_t begin = start, now = kiln_now();
  for (uint32_t i = 0; i < pending->num_steps; ++i) {
    const kiln_cuda_step *step = &pending->steps[i];
    float milliseconds = 0;
    CUresult result = driver->cuEventElapsedTime(&milliseconds, events[0], events[i + 1]);
    if (result != CUDA_SUCCESS)
      return check(context, result);
    /* A month at most, whatever the driver says. */
    bool is_time = milliseconds >= 0 && milliseconds < 2.6e9f;
    int64_t end = is_time ? start + (int64_t)((double)milliseconds * 1e6) : begin;
    end = end < now ? end : now;
    if (step->number >= 0)
      kiln_profile_step(context, step->number, pending->addresses + step->first_address, step->grid,
                        KILN_PROFILE_DEVICE, begin, end);
    begin = end;
  }
  return KILN_OK;
}

int32_t kiln_cuda_profile(kiln_context *context) {
  uint32_t num_steps = kiln_cuda_context_of(context)->pending.num_steps;
  if (!num_steps)
    return KILN_OK;
  CUevent *events = calloc(num_steps + 1, sizeof *events);
  if (!events)
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for a profile");
  int64_t start;
  int32_t status = make_events(context, events, num_steps + 1);
  if (status == KILN_OK)
    status = launch(context, events, &start);
  if (status == KILN_OK)
    status = tell(context, events, start);
  for (uint32_t i = 0; i <= num_steps; ++i)
    if (events[i])
      kiln_cuda_device(context)->driver->cuEventDestroy_v2(events[i]);
  free(events);
  return status;
}

int32_t kiln_cuda_settle(kiln_context *context) {
  int32_t status = kiln_cuda_flush(context);
  if (status == KILN_OK && !kiln_cuda_context_of(context)->is_captured)
    status = check(context, kiln_cuda_device(context)->driver->cuStreamSynchronize(
                                kiln_cuda_context_of(context)->stream));
  if (status != KILN_OK)
    context->failure = status;
  return status;
}
