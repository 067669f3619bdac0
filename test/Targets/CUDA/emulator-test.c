/*===- emulator-test.c - What the emulator finds ----------------------------===*
 *
 * Kernels by hand, as Emulate.cpp would write them: a right one with Hopper's instructions, one
 * with those of all GPUs, one whose blocks share copies, and for each rule one that breaks it.
 *
 *===-----------------------------------------------------------------------===*/
#include "emulator-calls.h"
#include "emulator/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

int32_t kiln_emulator_thread(void);
void kiln_emulator_grid_wait(void);
void *kiln_emulator_shared(void);
void kiln_emulator_barrier(int32_t site);
void kiln_emulator_mbarrier_init(void *address, int32_t count);
void kiln_emulator_mbarrier_arrive(void *address);
void kiln_emulator_mbarrier_expect(void *address, int32_t bytes);
void kiln_emulator_mbarrier_wait(void *address, int32_t parity);
void kiln_emulator_mbarrier_ask_again(void *address, int32_t parity);
void kiln_emulator_fence_proxy(void);
void kiln_emulator_load_tensor(void *to, const void *map, void *address, int32_t rank, int32_t c0,
                               int32_t c1, int32_t c2, int32_t c3, int32_t c4);
void kiln_emulator_multicast_tensor(void *to, const void *map, void *barrier, int32_t mask,
                                    int32_t rank, int32_t c0, int32_t c1, int32_t c2, int32_t c3,
                                    int32_t c4);
int32_t kiln_emulator_block(void);
int32_t kiln_emulator_rank(void);
void *kiln_emulator_map_shared(void *address, int32_t rank);
void kiln_emulator_cluster_arrive(void);
void kiln_emulator_cluster_wait(void);
void kiln_emulator_fence_mbarrier_init(void);
void kiln_emulator_set_registers(int32_t change);
void kiln_emulator_wgmma_fence(void);
void kiln_emulator_wgmma_commit(void);
void kiln_emulator_wgmma_wait(int32_t left);
void kiln_emulator_wgmma(int64_t left, int64_t right, float *sums, int32_t columns, int32_t adds,
                         int32_t operand, int32_t left_is_turned, int32_t right_is_turned,
                         int32_t site);
float kiln_emulator_sum(float value);
int32_t kiln_emulator_shuffle(int32_t value, int32_t distance, int32_t site);
void kiln_emulator_mma(const void *left, const void *right, float *sums, int32_t operand,
                       int32_t site);
void kiln_emulator_load_matrices(void *row, uint32_t *registers, int32_t num, int32_t is_transposed,
                                 int32_t site);
void kiln_emulator_copy(void *to, void *from, int32_t bytes, int32_t given);
void kiln_emulator_commit(void);
void kiln_emulator_wait(int32_t left);
void kiln_emulator_buffer(void *address, int64_t bytes);
void kiln_emulator_workspace(void *address, int64_t flags, int64_t each, int64_t all);
void kiln_emulator_raise_flag(void *address);
void kiln_emulator_wait_flag(void *address);
void kiln_emulator_publish(void *address, int32_t value);
int32_t kiln_emulator_look(void *address);
int32_t kiln_emulator_count_blocks(void *address, int32_t limit);
void kiln_emulator_sync_warp(int32_t site);

enum { LINE = 128, BOX = 64 * LINE, BARRIER = 2 * BOX, SHARED = BARRIER + 64, COLUMNS = 16 };

