/*===- fault-driver.c - A GPU's driver whose calls fail -------------------------===*
 *
 * A libcuda.so.1 before the one that FAULT_DRIVER names. Each function counts its call and goes on
 * to the real one, or gives an error instead. What gives something back does so and fails
 * nevertheless, as a driver would that tells of an earlier error.
 *
 *===-----------------------------------------------------------------------===*/
#include "fault-driver.h"
#include "../../runtime/cuda/driver.h"

#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>

#define EXPORT __attribute__((visibility("default")))

#define NUMBER(name, parameters) NUMBER_##name,
enum { KILN_CUDA_FUNCTIONS(NUMBER) KILN_CUDA_NEWER_FUNCTIONS(NUMBER) NUM_FUNCTIONS };
#define NAME(name, parameters) #name,
static const char *const names[] = {KILN_CUDA_FUNCTIONS(NAME) KILN_CUDA_NEWER_FUNCTIONS(NAME)};

__attribute__((visibility("hidden"))) void *fault_driver_real[NUM_FUNCTIONS];
static size_t (*memory_in_use)(bool host);

static struct {
  bool counts, and_later, lost;
  long calls, at, live;
  int error;
  const char *hit;
} now = {.at = -1};

__attribute__((constructor)) static void open_driver(void) {
  const char *path = getenv("FAULT_DRIVER");
  void *library = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!library) {
    fprintf(stderr, "fault-driver: FAULT_DRIVER has to name a driver\n");
    abort();
  }
  for (int i = 0; i < NUM_FUNCTIONS; ++i)
    fault_driver_real[i] = dlsym(library, names[i]);
  *(void **)&memory_in_use = dlsym(library, "emulator_memory_in_use");
}

static bool is_hit(int number) {
  if (!now.counts)
    return false;
  long call = now.calls++;
  bool hit = now.at >= 0 && (now.and_later ? call >= now.at : call == now.at);
  if (hit && !now.hit)
    now.hit = names[number];
  now.lost |= hit && number == NUMBER_cuCtxPushCurrent_v2;
  return hit;
}

/* The number that a call adds to what is there. */
static int get_change(int number) {
  switch (number) {
  case NUMBER_cuDevicePrimaryCtxRetain:
  case NUMBER_cuCtxPushCurrent_v2:
  case NUMBER_cuModuleLoadData:
  case NUMBER_cuEventCreate:
  case NUMBER_cuGraphCreate:
  case NUMBER_cuGraphInstantiateWithFlags:
  case NUMBER_cuMemPoolCreate:
    return 1;
  case NUMBER_cuDevicePrimaryCtxRelease_v2:
  case NUMBER_cuCtxPopCurrent_v2:
  case NUMBER_cuModuleUnload:
  case NUMBER_cuEventDestroy_v2:
  case NUMBER_cuGraphDestroy:
  case NUMBER_cuGraphExecDestroy:
  case NUMBER_cuMemPoolDestroy:
    return -1;
  default:
    return 0;
  }
}

static bool is_always_done(int number) {
  return get_change(number) < 0 || number == NUMBER_cuMemFree_v2 ||
         number == NUMBER_cuMemFreeHost || number == NUMBER_cuStreamSynchronize ||
         number == NUMBER_cuCtxSynchronize || number == NUMBER_cuEventSynchronize;
}

/* 0: go on to the real function; -1: call it, then fault_driver_end; otherwise the error. */
__attribute__((visibility("hidden"))) int fault_driver_begin(int number) {
  if (get_change(number) == 0 && !is_always_done(number))
    return is_hit(number) ? now.error : 0;
  return !is_always_done(number) && is_hit(number) ? now.error : -1;
}

__attribute__((visibility("hidden"))) int fault_driver_end(int number, int result) {
  if (result == CUDA_SUCCESS)
    now.live += get_change(number);
  return is_always_done(number) && is_hit(number) ? now.error : result;
}

/* The number of the function is in r11, its arguments where it expects them. */
__asm__(".text\n"
        ".hidden fault_driver_call\n"
        ".globl fault_driver_call\n"
        "fault_driver_call:\n"
        "  push %rdi\n  push %rsi\n  push %rdx\n  push %rcx\n  push %r8\n  push %r9\n  push %r11\n"
        "  mov %r11d, %edi\n"
        "  call fault_driver_begin\n"
        "  pop %r11\n  pop %r9\n  pop %r8\n  pop %rcx\n  pop %rdx\n  pop %rsi\n  pop %rdi\n"
        "  cmp $0, %eax\n"
        "  jg 1f\n"
        "  lea fault_driver_real(%rip), %r10\n"
        "  mov (%r10,%r11,8), %r10\n"
        "  jl 2f\n"
        "  jmp *%r10\n"
        "1: ret\n"
        /* At most six arguments. */
        "2: push %r11\n"
        "  call *%r10\n"
        "  pop %rdi\n"
        "  mov %eax, %esi\n"
        "  jmp fault_driver_end\n");

/* Code that counts would overwrite arguments. */
#define FUNCTION(name, parameters)                                                                 \
  EXPORT __attribute__((naked, no_profile_instrument_function)) void name(void) {                  \
    __asm__("mov %0, %%r11d\n  jmp fault_driver_call" ::"i"(NUMBER_##name));                       \
  }
KILN_CUDA_FUNCTIONS(FUNCTION)
KILN_CUDA_NEWER_FUNCTIONS(FUNCTION)

/*===-- Controls ------------------------------------------------------------===*/

static void count(bool counts) { now.counts = counts; }

static void arm(long at, bool and_later, int error) {
  now.at = at;
  now.and_later = and_later;
  now.error = error;
  if (error) {
    now.hit = NULL;
    now.lost = false;
    now.calls = 0;
  }
}

static long get_calls(void) { return now.calls; }
static const char *get_hit(void) { return now.hit; }
static bool has_lost(void) { return now.lost; }
static long get_live(void) {
  return now.live + (long)memory_in_use(false) + (long)memory_in_use(true);
}

EXPORT const fault_driver_controls fault_driver = {count,   arm,      get_calls,
                                                   get_hit, has_lost, get_live};
