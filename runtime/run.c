/*===- run.c - One run ------------------------------------------------------===*
 *
 * All of a run's memory but its outputs lives in a context, which returns to the
 * session's free list when the run is over. Nothing of the caller's is written to
 * before all checks have passed.
 *
 *===-----------------------------------------------------------------------===*/
#include "runtime.h"

#include <string.h>

/*===-- Contexts ------------------------------------------------------------===*/

/* Numbers that bind reads of an input beside its sizes, these included. */
static size_t num_properties(const kiln_rt_tensor *input) {
  return input->flags & KILN_RT_VALUE ? 1 : input->flags & KILN_RT_STRIDED ? 2 * input->rank : 0;
}

static size_t num_libraries(const kiln_rt_program *program) {
  return program->externs ? program->externs->num_libraries : 0;
}

/* The arrays of an entry, behind the blocks. */
static size_t array_bytes(const kiln_rt_program *program) {
  size_t tensors = (size_t)program->num_inputs + program->num_outputs, properties = 0;
  for (uint32_t i = 0; i < program->num_inputs; ++i)
    properties += num_properties(&program->inputs[i]);
  return tensors * (sizeof(void *) + sizeof(kiln_slot)) + program->num_inputs * sizeof(int64_t *) +
         program->num_symbols * sizeof(int64_t) + properties * sizeof(int64_t) +
         program->num_segments * sizeof(void *) + num_libraries(program) * sizeof(void *);
}

/* The blocks stay where they are whichever entry runs, and with them their memory. Those of outputs
 * stay empty where no output is bound late. */
static size_t block_bytes(void) { return kiln_max_late_blocks() * sizeof(kiln_block); }

static size_t context_bytes(void) {
  size_t most = 0;
  for (uint32_t i = 0; i < kiln_num_entries(); ++i) {
    size_t bytes = array_bytes(kiln_entry(i));
    most = bytes > most ? bytes : most;
  }
  return sizeof(kiln_context) + block_bytes() + most;
}

void kiln_context_enter(kiln_context *context, uint32_t entry) {
  const kiln_rt_program *program = kiln_entry(entry);
  char *arrays = (char *)context->late_blocks + block_bytes();
  memset(arrays, 0, array_bytes(program));
  context->program = program;
  context->entry = entry;
  context->first_output = 0;
  for (uint32_t i = 0; i < entry; ++i)
    context->first_output += kiln_entry(i)->num_outputs;
  context->input_slots = (kiln_slot *)(void *)arrays;
  context->output_slots = context->input_slots + program->num_inputs;
  context->inputs = (void **)(context->output_slots + program->num_outputs);
  context->outputs = context->inputs + program->num_inputs;
  context->shapes = (const int64_t **)(context->outputs + program->num_outputs);
  context->symbols = (int64_t *)(context->shapes + program->num_inputs);
  context->segments = (void **)(context->symbols + program->num_symbols);
  context->kept = context->segments + program->num_segments;
  context->properties = (int64_t *)(context->kept + num_libraries(program));
  context->run.inputs = context->inputs;
  context->run.outputs = context->outputs;
  context->run.symbols = context->symbols;
  context->run.segments = context->segments;
}

KILN_FAILURE static kiln_context *context_create(kiln_session *session, uint32_t entry) {
  kiln_model *model = session->model;
  kiln_context *context = kiln_allocate(&model->allocator, context_bytes());
  if (!context)
    return NULL;
  memset(context, 0, context_bytes());
  context->model = model;
  context->session = session;
  context->late_blocks = (kiln_block *)(context + 1);
  context->run.error = &context->error;
  kiln_context_enter(context, entry);
  bool fits = kiln_block_reserve(&context->scratch, &model->allocator, kiln_max_scratch_bytes());
  bool has_profile = false;
  for (uint32_t i = 0; i < kiln_num_entries(); ++i)
    has_profile |= kiln_entry(i)->profile != NULL;
  if (fits && model->options.profile && has_profile)
    fits = kiln_profile_open(context);
  if (!fits) {
    kiln_block_free(&context->scratch, &model->allocator);
    kiln_deallocate(&model->allocator, context, context_bytes());
    return NULL;
  }
  return context;
}

kiln_context *kiln_context_take(kiln_session *session, uint32_t entry) {
  kiln_context *context = (kiln_context *)kiln_pop(&session->contexts);
  if (KILN_UNLIKELY(!context && !(context = context_create(session, entry))))
    return NULL;
  if (KILN_UNLIKELY(context->entry != entry))
    kiln_context_enter(context, entry);
  context->error = 0;
  context->failure = KILN_OK;
  return context;
}