/* A mistake that the kernel makes. */
static enum {
  NONE,
  UNFENCED_BARRIER,
  EARLY_BARRIER,
  NO_BARRIER,
  TOO_MANY_ARRIVALS,
  SAME_PHASE,
  OTHER_PHASE,
  NEVER_ARRIVES,
  UNALIGNED_BOX,
  NO_MAP,
  BOX_TWICE,
  NOT_ARRIVED,
  NO_FENCE,
  WRONG_DESCRIPTOR,
  OTHER_DESCRIPTORS,
  STILL_READ,
  NO_WAIT,
  LEFT_ALONE,
  WRONG_REGISTERS,
  BARRIER_OUTSIDE,
  BARRIER_TWICE,
  WRONG_PARITY,
  WRONG_LINES,
  OPERAND_OUTSIDE,
  EARLY_SUMS,
  LATE_COMMIT,
  NO_COMMIT,
  OLD_SUMS,
  DIVERGENT_PRODUCT,
  UNFENCED_WRITE,
  UNAWAITED_COPY,
  WRITTEN_TOO_EARLY,
  PLAIN, /* from here on, without Hopper's instructions */
  NO_GRID_WAIT,
  BUFFER_END,
  BUFFER_BEGIN,
  BUFFER_UNALIGNED,
  SHARED_END,
  SHARED_UNALIGNED,
  SKIPPED_BARRIER,
  OTHER_BARRIER,
  SKIPPED_SHUFFLE,
  SKIPPED_MATRICES,
  SKIPPED_PRODUCT,
  SAME_BANKS,
  UNWRITTEN,
  NOT_COPIED,
  PAIRS, /* from here on, two blocks share copies */
  NOT_MET,
  UNPUBLISHED,
  OWN_ARRIVALS,
  HALF_EXPECTED,
  LATE_WAIT,
  TOLD_TWICE,
  EARLY_END,
  UNAWAITED_NEWS,
  NO_SUCH_BLOCK,
  NO_SUCH_RANK,
  MAPPED_TWICE,
  REMOTE_WAIT,
  REMOTE_READ,
  ARRIVES_TWICE,
  NO_ARRIVAL,
  LOST_THREAD,
  SHARING, /* from here on, a block leaves something for another */
  NOT_ZEROED,
  NOT_LEFT,
  LANES_APART,
  NO_FLAG,
  RAISED_TWICE,
  NOT_RAISED,
  NOT_AWAITED,
  LOWERED_OTHER,
  NOT_SEEN,
  NOT_LOWERED,
  LOOKING, /* from here on, blocks look back */
  LOOKS_AHEAD,
  READS_MORE,
  SAYS_LESS,
  COUNTS_WRONG,
  LOWERED_EARLY,
  LEFT_UP,
  NUM_MISTAKES
} mistake;

static _Alignas(64) CUtensorMap map, narrow_map, half_map;
static _Alignas(
    16) uint16_t matrix[70][72]; /* bf16: of 70 x 72, of which boxes of 64 x 64 are copied */
static float result[64][COLUMNS];

static uint64_t describe(const char *begin) {
  uint64_t address = (uintptr_t)begin & 0x3ffff;
  return (uint64_t)1 << 62 | (uint64_t)(8 * LINE / 16) << 32 | 1 << 16 | address >> 4;
}

/* The same once more, which is another way than the box came. */
static void rewrite(char *own) {
  char bytes[16];
  memcpy(bytes, kiln_emulator_access(own, 16, 0), 16);
  memcpy(kiln_emulator_access(own, 16, 1), bytes, 16);
}

