/*===- emulator.c - A block's threads as fibres -----------------------------===*/
#include "machine.h"

#include <float.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

struct machine machine;
int emulator_overlaps;
unsigned emulator_grid[3];

/*===-- Fibres --------------------------------------------------------------===*/

/* Saves what a call must keep on this stack, and goes on with another. */
void emulator_switch(void **save, void *to);
__asm__(".text\n"
        ".type emulator_switch, @function\n"
        "emulator_switch:\n"
        "  pushq %rbp\n  pushq %rbx\n  pushq %r12\n  pushq %r13\n  pushq %r14\n  pushq %r15\n"
        "  movq %rsp, (%rdi)\n"
        "  movq %rsi, %rsp\n"
        "  popq %r15\n  popq %r14\n  popq %r13\n  popq %r12\n  popq %rbx\n  popq %rbp\n"
        "  ret\n"
        ".size emulator_switch, .-emulator_switch\n");

static void to_scheduler(void) {
  emulator_switch(&machine.block->threads[machine.current].stack_pointer, machine.scheduler);
}

static void fibre_main(void) {
  machine.kernel(machine.arguments);
  end_thread_async();
  machine.block->threads[machine.current].state = DONE;
  to_scheduler();
  abort(); /* a thread that has ended does not go on */
}

static char *stack_of(unsigned thread) {
  return machine.block->stacks + thread * (GUARD_BYTES + STACK_BYTES) + GUARD_BYTES;
}

static void make_fibre(unsigned thread) {
  void **top = (void **)(stack_of(thread) + STACK_BYTES);
  *--top = NULL; /* where fibre_main would return to: entered as if called */
  *--top = (void *)fibre_main;
  for (int i = 0; i < 6; ++i)
    *--top = NULL;
  machine.block->threads[thread].stack_pointer = top;
  machine.block->threads[thread].state = READY;
  machine.block->threads[thread].num_copies = machine.block->threads[thread].groups = 0;
  machine.block->threads[thread].must_wait = emulator_overlaps;
  machine.block->threads[thread].meetings = machine.block->threads[thread].num_waited_flags = 0;
}

static void resume(unsigned thread) {
  machine.current = thread;
  emulator_switch(&machine.scheduler, machine.block->threads[thread].stack_pointer);
}

static void make_stacks(void) {
  size_t bytes = MAX_THREADS * (GUARD_BYTES + STACK_BYTES);
  machine.block->stacks =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (machine.block->stacks == MAP_FAILED)
    abort();
  for (unsigned i = 0; i < MAX_THREADS; ++i)
    mprotect(stack_of(i) - GUARD_BYTES, GUARD_BYTES, PROT_NONE);
}

/*===-- Errors --------------------------------------------------------------===*/

void fail(const char *format, ...) {
  if (machine.failed)
    return;
  machine.failed = 1;
  int used = snprintf(machine.message, machine.message_size,
                      "kernel %s, block %u, thread %u: ", machine.name, machine.block->number,
                      machine.current);
  va_list arguments;
  va_start(arguments, format);
  if (used > 0 && (size_t)used < machine.message_size)
    vsnprintf(machine.message + used, machine.message_size - (size_t)used, format, arguments);
  va_end(arguments);
}

void stop(void) {
  to_scheduler();
  abort();
}

/*===-- What kernels call ---------------------------------------------------===*/

EXPORT int32_t kiln_emulator_thread(void) { return (int32_t)machine.current; }
EXPORT int32_t kiln_emulator_block(void) { return (int32_t)machine.block->number; }
/* For stand-ins of kernels that others have compiled. */
EXPORT int32_t kiln_emulator_grid(int32_t dim) { return (int32_t)emulator_grid[dim]; }
EXPORT int32_t kiln_emulator_blocks(void) { return (int32_t)machine.num_blocks; }
EXPORT void *kiln_emulator_shared(void) { return machine.block->shared; }

void wait_at(enum state state, int32_t site) {
  machine.block->threads[machine.current].state = state;
  machine.block->threads[machine.current].site = site;
  to_scheduler();
}

