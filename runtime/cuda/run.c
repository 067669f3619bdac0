/*===- run.c - One run on a GPU ---------------------------------------------===*
 *
 * main puts its kernels on the caller's stream and does not wait for them. Inputs and
 * outputs may be in the GPU's memory or in the host's; what is in the host's is copied
 * there and back, and the run then waits for its end. An output in a NULL slot is
 * where the inputs are.
 *
 * A caller may be making a graph of what is put on the stream. Then nothing can be
 * waited for, so that all tensors are on the GPU, the caller's outputs among them.
 *
 * The memory of a run, intermediate results and copies, comes from the model's
 * stream-ordered pool, so that runs on several streams have memory of their own and
 * nobody waits to give it back.
 *
 *===-----------------------------------------------------------------------===*/
#include "cuda.h"

#include <stdlib.h>
#include <string.h>

/*===-- Contexts ------------------------------------------------------------===*/

int32_t kiln_cuda_make_context(kiln_context *context) {
  if (context->device)
    return KILN_OK;
  const kiln_cuda_driver *driver = kiln_cuda_device(context)->driver;
  size_t places = 0; /* of the entry that has most */
  for (uint32_t i = 0; i < kiln_num_entries(); ++i) {
    size_t tensors = (size_t)kiln_entry(i)->num_inputs + kiln_entry(i)->num_outputs;
    places = tensors > places ? tensors : places;
  }
  kiln_cuda_context *cuda =
      calloc(1, sizeof *cuda + kiln_max_late_blocks() * sizeof cuda->segments[0]);
  const char **known_places = calloc(places ? places : 1, sizeof *known_places);
  if (!cuda || !known_places) {
    free(cuda);
    free(known_places);
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for a run");
  }
  cuda->known_places = known_places;
  void *error;
  /* Some thread may be recording a graph, into which this does not go. */
  int mode = CU_STREAM_CAPTURE_MODE_RELAXED;
  driver->cuThreadExchangeStreamCaptureMode(&mode);
  CUresult result = driver->cuMemHostAlloc(&error, sizeof *cuda->error,
                                           CU_MEMHOSTALLOC_PORTABLE | CU_MEMHOSTALLOC_DEVICEMAP);
  driver->cuThreadExchangeStreamCaptureMode(&mode);
  if (result != CUDA_SUCCESS) {
    free(known_places);
    free(cuda);
    return kiln_cuda_fail(driver, result, "out of memory for a run");
  }
  cuda->error = error;
  *cuda->error = 0;
  context->run.error = cuda->error;
  context->device = cuda;
  return KILN_OK;
}

void kiln_cuda_free_context(kiln_context *context) {
  kiln_cuda_context *cuda = kiln_cuda_context_of(context);
  const struct kiln_device *device = kiln_cuda_device(context);
  bool has_entered = kiln_cuda_enter(device) == KILN_OK;
  if (has_entered)
    device->driver->cuCtxSynchronize(); /* a run that nobody has waited for may write its error */
  kiln_cuda_free_graphs(context);
  if (has_entered) {
    if (cuda->memory) /* of steps: a run gives its own back */
      device->driver->cuMemFree_v2(cuda->memory);
    kiln_cuda_drop_workspace(context);
    device->driver->cuMemFreeHost(cuda->error);
    kiln_cuda_leave(device);
  } else if (cuda->kept_workspace) {
    kiln_cuda_lose_memory(device->pool);
  }
  free(cuda->known_places);
  free(cuda);
  context->device = NULL;
}

/* The failures that kernels have reported since this was last asked. */
static int32_t take_error(kiln_cuda_context *cuda) {
  return atomic_exchange((_Atomic int32_t *)cuda->error, 0);
}

static int32_t check(const kiln_context *context, CUresult result, const char *what) {
  return KILN_LIKELY(result == CUDA_SUCCESS)
             ? KILN_OK
             : kiln_cuda_fail(kiln_cuda_device(context)->driver, result, what);
}

/*===-- Where tensors are ---------------------------------------------------===*/

static bool is_on_device(const DLTensor *tensor) {
  return tensor->device.device_type == kDLCUDA || tensor->device.device_type == kDLCUDAManaged;
}

/* Checks that the tensor is on this GPU or the host, and that its memory is where it says: of an
 * address that was `*known` to be on the GPU the driver is not asked again. */
