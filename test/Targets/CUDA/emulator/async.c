/*===- async.c - Hopper's barriers, copies of boxes, products of warpgroups -===*
 *
 * Copies arrive as late as they can: when nobody can go on and somebody waits for one.
 * Until then their place has garbage. Products are computed when all threads of their
 * warpgroup are there, but what they read is theirs until they have been waited for, and so
 * are the registers of the sums: a thread has marks in them instead, which it may exchange
 * for the sums when it has waited.
 *
 * What other blocks of its cluster may do to a block's memory is said in cluster.c.
 *
 *===-----------------------------------------------------------------------===*/
#include "machine.h"
#include "tensor.h"

#include <string.h>

#define LINE 128 /* bytes of a box's line */
#define DEFAULT_REGISTERS (65536 / (int)machine.num_threads / 8 * 8)

static struct thread *self(void) { return &machine.block->threads[machine.current]; }

static int overlap(uintptr_t a, size_t a_bytes, uintptr_t b, size_t b_bytes) {
  return a < b + b_bytes && b < a + a_bytes;
}

/* Forgets what all threads of its warpgroup have waited for. */
static void drop_readings(struct block *block) {
  unsigned kept = 0;
  for (unsigned i = 0; i < block->num_readings; ++i) {
    const struct reading *reading = &block->readings[i];
    const struct thread *group = &block->threads[reading->warpgroup * WARPGROUP];
    int is_done = 1;
    for (unsigned t = 0; t < WARPGROUP && is_done; ++t)
      is_done = group[t].done_groups > reading->group;
    if (!is_done)
      block->readings[kept++] = *reading;
  }
  block->num_readings = kept;
}

int is_read_by_products(struct block *block, uintptr_t begin, size_t bytes) {
  if (is_read_by_tensor_products(block, begin, bytes))
    return 1;
  for (int is_clean = 0;; is_clean = 1) {
    int found = 0;
    for (unsigned i = 0; i < block->num_readings && !found; ++i)
      found = overlap(begin, bytes, block->readings[i].begin, block->readings[i].bytes);
    if (!found || is_clean)
      return found;
    drop_readings(block);
  }
}

static int is_shared(uintptr_t address, size_t bytes) {
  uintptr_t begin = (uintptr_t)machine.block->shared;
  return address >= begin && bytes <= machine.shared_bytes &&
         address - begin <= machine.shared_bytes - bytes;
}

void begin_async(void) {
  machine.block->num_mbarriers = machine.block->num_box_copies = machine.block->num_readings = 0;
  machine.block->num_barriers = 0;
  machine.block->registers = 0;
  begin_writes();
  begin_tensor_memory();
  for (unsigned i = 0; i < machine.num_threads; ++i) {
    struct thread *thread = &machine.block->threads[i];
    memset(thread->waited, 0xff, sizeof thread->waited);
    thread->cluster_arrivals = thread->cluster_waits = 0;
    thread->is_fenced = 0;
    thread->product_groups = thread->done_groups = thread->num_products = 0;
    thread->has_open_group = 0;
    for (unsigned product = 0; product < MAX_PRODUCTS; ++product)
      thread->sums[product].number = 0;
  }
}

void end_async(void) {
  if (machine.block->num_box_copies)
    fail("ends while %u copies to its shared memory are under way", machine.block->num_box_copies);
  /* What another block tells a barrier has come when a thread has seen that phase end, or has been
   * at the cluster's barrier with that block behind it. */
  unsigned waits = 0;
  for (unsigned i = 0; i < machine.num_threads; ++i)
    if (machine.block->threads[i].cluster_waits > waits)
      waits = machine.block->threads[i].cluster_waits;
  for (unsigned i = 0; i < machine.block->num_mbarriers; ++i) {
    const struct mbarrier *barrier = &machine.block->mbarriers[i];
    if (barrier->remote_cluster && barrier->remote_cluster > waits &&
        barrier->remote_phase >= barrier->last_waited)
      fail("ends although another block may still tell one of its barriers something");
  }
}

void end_thread_async(void) {
  if (self()->product_groups != self()->done_groups || self()->has_open_group)
    fail("ends while products are under way");
}

/*===-- Barriers ------------------------------------------------------------===*/

