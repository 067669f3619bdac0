/*===- write.c - Writing to files --------------------------------------------===*/
#include "write.h"

#include <errno.h>
#include <unistd.h>

bool kiln_write(int file, const void *data, uint64_t bytes) {
  const char *from = data;
  while (bytes) {
    ssize_t written = write(file, from, bytes < 1u << 30 ? bytes : 1u << 30);
    if (written < 0 && errno == EINTR)
      continue;
    if (written <= 0)
      return false;
    from += written;
    bytes -= (uint64_t)written;
  }
  return true;
}