static int32_t check_place(kiln_context *context, const char *role, uint32_t index,
                           const char *name, const DLTensor *tensor, const kiln_view *view,
                           const char **known) {
  const struct kiln_device *device = kiln_cuda_device(context);
  bool on_host = tensor->device.device_type == kDLCPU || tensor->device.device_type == kDLCUDAHost;
  if (on_host)
    return KILN_OK;
  if (!is_on_device(tensor) || tensor->device.device_id != device->ordinal) {
    kiln_text text = kiln_begin_error();
    kiln_append(&text, "%s %u \"%s\": expected device cuda:%d or cpu, got ", role, index, name,
                device->ordinal);
    kiln_append_device(&text, tensor->device);
    return KILN_INVALID_ARGUMENT;
  }
  if (!view->extent || tensor->device.device_type == kDLCUDAManaged || view->data == *known)
    return KILN_OK;
  int type = CU_MEMORYTYPE_HOST, ordinal = -1;
  CUdeviceptr address = kiln_cuda_address(view->data);
  CUresult result =
      device->driver->cuPointerGetAttribute(&type, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, address);
  if (result == CUDA_SUCCESS && type != CU_MEMORYTYPE_HOST)
    result = device->driver->cuPointerGetAttribute(&ordinal, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL,
                                                   address);
  if (result == CUDA_SUCCESS && type != CU_MEMORYTYPE_HOST && ordinal == device->ordinal) {
    *known = view->data;
    return KILN_OK;
  }
  if (result == CUDA_SUCCESS && type != CU_MEMORYTYPE_HOST)
    return kiln_fail(KILN_INVALID_ARGUMENT,
                     "%s %u \"%s\": is said to be on cuda:%d, but its memory is that of cuda:%d",
                     role, index, name, device->ordinal, ordinal);
  return kiln_fail(KILN_INVALID_ARGUMENT,
                   "%s %u \"%s\": is said to be on cuda:%d, but its memory is the host's: say that "
                   "the tensor is on the cpu, or copy it to the GPU",
                   role, index, name, device->ordinal);
}

static int32_t check_places(kiln_context *context, const DLTensor *const *inputs, bool *any_device,
                            bool *any_host) {
  for (uint32_t i = 0; i < context->program->num_inputs; ++i) {
    int32_t status =
        check_place(context, "input", i, context->program->inputs[i].name, inputs[i],
                    &context->input_slots[i].view, &kiln_cuda_context_of(context)->known_places[i]);
    if (status != KILN_OK)
      return status;
    *(is_on_device(inputs[i]) ? any_device : any_host) = true;
  }
  return KILN_OK;
}

/*===-- Outputs on the GPU --------------------------------------------------===*/

/* An output in a NULL slot: this, then its sizes and strides. */
typedef struct {
  DLManagedTensorVersioned tensor;
  kiln_cuda_pool *pool; /* that the output is in */
  CUstream stream;      /* of the run */
  CUdeviceptr data;
  int64_t sizes[];
} device_output;

static void delete_device_output(DLManagedTensorVersioned *tensor) {
  if (!tensor)
    return;
  device_output *output = tensor->manager_ctx;
  if (output->data)
    kiln_cuda_free_output(output->pool, output->data, output->stream);
  kiln_cuda_release_pool(output->pool);
  free(output);
}

static int32_t allocate_device_output(kiln_context *context, uint32_t index) {
  const struct kiln_device *device = kiln_cuda_device(context);
  const kiln_rt_tensor *tensor = &context->program->outputs[index];
  int rank = tensor->rank;
  int64_t sizes[2 * KILN_MAX_RANK];
  uint64_t extent;
  kiln_output_layout(context, index, sizes, sizes + rank, &extent); /* has been right before */
  device_output *output = calloc(1, sizeof *output + 2 * (size_t)rank * sizeof(int64_t));
  if (!output)
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for an output");
  output->pool = kiln_cuda_share_pool(device->pool);
  output->stream = kiln_cuda_context_of(context)->stream;
  memcpy(output->sizes, sizes, 2 * (size_t)rank * sizeof(int64_t));
  output->tensor =
      (DLManagedTensorVersioned){.version = {DLPACK_MAJOR_VERSION, DLPACK_MINOR_VERSION},
                                 .manager_ctx = output,
                                 .deleter = delete_device_output};
  CUresult result = CUDA_SUCCESS;
  if (extent)
    result = kiln_cuda_allocate(device, &output->data, extent, output->stream);
  if (result != CUDA_SUCCESS) {
    delete_device_output(&output->tensor);
    char what[192];
    kiln_text text = {what, sizeof what, 0};
    kiln_append(&text, "output %u \"%s\": no memory on the GPU for %llu bytes", index, tensor->name,
                (unsigned long long)extent);
    return check(context, result, what);
  }
  output->tensor.dl_tensor = (DLTensor){.data = kiln_cuda_pointer(output->data),
                                        .device = {kDLCUDA, device->ordinal},
                                        .ndim = rank,
                                        .dtype = {tensor->code, tensor->bits, 1},
                                        .shape = output->sizes,
                                        .strides = output->sizes + rank};
  context->output_slots[index].allocated = &output->tensor;
  context->outputs[index] = kiln_cuda_pointer(output->data);
  return KILN_OK;
}

