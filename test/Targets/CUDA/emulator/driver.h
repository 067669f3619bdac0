/*===- driver.h - Inside the libcuda.so.1 for machines without a GPU --------===*
 *
 *   driver.c    the machine, contexts, errors     memory.c   memory, copies
 *   modules.c   modules, functions                streams.c  streams, events
 *   graphs.c    graphs, capture                   tensormap.c tensor maps
 *   emulator.c, async.c   what kernels do
 *
 * What is put on a stream happens as late as it can: when somebody waits for it. A
 * caller that takes back too early what is still to be read, or that forgets to order
 * two streams, gets the wrong result, or an end of the process that says why. So
 * does one that breaks a rule that a real driver does not check: memory that is freed
 * twice or used when it is free, or from another context.
 *
 * One lock is held during each call.
 *
 *===-----------------------------------------------------------------------===*/
#ifndef KILN_TEST_EMULATOR_DRIVER_H
#define KILN_TEST_EMULATOR_DRIVER_H

#include "../../../../runtime/cuda/driver.h"
#include "emulator.h"

#include <stdbool.h>

#define EXPORT __attribute__((visibility("default")))

enum {
  CUDA_ERROR_INVALID_CONTEXT = 201,
  CUDA_ERROR_INVALID_HANDLE = 400,
  CUDA_ERROR_NOT_FOUND = 500,
  CUDA_ERROR_NOT_READY = 600,
  CUDA_ERROR_ILLEGAL_ADDRESS = 700,
  CUDA_ERROR_STREAM_CAPTURE_UNSUPPORTED = 900,
  CUDA_ERROR_STREAM_CAPTURE_INVALIDATED = 901,
  CUDA_ERROR_STREAM_CAPTURE_WRONG_THREAD = 908,
  CU_STREAM_CAPTURE_STATUS_ACTIVE = 1,
  CU_STREAM_CAPTURE_STATUS_INVALIDATED = 2,
  CU_STREAM_CAPTURE_MODE_GLOBAL = 0
};

/*===-- driver.c ------------------------------------------------------------===*/

#define MAX_DEVICES 8

struct CUctx_st {
  int device;
  int retained;
  CUresult error; /* after a kernel has failed, what everything answers */
};

/* Every entry point but the ones about the machine begins and ends with these. `enter` takes the
 * lock and says whether there is a context to work in. */
CUresult enter(void);
CUresult leave(CUresult result);
/* Takes the lock if nobody has it. */
bool try_enter(void);
CUcontext current(void);

/* Ends the process: the caller has broken a rule. */
__attribute__((noreturn, format(printf, 1, 2))) void misuse(const char *format, ...);

__attribute__((format(printf, 1, 2))) void record(const char *format, ...);
long setting(const char *name, long otherwise);
/* Of each GPU. */
int count_multiprocessors(void);

/* Memory of zeros that is never freed: handles tell who uses them when they are gone. */
void *keep(size_t bytes);

/* What the emulator said of a kernel that failed. */
extern char failure[512];

/*===-- memory.c ------------------------------------------------------------===*/

struct allocation {
  struct allocation *next;
  char *data;
  size_t bytes;
  int device;
  bool host;
  bool is_free;          /* kept to tell who uses it still */
  CUmemoryPool pool;     /* that it is of, or NULL */
  bool is_returned;      /* cuMemFreeAsync has been called */
  struct CUgraph_st *of; /* made in a capture: lives while the graph runs */
};

struct CUmemPoolHandle_st {
  int device;
  bool is_destroyed;
};

/* The memory that the address is in, free or not, or NULL. */
struct allocation *find_allocation(uintptr_t address);

/* The host's address of `bytes` bytes that an operation in the context uses; it is a misuse if they
 * are not there. `what` is for the message. */
char *reach(CUcontext context, CUdeviceptr memory, size_t bytes, const char *what);
void set_free(struct allocation *allocation);
void revive(struct allocation *allocation);

/*===-- modules.c -----------------------------------------------------------===*/

struct CUmod_st {
  void *library;
  int file; /* open as long as the library: the loader knows libraries by their paths */
  CUcontext context;
  bool is_unloaded;
};

