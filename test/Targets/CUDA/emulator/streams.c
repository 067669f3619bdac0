/*===- streams.c - Streams and events ---------------------------------------===*/
#include "driver.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

/* By device: its default stream, then the others. */
static CUstream streams[MAX_DEVICES];

static CUstream default_stream(CUcontext context) {
  CUstream *stream = &streams[context->device];
  if (!*stream) {
    *stream = keep(sizeof **stream);
    (*stream)->context = context;
  }
  return *stream;
}

CUstream get_stream(CUstream stream) {
  if ((uintptr_t)stream <= 2)
    return default_stream(current());
  if (stream->is_destroyed)
    misuse("a stream is used that has been destroyed");
  if (stream->context != current())
    misuse("a stream of device %d is used in a context of device %d", stream->context->device,
           current()->device);
  return stream;
}

/*===-- Operations ----------------------------------------------------------===*/

void copy_operation(struct operation *to, const struct operation *from) {
  *to = *from;
  if (from->parameters) {
    size_t words = count_parameter_words(from->function);
    to->parameters = malloc((words + 1) * sizeof *to->parameters);
    memcpy(to->parameters, from->parameters, words * sizeof *to->parameters);
  }
  if (from->call_arguments) {
    to->call_arguments = malloc(from->bytes);
    memcpy(to->call_arguments, from->call_arguments, from->bytes);
  }
}

#define MAP_WORDS (sizeof(CUtensorMap) / sizeof(uint64_t))

size_t count_parameter_words(const struct CUfunc_st *function) {
  return function->num_parameters + function->num_maps * MAP_WORDS;
}

static uint64_t *copy_parameters(const struct CUfunc_st *function, void *const *given) {
  uint64_t *words = malloc((count_parameter_words(function) + 1) * sizeof *words), *next = words;
  for (unsigned i = 0; i < function->num_parameters + function->num_maps; ++i) {
    size_t count = i < function->num_parameters ? 1 : MAP_WORDS;
    memcpy(next, given[i], count * sizeof *next);
    next += count;
  }
  return words;
}

void free_operation(struct operation *operation) {
  free(operation->parameters);
  free(operation->call_arguments);
  if (operation->owns_from)
    free(operation->host_from);
  for (unsigned i = 0; i < operation->num_steps; ++i)
    free_operation(&operation->steps[i]);
  free(operation->steps);
}

static void launch(const struct operation *operation) {
  void *arguments[MAX_PARAMETERS];
  if (operation->function->module->is_unloaded)
    misuse("kernel %s of a module that is unloaded", operation->function->name);
  const struct CUfunc_st *function = operation->function;
  for (unsigned i = 0; i < function->num_parameters; ++i)
    arguments[i] = &operation->parameters[i];
  for (unsigned i = 0; i < function->num_maps; ++i)
    arguments[function->num_parameters + i] =
        &operation->parameters[function->num_parameters + i * MAP_WORDS];
  char dims[32] = "";
  if (function->dims > 1)
    snprintf(dims, sizeof dims, " %ux%ux%u", operation->grid_sizes[0], operation->grid_sizes[1],
             operation->grid_sizes[2]);
  record("launch %s grid %u%s block %u shared %u cluster %u%s\n", operation->function->name,
         operation->grid, dims, operation->block, operation->shared_bytes,
         operation->function->cluster, operation->overlaps ? " overlaps" : "");
  emulator_overlaps = operation->overlaps;
  memcpy(emulator_grid, operation->grid_sizes, sizeof emulator_grid);
  if (emulator_launch(operation->function->name, operation->function->code, operation->context,
                      arguments, operation->grid, operation->function->cluster, operation->block,
                      operation->shared_bytes, failure, sizeof failure))
    operation->context->error = CUDA_ERROR_ILLEGAL_ADDRESS;
}

static void copy(const struct operation *operation) {
  CUcontext context = operation->context;
  const void *from = operation->host_from
                         ? operation->host_from
                         : reach(context, operation->from, operation->bytes, "a copy");
  void *to = operation->host_to ? operation->host_to
                                : reach(context, operation->to, operation->bytes, "a copy");
  struct allocation *pinned = find_allocation((uintptr_t)from);
  if (operation->host_from && !operation->owns_from && (!pinned || pinned->is_free))
    misuse("a copy reads pinned memory that has been freed");
  memmove(to, from, operation->bytes);
}

static void drain_until(CUstream stream, uint64_t ticket);

/* Milliseconds that libraries say have passed. */
static double skipped;

