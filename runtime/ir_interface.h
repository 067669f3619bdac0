/*===- ir_interface.h - What generated code and the runtime share -----------===*
 *
 * A compiled model is this runtime linked with one generated object. The object
 * defines `kiln_program`, a description of the model with pointers to its code;
 * the runtime implements the C ABI of kiln-c/model.h over it. Everything in this
 * header is read or written by generated code. The compiler includes it and takes
 * layouts, signatures and numbers from it (Codegen/RuntimeStruct.h), so that
 * a field it does not fill in is an error when it is built. Padding has names.
 *
 * Sizes. A dimension is an int64_t: a value >= 0 is the size itself; a value < 0
 * is the size expression number -(value + 1), computed by `kiln_program.eval`
 * from the values of the symbols.
 *
 * Order of a run: the runtime checks the inputs, calls `bind` and checks the
 * symbols' ranges and every size, then `sizes`, then `main`, which calls
 * kiln_rt_launch once for each kernel.
 *
 * Sizes that only data gives. main stores their symbols to run->symbols on the
 * way (`bind` has left any value there), having checked that they are what the
 * program says. From then on it may reserve memory of such sizes with
 * kiln_rt_reserve, and tell of outputs that have them, which are marked
 * KILN_RT_LATE, with kiln_rt_bind_output: before that, run->outputs[i] is NULL.
 *
 *===-----------------------------------------------------------------------===*/
#ifndef KILN_RUNTIME_IR_INTERFACE_H
#define KILN_RUNTIME_IR_INTERFACE_H

#include "cuda/device.h"
#include "debug.h"
#include "extern.h"
#include "kiln-c/custom_op.h"

#define KILN_RT_ABI 3

/* An input or output. `code` and `bits` are DLPack's. */
typedef struct {
  const char *name;
  uint8_t code, bits;
  uint16_t rank; /* at most 64 */
  uint32_t flags;
  const int64_t *shape; /* `rank` sizes; may be NULL if rank is 0 */
  /* Sizes like the above. Outputs: the recorded strides; NULL: contiguous. Inputs: see the flags.
   */
  const int64_t *strides;
} kiln_rt_tensor;

enum {
  KILN_RT_MUTATED = 1,  /* input: main writes to it */
  KILN_RT_NONE = 2,     /* output: is None; run->outputs[i] is NULL */
  KILN_RT_SCALAR = 4,   /* a Python number, as a 0-d tensor */
  KILN_RT_LATE = 8,     /* output: its sizes are known once main has called kiln_rt_bind_output */
  KILN_RT_STRIDED = 16, /* input: the program computes with its strides, which must be `strides` */
  KILN_RT_VALUE = 32    /* input: an int64 that is a symbol or expression, `strides[0]` */
};

/* A parameter or buffer: `bytes` bytes, contiguous, at `offset` in the weights blob. Also, without
 * a name: other data that folds read or make. */
typedef struct {
  const char *name;
  uint8_t code, bits;
  uint16_t rank;
  uint32_t flags;
  const int64_t *shape; /* static sizes */
  uint64_t offset, bytes;
  uint32_t cell; /* number of the first constant that has the same value always: tied parameters */
  uint32_t reserved;
} kiln_rt_constant;

enum {
  KILN_RT_UNPLACED = 2,       /* not in the blob: only folds read it, or nothing does */
  KILN_RT_MUTABLE_BUFFER = 4, /* main writes to it: each session has its own, at `offset` in
                                 run->state, with the blob's value to begin with. They are the first
                                 in the blob. Runs of one session exclude each other */
  KILN_RT_LATER = 8           /* has no value before the host sets it */
};

/* A symbol and its inclusive range; INT64_MIN and INT64_MAX mean unbounded (and stand where main
 * checks the range itself). */
typedef struct {
  const char *name;
  int64_t min, max;
} kiln_rt_symbol;

typedef struct kiln_rt_run kiln_rt_run;

