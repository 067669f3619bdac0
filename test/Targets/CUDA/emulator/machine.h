/*===- machine.h - Inside the emulator --------------------------------------===*
 *
 *   emulator.c  threads, warps, memory     async.c  Hopper's barriers, copies of boxes and
 *                                                   products of warpgroups
 *   tensor-memory.c  Blackwell's tensor memory, and products into it
 *   writes.c    what threads write where hardware reads
 *   cluster.c   blocks that run together
 *   workspace.c what blocks leave for others
 *   banks.c     how long accesses of shared memory take
 *
 *===-----------------------------------------------------------------------===*/
#ifndef KILN_TEST_EMULATOR_MACHINE_H
#define KILN_TEST_EMULATOR_MACHINE_H

#include "driver.h"

#define MAX_THREADS 1024
#define WARP 32
#define STACK_BYTES ((size_t)64 << 10)
#define GUARD_BYTES ((size_t)4096)
#define MAX_BUFFERS 2048
#define MAX_COPIES 256 /* of one thread at a time */
#define MAX_SHARED_BYTES ((size_t)256 << 10)
#define CHUNK 16 /* bytes of shared memory of which it is known who has written them */

enum state {
  READY,
  AT_BARRIER,
  AT_SHUFFLE,
  AT_MMA,
  AT_MATRICES,
  AT_MBARRIER,
  AT_WGMMA,
  AT_CLUSTER,
  DONE
};

enum operand { BF16, F16, TF32, S8, E4M3, E5M2 }; /* of a matrix product */

#define WARPGROUP 128
#define MAX_SUMS 128    /* registers of a product */
#define MAX_PRODUCTS 16 /* of a thread, whose sums are in registers */
#define MAX_MBARRIERS 64
#define MAX_CLUSTER 8   /* blocks that every GPU with clusters runs together */
#define TENSOR_ROWS 128 /* of tensor memory */
#define TENSOR_COLUMNS 512
#define MAX_TENSOR_ORDERS 256
#define MAX_WAITED 64 /* flags that a thread has waited for */

struct thread {
  void *stack_pointer;
  enum state state;
  int32_t site;                      /* where it waits */
  int must_wait;                     /* for the kernels before this one */
  int32_t value, distance, received; /* of a shuffle */
  /* Of a matrix product: registers of the operands and of the sums, in its memory. */
  const uint32_t *left, *right;
  float *registers; /* of S8 the bits of integers */
  enum operand operand;
  /* Of a load of matrices: a row of one, and registers. */
  const char *row;
  uint32_t *loaded;
  int32_t num_matrices, is_transposed;
  /* Asynchronous copies under way: they are made when they are waited for, as late as can be. */
  struct {
    void *to;
    const void *from;
    int32_t bytes, given;
    unsigned group;
  } copies[MAX_COPIES];
  unsigned num_copies, groups;
  unsigned fences;   /* after which hardware sees what it has written */
  unsigned meetings; /* of its warp, which order what lanes do */
  struct {
    unsigned flag, meetings;
  } waited_flags[MAX_WAITED];
  unsigned num_waited_flags;
  /* Hopper's: what it waits for, and how many phases of each barrier had ended when it went on. */
  unsigned mbarrier, parity;
  unsigned waited[MAX_MBARRIERS];
  /* How often it has arrived at the barrier of its cluster, and waited for all others there. */
  unsigned cluster_arrivals, cluster_waits;
  struct product {
    uint64_t left, right;
    int32_t columns, adds, left_is_turned, right_is_turned, left_is_registers;
  } product;
  int is_fenced;                        /* its registers, for products of its warpgroup */
  unsigned product_groups, done_groups; /* begun, waited for */
  int has_open_group;                   /* products that belong to no group yet */
  /* What products have made of this thread's sums, which it may read when it has waited. */
  struct sums {
    unsigned number, group; /* of the product, from 1 on */
    int32_t count;
    float values[MAX_SUMS];
  } sums[MAX_PRODUCTS];
  unsigned num_products;
  /* Blackwell's: what other threads have told it holds for tensor memory; it has loaded from there
   * since it has last made that known. */
  int is_tensor_fenced, has_loaded;
};

/* A barrier in shared memory (mbarrier). */
struct mbarrier {
  uintptr_t address;
  int32_t count, pending, bytes;
  unsigned phase, made_by, made_in; /* the thread, and the number of barriers of the block before */
  unsigned made_in_cluster;         /* its arrivals at the barrier of the cluster before */
  int is_fenced, is_published;      /* for copies, for other blocks */
  unsigned last_waited;             /* phases that have ended when somebody has waited last */
  /* What other blocks have told it: in which phase, and how often the last of them had arrived at
   * the barrier of the cluster before; plus 1, 0: nothing. */
  unsigned remote_phase, remote_cluster;
};

/* A copy of a box that is under way to a block: it is made when somebody there waits for it. */
struct box_copy {
  uintptr_t to;
  size_t bytes;
  unsigned mbarrier;
  const struct tensor *tensor;
  int32_t coordinates[5];
};

/* Shared memory that products of a warpgroup read until they have been waited for. */
struct reading {
  uintptr_t begin;
  size_t bytes;
  unsigned warpgroup, group;
};

/* Shared memory that hardware reads. */
struct extent {
  uintptr_t begin;
  size_t bytes;
};

/* A product into tensor memory that a thread has asked for, or a barrier that is told when all in
 * front have been made. */
struct tensor_order {
  unsigned thread;
  int is_commit;
  unsigned mbarrier;
  uint64_t left_descriptor, right_descriptor;
  struct extent left, right;
  int adds, left_is_turned, right_is_turned;
  enum operand operand;
  unsigned column, columns;
};

