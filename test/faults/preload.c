/*===- preload.c - Calls of the system that fail -------------------------------===*
 *
 * LD_PRELOAD puts these functions before libc's. They count the calls that may fail and let some
 * fail, as a file says that KILN_FAULTS names: it is mapped, shared by the process that writes it
 * (injection.py) and all that count, children included. Calls may be counted only if they come
 * from one library; then what it allocates and leaves is counted, too.
 *
 *===-----------------------------------------------------------------------===*/
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

/* An interrupt is a signal right after a call that creates a file. */
enum { MEMORY = 1, SYSTEM = 2, INTERRUPT = 4 };

/* injection.py has the same fields. */
typedef struct {
  _Atomic int64_t active;
  int64_t kinds, at, and_later;
  uint64_t begin, end; /* the library's; 0: calls from everywhere are counted */
  _Atomic int64_t calls, hits;
  _Atomic int64_t blocks, mapped, files, threads; /* of the library, that are there */
  char function[32];
} control;

static control *shared;

#define EXPORT __attribute__((visibility("default")))
#define REAL(name) ((__typeof__(&name))find(#name))

static void *find(const char *name) {
  void *function = dlsym(RTLD_NEXT, name);
  if (!function)
    abort();
  return function;
}

void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *p, size_t size);
void *__libc_memalign(size_t align, size_t size);
void __libc_free(void *p);