/* Both operands from row 60 on: rows beyond 69 are zero. */
static void kernel(void **arguments) {
  int32_t thread = kiln_emulator_thread();
  char *shared = kiln_emulator_shared(), *barrier = shared + BARRIER;
  (void)arguments;
  if (thread == 0 && mistake != NO_BARRIER) {
    machine.buffers[0].begin = (uintptr_t)matrix;
    machine.buffers[0].bytes = sizeof matrix;
    machine.num_buffers = 1;
    kiln_emulator_mbarrier_init(barrier + (mistake == BARRIER_OUTSIDE ? 64 : 0), 1);
    if (mistake == BARRIER_TWICE)
      kiln_emulator_mbarrier_init(barrier, 1);
    if (mistake != UNFENCED_BARRIER)
      kiln_emulator_fence_proxy();
  }
  if (thread == 1 && mistake == EARLY_BARRIER)
    kiln_emulator_mbarrier_wait(barrier, 0);
  kiln_emulator_barrier(0);
  if (mistake == WRONG_REGISTERS)
    kiln_emulator_set_registers(20);
  if (thread == 0) {
    if (mistake != NEVER_ARRIVES)
      kiln_emulator_mbarrier_expect(barrier, BOX);
    if (mistake == TOO_MANY_ARRIVALS)
      kiln_emulator_mbarrier_arrive(barrier);
    kiln_emulator_load_tensor(shared + (mistake == UNALIGNED_BOX ? LINE : 0),
                              mistake == NO_MAP        ? (const void *)matrix
                              : mistake == WRONG_LINES ? &narrow_map
                                                       : &map,
                              barrier, 2, 8, 60, 0, 0, 0);
    if (mistake == BOX_TWICE)
      kiln_emulator_load_tensor(shared, &map, barrier, 2, 0, 0, 0, 0, 0);
  }
  if (mistake == LEFT_ALONE)
    return;
  if (mistake != NOT_ARRIVED)
    kiln_emulator_mbarrier_wait(barrier, mistake == WRONG_PARITY ? 2 : 0);
  if (mistake == SAME_PHASE)
    kiln_emulator_mbarrier_wait(barrier, 0);
  if (mistake != NOT_ARRIVED)
    kiln_emulator_mbarrier_ask_again(barrier, mistake == OTHER_PHASE);
  rewrite(shared + 16 * thread);
  if (mistake == UNAWAITED_COPY)
    kiln_emulator_copy(shared + 16 * thread, matrix, 16, 16);
  if (mistake != UNFENCED_WRITE)
    kiln_emulator_fence_proxy();
  kiln_emulator_barrier(1);
  if (mistake != NO_FENCE)
    kiln_emulator_wgmma_fence();
  float sums[COLUMNS / 2] = {0}, old = 0;
  for (int step = 0; step < 4; ++step) {
    uint64_t operand = describe(shared) + 2 * (uint64_t)step;
    if (mistake == WRONG_DESCRIPTOR)
      operand ^= (uint64_t)1 << 63;
    if (mistake == OTHER_DESCRIPTORS && thread == 7)
      operand += 2;
    if (mistake == OPERAND_OUTSIDE)
      operand += (SHARED - LINE) / 16;
    if (mistake == DIVERGENT_PRODUCT && thread == 7)
      return;
    if (step == 1)
      old = sums[0];
    kiln_emulator_wgmma((int64_t)operand, (int64_t)operand, sums, COLUMNS, step > 0, 0, 0, 0, step);
  }
  if (mistake == LATE_COMMIT)
    kiln_emulator_wgmma_wait(0);
  if (mistake != NO_COMMIT)
    kiln_emulator_wgmma_commit();
  if (thread == 0 && mistake == STILL_READ)
    kiln_emulator_load_tensor(shared, &map, barrier, 2, 0, 0, 0, 0, 0);
  if (mistake == WRITTEN_TOO_EARLY)
    rewrite(shared + 16 * thread);
  if (mistake == NO_WAIT)
    return;
  if (mistake == NO_COMMIT)
    return;
  if (mistake != EARLY_SUMS && mistake != LATE_COMMIT)
    kiln_emulator_wgmma_wait(0);
  if (mistake == OLD_SUMS)
    sums[0] = old;
  for (int i = 0; i < COLUMNS / 2; ++i)
    result[thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8][i / 4 * 8 + thread % 4 * 2 + i % 2] =
        kiln_emulator_sum(sums[i]);
}

static float at(int row, int column) {
  float value = 0;
  if (row < 70 && column < 72) {
    uint32_t bits = (uint32_t)matrix[row][column] << 16;
    memcpy(&value, &bits, sizeof value);
  }
  return value;
}

static int is_right(void) {
  for (int row = 0; row < 64; ++row)
    for (int column = 0; column < COLUMNS; ++column) {
      float want = 0;
      for (int k = 8; k < 72; ++k)
        want += at(60 + row, k) * at(60 + column, k);
      if (result[row][column] != want) {
        fprintf(stderr, "row %d, column %d: %g, not %g\n", row, column, (double)result[row][column],
                (double)want);
        return 0;
      }
    }
  return 1;
}

/*===-- Instructions of all GPUs --------------------------------------------===*/

enum { THREADS = 128 };

static _Alignas(16) uint32_t numbers[4 * THREADS]; /* 0, 1, 2, ... */
static uint32_t exchanged[THREADS];

static uint32_t load(const void *address) {
  uint32_t value;
  memcpy(&value, kiln_emulator_access((void *)(uintptr_t)address, 4, 0), 4);
  return value;
}