EXPORT void kiln_emulator_mbarrier_init(void *address, int32_t count) {
  struct mbarrier made = {.address = (uintptr_t)address,
                          .count = count,
                          .pending = count,
                          .made_by = machine.current,
                          .made_in = machine.block->num_barriers,
                          .made_in_cluster = self()->cluster_arrivals};
  if (!is_shared(made.address, 8) || made.address % 8 || count < 1)
    fail("makes a barrier of %d arrivals outside of shared memory or unaligned", count);
  if (machine.block->num_mbarriers == MAX_MBARRIERS)
    fail("makes more than %d barriers", MAX_MBARRIERS);
  for (unsigned i = 0; i < machine.block->num_mbarriers; ++i)
    if (overlap(machine.block->mbarriers[i].address, 8, made.address, 8))
      fail("makes a barrier twice");
  if (machine.failed)
    stop();
  machine.block->mbarriers[machine.block->num_mbarriers++] = made;
}

EXPORT void kiln_emulator_fence_proxy(void) {
  note_fence();
  for (unsigned i = 0; i < machine.block->num_mbarriers; ++i)
    if (machine.block->mbarriers[i].made_by == machine.current)
      machine.block->mbarriers[i].is_fenced = 1;
}

/* fence.mbarrier_init.release.cluster */
EXPORT void kiln_emulator_fence_mbarrier_init(void) {
  for (unsigned i = 0; i < machine.block->num_mbarriers; ++i)
    if (machine.block->mbarriers[i].made_by == machine.current)
      machine.block->mbarriers[i].is_published = 1;
}

unsigned find_mbarrier(const struct block *owner, uintptr_t address) {
  if (owner && owner->has_ended)
    fail("uses a barrier of block %u, which has ended", owner->number);
  for (unsigned i = 0; owner && !machine.failed && i < owner->num_mbarriers; ++i) {
    const struct mbarrier *barrier = &owner->mbarriers[i];
    if (barrier->address != address)
      continue;
    int is_own = owner == machine.block;
    int is_known = self()->cluster_waits > barrier->made_in_cluster;
    if (is_own)
      is_known |= barrier->made_by == machine.current || barrier->made_in != owner->num_barriers;
    if (!is_known)
      fail("uses a barrier that another thread has made since all threads met");
    else if (!is_own && !barrier->is_published)
      fail("uses a barrier of block %u, which has not been fenced for other blocks", owner->number);
    if (machine.failed)
      break;
    return i;
  }
  fail("uses a barrier that has not been made");
  stop();
  return 0;
}

static void complete(struct mbarrier *barrier) {
  if (barrier->pending < 0) {
    fail("arrives at a barrier more often than it was made for");
    stop();
  }
  if (barrier->pending == 0 && barrier->bytes == 0) {
    ++barrier->phase;
    barrier->pending = barrier->count;
  }
}

/* Another block's is at an address that mapa has given. */
EXPORT void kiln_emulator_mbarrier_arrive(void *address) {
  struct block *owner = find_block((uintptr_t)address, 8);
  unsigned number = find_mbarrier(owner, (uintptr_t)address);
  struct mbarrier *barrier = &owner->mbarriers[number];
  if (owner != machine.block) {
    barrier->remote_phase = barrier->phase;
    if (barrier->remote_cluster <= self()->cluster_arrivals)
      barrier->remote_cluster = self()->cluster_arrivals + 1;
  }
  if (self()->has_loaded)
    fail("arrives at a barrier without tcgen05.fence::before_thread_sync behind its loads");
  --barrier->pending;
  complete(barrier);
}

void tell_mbarrier(unsigned number) {
  --machine.block->mbarriers[number].pending;
  complete(&machine.block->mbarriers[number]);
}

EXPORT void kiln_emulator_mbarrier_expect(void *address, int32_t bytes) {
  struct mbarrier *barrier =
      &machine.block->mbarriers[find_mbarrier(machine.block, (uintptr_t)address)];
  barrier->bytes += bytes;
  --barrier->pending;
  complete(barrier);
}

static int has_passed(const struct thread *thread) {
  return (machine.block->mbarriers[thread->mbarrier].phase & 1) != thread->parity;
}