/*===-- Copies --------------------------------------------------------------===*/

static bool is_aligned(const void *data) { return (uintptr_t)data % KILN_RT_DEVICE_ALIGNMENT == 0; }

/* Gives a slot its place in the run's memory, which grows to `*total`. */
static int32_t stage(kiln_slot *slot, uint64_t bytes, uint64_t *total) {
  slot->staged = bytes ? (size_t)*total + 1 : 0;
  *total += (bytes + KILN_ALIGNMENT - 1) / KILN_ALIGNMENT * KILN_ALIGNMENT;
  if (*total <= KILN_MAX_BYTES)
    return KILN_OK;
  return kiln_fail(KILN_OUT_OF_MEMORY, "the memory of this run overflows for these inputs");
}

int32_t kiln_cuda_reserve_staging(kiln_context *context, uint64_t bytes) {
  kiln_cuda_context *cuda = kiln_cuda_context_of(context);
  /* Copies of inputs may read it still, if the caller's allocator gives pinned memory. */
  if (cuda->reads_staging && bytes > context->staging.bytes)
    kiln_cuda_device(context)->driver->cuStreamSynchronize(cuda->stream);
  if (bytes <= KILN_MAX_BYTES &&
      kiln_block_reserve(&context->staging, &context->model->allocator, bytes))
    return KILN_OK;
  return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for %llu bytes of copies",
                   (unsigned long long)bytes);
}

/* The bytes of an input that is in the host's memory with gaps or in another order. */
static uint64_t count_gathered(const kiln_context *context, uint32_t index, const DLTensor *input) {
  const kiln_slot *slot = &context->input_slots[index];
  uint64_t bytes = 0;
  if (slot->staged && slot->view.strides && !is_on_device(input))
    kiln_bytes(input->shape, input->ndim, kiln_item_size(context->program->inputs[index].bits),
               &bytes);
  return (bytes + KILN_ALIGNMENT - 1) / KILN_ALIGNMENT * KILN_ALIGNMENT;
}

/* `gathered` is the host's memory for one that count_gathered has counted. */
static int32_t copy_input(kiln_context *context, uint32_t index, const DLTensor *input,
                          char *gathered) {
  const kiln_cuda_driver *driver = kiln_cuda_device(context)->driver;
  CUstream stream = kiln_cuda_context_of(context)->stream;
  const kiln_slot *slot = &context->input_slots[index];
  CUdeviceptr to = kiln_cuda_address(context->inputs[index]);
  int rank = input->ndim;
  size_t item = kiln_item_size(context->program->inputs[index].bits);
  int64_t contiguous[KILN_MAX_RANK];
  uint64_t bytes = 0; /* what is staged fits, and is not 0 */
  kiln_contiguous_strides(input->shape, rank, contiguous);
  kiln_bytes(input->shape, rank, item, &bytes);
  if (is_on_device(input)) {
    if (slot->view.strides)
      return kiln_cuda_copy_strided(context, to, contiguous, kiln_cuda_address(slot->view.data),
                                    slot->view.strides, input->shape, rank, item);
    return check(
        context,
        driver->cuMemcpyDtoDAsync_v2(to, kiln_cuda_address(slot->view.data), bytes, stream),
        "cannot copy an input on the GPU");
  }
  const void *from = slot->view.data;
  if (slot->view.strides) {
    kiln_copy(gathered, contiguous, from, slot->view.strides, input->shape, rank, item);
    from = gathered;
  }
  return check(context, driver->cuMemcpyHtoDAsync_v2(to, from, bytes, stream),
               "cannot copy an input to the GPU");
}

