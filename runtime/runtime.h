/*===- runtime.h - Inside the runtime ---------------------------------------===*
 *
 * The runtime is compiled for a baseline CPU and linked into every model. It
 * uses nothing but the libc functions listed in libc.map, which the link
 * enforces. Fast path of a run: no lock, no formatting, no allocation but the
 * outputs; a few uncontended atomics.
 *
 *   abi.c      the exported functions      check.c    checks at entry, messages
 *   entries.c  the programs of a model
 *   run.c      one run: bind, stage, main  pool.c     threads, kiln_rt_launch
 *   session.c  what runs change          tensor.c   sizes and strides
 *   memory.c   allocators, free lists
 *   weights.c  mapping and replacement     error.c    this thread's last error
 *   cpu.c      what the model's code needs  weights_rows.c  replacement of rows
 *   extern.c   libraries that main calls   output.c   outputs that the model allocates
 *   custom.c   C functions that main calls copy.c     copies between strides
 *   debug.c    debug printing, with debug_tensor.c
 *   steps.c    steps that another host runs, one by one
 *   print.c    what programs print, with print_number.c and print_tensor.c
 *   element.c  elements as numbers, for text
 *   profile.c  what a host that takes a profile is told
 *   cuda/      models that run on a GPU, see cuda/cuda.h
 *
 *===-----------------------------------------------------------------------===*/
#ifndef KILN_RUNTIME_RUNTIME_H
#define KILN_RUNTIME_RUNTIME_H

#include "ir_interface.h"
#include "kiln-c/model.h"

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#define KILN_MAX_RANK 64
#define KILN_MAX_THREADS 1024
#define KILN_ALIGNMENT 64
/* No address space is larger; small enough that sums and doubles do not overflow. */
#define KILN_MAX_BYTES ((uint64_t)1 << 56)

#define KILN_LIKELY(x) __builtin_expect(!!(x), 1)
#define KILN_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* A run begins with weights in the caches and nothing else, so what it enters through lies
 * together: these functions, and apart from them all that only a failure calls. */
#define KILN_ENTRY __attribute__((hot))
#define KILN_FAILURE __attribute__((cold))

/*===-- The floating-point environment --------------------------------------===*/

/* A host may have another rounding mode, flush denormal numbers to zero or trap. Kernels run in the
 * default environment, on whatever thread. */
#if defined(__x86_64__)
#define KILN_DEFAULT_MXCSR 0x1f80u
#define KILN_MXCSR_FLAGS 0x3fu /* of what has happened; they say nothing of what will */
static inline bool kiln_is_default_mxcsr(unsigned mxcsr) {
  return (mxcsr & ~KILN_MXCSR_FLAGS) == KILN_DEFAULT_MXCSR;
}
/* Returns the host's, for kiln_leave_environment. */
static inline unsigned kiln_enter_environment(void) {
  unsigned host = __builtin_ia32_stmxcsr();
  if (KILN_UNLIKELY(!kiln_is_default_mxcsr(host)))
    __builtin_ia32_ldmxcsr(KILN_DEFAULT_MXCSR);
  return host;
}
static inline void kiln_leave_environment(unsigned host) {
  if (KILN_UNLIKELY(!kiln_is_default_mxcsr(host)))
    __builtin_ia32_ldmxcsr(host);
}
#else
static inline unsigned kiln_enter_environment(void) { return 0; }
static inline void kiln_leave_environment(unsigned host) { (void)host; }
#endif

/*===-- error.c -------------------------------------------------------------===*/

/* A message under construction; what does not fit is cut off. */
typedef struct {
  char *text;
  size_t size, used;
} kiln_text;

__attribute__((format(printf, 2, 3))) KILN_FAILURE void kiln_append(kiln_text *text,
                                                                    const char *format, ...);

/* Starts this thread's error message anew. */
KILN_FAILURE kiln_text kiln_begin_error(void);

/* Sets this thread's error message and returns `status`. */
/* The message of what a kernel has reported; NULL: none of the program's own. */
KILN_FAILURE const char *kiln_kernel_failure(const kiln_rt_program *program, int32_t error);
__attribute__((format(printf, 2, 3))) KILN_FAILURE int32_t kiln_fail(int32_t status,
                                                                     const char *format, ...);