/* Until the phase of this parity has ended. Which phase that is a thread cannot know if it was the
 * last it waited for, and the next is still to end. */
EXPORT void kiln_emulator_mbarrier_wait(void *address, int32_t parity) {
  struct thread *thread = self();
  const struct block *owner = find_block((uintptr_t)address, 8);
  if (owner && owner != machine.block) {
    fail("waits for a barrier of another block");
    stop();
  }
  unsigned number = find_mbarrier(machine.block, (uintptr_t)address);
  if (parity != 0 && parity != 1)
    fail("waits for a phase of parity %d", parity);
  thread->mbarrier = number;
  thread->parity = (unsigned)parity;
  if (!machine.failed && !has_passed(thread))
    wait_at(AT_MBARRIER, 0);
  unsigned phase = machine.block->mbarriers[number].phase;
  if (phase > machine.block->mbarriers[number].last_waited)
    machine.block->mbarriers[number].last_waited = phase;
  if (thread->waited[number] == phase)
    fail("waits for the same phase of a barrier twice");
  if (machine.failed)
    stop();
  thread->waited[number] = phase;
  thread->is_tensor_fenced = 0;
}

/* Once more for the phase that the thread waited for last: no other has ended since. */
EXPORT void kiln_emulator_mbarrier_ask_again(void *address, int32_t parity) {
  const struct thread *thread = self();
  unsigned number = find_mbarrier(machine.block, (uintptr_t)address);
  unsigned phase = machine.block->mbarriers[number].phase;
  if (thread->waited[number] != phase || (int32_t)((phase - 1) & 1) != parity)
    fail("asks again for a phase that it has not waited for");
  if (machine.failed)
    stop();
}

int finish_mbarriers(void) {
  int progress = 0;
  for (unsigned i = 0; i < machine.num_threads; ++i) {
    struct thread *thread = &machine.block->threads[i];
    if (thread->state == AT_MBARRIER && has_passed(thread)) {
      thread->state = READY;
      progress = 1;
    }
  }
  return progress;
}

/*===-- Copies of boxes -----------------------------------------------------===*/

/* Chunks of 16 bytes change places in a line by its number modulo 8. */
static uintptr_t swizzle(uintptr_t address) { return address ^ (address >> 7 & 7) << 4; }

static size_t box_bytes(const struct tensor *tensor) {
  size_t bytes = tensor->item;
  for (uint32_t i = 0; i < tensor->rank; ++i)
    bytes *= tensor->box[i];
  return bytes;
}

/* Addresses are the thread's own block's: a copy to another is to the same places there. */
static void begin_copy(struct block *to, struct box_copy copy, uintptr_t barrier) {
  uintptr_t change = (uintptr_t)to->shared - (uintptr_t)machine.block->shared;
  copy.to += change;
  copy.mbarrier = find_mbarrier(to, barrier + change);
  if (!to->mbarriers[copy.mbarrier].is_fenced)
    fail("gives a copy a barrier that has not been fenced since it was made");
  if (is_read_by_products(to, copy.to, copy.bytes))
    fail("copies to shared memory that products under way read");
  for (unsigned i = 0; i < to->num_box_copies; ++i)
    if (overlap(copy.to, copy.bytes, to->box_copies[i].to, to->box_copies[i].bytes))
      fail("copies to shared memory that another copy has not arrived at");
  if (to->num_box_copies == MAX_BOX_COPIES)
    fail("has more than %d copies under way", MAX_BOX_COPIES);
  if (machine.failed)
    stop();
  memset((void *)copy.to, EMULATOR_POISON, copy.bytes);
  to->box_copies[to->num_box_copies++] = copy;
}

