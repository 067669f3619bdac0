/*===- faults.c - Calls of the system that fail --------------------------------===*
 *
 * main runs the scenario of a test without a fault, then for every call of the system and, where
 * there is one, of the GPU's driver: that one fails, or it and all later ones, or, where it can, it
 * does half of its work or is interrupted. Each time the status has to be one that such a failure
 * has, with a message; what was allocated, mapped, opened and started has to be gone, and the same
 * call has to be right the next time. With FAULTS_STEP=n it is every n-th call.
 *
 *===-----------------------------------------------------------------------===*/
#include "faults.h"
#include "fault-driver.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

typedef enum { FAIL_ONCE, FAIL_FROM_HERE, DO_LESS, INTERRUPT, NUM_MODES } fault_mode;
static const char *const mode_names[] = {"fails", "fails, and all after it", "does half",
                                         "is interrupted"};

static struct {
  bool active; /* between faults_begin and faults_end */
  long calls, at;
  fault_mode mode;
  const char *hit; /* the function that has failed; NULL: none */
  bool is_memory;  /* one that allocates memory or a thread */
  bool accepted, is_over;
  long faults, refused;
} now;

const fault_driver_controls *faults_driver;

static atomic_long live_blocks, live_files, live_threads;
static atomic_llong live_mapped;

/*===-- Counting ------------------------------------------------------------===*/

/* True if this call fails in one of the ways that `modes` has bits for. */
static bool is_hit(const char *function, bool is_memory, unsigned modes) {
  if (!now.active)
    return false;
  long call = now.calls++;
  bool hit = now.mode == FAIL_FROM_HERE ? call >= now.at : call == now.at;
  if (!hit || !(modes & (1u << now.mode)))
    return false;
  if (!now.hit) {
    now.hit = function;
    now.is_memory = is_memory;
  }
  return true;
}

enum {
  FAILS = 1u << FAIL_ONCE | 1u << FAIL_FROM_HERE,
  MAY_DO_LESS = 1u << DO_LESS,
  MAY_BE_INTERRUPTED = 1u << INTERRUPT
};

static bool fails(const char *function, bool is_memory, int error) {
  if (!is_hit(function, is_memory, FAILS))
    return false;
  errno = error;
  return true;
}

void faults_begin(void) {
  now.active = true;
  if (faults_driver)
    faults_driver->count(true);
}

void faults_end(void) {
  now.active = false;
  if (faults_driver)
    faults_driver->count(false);
}

/*===-- Memory --------------------------------------------------------------===*/

void *__real_calloc(size_t count, size_t size);
void *__wrap_calloc(size_t count, size_t size) {
  if (fails("calloc", true, ENOMEM))
    return NULL;
  void *p = __real_calloc(count, size);
  live_blocks += p != NULL;
  return p;
}

void *__real_malloc(size_t size);
void *__wrap_malloc(size_t size) {
  if (fails("malloc", true, ENOMEM))
    return NULL;
  void *p = __real_malloc(size);
  live_blocks += p != NULL;
  return p;
}

int __real_posix_memalign(void **p, size_t align, size_t size);
int __wrap_posix_memalign(void **p, size_t align, size_t size) {
  if (fails("posix_memalign", true, ENOMEM))
    return ENOMEM;
  int status = __real_posix_memalign(p, align, size);
  live_blocks += status == 0;
  return status;
}

void __real_free(void *p);
void __wrap_free(void *p) {
  live_blocks -= p != NULL;
  __real_free(p);
}

static size_t whole_pages(size_t bytes) { return (bytes + 4095) / 4096 * 4096; }

void *__real_mmap(void *at, size_t bytes, int access, int flags, int file, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int access, int flags, int file, off_t offset) {
  if (fails("mmap", true, ENOMEM))
    return MAP_FAILED;
  void *p = __real_mmap(at, bytes, access, flags, file, offset);
  if (p != MAP_FAILED)
    live_mapped += (long long)whole_pages(bytes);
  return p;
}

int __real_munmap(void *p, size_t bytes);
int __wrap_munmap(void *p, size_t bytes) {
  int status = __real_munmap(p, bytes);
  if (status == 0)
    live_mapped -= (long long)whole_pages(bytes);
  return status;
}

int __real_mprotect(void *p, size_t bytes, int access);
int __wrap_mprotect(void *p, size_t bytes, int access) {
  return fails("mprotect", true, ENOMEM) ? -1 : __real_mprotect(p, bytes, access);
}