/* Computes task `i` of a kernel's grid. `buffers` are its operands, then its
 * results. `scratch` is 64-byte aligned, `kiln_program.scratch_bytes` long (NULL
 * if that is 0), private to the call, and holds garbage. A kernel reports an
 * error by storing a KILN_RT_ERROR_ value to *error, which several tasks may do
 * at once; it must never read or write outside its buffers all the same. */
typedef void (*kiln_rt_kernel)(void *const *buffers, const int64_t *symbols, int64_t i,
                               void *scratch, int32_t *error);

enum {
  KILN_RT_ERROR_INDEX = 1,  /* index out of range */
  KILN_RT_ERROR_FAILURE = 2 /* the first of kiln_rt_program.failures, and so on */
};

/* A fold: data that were computed from constants when the model was compiled, and are computed
 * again where one of them is replaced. Comes after the folds whose results it reads. An operand
 * that is not in the blob changes whenever another operand does. */
typedef struct {
  kiln_rt_kernel kernel;
  int64_t grid;
  uint32_t num_operands, num_results;
  const int64_t *constants; /* cells of the operands, then of the results */
  /* If the kernel gives each element of its one operand another place in its one result, and does
   * no more: four numbers for each of `num_dims` dims of the result: divisor, size, stride, and 1 or
   * 0. Its index is (n / divisor) % size, n being the number of the operand's row (1) or of the
   * element in its row (0). NULL: anything else. */
  const int64_t *layout;
  int64_t num_dims;
  uint32_t entry; /* the program whose failures the kernel reports: 0 is kiln_program */
  uint32_t reserved;
} kiln_rt_fold;

/* One run of the model; runtime-private fields follow. */
struct kiln_rt_run {
  void *const *inputs;  /* contiguous; data starts at the pointer (no byte offset) */
  void *const *outputs; /* in the recorded strides */
  void *arena;          /* 64-byte aligned, holds garbage */
  void *weights;        /* the blob, 4096-byte aligned, but for the buffers that main writes to */
  int64_t *symbols;
  int32_t *error;        /* 0 until a kernel stores an error */
  void *const *segments; /* what kiln_rt_reserve has reserved */
  void *state;           /* the buffers that main writes to, at their offsets in the blob */
};

enum {
  KILN_RT_EXTERNAL_WEIGHTS = 1, /* `weights` is NULL; the blob is in a file, see below */
  KILN_RT_HAS_EXPRESSIONS = 2   /* the fields from `num_expressions` on are present */
};

struct kiln_model;

/* The calls of libraries that main makes. Functions of the runtime are reached
 * through this table, so that a model without such calls has none of their code. */
typedef struct {
  const char *const *libraries; /* "torch" stands for libkiln_torch.so */
  const kiln_extern_call *calls;
  uint32_t num_libraries, num_calls;
  /* kiln_rt_open_externs, kiln_rt_close_externs: those of this entry. */
  int32_t (*open)(struct kiln_model *model, uint32_t entry);
  void (*close)(struct kiln_model *model, uint32_t entry);
  void (*drop)(kiln_rt_run *run); /* kiln_rt_drop_kept */
} kiln_rt_externs;

/* What a profile says of a step: a launch of a kernel or a call of an operator, numbered in the
 * order of the program's text. Texts are offsets into `texts`, so that the tables need no
 * relocations: nothing touches them unless a profile is taken. */
typedef struct {
  int64_t kernel; /* number of its row */
  int64_t where;  /* text: "node 'relu' (model.py:12)" */
} kiln_rt_profile_step;

/* `costs` are sizes as above, whose expressions are those of kiln_rt_profile.eval, or
 * KILN_RT_UNKNOWN. */
typedef struct {
  int64_t name;        /* text */
  int64_t first_cost;  /* floating-point operations, then the bytes moved of each buffer */
  int64_t num_buffers; /* operands, then results */
} kiln_rt_profile_kernel;