/* A copy to the blocks of the cluster that have a bit in `mask`. */
EXPORT void kiln_emulator_multicast_tensor(void *to, const void *map, void *barrier, int32_t mask,
                                           int32_t rank, int32_t c0, int32_t c1, int32_t c2,
                                           int32_t c3, int32_t c4) {
  const struct tensor *tensor = map;
  struct box_copy copy = {
      .to = (uintptr_t)to, .tensor = tensor, .coordinates = {c0, c1, c2, c3, c4}};
  if (tensor->magic != TENSOR_MAGIC || (int32_t)tensor->rank != rank) {
    fail("copies a box of what is no tensor map of rank %d", rank);
    stop();
  }
  copy.bytes = box_bytes(tensor);
  if (tensor->item * tensor->box[0] != LINE)
    fail("copies a box whose lines are not %d bytes", LINE);
  /* A box is read by the tensor cores in patterns of eight lines. */
  if (!is_shared(copy.to, copy.bytes) || copy.to % (8 * LINE))
    fail("copies a box to an address outside of shared memory, or one that is no multiple of %d",
         8 * LINE);
  if (!(mask & 0xffff) || (uint32_t)(mask & 0xffff) >> machine.cluster)
    fail("copies to blocks %#x of a cluster of %u", (unsigned)(mask & 0xffff), machine.cluster);
  if (machine.failed)
    stop();
  for (unsigned i = 0; i < machine.cluster; ++i)
    if (mask >> i & 1)
      begin_copy(&machine.blocks[i], copy, (uintptr_t)barrier);
}

EXPORT void kiln_emulator_load_tensor(void *to, const void *map, void *barrier, int32_t rank,
                                      int32_t c0, int32_t c1, int32_t c2, int32_t c3, int32_t c4) {
  kiln_emulator_multicast_tensor(to, map, barrier, 1 << (machine.block - machine.blocks), rank, c0,
                                 c1, c2, c3, c4);
}

/* A line of a box at these coordinates: what is outside of the tensor is zero. */
static void copy_line(const struct tensor *tensor, const int64_t *at, char *line) {
  uint64_t from = tensor->address;
  int inside = 1;
  for (uint32_t i = 1; i < tensor->rank; ++i) {
    inside &= at[i] >= 0 && at[i] <= (int64_t)tensor->sizes[i];
    from += (uint64_t)at[i] * tensor->strides[i - 1];
  }
  memset(line, 0, LINE);
  int64_t begin = at[0] < 0 ? 0 : at[0], end = at[0] + tensor->box[0];
  if (end > (int64_t)tensor->sizes[0] + 1)
    end = (int64_t)tensor->sizes[0] + 1;
  for (int64_t i = begin; inside && i < end;) {
    uint64_t address = from + (uint64_t)i * tensor->item;
    int64_t count = address % 16 == 0 && end - i >= 16 / tensor->item ? 16 / tensor->item : 1;
    size_t bytes = (size_t)count * tensor->item;
    memcpy(line + (i - at[0]) * tensor->item,
           kiln_emulator_access((void *)(uintptr_t)address, (int64_t)bytes, 0), bytes);
    i += count;
  }
}

static void arrive(const struct box_copy *copy) {
  const struct tensor *tensor = copy->tensor;
  for (size_t number = 0; number * LINE < copy->bytes; ++number) {
    int64_t at[5] = {copy->coordinates[0]};
    size_t rest = number;
    for (uint32_t i = 1; i < tensor->rank; ++i) {
      at[i] = copy->coordinates[i] + (int64_t)(rest % tensor->box[i]);
      rest /= tensor->box[i];
    }
    char line[LINE];
    copy_line(tensor, at, line);
    for (size_t i = 0; i < LINE; i += 16)
      memcpy((char *)swizzle(copy->to + number * LINE + i), line + i, 16);
  }
  note_box(copy->to, copy->bytes);
  struct mbarrier *barrier = &machine.block->mbarriers[copy->mbarrier];
  barrier->bytes -= (int32_t)copy->bytes;
  complete(barrier);
}

int finish_box_copies(void) {
  unsigned kept = 0, count = machine.block->num_box_copies;
  for (unsigned i = 0; i < count; ++i) {
    int is_awaited = 0;
    for (unsigned t = 0; t < machine.num_threads && !is_awaited; ++t)
      if (machine.block->threads[t].state == AT_MBARRIER &&
          machine.block->threads[t].mbarrier == machine.block->box_copies[i].mbarrier &&
          !has_passed(&machine.block->threads[t])) {
        is_awaited = 1;
        machine.current = t; /* for messages */
      }
    if (is_awaited)
      arrive(&machine.block->box_copies[i]);
    else
      machine.block->box_copies[kept++] = machine.block->box_copies[i];
  }
  machine.block->num_box_copies = kept;
  return kept < count;
}

