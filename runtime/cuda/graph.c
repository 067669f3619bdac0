/*===- graph.c - Launches as graphs -----------------------------------------===*
 *
 * main's launches are gathered and put on the stream together: when it ends, or when
 * it has to wait for what data says. The second time that the same kernels come with
 * the same sizes they become a graph, which the driver launches in one call. Where
 * addresses have changed since, those of the graph are set. A context keeps a bounded
 * number of graphs; when there is no room left, the one that has not been used for
 * longest goes, and is set to the new sizes if it has the same kernels.
 *
 * A sequence that comes once is launched one by one: making a graph takes longer.
 *
 *===-----------------------------------------------------------------------===*/
#include "cuda.h"

#include <stdlib.h>
#include <string.h>

/*===-- Sequences -----------------------------------------------------------===*/

static bool grow(void **data, uint32_t *max, uint32_t needed, size_t item) {
  if (needed <= *max)
    return true;
  size_t count = (size_t)needed * 2;
  void *larger = count <= UINT32_MAX ? calloc(count, item) : NULL;
  if (!larger)
    return false;
  if (*max)
    memcpy(larger, *data, *max * item);
  free(*data);
  *data = larger;
  *max = (uint32_t)count;
  return true;
}

static bool reserve(kiln_cuda_sequence *sequence, uint32_t steps, uint32_t addresses,
                    uint32_t numbers) {
  return grow((void **)&sequence->steps, &sequence->max_steps, steps, sizeof(kiln_cuda_step)) &&
         grow((void **)&sequence->addresses, &sequence->max_addresses, addresses, sizeof(void *)) &&
         grow((void **)&sequence->numbers, &sequence->max_numbers, numbers, sizeof(int64_t));
}

static void free_sequence(kiln_cuda_sequence *sequence) {
  free(sequence->steps);
  free(sequence->addresses);
  free(sequence->numbers);
  memset(sequence, 0, sizeof *sequence);
}

int32_t kiln_cuda_record(kiln_context *context, kiln_cuda_step step, void *const *addresses,
                         uint32_t num_addresses, const int64_t *const *numbers,
                         uint32_t num_numbers) {
  kiln_cuda_sequence *pending = &((kiln_cuda_context *)context->device)->pending;
  if (KILN_UNLIKELY(!reserve(pending, pending->num_steps + 1,
                             pending->num_addresses + num_addresses,
                             pending->num_numbers + num_numbers)))
    return kiln_fail(KILN_OUT_OF_MEMORY, "out of memory for a run's launches");
  step.first_address = pending->num_addresses;
  step.first_number = pending->num_numbers;
  if (!context->profile)
    step.number = KILN_RT_NO_STEP;
  pending->steps[pending->num_steps++] = step;
  if (num_addresses)
    memcpy(pending->addresses + pending->num_addresses, addresses,
           num_addresses * sizeof *addresses);
  for (uint32_t i = 0; i < num_numbers; ++i)
    pending->numbers[pending->num_numbers + i] = *numbers[i];
  pending->num_addresses += num_addresses;
  pending->num_numbers += num_numbers;
  return KILN_OK;
}

static uint64_t hash_bytes(uint64_t hash, const void *data, size_t words) {
  const uint64_t *word = data;
  for (size_t i = 0; i < words; ++i) {
    hash = (hash ^ word[i]) * 0x9e3779b97f4a7c15u;
    hash ^= hash >> 32;
  }
  return hash;
}

static uint64_t hash_sequence(const kiln_cuda_sequence *sequence) {
  uint64_t hash = hash_bytes(sequence->num_steps, sequence->steps,
                             sequence->num_steps * (sizeof(kiln_cuda_step) / 8));
  return hash_bytes(hash, sequence->numbers, sequence->num_numbers);
}

/* But for the addresses. */
static bool is_same(const kiln_cuda_sequence *a, const kiln_cuda_sequence *b) {
  return a->num_steps == b->num_steps && a->num_addresses == b->num_addresses &&
         a->num_numbers == b->num_numbers &&
         memcmp(a->steps, b->steps, a->num_steps * sizeof *a->steps) == 0 &&
         (!a->num_numbers || memcmp(a->numbers, b->numbers, a->num_numbers * sizeof(int64_t)) == 0);
}

/* But for sizes, too. */
static bool has_same_kernels(const kiln_cuda_sequence *a, const kiln_cuda_sequence *b) {
  bool same = a->num_steps == b->num_steps;
  for (uint32_t i = 0; same && i < a->num_steps; ++i)
    same = a->steps[i].kernel == b->steps[i].kernel;
  return same;
}