static int32_t copy_inputs(kiln_context *context, const DLTensor *const *inputs) {
  uint64_t total = 0, at = 0;
  for (uint32_t i = 0; i < context->program->num_inputs; ++i)
    total += count_gathered(context, i, inputs[i]);
  int32_t status = total ? kiln_cuda_reserve_staging(context, total) : KILN_OK;
  kiln_cuda_context_of(context)->reads_staging = total != 0;
  for (uint32_t i = 0; i < context->program->num_inputs && status == KILN_OK; ++i) {
    const kiln_slot *slot = &context->input_slots[i];
    if (!slot->staged)
      continue;
    context->inputs[i] =
        kiln_cuda_pointer(kiln_cuda_context_of(context)->memory + slot->staged - 1);
    status = copy_input(context, i, inputs[i], (char *)context->staging.data + at);
    at += count_gathered(context, i, inputs[i]);
  }
  return status;
}

/* `data`, in the host's memory, from the GPU's, where elements are at `strides`. NULL
 * strides stand for contiguous. */
static int32_t copy_to_host(kiln_context *context, void *data, const int64_t *strides,
                            const void *from, const int64_t *from_strides, const int64_t *shape,
                            int rank, size_t item) {
  const kiln_cuda_driver *driver = kiln_cuda_device(context)->driver;
  CUstream stream = kiln_cuda_context_of(context)->stream;
  int64_t contiguous[KILN_MAX_RANK];
  uint64_t extent = 0; /* what is staged fits, and is not 0 */
  kiln_contiguous_strides(shape, rank, contiguous);
  strides = strides ? strides : contiguous;
  from_strides = from_strides ? from_strides : contiguous;
  kiln_extent(shape, from_strides, rank, item, &extent);
  bool whole = kiln_same_layout(shape, strides, contiguous, rank) &&
               kiln_same_layout(shape, from_strides, contiguous, rank);
  void *to = data;
  if (!whole) {
    int32_t status = kiln_cuda_reserve_staging(context, extent);
    if (status != KILN_OK)
      return status;
    to = context->staging.data;
  }
  CUresult result = driver->cuMemcpyDtoHAsync_v2(to, kiln_cuda_address(from), extent, stream);
  if (result == CUDA_SUCCESS && !whole)
    result = driver->cuStreamSynchronize(stream);
  if (result != CUDA_SUCCESS)
    return check(context, result, "cannot copy from the GPU");
  if (!whole)
    kiln_copy(data, strides, to, from_strides, shape, rank, item);
  return KILN_OK;
}

/* Copies the results that main wrote elsewhere to where the caller wants them. */
static int32_t write_back(kiln_context *context, const DLTensor *const *inputs) {
  int32_t status = KILN_OK;
  for (uint32_t i = 0; i < context->program->num_inputs && status == KILN_OK; ++i) {
    const kiln_slot *slot = &context->input_slots[i];
    if (KILN_LIKELY(!slot->staged || !(context->program->inputs[i].flags & KILN_RT_MUTATED)))
      continue;
    const DLTensor *input = inputs[i];
    size_t item = kiln_item_size(context->program->inputs[i].bits);
    int64_t contiguous[KILN_MAX_RANK];
    kiln_contiguous_strides(input->shape, input->ndim, contiguous);
    const int64_t *strides = slot->view.strides ? slot->view.strides : contiguous;
    status = is_on_device(input)
                 ? kiln_cuda_copy_strided(context, kiln_cuda_address(slot->view.data), strides,
                                          kiln_cuda_address(context->inputs[i]), contiguous,
                                          input->shape, input->ndim, item)
                 : copy_to_host(context, slot->view.data, strides, context->inputs[i], NULL,
                                input->shape, input->ndim, item);
  }
  for (uint32_t o = 0; o < context->program->num_outputs && status == KILN_OK; ++o) {
    const kiln_slot *slot = &context->output_slots[o];
    if (KILN_LIKELY(!slot->staged))
      continue;
    const DLTensor *output =
        slot->allocated ? &slot->allocated->dl_tensor : &context->given[o]->dl_tensor;
    int64_t shape[KILN_MAX_RANK], recorded[KILN_MAX_RANK], contiguous[KILN_MAX_RANK];
    uint64_t extent;
    status = kiln_output_layout(context, o, shape, recorded, &extent);
    if (status != KILN_OK)
      break;
    size_t item = kiln_item_size(context->program->outputs[o].bits);
    kiln_contiguous_strides(shape, output->ndim, contiguous);
    const int64_t *strides = output->strides ? output->strides : contiguous;
    char *data = (char *)output->data + output->byte_offset;
    status = is_on_device(output)
                 ? kiln_cuda_copy_strided(context, kiln_cuda_address(data), strides,
                                          kiln_cuda_address(context->outputs[o]), recorded, shape,
                                          output->ndim, item)
                 : copy_to_host(context, data, strides, context->outputs[o], recorded, shape,
                                output->ndim, item);
  }
  return status;
}

