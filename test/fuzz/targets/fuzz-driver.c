/* Answers of CUDA's driver, any errors, numbers and texts, given to the runtime of a model for GPUs (test/runtime/gpu.c). Memory of the
 * GPU is memory of this process, so that what the runtime copies from and to is checked, and kernels do nothing but report. Each call
 * returns a status, and what the driver has given is given back unless the driver refused to take it. */
#include "gpu.h"
#include "harness.h"
#include "ir_interface.h"
#include "weights-file.h"

#include <dlfcn.h>
#include <limits.h>
#include <sys/mman.h>
#include <unistd.h>

static void *open_library(const char *name, int flags);
static void *find_function(void *library, const char *name);
static char *get_reason(void);
#define dlopen open_library
#define dlsym find_function
#define dlerror get_reason
#include "../../../runtime/cuda/driver.c"
#undef dlopen
#undef dlsym
#undef dlerror

/*===-- The input -----------------------------------------------------------===*/

static struct {
  const uint8_t *data;
  size_t size;
} from;

static uint8_t take(void) {
  if (!from.size)
    return 0;
  --from.size;
  return *from.data++;
}

/* A number that is small or extreme. */
static int take_number(void) {
  static const int extremes[] = {-1,  0,   7,       80,      90,      100,
                                 120, 132, 1 << 20, INT_MAX, INT_MIN, 1 << 30};
  uint8_t choice = take();
  return choice < 64 ? choice % 12 : extremes[choice % (sizeof extremes / sizeof *extremes)];
}

/*===-- What the driver has given -------------------------------------------===*/

enum { MOST_OBJECTS = 4096 };
static void *objects[MOST_OBJECTS];
static int num_objects, num_contexts, depth;
/* The driver has refused to take something back, or to go where it could be. */
static bool has_refused;

static void *give(size_t bytes) {
  CHECK(num_objects < MOST_OBJECTS);
  return objects[num_objects++] = calloc(1, bytes ? bytes : 1);
}

static void take_back(const void *object) {
  for (int i = num_objects; i-- > 0;)
    if (objects[i] == object) {
      free(objects[i]);
      objects[i] = objects[--num_objects];
      return;
    }
  CHECK(!"the driver has not given this");
}

static bool is_given(const void *object) {
  for (int i = 0; i < num_objects; ++i)
    if (objects[i] == object)
      return true;
  return false;
}

/* Both ends of a copy: the sanitizer knows the bounds of everything. */
static void touch(void *to, const void *data, size_t bytes) {
  size_t end = bytes < 64 ? bytes : 64;
  memmove(to, data, end);
  memmove((char *)to + bytes - end, (const char *)data + bytes - end, end);
}

static void *at(CUdeviceptr address) { return (void *)(uintptr_t)address; }

/* Most calls succeed. */
static CUresult answer(void) {
  static const CUresult errors[] = {1, 2, 3, 100, 200, 209, 222, 700, 719, 912, 999, -1};
  uint8_t choice = take();
  return choice < 250 ? CUDA_SUCCESS : errors[take() % (sizeof errors / sizeof *errors)];
}

/* Returns the driver's answer, unless that is success. What it was to write may be anything then. */
#define ANSWER(...)                                                                                \
  do {                                                                                             \
    CUresult result_ = answer();                                                                   \
    if (result_ != CUDA_SUCCESS) {                                                                 \
      __VA_ARGS__;                                                                                 \
      return result_;                                                                              \
    }                                                                                              \
  } while (0)

#define GARBAGE ((void *)(uintptr_t)0xbadc0de)

#define GIVES(name, type, parameters, place, bytes)                                                \
  static CUresult name parameters {                                                                \
    ANSWER(*place = (type)(uintptr_t)GARBAGE);                                                     \
    *place = (type)(uintptr_t)give(bytes);                                                         \
    return CUDA_SUCCESS;                                                                           \
  }
#define TAKES(name, parameters, object)                                                            \
  static CUresult name parameters {                                                                \
    ANSWER(has_refused = true);                                                                    \
    take_back((const void *)(uintptr_t)object);                                                    \
    return CUDA_SUCCESS;                                                                           \
  }