struct tensor_memory {
  unsigned first, columns; /* that are allocated */
  int is_relinquished;
  unsigned calls[MAX_THREADS / WARP]; /* of instructions of a whole warp, by its threads */
  struct tensor_order orders[MAX_TENSOR_ORDERS];
  unsigned num_orders;
  float sums[TENSOR_ROWS][TENSOR_COLUMNS];
};

#define MAX_BOX_COPIES 64
#define MAX_READINGS 512

/* One of the blocks that run at the same time. */
struct block {
  unsigned number;
  int has_ended;
  char *shared;
  struct thread threads[MAX_THREADS];
  struct mbarrier mbarriers[MAX_MBARRIERS];
  struct box_copy box_copies[MAX_BOX_COPIES];
  struct reading readings[MAX_READINGS];
  unsigned num_mbarriers, num_box_copies, num_readings, num_barriers;
  int registers; /* given away by warpgroups that need less */
  /* Who has written a chunk of its shared memory last, and how many fences it had made. */
  struct {
    unsigned thread; /* plus 1; 0: nobody, or hardware */
    unsigned fences;
  } writers[MAX_SHARED_BYTES / CHUNK];
  char *stacks;
  struct tensor_memory tensor_memory;
};

struct machine {
  const char *name;
  void (*kernel)(void **arguments);
  CUcontext context;
  void **arguments;
  unsigned num_blocks, num_threads;
  size_t shared_bytes;
  struct {
    uintptr_t begin;
    int64_t bytes;
  } buffers[MAX_BUFFERS];
  unsigned num_buffers;
  uintptr_t workspace; /* 0: the kernel has none */
  size_t flag_bytes, workspace_bytes;
  struct block blocks[MAX_CLUSTER]; /* by their rank in the cluster that runs */
  unsigned cluster;                 /* how many there are */
  unsigned cluster_phase;           /* how often all have met at the cluster's barrier */
  struct block *block;              /* whose thread runs */
  unsigned current;                 /* the thread */
  void *scheduler;
  int failed;
  char *message;
  size_t message_size;
};
extern struct machine machine;

/* Says what the kernel has done wrong; and ends the launch: no thread goes on. */
__attribute__((format(printf, 1, 2))) void fail(const char *format, ...);
void stop(void);
/* The thread waits until the scheduler lets it go on. */
void wait_at(enum state state, int32_t site);
float widen(uint16_t bits, enum operand operand);

/* What pointer the host has for an access of these bytes, which may be made. */
void *kiln_emulator_access(void *pointer, int64_t bytes, int32_t writes);
/* Memory that the kernel may use. */
void kiln_emulator_buffer(void *address, int64_t bytes);

/*===-- async.c -------------------------------------------------------------===*/

void begin_async(void); /* of a block */
void end_async(void);
void end_thread_async(void);
/* Lets go on who can. */
int finish_mbarriers(void);
int finish_warpgroup(struct thread *warpgroup);
/* Lets copies arrive that somebody of this block waits for. */
int finish_box_copies(void);

/* The barrier's number in a block, which the thread may know of. */
unsigned find_mbarrier(const struct block *owner, uintptr_t address);
/* A product arrives at a barrier of the block. */
void tell_mbarrier(unsigned number);
/* The shared memory of an operand of `rows` rows and 16 steps, which is there, as its descriptor of
 * this version (0: Hopper's, 1: Blackwell's) says; and its elements. */
struct extent find_operand(uint64_t descriptor, int is_turned, unsigned rows, unsigned version);
/* Steps of an instruction of a warpgroup or into tensor memory. */
unsigned count_steps(enum operand operand);
void load_operand(uint64_t descriptor, int is_turned, unsigned rows, enum operand operand,
                  float *values);

/* Whether the block's products under way read any of these bytes of its shared memory. */
int is_read_by_products(struct block *block, uintptr_t begin, size_t bytes);

/*===-- tensor-memory.c -----------------------------------------------------===*/

void begin_tensor_memory(void); /* of a block */
void end_tensor_memory(void);
int is_read_by_tensor_products(const struct block *block, uintptr_t begin, size_t bytes);
/* Makes products that somebody of this block waits for. */
int finish_tensor_products(void);

/*===-- cluster.c -----------------------------------------------------------===*/

/* The block of this cluster in whose shared memory the address is, or NULL. */
struct block *find_block(uintptr_t address, size_t bytes);
/* Lets threads go on when all threads of the cluster have come. */
int finish_cluster(void);

/*===-- writes.c ------------------------------------------------------------===*/

void begin_writes(void); /* of a block */
/* A thread writes to shared memory; hardware has; the thread makes a fence. */
void note_write(uintptr_t begin, size_t bytes);
void note_box(uintptr_t begin, size_t bytes);
void note_fence(void);
/* Products are to read what has been written and fenced. */
void check_writes(uintptr_t begin, size_t bytes);

/*===-- workspace.c ---------------------------------------------------------===*/

void begin_workspace(void); /* of a launch */
void end_workspace(void);
int is_workspace(uintptr_t address);
/* A thread is to read or write what is behind the flags. */
void note_workspace(uintptr_t begin, size_t bytes, int32_t writes);

/*===-- banks.c -------------------------------------------------------------===*/

void begin_banks(void); /* of a block */
void end_banks(void);
/* A thread accesses shared memory. */
void note_banks(uintptr_t address, int64_t bytes, int32_t writes);

#endif /* KILN_TEST_EMULATOR_MACHINE_H */