EXPORT void kiln_emulator_grid_wait(void) { machine.block->threads[machine.current].must_wait = 0; }

EXPORT void kiln_emulator_barrier(int32_t site) { wait_at(AT_BARRIER, site); }

EXPORT int32_t kiln_emulator_shuffle(int32_t value, int32_t distance, int32_t site) {
  struct thread *self = &machine.block->threads[machine.current];
  self->value = value;
  self->distance = distance;
  wait_at(AT_SHUFFLE, site);
  return self->received;
}

/* bar.warp.sync: what a lane has done before all lanes know of behind it. */
EXPORT void kiln_emulator_sync_warp(int32_t site) {
  kiln_emulator_shuffle(0, 0, site);
  ++machine.block->threads[machine.current].meetings;
}

EXPORT void kiln_emulator_mma(const void *left, const void *right, float *sums, int32_t operand,
                              int32_t site) {
  struct thread *self = &machine.block->threads[machine.current];
  self->left = left;
  self->right = right;
  self->registers = sums;
  self->operand = (enum operand)operand;
  wait_at(AT_MMA, site);
}

/* cvt.rna.tf32: to 10 bits of mantissa, ties away from zero. */
EXPORT int32_t kiln_emulator_round_to_tf32(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (value != value)
    return 0x7fffffff;
  if ((bits & 0x7f800000) != 0x7f800000)
    bits = (bits + 0x1000) & ~0x1fffu;
  return (int32_t)bits;
}

/* ex2.approx, and where it flushes denormals, ex2.approx.ftz */
EXPORT float kiln_emulator_exp2(float value, int32_t flushes) {
  float result = exp2f(value);
  return flushes && result < FLT_MIN ? 0 : result;
}

/* rcp.approx.ftz: the lowest bit may be another one */
EXPORT float kiln_emulator_reciprocal(float value) {
  float result = 1 / value;
  if (result != result || isinf(result))
    return result;
  return fabsf(result) < FLT_MIN ? copysignf(0, value) : nextafterf(result, 0);
}

static uint32_t round_to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (value != value)
    return 0x7fff;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* cvt.rn.bf16x2 */
EXPORT int32_t kiln_emulator_pack_bf16(float high, float low) {
  return (int32_t)(round_to_bf16(high) << 16 | round_to_bf16(low));
}

/* ldmatrix: 8 lanes' rows of 16 bytes are a matrix. */
EXPORT void kiln_emulator_load_matrices(void *row, uint32_t *registers, int32_t num,
                                        int32_t is_transposed, int32_t site) {
  struct thread *self = &machine.block->threads[machine.current];
  unsigned lane = machine.current % WARP;
  self->row = lane < 8 * (unsigned)num ? kiln_emulator_access(row, 16, 0) : NULL;
  self->loaded = registers;
  self->num_matrices = num;
  self->is_transposed = is_transposed;
  wait_at(AT_MATRICES, site);
}

/* `given` bytes of `bytes` are copied, the others are zero. */
EXPORT void kiln_emulator_copy(void *to, void *from, int32_t bytes, int32_t given) {
  struct thread *self = &machine.block->threads[machine.current];
  to = kiln_emulator_access(to, bytes, 1);
  if (given)
    from = kiln_emulator_access(from, given, 0);
  if (self->num_copies == MAX_COPIES) {
    fail("has more than %d copies under way", MAX_COPIES);
    stop();
  }
  memset(to, EMULATOR_POISON, (size_t)bytes);
  self->copies[self->num_copies].to = to;
  self->copies[self->num_copies].from = from;
  self->copies[self->num_copies].bytes = bytes;
  self->copies[self->num_copies].given = given;
  self->copies[self->num_copies++].group = self->groups;
}

EXPORT void kiln_emulator_commit(void) { ++machine.block->threads[machine.current].groups; }