#define NUMBER(name, parameters, place)                                                            \
  static CUresult name parameters {                                                                \
    ANSWER(*place = take_number());                                                                \
    *place = take_number();                                                                        \
    return CUDA_SUCCESS;                                                                           \
  }
#define PLAIN(name, parameters)                                                                    \
  static CUresult name parameters { return answer(); }

/*===-- The driver ----------------------------------------------------------===*/

PLAIN(cuInit, (unsigned flags))
NUMBER(cuDriverGetVersion, (int *version), version)
static CUresult cuGetErrorString(CUresult error, const char **text) {
  static char longest[5000];
  memset(longest, '%', sizeof longest - 1);
  static const char *const texts[] = {"an error", "", longest, NULL};
  *text = texts[take() % 4];
  return answer();
}
/* A machine without GPUs ends a run early. */
static CUresult cuDeviceGetCount(int *count) {
  ANSWER(*count = take_number());
  uint8_t choice = take();
  *count = choice < 240 ? 2 : take_number();
  return CUDA_SUCCESS;
}
static CUresult cuDeviceGet(CUdevice *device, int ordinal) {
  ANSWER(*device = -1);
  *device = ordinal;
  return CUDA_SUCCESS;
}
static CUresult cuDeviceGetName(char *name, int length, CUdevice device) {
  ANSWER();
  memset(name, 'n', (size_t)length); /* to the end */
  if (take() < 200)
    name[take() % length] = 0;
  return CUDA_SUCCESS;
}
static CUresult cuDeviceGetAttribute(int *value, int attribute, CUdevice device) {
  ANSWER(*value = take_number());
  uint8_t choice = take();
  *value = choice >= 128                                               ? take_number()
           : attribute == CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR ? 9
           : attribute == CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT     ? 132
                                                                       : 0;
  return CUDA_SUCCESS;
}
PLAIN(cuMemPoolSetAttribute, (CUmemoryPool pool, int attribute, void *value))

static char the_context, other_context;
static CUresult cuDevicePrimaryCtxRetain(CUcontext *context, CUdevice device) {
  ANSWER(*context = GARBAGE);
  *context = (CUcontext)&the_context;
  ++num_contexts;
  return CUDA_SUCCESS;
}
static CUresult cuDevicePrimaryCtxRelease_v2(CUdevice device) {
  CHECK(num_contexts > 0);
  --num_contexts;
  return answer();
}
static CUresult cuCtxPushCurrent_v2(CUcontext context) {
  ANSWER(has_refused = true);
  CHECK(context == (CUcontext)&the_context);
  ++depth;
  return CUDA_SUCCESS;
}
static CUresult cuCtxPopCurrent_v2(CUcontext *context) {
  CHECK(depth > 0);
  --depth;
  *context = (CUcontext)&the_context;
  return answer();
}
static CUresult cuCtxGetCurrent(CUcontext *context) {
  ANSWER(*context = GARBAGE);
  *context = depth ? (CUcontext)&the_context : NULL;
  return CUDA_SUCCESS;
}
static CUresult cuCtxSynchronize(void) {
  ANSWER(has_refused = true);
  return CUDA_SUCCESS;
}

GIVES(cuModuleLoadData, CUmodule, (CUmodule * module, const void *image), module, 1)
TAKES(cuModuleUnload, (CUmodule module), module)
static char functions[3], node_of_graph;
static CUresult cuModuleGetFunction(CUfunction *function, CUmodule module, const char *name) {
  ANSWER(*function = GARBAGE);
  CHECK(is_given(module));
  *function = (CUfunction)&functions[strcmp(name, "weigh") == 0  ? 1
                                     : strcmp(name, "copy") == 0 ? 2
                                                                 : 0];
  return CUDA_SUCCESS;
}
PLAIN(cuFuncSetAttribute, (CUfunction function, int attribute, int value))