/*===-- memory.c ------------------------------------------------------------===*/

typedef struct {
  void *(*alloc)(void *ctx, size_t bytes, size_t align);
  void (*dealloc)(void *ctx, void *p, size_t bytes, size_t align);
  void *ctx;
} kiln_allocator;

/* 64-byte aligned memory, or NULL. `kiln_deallocate` takes the same `bytes`. */
void *kiln_allocate(const kiln_allocator *allocator, size_t bytes);
void kiln_deallocate(const kiln_allocator *allocator, void *p, size_t bytes);

/* Memory that a run context keeps from run to run and grows on demand. */
typedef struct {
  void *data;
  size_t bytes;
} kiln_block;

/* Makes the block hold at least `bytes`; its contents are lost when it grows.
 * False: out of memory, and the block is empty. */
KILN_ENTRY bool kiln_block_reserve(kiln_block *block, const kiln_allocator *allocator,
                                   size_t bytes);
void kiln_block_free(kiln_block *block, const kiln_allocator *allocator);

/* A lock-free stack of 64-byte aligned nodes. Nodes may be freed only when
 * nobody else uses the stack. */
typedef struct kiln_node {
  _Atomic(struct kiln_node *) next;
} kiln_node;

typedef struct {
  _Atomic uint64_t head; /* pointer / 64 in the high 42 bits, a change counter below */
} kiln_stack;

void kiln_push(kiln_stack *stack, kiln_node *node);
KILN_ENTRY kiln_node *kiln_pop(kiln_stack *stack); /* NULL: empty */

/*===-- tensor.c ------------------------------------------------------------===*/

static inline size_t kiln_item_size(unsigned bits) { return bits / 8; }

/* Product of the sizes times `item`. False: more than KILN_MAX_BYTES, which is
 * also refused when another size is 0, since strides are products of the others. */
KILN_ENTRY bool kiln_bytes(const int64_t *shape, int rank, size_t item, uint64_t *bytes);

/* Bytes from the first element to past the last, 0 if there are no elements.
 * Strides (>= 0) are in elements. False: more than KILN_MAX_BYTES. */
bool kiln_extent(const int64_t *shape, const int64_t *strides, int rank, size_t item,
                 uint64_t *bytes);

KILN_ENTRY bool kiln_is_contiguous(const int64_t *shape, const int64_t *strides, int rank);
KILN_ENTRY void kiln_contiguous_strides(const int64_t *shape, int rank, int64_t *strides);

/* Whether two tensors of one shape place each element alike: sizes of 1 have no stride. */
KILN_ENTRY bool kiln_same_layout(const int64_t *shape, const int64_t *a, const int64_t *b,
                                 int rank);

/* Whether two elements may share memory. True for some tensors where none do. */
bool kiln_may_overlap_itself(const int64_t *shape, const int64_t *strides, int rank);

/*===-- copy.c --------------------------------------------------------------===*/

/* Strides in elements, rank at most KILN_MAX_RANK. Elements of the source may share memory, and its
 * strides may be negative; no two elements of the target share memory. */
void kiln_copy(void *to, const int64_t *to_strides, const void *from, const int64_t *from_strides,
               const int64_t *shape, int rank, size_t item);

/*===-- check.c -------------------------------------------------------------===*/

/* The parts of a checked tensor that are used on. */
typedef struct {
  char *data;             /* first element */
  uint64_t extent;        /* bytes that the elements span */
  const int64_t *strides; /* NULL: contiguous */
} kiln_view;

/* The properties that a tensor must have. Sizes that are expressions are compared only if
 * `symbols` is given. */
typedef struct {
  const char *role; /* "input", "output", "constant" */
  uint32_t index;
  const char *name;
  uint8_t code, bits;
  uint16_t rank;
  const int64_t *shape;
  const int64_t *symbols;
  const kiln_rt_program *program; /* whose expressions the sizes are */
} kiln_expectation;

/* PyTorch's name, where it has one. */
void kiln_append_dtype(kiln_text *text, DLDataType type);
void kiln_append_device(kiln_text *text, DLDevice device);

/* All checks of one tensor; on success fills in `view`. */
KILN_ENTRY int32_t kiln_check_tensor(const kiln_expectation *expected, const DLTensor *tensor,
                                     kiln_view *view);