int __real_madvise(void *p, size_t bytes, int advice);
int __wrap_madvise(void *p, size_t bytes, int advice) {
  return fails("madvise", true, EINVAL) ? -1 : __real_madvise(p, bytes, advice);
}

/*===-- Threads -------------------------------------------------------------===*/

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*start)(void *),
                          void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*start)(void *),
                          void *arg) {
  if (fails("pthread_create", true, EAGAIN))
    return EAGAIN;
  int status = __real_pthread_create(thread, how, start, arg);
  live_threads += status == 0;
  return status;
}

int __real_pthread_join(pthread_t thread, void **result);
int __wrap_pthread_join(pthread_t thread, void **result) {
  int status = __real_pthread_join(thread, result);
  live_threads -= status == 0;
  return status;
}

int __real_sched_getaffinity(pid_t process, size_t bytes, cpu_set_t *mask);
int __wrap_sched_getaffinity(pid_t process, size_t bytes, cpu_set_t *mask) {
  return fails("sched_getaffinity", false, EINVAL) ? -1
                                                   : __real_sched_getaffinity(process, bytes, mask);
}

/*===-- Files ---------------------------------------------------------------===*/

int __real_open(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...) {
  va_list args;
  va_start(args, flags);
  mode_t mode = flags & O_CREAT ? va_arg(args, mode_t) : 0;
  va_end(args);
  if (fails("open", false, flags & O_CREAT ? ENOSPC : EMFILE))
    return -1;
  int file = __real_open(path, flags, mode);
  live_files += file >= 0;
  return file;
}

int __real_close(int file);
int __wrap_close(int file) {
  int status = __real_close(file);
  live_files -= status == 0;
  /* An error of the disk, told late. */
  return fails("close", false, EIO) ? -1 : status;
}

off_t __real_lseek(int file, off_t offset, int from);
off_t __wrap_lseek(int file, off_t offset, int from) {
  return fails("lseek", false, ESPIPE) ? -1 : __real_lseek(file, offset, from);
}

static bool is_short(const char *function, size_t *bytes) {
  if (*bytes < 2 || now.mode != DO_LESS || !is_hit(function, false, MAY_DO_LESS))
    return false;
  *bytes /= 2;
  return true;
}

static bool is_interrupted(const char *function) {
  if (now.mode != INTERRUPT || !is_hit(function, false, MAY_BE_INTERRUPTED))
    return false;
  errno = EINTR;
  return true;
}

ssize_t __real_read(int file, void *to, size_t bytes);
ssize_t __wrap_read(int file, void *to, size_t bytes) {
  if (now.mode < DO_LESS && fails("read", false, EIO))
    return -1;
  is_short("read", &bytes);
  return is_interrupted("read") ? -1 : __real_read(file, to, bytes);
}

ssize_t __real_pread(int file, void *to, size_t bytes, off_t offset);
ssize_t __wrap_pread(int file, void *to, size_t bytes, off_t offset) {
  if (now.mode < DO_LESS && fails("pread", false, EIO))
    return -1;
  is_short("pread", &bytes);
  return is_interrupted("pread") ? -1 : __real_pread(file, to, bytes, offset);
}

ssize_t __real_write(int file, const void *from, size_t bytes);
ssize_t __wrap_write(int file, const void *from, size_t bytes) {
  if (now.mode < DO_LESS && fails("write", false, ENOSPC))
    return -1;
  is_short("write", &bytes);
  return is_interrupted("write") ? -1 : __real_write(file, from, bytes);
}

int __real_mkdir(const char *path, mode_t mode);
int __wrap_mkdir(const char *path, mode_t mode) {
  return fails("mkdir", false, ENOSPC) ? -1 : __real_mkdir(path, mode);
}

/*===-- Libraries -----------------------------------------------------------===*/

void *__real_dlopen(const char *path, int flags);
void *__wrap_dlopen(const char *path, int flags) {
  return fails("dlopen", false, ENOMEM) ? NULL : __real_dlopen(path, flags);
}

void *__real_dlsym(void *library, const char *name);
void *__wrap_dlsym(void *library, const char *name) {
  return fails("dlsym", false, ENOENT) ? NULL : __real_dlsym(library, name);
}

/*===-- Scenarios -----------------------------------------------------------===*/

/* The function that the call has failed in, of the system or of the driver. */
static const char *get_hit(bool *is_memory) {
  const char *function = faults_driver ? faults_driver->hit() : NULL;
  *is_memory = false;
  if (function)
    return function;
  *is_memory = now.is_memory;
  return now.hit;
}