void kiln_context_put(kiln_context *context) {
  kiln_pool_release(context);
  kiln_push(&context->session->contexts, &context->node);
}

int32_t kiln_contexts_open(kiln_session *session) {
  kiln_context *context = kiln_context_take(session, 0);
  if (!context)
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for a run");
  kiln_context_put(context);
  return KILN_OK;
}

void kiln_contexts_free(kiln_session *session) {
  kiln_model *model = session->model;
  for (kiln_node *node; (node = kiln_pop(&session->contexts));) {
    kiln_context *context = (kiln_context *)node;
    if (context->device)
      kiln_program.device->functions->free_context(context);
    kiln_block_free(&context->arena, &model->allocator);
    kiln_block_free(&context->staging, &model->allocator);
    kiln_block_free(&context->scratch, &model->allocator);
    kiln_profile_free(context);
    for (size_t i = 0; i < kiln_max_late_blocks(); ++i)
      kiln_block_free(&context->late_blocks[i], &model->allocator);
    kiln_deallocate(&model->allocator, context, context_bytes());
  }
}

/*===-- Inputs --------------------------------------------------------------===*/

kiln_expectation kiln_expect(const kiln_context *context, const char *role,
                             const kiln_rt_tensor *tensor, uint32_t index, const int64_t *symbols) {
  return (kiln_expectation){role,          index,        tensor->name,
                            tensor->code,  tensor->bits, tensor->rank,
                            tensor->shape, symbols,      context->program};
}

static bool overlap(const kiln_view *a, const kiln_view *b) {
  return a->extent && b->extent && a->data < b->data + b->extent && b->data < a->data + a->extent;
}

/* A mutated input is written in place, so nothing else may be there. */
static int32_t check_mutated(const kiln_context *context, const DLTensor *const *inputs,
                             uint32_t index) {
  const kiln_rt_tensor *tensor = &context->program->inputs[index];
  const kiln_view *view = &context->input_slots[index].view;
  if (view->strides && kiln_may_overlap_itself(inputs[index]->shape, view->strides, tensor->rank))
    return kiln_fail(KILN_INVALID_ARGUMENT,
                     "input %u \"%s\": expected strides under which no elements share memory, "
                     "since the model writes to this input",
                     index, tensor->name);
  for (uint32_t i = 0; i < context->program->num_inputs; ++i)
    if (i != index && overlap(view, &context->input_slots[i].view))
      return kiln_fail(
          KILN_INVALID_ARGUMENT,
          "input %u \"%s\": expected memory of its own, since the model writes to this "
          "input, but it overlaps input %u \"%s\"",
          index, tensor->name, i, context->program->inputs[i].name);
  return KILN_OK;
}

/* The properties that bind reads instead of the sizes alone. */
static void read_properties(const kiln_rt_tensor *input, const DLTensor *tensor,
                            const kiln_view *view, int64_t *properties) {
  if (input->flags & KILN_RT_VALUE) {
    memcpy(properties, view->data, sizeof *properties);
    return;
  }
  if (!input->rank)
    return;
  memcpy(properties, tensor->shape, input->rank * sizeof *properties);
  if (tensor->strides)
    memcpy(properties + input->rank, tensor->strides, input->rank * sizeof *properties);
  else
    kiln_contiguous_strides(tensor->shape, input->rank, properties + input->rank);
}

