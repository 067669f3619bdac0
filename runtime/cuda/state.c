/*===- state.c - Buffers that main writes to --------------------------------===*
 *
 * Each session has them in the GPU's memory. They are filled on a stream of its own, when
 * the runs that use them have ended.
 *
 *===-----------------------------------------------------------------------===*/
#include "cuda.h"

#include <stdlib.h>

static CUresult open_state(kiln_session *session) {
  const kiln_cuda_driver *driver = session->model->device->driver;
  struct kiln_device_state *state = calloc(1, sizeof *state);
  if (!state)
    return CUDA_ERROR_OUT_OF_MEMORY;
  CUresult result = driver->cuMemAlloc_v2(&state->memory, session->model->weights.state_bytes);
  if (result != CUDA_SUCCESS) {
    free(state);
    return result;
  }
  result = driver->cuEventCreate(&state->last_run, CU_EVENT_DISABLE_TIMING);
  if (result != CUDA_SUCCESS) {
    driver->cuMemFree_v2(state->memory);
    free(state);
    return result;
  }
  session->device_state = state;
  return CUDA_SUCCESS;
}

static CUresult copy(kiln_session *session, const struct kiln_device_state *from, CUstream stream) {
  const kiln_cuda_driver *driver = session->model->device->driver;
  kiln_weights *weights = &session->model->weights;
  CUdeviceptr to = session->device_state->memory;
  CUresult result;
  if (from) {
    result = driver->cuEventSynchronize(from->last_run);
    if (result == CUDA_SUCCESS)
      result = driver->cuMemcpyDtoDAsync_v2(to, from->memory, weights->state_bytes, stream);
  } else {
    kiln_lock(&weights->initial_lock);
    result =
        driver->cuMemcpyHtoDAsync_v2(to, kiln_weights_at(weights, 0), weights->state_bytes, stream);
  }
  CUresult last = driver->cuStreamSynchronize(stream);
  if (!from)
    kiln_unlock(&weights->initial_lock);
  return result == CUDA_SUCCESS ? last : result;
}

static CUresult fill(kiln_session *session, kiln_session *from) {
  const kiln_cuda_driver *driver = session->model->device->driver;
  CUstream stream;
  CUresult result = session->device_state
                        ? driver->cuEventSynchronize(session->device_state->last_run)
                        : open_state(session);
  if (result == CUDA_SUCCESS)
    result = driver->cuStreamCreate(&stream, CU_STREAM_NON_BLOCKING);
  if (result != CUDA_SUCCESS)
    return result;
  result = copy(session, from ? from->device_state : NULL, stream);
  driver->cuStreamDestroy_v2(stream);
  return result;
}

int32_t kiln_cuda_fill(kiln_session *session, kiln_session *from) {
  const struct kiln_device *device = session->model->device;
  bool is_new = !session->device_state;
  int32_t status = kiln_cuda_enter(device);
  if (status != KILN_OK)
    return status;
  /* Some thread may be recording a graph, into which this does not go. */
  int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  device->driver->cuThreadExchangeStreamCaptureMode(&mode);
  CUresult result = fill(session, from);
  device->driver->cuThreadExchangeStreamCaptureMode(&mode);
  if (result != CUDA_SUCCESS) {
    char what[96];
    kiln_text text = {what, sizeof what, 0};
    kiln_append(&text, "cannot put %llu bytes of buffers on the GPU",
                (unsigned long long)session->model->weights.state_bytes);
    status = kiln_cuda_fail(device->driver, result, what);
  }
  kiln_cuda_leave(device);
  if (status != KILN_OK && is_new && session->device_state)
    kiln_cuda_free_state(session);
  return status;
}

void kiln_cuda_free_state(kiln_session *session) {
  const struct kiln_device *device = session->model->device;
  struct kiln_device_state *state = session->device_state;
  if (kiln_cuda_enter(device) == KILN_OK) {
    device->driver->cuEventSynchronize(state->last_run);
    device->driver->cuMemFree_v2(state->memory);
    device->driver->cuEventDestroy_v2(state->last_run);
    kiln_cuda_leave(device);
  }
  free(state);
  session->device_state = NULL;
}