/*===-- Outputs -------------------------------------------------------------===*/

static bool overlap(const kiln_view *a, const kiln_view *b) {
  return a->extent && b->extent && a->data < b->data + b->extent && b->data < a->data + a->extent;
}

/* Allocates output `o`, or places the caller's, which has been checked. `staged` gets the bytes of
 * the run's memory that main writes instead. */
static int32_t place_output(kiln_context *context, uint32_t o, uint64_t *staged) {
  *staged = 0;
  int64_t shape[KILN_MAX_RANK], recorded[KILN_MAX_RANK], contiguous[KILN_MAX_RANK];
  uint64_t extent;
  int32_t status = kiln_output_layout(context, o, shape, recorded, &extent);
  if (status != KILN_OK)
    return status;
  if (!context->given[o]) {
    if (kiln_cuda_context_of(context)->outputs_on_device)
      return allocate_device_output(context, o);
    *staged = extent;
    return kiln_allocate_output(context, o);
  }
  const kiln_view *view = &context->output_slots[o].view;
  const DLTensor *given = &context->given[o]->dl_tensor;
  status =
      check_place(context, "output", o, context->program->outputs[o].name, given, view,
                  &kiln_cuda_context_of(context)->known_places[context->program->num_inputs + o]);
  if (status != KILN_OK)
    return status;
  int rank = given->ndim;
  kiln_contiguous_strides(shape, rank, contiguous);
  bool elsewhere =
      !is_on_device(given) || !is_aligned(view->data) ||
      !kiln_same_layout(shape, recorded, view->strides ? view->strides : contiguous, rank);
  for (uint32_t i = 0; i < context->program->num_inputs && !elsewhere; ++i)
    elsewhere = overlap(view, &context->input_slots[i].view);
  if (!is_on_device(given))
    kiln_cuda_context_of(context)->waits = true;
  *staged = elsewhere ? extent : 0;
  context->outputs[o] = view->data;
  return KILN_OK;
}

int32_t kiln_cuda_bind_output(kiln_context *context, uint32_t index) {
  kiln_cuda_context *cuda = kiln_cuda_context_of(context);
  kiln_slot *slot = &context->output_slots[index];
  int32_t status = KILN_OK;
  if (context->given[index]) {
    kiln_expectation expected =
        kiln_expect(context, "output", &context->program->outputs[index], index, context->symbols);
    status = kiln_check_shape(&expected, &context->given[index]->dl_tensor);
  }
  uint64_t bytes;
  if (status == KILN_OK)
    status = place_output(context, index, &bytes);
  if (status != KILN_OK || !bytes)
    return status;
  CUdeviceptr *memory = &cuda->segments[context->program->num_segments + index];
  CUresult result = kiln_cuda_allocate(kiln_cuda_device(context), memory, bytes, cuda->stream);
  if (result != CUDA_SUCCESS)
    return check(context, result, "no memory on the GPU for copies");
  context->outputs[index] = kiln_cuda_pointer(*memory);
  slot->staged = 1;
  return KILN_OK;
}

/*===-- Before main ---------------------------------------------------------===*/

static bool is_default(CUstream stream) { return (uintptr_t)stream <= 2; }

static int32_t check_stream(kiln_context *context, CUstream stream) {
  const struct kiln_device *device = kiln_cuda_device(context);
  kiln_cuda_context *cuda = kiln_cuda_context_of(context);
  /* 0, 1 and 2 are the default streams of whatever context is current. */
  if (is_default(stream) || stream == cuda->known_stream)
    return KILN_OK;
  CUcontext other = NULL;
  CUresult result = device->driver->cuStreamGetCtx(stream, &other);
  if (result != CUDA_SUCCESS)
    return check(context, result, "stream: expected a CUDA stream");
  if (other != device->context)
    return kiln_fail(KILN_INVALID_ARGUMENT,
                     "stream: expected a stream of cuda:%d's primary context, got one of another "
                     "device or context",
                     device->ordinal);
  cuda->known_stream = stream;
  return KILN_OK;
}