int32_t kiln_check_inputs(kiln_context *context, const DLTensor *const *inputs) {
  const kiln_rt_program *program = context->program;
  static int64_t no_sizes;
  int64_t *properties = context->properties;
  for (uint32_t i = 0; i < program->num_inputs; ++i) {
    kiln_expectation expected = kiln_expect(context, "input", &program->inputs[i], i, NULL);
    int32_t status = kiln_check_tensor(&expected, inputs[i], &context->input_slots[i].view);
    if (KILN_UNLIKELY(status != KILN_OK))
      return status;
    context->shapes[i] = inputs[i]->shape ? inputs[i]->shape : &no_sizes;
    if (KILN_UNLIKELY(program->inputs[i].flags & (KILN_RT_STRIDED | KILN_RT_VALUE))) {
      DLDeviceType device = inputs[i]->device.device_type;
      if ((program->inputs[i].flags & KILN_RT_VALUE) && device != kDLCPU && device != kDLCUDAHost)
        return kiln_fail(KILN_INVALID_ARGUMENT,
                         "input %u \"%s\": expected an integer in the host's memory", i,
                         program->inputs[i].name);
      read_properties(&program->inputs[i], inputs[i], &context->input_slots[i].view, properties);
      context->shapes[i] = properties;
      properties += num_properties(&program->inputs[i]);
    }
  }
  if (program->num_symbols) {
    int32_t unsolved = program->bind(context->shapes, context->symbols);
    if (KILN_UNLIKELY(unsolved != 0)) {
      uint32_t i = (uint32_t)unsolved - 1;
      if (i >= program->num_inputs)
        return kiln_fail(KILN_INTERNAL, "the sizes of the inputs contradict each other");
      kiln_expectation expected = kiln_expect(context, "input", &program->inputs[i], i, NULL);
      return kiln_fail_type(KILN_SHAPE_MISMATCH, &expected, inputs[i]);
    }
    int32_t status = kiln_check_symbols(program, context->symbols, inputs);
    for (uint32_t i = 0; i < program->num_inputs && status == KILN_OK; ++i) {
      kiln_expectation expected =
          kiln_expect(context, "input", &program->inputs[i], i, context->symbols);
      status = kiln_check_shape(&expected, inputs[i]);
    }
    if (KILN_UNLIKELY(status != KILN_OK))
      return status;
  }
  for (uint32_t i = 0; i < program->num_inputs; ++i) {
    uint32_t flags = program->inputs[i].flags;
    int32_t status = KILN_OK;
    if (KILN_UNLIKELY(flags & (KILN_RT_STRIDED | KILN_RT_VALUE)))
      status = kiln_check_properties(program, i, context->shapes[i], context->symbols);
    if (KILN_UNLIKELY(status == KILN_OK && (flags & KILN_RT_MUTATED)))
      status = check_mutated(context, inputs, i);
    if (KILN_UNLIKELY(__asan_region_is_poisoned && status == KILN_OK)) {
      kiln_expectation expected =
          kiln_expect(context, "input", &program->inputs[i], i, context->symbols);
      status = kiln_check_memory(&expected, inputs[i], &context->input_slots[i].view);
    }
    if (KILN_UNLIKELY(status != KILN_OK))
      return status;
  }
  return KILN_OK;
}

/*===-- Outputs -------------------------------------------------------------===*/

int32_t kiln_output_layout(const kiln_context *context, uint32_t index, int64_t *shape,
                           int64_t *strides, uint64_t *extent) {
  const kiln_rt_tensor *tensor = &context->program->outputs[index];
  int rank = tensor->rank;
  bool valid = true;
  for (int d = 0; d < rank; ++d) {
    shape[d] = kiln_size(context->program, tensor->shape[d], context->symbols);
    valid &= shape[d] >= 0;
  }
  uint64_t bytes;
  valid = valid && kiln_bytes(shape, rank, kiln_item_size(tensor->bits), &bytes);
  if (valid && tensor->strides) {
    for (int d = 0; d < rank; ++d) {
      strides[d] = kiln_size(context->program, tensor->strides[d], context->symbols);
      valid &= strides[d] >= 0;
    }
    valid = valid && kiln_extent(shape, strides, rank, kiln_item_size(tensor->bits), extent);
  } else if (valid) {
    kiln_contiguous_strides(shape, rank, strides);
    *extent = bytes;
  }
  if (KILN_LIKELY(valid))
    return KILN_OK;
  for (int d = 0; d < rank; ++d)
    if (shape[d] < 0 && shape[d] != INT64_MIN)
      return kiln_fail(KILN_SHAPE_MISMATCH,
                       "output %u \"%s\": dimension %d would have the size %lld for these inputs",
                       index, tensor->name, d, (long long)shape[d]);
  return kiln_fail(KILN_SHAPE_MISMATCH, "output %u \"%s\": its size overflows for these inputs",
                   index, tensor->name);
}