/* Each thread's numbers to shared memory, of which each warp loads matrices. */
static void plain_kernel(void **arguments) {
  int32_t thread = kiln_emulator_thread(), lane = thread % WARP;
  char *shared = kiln_emulator_shared(), *own = shared + 16 * thread;
  (void)arguments;
  machine.buffers[0].begin = (uintptr_t)numbers;
  machine.buffers[0].bytes = sizeof numbers;
  machine.num_buffers = 1;
  if (mistake != NO_GRID_WAIT)
    kiln_emulator_grid_wait();
  if (mistake == BUFFER_END)
    load(numbers + 4 * THREADS);
  if (mistake == BUFFER_BEGIN)
    load(numbers - 1);
  if (mistake == BUFFER_UNALIGNED)
    load((char *)numbers + 2);
  if (mistake == SHARED_END)
    load(shared + SHARED);
  if (mistake == SHARED_UNALIGNED)
    load(shared + 2);
  if (mistake != UNWRITTEN) {
    kiln_emulator_copy(own, numbers + 4 * thread, 16, 16);
    kiln_emulator_commit();
    kiln_emulator_wait(mistake == NOT_COPIED);
  }
  if (mistake == SKIPPED_BARRIER && thread == 3)
    return;
  kiln_emulator_barrier(mistake == OTHER_BARRIER && thread < 64 ? 1 : 0);
  if (mistake == SKIPPED_SHUFFLE && thread == 3)
    return;
  /* The next thread's second number, by way of this thread's neighbour. */
  uint32_t next = load(shared + 16 * (thread ^ 1) + 4);
  exchanged[thread] = (uint32_t)kiln_emulator_shuffle((int32_t)next, 1, 1);
  if (mistake == SKIPPED_MATRICES && thread == 3)
    return;
  uint32_t fragment[4] = {0};
  char *row =
      shared + 16 * (thread - lane) + (mistake == SAME_BANKS ? 128 * (lane % 8) : 16 * lane);
  kiln_emulator_load_matrices(row, fragment, 4, 0, 2);
  if (mistake == SKIPPED_PRODUCT && thread == 3)
    return;
  float sums[4] = {0};
  kiln_emulator_mma(fragment, fragment, sums, TF32, 3);
}

static int is_exchanged(void) {
  for (uint32_t i = 0; i < THREADS; ++i)
    if (exchanged[i] != 4 * i + 1)
      return 0;
  return 1;
}

/*===-- Blocks that share copies --------------------------------------------===*/

enum { BLOCKS = 4, STEPS = 2 };
static float results[BLOCKS][64][COLUMNS];

static void meet(void) {
  kiln_emulator_cluster_arrive();
  kiln_emulator_cluster_wait();
}

/* Of two blocks each copies half of the rows to both; in two steps, to the same place. */
static void pair_kernel(void **arguments) {
  int32_t thread = kiln_emulator_thread(), rank = kiln_emulator_rank(), other = 1 - rank;
  char *shared = kiln_emulator_shared(), *full = shared + BARRIER, *empty = full + 8;
  (void)arguments;
  machine.buffers[0].begin = (uintptr_t)matrix;
  machine.buffers[0].bytes = sizeof matrix;
  machine.num_buffers = 1;
  if (thread == 0) {
    kiln_emulator_mbarrier_init(full, 1);
    kiln_emulator_mbarrier_init(empty, mistake == OWN_ARRIVALS ? 1 : 2);
    kiln_emulator_fence_proxy();
    if (mistake != UNPUBLISHED)
      kiln_emulator_fence_mbarrier_init();
  }
  if (mistake == LOST_THREAD && thread == 3)
    kiln_emulator_barrier(9);
  if (mistake == ARRIVES_TWICE)
    kiln_emulator_cluster_arrive();
  if (mistake == NOT_MET)
    kiln_emulator_barrier(0);
  else
    meet();
  if (mistake == NO_ARRIVAL)
    kiln_emulator_cluster_wait();
  if (mistake == NO_SUCH_RANK)
    kiln_emulator_map_shared(empty, 2);
  if (mistake == MAPPED_TWICE)
    kiln_emulator_map_shared(kiln_emulator_map_shared(empty, other), other);
  if (mistake == REMOTE_WAIT)
    kiln_emulator_mbarrier_wait(kiln_emulator_map_shared(full, other), 0);
  if (mistake == REMOTE_READ)
    load(kiln_emulator_map_shared(shared, other));
  float sums[COLUMNS / 2] = {0};
  for (int step = 0; step < STEPS; ++step) {
    if (thread == 0) {
      kiln_emulator_mbarrier_wait(empty, (step + 1) % 2);
      kiln_emulator_mbarrier_expect(full, mistake == HALF_EXPECTED ? BOX / 2 : BOX);
      if (mistake == TOLD_TWICE)
        kiln_emulator_mbarrier_arrive(kiln_emulator_map_shared(full, other));
      kiln_emulator_multicast_tensor(shared + rank * BOX / 2, &half_map, full,
                                     mistake == NO_SUCH_BLOCK ? 7 : 3, 2, 8 * step, 32 * rank, 0, 0,
                                     0);
    }
    kiln_emulator_mbarrier_wait(full, step % 2);
    kiln_emulator_wgmma_fence();
    for (int k = 0; k < 4; ++k) {
      uint64_t operand = describe(shared) + 2 * (uint64_t)k;
      kiln_emulator_wgmma((int64_t)operand, (int64_t)operand, sums, COLUMNS, step + k > 0, 0, 0, 0,
                          k);
    }
    kiln_emulator_wgmma_commit();
    if (mistake != LATE_WAIT || rank == 1 || step > 0)
      kiln_emulator_wgmma_wait(0);
    kiln_emulator_barrier(2);
    if (mistake == OWN_ARRIVALS ? thread == rank : thread < 2)
      kiln_emulator_mbarrier_arrive(kiln_emulator_map_shared(empty, thread));
  }
  for (int i = 0; i < COLUMNS / 2; ++i)
    results[kiln_emulator_block()][thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8]
           [i / 4 * 8 + thread % 4 * 2 + i % 2] = kiln_emulator_sum(sums[i]);
  if (mistake == EARLY_END || (mistake == UNAWAITED_NEWS && rank == 1))
    return;
  meet();
}