/*===-- Products ------------------------------------------------------------===*/

EXPORT void kiln_emulator_set_registers(int32_t change) {
  int count = change < 0 ? -change : change, had = DEFAULT_REGISTERS;
  if (count < 24 || count > 256 || count % 8 || (change < 0 ? count > had : count < had))
    fail("sets its registers from %d to %d", had, count);
  machine.block->registers += had - count;
}

EXPORT void kiln_emulator_wgmma_fence(void) { self()->is_fenced = 1; }
EXPORT void kiln_emulator_wgmma_commit(void) {
  ++self()->product_groups;
  self()->has_open_group = 0;
}

EXPORT void kiln_emulator_wgmma_wait(int32_t left) {
  struct thread *thread = self();
  unsigned groups = thread->product_groups;
  if (groups > (unsigned)left && groups - (unsigned)left > thread->done_groups)
    thread->done_groups = groups - (unsigned)left;
  if (!left)
    thread->is_fenced = 0;
}

static void multiply(struct product product, float *sums, int32_t operand, int32_t site) {
  struct thread *thread = self();
  if (!thread->is_fenced) {
    fail("multiplies without wgmma.fence");
    stop();
  }
  thread->product = product;
  thread->operand = (enum operand)operand;
  thread->registers = sums;
  thread->has_open_group = 1;
  wait_at(AT_WGMMA, site);
}

EXPORT void kiln_emulator_wgmma(int64_t left, int64_t right, float *sums, int32_t columns,
                                int32_t adds, int32_t operand, int32_t left_is_turned,
                                int32_t right_is_turned, int32_t site) {
  multiply((struct product){(uint64_t)left, (uint64_t)right, columns, adds, left_is_turned,
                            right_is_turned, 0},
           sums, operand, site);
}

EXPORT void kiln_emulator_wgmma_registers(const uint32_t *left, int64_t right, float *sums,
                                          int32_t columns, int32_t operand, int32_t is_turned,
                                          int32_t site) {
  self()->left = left;
  multiply((struct product){0, (uint64_t)right, columns, 1, 0, is_turned, 1}, sums, operand, site);
}

/* Four registers of a thread: rows g and 8 further, two steps each, then the same 8 steps on. */
static void read_registers(const struct thread *group, enum operand operand, float *values) {
  for (unsigned thread = 0; thread < WARPGROUP; ++thread)
    for (unsigned i = 0; i < 8; ++i) {
      unsigned row = thread / WARP * 16 + thread % WARP / 4 + i / 2 % 2 * 8;
      unsigned k = thread % 4 * 2 + i / 4 * 8 + i % 2;
      uint16_t bits = (uint16_t)(group[thread].left[i / 2] >> i % 2 * 16);
      values[row * 16 + k] = widen(bits, operand);
    }
}

/* What registers have until their thread reads them: a NaN that no computation makes, of the
 * product's number and the register's. */
#define MARK 0x7fa00000u

static uint32_t mark(unsigned number, unsigned place) {
  return MARK | (number % (1 << 14)) << 7 | place;
}

static int is_mark(uint32_t bits) { return (bits & 0xffe00000u) == MARK; }

static struct sums *find_sums(struct thread *thread, uint32_t bits) {
  for (unsigned i = 0; i < MAX_PRODUCTS; ++i)
    if (thread->sums[i].number && mark(thread->sums[i].number, bits % MAX_SUMS) == bits)
      return &thread->sums[i];
  return NULL;
}

static float read_sum(struct thread *thread, float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (!is_mark(bits))
    return value;
  const struct sums *sums = find_sums(thread, bits);
  if (!sums)
    fail("reads sums that a later product has changed");
  else if (sums->group >= thread->done_groups)
    fail("reads sums of products that it has not waited for");
  else
    value = sums->values[bits % MAX_SUMS];
  return value;
}

/* Where a thread uses a register that may be a product's. */
EXPORT float kiln_emulator_sum(float value) {
  value = read_sum(self(), value);
  if (machine.failed)
    stop();
  return value;
}

/* Where the product's sums go, with what they are added to. Products of a shape may follow each
 * other in the same registers, before anybody has waited. */
