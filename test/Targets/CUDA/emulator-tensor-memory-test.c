/*===- emulator-tensor-memory-test.c - What the emulator finds of Blackwell's ===*
 *
 * A kernel by hand, as EmulateTensorMemory.cpp would write it, with products into tensor memory,
 * and for each rule one that breaks it.
 *
 *===-----------------------------------------------------------------------===*/
#include "emulator-calls.h"
#include "emulator/tensor.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

int32_t kiln_emulator_thread(void);
void *kiln_emulator_shared(void);
void kiln_emulator_barrier(int32_t site);
void kiln_emulator_mbarrier_init(void *address, int32_t count);
void kiln_emulator_mbarrier_arrive(void *address);
void kiln_emulator_mbarrier_expect(void *address, int32_t bytes);
void kiln_emulator_mbarrier_wait(void *address, int32_t parity);
void kiln_emulator_fence_proxy(void);
void kiln_emulator_load_tensor(void *to, const void *map, void *address, int32_t rank, int32_t c0,
                               int32_t c1, int32_t c2, int32_t c3, int32_t c4);
void kiln_emulator_tensor_allocate(void *address, int32_t columns);
void kiln_emulator_tensor_deallocate(int32_t address, int32_t columns);
void kiln_emulator_tensor_relinquish(void);
void kiln_emulator_tensor_fence(int32_t is_after);
void kiln_emulator_tensor_product(int32_t sums, int64_t left, int64_t right, int32_t description,
                                  int32_t adds, int32_t first);
void kiln_emulator_tensor_commit(void *barrier);
void kiln_emulator_tensor_load(int32_t address, int32_t columns, float *values);

enum {
  LINE = 128, /* bytes of a row */
  ROWS = 128,
  STEPS = 64,
  COLUMNS = 16,
  BOX = ROWS * LINE,
  FULL = BOX,
  READY_SUMS = FULL + 8,
  TAKEN = READY_SUMS + 8,
  PLACE = TAKEN + 8,
  SHARED = PLACE + 8
};

/* A mistake that the kernel makes. */
static enum {
  NONE,
  ODD_COLUMNS,
  ALLOCATES_TWICE,
  ALLOCATES_LATE,
  LOST_LANE,
  NOT_GIVEN_BACK,
  GIVES_BACK_LESS,
  GIVES_BACK_EARLY,
  UNFENCED_PRODUCT,
  UNFENCED_LOAD,
  UNFENCED_ARRIVAL,
  OTHER_ROWS,
  OTHER_COLUMNS,
  EARLY_LOAD,
  NO_COMMIT,
  STILL_READ,
  NOT_ARRIVED,
  WRONG_DESCRIPTION,
  WRONG_COLUMNS,
  HOPPERS_DESCRIPTOR,
  ROWS_OF_SUMS,
  NUM_MISTAKES
} mistake;

static const char *const messages[] = {
    [ODD_COLUMNS] = "allocates 48 columns of tensor memory",
    [ALLOCATES_TWICE] = "allocates tensor memory twice",
    [ALLOCATES_LATE] = "allocates tensor memory that it has relinquished",
    [LOST_LANE] = "warp 0 for tensor memory that not all of its threads execute",
    [NOT_GIVEN_BACK] = "ends without having given back 32 columns of tensor memory",
    [GIVES_BACK_LESS] = "gives back 16 columns of tensor memory from 0x1e0 on, which it does not",
    [GIVES_BACK_EARLY] = "gives back tensor memory while products into it are under way",
    [UNFENCED_PRODUCT] = "multiplies into tensor memory without tcgen05.fence",
    [UNFENCED_LOAD] = "loads from tensor memory without tcgen05.fence",
    [UNFENCED_ARRIVAL] = "arrives at a barrier without tcgen05.fence",
    [OTHER_ROWS] = "loads rows of tensor memory from 0 on in warp 1 of a warpgroup",
    [OTHER_COLUMNS] = "uses columns of tensor memory that it does not have, from 0x1f8 on",
    [EARLY_LOAD] = "loads sums of products that are under way",
    [NO_COMMIT] = "waits for ever",
    [STILL_READ] = "copies to shared memory that products under way read",
    [NOT_ARRIVED] = "multiplies what has not arrived",
    [WRONG_DESCRIPTION] = "multiplies as the emulator does not know",
    [WRONG_COLUMNS] = "multiplies by 8 columns",
    [HOPPERS_DESCRIPTOR] = "a descriptor of another form",
    [ROWS_OF_SUMS] = "multiplies into rows from 16 on",
};

static _Alignas(64) CUtensorMap map;
static _Alignas(16) uint16_t matrix[ROWS][STEPS]; /* bf16 */
static float result[ROWS][COLUMNS];

static int64_t describe(const char *begin) {
  uint64_t address = (uintptr_t)begin & 0x3ffff, version = mistake != HOPPERS_DESCRIPTOR;
  return (int64_t)((uint64_t)1 << 62 | version << 46 | (uint64_t)(8 * LINE / 16) << 32 | 1 << 16 |
                   address >> 4);
}

