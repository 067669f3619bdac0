/* Copies a buffer of so many bytes to another one, under the commands of protocol.h. Usage: copy BYTES */
#include "protocol.h"

static char *from, *to;
static size_t bytes;

static void copy(void) {
  memcpy(to, from, bytes);
  __asm__ volatile("" ::: "memory"); /* somebody reads it */
}

int main(int argc, char **argv) {
  if (argc != 2)
    die("usage", "copy BYTES");
  bytes = strtoull(argv[1], NULL, 10);
  size_t rounded = (bytes + 63) / 64 * 64;
  from = aligned_alloc(64, rounded);
  to = aligned_alloc(64, rounded);
  if (!from || !to)
    die("copy", "no memory");
  memset(from, 1, rounded);
  memset(to, 1, rounded);
  return serve(copy);
}