static struct sums *begin_sums(struct thread *thread) {
  const struct product *product = &thread->product;
  int32_t count = product->columns / 2;
  struct sums *sums = NULL, *oldest = &thread->sums[0];
  uint32_t bits[MAX_SUMS];
  memcpy(bits, thread->registers, (size_t)count * sizeof *bits);
  if (product->adds && is_mark(bits[0]))
    sums = find_sums(thread, bits[0]);
  for (int32_t i = 0; sums && i < count; ++i)
    if (sums->count != count || bits[i] != mark(sums->number, (unsigned)i))
      sums = NULL;
  if (!sums) {
    float values[MAX_SUMS] = {0};
    for (int32_t i = 0; product->adds && i < count; ++i)
      values[i] = read_sum(thread, thread->registers[i]);
    for (unsigned i = 1; i < MAX_PRODUCTS; ++i)
      if (thread->sums[i].number < oldest->number)
        oldest = &thread->sums[i];
    sums = oldest;
    if (sums->number && sums->group >= thread->done_groups)
      fail("has sums of more than %d products under way", MAX_PRODUCTS);
    memcpy(sums->values, values, sizeof values);
  }
  sums->number = ++thread->num_products;
  sums->group = thread->product_groups;
  sums->count = count;
  return sums;
}

struct extent find_operand(uint64_t descriptor, int is_turned, unsigned rows, unsigned version) {
  uintptr_t begin = (uintptr_t)machine.block->shared + ((descriptor & 0x3fff) << 4);
  size_t leading = (descriptor >> 16 & 0x3fff) << 4, stride = (descriptor >> 32 & 0x3fff) << 4;
  if (descriptor >> 62 != 1 || (descriptor >> 49 & 7) || (descriptor >> 46 & 3) != version ||
      (descriptor & ((uint64_t)3 << 14)) || (!is_turned && leading != 16))
    fail("multiplies with a descriptor of another form: %#llx", (unsigned long long)descriptor);
  /* A pattern is 8 lines of 64 elements. Along rows: of 64 rows each, 8 steps. */
  unsigned boxes = is_turned ? (rows + 63) / 64 : 1;
  size_t bytes =
      is_turned ? (boxes - 1) * leading + stride + 8 * LINE : (rows / 8 - 1) * stride + 8 * LINE;
  if (!is_turned)
    bytes -= begin % LINE; /* the descriptor begins inside of the lines */
  if (!is_shared(begin, bytes) || (is_turned && begin % (8 * LINE)))
    fail("multiplies what is outside of shared memory, or unaligned");
  for (unsigned i = 0; i < machine.block->num_box_copies; ++i)
    if (overlap(begin, bytes, machine.block->box_copies[i].to, machine.block->box_copies[i].bytes))
      fail("multiplies what has not arrived");
  if (!machine.failed)
    check_writes(begin, bytes);
  return (struct extent){begin, bytes};
}

unsigned count_steps(enum operand operand) { return operand >= S8 ? 32 : 16; }

void load_operand(uint64_t descriptor, int is_turned, unsigned rows, enum operand operand,
                  float *values) {
  uintptr_t begin = (uintptr_t)machine.block->shared + ((descriptor & 0x3fff) << 4);
  size_t leading = (descriptor >> 16 & 0x3fff) << 4, stride = (descriptor >> 32 & 0x3fff) << 4;
  unsigned steps = count_steps(operand);
  for (unsigned row = 0; row < rows; ++row)
    for (unsigned k = 0; k < steps; ++k) {
      size_t offset = is_turned ? row / 64 * leading + k / 8 * stride + k % 8 * LINE + row % 64 * 2
                                : row / 8 * stride + row % 8 * LINE + k * 32 / steps;
      const void *from = (const void *)swizzle(begin + offset);
      uint16_t bits = *(const uint8_t *)from;
      if (steps == 16)
        memcpy(&bits, from, sizeof bits);
      values[row * steps + k] = widen(bits, operand);
    }
}

