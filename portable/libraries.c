/*===- libraries.c - Newer functions of glibc for libraries on older systems ------------------------===*
 *
 * As glibc.c, for the libraries that models load. They catch exceptions, which is why libgcc's own
 * functions are the system's here.
 *
 *===----------------------------------------------------------------------------------------------===*/
#include "old.h"

#include <pthread.h>
#include <time.h>

OLD(dlclose, "GLIBC_2.2.5");
OLD(dlerror, "GLIBC_2.2.5");
OLD(dlopen, "GLIBC_2.2.5");
OLD(dlsym, "GLIBC_2.2.5");
OLD(pthread_create, "GLIBC_2.2.5");
OLD(pthread_detach, "GLIBC_2.2.5");
OLD(pthread_join, "GLIBC_2.2.5");
OLD(__pthread_key_create, "GLIBC_2.2.5");
OLD(pthread_mutex_trylock, "GLIBC_2.2.5");
OLD(pthread_once, "GLIBC_2.2.5");

/* libstdc++ may leave out atomic instructions if this is set, which glibc would keep up to date. */
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;

/* Waits by the wall clock, the only one that older conditions know. */
__attribute__((visibility("hidden"))) int pthread_cond_clockwait(pthread_cond_t *condition,
                                                                 pthread_mutex_t *mutex,
                                                                 clockid_t clock,
                                                                 const struct timespec *end) {
  struct timespec now, until;
  clock_gettime(clock, &now);
  clock_gettime(CLOCK_REALTIME, &until);
  until.tv_sec += end->tv_sec - now.tv_sec;
  until.tv_nsec += end->tv_nsec - now.tv_nsec;
  if (until.tv_nsec >= 1000000000) {
    until.tv_nsec -= 1000000000;
    ++until.tv_sec;
  } else if (until.tv_nsec < 0) {
    until.tv_nsec += 1000000000;
    --until.tv_sec;
  }
  return pthread_cond_timedwait(condition, mutex, &until);
}
