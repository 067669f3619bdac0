/* Debug printing's function, for models whose generated code is instrumented (test/sanitize/aot-compile): it shows nothing, and tells
 * the sanitizer around each launch which memory is the kernel's. All that a run has is one block for AddressSanitizer otherwise, so that
 * a kernel that leaves its buffers would not be seen; here it may touch its operands and results from their first elements to their last.
 * MemorySanitizer sees results that a kernel has not written, and what reads them. */
#include "debug.h"
#include "runtime.h"

#include <sanitizer/asan_interface.h>
#include <sanitizer/msan_interface.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct {
  char *data;
  int rank;
  size_t item;
  uint64_t bytes; /* from the first element past the last */
  int64_t shape[KILN_MAX_RANK], strides[KILN_MAX_RANK];
} memory;

static void fail(const kiln_rt_debug_step *step, const char *name, const char *problem) {
  fprintf(stderr, "ERROR: %s (%s): %s %s\n", step->kernel, step->where, name, problem);
  abort();
}

static void measure(memory *to, const kiln_rt_run *run, const kiln_rt_debug_step *step, uint32_t i,
                    void *data) {
  const kiln_rt_debug_tensor *tensor = &step->tensors[i];
  const kiln_rt_program *program = kiln_context_of((kiln_rt_run *)run)->program;
  to->data = data;
  to->rank = tensor->rank;
  to->item = kiln_item_size(tensor->bits);
  for (int d = 0; d < to->rank; ++d)
    to->shape[d] = kiln_size(program, tensor->shape[d], run->symbols);
  kiln_contiguous_strides(to->shape, to->rank, to->strides);
  for (int d = 0; d < to->rank && tensor->strides; ++d)
    to->strides[d] = kiln_size(program, tensor->strides[d], run->symbols);
  if (!kiln_extent(to->shape, to->strides, to->rank, to->item, &to->bytes))
    fail(step, tensor->name, "has sizes that are out of range");
}

static bool meet(const memory *a, const memory *b) {
  return a->data < b->data + b->bytes && b->data < a->data + a->bytes;
}

#if __has_feature(address_sanitizer)

static void set_block(const void *data, size_t bytes, bool is_closed) {
  if (data && bytes && is_closed)
    ASAN_POISON_MEMORY_REGION(data, bytes);
  else if (data && bytes)
    ASAN_UNPOISON_MEMORY_REGION(data, bytes);
}

/* The memory of the run and the model. */
static void set_all(const kiln_rt_run *run, bool is_closed) {
  kiln_context *context = kiln_context_of((kiln_rt_run *)run);
  set_block(context->arena.data, context->arena.bytes, is_closed);
  set_block(context->staging.data, context->staging.bytes, is_closed);
  for (size_t i = 0; i < kiln_max_late_blocks(); ++i)
    if (context->late_blocks)
      set_block(context->late_blocks[i].data, context->late_blocks[i].bytes, is_closed);
  set_block(run->weights, kiln_weights_bytes(), is_closed);
}

static void before(kiln_rt_run *run, const kiln_rt_debug_step *step, const memory *tensors) {
  set_all(run, true);
  for (uint32_t i = 0; i < step->num_operands + step->num_results; ++i)
    set_block(tensors[i].data, tensors[i].bytes, false);
}

static void after(kiln_rt_run *run, const kiln_rt_debug_step *step, const memory *tensors) {
  set_all(run, false);
}

#elif __has_feature(memory_sanitizer)

static void before(kiln_rt_run *run, const kiln_rt_debug_step *step, const memory *tensors) {
  for (uint32_t i = step->num_operands; i < step->num_operands + step->num_results; ++i) {
    bool is_updated = false;
    for (uint32_t other = 0; other < step->num_operands; ++other)
      is_updated |= meet(&tensors[i], &tensors[other]);
    if (!is_updated && tensors[i].bytes)
      __msan_allocated_memory(tensors[i].data, tensors[i].bytes);
  }
}

/* The elements from dimension `d` on. */
static bool is_written(const memory *tensor, const char *data, int d) {
  if (d == tensor->rank)
    return __msan_test_shadow(data, tensor->item) < 0;
  for (int64_t i = 0; i < tensor->shape[d]; ++i)
    if (!is_written(tensor, data + i * tensor->strides[d] * (int64_t)tensor->item, d + 1))
      return false;
  return true;
}

static void after(kiln_rt_run *run, const kiln_rt_debug_step *step, const memory *tensors) {
  for (uint32_t i = step->num_operands; i < step->num_operands + step->num_results; ++i)
    /* Results without a node are work memory, of which a part may be enough. */
    if (step->tensors[i].node && tensors[i].bytes &&
        __msan_test_shadow(tensors[i].data, tensors[i].bytes) >= 0 &&
        !is_written(&tensors[i], tensors[i].data, 0))
      fail(step, step->tensors[i].name, "has elements that were not written or not computed");
}

#else
#error "There is nothing to tell without a sanitizer."
#endif

int32_t kiln_rt_debug(kiln_rt_run *run, const kiln_rt_debug_step *step, int32_t time,
                      void *const *buffers) {
  if (time == KILN_RT_DEBUG_INPUTS)
    return KILN_OK;
  uint32_t count = step->num_operands + step->num_results;
  memory *tensors = calloc(count + 1, sizeof *tensors);
  if (!tensors)
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for a check");
  for (uint32_t i = 0; i < count; ++i)
    measure(&tensors[i], run, step, i, buffers[i]);
  (time == KILN_RT_DEBUG_BEFORE ? before : after)(run, step, tensors);
  free(tensors);
  return KILN_OK;
}