void faults_accept(int32_t status, const char *call) {
  bool is_memory;
  const char *hit = get_hit(&is_memory);
  bool is_right =
      hit && !now.accepted && status > KILN_OK && status < KILN_INTERNAL && kiln_last_error()[0];
  /* The rest of the work is done the next time, within the call. */
  is_right = is_right && now.mode != DO_LESS && now.mode != INTERRUPT;
  /* Calls that allocate fail for want of memory, whatever else could not be had later. */
  if (is_memory && now.mode == FAIL_ONCE)
    is_right = is_right && status == KILN_OUT_OF_MEMORY;
  if (!is_right) {
    printf("%s gives status %d and \"%s\"\n", call, (int)status, kiln_last_error());
    exit(1);
  }
  now.accepted = true;
  ++now.refused;
  now.at = -1;
  now.mode = FAIL_ONCE;
  if (faults_driver)
    faults_driver->arm(-1, false, 0);
}

static long get_live_on_device(void) { return faults_driver ? faults_driver->live() : 0; }

static void arm(long at, fault_mode mode, int error) {
  now.at = error ? -1 : at;
  now.mode = error ? FAIL_ONCE : mode;
  now.calls = 0;
  now.hit = NULL;
  now.accepted = false;
  if (faults_driver)
    faults_driver->arm(error ? at : -1, mode == FAIL_FROM_HERE,
                       error ? error : FAULT_DRIVER_BROKEN);
}

void faults_each(int32_t (*call)(void)) {
  int32_t status = KILN_INTERNAL;
  /* First the driver's first call, then those of the system until none fails. */
  for (long at = faults_driver ? -1 : 0; status != KILN_OK; ++at) {
    arm(at < 0 ? 0 : at, FAIL_ONCE, at < 0 ? FAULT_DRIVER_BROKEN : 0);
    faults_begin();
    status = call();
    faults_end();
    if (status == KILN_OK)
      break;
    faults_accept(status, "what a process does once");
    ++now.faults;
  }
}

static void check_live(long blocks, long files, long threads, long long mapped, long device) {
  bool has_lost = faults_driver && faults_driver->lost();
  if (live_blocks == blocks && live_files == files && live_threads == threads &&
      live_mapped == mapped && (has_lost || get_live_on_device() == device))
    return;
  printf("left are %ld blocks, %ld files, %ld threads, %lld bytes of mappings, %ld of the GPU\n",
         live_blocks - blocks, live_files - files, live_threads - threads, live_mapped - mapped,
         get_live_on_device() - device);
  exit(1);
}

/* Runs the scenario with a fault at a call of the system or, where `error` is one, of the driver;
 * returns how many calls there were. */
static long inject(long at, fault_mode mode, int error) {
  long blocks = live_blocks, files = live_files, threads = live_threads;
  long long mapped = live_mapped;
  long device = get_live_on_device();
  arm(at, mode, error);
  scenario();
  bool is_memory;
  now.faults += get_hit(&is_memory) != NULL;
  now.mode = mode;
  check_live(blocks, files, threads, mapped, device);
  return now.calls;
}

static void tell_fault(void) {
  bool is_memory;
  const char *hit = get_hit(&is_memory);
  if (hit && !now.is_over)
    printf("%s %s\n", hit, mode_names[now.mode]);
}

int main(int argc, char **argv) {
  CHECK(atexit(tell_fault) == 0);
  set_up(argc, argv);
  const char *given = getenv("FAULTS_STEP");
  long step = given ? atol(given) : 1;
  CHECK(step > 0);
  inject(-1, FAIL_ONCE, 0); /* what is made once for a process is there now */
  long calls = inject(-1, FAIL_ONCE, 0), driver_calls = faults_driver ? faults_driver->calls() : 0;
  for (fault_mode mode = FAIL_ONCE; mode < NUM_MODES; ++mode)
    for (long at = 0; at < calls; at += step)
      inject(at, mode, 0);
  static const int errors[] = {FAULT_DRIVER_MEMORY, FAULT_DRIVER_BROKEN}; /* once; and for good */
  for (int i = 0; i < 2; ++i)
    for (int mode = FAIL_ONCE; mode <= i; ++mode)
      for (long at = 0; at < driver_calls; at += step)
        inject(at, (fault_mode)mode, errors[i]);
  now.is_over = true;
  CHECK(now.faults >= (calls + driver_calls) / step && now.refused > 0);
  printf("%ld calls of the system, %ld of the driver: %ld faults, %ld of them made a call fail\n",
         calls, driver_calls, now.faults, now.refused);
  return 0;
}
