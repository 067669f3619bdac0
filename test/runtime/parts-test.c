/* Functions of the runtime by themselves, with the system's answers put before them (--wrap): copies,
 * blocks, locks, how many CPUs there are, where the model's library is. */
#include "../../runtime/runtime.h"
#include "harness.h"

#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/mman.h>
#include <unistd.h>

/*===-- CPUs ----------------------------------------------------------------===*/

static const char *quota; /* what the cgroup's file has; NULL: there is none */
static int affinity = 6;  /* 0: the question fails */

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
  int ends[2];
  if (!strstr(path, "cpu.max"))
    return __real_open(path, flags, 0666);
  if (!quota || pipe(ends) != 0)
    return -1;
  CHECK(write(ends[1], quota, strlen(quota)) == (ssize_t)strlen(quota));
  close(ends[1]);
  return ends[0];
}

int __wrap_sched_getaffinity(pid_t process, size_t bytes, cpu_set_t *mask);
int __wrap_sched_getaffinity(pid_t process, size_t bytes, cpu_set_t *mask) {
  (void)process;
  memset(mask, 0xff, affinity / 8 < (int)bytes ? (size_t)affinity / 8 : bytes);
  ((unsigned char *)mask)[affinity / 8] = (unsigned char)((1 << affinity % 8) - 1);
  return affinity ? 0 : -1;
}

static int count_cpus(const char *text, int cpus) {
  quota = text;
  affinity = cpus;
  return kiln_usable_cpus();
}

static void test_cpus(void) {
  CHECK(count_cpus(NULL, 6) == 6 && count_cpus("", 6) == 6 && count_cpus("max 100000\n", 6) == 6);
  CHECK(count_cpus("200000 100000\n", 6) == 2 && count_cpus("150000 100000", 6) == 2);
  CHECK(count_cpus("1 100000\n", 6) == 1 && count_cpus("900000 100000", 6) == 6);
  CHECK(count_cpus("100000", 6) == 6 && count_cpus("100000 0", 6) == 6);
  CHECK(count_cpus("99999999999999 1", 6) == 6 && count_cpus("99999999999999 1", 4000) == 1024);
  CHECK(count_cpus(NULL, 0) == 1 && count_cpus("300000 100000", 0) == 1);
}

/*===-- The library ---------------------------------------------------------===*/

static const char *library;
static bool has_segment;

int __wrap_dl_iterate_phdr(int (*callback)(struct dl_phdr_info *, size_t, void *), void *arg);
int __wrap_dl_iterate_phdr(int (*callback)(struct dl_phdr_info *, size_t, void *), void *arg) {
  ElfW(Phdr) segments[] = {{.p_type = PT_NOTE},
                           {.p_type = PT_LOAD, .p_vaddr = 0, .p_memsz = 1},
                           {.p_type = PT_LOAD,
                            .p_vaddr = has_segment ? (uintptr_t)&kiln_program : 16,
                            .p_memsz = sizeof kiln_program}};
  struct dl_phdr_info info = {.dlpi_name = library, .dlpi_phdr = segments, .dlpi_phnum = 3};
  return callback(&info, sizeof info, arg);
}

static void test_object_path(void) {
  char path[16];
  has_segment = true;
  library = "/a/model.so";
  CHECK(kiln_object_path(path, sizeof path) && strcmp(path, library) == 0);
  CHECK(!kiln_object_path(path, strlen(library)));
  library = "";
  CHECK(!kiln_object_path(path, sizeof path));
  library = "/a/model.so";
  has_segment = false;
  CHECK(!kiln_object_path(path, sizeof path));
}

/*===-- Copies --------------------------------------------------------------===*/

/* A matrix is turned, with elements of each size. */
static void test_copies(void) {
  static const size_t items[] = {1, 2, 4, 8, 16, 12};
  enum { ROWS = 3, WIDTH = 5 };
  const int64_t shape[] = {ROWS, 1, WIDTH}, from_strides[] = {WIDTH, 99, 1},
                to_strides[] = {1, 77, ROWS};
  for (size_t k = 0; k < sizeof items / sizeof *items; ++k) {
    size_t item = items[k];
    unsigned char from[16 * ROWS * WIDTH], to[16 * ROWS * WIDTH];
    for (size_t i = 0; i < sizeof from; ++i)
      from[i] = (unsigned char)(i * 7);
    kiln_rt_copy(to, to_strides, from, from_strides, shape, 3, (int64_t)item);
    for (size_t r = 0; r < ROWS; ++r)
      for (size_t c = 0; c < WIDTH; ++c)
        CHECK(memcmp(to + (c * ROWS + r) * item, from + (r * WIDTH + c) * item, item) == 0);
    memset(to, 0, sizeof to);
    kiln_rt_copy(to, NULL, from, NULL, NULL, 0, (int64_t)item);
    CHECK(memcmp(to, from, item) == 0 && to[item] == 0);
    const int64_t empty[] = {2, 0};
    kiln_rt_copy(NULL, to_strides, NULL, from_strides, empty, 2, (int64_t)item);
  }
}