static double read_clock(void) {
  struct timespec time;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &time);
  return (double)time.tv_sec * 1e3 + (double)time.tv_nsec / 1e6 + skipped;
}

/* The context of the call that is being made. */
static CUcontext caller;

void execute(const struct operation *operation) {
  if (operation->context->error != CUDA_SUCCESS)
    return;
  switch (operation->kind) {
  case LAUNCH:
    return launch(operation);
  case COPY:
    return copy(operation);
  case ALLOCATE:
    if (operation->allocation->of) /* each run of the graph has it anew */
      revive(operation->allocation);
    return;
  case FREE:
    return set_free(operation->allocation);
  case RECORD:
    operation->event->time = read_clock();
    return;
  case WAIT:
    return drain_until(operation->stream, operation->ticket);
  case CALL:
    caller = operation->context;
    return operation->call(operation->call_arguments);
  case GRAPH:
    for (unsigned i = 0; i < operation->num_steps; ++i)
      execute(&operation->steps[i]);
  }
}

static void drain_until(CUstream stream, uint64_t ticket) {
  while (stream->done < ticket && stream->num_queued) {
    struct operation next = stream->queue[0];
    --stream->num_queued;
    memmove(stream->queue, stream->queue + 1, stream->num_queued * sizeof next);
    execute(&next);
    free_operation(&next);
    ++stream->done;
  }
}

static void drain_blocking(CUcontext context) {
  for (CUstream other = streams[context->device]; other; other = other->next)
    if (other->is_blocking)
      drain_until(other, other->issued);
}

CUresult drain(CUstream stream) {
  drain_until(stream, stream->issued);
  return stream->context->error;
}

void drain_all(CUcontext context) {
  for (int device = 0; device < MAX_DEVICES; ++device)
    for (CUstream stream = streams[device]; stream; stream = stream->next)
      if (!context || stream->context == context)
        drain_until(stream, stream->issued);
}

CUresult add_operation(CUstream stream, struct operation operation) {
  operation.context = stream->context;
  if (stream->capture) {
    if (stream->is_invalid) {
      free_operation(&operation);
      return CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    }
    operation.is_ordered = true; /* behind what is on the stream */
    add_step(stream->capture, operation);
    return CUDA_SUCCESS;
  }
  /* The default stream and the others that block are never both at work. */
  if (stream == default_stream(stream->context))
    drain_blocking(stream->context);
  else if (stream->is_blocking)
    drain(default_stream(stream->context));
  if (stream->num_queued == stream->max_queued) {
    stream->max_queued = 2 * stream->max_queued + 16;
    stream->queue = realloc(stream->queue, stream->max_queued * sizeof operation);
  }
  stream->queue[stream->num_queued++] = operation;
  ++stream->issued;
  return CUDA_SUCCESS;
}

static bool uses(const struct operation *operation, const void *host, size_t bytes,
                 CUmodule module) {
  const char *begin = host, *end = begin + bytes;
  if (module && operation->kind == LAUNCH && operation->function->module == module)
    return true;
  for (unsigned i = 0; host && operation->kind == LAUNCH && i < operation->function->num_parameters;
       ++i)
    if (operation->parameters[i] >= (uintptr_t)begin && operation->parameters[i] < (uintptr_t)end)
      return true;
  if (host && operation->kind == COPY &&
      ((operation->host_from >= begin && operation->host_from < end) ||
       (operation->host_to >= begin && operation->host_to < end)))
    return true;
  for (unsigned i = 0; i < operation->num_steps; ++i)
    if (uses(&operation->steps[i], host, bytes, module))
      return true;
  return false;
}

bool is_awaited(const void *host, size_t bytes, CUmodule module) {
  for (int device = 0; device < MAX_DEVICES; ++device)
    for (CUstream stream = streams[device]; stream; stream = stream->next)
      for (size_t i = 0; i < stream->num_queued; ++i)
        if (uses(&stream->queue[i], host, bytes, module))
          return true;
  return false;
}

/*===-- Launches ------------------------------------------------------------===*/

CUresult make_launch(const CUlaunchConfig *launch, CUfunction function, void *const *parameters,
                     const void *extra, struct operation *operation) {
  if (extra || check_launch(function, launch) != CUDA_SUCCESS)
    return CUDA_ERROR_INVALID_VALUE;
  if (function->module->is_unloaded || function->module->context != current())
    misuse("kernel %s of another context, or of a module that is unloaded", function->name);
  *operation =
      (struct operation){.kind = LAUNCH,
                         .context = current(),
                         .function = function,
                         .grid = launch->gridDimX * launch->gridDimY * launch->gridDimZ,
                         .grid_sizes = {launch->gridDimX, launch->gridDimY, launch->gridDimZ},
                         .block = launch->blockDimX,
                         .shared_bytes = launch->sharedMemBytes,
                         .parameters = copy_parameters(function, parameters)};
  return CUDA_SUCCESS;
}

