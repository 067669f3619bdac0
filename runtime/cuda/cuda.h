/*===- cuda.h - Inside the runtime for CUDA ---------------------------------===*
 *
 *   driver.c   finding the driver      device.c   one model's device: modules
 *   upload.c   weights                 launch.c   what main calls
 *   tensormap.c  what kernels are told of tensors
 *   graph.c    launches as graphs      extern.c   libraries that main calls
 *   run.c      one run                 custom.c   C functions that main calls
 *   debug.c    debug printing          profile.c  times of kernels
 *   state.c    buffers that main writes to
 *   triton.c   Triton kernels          step.c     steps that another host runs
 *   log.c      what is loaded and launched
 *   pool.c     memory of runs and outputs
 *   workspace.c  what blocks leave to each other
 *
 * Each call of the C ABI makes the device's primary context current for as long
 * as it lasts, which is what CUDA's own runtime and PyTorch use too.
 *
 *===-----------------------------------------------------------------------===*/
#ifndef KILN_RUNTIME_CUDA_CUDA_H
#define KILN_RUNTIME_CUDA_CUDA_H

#include "../runtime.h"
#include "driver.h"

/* A kernel, or a variant of one, that has been loaded. */
typedef struct {
  CUmodule module; /* NULL: it has not */
  CUfunction function;
  const kiln_rt_device_kernel *kernel;
  int64_t max_blocks; /* of a variant: that run at the same time */
  bool waits;         /* begins with waiting for the kernels before it */
} kiln_cuda_loaded;

typedef struct kiln_cuda_pool kiln_cuda_pool;

/* A model's device: kiln_model.device. */
struct kiln_device {
  const kiln_cuda_driver *driver;
  CUdevice device;
  int ordinal;
  unsigned architecture;
  int multiprocessors;
  int shared_bytes;   /* that a block may have */
  bool runs_variants; /* kernels for compute capability 9.0 or 10.0 alone */
  bool overlaps;      /* a kernel's blocks may come before the kernel in front of it has ended */
  CUcontext context;
  kiln_cuda_pool *pool; /* of runs and outputs */
  char name[96];
  CUdeviceptr weights; /* behind the buffers that main writes to, which sessions have */
  bool makes_graphs;
  bool synchronizes;  /* waits for every step */
  int log;            /* a file, or -1 */
  kiln_mutex loading; /* of modules */
  /* By number, loaded when they are first launched. */
  struct {
    const kiln_rt_device_kernel *kernel; /* which its variant is one of */
    kiln_cuda_loaded loaded, variant;
    _Atomic(const kiln_cuda_loaded *) launched; /* one of both, NULL before */
  } kernels[];
};

/* A session's buffers: kiln_session.device_state. */
struct kiln_device_state {
  CUdeviceptr memory;
  CUevent last_run; /* on whatever stream */
};

/* One thing that main puts on the stream. It comes without padding, to be compared as bytes. */
typedef struct {
  const kiln_rt_device_kernel *kernel; /* NULL: a copy; addresses: to, from; number: bytes */
  CUfunction function;
  uint32_t grid;
  uint32_t kernel_grid; /* of a variant: the kernel's */
  uint32_t first_address, first_number;
  int32_t number; /* in kiln_program.profile, or KILN_RT_NO_STEP; that if no profile is taken */
  uint32_t reserved;
} kiln_cuda_step;

/* Steps in their order, with what kernels are called with. */
typedef struct {
  kiln_cuda_step *steps;
  void **addresses;
  int64_t *numbers;
  uint32_t num_steps, num_addresses, num_numbers;
  uint32_t max_steps, max_addresses, max_numbers;
} kiln_cuda_sequence;

/* A sequence that has been on a stream, as a graph from the second time on. */
typedef struct {
  kiln_cuda_sequence sequence;
  CUstream stream;
  uint64_t hash;     /* of all but the addresses */
  uint64_t last_use; /* 0: never */
  CUgraph graph;     /* whose nodes those of `made` are known by */
  CUgraphExec made;
  CUgraphNode *nodes;
  bool is_stale; /* `made` is of a sequence of the same kernels, but other sizes */
} kiln_cuda_graph;

#define KILN_CUDA_GRAPHS 16     /* of a context, at most */
#define KILN_CUDA_GRAPH_STEPS 4 /* what is shorter is launched one by one */