/* Until at most `left` groups are under way. */
EXPORT void kiln_emulator_wait(int32_t left) {
  struct thread *self = &machine.block->threads[machine.current];
  unsigned kept = 0;
  for (unsigned i = 0; i < self->num_copies; ++i)
    if (self->copies[i].group + (unsigned)left < self->groups) {
      if (self->copies[i].given)
        memcpy(self->copies[i].to, self->copies[i].from, (size_t)self->copies[i].given);
      memset((char *)self->copies[i].to + self->copies[i].given, 0,
             (size_t)(self->copies[i].bytes - self->copies[i].given));
      note_write((uintptr_t)self->copies[i].to, (size_t)self->copies[i].bytes);
    } else {
      self->copies[kept++] = self->copies[i];
    }
  self->num_copies = kept;
}

/* Every thread names its kernel's buffers; the first one's are kept. */
EXPORT void kiln_emulator_buffer(void *address, int64_t bytes) {
  for (unsigned i = 0; i < machine.num_buffers; ++i)
    if (machine.buffers[i].begin == (uintptr_t)address && machine.buffers[i].bytes == bytes)
      return;
  if (machine.num_buffers == MAX_BUFFERS) {
    fail("has more than %d buffers", MAX_BUFFERS);
    stop();
  }
  if (bytes > 0)
    reach(machine.context, (CUdeviceptr)(uintptr_t)address, (size_t)bytes, machine.name);
  machine.buffers[machine.num_buffers].begin = (uintptr_t)address;
  machine.buffers[machine.num_buffers++].bytes = bytes;
}

static int is_inside(uintptr_t address, int64_t bytes, uintptr_t begin, size_t size) {
  return address >= begin && (size_t)bytes <= size && address - begin <= size - (size_t)bytes;
}

EXPORT void *kiln_emulator_access(void *pointer, int64_t bytes, int32_t writes) {
  uintptr_t address = (uintptr_t)pointer;
  for (unsigned i = 0; i < machine.num_buffers; ++i)
    if (is_inside(address, bytes, machine.buffers[i].begin, (size_t)machine.buffers[i].bytes)) {
      if (machine.block->threads[machine.current].must_wait) {
        fail("%s buffer %u while the kernels before it may still run", writes ? "writes" : "reads",
             i);
        stop();
      }
      if (address % (uintptr_t)(bytes < 16 ? bytes : 16) == 0) {
        if (is_workspace(address))
          note_workspace(address, (size_t)bytes, writes);
        return (void *)(address & ~EMULATOR_DEVICE_BIT);
      }
      fail("%s %lld bytes of buffer %u at an address that is not a multiple of that",
           writes ? "writes" : "reads", (long long)bytes, i);
      stop();
    }
  if (is_inside(address, bytes, (uintptr_t)stack_of(machine.current), STACK_BYTES))
    return pointer;
  if (is_inside(address, bytes, (uintptr_t)machine.block->shared, machine.shared_bytes)) {
    if (address % (uintptr_t)(bytes < 16 ? bytes : 16) == 0) {
      note_banks(address, bytes, writes);
      if (writes)
        note_write(address, (size_t)bytes);
      return pointer;
    }
    fail("%s %lld bytes of shared memory at an address that is not a multiple of that",
         writes ? "writes" : "reads", (long long)bytes);
    stop();
  }
  struct block *other = find_block(address, 0);
  if (other && other != machine.block) {
    fail("%s shared memory of block %u as its own", writes ? "writes" : "reads", other->number);
    stop();
  }
  if (other)
    fail("%s %lld bytes at %llu of %zu bytes of shared memory", writes ? "writes" : "reads",
         (long long)bytes, (unsigned long long)(address - (uintptr_t)machine.block->shared),
         machine.shared_bytes);
  /* The buffer that it begins in or comes after. */
  int nearest = -1;
  for (unsigned i = 0; i < machine.num_buffers; ++i)
    if (machine.buffers[i].begin <= address &&
        (nearest < 0 || machine.buffers[i].begin > machine.buffers[nearest].begin))
      nearest = (int)i;
  if (nearest < 0)
    fail("%s %lld bytes before all of its buffers", writes ? "writes" : "reads", (long long)bytes);
  else
    fail("%s %lld bytes at %llu of %lld bytes of buffer %d", writes ? "writes" : "reads",
         (long long)bytes, (unsigned long long)(address - machine.buffers[nearest].begin),
         (long long)machine.buffers[nearest].bytes, nearest);
  stop();
  return NULL;
}

