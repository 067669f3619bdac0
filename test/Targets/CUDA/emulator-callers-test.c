/*===- emulator-callers-test.c - Hosts that the emulator stops --------------===*
 *
 * Callers of the driver, each of which breaks one of its rules, in a process of its own.
 *
 *===-----------------------------------------------------------------------===*/
#include "emulator-calls.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

void kiln_emulator_buffer(void *address, int64_t bytes);

static char numbers[128];

static void touch(void) { *(volatile char *)(uintptr_t)allocate_on(0) = 1; }
static void use_freed(void) {
  CUdeviceptr memory = allocate_on(0);
  cuMemFree_v2(memory);
  cuMemcpyHtoDAsync_v2(memory, numbers, 64, NULL);
}
static void use_freed_in_kernel(void) {
  CUdeviceptr memory = allocate_on(0);
  cuMemFree_v2(memory);
  machine.context = current();
  kiln_emulator_buffer((void *)(uintptr_t)memory, 64);
}
static void free_twice(void) {
  CUdeviceptr memory = allocate_on(0);
  cuMemFree_v2(memory);
  cuMemFree_v2(memory);
}
static void use_others(void) {
  CUdeviceptr memory = allocate_on(0);
  allocate_on(1);
  cuMemcpyHtoDAsync_v2(memory, numbers, 64, NULL);
}
static void use_too_much(void) { cuMemcpyHtoDAsync_v2(allocate_on(0), numbers, 65, NULL); }
/* Its device is the first one. */
static CUmemoryPool make_pool(void) {
  CUmemPoolProps properties = {.allocType = CU_MEM_ALLOCATION_TYPE_PINNED,
                               .location = {CU_MEM_LOCATION_TYPE_DEVICE, 0}};
  CUmemoryPool pool;
  allocate_on(0);
  cuMemPoolCreate(&pool, &properties);
  return pool;
}
/* Nobody else waits for what uses memory of a pool. */
static void free_used(void) {
  CUdeviceptr memory;
  cuMemAllocFromPoolAsync(&memory, 64, make_pool(), NULL);
  cuMemcpyHtoDAsync_v2(memory, numbers, 64, NULL);
  cuMemFree_v2(memory);
  cuStreamSynchronize(NULL);
}
static void use_destroyed_pool(void) {
  CUdeviceptr memory;
  CUmemoryPool pool = make_pool();
  cuMemPoolDestroy(pool);
  cuMemAllocFromPoolAsync(&memory, 64, pool, NULL);
}
/* What streams have not come to yet counts. */
static void destroy_used_pool(void) {
  CUdeviceptr memory;
  CUmemoryPool pool = make_pool();
  cuMemAllocFromPoolAsync(&memory, 64, pool, NULL);
  cuMemFreeAsync(memory, NULL);
  cuMemPoolDestroy(pool);
}
static void use_others_pool(void) {
  CUdeviceptr memory;
  CUmemoryPool pool = make_pool();
  allocate_on(1);
  cuMemAllocFromPoolAsync(&memory, 64, pool, NULL);
}
static void free_pinned(void) {
  void *memory;
  CUdeviceptr to = allocate_on(0);
  cuMemHostAlloc(&memory, 64, 0);
  cuMemcpyHtoDAsync_v2(to, memory, 64, NULL);
  cuMemFreeHost(memory);
}

static const struct {
  void (*call)(void);
  const char *message; /* NULL: the host faults */
} callers[] = {{touch, NULL},
               {use_freed, "memory that has been freed"},
               {use_freed_in_kernel, "memory that has been freed"},
               {free_twice, "freed twice"},
               {free_used, "memory that has been freed"},
               {use_others, "on device 1 uses memory of device 0"},
               {use_too_much, "uses 65 bytes at 0 of 64"},
               {use_destroyed_pool, "memory of a pool that is destroyed"},
               {destroy_used_pool, "a pool is destroyed while its memory is in use"},
               {use_others_pool, "memory of another device's pool"},
               {free_pinned, "pinned memory is freed that is still to be read"}};

/* The call ends the process that is made for it. */
static int ends(void (*call)(void), const char *message) {
  int ends[2], status = 0;
  char text[512] = "";
  if (pipe(ends))
    return 0;
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    call();
    _exit(0);
  }
  close(ends[1]);
  for (size_t at = 0, got = 1; got > 0 && at + 1 < sizeof text; at += got) {
    ssize_t count = read(ends[0], text + at, sizeof text - 1 - at);
    got = count > 0 ? (size_t)count : 0;
  }
  close(ends[0]);
  waitpid(child, &status, 0);
  if (message)
    return WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT && strstr(text, message);
  return WIFSIGNALED(status) && (WTERMSIG(status) == SIGSEGV || WTERMSIG(status) == SIGBUS);
}

int main(void) {
  int failures = 0;
  setenv("KILN_EMULATOR_DEVICES", "2", 1);
  for (size_t i = 0; i < sizeof callers / sizeof callers[0]; ++i)
    if (!ends(callers[i].call, callers[i].message)) {
      fprintf(stderr, "caller %zu is not stopped\n", i);
      ++failures;
    }
  return failures != 0;
}
