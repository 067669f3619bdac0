/*===- graphs.c - Graphs ----------------------------------------------------===*
 *
 * A graph here is a chain: each node comes after the one that was added before it.
 *
 *===-----------------------------------------------------------------------===*/
#include "driver.h"

#include <stdlib.h>
#include <string.h>

void add_step(CUgraph graph, struct operation operation) {
  operation.context = graph->context;
  if (graph->num_steps == graph->max_steps) {
    graph->max_steps = 2 * graph->max_steps + 16;
    graph->steps = realloc(graph->steps, graph->max_steps * sizeof operation);
  }
  graph->steps[graph->num_steps++] = operation;
}

static struct operation *copy_steps(const struct operation *steps, unsigned count) {
  struct operation *copies = malloc((count + 1) * sizeof *copies);
  for (unsigned i = 0; i < count; ++i)
    copy_operation(&copies[i], &steps[i]);
  return copies;
}

/* Enters the driver, and makes what a node does. */
static CUresult enter_launch(const CUDA_KERNEL_NODE_PARAMS *given, struct operation *operation) {
  CUresult result = enter();
  if (result != CUDA_SUCCESS)
    return result;
  CUlaunchConfig launch = {given->gridDimX,
                           given->gridDimY,
                           given->gridDimZ,
                           given->blockDimX,
                           given->blockDimY,
                           given->blockDimZ,
                           given->sharedMemBytes,
                           NULL,
                           NULL,
                           0};
  if (given->kern)
    return CUDA_ERROR_INVALID_VALUE;
  return make_launch(&launch, given->func, given->kernelParams, given->extra, operation);
}

static CUresult enter_copy(const CUDA_MEMCPY3D *given, CUcontext context,
                           struct operation *operation) {
  CUresult result = enter();
  if (result != CUDA_SUCCESS)
    return result;
  if (given->srcMemoryType != CU_MEMORYTYPE_DEVICE ||
      given->dstMemoryType != CU_MEMORYTYPE_DEVICE || !given->WidthInBytes || given->Height != 1 ||
      given->Depth != 1 || given->srcXInBytes || given->dstXInBytes)
    return CUDA_ERROR_INVALID_VALUE;
  if (context != current())
    misuse("a copy in a graph of another context");
  *operation = (struct operation){.kind = COPY,
                                  .context = context,
                                  .to = given->dstDevice,
                                  .from = given->srcDevice,
                                  .bytes = given->WidthInBytes};
  reach(context, operation->to, operation->bytes, "a copy in a graph");
  reach(context, operation->from, operation->bytes, "a copy in a graph");
  return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphCreate(CUgraph *graph, unsigned flags) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS && flags)
    result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS) {
    *graph = calloc(1, sizeof **graph);
    (*graph)->context = current();
  }
  return leave(result);
}
EXPORT CUresult cuGraphDestroy(CUgraph graph) {
  CUresult result = enter();
  for (unsigned i = 0; i < graph->num_steps; ++i)
    free_operation(&graph->steps[i]);
  free(graph->steps);
  free(graph);
  return leave(result);
}

/* The last node may get its edge when it is there. */
static void check_chain(CUgraph graph) {
  if (graph->num_steps > 1 && !graph->steps[graph->num_steps - 1].is_ordered)
    misuse("a node of a graph does not come after the one before it");
}

static CUresult add_node(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                         size_t num_after, struct operation operation) {
  check_chain(graph);
  if (num_after && (num_after != 1 || !graph->num_steps || after[0]->graph != graph ||
                    after[0]->number + 1 != graph->num_steps))
    misuse("a node of a graph does not come after the one before it");
  operation.is_ordered = num_after == 1;
  *node = keep(sizeof **node);
  **node = (struct CUgraphNode_st){graph, graph->num_steps};
  add_step(graph, operation);
  return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                        size_t numAfter,
                                        const CUDA_KERNEL_NODE_PARAMS *parameters) {
  struct operation operation;
  CUresult result = enter_launch(parameters, &operation);
  if (result == CUDA_SUCCESS)
    result = add_node(node, graph, after, numAfter, operation);
  return leave(result);
}
EXPORT CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                     size_t numAfter, const CUDA_MEMCPY3D *copy,
                                     CUcontext context) {
  struct operation operation;
  CUresult result = enter_copy(copy, context, &operation);
  if (result == CUDA_SUCCESS)
    result = add_node(node, graph, after, numAfter, operation);
  return leave(result);
}