/*===-- The scheduler -------------------------------------------------------===*/

/* Lets a warp whose threads are all at one shuffle go on. */
static int finish_shuffle(struct thread *warp) {
  for (unsigned lane = 0; lane < WARP; ++lane)
    if (warp[lane].state != AT_SHUFFLE || warp[lane].site != warp[0].site)
      return 0;
  for (unsigned lane = 0; lane < WARP; ++lane)
    warp[lane].received = warp[lane ^ ((unsigned)warp[lane].distance & (WARP - 1))].value;
  for (unsigned lane = 0; lane < WARP; ++lane)
    warp[lane].state = READY;
  return 1;
}

static int finish_matrices(struct thread *warp) {
  for (unsigned lane = 0; lane < WARP; ++lane)
    if (warp[lane].state != AT_MATRICES || warp[lane].site != warp[0].site)
      return 0;
  for (unsigned matrix = 0; matrix < (unsigned)warp[0].num_matrices; ++matrix) {
    unsigned banks = 0;
    for (unsigned i = 0; i < 8; ++i)
      banks |= 1u << (uintptr_t)warp[8 * matrix + i].row / 16 % 8;
    if (banks != 0xff) {
      machine.current = (unsigned)(warp - machine.block->threads) + 8 * matrix;
      fail("loads a matrix of which several rows are in the same banks of shared memory");
    }
    for (unsigned lane = 0; lane < WARP; ++lane) {
      uint16_t pair[2];
      for (unsigned i = 0; i < 2; ++i) {
        unsigned row = lane / 4, column = 2 * (lane % 4) + i;
        if (warp[0].is_transposed) {
          row = column;
          column = lane / 4;
        }
        memcpy(&pair[i], warp[8 * matrix + row].row + 2 * column, 2);
      }
      memcpy(&warp[lane].loaded[matrix], pair, 4);
    }
  }
  for (unsigned lane = 0; lane < WARP; ++lane)
    warp[lane].state = READY;
  return 1;
}

/* Four bits of exponent, three of mantissa, no infinities. */
static float widen_e4m3(unsigned bits) {
  unsigned exponent = bits >> 3 & 15, mantissa = bits & 7;
  uint32_t wide = (exponent + 120) << 23 | mantissa << 20;
  float value = (float)mantissa * 0x1p-9f;
  if ((bits & 127) == 127)
    wide = 0x7fc00000;
  if (exponent)
    memcpy(&value, &wide, sizeof value);
  return bits & 128 ? -value : value;
}

float widen(uint16_t bits, enum operand operand) {
  float value;
  if (operand == S8)
    return (int8_t)bits;
  if (operand == E4M3)
    return widen_e4m3(bits);
  if (operand == E5M2) /* the upper half of f16 */
    return widen((uint16_t)(bits << 8), F16);
  if (operand == F16) {
    _Float16 half;
    memcpy(&half, &bits, sizeof half);
    return (float)half;
  }
  uint32_t wide = (uint32_t)bits << 16;
  memcpy(&value, &wide, sizeof value);
  return value;
}

/* What a tensor core sees of an operand's register: two elements, one or four. */
static void read_register(uint32_t bits, enum operand operand, float values[4]) {
  if (operand == S8) {
    for (unsigned i = 0; i < 4; ++i)
      values[i] = (int8_t)(bits >> 8 * i);
    return;
  }
  if (operand == TF32) {
    bits &= ~0x1fffu;
    memcpy(values, &bits, sizeof bits);
    return;
  }
  values[0] = widen((uint16_t)bits, operand);
  values[1] = widen((uint16_t)(bits >> 16), operand);
}