/* Kernels end with where they report failures. */
static void launch(CUfunction function, void **parameters) {
  static const int places[] = {3, 4, 2 + KILN_RT_COPY_NUMBERS};
  int32_t *error = *(int32_t **)parameters[places[(char *)function - functions]];
  CHECK(is_given(error));
  uint8_t choice = take();
  if (choice >= 240)
    *error = take_number();
}
static CUresult cuLaunchKernel(CUfunction function, unsigned gridX, unsigned gridY, unsigned gridZ,
                               unsigned blockX, unsigned blockY, unsigned blockZ,
                               unsigned sharedBytes, CUstream stream, void **parameters,
                               void **extra) {
  ANSWER();
  CHECK(gridX && blockX);
  launch(function, parameters);
  return CUDA_SUCCESS;
}
static CUresult cuLaunchKernelEx(const CUlaunchConfig *config, CUfunction function,
                                 void **parameters, void **extra) {
  ANSWER();
  launch(function, parameters);
  return CUDA_SUCCESS;
}
static CUresult cuOccupancyMaxActiveClusters(int *count, CUfunction function,
                                             const CUlaunchConfig *launch) {
  ANSWER(*count = take_number());
  *count = take() < 128 ? 66 : take_number();
  return CUDA_SUCCESS;
}
PLAIN(cuTensorMapEncodeTiled,
      (CUtensorMap * map, int type, uint32_t rank, void *address, const uint64_t *sizes,
       const uint64_t *strides, const uint32_t *box, const uint32_t *steps, int interleave,
       int swizzle, int l2Promotion, int fill))

GIVES(cuMemAlloc_v2, CUdeviceptr, (CUdeviceptr * memory, size_t bytes), memory, bytes)
TAKES(cuMemFree_v2, (CUdeviceptr memory), memory)
GIVES(cuMemPoolCreate, CUmemoryPool, (CUmemoryPool * pool, const CUmemPoolProps *properties), pool,
      sizeof *properties)
TAKES(cuMemPoolDestroy, (CUmemoryPool pool), pool)
GIVES(cuMemAllocFromPoolAsync, CUdeviceptr,
      (CUdeviceptr * memory, size_t bytes, CUmemoryPool pool, CUstream stream), memory, bytes)
TAKES(cuMemFreeAsync, (CUdeviceptr memory, CUstream stream), memory)
GIVES(cuMemHostAlloc, void *, (void **memory, size_t bytes, unsigned flags), memory, bytes)
TAKES(cuMemFreeHost, (void *memory), memory)
#define COPIES(name, parameters, to, data)                                                         \
  static CUresult name parameters {                                                                \
    ANSWER();                                                                                      \
    touch(to, data, bytes);                                                                        \
    return CUDA_SUCCESS;                                                                           \
  }
COPIES(cuMemcpyHtoD_v2, (CUdeviceptr to, const void *data, size_t bytes), at(to), data)
COPIES(cuMemcpyHtoDAsync_v2, (CUdeviceptr to, const void *data, size_t bytes, CUstream stream),
       at(to), data)
COPIES(cuMemcpyDtoHAsync_v2, (void *to, CUdeviceptr data, size_t bytes, CUstream stream), to,
       at(data))
COPIES(cuMemcpyDtoDAsync_v2, (CUdeviceptr to, CUdeviceptr data, size_t bytes, CUstream stream),
       at(to), at(data))
static CUresult cuMemsetD32Async(CUdeviceptr to, unsigned value, size_t count, CUstream stream) {
  ANSWER();
  memset(at(to), 0, 4 * count);
  return CUDA_SUCCESS;
}
static CUresult cuPointerGetAttribute(void *value, int attribute, CUdeviceptr pointer) {
  ANSWER(*(int *)value = take_number());
  *(int *)value = take() >= 128                                   ? take_number()
                  : attribute == CU_POINTER_ATTRIBUTE_MEMORY_TYPE ? CU_MEMORYTYPE_DEVICE
                                                                  : 0;
  return CUDA_SUCCESS;
}

