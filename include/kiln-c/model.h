/*===- kiln-c/model.h - The C ABI of a compiled model -----------------------===*
 *
 * A model compiled by `aot-compile` is one shared object that exports the
 * functions declared at the end of this header and nothing else. A host program
 * either links against it, or loads it with dlopen and finds the functions with
 * dlsym; `kiln_model_run_fn` and its siblings are the types to cast to.
 *
 * Tensors cross the boundary as DLPack 1.x: borrowed `DLTensor`s in,
 * `DLManagedTensorVersioned`s out. This header declares what it needs of DLPack
 * itself, layout-compatible with dlpack.h and under that header's own include
 * guard, so both can be included in one file, in either order. (To use parts of
 * dlpack.h that are not declared here, include dlpack.h first.)
 *
 * The header is plain C99 and C++11, and depends on nothing but the C library's
 * integer types.
 *
 *   kiln_options options = {0};                // every field: its default
 *   options.struct_size = sizeof options;
 *   kiln_model *model = NULL;
 *   if (kiln_model_create(&options, &model) != KILN_OK)
 *     fprintf(stderr, "%s\n", kiln_last_error());
 *   const DLTensor *inputs[1] = {&x};
 *   DLManagedTensorVersioned *outputs[1] = {NULL};  // NULL: allocate it for me
 *   if (kiln_model_run(model, inputs, 1, outputs, 1, NULL) != KILN_OK) ...
 *   use(&outputs[0]->dl_tensor);
 *   outputs[0]->deleter(outputs[0]);
 *   kiln_model_destroy(model);
 *
 *===-----------------------------------------------------------------------===*/
#ifndef KILN_C_MODEL_H
#define KILN_C_MODEL_H

#include <stddef.h>
#include <stdint.h>

/*===-- DLPack 1.x ----------------------------------------------------------===*/

#ifdef DLPACK_DLPACK_H_
#if !defined(DLPACK_MAJOR_VERSION) || DLPACK_MAJOR_VERSION != 1
#error "kiln-c/model.h needs DLPack 1.x, but another version's dlpack.h was included before it"
#endif
#else
#define DLPACK_DLPACK_H_

#ifdef __cplusplus
#define DLPACK_EXTERN_C extern "C"
#else
#define DLPACK_EXTERN_C
#endif
#define DLPACK_DLL
#define DLPACK_MAJOR_VERSION 1
#define DLPACK_MINOR_VERSION 2