/* A host that is built with AddressSanitizer has it, and knows which memory is not its own any more.
 */
extern void *__asan_region_is_poisoned(void *begin, size_t bytes) __attribute__((weak));

/* Asks the sanitizer, which there is, about the tensor's memory; after all other checks. */
int32_t kiln_check_memory(const kiln_expectation *expected, const DLTensor *tensor,
                          const kiln_view *view);

/* Compares the sizes alone, expressions included. */
KILN_ENTRY int32_t kiln_check_shape(const kiln_expectation *expected, const DLTensor *tensor);

/* Says what was expected and what came, with dtype and shape:
 *   input 0 "input_ids": expected int64 [1, 128], got float32 [1, 128] */
KILN_FAILURE int32_t kiln_fail_type(int32_t status, const kiln_expectation *expected,
                                    const DLTensor *tensor);

/* Compares the strides or the value of an input with what they must be; `properties` are as bind
 * reads them. */
int32_t kiln_check_properties(const kiln_rt_program *program, uint32_t input,
                              const int64_t *properties, const int64_t *symbols);

/* Appends which input gives the symbol its value, if one does. */
KILN_FAILURE void kiln_append_origin(kiln_text *text, const kiln_rt_program *program,
                                     const char *symbol);

/* The symbols' ranges. `inputs` only serve to name the input at fault. */
KILN_ENTRY int32_t kiln_check_symbols(const kiln_rt_program *program, const int64_t *symbols,
                                      const DLTensor *const *inputs);

/* The value of a size, see ir_interface.h. */
static inline int64_t kiln_size(const kiln_rt_program *program, int64_t dim,
                                const int64_t *symbols) {
  return KILN_LIKELY(dim >= 0) ? dim : program->eval(symbols, -(dim + 1));
}

/*===-- pool.c --------------------------------------------------------------===*/

typedef struct kiln_pool kiln_pool;

/* `threads` counts the caller; one means no pool: *pool is NULL. */
int32_t kiln_pool_create(int threads, const kiln_allocator *allocator, kiln_pool **pool);
void kiln_pool_destroy(kiln_pool *pool);

/* How many threads this process may keep busy. */
int kiln_usable_cpus(void);

/* A mutex that works without libpthread's. */
typedef struct {
  _Atomic uint32_t state; /* 0 free, 1 held, 2 held and awaited */
} kiln_mutex;

void kiln_lock(kiln_mutex *mutex);
void kiln_unlock(kiln_mutex *mutex);

/*===-- weights.c -----------------------------------------------------------===*/

typedef struct {
  _Atomic(char *) blob;
  void *mapping; /* ours to unmap; NULL while the blob is the embedded one */
  size_t mapping_bytes;
  bool writable;
  /* By constant: it has a value. NULL: all have. */
  bool *known;
  _Atomic uint32_t num_unknown;
  uint64_t state_bytes; /* at the beginning of the blob: the buffers that main writes to */
  /* Their values in a new session; empty: the blob's. */
  kiln_block initial;
  kiln_mutex initial_lock;
} kiln_weights;

/* A part of the blob in memory. */
static inline uint64_t kiln_weights_bytes(void) {
  return kiln_program.weights_bytes + kiln_program.later_bytes;
}

int32_t kiln_weights_open(kiln_weights *weights, const char *path);
void kiln_weights_close(kiln_weights *weights, const kiln_allocator *allocator);
/* The bytes from `offset` on, which are initial ones of a session if they are buffers' that main
 * writes to. */
const char *kiln_weights_at(const kiln_weights *weights, uint64_t offset);

/* Fails: a constant has no value yet. */
KILN_FAILURE int32_t kiln_weights_fail_unknown(const kiln_weights *weights);

/* Replaces bytes, which are initial ones and the model's own session's if they are buffers' that
 * main writes to; on the device, too. */
int32_t kiln_weights_store(kiln_model *model, uint64_t offset, const char *value, uint64_t bytes);

/* Makes the blob private to this model and writable. */
int32_t kiln_weights_own(kiln_weights *weights);

/* kiln_model_set_constant; the arguments are not NULL. */
int32_t kiln_weights_set(kiln_model *model, const char *name, const DLTensor *value);