EXPORT CUresult cuLaunchKernelEx(const CUlaunchConfig *launch, CUfunction function,
                                 void **parameters, void **extra) {
  struct operation operation;
  CUresult result = enter();
  bool overlaps = false;
  for (unsigned i = 0; i < launch->numAttrs; ++i) {
    if (launch->attrs[i].id == CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION)
      overlaps = launch->attrs[i].value.programmaticStreamSerializationAllowed;
    else
      result = CUDA_ERROR_INVALID_VALUE;
  }
  if (result == CUDA_SUCCESS)
    result = make_launch(launch, function, parameters, extra, &operation);
  if (result == CUDA_SUCCESS) {
    operation.overlaps = overlaps;
    result = add_operation(get_stream(launch->hStream), operation);
  }
  return leave(result);
}

EXPORT CUresult cuLaunchKernel(CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ,
                               unsigned blockX, unsigned blockY, unsigned blockZ,
                               unsigned sharedBytes, CUstream stream, void **parameters,
                               void **extra) {
  CUlaunchConfig launch = {gridX,  gridY,       gridZ,  blockX, blockY,
                           blockZ, sharedBytes, stream, NULL,   0};
  return cuLaunchKernelEx(&launch, function, parameters, extra);
}

/*===-- Libraries -----------------------------------------------------------===*/

EXPORT int emulator_call(void *stream, void (*function)(const void *arguments),
                         const void *arguments, size_t bytes) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS) {
    struct operation call = {.kind = CALL, .call = function, .bytes = bytes};
    call.call_arguments = malloc(bytes);
    memcpy(call.call_arguments, arguments, bytes);
    result = add_operation(get_stream(stream), call);
  }
  return leave(result);
}

EXPORT void emulator_skip(double milliseconds) { skipped += milliseconds; }

EXPORT void *emulator_reach(uint64_t memory, size_t bytes, const char *what) {
  return reach(caller, memory, bytes, what);
}

/*===-- Streams -------------------------------------------------------------===*/

EXPORT CUresult cuStreamCreate(CUstream *stream, unsigned flags) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS && flags & ~(unsigned)CU_STREAM_NON_BLOCKING)
    result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS) {
    CUstream made = keep(sizeof *made), first = default_stream(current());
    made->context = current();
    made->is_blocking = !flags;
    made->next = first->next;
    first->next = made;
    *stream = made;
  }
  return leave(result);
}
EXPORT CUresult cuStreamDestroy_v2(CUstream stream) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS) {
    get_stream(stream);
    if (stream->capture)
      misuse("a stream is destroyed that is being captured");
    result = drain(stream);
    stream->is_destroyed = true;
  }
  return leave(result);
}
EXPORT CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
  *context = stream->context;
  return CUDA_SUCCESS;
}
EXPORT CUresult cuStreamSynchronize(CUstream stream) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS)
    result = check_uncaptured();
  if (result == CUDA_SUCCESS && get_stream(stream)->capture) {
    get_stream(stream)->is_invalid = true;
    result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
  }
  if (result == CUDA_SUCCESS) {
    record("wait for a stream\n");
    stream = get_stream(stream);
    if (stream == default_stream(current()))
      drain_blocking(current());
    result = drain(stream);
  }
  return leave(result);
}

/*===-- Events --------------------------------------------------------------===*/

static void check_event(CUevent event) {
  if (event->is_destroyed)
    misuse("an event is used that has been destroyed");
}