#ifdef __cplusplus
extern "C" {
#endif

typedef struct {
  uint32_t major; /* a different major version means a different layout */
  uint32_t minor;
} DLPackVersion;

#ifdef __cplusplus
typedef enum : int32_t {
#else
typedef enum {
#endif
  kDLCPU = 1,
  kDLCUDA = 2,
  kDLCUDAHost = 3,
  kDLOpenCL = 4,
  kDLVulkan = 7,
  kDLMetal = 8,
  kDLVPI = 9,
  kDLROCM = 10,
  kDLROCMHost = 11,
  kDLExtDev = 12,
  kDLCUDAManaged = 13,
  kDLOneAPI = 14,
  kDLWebGPU = 15,
  kDLHexagon = 16,
  kDLMAIA = 17,
  kDLTrn = 18
} DLDeviceType;

typedef struct {
  DLDeviceType device_type;
  int32_t device_id;
} DLDevice;

typedef enum {
  kDLInt = 0U,
  kDLUInt = 1U,
  kDLFloat = 2U,
  kDLOpaqueHandle = 3U,
  kDLBfloat = 4U,
  kDLComplex = 5U, /* `bits` counts both parts: complex64 is 64 */
  kDLBool = 6U,    /* stored in a byte: `bits` is 8 */
  kDLFloat8_e3m4 = 7U,
  kDLFloat8_e4m3 = 8U,
  kDLFloat8_e4m3b11fnuz = 9U,
  kDLFloat8_e4m3fn = 10U,
  kDLFloat8_e4m3fnuz = 11U,
  kDLFloat8_e5m2 = 12U,
  kDLFloat8_e5m2fnuz = 13U,
  kDLFloat8_e8m0fnu = 14U,
  kDLFloat6_e2m3fn = 15U,
  kDLFloat6_e3m2fn = 16U,
  kDLFloat4_e2m1fn = 17U
} DLDataTypeCode;

typedef struct {
  uint8_t code; /* a DLDataTypeCode */
  uint8_t bits;
  uint16_t lanes;
} DLDataType;

/* A tensor that does not own its memory. Element (i0, i1, ...) lies
 * sum(i_k * strides[k]) elements after `(char *)data + byte_offset`. */
typedef struct {
  void *data;
  DLDevice device;
  int32_t ndim;
  DLDataType dtype;
  int64_t *shape;   /* may be NULL when ndim is 0 */
  int64_t *strides; /* in elements; NULL: contiguous, row-major */
  uint64_t byte_offset;
} DLTensor;

/* The unversioned tensor of DLPack before 1.0. Not used by Kiln. */
typedef struct DLManagedTensor {
  DLTensor dl_tensor;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensor *self);
} DLManagedTensor;

#define DLPACK_FLAG_BITMASK_READ_ONLY (1UL << 0UL)
#define DLPACK_FLAG_BITMASK_IS_COPIED (1UL << 1UL)
#define DLPACK_FLAG_BITMASK_IS_SUBBYTE_TYPE_PADDED (1UL << 2UL)

typedef struct DLManagedTensorVersioned {
  DLPackVersion version;
  void *manager_ctx;
  void (*deleter)(struct DLManagedTensorVersioned *self); /* may be NULL */
  uint64_t flags;
  DLTensor dl_tensor;
} DLManagedTensorVersioned;

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* DLPACK_DLPACK_H_ */

/*===-- The ABI -------------------------------------------------------------===*/

#ifdef __cplusplus
extern "C" {
#endif

/* The value of kiln_abi_version for the ABI that this header describes. Version 2 has all of version
 * 1, and entries and sessions. */
#define KILN_ABI_VERSION 2

/* Every function that can fail returns one of these as an int32_t. */
typedef enum {
  KILN_OK = 0,
  KILN_INVALID_ARGUMENT =
      1, /* wrong count, dtype, device, strides, alignment, option, or an index out of range */
  KILN_SHAPE_MISMATCH = 2, /* wrong rank or size, or a size outside its symbol's range */
  KILN_UNSUPPORTED = 3,    /* a valid request that this model cannot serve */
  KILN_OUT_OF_MEMORY = 4,
  KILN_DEVICE_ERROR = 5,     /* the device or its driver is missing or failed */
  KILN_ASSERTION_FAILED = 6, /* an assertion that was exported with the program does not
                                hold, or an operator got a value that it raises an error for */
  KILN_INTERNAL = 7          /* the model contradicts itself: a compiler error */
} kiln_status;

/* A loaded model with its weights, thread pool and run memory. */
typedef struct kiln_model kiln_model;

/* All that runs of a model change: the buffers that the program writes to, and the memory of runs. */
typedef struct kiln_session kiln_session;

/* The kinds of kiln_profile_event. */
typedef enum {
  KILN_PROFILE_RUN = 0,   /* a call of kiln_model_run */
  KILN_PROFILE_STEP = 1,  /* a launch of a kernel, or a call of an operator, in a run */
  KILN_PROFILE_SLICE = 2, /* the tasks of a step that one thread did */
  KILN_PROFILE_MEMORY = 3 /* memory that a run held: `bytes` of what `name` says */
} kiln_profile_kind;

#define KILN_PROFILE_DEVICE (-1) /* kiln_profile_event.thread: the GPU */

/* Something that a run has done; see kiln_options.profile. Texts live as long as the shared object.
 * Times are nanoseconds of CLOCK_MONOTONIC. Fields are only ever appended. */
typedef struct kiln_profile_event {
  uint32_t struct_size; /* the model's sizeof(kiln_profile_event) */
  uint32_t kind;        /* a kiln_profile_kind */
  uint64_t run;         /* the same for all events of a run; counts those of the shared object */
  const char *name;     /* of a step: the kernel or operator; of a run: "run" */
  const char *where;    /* of a step: its node and Python line; otherwise "" */
  int64_t launch; /* of a step and its slices: its number among the steps of the program's text,
                     nested graphs included, whatever order they run in; otherwise -1 */
  int64_t thread; /* the system's number of the thread, or KILN_PROFILE_DEVICE */
  int64_t begin, end;
  int64_t tasks; /* of a step: its tasks or blocks; of a slice: those that the thread did */
  /* Of a step: the bytes that it has to move at least, those of the model's weights among them, and
   * its floating-point operations, or in products of integers those on these; -1: not known. */
  int64_t bytes, weight_bytes, flops;
} kiln_profile_event;

/* How a model runs. Zero is the default of every field but `struct_size`. Fields are only ever
 * appended: a model reads as many bytes as `struct_size` says, takes defaults for what lies past
 * them, and ignores what it does not know. The struct itself is copied; what it points to
 * (contexts) must live as long as the model, and the allocator as long as any output. */
typedef struct kiln_options {
  uint32_t struct_size; /* sizeof(kiln_options) */

  /* Threads that a run may use, the calling one included, at most 1024. 0: as
   * many as the process may use (its CPU affinity and its cgroup's CPU quota).
   * Ignored when `parallel_for` is given. */
  int32_t num_threads;

  int32_t device_index; /* which CUDA device; ignored by a CPU model */
  int32_t reserved;     /* must be 0 */

  /* Runs body(arg, i) exactly once for each 0 <= i < n, in any order, on any
   * threads, and returns when all are done. NULL: the model's own pool. May be
   * called by several runs at once. */
  void (*parallel_for)(void *ctx, int64_t n, void (*body)(void *arg, int64_t i), void *arg);
  void *parallel_ctx;

  /* Memory for outputs, intermediate results and copies of inputs; NULL: the
   * malloc family. `align` is a power of two, at least 64; NULL means out of
   * memory. Both or neither must be given, and both must be thread-safe.
   * An output's deleter calls `dealloc`, perhaps after the model is gone. */
  void *(*alloc)(void *ctx, size_t bytes, size_t align);
  void (*dealloc)(void *ctx, void *p, size_t bytes, size_t align);
  void *alloc_ctx;

  /* Receives the message of every call that fails (level 0) as the call returns.
   * NULL: such messages go to stderr. `message` is valid during the call only. */
  void (*log)(void *ctx, int level, const char *message);
  void *log_ctx;

  /* The file of the weights that were compiled with --weights=external. NULL: the path of the
   * shared object with ".safetensors" appended. */
  const char *weights_path;

  /* Is told of what runs do, after the fact: of the slices of a step, then of the step, at last of
   * the run and its memory. NULL: nobody asks, and nothing is measured. Called on the thread that
   * runs the model, by several runs at once if there are several. On a GPU, kernels then run one by
   * one instead of as a graph, and a run waits for them. */
  void (*profile)(void *ctx, const kiln_profile_event *event);
  void *profile_ctx;

  /* For programs that several processes run together. The communicator of a group that the program
   * names, of `size` processes: an MPI_Comm, or of a model for a GPU an ncclComm_t. It has to live
   * as long as the model, and nothing else may use it meanwhile. Asked while the model is created.
   * NULL, and a result of NULL: that of all processes, which mpirun or torchrun has started. */
  void *(*communicator)(void *ctx, const char *group, int64_t size);
  void *communicator_ctx;

  /* Milliseconds that a process waits for the others, after which a run fails. 0: what
   * $KILN_COLLECTIVE_TIMEOUT says, or 300000. */
  int64_t collective_timeout;
} kiln_options;

#if defined(KILN_BUILDING_RUNTIME) && defined(__GNUC__)
#define KILN_API __attribute__((visibility("default")))
#else
#define KILN_API
#endif

/* The version of this ABI that the model implements. A host that finds a larger number than
 * KILN_ABI_VERSION, or 0, must not call anything else; with 1, nothing of sessions or entries. */
KILN_API uint32_t kiln_abi_version(void);

/* What the model is, as JSON; the text lives as long as the shared object:
 *   {"name", "target", "abi", "compiler",
 *    "inputs": [{"name", "dtype", "shape", "device"}], "outputs": [the same],
 *    "symbols": {"s0": {"min", "max"}},
 *    "constants": [{"name", "dtype", "shape"}]}
 * dtypes are named as PyTorch names them ("float32", "int64", "bool"). A size is
 * a number, or an expression over the symbols as text ("2*s0 + 1"). An input
 * that the model writes to has "mutated": true. */
KILN_API const char *kiln_model_info(void);

/* Loads the model. `options` may be NULL: all defaults. On success *model owns
 * the weights mapping and the worker threads, until kiln_model_destroy; on
 * failure it is NULL. A process may create any number of models. KILN_UNSUPPORTED
 * on a CPU that lacks an instruction set of the one that the model was compiled
 * for: the message names it. */
KILN_API int32_t kiln_model_create(const kiln_options *options, kiln_model **model);

/* Runs the model once, on the calling thread and the model's workers.
 *
 * `inputs` are the exported program's user inputs, flattened, in calling order.
 * They are borrowed for the call. A Python scalar is a 0-d tensor (int64,
 * float64 or bool). Any non-negative strides are taken, at the price of a copy
 * if they are not contiguous; data must be aligned to the dtype. An input that
 * the model mutates is written in place: it must not overlap itself or another
 * input.
 *
 * `outputs` has a slot for each output. A NULL slot is set to a newly allocated
 * tensor (64-byte aligned, with the strides that export recorded), which the
 * caller releases through its deleter; until then the shared object must stay
 * loaded, while the model may be destroyed. In any other slot the caller
 * provides a writable tensor of the right dtype and shape, which is written in
 * place; it may share memory with inputs, not with other outputs or itself.
 * The slot of an output that is None must be NULL and stays so.
 *
 * `stream` is the CUDA stream to run on; a CPU model ignores it.
 *
 * Everything is checked before anything is written; only an error found while
 * running (KILN_INVALID_ARGUMENT for an index that is out of range,
 * KILN_ASSERTION_FAILED, KILN_OUT_OF_MEMORY, KILN_DEVICE_ERROR) can leave the
 * caller's own outputs, mutated inputs and the model's own buffers partly written.
 * Slots that were NULL are NULL again after any failure.
 *
 * Any number of threads may run one model at a time. One of them has the
 * workers, the others compute alone. Runs of a model that mutates its own
 * buffers wait for each other; sessions have buffers of their own.
 *
 * Of several entries it runs `forward`, else `model`; a model with neither is
 * KILN_INVALID_ARGUMENT, and kiln_session_run runs its entries. */
KILN_API int32_t kiln_model_run(kiln_model *model, const DLTensor *const *inputs, size_t num_inputs,
                                DLManagedTensorVersioned **outputs, size_t num_outputs,
                                void *stream);

/* Replaces a parameter or buffer, named as in kiln_model_info, with a copy of
 * `value`, which must have its dtype and shape. "NAME[2:5]" replaces rows 2, 3 and
 * 4 of NAME, of which alone `value` has the values. Other models in the process keep
 * theirs: with embedded weights the first call gives this model a private copy
 * of all of them, with external weights only the pages written to are copied.
 * A buffer that the program writes to gets the value in the model's own runs and in sessions
 * that are created or reset from then on.
 * Parameters that share storage in the exported program change together. What
 * compilation computed from this one (a packed weight) is computed again; an
 * index among them that is out of range is KILN_INVALID_ARGUMENT. After a failure
 * nothing has changed. A run in progress may see old and new values mixed. */
KILN_API int32_t kiln_model_set_constant(kiln_model *model, const char *name,
                                         const DLTensor *value);

/* The number of the entry with this name (kiln_model_info lists them), for kiln_session_run. One
 * that the model does not have is KILN_INVALID_ARGUMENT. */
KILN_API int32_t kiln_model_find_entry(const kiln_model *model, const char *name, uint32_t *entry);

/* Makes a session of the model: buffers that the program writes to, with the model's values, and
 * memory for runs. Weights and workers stay the model's. On failure *session is NULL. */
KILN_API int32_t kiln_session_create(kiln_model *model, kiln_session **session);

/* Gives the session's buffers the model's values again. On a GPU, waits for the session's runs. */
KILN_API int32_t kiln_session_reset(kiln_session *session);

/* Makes another session, of the same model, whose buffers have the values of this one's. */
KILN_API int32_t kiln_session_clone(const kiln_session *session, kiln_session **clone);

/* Frees the session; NULL is allowed. No call with it may be in progress. It may come after
 * kiln_model_destroy, which frees all that its sessions hold but for the handle. A later call with
 * the session is KILN_INVALID_ARGUMENT as long as no new session has its place. */
KILN_API void kiln_session_destroy(kiln_session *session);

/* Runs one of the model's entries as kiln_model_run does, on the session's buffers. Any number of
 * sessions may run at a time, each on one thread: a session that another thread uses is
 * KILN_INVALID_ARGUMENT. */
KILN_API int32_t kiln_session_run(kiln_session *session, uint32_t entry,
                                  const DLTensor *const *inputs, size_t num_inputs,
                                  DLManagedTensorVersioned **outputs, size_t num_outputs,
                                  void *stream);

/* Joins the workers and frees the model; NULL is allowed. No run may be in
 * progress. Every model must be destroyed before the shared object is unloaded. */
KILN_API void kiln_model_destroy(kiln_model *model);

/* The message of the last call that failed on this thread; "" if none has. It
 * stays valid until the next failure on this thread. Never NULL. */
KILN_API const char *kiln_last_error(void);

/* The types of the functions above, for dlsym. */
typedef uint32_t (*kiln_abi_version_fn)(void);
typedef const char *(*kiln_model_info_fn)(void);
typedef int32_t (*kiln_model_create_fn)(const kiln_options *, kiln_model **);
typedef int32_t (*kiln_model_run_fn)(kiln_model *, const DLTensor *const *, size_t,
                                     DLManagedTensorVersioned **, size_t, void *);
typedef int32_t (*kiln_model_set_constant_fn)(kiln_model *, const char *, const DLTensor *);
typedef void (*kiln_model_destroy_fn)(kiln_model *);
typedef int32_t (*kiln_model_find_entry_fn)(const kiln_model *, const char *, uint32_t *);
typedef int32_t (*kiln_session_create_fn)(kiln_model *, kiln_session **);
typedef int32_t (*kiln_session_reset_fn)(kiln_session *);
typedef int32_t (*kiln_session_clone_fn)(const kiln_session *, kiln_session **);
typedef void (*kiln_session_destroy_fn)(kiln_session *);
typedef int32_t (*kiln_session_run_fn)(kiln_session *, uint32_t, const DLTensor *const *, size_t,
                                       DLManagedTensorVersioned **, size_t, void *);
typedef const char *(*kiln_last_error_fn)(void);

#ifdef __cplusplus
} /* extern "C" */
#endif
#endif /* KILN_C_MODEL_H */