#define KILN_RT_UNKNOWN INT64_MIN
#define KILN_RT_NO_STEP (-1) /* a launch that no profile shows */

typedef struct {
  const kiln_rt_profile_step *steps;
  const kiln_rt_profile_kernel *kernels;
  const int64_t *costs;
  const char *texts;
  int64_t (*eval)(const int64_t *symbols, int64_t expr); /* NULL when there are no expressions */
  int64_t num_steps;
} kiln_rt_profile;

/* A program. Each entry of a model is one: the first is `kiln_program`, the others are its `others`.
 * What the first says of constants, folds, weights, the device and the CPU is said of all. */
typedef struct kiln_rt_program {
  uint32_t abi; /* KILN_RT_ABI */
  uint32_t num_inputs, num_outputs, num_constants, num_symbols;
  uint32_t flags;
  const char *info;  /* the JSON text of kiln_model_info */
  const char *entry; /* its name */
  const kiln_rt_tensor *inputs, *outputs;
  const kiln_rt_constant *constants;
  const kiln_rt_symbol *symbols;
  const void *weights;    /* embedded blob, 4096-byte aligned, or NULL */
  uint64_t weights_bytes; /* of the blob, embedded or external; `later_bytes` follow them */
  uint64_t weights_hash;  /* identifies the external file */
  uint64_t scratch_bytes; /* the most that any kernel needs */
  /* Solves the symbols from the inputs' shapes (already checked for rank, static
   * sizes and signs). Strides follow the sizes of a KILN_RT_STRIDED input, and a
   * KILN_RT_VALUE one has its value there. Returns 0, or the number + 1 of an
   * input whose shape has no solution. NULL when there are no symbols. */
  int32_t (*bind)(const int64_t *const *shapes, int64_t *symbols);
  int64_t (*eval)(const int64_t *symbols, int64_t expr); /* NULL when there are no expressions */
  /* Stores the symbols that stand for sizes that follow from the inputs' (quotients and products
   * that kernels read), and returns the arena's bytes, below 0 if they do not fit 64 bits. NULL: no
   * arena and no such symbols. */
  int64_t (*sizes)(int64_t *symbols);
  int32_t (*main)(kiln_rt_run *run); /* returns a kiln_status */
  uint32_t num_expressions, num_folds;
  const char *const *expressions; /* text, in the order of their numbers, for messages */
  const kiln_rt_fold *folds;
  uint32_t num_segments; /* that main reserves */
  uint32_t num_failures;
  const kiln_rt_externs *externs; /* NULL: none */
  const kiln_rt_device *device;   /* NULL: the model runs on the CPU */
  const char *const *failures;    /* messages of the codes from KILN_RT_ERROR_FAILURE on */
  const kiln_rt_profile *profile; /* NULL: no profile can be taken */
  /* Behind `weights_bytes` in the blob: constants that are KILN_RT_LATER, and folds of them. */
  uint64_t later_bytes;
  uint64_t cpu_features; /* that code may use: feature i of cpu_features.h is bit i */
  const char *cpu;       /* the CPU that has them, as the compiler was told; NULL: any */
  const struct kiln_rt_program *const *others; /* the entries behind this one; NULL: none */
  uint32_t num_others, reserved;
} kiln_rt_program;

/* Defined by the generated object. */
extern const kiln_rt_program kiln_program;

/* A step that another host runs by its name (steps.c): a launch, or a call of a C function. */
typedef struct {
  const char *name;
  /* Stores the sizes that follow from `symbols` to run->symbols and does the step. */
  int32_t (*run)(kiln_rt_run *run, void *const *buffers);
  const kiln_rt_tensor *tensors; /* operands, then results; contiguous */
  const int64_t *symbols;        /* numbers of those that it computes with */
  uint32_t num_tensors, num_symbols;
} kiln_rt_step;

