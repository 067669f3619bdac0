/*===- gpu-kernels.c - Kernels of gpu.c, as an image for the emulator -------===*
 *
 * What --gpu-arch=emulator makes of kernels, by hand (lib/Targets/CUDA/Emulate.cpp).
 *
 *===-----------------------------------------------------------------------===*/
#include <stdint.h>

#ifndef GPU_STRIDE /* gpu.h has the same */
#define GPU_STRIDE 1024
#endif
enum { THREADS = 64, STRIDE = GPU_STRIDE };

int32_t kiln_emulator_thread(void);
int32_t kiln_emulator_block(void);
void kiln_emulator_buffer(void *address, int64_t bytes);
void *kiln_emulator_access(void *pointer, int64_t bytes, int32_t writes);
void kiln_emulator_workspace(void *address, int64_t flags, int64_t each, int64_t all);
int32_t kiln_emulator_blocks(void);
int32_t kiln_emulator_rank(void);
void *kiln_emulator_shared(void);
void *kiln_emulator_map_shared(void *address, int32_t rank);
void kiln_emulator_cluster_arrive(void);
void kiln_emulator_cluster_wait(void);
void kiln_emulator_mbarrier_init(void *address, int32_t count);
void kiln_emulator_fence_mbarrier_init(void);
void kiln_emulator_mbarrier_arrive(void *address);
void kiln_emulator_mbarrier_wait(void *address, int32_t parity);

void kiln_emulator_grid_wait(void);

static float load(float *buffer, int64_t i) {
  return *(float *)kiln_emulator_access(buffer + i, sizeof(float), 0);
}
static void store(float *buffer, int64_t i, float value) {
  *(float *)kiln_emulator_access(buffer + i, sizeof(float), 1) = value;
}

/* y = x + 1: x, y; count. Where x is NaN, that is an error. Each block has THREADS elements of
 * every `step`. */
static void add_one(void **arguments, int64_t step) {
  float *x = *(float **)arguments[0], *y = *(float **)arguments[1];
  int64_t count = *(int64_t *)arguments[2];
  int32_t *error = *(int32_t **)arguments[3];
  int64_t i = (int64_t)kiln_emulator_block() * THREADS + kiln_emulator_thread();
  kiln_emulator_grid_wait();
  kiln_emulator_buffer(x, 4 * count);
  kiln_emulator_buffer(y, 4 * count);
  for (; i < count; i += step) {
    float value = load(x, i);
    if (value != value)
      *error = 1;
    store(y, i, value + 1);
  }
}

const int64_t bump_parameters = 4;
void bump_emulated(void **arguments) { add_one(arguments, INT64_MAX / 2); }

/* Blocks in pairs, of which each goes on when the other one has told it to. */
const int64_t bump_pairs_parameters = 4, bump_pairs_cluster = 2;
void bump_pairs_emulated(void **arguments) {
  int32_t thread = kiln_emulator_thread();
  char *barrier = kiln_emulator_shared();
  if (thread == 0) {
    kiln_emulator_mbarrier_init(barrier, 1);
    kiln_emulator_fence_mbarrier_init();
  }
  kiln_emulator_cluster_arrive();
  kiln_emulator_cluster_wait();
  if (thread == 0)
    kiln_emulator_mbarrier_arrive(kiln_emulator_map_shared(barrier, 1 - kiln_emulator_rank()));
  kiln_emulator_mbarrier_wait(barrier, 0);
  add_one(arguments, (int64_t)kiln_emulator_blocks() * THREADS);
}

/* y[i] = x[i] + weights[STRIDE * i]: x, weights, y; count */
const int64_t weigh_parameters = 5;
void weigh_emulated(void **arguments) {
  float *x = *(float **)arguments[0], *weights = *(float **)arguments[1];
  float *y = *(float **)arguments[2];
  int64_t count = *(int64_t *)arguments[3];
  int64_t i = (int64_t)kiln_emulator_block() * THREADS + kiln_emulator_thread();
  kiln_emulator_grid_wait();
  kiln_emulator_buffer(x, 4 * count);
  kiln_emulator_buffer(weights, 4 * (STRIDE * (count - 1) + 1));
  kiln_emulator_buffer(y, 4 * count);
  if (i < count)
    store(y, i, load(x, i) + load(weights, STRIDE * i));
}