/* Whether the caller is making a graph, and then that there is nothing to wait for. */
static int32_t check_capture(kiln_context *context, const DLTensor *const *inputs) {
  kiln_cuda_context *cuda = kiln_cuda_context_of(context);
  int capture = CU_STREAM_CAPTURE_STATUS_NONE;
  CUresult result = kiln_cuda_device(context)->driver->cuStreamIsCapturing(cuda->stream, &capture);
  /* The query fails for a default stream while others are captured. */
  if (result != CUDA_SUCCESS)
    return is_default(cuda->stream) ? KILN_OK
                                    : check(context, result, "stream: expected a CUDA stream");
  cuda->is_captured = capture != CU_STREAM_CAPTURE_STATUS_NONE;
  if (KILN_LIKELY(!cuda->is_captured))
    return KILN_OK;
  const char *expected = "is being captured, so expected all tensors in the GPU's memory";
  for (uint32_t i = 0; i < context->program->num_inputs; ++i)
    if (!is_on_device(inputs[i]))
      return kiln_fail(KILN_INVALID_ARGUMENT, "stream: %s, but input %u \"%s\" is in the host's",
                       expected, i, context->program->inputs[i].name);
  for (uint32_t o = 0; o < context->program->num_outputs; ++o) {
    const DLManagedTensorVersioned *given = context->given[o];
    if (!(context->program->outputs[o].flags & KILN_RT_NONE) &&
        (!given || !is_on_device(&given->dl_tensor)))
      return kiln_fail(KILN_INVALID_ARGUMENT, "stream: %s, but output %u \"%s\" %s", expected, o,
                       context->program->outputs[o].name,
                       given ? "is in the host's" : "has a NULL slot: give a tensor");
  }
  return KILN_OK;
}

static int32_t place_inputs(kiln_context *context, const DLTensor *const *inputs, uint64_t *total) {
  int32_t status = KILN_OK;
  for (uint32_t i = 0; i < context->program->num_inputs && status == KILN_OK; ++i) {
    kiln_slot *slot = &context->input_slots[i];
    uint64_t bytes = 0; /* which fit: the input has been checked */
    if (!is_on_device(inputs[i]) || slot->view.strides || !is_aligned(slot->view.data))
      kiln_bytes(inputs[i]->shape, context->program->inputs[i].rank,
                 kiln_item_size(context->program->inputs[i].bits), &bytes);
    status = stage(slot, bytes, total);
    context->inputs[i] = slot->view.data;
  }
  return status;
}

static int32_t place_outputs(kiln_context *context, uint64_t *total) {
  const kiln_rt_program *program = context->program;
  for (uint32_t o = 0; o < program->num_outputs; ++o) {
    kiln_slot *slot = &context->output_slots[o];
    context->outputs[o] = NULL;
    slot->staged = 0;
    bool late = program->outputs[o].flags & KILN_RT_LATE;
    if (program->outputs[o].flags & KILN_RT_NONE) {
      if (context->given[o])
        return kiln_fail(KILN_INVALID_ARGUMENT,
                         "output %u \"%s\": is None, so expected NULL, got a tensor", o,
                         program->outputs[o].name);
      continue;
    }
    int32_t status = KILN_OK;
    uint64_t bytes = 0;
    if (context->given[o])
      status = kiln_check_output(context, o, late ? NULL : context->symbols);
    if (status == KILN_OK && !late)
      status = place_output(context, o, &bytes);
    if (status == KILN_OK)
      status = stage(slot, bytes, total);
    if (status != KILN_OK)
      return status;
  }
  return KILN_OK;
}