struct CUfunc_st {
  char name[128];
  void (*code)(void **arguments);
  unsigned num_parameters, num_maps; /* of 8 bytes; behind them tensor maps */
  unsigned cluster;                  /* blocks of one */
  unsigned dims;                     /* of its grid, 1 to 3 */
  size_t shared_bytes;               /* that it may have */
  CUmodule module;
};

/* What the driver asks of any launch of the function. */
CUresult check_launch(const struct CUfunc_st *function, const CUlaunchConfig *launch);

/*===-- streams.c -----------------------------------------------------------===*/

enum kind { LAUNCH, COPY, ALLOCATE, FREE, RECORD, WAIT, GRAPH, CALL };

#define MAX_PARAMETERS 2400

/* Something to do on a stream. */
struct operation {
  enum kind kind;
  CUcontext context;
  CUfunction function;
  unsigned grid, block, shared_bytes;
  unsigned grid_sizes[3];    /* whose product `grid` is */
  bool overlaps;             /* may begin before what is in front of it has ended */
  bool is_ordered;           /* in a graph: comes after the node before it */
  uint64_t *parameters;      /* one after the other */
  CUdeviceptr to, from;      /* of a copy on the GPU */
  char *host_to, *host_from; /* the host's side of a copy */
  bool owns_from;            /* a copy of pageable memory, made when it was called */
  size_t bytes;
  struct allocation *allocation;
  CUevent event;
  CUstream stream; /* of the event that is waited for */
  uint64_t ticket;
  void (*call)(const void *arguments); /* a library's */
  void *call_arguments;                /* a copy of `bytes` bytes */
  struct operation *steps;             /* of a graph */
  unsigned num_steps;
};

struct CUstream_st {
  CUcontext context;
  struct CUstream_st *next;
  bool is_blocking; /* ordered with the default stream */
  bool is_destroyed;
  struct operation *queue;
  size_t num_queued, max_queued;
  uint64_t issued, done; /* operations */
  CUgraph capture;       /* being made of this stream */
  int capture_mode;
  bool is_invalid; /* the capture */
};

struct CUevent_st {
  CUcontext context;
  CUstream stream; /* where it was recorded last */
  uint64_t ticket;
  bool is_destroyed;
  bool has_time;   /* made to be timed */
  double time;     /* milliseconds, of the last record that was reached */
  CUgraph capture; /* recorded in one */
};

/* The stream that a caller means; a misuse if it is none of the current context. */
CUstream get_stream(CUstream stream);

/* Adds to the stream, or to the graph that is made of it. Takes over what the operation owns. */
CUresult add_operation(CUstream stream, struct operation operation);
void copy_operation(struct operation *to, const struct operation *from);
void free_operation(struct operation *operation);
/* Of an operation: a launch of the function. */
size_t count_parameter_words(const struct CUfunc_st *function);
/* Checks a launch, but for its attributes, and makes its operation. */
CUresult make_launch(const CUlaunchConfig *launch, CUfunction function, void *const *parameters,
                     const void *extra, struct operation *operation);
void execute(const struct operation *operation);

/* Does everything that is on the stream, or on all streams of the context (NULL: of all). */
CUresult drain(CUstream stream);
void drain_all(CUcontext context);
/* Whether something that is still to be done uses this memory of the host, or this module. */
bool is_awaited(const void *host, size_t bytes, CUmodule module);

/*===-- graphs.c ------------------------------------------------------------===*/

struct CUgraph_st {
  CUcontext context;
  struct operation *steps;
  unsigned num_steps, max_steps;
};

/* Of a node: its number, and the graph's address. */
struct CUgraphNode_st {
  CUgraph graph;
  unsigned number;
};

struct CUgraphExec_st {
  CUcontext context;
  struct operation *steps;
  unsigned num_steps;
  bool is_destroyed;
};

void add_step(CUgraph graph, struct operation operation);

/* What may not be done while somebody captures: fails, and the captures with it. */
CUresult check_uncaptured(void);

#endif /* KILN_TEST_EMULATOR_DRIVER_H */
