/*===- profile.c - What a host that takes a profile is told -----------------===*
 *
 * A context has a profile if the host asked for one (kiln_options.profile); kiln_rt_launch then comes
 * here. Tasks run inside a function that notes which thread had them, so that the pool has no code for
 * this, and the host's parallel_for is measured in the same way.
 *
 *===-----------------------------------------------------------------------===*/
#include "runtime.h"

#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

/* The tasks of a launch that one thread did. Threads write to lines of their own. */
typedef struct {
  _Alignas(KILN_ALIGNMENT) int64_t begin;
  int64_t end, thread, tasks;
} kiln_slice;

struct kiln_profile {
  uint64_t run;
  int64_t thread, begin;
  int64_t call_begin; /* of the call between kiln_rt_begin_step and kiln_rt_end_step */
  uint32_t max_slices;
  kiln_slice slices[];
};

typedef struct {
  kiln_rt_kernel kernel;
  void *const *buffers;
  uint64_t number;
  kiln_profile *profile;
  _Atomic uint32_t num_slices;
} kiln_profiled_launch;

int64_t kiln_now(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (int64_t)time.tv_sec * 1000000000 + time.tv_nsec;
}

/*===-- A context's profile -------------------------------------------------===*/

static size_t profile_bytes(uint32_t max_slices) {
  return sizeof(kiln_profile) + max_slices * sizeof(kiln_slice);
}

bool kiln_profile_open(kiln_context *context) {
  const kiln_options *options = &context->model->options;
  /* With a host's parallel_for its threads are not known. Those past the last slice are not shown. */
  int threads = options->num_threads && !options->parallel_for ? options->num_threads
                                                               : 2 * kiln_usable_cpus();
  size_t bytes = profile_bytes((uint32_t)threads);
  kiln_profile *profile = kiln_allocate(&context->model->allocator, bytes);
  if (!profile)
    return false;
  memset(profile, 0, bytes);
  profile->max_slices = (uint32_t)threads;
  context->profile = profile;
  return true;
}

void kiln_profile_free(kiln_context *context) {
  if (context->profile)
    kiln_deallocate(&context->model->allocator, context->profile,
                    profile_bytes(context->profile->max_slices));
  context->profile = NULL;
}

/*===-- Events --------------------------------------------------------------===*/

static void tell(const kiln_context *context, kiln_profile_event event) {
  const kiln_options *options = &context->model->options;
  event.struct_size = sizeof event;
  event.run = context->profile->run;
  options->profile(options->profile_ctx, &event);
}

void kiln_profile_begin(kiln_context *context) {
  static _Atomic uint64_t runs;
  kiln_profile *profile = context->profile;
  profile->run = atomic_fetch_add_explicit(&runs, 1, memory_order_relaxed);
  profile->thread = syscall(SYS_gettid);
  profile->begin = kiln_now();
}

static void tell_memory(const kiln_context *context, const char *name, uint64_t bytes,
                        int64_t end) {
  const kiln_profile *profile = context->profile;
  if (bytes)
    tell(context, (kiln_profile_event){.kind = KILN_PROFILE_MEMORY,
                                       .name = name,
                                       .where = "",
                                       .launch = -1,
                                       .thread = profile->thread,
                                       .begin = profile->begin,
                                       .end = end,
                                       .bytes = (int64_t)bytes,
                                       .weight_bytes = -1,
                                       .flops = -1});
}

void kiln_profile_end(kiln_context *context) {
  const kiln_profile *profile = context->profile;
  int64_t end = kiln_now();
  int64_t arena = context->program->sizes ? context->program->sizes(context->symbols) : 0;
  uint64_t late = 0;
  for (uint32_t i = 0; i < context->program->num_segments; ++i)
    late += context->late_blocks[i].bytes;
  uint64_t state = context->model->weights.state_bytes;
  tell_memory(context, "weights", kiln_weights_bytes() - state, end);
  tell_memory(context, "buffers of the session", state, end);
  tell_memory(context, "arena", arena > 0 ? (uint64_t)arena : 0, end);
  tell_memory(context, "sizes that data gives", late, end);
  tell_memory(context, "copies of inputs and outputs", context->staging.bytes, end);
  tell(context, (kiln_profile_event){.kind = KILN_PROFILE_RUN,
                                     .name = "run",
                                     .where = "",
                                     .launch = -1,
                                     .thread = profile->thread,
                                     .begin = profile->begin,
                                     .end = end,
                                     .bytes = -1,
                                     .weight_bytes = -1,
                                     .flops = -1});
}

/* The value of a cost, -1 if it is not known. */
static int64_t get_cost(const kiln_context *context, int64_t cost) {
  if (cost >= 0)
    return cost;
  return cost == KILN_RT_UNKNOWN ? -1
                                 : context->program->profile->eval(context->symbols, -(cost + 1));
}

static bool is_weight(const kiln_context *context, const void *buffer) {
  return (uintptr_t)buffer - (uintptr_t)context->run.weights < kiln_weights_bytes();
}