/* The device's part of a context of runs: kiln_context.device. */
typedef struct {
  CUstream stream;
  CUstream known_stream;      /* the last one that was found to be the context's */
  const char **known_places;  /* of inputs, then outputs: what was last found to be on the GPU */
  bool is_captured;           /* the caller makes a graph of what is put on the stream */
  bool records;               /* main is running: what it launches goes to `pending` */
  kiln_cuda_sequence pending; /* what has not been put on the stream yet */
  kiln_cuda_graph *graphs;    /* KILN_CUDA_GRAPHS of them, or NULL */
  uint64_t clock;             /* for last_use */
  CUdeviceptr memory;         /* arena, copies and workspace of this run, 0: none */
  CUdeviceptr workspace;      /* of this run, 0: none */
  CUdeviceptr kept_workspace; /* of runs on one stream, 0: none */
  uint64_t workspace_stream;  /* which one */
  int32_t *error;             /* the host's and the device's; kiln_rt_run.error */
  bool outputs_on_device;     /* those in NULL slots */
  bool waits;                 /* some tensor is in the host's memory */
  bool reads_staging;         /* copies on the stream do */
  CUdeviceptr segments[];     /* then the copies of outputs that are bound late */
} kiln_cuda_context;

static inline struct kiln_device *kiln_cuda_device(const kiln_context *context) {
  return context->model->device;
}

static inline kiln_cuda_context *kiln_cuda_context_of(kiln_context *context) {
  return context->device;
}

static inline CUdeviceptr kiln_cuda_address(const void *p) { return (CUdeviceptr)(uintptr_t)p; }
static inline void *kiln_cuda_pointer(CUdeviceptr p) { return (void *)(uintptr_t)p; }

/*===-- pool.c --------------------------------------------------------------===*/

int32_t kiln_cuda_open_pool(struct kiln_device *device);

/* For an output that is in the pool. */
kiln_cuda_pool *kiln_cuda_share_pool(kiln_cuda_pool *pool);
void kiln_cuda_release_pool(kiln_cuda_pool *pool);

/* Something in the pool cannot be given back, so that the pool stays, too. */
void kiln_cuda_lose_memory(kiln_cuda_pool *pool);

/* Memory of the model's pool, in the order of the stream. A failure leaves 0. */
CUresult kiln_cuda_allocate(const struct kiln_device *device, CUdeviceptr *memory, size_t bytes,
                            CUstream stream);

/* Gives an output's memory back behind all that uses it. `stream` is that of its run. */
void kiln_cuda_free_output(kiln_cuda_pool *pool, CUdeviceptr memory, CUstream stream);

/*===-- workspace.c ---------------------------------------------------------===*/

/* The bytes of a workspace for the program's kernels. */
uint64_t kiln_cuda_count_workspace(const struct kiln_device *device);

/* Sets its flags to zero, on the run's stream; `failure` is the message for when that cannot be. */
int32_t kiln_cuda_clear_workspace(kiln_context *context, CUdeviceptr workspace,
                                  const char *failure);

/* Gives the run one that stays for the next run on its stream, or false. */
bool kiln_cuda_keep_workspace(kiln_context *context, uint64_t bytes);

/* Frees what has been kept. Nothing uses it any more. */
void kiln_cuda_drop_workspace(kiln_context *context);

/*===-- device.c ------------------------------------------------------------===*/

int32_t kiln_cuda_enter(const struct kiln_device *device);
void kiln_cuda_leave(const struct kiln_device *device);

/* The byte of the blob that is the first of device->weights: addresses are as aligned as in the
 * blob. */
static inline uint64_t kiln_cuda_first_weight(const kiln_model *model) {
  return model->weights.state_bytes / 256 * 256;
}

/* kiln_rt_run.weights: weights are at their offsets in the blob. */
static inline void *kiln_cuda_weights(const kiln_model *model) {
  CUdeviceptr weights = model->device->weights;
  return kiln_cuda_pointer(weights ? weights - kiln_cuda_first_weight(model) : 0);
}

/* The function of a kernel or, as `*kernel` says then, its variant, whose module is loaded if need
 * be. */
int32_t kiln_cuda_function(struct kiln_device *device, const kiln_rt_device_kernel **kernel,
                           CUfunction *function);

/* As this, of a variant that cannot be launched: the kernel, from now on. `reason` is for the log. */
int32_t kiln_cuda_replace_variant(struct kiln_device *device, const kiln_rt_device_kernel **kernel,
                                  CUfunction *function, const char *reason);

static inline kiln_cuda_loaded *kiln_cuda_loaded_of(struct kiln_device *device,
                                                    const kiln_rt_device_kernel *kernel) {
  return kernel->geometry ? &device->kernels[kernel->number].variant
                          : &device->kernels[kernel->number].loaded;
}

/* Some image of the kernel is for this GPU. */
bool kiln_cuda_has_code(const struct kiln_device *device, const kiln_rt_device_kernel *kernel);

/* Whether such a kernel, which has been loaded, may come before the one in front of it has ended.
 */
static inline bool kiln_cuda_overlaps(struct kiln_device *device,
                                      const kiln_rt_device_kernel *kernel) {
  return device->overlaps && kiln_cuda_loaded_of(device, kernel)->waits;
}

/*===-- log.c ---------------------------------------------------------------===*/

