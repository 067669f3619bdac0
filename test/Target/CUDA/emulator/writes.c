/*===- writes.c - What threads write where hardware reads -------------------===*
 *
 * Products of warpgroups see what threads have written to shared memory, or copied there
 * asynchronously, only behind a fence of the thread for their way of access; and nobody
 * may write what products under way still read.
 *
 *===-----------------------------------------------------------------------===*/
#include "machine.h"

#include <string.h>

#define CHUNK 16

/* Who has written a chunk of shared memory last, and how many fences it had made. */
static struct {
  unsigned thread; /* plus 1; 0: nobody, or hardware */
  unsigned fences;
} writers[MAX_SHARED_BYTES / CHUNK];

static unsigned chunk_of(uintptr_t address) {
  return (unsigned)((address - (uintptr_t)machine.shared) / CHUNK);
}

void begin_writes(void) {
  memset(writers, 0, (machine.shared_bytes + CHUNK - 1) / CHUNK * sizeof writers[0]);
  for (unsigned i = 0; i < machine.num_threads; ++i)
    machine.threads[i].fences = 0;
}

void note_write(uintptr_t begin, size_t bytes) {
  if (is_read_by_products(begin, bytes)) {
    fail("writes to shared memory that products under way read");
    stop();
  }
  for (unsigned i = chunk_of(begin); i <= chunk_of(begin + bytes - 1); ++i) {
    writers[i].thread = machine.current + 1;
    writers[i].fences = machine.threads[machine.current].fences;
  }
}

void note_box(uintptr_t begin, size_t bytes) {
  for (unsigned i = chunk_of(begin); i <= chunk_of(begin + bytes - 1); ++i)
    writers[i].thread = 0;
}

void note_fence(void) { ++machine.threads[machine.current].fences; }

void check_writes(uintptr_t begin, size_t bytes) {
  for (unsigned i = chunk_of(begin); i <= chunk_of(begin + bytes - 1); ++i) {
    unsigned writer = writers[i].thread;
    if (writer && machine.threads[writer - 1].fences == writers[i].fences) {
      fail("multiplies what thread %u has written and not fenced", writer - 1);
      return;
    }
  }
  for (unsigned i = 0; i < machine.num_threads; ++i)
    for (unsigned copy = 0; copy < machine.threads[i].num_copies; ++copy) {
      uintptr_t to = (uintptr_t)machine.threads[i].copies[copy].to;
      if (to < begin + bytes && begin < to + (size_t)machine.threads[i].copies[copy].bytes) {
        fail("multiplies what thread %u has not waited for", i);
        return;
      }
    }
}