EXPORT CUresult cuGraphAddDependencies_v2(CUgraph graph, const CUgraphNode *from,
                                          const CUgraphNode *to, const CUgraphEdgeData *edges,
                                          size_t count) {
  CUresult result = enter();
  for (size_t i = 0; i < count && result == CUDA_SUCCESS; ++i) {
    if (from[i]->graph != graph || to[i]->graph != graph || from[i]->number + 1 != to[i]->number)
      misuse("an edge of a graph that is no chain");
    struct operation *before = &graph->steps[from[i]->number],
                     *after = &graph->steps[to[i]->number];
    bool overlaps = edges && edges[i].type == CU_GRAPH_DEPENDENCY_TYPE_PROGRAMMATIC;
    if (after->is_ordered ||
        (overlaps && (before->kind != LAUNCH || after->kind != LAUNCH ||
                      edges[i].from_port != CU_GRAPH_KERNEL_NODE_PORT_PROGRAMMATIC)))
      result = CUDA_ERROR_INVALID_VALUE;
    after->is_ordered = true;
    after->overlaps = overlaps;
  }
  return leave(result);
}

EXPORT CUresult cuGraphInstantiateWithFlags(CUgraphExec *made, CUgraph graph,
                                            unsigned long long flags) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS && flags)
    result = CUDA_ERROR_INVALID_VALUE;
  if (result == CUDA_SUCCESS) {
    check_chain(graph);
    record("instantiate %u\n", graph->num_steps);
    *made = keep(sizeof **made);
    **made = (struct CUgraphExec_st){current(), copy_steps(graph->steps, graph->num_steps),
                                     graph->num_steps, false};
  }
  return leave(result);
}

/* Replaces a node that must be of the same kind. */
static CUresult set_step(CUgraphExec made, CUgraphNode node, struct operation operation) {
  if (made->is_destroyed || node->number >= made->num_steps)
    misuse("a node of a graph that has been destroyed, or of another one, is set");
  struct operation *step = &made->steps[node->number];
  if (step->kind != operation.kind ||
      (step->kind == LAUNCH && step->context != operation.context)) {
    free_operation(&operation);
    return CUDA_ERROR_INVALID_VALUE;
  }
  record("update\n");
  operation.overlaps = step->overlaps;
  free_operation(step);
  *step = operation;
  return CUDA_SUCCESS;
}

EXPORT CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec made, CUgraphNode node,
                                                  const CUDA_KERNEL_NODE_PARAMS *parameters) {
  struct operation operation;
  CUresult result = enter_launch(parameters, &operation);
  if (result == CUDA_SUCCESS)
    result = set_step(made, node, operation);
  return leave(result);
}
EXPORT CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec made, CUgraphNode node,
                                               const CUDA_MEMCPY3D *copy, CUcontext context) {
  struct operation operation;
  CUresult result = enter_copy(copy, context, &operation);
  if (result == CUDA_SUCCESS)
    result = set_step(made, node, operation);
  return leave(result);
}

EXPORT CUresult cuGraphLaunch(CUgraphExec made, CUstream stream) {
  CUresult result = enter();
  if (result == CUDA_SUCCESS) {
    if (made->is_destroyed || made->context != current())
      misuse("a graph is launched that has been destroyed, or of another context");
    record("graph of %u\n", made->num_steps);
    result = add_operation(get_stream(stream),
                           (struct operation){.kind = GRAPH,
                                              .steps = copy_steps(made->steps, made->num_steps),
                                              .num_steps = made->num_steps});
  }
  return leave(result);
}
EXPORT CUresult cuGraphExecDestroy(CUgraphExec made) {
  CUresult result = enter();
  if (made->is_destroyed)
    misuse("a graph is destroyed twice");
  for (unsigned i = 0; i < made->num_steps; ++i)
    free_operation(&made->steps[i]);
  free(made->steps);
  made->steps = NULL;
  made->is_destroyed = true;
  return leave(result);
}
