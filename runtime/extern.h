/*===- extern.h - What a library that models call implements ----------------===*
 *
 * A model that was compiled with a fallback calls operators that it has no code
 * for. A library runs them: libkiln_torch.so (runtime/torch) with LibTorch. The
 * model loads it at kiln_model_create and hands over a description of each call,
 * which is constant data in the model. No text is ever interpreted as code.
 *
 * In a run the library gets the calls' buffers, and the numbers that depend on
 * the run, in this order: for each operand and then for each result its sizes and
 * its strides (in elements), then the values of KILN_EXTERN_NUMBER arguments.
 *
 * Some operators say by their results how large these are. Such a call gives sizes, and
 * the library keeps the results until the run has memory for them and makes a call of
 * KILN_EXTERN_RESULTS.
 *
 *===-----------------------------------------------------------------------===*/
#ifndef KILN_RUNTIME_EXTERN_H
#define KILN_RUNTIME_EXTERN_H

#include <stddef.h>
#include <stdint.h>

#define KILN_EXTERN_ABI 7

/* Callee of a call that fetches, once, what another one has left. Its only argument is the number
 * that this one gave. */
#define KILN_EXTERN_RESULTS "kiln.results"

enum {
  KILN_EXTERN_NONE = 0,
  KILN_EXTERN_TENSOR = 1, /* operand number `value` */
  KILN_EXTERN_ITEM = 2,   /* the number that operand number `value` holds, a 0-d tensor */
  KILN_EXTERN_INT = 3,
  KILN_EXTERN_NUMBER = 4, /* an integer: number `value` of the run */
  KILN_EXTERN_BOOL = 5,
  KILN_EXTERN_FLOAT = 6,          /* `value` is the bits of a double */
  KILN_EXTERN_COMPLEX = 7,        /* two KILN_EXTERN_FLOAT follow */
  KILN_EXTERN_STRING = 8,         /* `text` */
  KILN_EXTERN_DTYPE = 9,          /* 256 * code + bits, as in DLPack */
  KILN_EXTERN_DEVICE = 10,        /* `text`: "cpu", "cuda:0" */
  KILN_EXTERN_LAYOUT = 11,        /* `text`: "strided" */
  KILN_EXTERN_MEMORY_FORMAT = 12, /* `text`: "channels_last" */
  KILN_EXTERN_LIST = 13,          /* `count` values follow, each with what follows it in turn */
  KILN_EXTERN_DICT = 14           /* `count` times a KILN_EXTERN_STRING and a value follow */
};

/* A node of an argument. */
typedef struct {
  uint32_t kind, count;
  int64_t value;
  const char *text;
} kiln_extern_value;

typedef struct {
  uint8_t code, bits; /* DLPack's */
  uint16_t rank;
} kiln_extern_tensor;

/* A call, as the program makes it. */
typedef struct {
  const char *callee; /* "aten.topk.default" */
  const char *where;  /* for messages: "node 'topk' (model.py:12)" */
  const kiln_extern_value *args;
  const char *const *names;          /* of the arguments; NULL: all, in the operator's order */
  const kiln_extern_tensor *tensors; /* operands, then results */
  const int64_t *projection;         /* result i is return value number projection[i], lists
                                        flattened; for the first results */
  const int64_t *sizes;              /* pairs: the next num_sizes results are the sizes of return
                                        value sizes[2*i] in dim sizes[2*i + 1] (-1: the value
                                        itself, a number), the one after them names what the library
                                        keeps; all int64, 0-d. NULL: nothing is kept */
  const int64_t *updates;            /* operands that the callee writes: it is given the last
                                        results in their place, made equal to them before */
  uint32_t library;                  /* kiln_rt_externs.libraries[library] runs it */
  uint32_t num_args, num_values;     /* arguments, and all their nodes */
  uint32_t num_operands, num_results, num_updates, num_sizes, reserved;
} kiln_extern_call;

/* A GPU, whose context is current. */
typedef struct {
  void *stream;         /* what the call does is put on it, and nothing waits for that */
  int32_t ordinal;      /* the device's number */
  uint32_t is_captured; /* the stream is: nothing may wait */
} kiln_extern_device;

/* The host's word of the processes that run the program together; see kiln_options. */
typedef struct {
  void *(*communicator)(void *ctx, const char *group, int64_t size); /* NULL: nothing */
  void *communicator_ctx;
  int64_t timeout; /* milliseconds; 0: the library's default */
  uint64_t
      program;     /* of all calls that the program makes of the library: alike for the same callees
                       on the same dtypes and texts, in the same order */
  uint32_t number; /* the call's among them */
  int32_t ordinal; /* of the model's GPU; -1: it runs on CPUs */
} kiln_extern_host;

/* The interface of a library, which exports a function kiln_get_extern_library that returns
 * this, or NULL if it does not know this version. A function that fails returns a kiln_status
 * and writes a message, cut off at `size` bytes. All may be called by several threads at once. */
typedef struct {
  /* Looks the operator up. `call` lives until `release`. */
  int32_t (*prepare)(const kiln_extern_call *call, void **prepared, char *message, size_t size);
  void (*release)(void *prepared);
  /* On at most `threads` threads; 0: as many as the library likes. `*kept` is what the library
   * keeps for this run, NULL before the first of its calls. NULL: this library computes on devices
   * alone. */
  int32_t (*run)(void *prepared, void **kept, void *const *buffers, const int64_t *numbers,
                 int32_t threads, char *message, size_t size);
  /* The run is over. */
  void (*drop)(void *kept);
  /* As `run`, with buffers in a device's memory. NULL: what this library computes on are copies in
   * the host's. */
  int32_t (*run_on_device)(void *prepared, const kiln_extern_device *device, void *const *buffers,
                           const int64_t *numbers, char *message, size_t size);
  /* Comes behind `prepare`. NULL: the library works in one process. */
  int32_t (*connect)(void *prepared, const kiln_extern_host *host, char *message, size_t size);
  /* Fails if something that `run_on_device` has put on a stream has been given up since, so that the
   * stream has gone on without it: asked when a stream has been waited for, and before a run. NULL:
   * this library gives up nothing. */
  int32_t (*check)(void *prepared, char *message, size_t size);
} kiln_extern_library;

typedef const kiln_extern_library *(*kiln_extern_entry)(uint32_t abi);

#ifdef __cplusplus
#define KILN_EXTERN_ASSERT(cond) static_assert(cond, "layout that other libraries know")
#else
#define KILN_EXTERN_ASSERT(cond) _Static_assert(cond, "layout that other libraries know")
#endif
KILN_EXTERN_ASSERT(sizeof(kiln_extern_value) == 24);
KILN_EXTERN_ASSERT(sizeof(kiln_extern_tensor) == 4);
KILN_EXTERN_ASSERT(sizeof(kiln_extern_call) == 96);

#endif /* KILN_RUNTIME_EXTERN_H */