static int are_pairs_right(void) {
  for (int block = 0; block < BLOCKS; ++block)
    for (int row = 0; row < 64; ++row)
      for (int column = 0; column < COLUMNS; ++column) {
        float want = 0;
        for (int step = 0; step < STEPS; ++step)
          for (int k = 8 * step; k < 8 * step + 64; ++k)
            want += at(row, k) * at(column, k);
        if (results[block][row][column] != want)
          return 0;
      }
  return 1;
}

/*===-- A block that leaves something for another ---------------------------===*/

enum { FLAGS = 64, LEFT = 16 * THREADS };

static CUdeviceptr workspace;

/* Each thread of block 0 leaves a number for block 1. */
static void sharing_kernel(void **arguments) {
  int32_t thread = kiln_emulator_thread();
  char *memory = (char *)(uintptr_t)workspace, *flag = memory + thread / WARP * 4;
  char *own = memory + FLAGS + 16 * thread;
  uint32_t value = (uint32_t)(4 * thread + 1), zero = 0;
  (void)arguments;
  kiln_emulator_workspace(memory, FLAGS, LEFT, 0);
  if (kiln_emulator_block() == 0) {
    if (mistake != NOT_LEFT)
      memcpy(kiln_emulator_access(own, 4, 1), &value, 4);
    if (mistake != LANES_APART)
      kiln_emulator_sync_warp(0);
    if (thread % WARP == 0 && mistake != NOT_RAISED)
      kiln_emulator_raise_flag(mistake == NO_FLAG ? own : flag);
    if (thread % WARP == 0 && mistake == RAISED_TWICE)
      kiln_emulator_raise_flag(flag);
    if (thread % WARP == 0 && mistake == LOWERED_OTHER)
      memcpy(kiln_emulator_access(flag, 4, 1), &zero, 4);
    return;
  }
  if (mistake != NOT_AWAITED)
    kiln_emulator_wait_flag(flag);
  exchanged[thread] = load(own);
  if (mistake != NOT_SEEN)
    kiln_emulator_sync_warp(1);
  if (thread % WARP == 0 && mistake != NOT_LOWERED)
    memcpy(kiln_emulator_access(flag, 4, 1), &zero, 4);
}

/*===-- Blocks that go on where others end ----------------------------------===*/

enum { LINES = 3 };

/* A block adds its own number, from 1 on, to those in front of it. */
static void looking_kernel(void **arguments) {
  int32_t block = kiln_emulator_block();
  char *memory = (char *)(uintptr_t)workspace, *flags = memory + 4;
  char *own = memory + FLAGS + 32 * block;
  uint32_t sum = (uint32_t)block + 1, zero = 0;
  (void)arguments;
  kiln_emulator_workspace(memory, FLAGS, 0, LEFT);
  if (kiln_emulator_thread() != 0)
    return;
  memcpy(kiln_emulator_access(own, 4, 1), &sum, 4);
  kiln_emulator_publish(flags + 4 * block, 1);
  for (int32_t i = block - 1, seen = 1; i >= 0 && seen == 1; --i) {
    seen = kiln_emulator_look(flags + 4 * (mistake == LOOKS_AHEAD ? block + 1 : i));
    int is_line = seen == 2 || mistake == READS_MORE;
    sum += load(memory + FLAGS + 32 * i + 16 * is_line);
  }
  memcpy(kiln_emulator_access(own + 16, 4, 1), &sum, 4);
  kiln_emulator_publish(flags + 4 * block, mistake == SAYS_LESS ? 1 : 2);
  int32_t limit = mistake == COUNTS_WRONG ? LINES : LINES - 1;
  int is_last = kiln_emulator_count_blocks(memory, limit) == limit;
  if (mistake == LOWERED_EARLY || (is_last && mistake != LEFT_UP))
    for (int i = 0; i < LINES; ++i)
      memcpy(kiln_emulator_access(flags + 4 * i, 4, 1), &zero, 4);
  exchanged[block] = sum;
}

