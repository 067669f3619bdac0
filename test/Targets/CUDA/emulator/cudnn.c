/*===- cudnn.c - A libcudnn.so.9 for machines without a GPU ------------------===*
 *
 * The calls that libkiln_cudnn.so makes of the backend API, on the emulator's memory
 * and streams. Engines differ in their notes: of those that the heuristic names, the
 * first ones have the numerics that a caller may not want, and the last one needs no
 * workspace.
 *
 * A caller that breaks a rule ends the process here: descriptors that are used when
 * they are gone or before they are finished, attributes of another type than theirs,
 * memory that is less aligned than was said.
 *
 *===-----------------------------------------------------------------------===*/
#include "cudnn.h"
#include "emulator.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EXPORT __attribute__((visibility("default")))

enum { MAX_ATTRIBUTES = 16, MAX_BYTES = 256, CHECK = 0x6b636e64 };

struct cudnnContext {
  void *stream;
};

struct attribute {
  int name, type;
  int64_t count;
  char bytes[MAX_BYTES];
};

struct descriptor {
  int check, kind;
  bool is_finished, is_destroyed;
  int num_attributes;
  struct attribute attributes[MAX_ATTRIBUTES];
  struct graph *graph; /* of a graph, and of what is made of it */
  int engine;          /* of an engine, and of what is made of it */
};

static char last_error[256];

void misuse_cudnn(const char *what) {
  fprintf(stderr, "cuDNN of the emulator: %s\n", what);
  abort();
}