__attribute__((constructor)) static void open_control(void) {
  const char *path = getenv("KILN_FAULTS");
  int file = path ? REAL(open)(path, O_RDWR | O_CLOEXEC) : -1;
  if (file < 0)
    return;
  control *mapped = REAL(mmap)(NULL, sizeof *mapped, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  REAL(close)(file);
  if (mapped != MAP_FAILED)
    shared = mapped;
}

static bool comes_from_library(const void *caller) {
  return (uintptr_t)caller >= shared->begin && (uintptr_t)caller < shared->end;
}

static bool is_watched(const void *caller) {
  return shared && shared->end && comes_from_library(caller);
}

static bool fails(const char *function, int kind, int error, const void *caller) {
  if (!shared || !atomic_load(&shared->active) || !(shared->kinds & kind) ||
      (shared->end && !comes_from_library(caller)))
    return false;
  int64_t call = atomic_fetch_add(&shared->calls, 1), at = shared->at;
  if (at < 0 || (shared->and_later ? call < at : call != at))
    return false;
  if (atomic_fetch_add(&shared->hits, 1) == 0)
    strncpy(shared->function, function, sizeof shared->function - 1);
  errno = error;
  return true;
}

#define FAILS(name, kind, error) fails(#name, kind, error, __builtin_return_address(0))
#define WATCHED() is_watched(__builtin_return_address(0))

/*===-- Memory --------------------------------------------------------------===*/

/* The library's blocks: whoever frees them, they are gone. */
enum { MOST = 1 << 16 };
static void *blocks[MOST];
static atomic_flag busy = ATOMIC_FLAG_INIT;

static size_t place_of(const void *p) { return ((uintptr_t)p >> 4) * 0x9e3779b1u % MOST; }

static void lock(void) {
  while (atomic_flag_test_and_set(&busy))
    sched_yield();
}

static void *watch(void *p, bool watched) {
  if (!p || !watched)
    return p;
  lock();
  size_t at = place_of(p);
  while (blocks[at] && blocks[at] != (void *)1)
    at = (at + 1) % MOST;
  blocks[at] = p;
  atomic_flag_clear(&busy);
  atomic_fetch_add(&shared->blocks, 1);
  return p;
}

static void forget(const void *p) {
  if (!p || !shared || !shared->end)
    return;
  lock();
  size_t at = place_of(p);
  while (blocks[at] && blocks[at] != p)
    at = (at + 1) % MOST;
  bool was_watched = blocks[at] == p;
  if (was_watched)
    blocks[at] = (void *)1; /* something was here */
  atomic_flag_clear(&busy);
  if (was_watched)
    atomic_fetch_sub(&shared->blocks, 1);
}

EXPORT void *malloc(size_t size) {
  return FAILS(malloc, MEMORY, ENOMEM) ? NULL : watch(__libc_malloc(size), WATCHED());
}

EXPORT void *calloc(size_t count, size_t size) {
  return FAILS(calloc, MEMORY, ENOMEM) ? NULL : watch(__libc_calloc(count, size), WATCHED());
}

EXPORT void *realloc(void *p, size_t size) {
  return FAILS(realloc, MEMORY, ENOMEM) ? NULL : __libc_realloc(p, size);
}

EXPORT void *aligned_alloc(size_t align, size_t size) {
  return FAILS(aligned_alloc, MEMORY, ENOMEM) ? NULL
                                              : watch(__libc_memalign(align, size), WATCHED());
}

EXPORT int posix_memalign(void **p, size_t align, size_t size) {
  void *memory = FAILS(posix_memalign, MEMORY, ENOMEM) ? NULL : __libc_memalign(align, size);
  if (memory)
    *p = watch(memory, WATCHED());
  return memory ? 0 : ENOMEM;
}

EXPORT void free(void *p) {
  forget(p);
  __libc_free(p);
}

static int64_t whole_pages(size_t bytes) { return (int64_t)((bytes + 4095) / 4096 * 4096); }

EXPORT void *mmap(void *at, size_t bytes, int access, int flags, int file, off_t offset) {
  if (FAILS(mmap, MEMORY, ENOMEM))
    return MAP_FAILED;
  void *p = REAL(mmap)(at, bytes, access, flags, file, offset);
  if (p != MAP_FAILED && WATCHED())
    atomic_fetch_add(&shared->mapped, whole_pages(bytes));
  return p;
}

EXPORT void *mmap64(void *at, size_t bytes, int access, int flags, int file, off_t offset) {
  return FAILS(mmap64, MEMORY, ENOMEM) ? MAP_FAILED
                                       : REAL(mmap)(at, bytes, access, flags, file, offset);
}

EXPORT int munmap(void *p, size_t bytes) {
  int status = REAL(munmap)(p, bytes);
  if (status == 0 && WATCHED())
    atomic_fetch_sub(&shared->mapped, whole_pages(bytes));
  return status;
}

EXPORT int mprotect(void *p, size_t bytes, int access) {
  return FAILS(mprotect, MEMORY, ENOMEM) ? -1 : REAL(mprotect)(p, bytes, access);
}

EXPORT int pthread_create(pthread_t *thread, const pthread_attr_t *how, void *(*start)(void *),
                          void *arg) {
  if (FAILS(pthread_create, MEMORY, EAGAIN))
    return EAGAIN;
  int status = REAL(pthread_create)(thread, how, start, arg);
  if (status == 0 && WATCHED())
    atomic_fetch_add(&shared->threads, 1);
  return status;
}

EXPORT int pthread_join(pthread_t thread, void **result) {
  int status = REAL(pthread_join)(thread, result);
  if (status == 0 && WATCHED())
    atomic_fetch_sub(&shared->threads, 1);
  return status;
}

/*===-- Files and processes -------------------------------------------------===*/

static int open_real(const char *path, int flags, va_list args, bool watched) {
  mode_t mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(args, mode_t) : 0;
  int file = REAL(open)(path, flags, mode);
  if (file >= 0 && watched)
    atomic_fetch_add(&shared->files, 1);
  return file;
}

#define OPEN(name)                                                                                 \
  EXPORT int name(const char *path, int flags, ...) {                                              \
    if (FAILS(name, SYSTEM, flags & O_CREAT ? ENOSPC : EMFILE))                                    \
      return -1;                                                                                   \
    va_list args;                                                                                  \
    va_start(args, flags);                                                                         \
    int file = open_real(path, flags, args, WATCHED());                                            \
    va_end(args);                                                                                  \
    if (file >= 0 && flags & O_CREAT && FAILS(name, INTERRUPT, errno))                             \
      raise(SIGTERM);                                                                              \
    return file;                                                                                   \
  }
OPEN(open)
OPEN(open64)

EXPORT int close(int file) {
  int status = REAL(close)(file);
  if (status == 0 && WATCHED())
    atomic_fetch_sub(&shared->files, 1);
  return status;
}

#define FAULTY(result, name, error, parameters, arguments)                                         \
  EXPORT result name parameters {                                                                  \
    return FAILS(name, SYSTEM, error) ? (result) - 1 : REAL(name) arguments;                       \
  }
FAULTY(ssize_t, pread, EIO, (int file, void *to, size_t bytes, off_t at), (file, to, bytes, at))
FAULTY(ssize_t, pread64, EIO, (int file, void *to, size_t bytes, off_t at), (file, to, bytes, at))
FAULTY(ssize_t, pwrite, ENOSPC, (int file, const void *from, size_t bytes, off_t at),
       (file, from, bytes, at))
FAULTY(off_t, lseek, ESPIPE, (int file, off_t offset, int from), (file, offset, from))
FAULTY(off_t, lseek64, ESPIPE, (int file, off_t offset, int from), (file, offset, from))
FAULTY(int, ftruncate, ENOSPC, (int file, off_t bytes), (file, bytes))
FAULTY(int, ftruncate64, ENOSPC, (int file, off_t bytes), (file, bytes))
FAULTY(int, rename, ENOSPC, (const char *from, const char *to), (from, to))
FAULTY(int, mkdir, ENOSPC, (const char *path, mode_t mode), (path, mode))
FAULTY(int, fstat, EIO, (int file, struct stat *status), (file, status))
FAULTY(int, dup, EMFILE, (int file), (file))
FAULTY(int, pipe2, EMFILE, (int ends[2], int flags), (ends, flags))
FAULTY(int, memfd_create, EMFILE, (const char *name, unsigned flags), (name, flags))
FAULTY(int, sched_getaffinity, EINVAL, (pid_t process, size_t bytes, cpu_set_t *mask),
       (process, bytes, mask))
FAULTY(pid_t, fork, EAGAIN, (void), ())

/* Between the threads of a process: there is no disk that could be full or broken. */
static bool is_pipe(int file) {
  struct stat status;
  return REAL(fstat)(file, &status) == 0 && S_ISFIFO(status.st_mode);
}

EXPORT ssize_t read(int file, void *to, size_t bytes) {
  return !is_pipe(file) && FAILS(read, SYSTEM, EIO) ? -1 : REAL(read)(file, to, bytes);
}

/* Errors have to be told. */
EXPORT ssize_t write(int file, const void *from, size_t bytes) {
  bool sound = file == STDERR_FILENO || is_pipe(file);
  return !sound && FAILS(write, SYSTEM, ENOSPC) ? -1 : REAL(write)(file, from, bytes);
}

/* It gives the error instead of setting it. */
EXPORT int posix_fallocate(int file, off_t from, off_t bytes) {
  return FAILS(posix_fallocate, SYSTEM, ENOSPC) ? ENOSPC : REAL(posix_fallocate)(file, from, bytes);
}

EXPORT int posix_fallocate64(int file, off_t from, off_t bytes) {
  return FAILS(posix_fallocate64, SYSTEM, ENOSPC) ? ENOSPC
                                                  : REAL(posix_fallocate)(file, from, bytes);
}