/*===-- Tensor maps and launches --------------------------------------------===*/

/* A tensor map that the hardware takes, and one for each of its rules that it does not. */
static int count_wrong_maps(void) {
  int failures = 0;
  allocate_on(0);
  for (int i = 0; i < 9; ++i) {
    uint64_t sizes[] = {72, i == 1 ? 0 : 70}, strides[] = {i == 2 ? 150 : i == 8 ? 128 : 144};
    uint32_t box[] = {i == 3 ? 128 : 64, i == 4 ? 257 : 64}, steps[] = {1, i == 5 ? 2 : 1};
    char *address = (char *)numbers + (i == 6 ? 2 : 0);
    int swizzle = i == 7 ? 0 : CU_TENSOR_MAP_SWIZZLE_128B;
    CUresult result = cuTensorMapEncodeTiled(
        &narrow_map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, address, sizes, strides, box, steps,
        CU_TENSOR_MAP_INTERLEAVE_NONE, swizzle, CU_TENSOR_MAP_L2_PROMOTION_L2_256B,
        CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
    if (result != (i == 0 ? CUDA_SUCCESS : CUDA_ERROR_INVALID_VALUE)) {
      fprintf(stderr, "tensor map %d: %d\n", i, result);
      ++failures;
    }
  }
  return failures;
}

/* Launches of half a cluster. */
static int count_wrong_launches(void) {
  struct CUfunc_st pairs = {.name = "pairs", .cluster = 2, .shared_bytes = 64};
  CUDA_KERNEL_NODE_PARAMS node_parameters = {&pairs, 3, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL, NULL};
  CUlaunchConfig launch = {2, 1, 1, 32, 1, 1, 64, NULL, NULL, 0};
  CUgraph graph;
  CUgraphNode node;
  int clusters = 0;
  cuGraphCreate(&graph, 0);
  int failures =
      cuLaunchKernel(&pairs, 3, 1, 1, 32, 1, 1, 0, NULL, NULL, NULL) != CUDA_ERROR_INVALID_VALUE;
  failures +=
      cuGraphAddKernelNode_v2(&node, graph, NULL, 0, &node_parameters) != CUDA_ERROR_INVALID_VALUE;
  failures += cuOccupancyMaxActiveClusters(&clusters, &pairs, &launch) != CUDA_SUCCESS;
  launch.gridDimX = 1;
  failures += cuOccupancyMaxActiveClusters(&clusters, &pairs, &launch) != CUDA_ERROR_INVALID_VALUE;
  if (failures || clusters != 1)
    fprintf(stderr, "launches of half a cluster: %d, %d clusters\n", failures, clusters);
  return failures || clusters != 1;
}

/* What is said of each mistake; NULL: nothing, but what comes out is not right. */
static const char *const messages[] = {
    [UNFENCED_BARRIER] = "a barrier that has not been fenced",
    [EARLY_BARRIER] = "uses a barrier that",
    [NO_BARRIER] = "uses a barrier that has not been made",
    [TOO_MANY_ARRIVALS] = "more often than it was made for",
    [SAME_PHASE] = "waits for the same phase of a barrier twice",
    [OTHER_PHASE] = "asks again for a phase that it has not waited for",
    [NEVER_ARRIVES] = "waits for ever",
    [UNALIGNED_BOX] = "no multiple of 1024",
    [NO_MAP] = "no tensor map of rank 2",
    [BOX_TWICE] = "another copy has not arrived at",
    [NOT_ARRIVED] = "multiplies what has not arrived",
    [NO_FENCE] = "multiplies without wgmma.fence",
    [WRONG_DESCRIPTOR] = "a descriptor of another form",
    [OTHER_DESCRIPTORS] = "other operands than threads of its warpgroup",
    [STILL_READ] = "that products under way read",
    [NO_WAIT] = "ends while products are under way",
    [LEFT_ALONE] = "ends while 1 copies to its shared memory are under way",
    [WRONG_REGISTERS] = "sets its registers from",
    [BARRIER_OUTSIDE] = "outside of shared memory or unaligned",
    [BARRIER_TWICE] = "makes a barrier twice",
    [WRONG_PARITY] = "waits for a phase of parity 2",
    [WRONG_LINES] = "whose lines are not 128 bytes",
    [OPERAND_OUTSIDE] = "multiplies what is outside of shared memory",
    [EARLY_SUMS] = "reads sums of products that it has not waited for",
    [LATE_COMMIT] = "reads sums of products that it has not waited for",
    [NO_COMMIT] = "ends while products are under way",
    [OLD_SUMS] = "reads sums that a later product has changed",
    [DIVERGENT_PRODUCT] = "waits for ever: of 128 threads 0 are at a barrier, 127 at an",
    [UNFENCED_WRITE] = "has written and not fenced",
    [UNAWAITED_COPY] = "has not waited for",
    [WRITTEN_TOO_EARLY] = "writes to shared memory that products under way read",
    [NO_GRID_WAIT] = "reads buffer 0 while the kernels before it may still run",
    [BUFFER_END] = "reads 4 bytes at 2048 of 2048 bytes of buffer 0",
    [BUFFER_BEGIN] = "reads 4 bytes before all of its buffers",
    [BUFFER_UNALIGNED] = "reads 4 bytes of buffer 0 at an address that is not a multiple",
    [SHARED_END] = "bytes of shared memory",
    [SHARED_UNALIGNED] = "reads 4 bytes of shared memory at an address that is not a multiple",
    [SKIPPED_BARRIER] = "waits for ever: of 128 threads 127 are at a barrier",
    [OTHER_BARRIER] = "or they are not at the same one",
    [SKIPPED_SHUFFLE] = "31 at an instruction of their whole warp",
    [SKIPPED_MATRICES] = "an instruction of their whole warp",
    [SKIPPED_PRODUCT] = "an instruction of their whole warp",
    [SAME_BANKS] = "several rows are in the same banks",
    [UNWRITTEN] = NULL,
    [NOT_COPIED] = NULL,
    [NOT_MET] = "uses a barrier that",
    [UNPUBLISHED] = "which has not been fenced for other blocks",
    [OWN_ARRIVALS] = "another copy has not arrived at",
    [HALF_EXPECTED] = "multiplies what has not arrived",
    [LATE_WAIT] = "block 1, thread 0: copies to shared memory that products under way read",
    [TOLD_TWICE] = "more often than it was made for",
    [EARLY_END] = "uses a barrier of block 0, which has ended",
    [UNAWAITED_NEWS] = "ends although another block may still tell one of its barriers",
    [NO_SUCH_BLOCK] = "copies to blocks 0x7 of a cluster of 2",
    [NO_SUCH_RANK] = "maps an address to block 2 of a cluster of 2",
    [MAPPED_TWICE] = "maps an address that is not its shared memory's",
    [REMOTE_WAIT] = "waits for a barrier of another block",
    [REMOTE_READ] = "reads shared memory of block 1 as its own",
    [ARRIVES_TWICE] = "arrives at its cluster's barrier twice",
    [NO_ARRIVAL] = "waits for its cluster without having arrived",
    [LOST_THREAD] = "of 256 threads 2 are at a barrier, 0 at an instruction of their whole warp or "
                    "warpgroup, 0 wait for a phase of a barrier, 254 for their cluster",
    [NOT_ZEROED] = "raises a flag that is not down",
    [NOT_LEFT] = "reads what no block has left",
    [LANES_APART] = "reads what block 0 has written without waiting for it to be released",
    [NO_FLAG] = "raises a flag that is none",
    [RAISED_TWICE] = "raises a flag that is not down",
    [NOT_RAISED] = "waits for a flag that no earlier block has raised",
    [NOT_AWAITED] = "reads what block 0 has written without waiting for it to be released",
    [LOWERED_OTHER] = "lowers a flag that it has not waited for",
    [NOT_SEEN] = "lowers a flag that other lanes may not have seen",
    [NOT_LOWERED] = "leaves flag 0 up for the next kernel",
    [LOOKS_AHEAD] = "looks at a flag that no earlier block has raised",
    [READS_MORE] = "has written without waiting for it to be released",
    [SAYS_LESS] = "publishes state 1 by a flag that is 1",
    [COUNTS_WRONG] = "counts block 0 of 4 when 1 have come of 3",
    [LOWERED_EARLY] = "lowers a flag that it has not waited for",
    [LEFT_UP] = "leaves flag 1 up for the next kernel",
};

static int run_sharing(char *message, size_t size) {
  memset(exchanged, 0, sizeof exchanged);
  cuMemsetD32Async(workspace, mistake == NOT_ZEROED ? ~0u : 0, FLAGS / 4, NULL);
  cuCtxSynchronize();
  if (mistake >= LOOKING)
    return emulator_launch("by_hand", looking_kernel, current(), NULL, LINES, 1, WARP, 0, message,
                           size);
  return emulator_launch("by_hand", sharing_kernel, current(), NULL, 2, 1, THREADS, SHARED, message,
                         size);
}

/* Lanes that all meet in a bank, 16 bytes each side by side, one word that all want, and what only
 * some access together. */
static void banks_kernel(void **arguments) {
  (void)arguments;
  char *shared = kiln_emulator_shared();
  int32_t lane = kiln_emulator_thread();
  kiln_emulator_grid_wait();
  kiln_emulator_access(shared + 128 * lane, 4, 1);
  kiln_emulator_access(shared + 16 * lane, 16, 1);
  kiln_emulator_access(shared + 64, 4, 0);
  kiln_emulator_access(shared + 4 * lane, lane < 8 ? 4 : 2, 0);
}

/* Whether the log says how long these take. */
static int are_banks_counted(void) {
  char path[] = "/tmp/kiln-emulator-XXXXXX", text[256] = "", message[512] = "";
  int file = mkstemp(path);
  setenv("KILN_EMULATOR_LOG", path, 1);
  int failed = emulator_launch("banks", banks_kernel, NULL, NULL, 2, 1, WARP, 128 * WARP, message,
                               sizeof message);
  unsetenv("KILN_EMULATOR_LOG");
  ssize_t count = read(file, text, sizeof text - 1);
  close(file);
  unlink(path);
  return !failed && count > 0 && !strcmp(text, "banks banks answer 37 at least 6\n");
}

int main(void) {
  int failures = 0;
  for (int i = 0; i < 70 * 72; ++i)
    matrix[i / 72][i % 72] = (uint16_t)(i * 37 % 5 ? 0x3f80 : 0xc000); /* 1 and -2 */
  struct tensor tensor = {.magic = TENSOR_MAGIC,
                          .item = 2,
                          .rank = 2,
                          .sizes = {71, 69},
                          .address = (uintptr_t)matrix,
                          .strides = {sizeof matrix[0]},
                          .box = {64, 64}};
  memcpy(&map, &tensor, sizeof tensor);
  for (uint32_t i = 0; i < 4 * THREADS; ++i)
    numbers[i] = i;
  setenv("KILN_EMULATOR_DEVICES", "2", 1);
  failures += count_wrong_maps();
  cuMemAlloc_v2(&workspace, FLAGS + 2 * LEFT);
  tensor.box[0] = 32;
  memcpy(&narrow_map, &tensor, sizeof tensor);
  tensor.box[0] = 64;
  tensor.box[1] = 32;
  memcpy(&half_map, &tensor, sizeof tensor);
  failures += count_wrong_launches();
  for (int i = 0; i < NUM_MISTAKES; ++i) {
    char message[512] = "";
    mistake = i;
    int shares = i >= SHARING, is_paired = i >= PAIRS && !shares;
    int is_plain = i >= PLAIN && !is_paired;
    emulator_overlaps = is_plain && !shares;
    int failed = shares ? run_sharing(message, sizeof message)
                        : emulator_launch("by_hand",
                                          is_paired  ? pair_kernel
                                          : is_plain ? plain_kernel
                                                     : kernel,
                                          NULL, NULL, is_paired ? BLOCKS : 1, is_paired ? 2 : 1,
                                          THREADS, SHARED, message, sizeof message);
    int right = !failed && (is_paired      ? are_pairs_right()
                            : i >= LOOKING ? exchanged[1] == 3 && exchanged[2] == 6
                            : is_plain     ? is_exchanged()
                                           : is_right());
    int is_found = messages[i] ? failed && strstr(message, messages[i]) != NULL : !failed && !right;
    if (i == NONE || i == PLAIN || i == PAIRS || i == SHARING || i == LOOKING ? !right
                                                                              : !is_found) {
      fprintf(stderr, "mistake %d: %s\n", i, message);
      ++failures;
    }
  }
  if (!are_banks_counted()) {
    fprintf(stderr, "banks are not counted\n");
    ++failures;
  }
  char message[512];
  if (!emulator_launch("by_hand", pair_kernel, NULL, NULL, 3, 2, THREADS, SHARED, message,
                       sizeof message)) {
    fprintf(stderr, "half a cluster runs\n");
    ++failures;
  }
  return failures != 0;
}