/* The copy of kiln_rt_device: target, source; count, bytes of an element, sizes, strides of both. */
enum { COPY_RANK = 6 };
const int64_t copy_parameters = 2 + 2 + 3 * COPY_RANK + 1;
void copy_emulated(void **arguments) {
  char *to = *(char **)arguments[0], *from = *(char **)arguments[1];
  int64_t numbers[2 + 3 * COPY_RANK], to_span = 1, from_span = 1, to_at = 0, from_at = 0;
  for (int i = 0; i < 2 + 3 * COPY_RANK; ++i)
    numbers[i] = *(int64_t *)arguments[2 + i];
  int64_t i = (int64_t)kiln_emulator_block() * THREADS + kiln_emulator_thread(), item = numbers[1];
  const int64_t *sizes = numbers + 2, *to_strides = sizes + COPY_RANK;
  const int64_t *from_strides = to_strides + COPY_RANK;
  for (int d = 0; d < COPY_RANK; ++d) {
    to_span += (sizes[d] - 1) * to_strides[d];
    from_span += (sizes[d] - 1) * from_strides[d];
  }
  kiln_emulator_grid_wait();
  kiln_emulator_buffer(to, to_span * item);
  kiln_emulator_buffer(from, from_span * item);
  if (i >= numbers[0])
    return;
  for (int d = COPY_RANK; d-- > 0; i /= sizes[d]) {
    to_at += i % sizes[d] * to_strides[d];
    from_at += i % sizes[d] * from_strides[d];
  }
  const char *source = kiln_emulator_access(from + from_at * item, item, 0);
  char *target = kiln_emulator_access(to + to_at * item, item, 1);
  for (int64_t b = 0; b < item; ++b)
    target[b] = source[b];
}

/* A Triton kernel in three dims: y[i] = x[i] * factor + offset + small + half: y, x, null; factor (f32), offset (f64), small
 * (int8), whether to do anything (bool), count (uint64). */
const int64_t scale_parameters = 8, scale_dims = 3;
void scale_emulated(void **arguments) {
  float *y = *(float **)arguments[0], *x = *(float **)arguments[1];
  float factor = *(float *)arguments[3];
  double offset = *(double *)arguments[4];
  int8_t small = *(int8_t *)arguments[5];
  uint8_t does = *(uint8_t *)arguments[6];
  int64_t count = (int64_t)*(uint64_t *)arguments[7];
  int64_t i = (int64_t)kiln_emulator_block() * THREADS + kiln_emulator_thread();
  kiln_emulator_buffer(x, 4 * count);
  kiln_emulator_buffer(y, 4 * count);
  if (i < count && does && !*(void **)arguments[2])
    store(y, i, load(x, i) * factor + (float)offset + (float)small);
}

/* Variants with a workspace and maps: x, y; count; error, workspace, maps. */
static void add_one_boxed(void **arguments) {
  if (*(void **)arguments[4])
    add_one(arguments, (int64_t)kiln_emulator_blocks() * THREADS);
}
const int64_t boxed_parameters = 5, boxed_maps = 2;
void boxed_emulated(void **arguments) { add_one_boxed(arguments); }

/* All blocks have the bytes behind the workspace's flags: x, y; count; error, workspace. */
enum { FLAG_BYTES = 1024 * 32, SHARED_BYTES = 1024 };
const int64_t together_parameters = 5;
void together_emulated(void **arguments) {
  kiln_emulator_workspace(*(void **)arguments[4], FLAG_BYTES, 0, SHARED_BYTES);
  add_one(arguments, INT64_MAX / 2);
}

/* Tells of a failure that the program has a text for. */
const int64_t failing_parameters = 1;
void failing_emulated(void **arguments) {
  if (kiln_emulator_block() == 0 && kiln_emulator_thread() == 0)
    **(int32_t **)arguments[0] = 2;
}