void kiln_cuda_open_log(struct kiln_device *device);
void kiln_cuda_close_log(struct kiln_device *device);

/* A kernel or variant that has been loaded from `image`, or not, without one: `failure` says why. */
void kiln_cuda_log_load(const struct kiln_device *device, const kiln_rt_device_kernel *kernel,
                        const kiln_rt_image *image, const char *failure);

/* To be called before a step is put on the stream and behind it; waits only if it is wanted. */
int32_t kiln_cuda_wait_for_step(kiln_context *context, const char *name, bool is_done);

/*===-- tensormap.c ---------------------------------------------------------===*/

/* The maps of a launch of the kernel. */
CUresult kiln_cuda_encode_maps(const struct kiln_device *device,
                               const kiln_rt_device_kernel *kernel, void *const *buffers,
                               const int64_t *symbols, CUtensorMap *maps);
/* The blocks of a launch of a variant that has been loaded. */
int64_t kiln_cuda_variant_grid(struct kiln_device *device, const kiln_rt_device_kernel *kernel,
                               const int64_t *symbols);

/*===-- state.c -------------------------------------------------------------===*/

/* kiln_device_functions.fill and .free_state */
int32_t kiln_cuda_fill(kiln_session *session, kiln_session *from);
void kiln_cuda_free_state(kiln_session *session);

/*===-- upload.c ------------------------------------------------------------===*/

/* Copies what is in the host's memory, maybe a file's, to the GPU, and waits for it. */
int32_t kiln_cuda_upload(const struct kiln_device *device, CUdeviceptr to, const char *from,
                         size_t bytes);

static inline bool kiln_cuda_has_workspace(const kiln_rt_device_kernel *kernel) {
  return kernel->workspace || kernel->shared_workspace;
}
/* The buffers', and the workspace's. */
static inline uint32_t kiln_cuda_num_addresses(const kiln_rt_device_kernel *kernel) {
  return kernel->num_buffers + kiln_cuda_has_workspace(kernel);
}

/*===-- graph.c -------------------------------------------------------------===*/

/* Adds a step, which gets these addresses and numbers, to the pending ones. `numbers[i]` is where the
 * i-th one is. */
int32_t kiln_cuda_record(kiln_context *context, kiln_cuda_step step, void *const *addresses,
                         uint32_t num_addresses, const int64_t *const *numbers,
                         uint32_t num_numbers);
/* Puts a pending step on the stream. */
int32_t kiln_cuda_launch_step(kiln_context *context, const kiln_cuda_step *step);

/* Puts the pending steps on the stream. */
int32_t kiln_cuda_flush(kiln_context *context);
void kiln_cuda_discard(kiln_context *context);

void kiln_cuda_free_graphs(kiln_context *context);

/*===-- profile.c -----------------------------------------------------------===*/

/* Puts the pending steps on the stream, waits for them and tells the host of each. */
KILN_FAILURE int32_t kiln_cuda_profile(kiln_context *context);
/* kiln_device_functions.settle */
int32_t kiln_cuda_settle(kiln_context *context);

/*===-- launch.c ------------------------------------------------------------===*/

/* Puts one step on the stream. `parameters` are those of the kernel. */
int32_t kiln_cuda_launch(kiln_context *context, const kiln_rt_device_kernel *kernel,
                         CUfunction function, uint32_t grid, void **parameters);
int32_t kiln_cuda_copy(kiln_context *context, CUdeviceptr to, CUdeviceptr from, size_t bytes);

int32_t kiln_cuda_copy_strided(kiln_context *context, CUdeviceptr to, const int64_t *to_strides,
                               CUdeviceptr from, const int64_t *from_strides, const int64_t *sizes,
                               int rank, size_t item);

/*===-- run.c ---------------------------------------------------------------===*/

int32_t kiln_cuda_run(kiln_session *session, uint32_t entry, const DLTensor *const *inputs,
                      DLManagedTensorVersioned **outputs, void *stream);
int32_t kiln_cuda_bind_output(kiln_context *context, uint32_t index);
/* Memory of the host, context->staging, for tensors that have to be copied there first. */
int32_t kiln_cuda_reserve_staging(kiln_context *context, uint64_t bytes);
void kiln_cuda_free_context(kiln_context *context);

/* Gives a context the memory that launches need. */
int32_t kiln_cuda_make_context(kiln_context *context);
/* The failures that kernels have reported since this was last asked, as a status. */
int32_t kiln_cuda_kernel_failure(kiln_context *context);

/*===-- step.c --------------------------------------------------------------===*/

/* kiln_device_functions.run_step and .wait_steps */
int32_t kiln_cuda_run_step(kiln_context *context, const kiln_rt_step *step,
                           const DLTensor *const *tensors, void *const *buffers);
int32_t kiln_cuda_wait_steps(kiln_context *context);

#endif /* KILN_RUNTIME_CUDA_CUDA_H */
