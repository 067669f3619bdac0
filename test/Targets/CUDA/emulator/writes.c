/*===- writes.c - What threads write where hardware reads -------------------===*
 *
 * Products of warpgroups see what threads have written to shared memory, or copied there
 * asynchronously, only behind a fence of the thread for their way of access; and nobody
 * may write what products under way still read.
 *
 *===-----------------------------------------------------------------------===*/
#include "machine.h"

#include <string.h>

static unsigned chunk_of(uintptr_t address) {
  return (unsigned)((address - (uintptr_t)machine.block->shared) / CHUNK);
}

void begin_writes(void) {
  memset(machine.block->writers, 0,
         (machine.shared_bytes + CHUNK - 1) / CHUNK * sizeof machine.block->writers[0]);
  for (unsigned i = 0; i < machine.num_threads; ++i)
    machine.block->threads[i].fences = 0;
}

void note_write(uintptr_t begin, size_t bytes) {
  if (is_read_by_products(machine.block, begin, bytes)) {
    fail("writes to shared memory that products under way read");
    stop();
  }
  for (unsigned i = chunk_of(begin); i <= chunk_of(begin + bytes - 1); ++i) {
    machine.block->writers[i].thread = machine.current + 1;
    machine.block->writers[i].fences = machine.block->threads[machine.current].fences;
  }
}

void note_box(uintptr_t begin, size_t bytes) {
  for (unsigned i = chunk_of(begin); i <= chunk_of(begin + bytes - 1); ++i)
    machine.block->writers[i].thread = 0;
}

void note_fence(void) { ++machine.block->threads[machine.current].fences; }

void check_writes(uintptr_t begin, size_t bytes) {
  for (unsigned i = chunk_of(begin); i <= chunk_of(begin + bytes - 1); ++i) {
    unsigned writer = machine.block->writers[i].thread;
    if (writer && machine.block->threads[writer - 1].fences == machine.block->writers[i].fences) {
      fail("multiplies what thread %u has written and not fenced", writer - 1);
      return;
    }
  }
  for (unsigned i = 0; i < machine.num_threads; ++i)
    for (unsigned copy = 0; copy < machine.block->threads[i].num_copies; ++copy) {
      uintptr_t to = (uintptr_t)machine.block->threads[i].copies[copy].to;
      if (to < begin + bytes && begin < to + (size_t)machine.block->threads[i].copies[copy].bytes) {
        fail("multiplies what thread %u has not waited for", i);
        return;
      }
    }
}