static CUresult cuStreamGetCtx(CUstream stream, CUcontext *context) {
  ANSWER(*context = GARBAGE);
  *context = (CUcontext)(take() < 200 ? &the_context : &other_context);
  return CUDA_SUCCESS;
}
PLAIN(cuStreamSynchronize, (CUstream stream))
NUMBER(cuStreamGetId, (CUstream stream, unsigned long long *id), id)
PLAIN(cuStreamWaitEvent, (CUstream stream, CUevent event, unsigned flags))
GIVES(cuStreamCreate, CUstream, (CUstream * stream, unsigned flags), stream, 1)
TAKES(cuStreamDestroy_v2, (CUstream stream), stream)
static CUresult cuStreamIsCapturing(CUstream stream, int *status) {
  ANSWER(*status = take_number());
  *status = take() < 200 ? CU_STREAM_CAPTURE_STATUS_NONE : take_number();
  return CUDA_SUCCESS;
}
NUMBER(cuThreadExchangeStreamCaptureMode, (int *mode), mode)
GIVES(cuEventCreate, CUevent, (CUevent * event, unsigned flags), event, 1)
TAKES(cuEventDestroy_v2, (CUevent event), event)
static CUresult cuEventRecord(CUevent event, CUstream stream) {
  CHECK(is_given(event));
  return answer();
}
static CUresult cuEventSynchronize(CUevent event) {
  CHECK(is_given(event));
  return answer();
}
static CUresult cuEventElapsedTime(float *milliseconds, CUevent begin, CUevent end) {
  static const float times[] = {0, 1, -1, 1e30f, -1e30f, __builtin_nanf(""), __builtin_inff()};
  *milliseconds = times[take() % (sizeof times / sizeof *times)];
  CHECK(is_given(begin) && is_given(end));
  return answer();
}

GIVES(cuGraphCreate, CUgraph, (CUgraph * graph, unsigned flags), graph, 1)
TAKES(cuGraphDestroy, (CUgraph graph), graph)
static CUresult add_node(CUgraphNode *node, CUgraph graph, const CUgraphNode *after, size_t count) {
  ANSWER(*node = GARBAGE);
  CHECK(is_given(graph) && (!count || *after == (CUgraphNode)&node_of_graph));
  *node = (CUgraphNode)&node_of_graph;
  return CUDA_SUCCESS;
}
static CUresult cuGraphAddKernelNode_v2(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                        size_t numAfter,
                                        const CUDA_KERNEL_NODE_PARAMS *parameters) {
  launch(parameters->func, parameters->kernelParams);
  return add_node(node, graph, after, numAfter);
}
static CUresult cuGraphAddMemcpyNode(CUgraphNode *node, CUgraph graph, const CUgraphNode *after,
                                     size_t numAfter, const CUDA_MEMCPY3D *copy,
                                     CUcontext context) {
  touch(at(copy->dstDevice), at(copy->srcDevice), copy->WidthInBytes);
  return add_node(node, graph, after, numAfter);
}
GIVES(cuGraphInstantiateWithFlags, CUgraphExec,
      (CUgraphExec * made, CUgraph graph, unsigned long long flags), made, 1)
static CUresult cuGraphExecKernelNodeSetParams_v2(CUgraphExec made, CUgraphNode node,
                                                  const CUDA_KERNEL_NODE_PARAMS *parameters) {
  CHECK(is_given(made) && node == (CUgraphNode)&node_of_graph);
  launch(parameters->func, parameters->kernelParams);
  return answer();
}
static CUresult cuGraphExecMemcpyNodeSetParams(CUgraphExec made, CUgraphNode node,
                                               const CUDA_MEMCPY3D *copy, CUcontext context) {
  CHECK(is_given(made) && node == (CUgraphNode)&node_of_graph);
  touch(at(copy->dstDevice), at(copy->srcDevice), copy->WidthInBytes);
  return answer();
}
static CUresult cuGraphLaunch(CUgraphExec made, CUstream stream) {
  CHECK(is_given(made));
  return answer();
}
TAKES(cuGraphExecDestroy, (CUgraphExec made), made)
PLAIN(cuGraphAddDependencies_v2, (CUgraph graph, const CUgraphNode *from, const CUgraphNode *to,
                                  const CUgraphEdgeData *edges, size_t count))

