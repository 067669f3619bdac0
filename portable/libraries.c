/*===- libraries.c - Newer functions of glibc for libraries on older systems ------------------------===*
 *
 * As glibc.c, for the libraries that models load. They catch exceptions, which is why libgcc's own
 * functions are the system's here.
 *
 *===----------------------------------------------------------------------------------------------===*/
#include "old.h"

OLD(dlerror, "GLIBC_2.2.5");
OLD(dlopen, "GLIBC_2.2.5");
OLD(dlsym, "GLIBC_2.2.5");
OLD(__pthread_key_create, "GLIBC_2.2.5");
OLD(pthread_once, "GLIBC_2.2.5");

/* libstdc++ may leave out atomic instructions if this is set, which glibc would keep up to date. */
__attribute__((visibility("hidden"))) char __libc_single_threaded = 0;