static bool copy_sequence(kiln_cuda_sequence *to, const kiln_cuda_sequence *from) {
  if (!reserve(to, from->num_steps, from->num_addresses, from->num_numbers))
    return false;
  memcpy(to->steps, from->steps, from->num_steps * sizeof *from->steps);
  if (from->num_addresses)
    memcpy(to->addresses, from->addresses, from->num_addresses * sizeof *from->addresses);
  if (from->num_numbers)
    memcpy(to->numbers, from->numbers, from->num_numbers * sizeof *from->numbers);
  to->num_steps = from->num_steps;
  to->num_addresses = from->num_addresses;
  to->num_numbers = from->num_numbers;
  return true;
}

/* The addresses of a step end where those of the next begin. */
static uint32_t num_step_addresses(const kiln_cuda_step *step) {
  return step->kernel ? kiln_cuda_num_addresses(step->kernel) : 2;
}

/* The places of the parameters, which the driver takes. */
struct parameters {
  void *places[KILN_RT_MAX_PARAMETERS];
  CUtensorMap maps[KILN_RT_MAX_MAPS];
};

static CUresult fill_parameters(kiln_context *context, const kiln_cuda_sequence *sequence,
                                const kiln_cuda_step *step, struct parameters *filled) {
  void **parameters = filled->places;
  uint32_t count = 0;
  for (uint32_t i = 0; i < step->kernel->num_buffers; ++i)
    parameters[count++] = &sequence->addresses[step->first_address + i];
  for (uint32_t i = 0; i < step->kernel->num_symbols; ++i)
    parameters[count++] = &sequence->numbers[step->first_number + i];
  parameters[count++] = &kiln_cuda_context_of(context)->error;
  if (kiln_cuda_has_workspace(step->kernel))
    parameters[count++] = &sequence->addresses[step->first_address + step->kernel->num_buffers];
  for (uint32_t i = 0; i < step->kernel->num_maps; ++i)
    parameters[count++] = &filled->maps[i];
  return kiln_cuda_encode_maps(kiln_cuda_device(context), step->kernel,
                               sequence->addresses + step->first_address,
                               sequence->numbers + step->first_number, filled->maps);
}

/*===-- Graphs --------------------------------------------------------------===*/

static CUDA_KERNEL_NODE_PARAMS describe_launch(const kiln_cuda_step *step, void **parameters) {
  return (CUDA_KERNEL_NODE_PARAMS){.func = step->function,
                                   .gridDimX = step->grid,
                                   .gridDimY = 1,
                                   .gridDimZ = 1,
                                   .blockDimX = step->kernel->threads,
                                   .blockDimY = 1,
                                   .blockDimZ = 1,
                                   .sharedMemBytes = step->kernel->shared_bytes,
                                   .kernelParams = parameters};
}

static CUDA_MEMCPY3D describe_copy(const kiln_cuda_sequence *sequence, const kiln_cuda_step *step) {
  return (CUDA_MEMCPY3D){.srcMemoryType = CU_MEMORYTYPE_DEVICE,
                         .srcDevice =
                             kiln_cuda_address(sequence->addresses[step->first_address + 1]),
                         .dstMemoryType = CU_MEMORYTYPE_DEVICE,
                         .dstDevice = kiln_cuda_address(sequence->addresses[step->first_address]),
                         .WidthInBytes = (size_t)sequence->numbers[step->first_number],
                         .Height = 1,
                         .Depth = 1};
}

static void drop_graph(const kiln_cuda_driver *driver, kiln_cuda_graph *graph) {
  /* One that is running is freed when it has ended. */
  if (graph->made)
    driver->cuGraphExecDestroy(graph->made);
  if (graph->graph)
    driver->cuGraphDestroy(graph->graph);
  free(graph->nodes);
  graph->made = NULL;
  graph->graph = NULL;
  graph->nodes = NULL;
  graph->is_stale = false;
}

/* A kernel's node comes after another's, whose end it waits for by itself. */
static CUresult overlap(const kiln_cuda_driver *driver, const kiln_cuda_graph *graph,
                        const CUgraphNode *before, const CUgraphNode *node) {
  CUgraphEdgeData edge = {.from_port = CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC,
                          .type = CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC};
  return driver->cuGraphAddDependencies_v2(graph->graph, before, node, &edge, 1);
}