/* m16n8k16, TF32: m16n8k8, S8: m16n8k32, with the places that the PTX ISA gives the fragments. */
static int finish_product(struct thread *warp) {
  float left[16][32], right[32][8];
  for (unsigned lane = 0; lane < WARP; ++lane)
    if (warp[lane].state != AT_MMA || warp[lane].site != warp[0].site)
      return 0;
  enum operand operand = warp[0].operand;
  unsigned each = operand == TF32 ? 1 : operand == S8 ? 4 : 2, steps = 8 * each;
  for (unsigned lane = 0; lane < WARP; ++lane) {
    unsigned group = lane / 4, in_group = lane % 4;
    float values[4];
    for (unsigned i = 0; i < 4; ++i) {
      read_register(warp[lane].left[i], operand, values);
      for (unsigned part = 0; part < each; ++part)
        left[group + i % 2 * 8][in_group * each + part + i / 2 * steps / 2] = values[part];
    }
    for (unsigned i = 0; i < 2; ++i) {
      read_register(warp[lane].right[i], operand, values);
      for (unsigned part = 0; part < each; ++part)
        right[in_group * each + part + i * steps / 2][group] = values[part];
    }
  }
  for (unsigned lane = 0; lane < WARP; ++lane)
    for (unsigned i = 0; i < 4; ++i) {
      unsigned row = lane / 4 + (i < 2 ? 0 : 8), column = lane % 4 * 2 + (i & 1);
      float *sum = &warp[lane].registers[i];
      uint32_t bits;
      memcpy(&bits, sum, sizeof bits);
      for (unsigned k = 0; k < steps; ++k) {
        float product = left[row][k] * right[k][column];
        if (operand == S8)
          bits += (uint32_t)(int32_t)product;
        else
          *sum += product;
      }
      if (operand == S8)
        memcpy(sum, &bits, sizeof bits);
    }
  for (unsigned lane = 0; lane < WARP; ++lane)
    warp[lane].state = READY;
  return 1;
}

static int finish_barrier(void) {
  for (unsigned i = 0; i < machine.num_threads; ++i)
    if (machine.block->threads[i].state != AT_BARRIER ||
        machine.block->threads[i].site != machine.block->threads[0].site)
      return 0;
  for (unsigned i = 0; i < machine.num_threads; ++i) {
    machine.block->threads[i].state = READY;
    machine.block->threads[i].is_tensor_fenced = 0;
  }
  ++machine.block->num_barriers;
  return 1;
}

static void fail_divergence(void) {
  unsigned barrier = 0, warp = 0, phase = 0, cluster = 0, done = 0;
  for (unsigned rank = 0; rank < machine.cluster; ++rank)
    for (unsigned i = 0; i < machine.num_threads; ++i) {
      enum state state = machine.blocks[rank].threads[i].state;
      barrier += state == AT_BARRIER;
      warp += state == AT_SHUFFLE || state == AT_MMA || state == AT_MATRICES || state == AT_WGMMA;
      phase += state == AT_MBARRIER;
      cluster += state == AT_CLUSTER;
      done += state == DONE;
      if (state != DONE) {
        machine.block = &machine.blocks[rank];
        machine.current = i;
      }
    }
  fail("waits for ever: of %u threads %u are at a barrier, %u at an instruction of their whole "
       "warp or warpgroup, %u wait for a phase of a barrier, %u for their cluster and %u have "
       "ended, or they are not at the same one",
       machine.cluster * machine.num_threads, barrier, warp, phase, cluster, done);
}

static void begin_block(unsigned rank, unsigned number) {
  machine.block = &machine.blocks[rank];
  machine.block->number = number;
  machine.block->has_ended = 0;
  if (!machine.block->stacks)
    make_stacks();
  memset(machine.block->shared, EMULATOR_POISON, machine.shared_bytes);
  for (unsigned i = 0; i < machine.num_threads; ++i)
    make_fibre(i);
  begin_async();
  begin_banks();
}