static int32_t prepare(kiln_context *context, const DLTensor *const *inputs) {
  const kiln_rt_program *program = context->program;
  kiln_cuda_context *cuda = kiln_cuda_context_of(context);
  int64_t arena = program->sizes ? program->sizes(context->symbols) : 0;
  if (arena < 0 || (uint64_t)arena > KILN_MAX_BYTES)
    return kiln_fail(KILN_OUT_OF_MEMORY, "the memory of this run overflows for these inputs");
  uint64_t total = ((uint64_t)arena + KILN_ALIGNMENT - 1) / KILN_ALIGNMENT * KILN_ALIGNMENT;
  uint64_t workspace = total,
           workspace_bytes = kiln_cuda_count_workspace(kiln_cuda_device(context));
  cuda->workspace = 0;
  bool has_own = workspace_bytes && !kiln_cuda_keep_workspace(context, workspace_bytes);
  if (has_own)
    total += workspace_bytes;
  int32_t status = place_inputs(context, inputs, &total);
  if (status == KILN_OK)
    status = place_outputs(context, &total);
  if (status != KILN_OK)
    return status;
  if (total) {
    CUresult result =
        kiln_cuda_allocate(kiln_cuda_device(context), &cuda->memory, total, cuda->stream);
    if (result != CUDA_SUCCESS) {
      char what[96];
      kiln_text text = {what, sizeof what, 0};
      kiln_append(&text, "no memory on the GPU for %llu bytes of intermediate results",
                  (unsigned long long)total);
      return check(context, result, what);
    }
  }
  context->run.arena = kiln_cuda_pointer(cuda->memory);
  if (has_own) {
    cuda->workspace = cuda->memory + workspace;
    status = kiln_cuda_clear_workspace(context, cuda->workspace, "cannot prepare a run's memory");
    if (status != KILN_OK)
      return status;
  }
  for (uint32_t o = 0; o < program->num_outputs; ++o)
    if (context->output_slots[o].staged)
      context->outputs[o] = kiln_cuda_pointer(cuda->memory + context->output_slots[o].staged - 1);
  return copy_inputs(context, inputs);
}

/*===-- The run -------------------------------------------------------------===*/

/* main, and what it has launched put on the stream. */
static int32_t launch_main(kiln_context *context) {
  kiln_cuda_context *cuda = kiln_cuda_context_of(context);
  cuda->records = true;
  int32_t status = kiln_call_program(context);
  cuda->records = false;
  if (KILN_LIKELY(status == KILN_OK))
    return kiln_cuda_flush(context);
  kiln_cuda_discard(context);
  return status;
}

/* Runs that change a session's buffers follow each other, on whatever streams. */
static int32_t launch_in_turn(kiln_context *context, CUevent last_run) {
  const kiln_cuda_driver *driver = kiln_cuda_device(context)->driver;
  CUstream stream = kiln_cuda_context_of(context)->stream;
  CUresult result = driver->cuStreamWaitEvent(stream, last_run, 0);
  int32_t status = check(context, result, "cannot wait for the run before");
  if (status == KILN_OK)
    status = launch_main(context);
  result = driver->cuEventRecord(last_run, stream);
  return status == KILN_OK ? check(context, result, "cannot mark the end of a run") : status;
}

static int32_t call_main(kiln_context *context) {
  kiln_session *session = context->session;
  context->run.weights = kiln_cuda_weights(context->model);
  if (!context->model->weights.state_bytes)
    return launch_main(context);
  kiln_lock(&session->lock);
  int32_t status = session->device_state ? KILN_OK : kiln_cuda_fill(session, NULL);
  /* In a graph it is for its owner to keep apart what writes the same memory. */
  bool is_captured = kiln_cuda_context_of(context)->is_captured;
  if (status == KILN_OK) {
    context->run.state = kiln_cuda_pointer(session->device_state->memory);
    status = is_captured ? launch_main(context)
                         : launch_in_turn(context, session->device_state->last_run);
  }
  kiln_unlock(&session->lock);
  return status;
}

/* Gives memory back behind all that uses it, or when that has ended. */
static void free_behind(kiln_context *context, CUdeviceptr *memory) {
  const kiln_cuda_driver *driver = kiln_cuda_device(context)->driver;
  const kiln_cuda_context *cuda = kiln_cuda_context_of(context);
  if (*memory && driver->cuMemFreeAsync(*memory, cuda->stream) != CUDA_SUCCESS &&
      !cuda->is_captured) {
    driver->cuStreamSynchronize(cuda->stream);
    driver->cuMemFree_v2(*memory);
  }
  *memory = 0;
}

static void release(kiln_context *context) {
  kiln_cuda_context *cuda = kiln_cuda_context_of(context);
  free_behind(context, &cuda->memory);
  for (size_t i = 0; i < kiln_max_late_blocks(); ++i)
    free_behind(context, &cuda->segments[i]);
}

static int32_t fail_kernel(const kiln_context *context, int32_t error, const char *when) {
  const char *failure = kiln_kernel_failure(context->program, error);
  if (failure)
    return kiln_fail(KILN_ASSERTION_FAILED, "%s%s", failure, when);
  return kiln_fail(KILN_INVALID_ARGUMENT, "an index computed from the data is out of range%s",
                   when);
}