typedef struct {
  const kiln_rt_step *steps;
  uint32_t num_steps;
  uint32_t hash; /* of the host's text, which no other library fits */
} kiln_rt_steps;

/* Defined by the generated object of a library of steps, whose main fails; by no other. */
extern const kiln_rt_steps kiln_steps __attribute__((weak));

/* Runs kernel(buffers, symbols, i, ...) for each 0 <= i < grid, in parallel, and
 * waits for all. A grid of 1 runs on the calling thread. Returns KILN_OK, or,
 * when a task stored to run->error, the status that main must return. To be
 * called from main only. `step` is its number in kiln_program.profile. */
int32_t kiln_rt_launch(kiln_rt_run *run, kiln_rt_kernel kernel, void *const *buffers, int64_t grid,
                       int64_t step);

/* Stand around a call that is step number `step`, with its operands and results. */
int32_t kiln_rt_begin_step(kiln_rt_run *run);
int32_t kiln_rt_end_step(kiln_rt_run *run, int64_t step, void *const *buffers);

/* Makes run->segments[segment] at least `bytes` long (64-byte aligned, holds garbage), keeping what
 * a former run has left there if it is long enough. `bytes` below 0 means that the size does not
 * fit 64 bits. Returns KILN_OK, or the status that main must return. */
int32_t kiln_rt_reserve(kiln_rt_run *run, int64_t segment, int64_t bytes);

/* The symbols in the sizes of output `index`, which is KILN_RT_LATE, have their values: allocates
 * it or checks the caller's tensor, and sets run->outputs[index]. Returns as kiln_rt_reserve. */
int32_t kiln_rt_bind_output(kiln_rt_run *run, int64_t index);

/* Copies a tensor element by element. Strides are in elements, `item` is the
 * element's size in bytes; the rank is at most 64. */
void kiln_rt_copy(void *to, const int64_t *to_strides, const void *from,
                  const int64_t *from_strides, const int64_t *sizes, int64_t rank, int64_t item);

/* Makes call number `call` of kiln_rt_program.externs. `buffers` and `numbers` are
 * as in extern.h. Returns the status that main must return if it is not 0. */
int32_t kiln_rt_extern(kiln_rt_run *run, uint32_t call, void *const *buffers,
                       const int64_t *numbers);
int32_t kiln_rt_open_externs(struct kiln_model *model, uint32_t entry);
void kiln_rt_close_externs(struct kiln_model *model, uint32_t entry);
/* Calls a custom operator's function (kiln-c/custom_op.h). `buffers` and `numbers` are as in
 * extern.h; the `library` of `call` means nothing. */
int32_t kiln_rt_custom(kiln_rt_run *run, const kiln_extern_call *call, kiln_custom_op_fn function,
                       void *const *buffers, const int64_t *numbers);
/* The same with buffers in the device's memory. */
int32_t kiln_rt_device_custom(kiln_rt_run *run, const kiln_extern_call *call,
                              kiln_custom_op_fn function, void *const *buffers,
                              const int64_t *numbers);
/* The same of a function that takes tensors in the host's memory: it is given copies, and the run
 * waits for it. */
int32_t kiln_rt_device_custom_on_host(kiln_rt_run *run, const kiln_extern_call *call,
                                      kiln_custom_op_fn function, void *const *buffers,
                                      const int64_t *numbers);
/* The run is over: libraries keep nothing for it any more. */
void kiln_rt_drop_kept(kiln_rt_run *run);

/* Sets the run's error message and returns `status`, which main must return. */
int32_t kiln_rt_fail(kiln_rt_run *run, int32_t status, const char *message);

/* The same with KILN_ASSERTION_FAILED and a message that ends with the values of these symbols
 * (numbers in kiln_program.symbols). */
int32_t kiln_rt_assert_failed(kiln_rt_run *run, const char *message, const int64_t *symbols,
                              int64_t num_symbols);

#endif /* KILN_RUNTIME_IR_INTERFACE_H */
