/*===- emulator-test.c - What the emulator finds ----------------------------===*
 *
 * Kernels by hand, as Emulate.cpp would write them: a right one, and for each rule of
 * Hopper's instructions one that breaks it.
 *
 *===-----------------------------------------------------------------------===*/
#include "emulator/machine.h"
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
void kiln_emulator_set_registers(int32_t change);
void kiln_emulator_wgmma_fence(void);
void kiln_emulator_wgmma_commit(void);
void kiln_emulator_wgmma_wait(int32_t left);
void kiln_emulator_wgmma(int64_t left, int64_t right, float *sums, int32_t columns, int32_t adds,
                         int32_t is_half, int32_t left_is_turned, int32_t right_is_turned,
                         int32_t site);

enum { LINE = 128, BOX = 64 * LINE, BARRIER = 2 * BOX, SHARED = BARRIER + 64, COLUMNS = 16 };

/* A mistake that the kernel makes. */
static enum {
  NONE,
  UNFENCED_BARRIER,
  EARLY_BARRIER,
  NO_BARRIER,
  TOO_MANY_ARRIVALS,
  SAME_PHASE,
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
} mistake;

static _Alignas(64) CUtensorMap map;
static uint16_t matrix[70][72]; /* bf16: of 70 x 72, of which boxes of 64 x 64 are copied */
static float result[64][COLUMNS];

static uint64_t describe(const char *begin) {
  uint64_t address = (uintptr_t)begin & 0x3ffff;
  return (uint64_t)1 << 62 | (uint64_t)(8 * LINE / 16) << 32 | 1 << 16 | address >> 4;
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
                              mistake == NO_MAP ? (const void *)matrix : &map, barrier, 2, 8, 60, 0,
                              0, 0);
    if (mistake == BOX_TWICE)
      kiln_emulator_load_tensor(shared, &map, barrier, 2, 0, 0, 0, 0, 0);
  }
  if (mistake == LEFT_ALONE)
    return;
  if (mistake != NOT_ARRIVED)
    kiln_emulator_mbarrier_wait(barrier, 0);
  if (mistake == SAME_PHASE)
    kiln_emulator_mbarrier_wait(barrier, 0);
  if (mistake != NO_FENCE)
    kiln_emulator_wgmma_fence();
  float sums[COLUMNS / 2] = {0};
  for (int step = 0; step < 4; ++step) {
    uint64_t operand = describe(shared) + 2 * (uint64_t)step;
    if (mistake == WRONG_DESCRIPTOR)
      operand ^= (uint64_t)1 << 63;
    if (mistake == OTHER_DESCRIPTORS && thread == 7)
      operand += 2;
    kiln_emulator_wgmma((int64_t)operand, (int64_t)operand, sums, COLUMNS, step > 0, 0, 0, 0, step);
  }
  kiln_emulator_wgmma_commit();
  if (thread == 0 && mistake == STILL_READ)
    kiln_emulator_load_tensor(shared, &map, barrier, 2, 0, 0, 0, 0, 0);
  if (mistake == NO_WAIT)
    return;
  kiln_emulator_wgmma_wait(0);
  for (int i = 0; i < COLUMNS / 2; ++i)
    result[thread / 32 * 16 + thread % 32 / 4 + i / 2 % 2 * 8][i / 4 * 8 + thread % 4 * 2 + i % 2] =
        sums[i];
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

static const char *const messages[] = {
    [UNFENCED_BARRIER] = "a barrier that has not been fenced",
    [EARLY_BARRIER] = "uses a barrier that",
    [NO_BARRIER] = "uses a barrier that has not been made",
    [TOO_MANY_ARRIVALS] = "more often than it was made for",
    [SAME_PHASE] = "waits for the same phase of a barrier twice",
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
};

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
  for (int i = 0; i < (int)(sizeof messages / sizeof messages[0]); ++i) {
    char message[512] = "";
    mistake = i;
    int failed =
        emulator_launch("by_hand", kernel, NULL, NULL, 1, 128, SHARED, message, sizeof message);
    if (i == NONE ? failed || !is_right() : !failed || !strstr(message, messages[i])) {
      fprintf(stderr, "mistake %d: %s\n", i, message);
      ++failures;
    }
  }
  return failures != 0;
}