int32_t kiln_cuda_kernel_failure(kiln_context *context) {
  int32_t error = take_error(kiln_cuda_context_of(context));
  return error ? fail_kernel(context, error, "") : KILN_OK;
}

/* What libraries have given up of what they had put on streams. */
static int32_t check_libraries(const kiln_context *context) {
  const kiln_rt_externs *externs = context->program->externs;
  for (uint32_t i = 0; externs && i < externs->num_calls; ++i) {
    const kiln_opened_externs *opened = &context->model->externs[context->entry];
    const kiln_extern_call *call = &externs->calls[i];
    const kiln_extern_library *library = opened->libraries[call->library];
    char message[1024] = "";
    int32_t status =
        library->check ? library->check(opened->calls[i], message, sizeof message) : KILN_OK;
    if (status != KILN_OK)
      return kiln_fail(status, "%s: %s: %s", call->where, call->callee, message);
  }
  return KILN_OK;
}

static int32_t run(kiln_context *context, const DLTensor *const *inputs, CUstream stream) {
  int32_t status = kiln_cuda_make_context(context);
  if (status == KILN_OK)
    status = check_libraries(context);
  if (status != KILN_OK)
    return status;
  kiln_cuda_context *cuda = kiln_cuda_context_of(context);
  cuda->stream = stream;
  cuda->is_captured = false;
  int32_t error = take_error(cuda);
  if (KILN_UNLIKELY(error))
    return fail_kernel(context, error,
                       " (found by an earlier run, which did not wait for its kernels)");
  bool any_device = false, any_host = false;
  status = check_stream(context, stream);
  if (status == KILN_OK)
    status = kiln_check_inputs(context, inputs);
  if (status == KILN_OK)
    status = check_places(context, inputs, &any_device, &any_host);
  if (status == KILN_OK)
    status = check_capture(context, inputs);
  if (status != KILN_OK)
    return status;
  cuda->outputs_on_device = any_device;
  cuda->waits = (any_host || !any_device) && !cuda->is_captured;
  status = prepare(context, inputs);
  if (status == KILN_OK)
    status = call_main(context);
  if (status == KILN_OK)
    status = context->failure;
  if (status == KILN_OK)
    status = write_back(context, inputs);
  release(context);
  if (!cuda->is_captured && (cuda->waits || status != KILN_OK)) {
    CUresult result = kiln_cuda_device(context)->driver->cuStreamSynchronize(stream);
    if (status == KILN_OK)
      status = check(context, result, "the run failed on the GPU");
    if (status == KILN_OK)
      status = kiln_cuda_kernel_failure(context);
    if (status == KILN_OK)
      status = check_libraries(context);
    if (status != KILN_OK && cuda->workspace == cuda->kept_workspace)
      free_behind(context, &cuda->kept_workspace); /* a kernel that has not run leaves flags up */
  }
  return status;
}

int32_t kiln_cuda_run(kiln_session *session, uint32_t entry, const DLTensor *const *inputs,
                      DLManagedTensorVersioned **outputs, void *stream) {
  const struct kiln_device *device = session->model->device;
  CUcontext current;
  /* PyTorch's threads, and others, have the context already. */
  bool enters =
      device->driver->cuCtxGetCurrent(&current) != CUDA_SUCCESS || current != device->context;
  int32_t status = enters ? kiln_cuda_enter(device) : KILN_OK;
  if (status != KILN_OK)
    return status;
  kiln_context *context = kiln_context_take(session, entry);
  if (context) {
    if (KILN_UNLIKELY(context->profile != NULL))
      kiln_profile_begin(context);
    context->given = outputs;
    status = run(context, inputs, stream);
    for (uint32_t o = 0; o < context->program->num_outputs; ++o) {
      DLManagedTensorVersioned *allocated = context->output_slots[o].allocated;
      if (allocated && status == KILN_OK)
        outputs[o] = allocated;
      else if (allocated)
        allocated->deleter(allocated);
      context->output_slots[o].allocated = NULL;
    }
    if (KILN_UNLIKELY(context->profile != NULL))
      kiln_profile_end(context);
    kiln_context_put(context);
  } else {
    status = kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for a run");
  }
  if (enters)
    kiln_cuda_leave(device);
  return status;
}