/* Reads an operand of `rows` rows and the steps of one instruction as its descriptor says. */
static void read_operand(uint64_t descriptor, int is_turned, unsigned rows, enum operand operand,
                         float *values) {
  struct extent extent = find_operand(descriptor, is_turned, rows, 0);
  if (machine.block->num_readings == MAX_READINGS)
    drop_readings(machine.block);
  if (machine.block->num_readings == MAX_READINGS)
    fail("has more than %d operands of products under way", MAX_READINGS);
  if (machine.failed)
    return;
  machine.block->readings[machine.block->num_readings++] = (struct reading){
      extent.begin, extent.bytes, machine.current / WARPGROUP, self()->product_groups};
  load_operand(descriptor, is_turned, rows, operand, values);
}

/* What a row and the one 8 behind it add to sums: in a step each of these takes its own of `columns`. */
static void add_floats(float *sums, const float *row, const float *other,
                       const float (*columns)[MAX_SUMS], unsigned steps, unsigned num_sums) {
  for (unsigned k = 0; k < steps; ++k)
    for (unsigned i = 0; i < num_sums; i += 4) {
      const float *column = &columns[k][i];
      sums[i] += row[k] * column[0];
      sums[i + 1] += row[k] * column[1];
      sums[i + 2] += other[k] * column[2];
      sums[i + 3] += other[k] * column[3];
    }
}

/* The same of bytes, whose sums wrap around. */
static void add_integers(float *sums, const float *row, const float *other,
                         const float (*columns)[MAX_SUMS], unsigned steps, unsigned num_sums) {
  uint32_t bits[MAX_SUMS];
  memcpy(bits, sums, sizeof bits);
  for (unsigned k = 0; k < steps; ++k)
    for (unsigned i = 0; i < num_sums; ++i)
      bits[i] += (uint32_t)(int32_t)((i & 2 ? other : row)[k] * columns[k][i]);
  memcpy(sums, bits, sizeof bits);
}

/* m64nNk16, of bytes m64nNk32, with the places that the PTX ISA gives the sums. */
int finish_warpgroup(struct thread *group) {
  static float left[64 * 32], right[256 * 32];
  /* Of a thread by its place among four: what each of its sums takes in a step. */
  static float columns[4][32][MAX_SUMS];
  for (unsigned i = 0; i < WARPGROUP; ++i)
    if (group[i].state != AT_WGMMA || group[i].site != group[0].site)
      return 0;
  machine.current = (unsigned)(group - machine.block->threads);
  for (unsigned i = 0; i < WARPGROUP; ++i)
    if (memcmp(&group[i].product, &group[0].product, sizeof group[0].product) != 0 ||
        group[i].product_groups != group[0].product_groups) {
      fail("multiplies with other operands than threads of its warpgroup");
      return 1;
    }
  const struct product *product = &group[0].product;
  enum operand operand = group[0].operand;
  unsigned steps = count_steps(operand);
  if ((steps == 32 && (product->left_is_turned || product->right_is_turned)) ||
      (operand == S8 && product->columns > 32 && product->columns % 16))
    fail("multiplies bytes as wgmma does not: %d columns, or turned", product->columns);
  if (product->left_is_registers)
    read_registers(group, operand, left);
  else
    read_operand(product->left, product->left_is_turned, 64, operand, left);
  read_operand(product->right, product->right_is_turned, (unsigned)product->columns, operand,
               right);
  unsigned num_sums = (unsigned)product->columns / 2;
  for (unsigned place = 0; place < 4; ++place)
    for (unsigned i = 0; i < num_sums; ++i)
      for (unsigned k = 0; k < steps; ++k)
        columns[place][k][i] = right[(i / 4 * 8 + place * 2 + i % 2) * steps + k];
  for (unsigned thread = 0; thread < WARPGROUP && !machine.failed; ++thread) {
    const float *row = left + (thread / WARP * 16 + thread % WARP / 4) * steps;
    machine.current = (unsigned)(&group[thread] - machine.block->threads);
    struct sums *sums = begin_sums(&group[thread]);
    (operand == S8 ? add_integers : add_floats)(sums->values, row, row + 8 * steps,
                                                columns[thread % 4], steps, num_sums);
    for (unsigned i = 0; i < num_sums; ++i) {
      uint32_t bits = mark(sums->number, i);
      memcpy(&group[thread].registers[i], &bits, sizeof bits);
    }
  }
  for (unsigned i = 0; i < WARPGROUP; ++i)
    group[i].state = READY;
  return 1;
}
