/*===- tensor-memory.c - Blackwell's tensor memory, and products into it ----===*
 *
 * Products are made as late as they can: when nobody can go on and somebody waits for a
 * barrier that is told when they have ended. Until then their operands are theirs, and
 * nobody may read their sums. Those of one thread are made in order, with what it commits;
 * those of another one may come before or behind them.
 *
 *===-----------------------------------------------------------------------===*/
#include "machine.h"

#include <string.h>

#define MIN_COLUMNS 32
#define MOST_STEPS 32 /* of a product */

static struct tensor_memory *memory(void) { return &machine.block->tensor_memory; }

static struct thread *self(void) { return &machine.block->threads[machine.current]; }

void begin_tensor_memory(void) {
  struct tensor_memory *tensor = memory();
  tensor->columns = tensor->num_orders = 0;
  tensor->is_relinquished = 0;
  memset(tensor->calls, 0, sizeof tensor->calls);
  for (unsigned i = 0; i < machine.num_threads; ++i)
    machine.block->threads[i].is_tensor_fenced = machine.block->threads[i].has_loaded = 0;
}

void end_tensor_memory(void) {
  if (memory()->num_orders)
    fail("ends while products into tensor memory are under way");
  if (memory()->columns)
    fail("ends without having given back %u columns of tensor memory", memory()->columns);
  for (unsigned i = 0; i < machine.num_threads / WARP; ++i)
    if (memory()->calls[i] % WARP)
      fail("has instructions of warp %u for tensor memory that not all of its threads execute", i);
}

/* Whether this is the first thread of a warp that executes an instruction of the whole warp. */
static int is_first_of_warp(void) { return memory()->calls[machine.current / WARP]++ % WARP == 0; }

EXPORT void kiln_emulator_tensor_allocate(void *address, int32_t columns) {
  if (!is_first_of_warp())
    return;
  if (columns < MIN_COLUMNS || columns > TENSOR_COLUMNS || columns & (columns - 1))
    fail("allocates %d columns of tensor memory", columns);
  if (memory()->columns || memory()->is_relinquished)
    fail("allocates tensor memory %s", memory()->columns ? "twice" : "that it has relinquished");
  if (machine.failed)
    stop();
  memory()->columns = (unsigned)columns;
  memset(memory()->sums, EMULATOR_POISON, sizeof memory()->sums);
  /* Columns that another kernel has may be in front of these. */
  memory()->first = TENSOR_COLUMNS - (unsigned)columns;
  memcpy(kiln_emulator_access(address, 4, 1), &memory()->first, 4);
}

EXPORT void kiln_emulator_tensor_deallocate(int32_t address, int32_t columns) {
  if (!is_first_of_warp())
    return;
  if (!columns || (unsigned)address != memory()->first || (unsigned)columns != memory()->columns)
    fail("gives back %d columns of tensor memory from %#x on, which it does not have", columns,
         (unsigned)address);
  if (memory()->num_orders)
    fail("gives back tensor memory while products into it are under way");
  if (machine.failed)
    stop();
  memory()->columns = 0;
}

EXPORT void kiln_emulator_tensor_relinquish(void) { memory()->is_relinquished = 1; }

EXPORT void kiln_emulator_tensor_fence(int32_t is_after) {
  if (is_after)
    self()->is_tensor_fenced = 1;
  else
    self()->has_loaded = 0;
}

/* The column of an address, of which so many are allocated. */
static unsigned find_column(uint32_t address, unsigned columns) {
  unsigned column = address & 0xffff;
  if (column < memory()->first || column + columns > memory()->first + memory()->columns) {
    fail("uses columns of tensor memory that it does not have, from %#x on", address);
    stop();
  }
  return column;
}

/*===-- Products ------------------------------------------------------------===*/

