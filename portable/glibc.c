/*===- glibc.c - Newer functions of glibc for older systems ---------------------------------------===*
 *
 * The archives of LLVM, lld and libstdc++ that portable tools are linked with were compiled against a
 * newer glibc than the tools run on. Here is what that one lacks: functions under the version that
 * they had, and those that are new. `auditwheel` checks that nothing is missing.
 *
 *===----------------------------------------------------------------------------------------------===*/
#define _GNU_SOURCE
#include "old.h"

#include <dlfcn.h>
#include <errno.h>
#include <malloc.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

/*===-- Functions with a newer version ------------------------------------------------------------===*/

OLD(exp, "GLIBC_2.2.5");
OLD(exp2, "GLIBC_2.2.5");
OLD(log, "GLIBC_2.2.5");
OLD(log2, "GLIBC_2.2.5");
OLD(pow, "GLIBC_2.2.5");
OLD(dladdr, "GLIBC_2.2.5");
OLD(dlclose, "GLIBC_2.2.5");
OLD(dlerror, "GLIBC_2.2.5");
OLD(dlopen, "GLIBC_2.2.5");
OLD(dlsym, "GLIBC_2.2.5");
OLD(pthread_attr_setstacksize, "GLIBC_2.2.5");
OLD(pthread_create, "GLIBC_2.2.5");
OLD(pthread_detach, "GLIBC_2.2.5");
OLD(pthread_getname_np, "GLIBC_2.12");
OLD(pthread_join, "GLIBC_2.2.5");
OLD(__pthread_key_create, "GLIBC_2.2.5");
OLD(pthread_once, "GLIBC_2.2.5");
OLD(pthread_rwlock_rdlock, "GLIBC_2.2.5");
OLD(pthread_rwlock_unlock, "GLIBC_2.2.5");
OLD(pthread_rwlock_wrlock, "GLIBC_2.2.5");
OLD(pthread_setname_np, "GLIBC_2.12");
OLD(pthread_sigmask, "GLIBC_2.2.5");

/*===-- The start of the program ------------------------------------------------------------------===*/

typedef void (*constructor)(int argc, char **argv, char **environment);
extern constructor __preinit_array_start[], __preinit_array_end[];
extern constructor __init_array_start[], __init_array_end[];
extern void (*__fini_array_start[])(void), (*__fini_array_end[])(void);
extern void _init(void), _fini(void);

extern int start_main(int (*main)(int, char **, char **), int argc, char **argv, constructor init,
                      void (*fini)(void), void (*end_of_loader)(void), void *stack);
__asm__(".symver start_main, __libc_start_main@GLIBC_2.2.5");

/* glibc called these itself from version 2.34 on; an older one calls what the program hands it. */
static void construct(int argc, char **argv, char **environment) {
  for (constructor *function = __preinit_array_start; function != __preinit_array_end; ++function)
    (*function)(argc, argv, environment);
  _init();
  for (constructor *function = __init_array_start; function != __init_array_end; ++function)
    (*function)(argc, argv, environment);
}

static void destroy(void) {
  for (void (**function)(void) = __fini_array_end; function != __fini_array_start;)
    (*--function)();
  _fini();
}

__attribute__((visibility("hidden"))) int
__libc_start_main(int (*main)(int, char **, char **), int argc, char **argv, constructor init,
                  void (*fini)(void), void (*end_of_loader)(void), void *stack) {
  (void)init, (void)fini;
  return start_main(main, argc, argv, construct, destroy, end_of_loader, stack);
}

/*===-- New functions -----------------------------------------------------------------------------===*/

/* The kernel's structure is glibc's on x86-64. */
int stat(const char *path, struct stat *status) { return (int)syscall(SYS_stat, path, status); }
int lstat(const char *path, struct stat *status) { return (int)syscall(SYS_lstat, path, status); }
int fstat(int file, struct stat *status) { return (int)syscall(SYS_fstat, file, status); }
int stat64(const char *path, struct stat64 *status) { return (int)syscall(SYS_stat, path, status); }
int lstat64(const char *path, struct stat64 *status) {
  return (int)syscall(SYS_lstat, path, status);
}
int fstat64(int file, struct stat64 *status) { return (int)syscall(SYS_fstat, file, status); }
int mknod(const char *path, mode_t mode, dev_t device) {
  return (int)syscall(SYS_mknod, path, mode, device);
}

/* LLVM adds it up for --debug-pass and the like. */
struct mallinfo2 mallinfo2(void) { return (struct mallinfo2){0}; }

/* For names of temporary files and for seeds of hashes; up to 256 bytes come at once. */
void arc4random_buf(void *buffer, size_t bytes) {
  for (char *to = buffer; bytes;) {
    size_t part = bytes < 256 ? bytes : 256;
    if (getrandom(to, part, 0) != (ssize_t)part)
      abort();
    to += part;
    bytes -= part;
  }
}

uint32_t arc4random(void) {
  uint32_t number;
  arc4random_buf(&number, sizeof(number));
  return number;
}

/* Nothing in the tools catches an exception: one that is thrown ends the program either way. */
int _dl_find_object(void *address, struct dl_find_object *result) {
  (void)address, (void)result;
  return -1;
}

/* libstdc++ may leave out atomic instructions if this is set, which glibc would keep up to date. */
char __libc_single_threaded = 0;