void kiln_profile_step(kiln_context *context, int64_t step, void *const *buffers, int64_t tasks,
                       int64_t thread, int64_t begin, int64_t end) {
  const kiln_rt_profile *tables = context->program->profile;
  const kiln_rt_profile_kernel *kernel = &tables->kernels[tables->steps[step].kernel];
  const int64_t *costs = &tables->costs[kernel->first_cost];
  int64_t bytes = 0, weight_bytes = 0;
  for (int64_t i = 0; i < kernel->num_buffers && bytes >= 0; ++i) {
    int64_t moved = get_cost(context, costs[1 + i]);
    bytes = moved < 0 ? -1 : bytes + moved;
    if (moved > 0 && is_weight(context, buffers[i]))
      weight_bytes += moved;
  }
  tell(context, (kiln_profile_event){.kind = KILN_PROFILE_STEP,
                                     .name = tables->texts + kernel->name,
                                     .where = tables->texts + tables->steps[step].where,
                                     .launch = step,
                                     .thread = thread,
                                     .begin = begin,
                                     .end = end,
                                     .tasks = tasks,
                                     .bytes = bytes,
                                     .weight_bytes = bytes < 0 ? -1 : weight_bytes,
                                     .flops = get_cost(context, costs[0])});
}

/*===-- Launches ------------------------------------------------------------===*/

static kiln_slice *find_slice(kiln_profiled_launch *launch) {
  static _Thread_local struct {
    uint64_t launch;
    kiln_slice *slice;
  } current;
  if (current.launch == launch->number)
    return current.slice;
  uint32_t index = atomic_fetch_add_explicit(&launch->num_slices, 1, memory_order_relaxed);
  current.launch = launch->number;
  current.slice = index < launch->profile->max_slices ? &launch->profile->slices[index] : NULL;
  if (current.slice)
    *current.slice = (kiln_slice){.begin = kiln_now(), .thread = syscall(SYS_gettid)};
  return current.slice;
}

/* A kiln_rt_kernel: `buffers` are the launch. */
static void run_task(void *const *buffers, const int64_t *symbols, int64_t i, void *scratch,
                     int32_t *error) {
  kiln_profiled_launch *launch = (void *)buffers;
  kiln_slice *slice = find_slice(launch);
  launch->kernel(launch->buffers, symbols, i, scratch, error);
  if (slice) {
    slice->end = kiln_now();
    ++slice->tasks;
  }
}

static void tell_slices(kiln_context *context, const kiln_profiled_launch *launch, int64_t step) {
  const kiln_rt_profile *tables = context->program->profile;
  const kiln_profile *profile = context->profile;
  uint32_t count = atomic_load_explicit(&launch->num_slices, memory_order_relaxed);
  for (uint32_t i = 0; i < count && i < profile->max_slices; ++i) {
    const kiln_slice *slice = &profile->slices[i];
    tell(context, (kiln_profile_event){.kind = KILN_PROFILE_SLICE,
                                       .name = tables->texts +
                                               tables->kernels[tables->steps[step].kernel].name,
                                       .where = "",
                                       .launch = step,
                                       .thread = slice->thread,
                                       .begin = slice->begin,
                                       .end = slice->end,
                                       .tasks = slice->tasks,
                                       .bytes = -1,
                                       .weight_bytes = -1,
                                       .flops = -1});
  }
}

int32_t kiln_profile_launch(kiln_rt_run *run, kiln_rt_kernel kernel, void *const *buffers,
                            int64_t grid, int64_t step) {
  static _Atomic uint64_t launches;
  kiln_context *context = kiln_context_of(run);
  const kiln_model *model = context->model;
  kiln_profile *profile = context->profile;
  kiln_profiled_launch launch = {.kernel = kernel, .buffers = buffers, .profile = profile};
  bool has_slices = grid > 1 && (model->pool || model->options.parallel_for);
  launch.number = 1 + atomic_fetch_add_explicit(&launches, 1, memory_order_relaxed);
  context->profile = NULL; /* for the launch itself */
  int64_t begin = kiln_now();
  int32_t status =
      has_slices && step >= 0
          ? kiln_rt_launch(run, run_task, (void *const *)&launch, grid, KILN_RT_NO_STEP)
          : kiln_rt_launch(run, kernel, buffers, grid, KILN_RT_NO_STEP);
  int64_t end = kiln_now();
  context->profile = profile;
  if (step < 0)
    return status;
  tell_slices(context, &launch, step);
  kiln_profile_step(context, step, buffers, grid, profile->thread, begin, end);
  return status;
}

/*===-- Calls ---------------------------------------------------------------===*/

/* All that the run has put on a device has ended. */
static int32_t settle(kiln_context *context) {
  return kiln_program.device ? kiln_program.device->functions->settle(context) : KILN_OK;
}

int32_t kiln_rt_begin_step(kiln_rt_run *run) {
  kiln_context *context = kiln_context_of(run);
  if (KILN_LIKELY(!context->profile))
    return KILN_OK;
  int32_t status = settle(context);
  context->profile->call_begin = kiln_now();
  return status;
}

int32_t kiln_rt_end_step(kiln_rt_run *run, int64_t step, void *const *buffers) {
  kiln_context *context = kiln_context_of(run);
  if (KILN_LIKELY(!context->profile))
    return KILN_OK;
  int32_t status = settle(context);
  if (status == KILN_OK)
    kiln_profile_step(context, step, buffers, 1, context->profile->thread,
                      context->profile->call_begin, kiln_now());
  return status;
}