static void test_overlap(void) {
  const int64_t shape[] = {4, 1, 3}, apart[] = {3, 0, 1}, together[] = {2, 5, 1},
                empty[] = {4, 0, 3};
  CHECK(!kiln_may_overlap_itself(shape, apart, 3) && kiln_may_overlap_itself(shape, together, 3));
  CHECK(!kiln_may_overlap_itself(empty, together, 3) &&
        kiln_same_layout(empty, apart, together, 3));
  uint64_t bytes;
  const int64_t huge[] = {INT64_MAX / 2, 8}, strides[] = {INT64_MAX / 2, 1};
  CHECK(!kiln_bytes(huge, 2, 8, &bytes) && !kiln_extent(huge, strides, 2, 8, &bytes));
  CHECK(kiln_extent(empty, apart, 3, 4, &bytes) && bytes == 0);
}

/*===-- Memory and locks ----------------------------------------------------===*/

static void *give_odd(void *ctx, size_t bytes, size_t align) {
  (void)bytes, (void)align;
  return (char *)ctx + 8;
}
static void take_odd(void *ctx, void *p, size_t bytes, size_t align) {
  (void)bytes, (void)align;
  CHECK((char *)p == (char *)ctx + 8);
}

static bool is_odd; /* mappings begin behind a huge page's start */

void *__real_mmap(void *at, size_t bytes, int access, int flags, int file, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int access, int flags, int file, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int access, int flags, int file, off_t offset) {
  enum { PAGE = 4096, HUGE_PAGE = 2 << 20 };
  if (!is_odd)
    return __real_mmap(at, bytes, access, flags, file, offset);
  char *all = __real_mmap(at, bytes + 2 * HUGE_PAGE, access, flags, file, offset);
  CHECK(all != MAP_FAILED);
  char *from = all + HUGE_PAGE - (uintptr_t)all % HUGE_PAGE + PAGE, *end = from + bytes;
  munmap(all, (size_t)(from - all));
  munmap(end, (size_t)(all + bytes + 2 * HUGE_PAGE - end));
  return from;
}

/* Nothing is kept of what lies before and behind the block. */
static void test_odd_mapping(void) {
  kiln_allocator own = {0};
  kiln_block block = {0};
  is_odd = true;
  CHECK(kiln_block_reserve(&block, &own, 5 << 20));
  is_odd = false;
  char *data = block.data;
  CHECK((uintptr_t)data % (2 << 20) == 0);
  memset(data, 1, block.bytes);
  CHECK(msync(data - 4096, 4096, MS_ASYNC) != 0 && msync(data + (6 << 20), 4096, MS_ASYNC) != 0);
  kiln_block_free(&block, &own);
  CHECK(msync(data, 4096, MS_ASYNC) != 0);
}

static void test_blocks(void) {
  kiln_allocator own = {0};
  kiln_block block = {0};
  CHECK(!kiln_allocate(&own, SIZE_MAX - 5) && !kiln_block_reserve(&block, &own, SIZE_MAX / 2 - 5));
  CHECK(kiln_block_reserve(&block, &own, 100) && kiln_block_reserve(&block, &own, 5 << 20));
  CHECK((uintptr_t)block.data % (2 << 20) == 0 && block.bytes == 5 << 20);
  memset(block.data, 1, block.bytes);
  kiln_block_free(&block, &own);
  kiln_block_free(&block, &own);
  CHECK(!block.data && !block.bytes);
  _Alignas(64) char memory[128];
  kiln_allocator odd = {give_odd, take_odd, memory};
  CHECK(!kiln_allocate(&odd, 4));
}

static kiln_mutex mutex;
static long counter;

static void *count_up(void *arg) {
  for (int i = 0; i < 20000; ++i) {
    kiln_lock(&mutex);
    ++counter;
    if (i % 1000 == 0)
      usleep(100); /* so that others wait */
    kiln_unlock(&mutex);
  }
  return arg;
}

static void test_locks(void) {
  pthread_t threads[3];
  for (int i = 0; i < 3; ++i)
    CHECK(pthread_create(&threads[i], NULL, count_up, NULL) == 0);
  for (int i = 0; i < 3; ++i)
    pthread_join(threads[i], NULL);
  CHECK(counter == 60000);
}

int main(void) {
  test_cpus();
  test_object_path();
  test_copies();
  test_overlap();
  test_blocks();
  test_odd_mapping();
  test_locks();
  puts("parts-test: passed");
  return 0;
}