int32_t kiln_check_output(kiln_context *context, uint32_t index, const int64_t *symbols) {
  const kiln_rt_tensor *tensor = &context->program->outputs[index];
  DLManagedTensorVersioned *const *outputs = context->given;
  const DLManagedTensorVersioned *managed = outputs[index];
  const DLTensor *given = &managed->dl_tensor;
  kiln_view *view = &context->output_slots[index].view;
  if (managed->version.major != DLPACK_MAJOR_VERSION)
    return kiln_fail(KILN_INVALID_ARGUMENT,
                     "output %u \"%s\": expected a tensor of DLPack version %d, got version %u",
                     index, tensor->name, DLPACK_MAJOR_VERSION, managed->version.major);
  kiln_expectation expected = kiln_expect(context, "output", tensor, index, symbols);
  int32_t status = kiln_check_tensor(&expected, given, view);
  if (status != KILN_OK)
    return status;
  if (managed->flags & DLPACK_FLAG_BITMASK_READ_ONLY)
    return kiln_fail(KILN_INVALID_ARGUMENT,
                     "output %u \"%s\": expected a writable tensor, got a read-only one", index,
                     tensor->name);
  if (view->strides && kiln_may_overlap_itself(given->shape, view->strides, tensor->rank))
    return kiln_fail(KILN_INVALID_ARGUMENT,
                     "output %u \"%s\": expected strides under which no elements share memory",
                     index, tensor->name);
  for (uint32_t i = 0; i < index; ++i)
    if (outputs[i] && overlap(view, &context->output_slots[i].view))
      return kiln_fail(KILN_INVALID_ARGUMENT,
                       "output %u \"%s\": expected memory of its own, but it overlaps output %u "
                       "\"%s\"",
                       index, tensor->name, i, context->program->outputs[i].name);
  return KILN_UNLIKELY(__asan_region_is_poisoned) ? kiln_check_memory(&expected, given, view)
                                                  : KILN_OK;
}

/* The place where main writes the caller's tensor for output `index`, which has been checked:
 * elsewhere first if it has other strides than the recorded ones, or memory that inputs are read
 * from while outputs are written. */
KILN_ENTRY static int32_t place_output(kiln_context *context, uint32_t index,
                                       uint64_t *staged_bytes) {
  const kiln_rt_tensor *tensor = &context->program->outputs[index];
  const kiln_view *view = &context->output_slots[index].view;
  uint64_t extent = view->extent;
  bool staged = false;
  if (KILN_UNLIKELY(tensor->strides || view->strides)) {
    int64_t shape[KILN_MAX_RANK], recorded[KILN_MAX_RANK], contiguous[KILN_MAX_RANK];
    int32_t status = kiln_output_layout(context, index, shape, recorded, &extent);
    if (status != KILN_OK)
      return status;
    kiln_contiguous_strides(shape, tensor->rank, contiguous);
    staged = !kiln_same_layout(shape, recorded, view->strides ? view->strides : contiguous,
                               tensor->rank);
  }
  for (uint32_t i = 0; i < context->program->num_inputs && !staged; ++i)
    staged = overlap(view, &context->input_slots[i].view);
  *staged_bytes = staged ? extent : 0;
  context->outputs[index] = view->data;
  return KILN_OK;
}

/*===-- Staging -------------------------------------------------------------===*/

/* Gives a slot its place in the staging block, which grows to `*total`. */
static bool stage(kiln_slot *slot, uint64_t bytes, uint64_t *total) {
  slot->staged = bytes ? (size_t)*total + 1 : 0;
  *total += (bytes + KILN_ALIGNMENT - 1) / KILN_ALIGNMENT * KILN_ALIGNMENT;
  return *total <= KILN_MAX_BYTES;
}

