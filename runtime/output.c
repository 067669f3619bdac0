/*===- output.c - Outputs that the model allocates --------------------------===*
 *
 * The memory of a large output goes back to the system when it is freed, and
 * comes back a page fault at a time: for a decoder that returns its key/value
 * cache that is a good part of a run. For a small one, malloc's own lists are
 * what no cache holds after a run. So the last block of each output that was
 * deleted is kept for the next run, unless the host allocates memory itself.
 *
 *===-----------------------------------------------------------------------===*/
#include "runtime.h"

#include <stdlib.h>
#include <string.h>

/* An output in a NULL slot: this, its sizes and strides, then the data. */
typedef struct {
  DLManagedTensorVersioned tensor;
  kiln_allocator allocator;
  size_t bytes;            /* of the whole block */
  kiln_kept_outputs *kept; /* NULL: none are kept */
  uint32_t index;          /* among those of all entries */
  int64_t sizes[];
} output_block;

struct kiln_kept_outputs {
  _Atomic size_t users;             /* the model, and the outputs that callers have */
  _Atomic(output_block *) blocks[]; /* the last deleted one of each output */
};

/* In the place of a block once the model is gone. */
static output_block closed;

static void release(kiln_kept_outputs *kept) {
  if (atomic_fetch_sub_explicit(&kept->users, 1, memory_order_acq_rel) == 1)
    free(kept);
}

static void free_block(output_block *block) {
  if (!block)
    return;
  kiln_allocator allocator = block->allocator;
  kiln_deallocate(&allocator, block, block->bytes);
}

int32_t kiln_outputs_open(kiln_model *model) {
  size_t outputs = kiln_num_outputs();
  if (model->allocator.alloc || !outputs)
    return KILN_OK;
  model->kept_outputs =
      calloc(1, sizeof *model->kept_outputs + outputs * sizeof(_Atomic(output_block *)));
  if (!model->kept_outputs)
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for a model");
  atomic_init(&model->kept_outputs->users, 1);
  return KILN_OK;
}

void kiln_outputs_close(kiln_model *model) {
  kiln_kept_outputs *kept = model->kept_outputs;
  if (!kept)
    return;
  for (size_t o = 0; o < kiln_num_outputs(); ++o)
    free_block(atomic_exchange_explicit(&kept->blocks[o], &closed, memory_order_acq_rel));
  release(kept);
}

void kiln_delete_output(DLManagedTensorVersioned *tensor) {
  if (!tensor)
    return;
  output_block *block = tensor->manager_ctx;
  kiln_kept_outputs *kept = block->kept;
  if (!kept) {
    free_block(block);
    return;
  }
  _Atomic(output_block *) *place = &kept->blocks[block->index];
  output_block *former = atomic_load_explicit(place, memory_order_relaxed);
  for (bool is_kept = false; former != &closed && !is_kept;)
    is_kept = atomic_compare_exchange_weak_explicit(place, &former, block, memory_order_acq_rel,
                                                    memory_order_relaxed);
  free_block(former == &closed ? block : former);
  release(kept);
}

/* A block of at least `bytes` and less than twice as many. */
static output_block *take_block(kiln_model *model, uint32_t index, size_t bytes) {
  kiln_kept_outputs *kept = model->kept_outputs;
  output_block *block =
      kept ? atomic_exchange_explicit(&kept->blocks[index], NULL, memory_order_acq_rel) : NULL;
  if (block && (block->bytes < bytes || block->bytes / 2 >= bytes)) {
    free_block(block);
    block = NULL;
  }
  if (!block) {
    block = kiln_allocate(&model->allocator, bytes);
    if (KILN_UNLIKELY(!block))
      return NULL;
    block->bytes = bytes;
  }
  if (kept)
    atomic_fetch_add_explicit(&kept->users, 1, memory_order_relaxed);
  block->kept = kept;
  block->index = index;
  block->allocator = model->allocator;
  return block;
}

int32_t kiln_allocate_output(kiln_context *context, uint32_t index) {
  const kiln_rt_tensor *tensor = &context->program->outputs[index];
  int64_t sizes[2 * KILN_MAX_RANK];
  int rank = tensor->rank;
  uint64_t extent;
  int32_t status = kiln_output_layout(context, index, sizes, sizes + rank, &extent);
  if (KILN_UNLIKELY(status != KILN_OK))
    return status;
  size_t header = sizeof(output_block) + 2 * (size_t)rank * sizeof(int64_t);
  header = (header + KILN_ALIGNMENT - 1) / KILN_ALIGNMENT * KILN_ALIGNMENT;
  size_t bytes = (header + extent + KILN_ALIGNMENT - 1) / KILN_ALIGNMENT * KILN_ALIGNMENT;
  output_block *block = take_block(context->model, context->first_output + index, bytes);
  if (KILN_UNLIKELY(!block))
    return kiln_fail(KILN_OUT_OF_MEMORY, "output %u \"%s\": out of memory for %zu bytes", index,
                     tensor->name, bytes);
  memcpy(block->sizes, sizes, 2 * (size_t)rank * sizeof(int64_t));
  void *data = (char *)block + header;
  block->tensor =
      (DLManagedTensorVersioned){.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
                                 .manager_ctx = block,
                                 .deleter = kiln_delete_output,
                                 .dl_tensor = {.data = extent ? data : NULL,
                                               .device = {kDLCPU, 0},
                                               .ndim = rank,
                                               .dtype = {tensor->code, tensor->bits, 1},
                                               .shape = block->sizes,
                                               .strides = block->sizes + rank}};
  context->output_slots[index].allocated = &block->tensor;
  context->outputs[index] = data;
  return KILN_OK;
}