static bool make_graph(kiln_context *context, kiln_cuda_graph *graph) {
  struct kiln_device *device = kiln_cuda_device(context);
  const kiln_cuda_driver *driver = device->driver;
  const kiln_cuda_sequence *sequence = &graph->sequence;
  struct parameters parameters;
  graph->nodes = calloc(sequence->num_steps, sizeof *graph->nodes);
  CUresult result =
      graph->nodes ? driver->cuGraphCreate(&graph->graph, 0) : (CUresult)CUDA_ERROR_OUT_OF_MEMORY;
  if (result != CUDA_SUCCESS)
    graph->graph = NULL;
  for (uint32_t i = 0; i < sequence->num_steps && result == CUDA_SUCCESS; ++i) {
    const kiln_cuda_step *step = &sequence->steps[i];
    const CUgraphNode *before = i ? &graph->nodes[i - 1] : NULL;
    if (step->kernel) {
      result = fill_parameters(context, sequence, step, &parameters);
      CUDA_KERNEL_NODE_PARAMS launch = describe_launch(step, parameters.places);
      bool overlaps = i && (step - 1)->kernel && kiln_cuda_overlaps(device, step->kernel);
      if (result == CUDA_SUCCESS)
        result = driver->cuGraphAddKernelNode_v2(&graph->nodes[i], graph->graph, before,
                                                 i && !overlaps ? 1 : 0, &launch);
      if (result == CUDA_SUCCESS && overlaps)
        result = overlap(driver, graph, before, &graph->nodes[i]);
    } else {
      CUDA_MEMCPY3D copy = describe_copy(sequence, step);
      result = driver->cuGraphAddMemcpyNode(&graph->nodes[i], graph->graph, before, i ? 1 : 0,
                                            &copy, device->context);
    }
  }
  if (result == CUDA_SUCCESS)
    result = driver->cuGraphInstantiateWithFlags(&graph->made, graph->graph, 0);
  if (result != CUDA_SUCCESS) {
    graph->made = NULL;
    drop_graph(driver, graph);
  }
  return result == CUDA_SUCCESS;
}

/* Makes the graph one of these addresses. What runs of it already goes on with the old ones. */
static bool set_addresses(kiln_context *context, kiln_cuda_graph *graph,
                          const kiln_cuda_sequence *wanted) {
  const struct kiln_device *device = kiln_cuda_device(context);
  kiln_cuda_sequence *sequence = &graph->sequence;
  struct parameters parameters;
  CUresult result = CUDA_SUCCESS;
  for (uint32_t i = 0; i < sequence->num_steps && result == CUDA_SUCCESS; ++i) {
    const kiln_cuda_step *step = &sequence->steps[i];
    void **have = sequence->addresses + step->first_address;
    size_t bytes = num_step_addresses(step) * sizeof *have;
    void *const *want = wanted->addresses + step->first_address;
    if (KILN_LIKELY(!graph->is_stale && (!bytes || memcmp(have, want, bytes) == 0)))
      continue;
    if (bytes)
      memcpy(have, want, bytes);
    if (step->kernel) {
      result = fill_parameters(context, sequence, step, &parameters);
      CUDA_KERNEL_NODE_PARAMS launch = describe_launch(step, parameters.places);
      if (result == CUDA_SUCCESS)
        result = device->driver->cuGraphExecKernelNodeSetParams_v2(graph->made, graph->nodes[i],
                                                                   &launch);
    } else {
      CUDA_MEMCPY3D copy = describe_copy(sequence, step);
      result = device->driver->cuGraphExecMemcpyNodeSetParams(graph->made, graph->nodes[i], &copy,
                                                              device->context);
    }
  }
  graph->is_stale = false;
  if (result != CUDA_SUCCESS)
    drop_graph(device->driver, graph);
  return result == CUDA_SUCCESS;
}

static kiln_cuda_graph *find_graph(kiln_cuda_context *cuda, uint64_t hash) {
  for (int i = 0; i < KILN_CUDA_GRAPHS; ++i) {
    kiln_cuda_graph *graph = &cuda->graphs[i];
    if (graph->last_use && graph->hash == hash && graph->stream == cuda->stream &&
        is_same(&graph->sequence, &cuda->pending))
      return graph;
  }
  return NULL;
}

/* Remembers the pending steps in the place that has not been used for longest. */
static void remember(kiln_context *context, uint64_t hash) {
  kiln_cuda_context *cuda = kiln_cuda_context_of(context);
  kiln_cuda_graph *oldest = &cuda->graphs[0];
  for (int i = 1; i < KILN_CUDA_GRAPHS; ++i)
    if (cuda->graphs[i].last_use < oldest->last_use)
      oldest = &cuda->graphs[i];
  if (oldest->made && !has_same_kernels(&oldest->sequence, &cuda->pending))
    drop_graph(kiln_cuda_device(context)->driver, oldest);
  oldest->is_stale = oldest->made != NULL;
  oldest->hash = hash;
  oldest->stream = cuda->stream;
  oldest->last_use = ++cuda->clock;
  if (!copy_sequence(&oldest->sequence, &cuda->pending)) {
    drop_graph(kiln_cuda_device(context)->driver, oldest);
    free_sequence(&oldest->sequence);
    oldest->last_use = 0;
  }
}