KILN_ENTRY static int32_t prepare(kiln_context *context, const DLTensor *const *inputs,
                                  DLManagedTensorVersioned *const *outputs) {
  const kiln_rt_program *program = context->program;
  kiln_model *model = context->model;
  uint64_t total = 0;
  bool fits = true;
  for (uint32_t i = 0; i < program->num_inputs; ++i) {
    kiln_slot *slot = &context->input_slots[i];
    uint64_t bytes = 0;
    if (KILN_UNLIKELY(slot->view.strides != NULL))
      fits &= kiln_bytes(inputs[i]->shape, program->inputs[i].rank,
                         kiln_item_size(program->inputs[i].bits), &bytes);
    fits &= stage(slot, bytes, &total);
    context->inputs[i] = slot->view.data;
  }
  for (uint32_t o = 0; o < program->num_outputs; ++o) {
    kiln_slot *slot = &context->output_slots[o];
    context->outputs[o] = NULL;
    slot->staged = 0;
    if (!outputs[o])
      continue;
    if (program->outputs[o].flags & KILN_RT_NONE)
      return kiln_fail(KILN_INVALID_ARGUMENT,
                       "output %u \"%s\": is None, so expected NULL, got a tensor", o,
                       program->outputs[o].name);
    bool late = program->outputs[o].flags & KILN_RT_LATE;
    uint64_t bytes = 0;
    int32_t status = kiln_check_output(context, o, late ? NULL : context->symbols);
    if (KILN_LIKELY(status == KILN_OK && !late))
      status = place_output(context, o, &bytes);
    if (KILN_UNLIKELY(status != KILN_OK))
      return status;
    fits &= stage(slot, bytes, &total);
  }

  int64_t arena = program->sizes ? program->sizes(context->symbols) : 0;
  if (KILN_UNLIKELY(!fits || arena < 0 || (uint64_t)arena > KILN_MAX_BYTES))
    return kiln_fail(KILN_OUT_OF_MEMORY, "the memory of this run overflows for these inputs");
  if (KILN_UNLIKELY(!kiln_block_reserve(&context->arena, &model->allocator, (size_t)arena)))
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for %lld bytes of intermediate results",
                     (long long)arena);
  if (KILN_UNLIKELY(!kiln_block_reserve(&context->staging, &model->allocator, total)))
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for %llu bytes of copies",
                     (unsigned long long)total);
  for (uint32_t o = 0; o < program->num_outputs; ++o)
    if (!outputs[o] && !(program->outputs[o].flags & (KILN_RT_NONE | KILN_RT_LATE))) {
      int32_t status = kiln_allocate_output(context, o);
      if (KILN_UNLIKELY(status != KILN_OK))
        return status;
    }

  char *staging = context->staging.data;
  for (uint32_t i = 0; i < program->num_inputs && total; ++i) {
    kiln_slot *slot = &context->input_slots[i];
    if (!slot->staged)
      continue;
    int64_t strides[KILN_MAX_RANK];
    int rank = program->inputs[i].rank;
    context->inputs[i] = staging + slot->staged - 1;
    kiln_contiguous_strides(inputs[i]->shape, rank, strides);
    kiln_copy(context->inputs[i], strides, slot->view.data, slot->view.strides, inputs[i]->shape,
              rank, kiln_item_size(program->inputs[i].bits));
  }
  for (uint32_t o = 0; o < program->num_outputs && total; ++o)
    if (context->output_slots[o].staged)
      context->outputs[o] = staging + context->output_slots[o].staged - 1;
  context->run.arena = context->arena.data;
  return KILN_OK;
}

/* Copies what main wrote to staging memory to where the caller wants it. */
static void write_back(kiln_context *context, const DLTensor *const *inputs,
                       DLManagedTensorVersioned *const *outputs) {
  const kiln_rt_program *program = context->program;
  int64_t strides[KILN_MAX_RANK], shape[KILN_MAX_RANK];
  for (uint32_t i = 0; i < program->num_inputs; ++i) {
    const kiln_slot *slot = &context->input_slots[i];
    if (KILN_LIKELY(!slot->staged || !(program->inputs[i].flags & KILN_RT_MUTATED)))
      continue;
    int rank = program->inputs[i].rank;
    kiln_contiguous_strides(inputs[i]->shape, rank, strides);
    kiln_copy(slot->view.data, slot->view.strides, context->inputs[i], strides, inputs[i]->shape,
              rank, kiln_item_size(program->inputs[i].bits));
  }
  for (uint32_t o = 0; o < program->num_outputs; ++o) {
    const kiln_slot *slot = &context->output_slots[o];
    if (KILN_LIKELY(!slot->staged))
      continue;
    int rank = program->outputs[o].rank;
    uint64_t extent;
    int64_t contiguous[KILN_MAX_RANK];
    kiln_output_layout(context, o, shape, strides, &extent); /* has been right before */
    kiln_contiguous_strides(shape, rank, contiguous);
    kiln_copy(slot->view.data, slot->view.strides ? slot->view.strides : contiguous,
              context->outputs[o], strides, outputs[o]->dl_tensor.shape, rank,
              kiln_item_size(program->outputs[o].bits));
  }
}

/*===-- Sizes that data gives -----------------------------------------------===*/

/* Fails as kiln_rt_fail does, with the message that is set already. */
static int32_t fail_main(kiln_context *context, int32_t status) {
  return context->failure = status;
}