/* The same with this constant; model->state is held. */
int32_t kiln_weights_replace(kiln_model *model, const kiln_rt_constant *constant,
                             const DLTensor *value);

/* Writes the path of the shared object that this model is in. False: it is not
 * known, or does not fit. */
bool kiln_object_path(char *path, size_t size);

/*===-- weights_rows.c ------------------------------------------------------===*/

typedef struct {
  size_t name_length; /* of the constant's name */
  int64_t begin, end;
} kiln_rows;

/* False: this does not name rows. */
bool kiln_rows_parse(const char *name, kiln_rows *rows);

/* Replaces these rows, which `name` has named; model->state is held. */
int32_t kiln_weights_set_rows(kiln_model *model, const kiln_rt_constant *constant, const char *name,
                              const kiln_rows *rows, const DLTensor *value);

/*===-- custom.c ------------------------------------------------------------===*/

/* The memory that the tensors of a call are in. A function that fails has set the message. */
typedef struct {
  DLDevice device;
  void *stream;
  int32_t (*copy)(kiln_rt_run *run, void *to, const int64_t *to_strides, const void *from,
                  const int64_t *from_strides, const int64_t *sizes, int64_t rank, int64_t item);
  /* To the host's. */
  int32_t (*read)(kiln_rt_run *run, void *to, const void *from, int64_t bytes);
  /* The work that the function puts on the stream now comes last. */
  int32_t (*start)(kiln_rt_run *run);
} kiln_custom_memory;

int32_t kiln_call_custom(kiln_rt_run *run, const kiln_extern_call *call, kiln_custom_op_fn function,
                         void *const *buffers, const int64_t *numbers,
                         const kiln_custom_memory *memory);

/*===-- Devices -------------------------------------------------------------===*/

struct kiln_context;

/* Reached through kiln_program.device alone: a model for CPUs has none of this code. */
struct kiln_device_functions {
  int32_t (*open)(kiln_model *model);
  void (*close)(kiln_model *model);
  int32_t (*run)(kiln_session *session, uint32_t entry, const DLTensor *const *inputs,
                 DLManagedTensorVersioned **outputs, void *stream);
  /* These bytes of the weights have changed, or of the model's own session. */
  int32_t (*upload)(kiln_model *model, uint64_t offset, uint64_t bytes);
  /* Gives a session's buffers the values of another one's, or the initial ones (NULL). */
  int32_t (*fill)(kiln_session *session, kiln_session *from);
  void (*free_state)(kiln_session *session);
  void (*free_context)(struct kiln_context *context);
  /* Puts on the device what the run has launched, and waits for it. */
  int32_t (*settle)(struct kiln_context *context);
  /* Puts a step on the device's default stream. The tensors have been checked but for their
   * places. */
  int32_t (*run_step)(struct kiln_context *context, const kiln_rt_step *step,
                      const DLTensor *const *tensors, void *const *buffers);
  /* Waits for all steps, and says whether they failed. */
  int32_t (*wait_steps)(struct kiln_context *context);
};

/*===-- output.c ------------------------------------------------------------===*/

typedef struct kiln_kept_outputs kiln_kept_outputs;

int32_t kiln_outputs_open(kiln_model *model);
/* Outputs that callers still have outlive the model. */
void kiln_outputs_close(kiln_model *model);

/*===-- steps.c -------------------------------------------------------------===*/

/* Functions that a library of steps exports beside kiln_model_create, kiln_model_destroy and
 * kiln_last_error. No other model has any of them. */
#define KILN_STEPS_API __attribute__((visibility("default")))

/* kiln_rt_steps.hash */
KILN_STEPS_API uint32_t kiln_steps_hash(void);
/* The number of the step with this name, or -1. */
KILN_STEPS_API int32_t kiln_steps_find(const char *name);
/* Runs a step on its operands and results, with values for its symbols. */
KILN_STEPS_API int32_t kiln_steps_run(kiln_model *model, int32_t number,
                                      const DLTensor *const *tensors, size_t num_tensors,
                                      const int64_t *symbols, size_t num_symbols);
/* Waits for the steps on a device, which kiln_steps_run does not: it may return their failures. */
KILN_STEPS_API int32_t kiln_steps_wait(kiln_model *model);
/* Copies bytes of the weights. */
KILN_STEPS_API int32_t kiln_steps_read(kiln_model *model, uint64_t offset, uint64_t bytes,
                                       void *to);