/* The graph to launch for the pending steps, or NULL: launch them one by one. */
static kiln_cuda_graph *get_graph(kiln_context *context) {
  kiln_cuda_context *cuda = kiln_cuda_context_of(context);
  if (!kiln_cuda_device(context)->makes_graphs || cuda->is_captured ||
      cuda->pending.num_steps < KILN_CUDA_GRAPH_STEPS)
    return NULL;
  if (!cuda->graphs && !(cuda->graphs = calloc(KILN_CUDA_GRAPHS, sizeof *cuda->graphs)))
    return NULL;
  uint64_t hash = hash_sequence(&cuda->pending);
  kiln_cuda_graph *graph = find_graph(cuda, hash);
  if (!graph) {
    remember(context, hash);
    return NULL;
  }
  graph->last_use = ++cuda->clock;
  if (graph->made)
    return set_addresses(context, graph, &cuda->pending) ? graph : NULL;
  copy_sequence(&graph->sequence, &cuda->pending); /* there is room: it is the same but for
                                                      addresses */
  return make_graph(context, graph) ? graph : NULL;
}

int32_t kiln_cuda_launch_step(kiln_context *context, const kiln_cuda_step *step) {
  const kiln_cuda_sequence *pending = &kiln_cuda_context_of(context)->pending;
  if (!step->kernel)
    return kiln_cuda_copy(context, kiln_cuda_address(pending->addresses[step->first_address]),
                          kiln_cuda_address(pending->addresses[step->first_address + 1]),
                          (size_t)pending->numbers[step->first_number]);
  struct parameters parameters;
  CUresult result = fill_parameters(context, pending, step, &parameters);
  if (KILN_LIKELY(result == CUDA_SUCCESS))
    return kiln_cuda_launch(context, step->kernel, step->function, step->grid, parameters.places);
  /* The driver does not describe such tensors; the kernel needs no description of them. */
  struct kiln_device *device = kiln_cuda_device(context);
  kiln_cuda_step other = *step;
  kiln_cuda_fail(device->driver, result, "no tensor map");
  int32_t status =
      kiln_cuda_replace_variant(device, &other.kernel, &other.function, kiln_last_error());
  if (status != KILN_OK)
    return status;
  fill_parameters(context, pending, &other, &parameters);
  return kiln_cuda_launch(context, other.kernel, other.function, other.kernel_grid,
                          parameters.places);
}

static int32_t launch_steps(kiln_context *context) {
  const kiln_cuda_sequence *pending = &kiln_cuda_context_of(context)->pending;
  int32_t status = KILN_OK;
  for (uint32_t i = 0; i < pending->num_steps && status == KILN_OK; ++i)
    status = kiln_cuda_launch_step(context, &pending->steps[i]);
  return status;
}

void kiln_cuda_discard(kiln_context *context) {
  kiln_cuda_sequence *pending = &((kiln_cuda_context *)context->device)->pending;
  pending->num_steps = pending->num_addresses = pending->num_numbers = 0;
}

int32_t kiln_cuda_flush(kiln_context *context) {
  kiln_cuda_context *cuda = kiln_cuda_context_of(context);
  const kiln_cuda_driver *driver = kiln_cuda_device(context)->driver;
  int32_t status = KILN_OK;
  if (KILN_UNLIKELY(context->profile && !cuda->is_captured)) {
    status = kiln_cuda_profile(context);
  } else if (cuda->pending.num_steps) {
    kiln_cuda_graph *graph = get_graph(context);
    if (graph) {
      CUresult result = driver->cuGraphLaunch(graph->made, cuda->stream);
      if (result != CUDA_SUCCESS)
        status = kiln_cuda_fail(driver, result, "cannot launch the model's kernels");
    } else {
      status = launch_steps(context);
    }
  }
  kiln_cuda_discard(context);
  return status;
}

void kiln_cuda_free_graphs(kiln_context *context) {
  kiln_cuda_context *cuda = kiln_cuda_context_of(context);
  for (int i = 0; cuda->graphs && i < KILN_CUDA_GRAPHS; ++i) {
    drop_graph(kiln_cuda_device(context)->driver, &cuda->graphs[i]);
    free_sequence(&cuda->graphs[i].sequence);
  }
  free(cuda->graphs);
  cuda->graphs = NULL;
  free_sequence(&cuda->pending);
}