int32_t kiln_rt_reserve(kiln_rt_run *run, int64_t segment, int64_t bytes) {
  kiln_context *context = kiln_context_of(run);
  kiln_block *block = &context->late_blocks[segment];
  if (KILN_UNLIKELY(bytes < 0 || (uint64_t)bytes > KILN_MAX_BYTES))
    return fail_main(context, kiln_fail(KILN_OUT_OF_MEMORY,
                                        "the memory of this run overflows for what the data says"));
  if (KILN_UNLIKELY(!kiln_block_reserve(block, &context->model->allocator, (size_t)bytes)))
    return fail_main(context, kiln_fail(KILN_OUT_OF_MEMORY,
                                        "out of memory for %lld bytes of intermediate results",
                                        (long long)bytes));
  context->segments[segment] = block->data;
  return KILN_OK;
}

int32_t kiln_rt_bind_output(kiln_rt_run *run, int64_t index) {
  kiln_context *context = kiln_context_of(run);
  uint32_t o = (uint32_t)index;
  kiln_slot *slot = &context->output_slots[o];
  if (!context->given[o]) {
    int32_t status = kiln_allocate_output(context, o);
    return KILN_LIKELY(status == KILN_OK) ? status : fail_main(context, status);
  }
  uint64_t bytes;
  kiln_expectation expected =
      kiln_expect(context, "output", &context->program->outputs[o], o, context->symbols);
  int32_t status = kiln_check_shape(&expected, &context->given[o]->dl_tensor);
  if (KILN_LIKELY(status == KILN_OK))
    status = place_output(context, o, &bytes);
  if (KILN_UNLIKELY(status != KILN_OK))
    return fail_main(context, status);
  if (KILN_LIKELY(!bytes))
    return KILN_OK;
  kiln_block *block = &context->late_blocks[context->program->num_segments + o];
  if (!kiln_block_reserve(block, &context->model->allocator, bytes))
    return fail_main(context,
                     kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for %llu bytes of copies",
                               (unsigned long long)bytes));
  context->outputs[o] = block->data;
  slot->staged = 1;
  return KILN_OK;
}

/*===-- The run -------------------------------------------------------------===*/

int32_t kiln_call_program(kiln_context *context) {
  const kiln_rt_program *program = context->program;
  int32_t status = program->main(&context->run);
  if (KILN_UNLIKELY(program->externs != NULL))
    program->externs->drop(&context->run);
  return status;
}

KILN_ENTRY static int32_t call_main(kiln_context *context) {
  kiln_model *model = context->model;
  kiln_session *session = context->session;
  bool has_state = model->weights.state_bytes != 0;
  int32_t status = KILN_OK;
  if (has_state) {
    kiln_lock(&session->lock);
    /* The model's own, which a host that has sessions may never need. */
    if (KILN_UNLIKELY(!session->state.data))
      status = kiln_session_fill(session, NULL);
    context->run.state = session->state.data;
  }
  context->run.weights = atomic_load_explicit(&model->weights.blob, memory_order_acquire);
  if (KILN_LIKELY(status == KILN_OK))
    status = kiln_call_program(context);
  else
    context->failure = status;
  if (has_state)
    kiln_unlock(&session->lock);
  kiln_pool_release(context); /* already now: what follows needs no workers */
  if (KILN_LIKELY(status == KILN_OK))
    return context->failure;
  if (context->failure == KILN_OK)
    kiln_fail(status, "the model failed with status %d", status);
  return status;
}

int32_t kiln_run(kiln_session *session, uint32_t entry, const DLTensor *const *inputs,
                 DLManagedTensorVersioned **outputs) {
  kiln_context *context = kiln_context_take(session, entry);
  if (KILN_UNLIKELY(!context))
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for a run");

  if (KILN_UNLIKELY(context->profile != NULL))
    kiln_profile_begin(context);
  context->given = outputs;
  int32_t status = kiln_check_inputs(context, inputs);
  if (KILN_LIKELY(status == KILN_OK))
    status = prepare(context, inputs, outputs);
  if (KILN_LIKELY(status == KILN_OK))
    status = call_main(context);
  if (KILN_LIKELY(status == KILN_OK))
    write_back(context, inputs, outputs);

  for (uint32_t o = 0; o < context->program->num_outputs; ++o) {
    DLManagedTensorVersioned *allocated = context->output_slots[o].allocated;
    if (!allocated)
      continue;
    if (KILN_LIKELY(status == KILN_OK))
      outputs[o] = allocated;
    else
      kiln_delete_output(allocated);
    context->output_slots[o].allocated = NULL;
  }
  if (KILN_UNLIKELY(context->profile != NULL))
    kiln_profile_end(context);
  kiln_context_put(context);
  return status;
}