/*===-- run.c ---------------------------------------------------------------===*/

/* All that runs change: the buffers that main writes to, and the memory of runs. */
struct kiln_session {
  kiln_node node; /* of session.c, once it is destroyed */
  /* &kiln_program, which no other shared object's sessions have; NULL: it is destroyed. */
  const void *library;
  kiln_model *model;   /* NULL: it is destroyed */
  kiln_stack contexts; /* kiln_context */
  kiln_block state;
  struct kiln_device_state *device_state;
  kiln_mutex lock;             /* runs that write to the buffers */
  _Atomic bool is_busy;        /* of the host's sessions: some thread uses it */
  kiln_session *next, **place; /* in model->sessions */
};

/* An entry's libraries, and what each call of them was prepared as. */
typedef struct {
  const kiln_extern_library **libraries;
  void **calls;
} kiln_opened_externs;

/* The fields that every run reads come first. */
struct kiln_model {
  kiln_session own;                /* of kiln_model_run */
  uint32_t default_entry;          /* of kiln_model_run, or KILN_NO_ENTRY */
  kiln_pool *pool;                 /* NULL: one thread, or the host's parallel_for */
  kiln_kept_outputs *kept_outputs; /* NULL: none are kept */
  kiln_allocator allocator;
  kiln_weights weights;
  kiln_options options;         /* complete, with defaults */
  kiln_stack scratches;         /* scratch memory for the host's parallel_for */
  struct kiln_device *device;   /* NULL: the model runs on the CPU */
  kiln_opened_externs *externs; /* of each entry; NULL: there are none */
  kiln_session *sessions;       /* the host's */
  kiln_mutex sessions_lock;
};

/* One input or output of a run in progress. */
typedef struct {
  kiln_view view;
  DLManagedTensorVersioned *allocated; /* output in a NULL slot */
  size_t staged;                       /* offset + 1 in the block that main uses instead, 0: none */
} kiln_slot;

/* All that a run needs, kept for the next one, of whichever entry that is. The arrays follow the
 * struct, in places that kiln_context_enter chooses for the entry, but for `late_blocks`. */
typedef struct kiln_context {
  kiln_node node; /* in session->contexts, while idle */
  kiln_model *model;
  kiln_session *session;
  const kiln_rt_program *program; /* that runs */
  uint32_t entry;                 /* its number */
  uint32_t first_output;          /* the outputs of all entries in front of it */
  struct kiln_profile *profile;   /* of this run; NULL: none is taken */
  kiln_rt_run run;
  int32_t error;   /* *run.error */
  int32_t failure; /* the status given to kiln_rt_fail, 0: not called */
  bool owns_pool;
  void **inputs, **outputs; /* run.inputs, run.outputs */
  const int64_t **shapes;   /* for bind */
  int64_t *properties;      /* what bind reads of inputs beside their sizes */
  int64_t *symbols;
  kiln_slot *input_slots, *output_slots;
  kiln_block arena, staging, scratch;
  DLManagedTensorVersioned *const *given; /* the caller's output slots */
  void **segments;                        /* run.segments */
  /* The blocks of the segments, then the staging memory of each output that is bound late. */
  kiln_block *late_blocks;
  void *device; /* what the functions of a device keep here, NULL: nothing */
  void **kept;  /* what each library keeps for this run */
} kiln_context;

/* The context that the run of a program belongs to. */
static inline kiln_context *kiln_context_of(kiln_rt_run *run) {
  return (kiln_context *)((char *)run - offsetof(kiln_context, run));
}

KILN_ENTRY int32_t kiln_run(kiln_session *session, uint32_t entry, const DLTensor *const *inputs,
                            DLManagedTensorVersioned **outputs);

/* The parts that a run on a device has in common with one on the CPU. */
kiln_expectation kiln_expect(const kiln_context *context, const char *role,
                             const kiln_rt_tensor *tensor, uint32_t index, const int64_t *symbols);
/* Checks all inputs, computes the symbols and sets the inputs' slots. */
KILN_ENTRY int32_t kiln_check_inputs(kiln_context *context, const DLTensor *const *inputs);
/* All that can be said of the caller's tensor for output `index` before `symbols`
 * (NULL: not all of them) are known. */
