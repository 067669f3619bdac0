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
  emulator_switch(&machine.threads[machine.current].stack_pointer, machine.scheduler);
}

static void fibre_main(void) {
  machine.kernel(machine.arguments);
  end_thread_async();
  machine.threads[machine.current].state = DONE;
  to_scheduler();
  abort(); /* a thread that has ended does not go on */
}

static char *stack_of(unsigned thread) {
  return machine.stacks + thread * (GUARD_BYTES + STACK_BYTES) + GUARD_BYTES;
}

static void make_fibre(unsigned thread) {
  void **top = (void **)(stack_of(thread) + STACK_BYTES);
  *--top = NULL; /* where fibre_main would return to: entered as if called */
  *--top = (void *)fibre_main;
  for (int i = 0; i < 6; ++i)
    *--top = NULL;
  machine.threads[thread].stack_pointer = top;
  machine.threads[thread].state = READY;
  machine.threads[thread].num_copies = machine.threads[thread].groups = 0;
}

static void resume(unsigned thread) {
  machine.current = thread;
  emulator_switch(&machine.scheduler, machine.threads[thread].stack_pointer);
}

static void make_stacks(void) {
  size_t bytes = MAX_THREADS * (GUARD_BYTES + STACK_BYTES);
  machine.stacks =
      mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (machine.stacks == MAP_FAILED)
    abort();
  for (unsigned i = 0; i < MAX_THREADS; ++i)
    mprotect(stack_of(i) - GUARD_BYTES, GUARD_BYTES, PROT_NONE);
}

/*===-- Errors --------------------------------------------------------------===*/