EXPORT CUresult cuEventCreate(CUevent *event, unsigned flags) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS) {
    *event = keep(sizeof **event);
    (*event)->context = current();
    (*event)->has_time = !(flags & CU_EVENT_DISABLE_TIMING);
  }
  return leave(result);
}
EXPORT CUresult cuEventDestroy_v2(CUevent event) {
  CUresult result = enter();
  check_event(event);
  event->is_destroyed = true;
  return leave(result);
}
EXPORT CUresult cuEventRecord(CUevent event, CUstream stream) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS) {
    check_event(event);
    stream = get_stream(stream);
    if (event->context != current())
      misuse("an event of another context is recorded");
    result = add_operation(stream, (struct operation){.kind = RECORD, .event = event});
    event->capture = stream->capture;
    event->stream = stream;
    event->ticket = stream->issued;
  }
  return leave(result);
}
/* Does nothing of what is to be done, and does not wait for whoever is doing it. */
EXPORT CUresult cuEventQuery(CUevent event) {
  if (!try_enter())
    return CUDA_ERROR_NOT_READY;
  CUresult result = current() ? current()->error : CUDA_ERROR_INVALID_CONTEXT;
  if (result == CUDA_SUCCESS) {
    check_event(event);
    result = check_uncaptured();
  }
  if (result == CUDA_SUCCESS && event->stream && event->stream->done < event->ticket)
    result = CUDA_ERROR_NOT_READY;
  return leave(result);
}
EXPORT CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS) {
    check_event(begin);
    check_event(end);
    if (!begin->has_time || !end->has_time)
      misuse("an event without a time is asked for it");
    if (!begin->stream || !end->stream || begin->time == 0 || end->time == 0)
      misuse("an event is asked for its time before it is reached");
    *milliseconds = (float)(end->time - begin->time);
  }
  return leave(result);
}
EXPORT CUresult cuEventSynchronize(CUevent event) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS)
    result = check_uncaptured();
  if (result == CUDA_SUCCESS) {
    check_event(event);
    record("wait for an event\n");
    if (event->stream)
      drain_until(event->stream, event->ticket);
    result = event->context->error;
  }
  return leave(result);
}
EXPORT CUresult cuStreamWaitEvent(CUstream stream, CUevent event, unsigned flags) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS && flags)
    result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS) {
    check_event(event);
    stream = get_stream(stream);
    if (stream->capture != event->capture && event->stream) {
      if (stream->capture)
        stream->is_invalid = true;
      result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED; /* across the border of a capture */
    } else if (event->stream && !stream->capture) {
      result = add_operation(
          stream,
          (struct operation){.kind = WAIT, .stream = event->stream, .ticket = event->ticket});
    }
  }
  return leave(result);
}

/*===-- Capture -------------------------------------------------------------===*/

static __thread int thread_mode = CU_STREAM_CAPTURE_MODE_GLOBAL;

EXPORT CUresult cuThreadExchangeStreamCaptureMode(int *mode) {
  int old = thread_mode;
  thread_mode = *mode;
  *mode = old;
  return CUDA_SUCCESS;
}

CUresult check_uncaptured(void) {
  CUresult result = CUDA_SUCCESS;
  for (int device = 0; device < MAX_DEVICES && thread_mode != CU_STREAM_CAPTURE_MODE_RELAXED;
       ++device)
    for (CUstream stream = streams[device]; stream; stream = stream->next)
      if (stream->capture && stream->capture_mode != CU_STREAM_CAPTURE_MODE_RELAXED) {
        stream->is_invalid = true;
        result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
      }
  return result;
}

EXPORT CUresult cuStreamBeginCapture_v2(CUstream stream, int mode) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS) {
    stream = get_stream(stream);
    if (stream == default_stream(current()) || stream->capture) {
      result = CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED;
    } else {
      stream->capture = calloc(1, sizeof *stream->capture);
      stream->capture->context = current();
      stream->capture_mode = mode;
      stream->is_invalid = false;
    }
  }
  return leave(result);
}
EXPORT CUresult cuStreamEndCapture(CUstream stream, CUgraph *graph) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS) {
    stream = get_stream(stream);
    *graph = stream->is_invalid ? NULL : stream->capture;
    if (!stream->capture)
      result = CUDA_ERROR_INVALID_VALUE;
    else if (stream->is_invalid)
      result = CUDA_ERROR_STREAM_CAPTURE_INVALIDATED;
    stream->capture = NULL;
  }
  return leave(result);
}
/* A stream's memory is nobody else's later. */
EXPORT CUresult cuStreamGetId(CUstream stream, unsigned long long *id) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS)
    *id = (uintptr_t)get_stream(stream);
  return leave(result);
}
EXPORT CUresult cuStreamIsCapturing(CUstream stream, int *status) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS) {
    stream = get_stream(stream);
    *status = !stream->capture     ? CU_STREAM_CAPTURE_STATUS_NONE
              : stream->is_invalid ? CU_STREAM_CAPTURE_STATUS_INVALIDATED
                                   : CU_STREAM_CAPTURE_STATUS_ACTIVE;
  }
  return leave(result);
}