KILN_ENTRY int32_t kiln_check_output(kiln_context *context, uint32_t index, const int64_t *symbols);
/* The sizes and the recorded strides of an output in this run. */
KILN_ENTRY int32_t kiln_output_layout(const kiln_context *context, uint32_t index, int64_t *shape,
                                      int64_t *strides, uint64_t *extent);
/* main; libraries keep nothing of the run when it is over. */
KILN_ENTRY int32_t kiln_call_program(kiln_context *context);
/* An output in a NULL slot, in the host's memory. */
KILN_ENTRY int32_t kiln_allocate_output(kiln_context *context, uint32_t index);
void kiln_delete_output(DLManagedTensorVersioned *tensor);
/* A context of its own for whoever launches kernels; NULL: out of memory. Put back with the workers
 * that it may have. */
KILN_ENTRY kiln_context *kiln_context_take(kiln_session *session, uint32_t entry);
/* Makes it one of another entry. */
KILN_FAILURE void kiln_context_enter(kiln_context *context, uint32_t entry);
void kiln_context_put(kiln_context *context);
/* Makes the first run's, so that it is near the model in memory. */
int32_t kiln_contexts_open(kiln_session *session);
void kiln_contexts_free(kiln_session *session);

/*===-- abi.c ---------------------------------------------------------------===*/

/* Every failing call ends here. */
KILN_FAILURE int32_t kiln_report(const kiln_options *options, int32_t status);
/* A run of the ABI but for what is said of its failures. */
KILN_ENTRY int32_t kiln_run_session(kiln_session *session, uint32_t entry,
                                    const DLTensor *const *inputs, size_t num_inputs,
                                    DLManagedTensorVersioned **outputs, size_t num_outputs,
                                    void *stream);

/*===-- entries.c -----------------------------------------------------------===*/

#define KILN_NO_ENTRY UINT32_MAX

static inline uint32_t kiln_num_entries(void) { return kiln_program.num_others + 1; }
static inline const kiln_rt_program *kiln_entry(uint32_t entry) {
  return KILN_LIKELY(entry == 0) ? &kiln_program : kiln_program.others[entry - 1];
}
/* The entry of kiln_model_run: `forward`, else `model`, else the only one, else KILN_NO_ENTRY. */
uint32_t kiln_default_entry(void);
/* Fails: none of them is. */
KILN_FAILURE int32_t kiln_fail_no_default(void);
/* For all entries. */
size_t kiln_num_outputs(void);
/* The most that any entry has. */
size_t kiln_max_late_blocks(void);
uint64_t kiln_max_scratch_bytes(void);

/*===-- session.c -----------------------------------------------------------===*/

/* Gives the session's buffers the values of another one's, or the initial ones (NULL). */
int32_t kiln_session_fill(kiln_session *session, kiln_session *from);
/* Frees what a session holds, but for itself. */
void kiln_session_close(kiln_session *session);

/*===-- profile.c -----------------------------------------------------------===*/

/* A run of which a profile is taken; kept with its context. */
typedef struct kiln_profile kiln_profile;

/* Makes the context's; false: out of memory. */
bool kiln_profile_open(kiln_context *context);
void kiln_profile_free(kiln_context *context);
/* The run of a context that has a profile begins and ends. */
KILN_FAILURE void kiln_profile_begin(kiln_context *context);
KILN_FAILURE void kiln_profile_end(kiln_context *context);
/* kiln_rt_launch in such a run. */
KILN_FAILURE int32_t kiln_profile_launch(kiln_rt_run *run, kiln_rt_kernel kernel,
                                         void *const *buffers, int64_t grid, int64_t step);
/* Tells the host of a step. */
KILN_FAILURE void kiln_profile_step(kiln_context *context, int64_t step, void *const *buffers,
                                    int64_t tasks, int64_t thread, int64_t begin, int64_t end);
/* Nanoseconds of CLOCK_MONOTONIC. */
int64_t kiln_now(void);

/* Releases the pool if this run has it. (pool.c) */
void kiln_pool_release(kiln_context *context);
void kiln_scratches_free(kiln_model *model);

#endif /* KILN_RUNTIME_RUNTIME_H */