static void multiply(char *shared, int32_t sums) {
  int32_t columns = mistake == WRONG_COLUMNS ? 8 : COLUMNS;
  int32_t description = 1 << 4 | 1 << 7 | 1 << 10 | columns / 8 << 17 | ROWS / 16 << 24;
  kiln_emulator_mbarrier_expect(shared + FULL, BOX);
  kiln_emulator_load_tensor(shared, &map, shared + FULL, 2, 0, 0, 0, 0, 0);
  if (mistake != NOT_ARRIVED)
    kiln_emulator_mbarrier_wait(shared + FULL, 0);
  if (mistake != UNFENCED_PRODUCT)
    kiln_emulator_tensor_fence(1);
  if (mistake == WRONG_DESCRIPTION)
    description ^= 1 << 13;
  for (int step = 0; step < 4; ++step)
    kiln_emulator_tensor_product(mistake == ROWS_OF_SUMS ? sums | 16 << 16 : sums,
                                 describe(shared) + 2 * step, describe(shared) + 2 * step,
                                 description, step > 0, /*first=*/1);
  if (mistake != NO_COMMIT)
    kiln_emulator_tensor_commit(shared + READY_SUMS);
  if (mistake == STILL_READ)
    kiln_emulator_load_tensor(shared, &map, shared + FULL, 2, 0, 0, 0, 0, 0);
}

/* The rows times the first of them. */
static void kernel(void **arguments) {
  int32_t thread = kiln_emulator_thread(), warp = thread / WARP, lane = thread % WARP;
  char *shared = kiln_emulator_shared();
  uint32_t sums;
  (void)arguments;
  machine.buffers[0].begin = (uintptr_t)matrix;
  machine.buffers[0].bytes = sizeof matrix;
  machine.num_buffers = 1;
  if (warp == 0 && !(mistake == LOST_LANE && lane == 3)) {
    if (mistake == ALLOCATES_LATE)
      kiln_emulator_tensor_relinquish();
    kiln_emulator_tensor_allocate(shared + PLACE, mistake == ODD_COLUMNS ? 48 : 32);
    kiln_emulator_tensor_relinquish();
  }
  if (warp == 1 && mistake == ALLOCATES_TWICE)
    kiln_emulator_tensor_allocate(shared + PLACE, 32);
  if (thread == 0) {
    kiln_emulator_mbarrier_init(shared + FULL, 1);
    kiln_emulator_mbarrier_init(shared + READY_SUMS, 1);
    kiln_emulator_mbarrier_init(shared + TAKEN, ROWS);
    kiln_emulator_fence_proxy();
  }
  kiln_emulator_barrier(0);
  memcpy(&sums, kiln_emulator_access(shared + PLACE, 4, 0), 4);
  if (thread == 0)
    multiply(shared, (int32_t)sums);
  if (mistake == GIVES_BACK_EARLY) {
    kiln_emulator_barrier(1);
    if (warp == 0)
      kiln_emulator_tensor_deallocate((int32_t)sums, 32);
  }
  if (mistake != EARLY_LOAD)
    kiln_emulator_mbarrier_wait(shared + READY_SUMS, 0);
  if (mistake == EARLY_LOAD)
    kiln_emulator_barrier(2);
  if (mistake != UNFENCED_LOAD)
    kiln_emulator_tensor_fence(1);
  for (int half = 0; half < 2; ++half) {
    float values[COLUMNS / 2];
    int32_t first = mistake == OTHER_ROWS ? 0 : 32 * warp + 16 * half;
    kiln_emulator_tensor_load((int32_t)sums + (first << 16) + (mistake == OTHER_COLUMNS ? 24 : 0),
                              COLUMNS, values);
    for (int i = 0; i < COLUMNS / 2; ++i)
      result[first + lane / 4 + i / 2 % 2 * 8][i / 4 * 8 + lane % 4 * 2 + i % 2] = values[i];
  }
  if (mistake != UNFENCED_ARRIVAL)
    kiln_emulator_tensor_fence(0);
  kiln_emulator_mbarrier_arrive(shared + TAKEN);
  kiln_emulator_barrier(3);
  if (warp == 0 && mistake != NOT_GIVEN_BACK)
    kiln_emulator_tensor_deallocate((int32_t)sums, mistake == GIVES_BACK_LESS ? 16 : 32);
}

static float at(int row, int column) {
  uint32_t bits = (uint32_t)matrix[row][column] << 16;
  float value;
  memcpy(&value, &bits, sizeof value);
  return value;
}

static int is_right(void) {
  for (int row = 0; row < ROWS; ++row)
    for (int column = 0; column < COLUMNS; ++column) {
      float want = 0;
      for (int k = 0; k < STEPS; ++k)
        want += at(row, k) * at(column, k);
      if (result[row][column] != want) {
        fprintf(stderr, "row %d, column %d: %g, not %g\n", row, column, (double)result[row][column],
                (double)want);
        return 0;
      }
    }
  return 1;
}

int main(void) {
  int failures = 0;
  for (int i = 0; i < ROWS * STEPS; ++i)
    matrix[i / STEPS][i % STEPS] = (uint16_t)(i * 37 % 5 ? 0x3f80 : 0xc000); /* 1 and -2 */
  struct tensor tensor = {.magic = TENSOR_MAGIC,
                          .item = 2,
                          .rank = 2,
                          .sizes = {STEPS - 1, ROWS - 1},
                          .address = (uintptr_t)matrix,
                          .strides = {2 * STEPS},
                          .box = {STEPS, ROWS}};
  memcpy(&map, &tensor, sizeof tensor);
  for (mistake = NONE; mistake < NUM_MISTAKES; ++mistake) {
    char message[512] = "";
    memset(result, 0, sizeof result);
    int failed =
        emulator_launch("by_hand", kernel, NULL, NULL, 2, 1, ROWS, SHARED, message, sizeof message);
    int is_found = mistake == NONE ? !failed && is_right()
                                   : failed && strstr(message, messages[mistake]) != NULL;
    if (!is_found)
      fprintf(stderr, "mistake %d: %s\n", mistake, message);
    failures += !is_found;
  }
  return failures != 0;
}