void fail(const char *format, ...) {
  if (machine.failed)
    return;
  machine.failed = 1;
  int used =
      snprintf(machine.message, machine.message_size,
               "kernel %s, block %u, thread %u: ", machine.name, machine.block, machine.current);
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
EXPORT int32_t kiln_emulator_block(void) { return (int32_t)machine.block; }
EXPORT int32_t kiln_emulator_blocks(void) { return (int32_t)machine.num_blocks; }
EXPORT void *kiln_emulator_shared(void) { return machine.shared; }

void wait_at(enum state state, int32_t site) {
  machine.threads[machine.current].state = state;
  machine.threads[machine.current].site = site;
  to_scheduler();
}

EXPORT void kiln_emulator_barrier(int32_t site) { wait_at(AT_BARRIER, site); }

EXPORT int32_t kiln_emulator_shuffle(int32_t value, int32_t distance, int32_t site) {
  struct thread *self = &machine.threads[machine.current];
  self->value = value;
  self->distance = distance;
  wait_at(AT_SHUFFLE, site);
  return self->received;
}

EXPORT void kiln_emulator_mma(const void *left, const void *right, float *sums, int32_t operand,
                              int32_t site) {
  struct thread *self = &machine.threads[machine.current];
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

/* ex2.approx.ftz */
EXPORT float kiln_emulator_exp2(float value) {
  float result = exp2f(value);
  return result < FLT_MIN ? 0 : result;
}

static uint32_t round_to_bf16(float value) {
  uint32_t bits;
  memcpy(&bits, &value, sizeof bits);
  if (value != value)
    return 0x7fff;
  return (bits + 0x7fff + (bits >> 16 & 1)) >> 16;
}

/* cvt.rn.bf16 */
EXPORT int32_t kiln_emulator_round_to_bf16(float value) { return (int32_t)round_to_bf16(value); }

/* cvt.rn.bf16x2 */
EXPORT int32_t kiln_emulator_pack_bf16(float high, float low) {
  return (int32_t)(round_to_bf16(high) << 16 | round_to_bf16(low));
}

/* ldmatrix: 8 lanes' rows of 16 bytes are a matrix. */
EXPORT void kiln_emulator_load_matrices(void *row, uint32_t *registers, int32_t num,
                                        int32_t is_transposed, int32_t site) {
  struct thread *self = &machine.threads[machine.current];
  unsigned lane = machine.current % WARP;
  self->row = lane < 8 * (unsigned)num ? kiln_emulator_access(row, 16, 0) : NULL;
  self->loaded = registers;
  self->num_matrices = num;
  self->is_transposed = is_transposed;
  wait_at(AT_MATRICES, site);
}

/* `given` bytes of `bytes` are copied, the others are zero. */
EXPORT void kiln_emulator_copy(void *to, void *from, int32_t bytes, int32_t given) {
  struct thread *self = &machine.threads[machine.current];
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

EXPORT void kiln_emulator_commit(void) { ++machine.threads[machine.current].groups; }

/* Until at most `left` groups are under way. */
EXPORT void kiln_emulator_wait(int32_t left) {
  struct thread *self = &machine.threads[machine.current];
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
      if (address % (uintptr_t)(bytes < 16 ? bytes : 16) == 0)
        return (void *)(address & ~EMULATOR_DEVICE_BIT);
      fail("%s %lld bytes of buffer %u at an address that is not a multiple of that",
           writes ? "writes" : "reads", (long long)bytes, i);
      stop();
    }
  if (is_inside(address, bytes, (uintptr_t)stack_of(machine.current), STACK_BYTES))
    return pointer;
  if (is_inside(address, bytes, (uintptr_t)machine.shared, machine.shared_bytes)) {
    if (address % (uintptr_t)(bytes < 16 ? bytes : 16) == 0) {
      if (writes)
        note_write(address, (size_t)bytes);
      return pointer;
    }
    fail("%s %lld bytes of shared memory at an address that is not a multiple of that",
         writes ? "writes" : "reads", (long long)bytes);
    stop();
  }
  if (is_inside(address, 0, (uintptr_t)machine.shared, machine.shared_bytes))
    fail("%s %lld bytes at %llu of %zu bytes of shared memory", writes ? "writes" : "reads",
         (long long)bytes, (unsigned long long)(address - (uintptr_t)machine.shared),
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
      machine.current = (unsigned)(warp - machine.threads) + 8 * matrix;
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

float widen(uint16_t bits, enum operand operand) {
  float value;
  if (operand == F16) {
    _Float16 half;
    memcpy(&half, &bits, sizeof half);
    return (float)half;
  }
  uint32_t wide = (uint32_t)bits << 16;
  memcpy(&value, &wide, sizeof value);
  return value;
}

/* What a tensor core sees of an operand's register: two elements, or one. */
static void read_register(uint32_t bits, enum operand operand, float values[2]) {
  if (operand == TF32) {
    bits &= ~0x1fffu;
    memcpy(values, &bits, sizeof bits);
    return;
  }
  values[0] = widen((uint16_t)bits, operand);
  values[1] = widen((uint16_t)(bits >> 16), operand);
}

/* m16n8k16, TF32: m16n8k8, with the places that the PTX ISA gives the fragments. */
static int finish_product(struct thread *warp) {
  float left[16][16], right[16][8];
  for (unsigned lane = 0; lane < WARP; ++lane)
    if (warp[lane].state != AT_MMA || warp[lane].site != warp[0].site)
      return 0;
  enum operand operand = warp[0].operand;
  unsigned each = operand == TF32 ? 1 : 2, steps = 8 * each;
  for (unsigned lane = 0; lane < WARP; ++lane) {
    unsigned group = lane / 4, in_group = lane % 4;
    float values[2];
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
      for (unsigned k = 0; k < steps; ++k)
        warp[lane].registers[i] += left[row][k] * right[k][column];
    }
  for (unsigned lane = 0; lane < WARP; ++lane)
    warp[lane].state = READY;
  return 1;
}

static int finish_barrier(void) {
  for (unsigned i = 0; i < machine.num_threads; ++i)
    if (machine.threads[i].state != AT_BARRIER ||
        machine.threads[i].site != machine.threads[0].site)
      return 0;
  for (unsigned i = 0; i < machine.num_threads; ++i)
    machine.threads[i].state = READY;
  ++machine.num_barriers;
  return 1;
}

static void fail_divergence(void) {
  unsigned barrier = 0, warp = 0, phase = 0, done = 0;
  for (unsigned i = 0; i < machine.num_threads; ++i) {
    barrier += machine.threads[i].state == AT_BARRIER;
    warp += machine.threads[i].state == AT_SHUFFLE || machine.threads[i].state == AT_MMA ||
            machine.threads[i].state == AT_MATRICES || machine.threads[i].state == AT_WGMMA;
    phase += machine.threads[i].state == AT_MBARRIER;
    done += machine.threads[i].state == DONE;
  }
  for (unsigned i = 0; i < machine.num_threads; ++i)
    if (machine.threads[i].state != DONE)
      machine.current = i;
  fail(
      "waits for ever: of %u threads %u are at a barrier, %u at an instruction of their whole warp "
      "or warpgroup, %u wait for a phase of a barrier and %u have ended, or they are not at the "
      "same one",
      machine.num_threads, barrier, warp, phase, done);
}

static void run_block(void) {
  memset(machine.shared, EMULATOR_POISON, machine.shared_bytes);
  for (unsigned i = 0; i < machine.num_threads; ++i)
    make_fibre(i);
  begin_async();
  for (;;) {
    unsigned done = 0;
    for (unsigned i = 0; i < machine.num_threads && !machine.failed; ++i) {
      /* From the other end in every other block: no order is right by chance. */
      unsigned thread = machine.block % 2 ? machine.num_threads - 1 - i : i;
      if (machine.threads[thread].state == READY)
        resume(thread);
      done += machine.threads[thread].state == DONE;
    }
    if (machine.failed)
      return;
    if (done == machine.num_threads) {
      end_async();
      return;
    }
    int progress = finish_barrier();
    for (unsigned i = 0; i < machine.num_threads; i += WARP)
      progress |= finish_shuffle(&machine.threads[i]) || finish_product(&machine.threads[i]) ||
                  finish_matrices(&machine.threads[i]);
    for (unsigned i = 0; i + WARPGROUP <= machine.num_threads; i += WARPGROUP)
      progress |= finish_warpgroup(&machine.threads[i]);
    progress |= finish_mbarriers();
    if (!progress && !finish_box_copies()) {
      fail_divergence();
      return;
    }
  }
}

int emulator_launch(const char *name, void (*kernel)(void **arguments), CUcontext context,
                    void **arguments, unsigned grid, unsigned threads, size_t shared_bytes,
                    char *message, size_t message_size) {
  if (!machine.stacks)
    make_stacks();
  machine.name = name;
  machine.kernel = kernel;
  machine.context = context;
  machine.arguments = arguments;
  machine.num_threads = threads;
  machine.num_blocks = grid;
  machine.num_buffers = 0;
  machine.shared_bytes = shared_bytes;
  machine.failed = 0;
  machine.message = message;
  machine.message_size = message_size;
  if (threads == 0 || threads > MAX_THREADS || threads % WARP || shared_bytes > 227 << 10) {
    machine.current = 0;
    fail("cannot be launched with %u threads and %zu bytes of shared memory", threads,
         shared_bytes);
    return 1;
  }
  /* What the tensor cores are told of addresses are the last 18 bits. */
  if (posix_memalign((void **)&machine.shared, 1 << 18, shared_bytes + 1))
    abort();
  for (machine.block = 0; machine.block < grid && !machine.failed; ++machine.block)
    run_block();
  free(machine.shared);
  return machine.failed;
}