static void *open_library(const char *name, int flags) { return take() < 250 ? &table : NULL; }
static char *get_reason(void) { return take() % 2 ? "no reason" : NULL; }
static void *find_function(void *library, const char *name) {
  if (take() == 255)
    return NULL;
#define FIND(function, parameters)                                                                 \
  if (strcmp(name, #function) == 0)                                                                \
    return (void *)(uintptr_t)function;
  KILN_CUDA_FUNCTIONS(FIND)
  KILN_CUDA_NEWER_FUNCTIONS(FIND)
#undef FIND
  return NULL;
}

/*===-- The host ------------------------------------------------------------===*/

static char weights_path[64];

static void initialize(void) {
  int file = memfd_create("weights", MFD_CLOEXEC);
  static char front[KILN_RT_WEIGHTS_ALIGN];
  make_front(front, 4 * (uint64_t)WEIGHTS, 0xfeed);
  CHECK(file >= 0 && pwrite(file, front, sizeof front, 0) == sizeof front &&
        ftruncate(file, KILN_RT_WEIGHTS_ALIGN + 4 * (off_t)WEIGHTS) == 0);
  snprintf(weights_path, sizeof weights_path, "/proc/self/fd/%d", file);
  static const char image[64] = "image";
  use_image(image, sizeof image);
}

static void check_status(int32_t status) {
  CHECK(status >= KILN_OK && status < KILN_INTERNAL);
  CHECK(status == KILN_OK || *kiln_last_error());
}

/* A run with tensors of the host or of the GPU, and an output that the model allocates or is given. */
static void run(kiln_model *model) {
  enum { COUNT = 100 };
  uint8_t kind = take();
  int64_t count = kind & 8 ? READS : 1 + take() % COUNT;
  float *x = calloc(COUNT, 4), *y = calloc(COUNT, 4);
  tensor input, output;
  set_tensor(&input, x, DTYPE_F32, 1, count, 0);
  set_tensor(&output, y, DTYPE_F32, 1, count, 0);
  if (kind & 1)
    input.t.device = (DLDevice){kDLCUDA, 0};
  if (kind & 2)
    output.t.device = (DLDevice){kDLCUDA, 0};
  if (kind & 16) {
    set_strides(&input, 2, 0);
    input.shape[0] = (count + 1) / 2;
    output.shape[0] = input.shape[0];
  }
  DLManagedTensorVersioned managed;
  set_managed(&managed, &output);
  const DLTensor *inputs[] = {&input.t};
  DLManagedTensorVersioned *outputs[] = {kind & 4 ? &managed : NULL};
  CUstream stream = kind & 32 ? (CUstream)&functions[0] : NULL;
  int32_t status = kiln_model_run(model, inputs, 1, outputs, 1, stream);
  check_status(status);
  if (!(kind & 4)) {
    CHECK((status == KILN_OK) == (outputs[0] != NULL));
    if (outputs[0])
      outputs[0]->deleter(outputs[0]);
  }
  free(x);
  free(y);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  if (!*weights_path)
    initialize();
  from.data = data;
  from.size = size;
  is_loaded = false;
  has_refused = false;
  use_state(take() % 4 == 0);
  setenv("KILN_CUDA_OVERLAP", take() % 2 ? "1" : "0", 1);
  kiln_options options = quiet_options(0);
  options.weights_path = weights_path;
  options.device_index = take() % 3;
  kiln_model *model = NULL;
  int32_t status = kiln_model_create(&options, &model);
  check_status(status);
  CHECK((status == KILN_OK) == (model != NULL));
  for (int i = 0, runs = take() % 8; model && i < runs; ++i)
    run(model);
  static float values[WEIGHTS];
  tensor constant;
  set_tensor(&constant, values, DTYPE_F32, 1, WEIGHTS, 0);
  if (model && take() % 8 == 1)
    check_status(kiln_model_set_constant(model, "weights", &constant.t));
  if (model)
    kiln_model_destroy(model);
  CHECK(depth == 0 && num_contexts == 0);
  CHECK(num_objects == 0 || has_refused);
  while (num_objects)
    free(objects[--num_objects]);
  return 0;
}