static int overlap(uintptr_t a, size_t a_bytes, uintptr_t b, size_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

int is_read_by_tensor_products(const struct block *block, uintptr_t begin, size_t bytes) {
  for (unsigned i = 0; i < block->tensor_memory.num_orders; ++i) {
    const struct tensor_order *order = &block->tensor_memory.orders[i];
    if (!order->is_commit && (overlap(begin, bytes, order->left.begin, order->left.bytes) ||
                              overlap(begin, bytes, order->right.begin, order->right.bytes)))
      return 1;
  }
  return 0;
}

static void add(struct tensor_order order) {
  if (memory()->num_orders == MAX_TENSOR_ORDERS) {
    fail("has more than %d products into tensor memory under way", MAX_TENSOR_ORDERS);
    stop();
  }
  order.thread = machine.current;
  memory()->orders[memory()->num_orders++] = order;
}

/* tcgen05.mma of kind::f16, f8f6f4 or i8: which `first` says, what elements of type 0 are. */
EXPORT void kiln_emulator_tensor_product(int32_t sums, int64_t left, int64_t right,
                                         int32_t description, int32_t adds, int32_t first) {
  unsigned type = (unsigned)description >> 7 & 7;
  struct tensor_order order = {.left_descriptor = (uint64_t)left,
                               .right_descriptor = (uint64_t)right,
                               .adds = adds,
                               .left_is_turned = description >> 15 & 1,
                               .right_is_turned = description >> 16 & 1,
                               .operand = first == S8     ? S8
                                          : first == E4M3 ? (type ? E5M2 : E4M3)
                                                          : (type ? BF16 : F16),
                               .columns = (unsigned)(description >> 17 & 63) * 8};
  /* Elements of one byte are not turned. */
  uint32_t turned = count_steps(order.operand) == 32 ? 0 : (uint32_t)description & 3u << 15;
  uint32_t expected = (order.operand == S8 ? 2u : 1u) << 4 | type << 7 | type << 10 | turned |
                      order.columns / 8 << 17 | TENSOR_ROWS / 16 << 24;
  if ((uint32_t)description != expected || type > 1 || (order.operand == S8 && !type))
    fail("multiplies as the emulator does not know: %#x", (unsigned)description);
  if (order.columns < 16 || order.columns > 256 || order.columns % 16)
    fail("multiplies by %u columns", order.columns);
  if (!self()->is_tensor_fenced)
    fail("multiplies into tensor memory without tcgen05.fence::after_thread_sync");
  if (!machine.failed)
    order.left = find_operand(order.left_descriptor, order.left_is_turned, TENSOR_ROWS, 1);
  if (!machine.failed)
    order.right = find_operand(order.right_descriptor, order.right_is_turned, order.columns, 1);
  if ((uint32_t)sums >> 16)
    fail("multiplies into rows from %u on", (uint32_t)sums >> 16);
  if (machine.failed)
    stop();
  order.column = find_column((uint32_t)sums, order.columns);
  add(order);
}

EXPORT void kiln_emulator_tensor_commit(void *barrier) {
  add((struct tensor_order){.is_commit = 1,
                            .mbarrier = find_mbarrier(machine.block, (uintptr_t)barrier)});
}

/* Sums of products of bytes are i32 that wrap around. */
static void add_integers(float *sums, const float *row, const float (*steps)[256],
                         unsigned num_steps, unsigned columns) {
  uint32_t bits[256];
  memcpy(bits, sums, columns * sizeof *bits);
  for (unsigned k = 0; k < num_steps; ++k)
    for (unsigned column = 0; column < columns; ++column)
      bits[column] += (uint32_t)(int32_t)(row[k] * steps[k][column]);
  memcpy(sums, bits, columns * sizeof *bits);
}

static void multiply(const struct tensor_order *order) {
  static float left[TENSOR_ROWS * MOST_STEPS], right[256 * MOST_STEPS];
  unsigned num_steps = count_steps(order->operand);
  load_operand(order->left_descriptor, order->left_is_turned, TENSOR_ROWS, order->operand, left);
  load_operand(order->right_descriptor, order->right_is_turned, order->columns, order->operand,
               right);
  static float steps[MOST_STEPS][256]; /* of `right` */
  for (unsigned column = 0; column < order->columns; ++column)
    for (unsigned k = 0; k < num_steps; ++k)
      steps[k][column] = right[column * num_steps + k];
  for (unsigned row = 0; row < TENSOR_ROWS; ++row) {
    float *sums = &memory()->sums[row][order->column];
    if (!order->adds)
      memset(sums, 0, order->columns * sizeof *sums);
    const float *row_steps = left + row * num_steps;
    if (order->operand == S8) {
      add_integers(sums, row_steps, steps, num_steps, order->columns);
      continue;
    }
    for (unsigned k = 0; k < num_steps; ++k)
      for (unsigned column = 0; column < order->columns; ++column)
        sums[column] += row_steps[k] * steps[k][column];
  }
}

static int is_waited_for(unsigned mbarrier) {
  for (unsigned i = 0; i < machine.num_threads; ++i) {
    const struct thread *thread = &machine.block->threads[i];
    if (thread->state == AT_MBARRIER && thread->mbarrier == mbarrier)
      return 1;
  }
  return 0;
}

int finish_tensor_products(void) {
  struct tensor_memory *tensor = memory();
  unsigned last = 0, count = tensor->num_orders, kept = 0;
  while (last < count &&
         !(tensor->orders[last].is_commit && is_waited_for(tensor->orders[last].mbarrier)))
    ++last;
  if (last == count)
    return 0;
  machine.current = tensor->orders[last].thread; /* for messages */
  for (unsigned i = 0; i < count; ++i) {
    struct tensor_order *order = &tensor->orders[i];
    if (i > last || order->thread != machine.current)
      tensor->orders[kept++] = *order;
    else if (order->is_commit)
      tell_mbarrier(order->mbarrier);
    else
      multiply(order);
  }
  tensor->num_orders = kept;
  return 1;
}

/*===-- Sums ----------------------------------------------------------------===*/

/* tcgen05.ld of 16x256b, with tcgen05.wait::ld: as many columns of 16 rows, in the places of a
 * product's sums in registers. */
EXPORT void kiln_emulator_tensor_load(int32_t address, int32_t columns, float *values) {
  is_first_of_warp();
  unsigned row = (uint32_t)address >> 16, count = (unsigned)columns;
  unsigned lane = machine.current % WARP, warp = machine.current / WARP % (WARPGROUP / WARP);
  if (row % 16 || row / WARP != warp)
    fail("loads rows of tensor memory from %u on in warp %u of a warpgroup", row, warp);
  if (count < 8 || count > 256 || count & (count - 1))
    fail("loads %u columns of tensor memory", count);
  if (!self()->is_tensor_fenced)
    fail("loads from tensor memory without tcgen05.fence::after_thread_sync");
  unsigned first = find_column((uint32_t)address, count);
  for (unsigned i = 0; i < memory()->num_orders; ++i) {
    const struct tensor_order *order = &memory()->orders[i];
    if (!order->is_commit && order->column < first + count &&
        first < order->column + order->columns)
      fail("loads sums of products that are under way");
  }
  if (machine.failed)
    stop();
  self()->has_loaded = 1;
  for (unsigned i = 0; i < count / 2; ++i)
    values[i] =
        memory()->sums[row + lane / 4 + i / 2 % 2 * 8][first + i / 4 * 8 + lane % 4 * 2 + i % 2];
}