/* Runs a block as far as it gets by itself. Returns whether it got anywhere. */
static int advance(struct block *block) {
  int has_moved = 0;
  machine.block = block;
  while (!block->has_ended) {
    int progress = 0;
    unsigned done = 0;
    for (unsigned i = 0; i < machine.num_threads && !machine.failed; ++i) {
      /* From the other end in every other block: no order is right by chance. */
      unsigned thread = block->number % 2 ? machine.num_threads - 1 - i : i;
      if (block->threads[thread].state == READY) {
        resume(thread);
        progress = 1;
      }
      done += block->threads[thread].state == DONE;
    }
    if (!machine.failed && done == machine.num_threads) {
      end_async();
      end_tensor_memory();
      end_banks();
      block->has_ended = progress = 1;
    }
    if (machine.failed)
      return 1;
    if (!block->has_ended)
      progress |= finish_barrier();
    for (unsigned i = 0; i < machine.num_threads; i += WARP)
      progress |= finish_shuffle(&block->threads[i]) || finish_product(&block->threads[i]) ||
                  finish_matrices(&block->threads[i]);
    for (unsigned i = 0; i + WARPGROUP <= machine.num_threads; i += WARPGROUP)
      progress |= finish_warpgroup(&block->threads[i]);
    progress |= finish_mbarriers();
    if (!progress)
      break;
    has_moved = 1;
  }
  return has_moved;
}

/* One block goes as far ahead of the others as they let it: in every other cluster the last one. */
static void run_cluster(unsigned first) {
  for (unsigned rank = 0; rank < machine.cluster; ++rank)
    begin_block(rank, first + rank);
  machine.cluster_phase = 0;
  int is_reversed = first / machine.cluster % 2;
  for (;;) {
    int progress = 0;
    unsigned ended = 0;
    for (unsigned i = 0; i < machine.cluster; ++i) {
      struct block *block = &machine.blocks[is_reversed ? machine.cluster - 1 - i : i];
      progress |= advance(block);
      ended += block->has_ended;
      if (machine.failed)
        return;
    }
    if (ended == machine.cluster)
      return;
    progress |= finish_cluster();
    for (unsigned i = 0; i < machine.cluster && !progress; ++i) {
      machine.block = &machine.blocks[is_reversed ? machine.cluster - 1 - i : i];
      progress = finish_box_copies() || finish_tensor_products();
    }
    if (!progress) {
      fail_divergence();
      return;
    }
  }
}

int emulator_launch(const char *name, void (*kernel)(void **arguments), CUcontext context,
                    void **arguments, unsigned grid, unsigned cluster, unsigned threads,
                    size_t shared_bytes, char *message, size_t message_size) {
  machine.name = name;
  machine.kernel = kernel;
  machine.context = context;
  machine.arguments = arguments;
  machine.num_threads = threads;
  machine.num_blocks = grid;
  machine.num_buffers = 0;
  begin_workspace();
  machine.shared_bytes = shared_bytes;
  machine.cluster = cluster;
  machine.block = &machine.blocks[0];
  machine.failed = 0;
  machine.message = message;
  machine.message_size = message_size;
  if (threads == 0 || threads > MAX_THREADS || threads % WARP || shared_bytes > 227 << 10 ||
      cluster == 0 || cluster > MAX_CLUSTER || grid % cluster) {
    machine.current = 0;
    fail("cannot be launched with %u blocks of %u threads and %zu bytes of shared memory, in "
         "clusters of %u",
         grid, threads, shared_bytes, cluster);
    return 1;
  }
  /* What the tensor cores are told of addresses are the last 18 bits. */
  for (unsigned rank = 0; rank < cluster; ++rank)
    if (posix_memalign((void **)&machine.blocks[rank].shared, 1 << 18, shared_bytes + 1))
      abort();
  for (unsigned first = 0; first < grid && !machine.failed; first += cluster)
    run_cluster(first);
  end_workspace();
  for (unsigned rank = 0; rank < cluster; ++rank)
    free(machine.blocks[rank].shared);
  return machine.failed;
}