/* The driver is the one that the model has loaded. */
void *find_in_emulator(const char *name) {
  const char *driver = getenv("KILN_CUDA_DRIVER");
  void *handle = dlopen(driver ? driver : "libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
  void *function = handle ? dlsym(handle, name) : NULL;
  if (!function)
    misuse_cudnn("there is no emulator");
  return function;
}

static const char *setting(const char *name) {
  const char *value = getenv(name);
  return value ? value : "";
}

static cudnnStatus_t fail(cudnnStatus_t status, const char *reason) {
  snprintf(last_error, sizeof last_error, "%s", reason);
  return status;
}

EXPORT size_t cudnnGetVersion(void) {
  const char *value = setting("KILN_EMULATOR_CUDNN");
  return *value ? (size_t)atol(value) : 92800;
}

EXPORT const char *cudnnGetErrorString(cudnnStatus_t status) {
  return status == CUDNN_STATUS_SUCCESS         ? "CUDNN_STATUS_SUCCESS"
         : status == CUDNN_STATUS_BAD_PARAM     ? "CUDNN_STATUS_BAD_PARAM"
         : status == CUDNN_STATUS_NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED"
                                                : "CUDNN_STATUS_EXECUTION_FAILED";
}

EXPORT void cudnnGetLastErrorString(char *message, size_t size) {
  snprintf(message, size, "%s", last_error);
}

EXPORT cudnnStatus_t cudnnCreate(cudnnHandle_t *handle) {
  *handle = calloc(1, sizeof **handle);
  return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus_t cudnnSetStream(cudnnHandle_t handle, void *stream) {
  handle->stream = stream;
  return CUDNN_STATUS_SUCCESS;
}

/*===-- Descriptors ---------------------------------------------------------===*/

static struct descriptor *get(cudnnBackendDescriptor_t given) {
  struct descriptor *d = given;
  if (!d || d->check != CHECK || d->is_destroyed)
    misuse_cudnn("a descriptor is used that has been destroyed");
  return d;
}

static struct attribute *find(struct descriptor *d, int name) {
  for (int i = 0; i < d->num_attributes; ++i)
    if (d->attributes[i].name == name)
      return &d->attributes[i];
  return NULL;
}

static const void *need(struct descriptor *d, int name) {
  struct attribute *a = find(d, name);
  if (!a) {
    fprintf(stderr, "attribute %d of descriptor %d: ", name, d->kind);
    misuse_cudnn("it is missing");
  }
  return a->bytes;
}

static int need_int(struct descriptor *d, int name) { return *(const int *)need(d, name); }
static int64_t need_long(struct descriptor *d, int name) { return *(const int64_t *)need(d, name); }

static struct descriptor *need_descriptor(struct descriptor *d, int name, int kind) {
  struct descriptor *other = get(*(void *const *)need(d, name));
  if (!other->is_finished || other->kind != kind)
    misuse_cudnn("a descriptor is used before it is finished, or for what it is not");
  return other;
}

static int copy_sizes(struct descriptor *d, int name, int64_t *sizes, int most) {
  int64_t rank = find(d, name) ? find(d, name)->count : 0;
  if (rank < 1 || rank > most)
    misuse_cudnn("too many dims, or none");
  memcpy(sizes, need(d, name), (size_t)rank * sizeof *sizes);
  return (int)rank;
}

/* The type of each attribute, as the library's header says. */
static int type_of(int name) {
  switch (name) {
  case CUDNN_ATTR_POINTWISE_MODE:
    return CUDNN_TYPE_POINTWISE_MODE;
  case CUDNN_ATTR_POINTWISE_MATH_PREC:
  case CUDNN_ATTR_CONVOLUTION_COMP_TYPE:
  case CUDNN_ATTR_MATMUL_COMP_TYPE:
  case CUDNN_ATTR_TENSOR_DATA_TYPE:
    return CUDNN_TYPE_DATA_TYPE;
  case CUDNN_ATTR_CONVOLUTION_CONV_MODE:
    return CUDNN_TYPE_CONVOLUTION_MODE;
  case CUDNN_ATTR_ENGINEHEUR_MODE:
    return CUDNN_TYPE_HEUR_MODE;
  case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_ALPHA:
  case CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_BETA:
    return CUDNN_TYPE_FLOAT;
  case CUDNN_ATTR_TENSOR_IS_VIRTUAL:
  case CUDNN_ATTR_TENSOR_IS_BY_VALUE:
    return CUDNN_TYPE_BOOLEAN;
  case CUDNN_ATTR_EXECUTION_PLAN_HANDLE:
  case CUDNN_ATTR_OPERATIONGRAPH_HANDLE:
    return CUDNN_TYPE_HANDLE;
  case CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS:
  case CUDNN_ATTR_VARIANT_PACK_WORKSPACE:
    return CUDNN_TYPE_VOID_PTR;
  case CUDNN_ATTR_POINTWISE_AXIS:
  case CUDNN_ATTR_CONVOLUTION_DILATIONS:
  case CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES:
  case CUDNN_ATTR_CONVOLUTION_POST_PADDINGS:
  case CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS:
  case CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS:
  case CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT:
  case CUDNN_ATTR_TENSOR_DIMENSIONS:
  case CUDNN_ATTR_TENSOR_STRIDES:
  case CUDNN_ATTR_TENSOR_UNIQUE_ID:
  case CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS:
    return CUDNN_TYPE_INT64;
  default:
    return CUDNN_TYPE_BACKEND_DESCRIPTOR;
  }
}

static size_t bytes_of(int type) {
  return type == CUDNN_TYPE_BOOLEAN ? sizeof(bool)
         : type == CUDNN_TYPE_INT64 || type == CUDNN_TYPE_VOID_PTR || type == CUDNN_TYPE_HANDLE ||
                 type == CUDNN_TYPE_BACKEND_DESCRIPTOR
             ? 8
             : 4;
}

EXPORT cudnnStatus_t cudnnBackendCreateDescriptor(int kind, cudnnBackendDescriptor_t *made) {
  struct descriptor *d = calloc(1, sizeof *d);
  d->check = CHECK;
  d->kind = kind;
  *made = d;
  return CUDNN_STATUS_SUCCESS;
}

/* Memory is kept, to tell who uses it still. */
EXPORT cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t given) {
  get(given)->is_destroyed = true;
  return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t given, int name, int type,
                                              int64_t count, const void *elements) {
  struct descriptor *d = get(given);
  if (d->is_finished)
    misuse_cudnn("a descriptor is changed that has been finished");
  if (type != type_of(name) || count < 1 || (size_t)count * bytes_of(type) > MAX_BYTES ||
      d->num_attributes == MAX_ATTRIBUTES || find(d, name))
    return fail(CUDNN_STATUS_BAD_PARAM, "an attribute is of another type");
  struct attribute *a = &d->attributes[d->num_attributes++];
  a->name = name;
  a->type = type;
  a->count = count;
  memcpy(a->bytes, elements, (size_t)count * bytes_of(type));
  return CUDNN_STATUS_SUCCESS;
}

/*===-- Graphs --------------------------------------------------------------===*/

/* The number of a tensor in the graph, which is added if it is not there. -1: there is none. */
static int add_tensor(struct graph *g, struct descriptor *operation, int name) {
  if (!find(operation, name))
    return -1;
  struct descriptor *d = need_descriptor(operation, name, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  struct tensor t = {.uid = need_long(d, CUDNN_ATTR_TENSOR_UNIQUE_ID),
                     .alignment = need_long(d, CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT),
                     .type = need_int(d, CUDNN_ATTR_TENSOR_DATA_TYPE),
                     .is_virtual = find(d, CUDNN_ATTR_TENSOR_IS_VIRTUAL) != NULL,
                     .is_by_value = find(d, CUDNN_ATTR_TENSOR_IS_BY_VALUE) != NULL};
  t.rank = copy_sizes(d, CUDNN_ATTR_TENSOR_DIMENSIONS, t.sizes, MAX_DIMS);
  if (copy_sizes(d, CUDNN_ATTR_TENSOR_STRIDES, t.strides, MAX_DIMS) != t.rank)
    misuse_cudnn("a tensor has more sizes than strides, or fewer");
  for (int i = 0; i < g->num_tensors; ++i)
    if (g->tensors[i].uid == t.uid)
      return i;
  if (g->num_tensors == MAX_TENSORS)
    misuse_cudnn("the emulator has no graphs of so many tensors");
  g->tensors[g->num_tensors] = t;
  return g->num_tensors++;
}

static void describe_convolution(struct operation *o, struct descriptor *d) {
  struct descriptor *c = need_descriptor(d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_CONV_DESC,
                                         CUDNN_BACKEND_CONVOLUTION_DESCRIPTOR);
  int64_t behind[3];
  o->num_spatial = copy_sizes(c, CUDNN_ATTR_CONVOLUTION_FILTER_STRIDES, o->strides, 3);
  copy_sizes(c, CUDNN_ATTR_CONVOLUTION_PRE_PADDINGS, o->padding, 3);
  copy_sizes(c, CUDNN_ATTR_CONVOLUTION_POST_PADDINGS, behind, 3);
  copy_sizes(c, CUDNN_ATTR_CONVOLUTION_DILATIONS, o->dilation, 3);
  if (need_long(c, CUDNN_ATTR_CONVOLUTION_SPATIAL_DIMS) != o->num_spatial ||
      memcmp(behind, o->padding, (size_t)o->num_spatial * sizeof *behind) ||
      need_int(c, CUDNN_ATTR_CONVOLUTION_CONV_MODE) != CUDNN_CROSS_CORRELATION ||
      need_int(c, CUDNN_ATTR_CONVOLUTION_COMP_TYPE) != CUDNN_DATA_FLOAT)
    misuse_cudnn("a convolution that the emulator does not have");
}

static struct operation describe_operation(struct graph *g, struct descriptor *d) {
  struct operation o = {.b = -1, .t = -1};
  switch (d->kind) {
  case CUDNN_BACKEND_OPERATION_CONVOLUTION_FORWARD_DESCRIPTOR:
    o.kind = CONVOLUTION;
    describe_convolution(&o, d);
    o.x = add_tensor(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_X);
    o.b = add_tensor(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_W);
    o.y = add_tensor(g, d, CUDNN_ATTR_OPERATION_CONVOLUTION_FORWARD_Y);
    break;
  case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
    o.kind = MATMUL;
    need_descriptor(d, CUDNN_ATTR_OPERATION_MATMUL_DESC, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
    o.x = add_tensor(g, d, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
    o.b = add_tensor(g, d, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
    o.y = add_tensor(g, d, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
    break;
  case CUDNN_BACKEND_OPERATION_SOFTMAX_DESCRIPTOR:
    o.kind = SOFTMAX;
    o.x = add_tensor(g, d, CUDNN_ATTR_OPERATION_SOFTMAX_XDESC);
    o.y = add_tensor(g, d, CUDNN_ATTR_OPERATION_SOFTMAX_YDESC);
    break;
  case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR: {
    struct descriptor *f = need_descriptor(d, CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR,
                                           CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
    o.kind = POINTWISE;
    o.mode = need_int(f, CUDNN_ATTR_POINTWISE_MODE);
    o.axis = o.mode == CUDNN_POINTWISE_GEN_INDEX ? need_long(f, CUDNN_ATTR_POINTWISE_AXIS) : 0;
    o.x = add_tensor(g, d, CUDNN_ATTR_OPERATION_POINTWISE_XDESC);
    o.b = add_tensor(g, d, CUDNN_ATTR_OPERATION_POINTWISE_BDESC);
    o.t = add_tensor(g, d, CUDNN_ATTR_OPERATION_POINTWISE_TDESC);
    o.y = add_tensor(g, d, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
    break;
  }
  default:
    misuse_cudnn("an operation that the emulator does not have");
  }
  if (o.x < 0 || o.y < 0)
    misuse_cudnn("an operation without a tensor");
  return o;
}

/* Engines fuse a convolution with a sum, a bias and relu where there is a bias. */
static bool is_known(const struct graph *g) {
  if (g->operations[0].kind == MATMUL)
    return g->num_operations >= 4 && g->operations[g->num_operations - 1].kind == MATMUL &&
           g->operations[g->num_operations - 2].kind == SOFTMAX &&
           g->tensors[g->operations[0].x].type != CUDNN_DATA_FLOAT;
  bool has_bias = g->num_operations == 1;
  for (int i = 1; i < g->num_operations; ++i) {
    const struct operation *o = &g->operations[i];
    has_bias |= o->kind == POINTWISE && o->b >= 0 && g->tensors[o->b].sizes[0] == 1 &&
                g->tensors[o->b].sizes[2] == 1;
  }
  return g->operations[0].kind == CONVOLUTION && has_bias;
}

static cudnnStatus_t finish_graph(struct descriptor *d) {
  struct attribute *list = find(d, CUDNN_ATTR_OPERATIONGRAPH_OPS);
  need(d, CUDNN_ATTR_OPERATIONGRAPH_HANDLE);
  struct graph *g = d->graph = calloc(1, sizeof *g);
  if (!list || list->count > MAX_OPERATIONS)
    misuse_cudnn("a graph without operations, or with too many");
  for (int64_t i = 0; i < list->count; ++i) {
    struct descriptor *operation = get(((void **)list->bytes)[i]);
    if (!operation->is_finished)
      misuse_cudnn("an operation is used before it is finished");
    struct operation o = describe_operation(g, operation);
    if (!check_operation(g, &o))
      return fail(CUDNN_STATUS_BAD_PARAM, "sizes of an operation do not fit");
    g->operations[g->num_operations++] = o;
  }
  return is_known(g) ? CUDNN_STATUS_SUCCESS
                     : fail(CUDNN_STATUS_NOT_SUPPORTED, "no engine knows this graph");
}

/*===-- Engines -------------------------------------------------------------===*/

static const struct {
  int notes[2];
  int64_t workspace;
} engines[] = {
    {{CUDNN_NUMERICAL_NOTE_WINOGRAD, CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, 0},
    {{CUDNN_NUMERICAL_NOTE_DOWN_CONVERT_INPUTS, CUDNN_NUMERICAL_NOTE_TENSOR_CORE}, 0},
    {{CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC, CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC}, 0},
    {{9, 9}, (int64_t)1 << 50},
    {{9, 9}, WORKSPACE},
    {{9, 9}, 0},
};
enum { NUM_ENGINES = sizeof engines / sizeof *engines };

static cudnnStatus_t finish_tensor(struct descriptor *d) {
  struct graph g = {0};
  struct descriptor holder = {.check = CHECK, .num_attributes = 1};
  holder.attributes[0] = (struct attribute){.name = 0, .count = 1};
  memcpy(holder.attributes[0].bytes, &d, sizeof d);
  d->is_finished = true;
  add_tensor(&g, &holder, 0);
  for (int i = 0; i < g.tensors[0].rank; ++i)
    if (g.tensors[0].sizes[i] < 1 || g.tensors[0].strides[i] < 1)
      return fail(CUDNN_STATUS_BAD_PARAM, "a size or a stride is not positive");
  return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t given) {
  struct descriptor *d = get(given);
  if (d->is_finished)
    misuse_cudnn("a descriptor is finished twice");
  cudnnStatus_t status = CUDNN_STATUS_SUCCESS;
  if (d->kind == CUDNN_BACKEND_TENSOR_DESCRIPTOR)
    status = finish_tensor(d);
  if (d->kind == CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
    status = finish_graph(d);
  if (d->kind == CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR) {
    need_int(d, CUDNN_ATTR_ENGINEHEUR_MODE);
    d->graph = need_descriptor(d, CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH,
                               CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR)
                   ->graph;
  }
  if (d->kind == CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR) {
    struct descriptor *config = need_descriptor(d, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                                                CUDNN_BACKEND_ENGINECFG_DESCRIPTOR);
    need(d, CUDNN_ATTR_EXECUTION_PLAN_HANDLE);
    d->graph = config->graph;
    d->engine = config->engine;
    /* The name of an operation whose engines can be named and not be made. */
    const char *without = setting("KILN_EMULATOR_CUDNN_WITHOUT");
    if (strcmp(without, d->graph->operations[0].kind == MATMUL ? "attention" : "convolution") == 0)
      status = fail(CUDNN_STATUS_NOT_SUPPORTED, "no engine for these sizes");
  }
  d->is_finished = status == CUDNN_STATUS_SUCCESS;
  return status;
}

static cudnnStatus_t get_engines(struct descriptor *d, int64_t wanted, int64_t *count,
                                 void **into) {
  bool is_first = need_int(d, CUDNN_ATTR_ENGINEHEUR_MODE) == CUDNN_HEUR_MODE_A;
  *count = 0;
  /* The last one is for when there is no other. */
  for (int i = is_first ? 0 : NUM_ENGINES - 1; i < NUM_ENGINES - is_first && *count < wanted; ++i) {
    struct descriptor *config = get(into[(*count)++]);
    config->graph = d->graph;
    config->engine = i;
    config->is_finished = true;
  }
  return CUDNN_STATUS_SUCCESS;
}

EXPORT cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t given, int name, int type,
                                              int64_t wanted, int64_t *count, void *elements) {
  struct descriptor *d = get(given);
  if (!d->is_finished)
    misuse_cudnn("a descriptor is read before it is finished");
  *count = 1;
  if (name == CUDNN_ATTR_ENGINEHEUR_RESULTS && type == CUDNN_TYPE_BACKEND_DESCRIPTOR)
    return get_engines(d, wanted, count, elements);
  if (name == CUDNN_ATTR_ENGINECFG_ENGINE && type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    struct descriptor *engine = get(*(void **)elements);
    engine->engine = d->engine;
    engine->is_finished = true;
  } else if (name == CUDNN_ATTR_ENGINE_NUMERICAL_NOTE && type == CUDNN_TYPE_NUMERICAL_NOTE &&
             wanted >= 2) {
    *count = 2;
    memcpy(elements, engines[d->engine].notes, 2 * sizeof(int));
  } else if (name == CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE && type == CUDNN_TYPE_INT64) {
    *(int64_t *)elements = engines[d->engine].workspace;
  } else {
    return fail(CUDNN_STATUS_BAD_PARAM, "there is no such attribute");
  }
  return CUDNN_STATUS_SUCCESS;
}

/*===-- Execution -----------------------------------------------------------===*/

static void bind_tensors(struct graph *g, struct descriptor *variants) {
  struct attribute *uids = find(variants, CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS),
                   *pointers = find(variants, CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  if (!uids || !pointers || uids->count != pointers->count)
    misuse_cudnn("tensors and memory do not go together");
  for (int i = 0; i < g->num_tensors; ++i) {
    struct tensor *t = &g->tensors[i];
    void *memory = NULL;
    for (int64_t j = 0; j < uids->count; ++j)
      if (((int64_t *)uids->bytes)[j] == t->uid)
        memory = ((void **)pointers->bytes)[j];
    if (t->is_virtual)
      continue;
    if (!memory || (uintptr_t)memory % (uintptr_t)(t->is_by_value ? 4 : t->alignment))
      misuse_cudnn("a tensor has no memory, or is less aligned than was said");
    if (t->is_by_value)
      t->value = *(const float *)memory;
    else
      t->memory = (uintptr_t)memory;
  }
}

static void record_run(const struct graph *g, int engine) {
  void (*record)(const char *, ...) =
      (void (*)(const char *, ...))find_in_emulator("emulator_record");
  const struct tensor *x = &g->tensors[g->operations[0].x];
  const struct tensor *y = &g->tensors[g->operations[g->num_operations - 1].y];
  char text[160] = "";
  size_t used = 0;
  for (int i = 0; i < g->num_operations; ++i)
    used += (size_t)snprintf(text + used, sizeof text - used, "%c%d", "cpms"[g->operations[i].kind],
                             g->operations[i].mode);
  record("cudnn %s rank %d x %s y %s engine %d\n", text, x->rank,
         x->strides[1] == 1 && x->sizes[1] > 1 ? "last" : "second",
         y->strides[1] == 1 && y->sizes[1] > 1 ? "last" : "second", engine);
}

EXPORT cudnnStatus_t cudnnBackendExecute(cudnnHandle_t handle, cudnnBackendDescriptor_t plan,
                                         cudnnBackendDescriptor_t variants) {
  struct descriptor *p = get(plan), *v = get(variants);
  if (!handle || !p->is_finished || !v->is_finished)
    misuse_cudnn("there is no handle, or a plan is run before it is finished");
  struct graph g = *p->graph;
  bind_tensors(&g, v);
  if (engines[p->engine].workspace) {
    g.workspace = (uintptr_t)*(void *const *)need(v, CUDNN_ATTR_VARIANT_PACK_WORKSPACE);
    if (!g.workspace || g.workspace % 256)
      misuse_cudnn("there is no workspace, or it is not aligned");
  }
  record_run(&g, p->engine);
  int (*call)(void *, void (*)(const void *), const void *, size_t) = (int (*)(
      void *, void (*)(const void *), const void *, size_t))find_in_emulator("emulator_call");
  return call(handle->stream, run_graph, &g, sizeof g) ? CUDNN_STATUS_EXECUTION_FAILED
                                                       : CUDNN_STATUS_SUCCESS;
}
